//! OpenTSDB through the crate's public API, over stores in memory.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]
#![allow(
    clippy::print_stdout,
    reason = "how many recorded answers agree should be seen"
)]

mod catalog;
mod conformance;
mod model;
mod query_examples;
