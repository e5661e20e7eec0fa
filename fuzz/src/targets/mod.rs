//! What is fuzzed: one file per crate that takes bytes or queries from outside.

pub mod histograms;
mod hostile_series;
pub mod promql;
pub mod records;
pub mod wire;
