//! What is fuzzed: one file per crate that takes bytes or queries from outside, and one each for
//! what coarse buckets hold and for what is stored of events.

pub mod columns;
pub mod events;
pub mod exposition;
pub mod histograms;
mod hostile_series;
pub mod opentsdb;
pub mod opentsdb_api;
pub mod promql;
pub mod promql_labels;
pub mod records;
pub mod rollup;
pub mod transfer;
pub mod wire;
