//! SlateDB, opened and configured for this database. No other module opens it.
//!
//! ```text
//! StoreOptions ─► location ─► object_store ─► engine (the one writer) ─► read_view
//!                    │             │             ├ observed_store ─► health ─► watch
//!                    └ lock_file   ├ kept_directory, local_creates: what a directory needs
//!                                  │             ├ segment_extractor, merge_operator
//!                                  │             ├ scheduler: drains, joins ─► worker
//!                                  │             ├ garbage: what nothing refers to, at once
//!                                  │             └ slate_metrics
//!                                  └──────────► reader (of another process, writes nothing)
//!                                                  └ follower: the latest state of it, for long
//! ```
//!
//! Holds always:
//! - One writer per database: whoever opened last. The one before it is fenced. A local directory
//!   is not opened while another process has it, unless told so.
//! - Every wait for the store is bounded, first contact by time and reads by a number of retries,
//!   but for writes of a running database: those are repeated until they succeed, and the log, the
//!   metrics and readiness say so.
//!
//! Elsewhere: what the keys and values mean (`records`), when something is written (`journal`,
//! `flush`), what is drained when (`journal`, `maintenance`).

mod collector;
pub(crate) mod engine;
pub(crate) mod event_files;
#[cfg(feature = "testing")]
pub(crate) mod faults;
pub(crate) mod fetch;
mod first_contact;
pub(crate) mod follower;
pub(crate) mod garbage;
pub(crate) mod health;
mod joins;
mod kept_directory;
mod local_creates;
pub(crate) mod location;
mod lock_file;
mod merge_operator;
pub(crate) mod object_store;
mod observed_store;
mod page_cache;
mod permissions;
pub(crate) mod read_view;
pub(crate) mod reader;
mod readers;
mod scheduler;
mod segment_extractor;
mod segment_set;
pub(crate) mod slate_metrics;
pub(crate) mod snapshots;
mod staged_files;
mod stepped_clock;
pub(crate) mod tick_clock;
mod tuning;
mod watch;
mod worker;

#[cfg(test)]
mod tests;
