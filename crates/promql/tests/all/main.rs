//! PromQL through its public API: scripts with their expected answers, and queries over generated
//! data.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]
#![allow(
    clippy::print_stdout,
    reason = "which scripts ran, and which were skipped, should be seen"
)]

mod conformance;
mod details;
mod differential;
mod explain;
mod generated;
mod hostile;
mod implied;
mod limits;
mod memory;
mod rolled;
mod rules;
