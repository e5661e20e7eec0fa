//! OpenTSDB through the crate's public API, over stores in memory.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]
#![allow(
    clippy::print_stdout,
    reason = "how many recorded answers agree should be seen"
)]

mod catalog;
mod conformance;
mod deletion;
mod forms;
mod graph;
mod limits;
mod model;
mod original;
mod other_clients;
mod query_examples;
mod refusals;
mod rolled;
mod rollup_rows;
mod transfer;
mod translate;
mod unsettled;
