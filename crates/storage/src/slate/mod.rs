//! SlateDB, opened and configured for this database. No other module opens it.
//!
//! ```text
//! StoreOptions ─► location ─► object_store ─► engine (the one writer) ─► read_view
//!                                  │             ├ segment_extractor, merge_operator
//!                                  │             ├ scheduler: journal left alone, drains, joins ─► worker
//!                                  │             ├ garbage: what nothing refers to, at once
//!                                  │             └ slate_metrics
//!                                  └──────────► reader (of another process, writes nothing)
//! ```
//!
//! Holds always:
//! - One writer per database: whoever opened last. The one before it is fenced.
//! - Every wait for the store is bounded: first contact by time, everything later by a number of
//!   retries per request.
//!
//! Elsewhere: what the keys and values mean (`records`), when something is written (`journal`,
//! `flush`), what is drained when (`journal`, `maintenance`).

pub(crate) mod engine;
#[cfg(feature = "testing")]
pub(crate) mod faults;
mod first_contact;
pub(crate) mod garbage;
mod joins;
mod local_creates;
pub(crate) mod location;
mod merge_operator;
pub(crate) mod object_store;
pub(crate) mod read_view;
pub(crate) mod reader;
mod scheduler;
mod segment_extractor;
mod segment_set;
pub(crate) mod slate_metrics;
pub(crate) mod snapshots;
mod staged_files;
mod still_clock;
mod tuning;
mod worker;

#[cfg(test)]
mod tests;
