//! The journal: the write-ahead log of the head, one SlateDB record per group of requests.
//!
//! ```text
//! request ─ block, sequence number ─► commit ─ one record, one WAL flush ─► acknowledged
//! start-up: records ─► replay ─► head          flushed hours ─► drain: epochs go, oldest first
//! ```
//!
//! Holds always:
//! - Blocks reach the store in the order of their sequence numbers, which is the order of appends.
//! - A request is acknowledged only after its block is durable.
//! - An epoch is drained only when all it holds lies in buckets and all of it could be read.
//! - A start reads the epochs that hold something which is in no bucket, and no others where it can
//!   tell.
//!
//! Elsewhere: byte layout (`records::journal`), who gives out sequence numbers (`head::Sequencer`).

mod commit;
mod decoded;
mod drain;
mod replay;
mod summary;

pub(crate) use commit::{Durable, Journal, WriteTime};
pub(crate) use drain::drain_epochs;
pub use replay::ReplayProgress;
pub(crate) use replay::recover;
pub(crate) use summary::{forget_unreadable, summarize_epochs};
