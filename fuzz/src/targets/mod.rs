//! What is fuzzed: one file per crate that decodes bytes from outside.

pub mod records;
pub mod wire;
