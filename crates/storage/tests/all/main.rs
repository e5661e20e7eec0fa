//! The public surface of storage, from outside.

mod round_trip;
mod support;
