//! OpenTSDB 2.4 on the series that PromQL sees.
//!
//! ```text
//! HTTP request ─► api ─► query, uid, annotation, tree, search …  ─► answer
//! telnet line  ─► telnet ─► put ─► model::SampleStore (points, and the UIDs they need)
//!                           query ◄─ model::SeriesSource, model::Catalog
//! ```
//!
//! A metric with tags is the series whose `__name__` is the metric, and whose other labels are the
//! tags. Names get identifiers (UIDs) when they are first written; the catalog keeps them.
//!
//! Holds always:
//! - Answers are those of OpenTSDB 2.4.1, except for a list of deviations in `docs/opentsdb.md`.
//! - A UID is durable before the points that need it are acknowledged, and never names two things.
//! - Nothing here knows sockets or storage: points, series and records go through `model`'s traits.

mod aggregator_names;
mod allowance;
mod annotation;
pub mod api;
mod catalog;
mod catalog_key;
mod config;
mod counters;
mod error;
mod exp;
mod gexp;
pub mod hbase;
pub mod histogram;
mod java;
mod json;
mod json_object;
mod label_names;
mod meta;
mod name;
mod numbers;
mod plot;
mod put;
mod query;
mod query_log;
mod record_field;
mod refusals;
mod request;
mod response;
mod rollup;
mod series;
mod series_cache;
mod stats;
pub mod telnet;
#[cfg(feature = "testing")]
pub mod testing;
mod time;
pub mod transfer;
pub mod translate;
mod tree;
mod tsd;
mod uid;
mod version;

pub use allowance::Allowance;
pub use config::{Config, ConfigFile, ConfigNote, Mode};
pub use error::Error;
pub use label_names::LabelIndex;
pub use refusals::{RefusalReason, Refusals};
pub use tsd::{PointDeletion, Stores, Tsd};
pub use uid::tsuid::Tsuid;
pub use uid::{NameLimits, Uid, UidKind};
