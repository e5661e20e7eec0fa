//! `/api/query`: series by metric and tags, downsampled, as rates, aggregated.
//!
//! ```text
//! GET m=, POST JSON ─► QueryRequest ─► PlannedQuery (aggregator, downsampler, window)
//!                                          │ Selector: names, filters, groups
//! SeriesSource ─► batches ─► Execution: downsample ─► rate ─► groups ─► ResultSeries ─► JSON
//! ```
//!
//! Holds always:
//! - Whole hours are read around the window; what lies outside of it takes part in downsampling,
//!   rates and interpolation, but not in the answer.
//! - A series takes part in its group from its first to its last point and nowhere else; rates take
//!   part from the beginning.
//! - Integers are computed as integers as long as all series have integers; downsampled values and
//!   rates are floats.
//! - Groups, and the series of a group, are in the order of UIDs.

mod aggregator;
mod annotations;
mod answer;
mod average;
mod buckets;
mod delete;
mod dense;
mod downsample;
mod downsampler;
mod echo;
mod endpoint;
mod execution;
mod filter;
mod fold;
mod get;
mod graph;
mod group;
mod histogram;
mod interpolate;
mod names;
mod number;
mod percentile;
mod points;
pub(crate) mod post;
mod rate;
mod renamed;
mod request;
mod rolled;
mod rows;
mod run;
mod selector;
mod series_key;
mod steps;
mod table;
mod tsuids;
mod window;

pub(crate) use aggregator::{Aggregator, Function, Interpolation};
pub(crate) use annotations::global_annotations;
pub(crate) use answer::AnswerWriter;
pub(crate) use downsampler::{Downsampler, FillPolicy, Interval};
pub(crate) use endpoint::parse_times_and_flags;
pub(crate) use endpoint::query;
pub(crate) use filter::{FilterKind, TagFilter};
pub(crate) use get::parse_m;
pub(crate) use graph::{graph, names_format};
pub(crate) use group::ResultSeries;
pub(crate) use rate::RateOptions;
pub(crate) use request::{PlannedSubQuery, QueryRequest, SubQuery};
pub(crate) use rolled::RolledReport;
pub(crate) use rows::ResultPoints;
pub(crate) use run::{RunOptions, run};
pub(crate) use series_key::NameKey;
pub(crate) use window::{Scan, Window};
