//! SQL over events, by DataFusion.
//!
//! ```text
//! text ─► one statement that only reads ─► plan ─► files and tail of a view, columns of the query
//!                                               └► cells of a view as rollup tables
//! ```
//!
//! Holds always:
//! - A query sees one state of all events, each of them once, and none that is too old to be kept.
//! - Queries run on threads of their own, with limits of time and memory, and end when nobody waits
//!   for them any more.
//! - Functions are those on a list, and texts that they make count towards the memory.
//! - So do texts that operators repeat or copy. Plans have a limit of their own, which is looked at
//!   before they are optimized.
//! - Nothing but events and cells can be read, and nothing can be written.
//!
//! Without the feature `sql` this crate is empty, so that a build of everything else is quick.

#![cfg(feature = "sql")]

mod answer;
mod bounded;
mod engine;
mod event_batches;
mod event_table;
mod functions;
mod json_get;
mod plan_limits;
mod pushdown;
mod query_memory;
mod query_size;
mod request;
mod rollup_rows;
mod rollup_table;
mod row_memory;
mod scanned;
mod source;
mod statement;
mod steps;
mod tables;
mod text_functions;
mod text_lengths;
mod timed_rule;
mod written_out;

pub use engine::{SqlEngine, SqlLimits};
pub use request::{SqlAnswer, SqlFormat, SqlRequest};
