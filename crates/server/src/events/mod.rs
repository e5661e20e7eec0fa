//! Events over HTTP, and their life within the process.
//!
//! ```text
//! call: body, problem ─┬► publish, admin ─► icecore_events::Events, of this instance
//!                      └► search, metric_query, catalog, series ─► AllEvents, of all instances
//! ```
//!
//! Holds always: handlers here know HTTP and nothing of events; `icecore_events` knows nothing of
//! HTTP.

pub(crate) mod admin;
mod call;
pub(crate) mod catalog;
mod lifecycle;
mod lists;
mod log_records;
pub(crate) mod metric_query;
mod multipart;
mod partitions;
pub(crate) mod publish;
mod registry_files;
pub(crate) mod search;
pub(crate) mod series;
mod sql;

pub(crate) use lifecycle::{RunningEvents, open, with_shards};
pub(crate) use log_records::LogEnvelopes;
