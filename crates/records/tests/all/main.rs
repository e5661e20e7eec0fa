//! The stored format from outside: golden bytes, round trips, merge laws, damage.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on should stop where it stands"
)]

mod event_merge;
mod golden;
mod golden_coarse;
mod golden_deltas;
mod golden_events;
mod golden_rollup;
mod histogram_columns;
mod limits;
mod merge_laws;
mod round_trip;
mod samples;
mod truncation;
