//! The public surface of storage, from outside.

mod model;
mod precedence;
mod process;
mod requests;
mod round_trip;
mod support;
