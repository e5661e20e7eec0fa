//! Mutation fuzzing on stable Rust: every decoder gets damaged input and must answer with a value or
//! an error, never with a panic, and never with memory that the input does not justify.

pub mod targets;

/// One thing to fuzz.
#[derive(Clone, Copy)]
pub struct Target {
    pub name: &'static str,
    /// Valid inputs, from which damaged ones are made.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Feeds one input to the decoder; a panic is a finding.
    pub run: fn(&[u8]),
}
