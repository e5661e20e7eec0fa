//! Files of events from outside: written, read back, damaged, and opened by other programs.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod damaged;
mod events;
mod measure;
mod other_programs;
mod reading;
mod round_trip;
