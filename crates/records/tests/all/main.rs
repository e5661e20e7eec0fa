//! The stored format from outside: golden bytes, round trips, merge laws, damage.

mod golden;
mod merge_laws;
mod round_trip;
mod samples;
mod truncation;
