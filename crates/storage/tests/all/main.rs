//! The public surface of storage, from outside.

mod compaction;
mod concurrency;
mod faults;
mod inspect;
mod limits;
mod model;
mod precedence;
mod process;
mod recovery;
mod requests;
mod round_trip;
mod support;
