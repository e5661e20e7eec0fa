//! The public surface of storage, from outside.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod all_levels;
mod backfill;
mod catalog;
mod chunk_cache;
mod coarse_reading;
mod coarsen;
mod compaction;
mod concurrency;
mod deletion;
mod deltas;
mod events;
mod exemplars;
mod failing_store;
mod faults;
mod guarded_clock;
mod inspect;
mod interleavings;
mod late_data;
mod limits;
mod maintenance;
mod model;
mod old_databases;
mod precedence;
mod pressed;
mod process;
mod quarantine;
mod recovery;
mod requests;
mod rollup;
mod rollup_histograms;
mod round_trip;
mod snapshots;
mod support;
mod year;
