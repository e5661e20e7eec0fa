//! Rollups and pre-aggregates that clients compute and write.
//!
//! They are series of their own, so that no query counts a point twice: of metric `m`, sums over an
//! hour are the metric `m:1h-sum` with the label `__rollup__="1h-sum"` besides the tags. A colon is
//! in no metric name of OpenTSDB, and the label tells them from what PromQL rules record.

mod config;
mod kind;

pub(crate) use icecore_model::ROLLUP_LABEL;

pub(crate) use config::{RollupConfig, RollupInterval, RowSpan};
pub(crate) use kind::{RollupKind, base_metric, base_of};
