//! `icecore export` and `icecore import`: data out of a server into a file, and in again.
//!
//! ```text
//! export: slices of time ─► FILE.part ─► FILE        FILE.state says how far it is
//! import: FILE ─► chunks of whole lines or frames ─► server      FILE.progress says how far it is
//! ```
//!
//! Holds always:
//! - Whenever either is interrupted, `--resume` continues after the last complete slice or chunk.
//!   A chunk that was stored and not noted is stored again, which changes nothing.
//! - A file with its own name is complete.

pub(crate) mod chunks;
pub(crate) mod export;
mod export_run;
pub(crate) mod import;
mod opentsdb;
pub(crate) mod progress;
mod rolled_up_time;
mod slices;
pub(crate) mod state_file;
mod target;
mod upload;
