//! Tests of the whole front end.

mod conformance;
mod durations;
mod errors;
mod format;
mod limits;
mod random;
mod spans;
