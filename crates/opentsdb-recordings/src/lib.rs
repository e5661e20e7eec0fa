//! Requests with what a real OpenTSDB 2.4.1 answered, for tests that replay them.
//!
//! ```text
//! recordings ─► groups ─► steps ─► Request ─► (a process, or the API in memory) ─► Answer
//!                           └──────────────── compare ◄─── deviations ◄──────────────┘
//! ```
//!
//! The recordings are `testdata/opentsdb/recordings`, or those of a folder that
//! `ICECORE_OPENTSDB_CONFORMANCE` names. `ICECORE_OPENTSDB_AREA=query` replays one area alone.

#![allow(
    clippy::unwrap_used,
    reason = "for tests alone: a recording of another form is a fault of the test"
)]

mod compare;
mod deviations;
mod recording;
mod replay;
mod request;
mod settings;

pub use compare::{Answer, HttpAnswer, compare_documents};
pub use deviations::Place;
pub use recording::{Group, groups_in, recorded_groups};
pub use replay::{Tally, replay};
pub use request::{HttpRequest, Request};
pub use settings::settings;
