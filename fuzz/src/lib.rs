//! Mutation fuzzing on stable Rust: every decoder gets damaged input and must answer with a value
//! or an error, never with a panic, and never with memory that the input does not justify.
//!
//! ```text
//! seeds ─► mutate ─► run ─► panicked? too much memory? ─► Finding (input, seed)
//!    ▲        └── now and then kept, so that damage adds up
//!    └────────────────┘
//! ```
//!
//! A run is decided by its seed and its number of inputs. `tests/fuzz.rs` drives it: without
//! variables each target gets the same inputs every time. `FUZZ_INPUTS` changes their number,
//! `FUZZ_SEED` the inputs; `FUZZ_SECONDS` runs each target so long, with a seed of its own unless
//! one is given. `FUZZ_TARGET` is a part of a name; `FUZZ_INPUT` (hex) replays one input.

mod engine;
mod memory;
mod mutate;
pub mod targets;

pub use engine::{Extent, Finding, MEMORY_BASE, Report, fuzz, replay};

/// One thing to fuzz.
#[derive(Clone, Copy)]
pub struct Target {
    pub name: &'static str,
    /// Valid inputs, from which damaged ones are made.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Feeds one input to the decoder; a panic is a finding.
    pub run: fn(&[u8]),
    /// What it may hold for any input; longer ones are allowed more.
    pub memory_base: usize,
}

/// Everything that is fuzzed.
pub fn all_targets() -> Vec<Target> {
    let mut all = targets::records::targets();
    all.extend(targets::columns::targets());
    all.extend(targets::events::targets());
    all.extend(targets::opentsdb::targets());
    all.extend(targets::opentsdb_api::targets());
    all.extend(targets::histograms::targets());
    all.extend(targets::rollup::targets());
    all.extend(targets::wire::targets());
    all.extend(targets::exposition::targets());
    all.extend(targets::transfer::targets());
    all.extend(targets::promql::targets());
    all.extend(targets::promql_labels::targets());
    all
}
