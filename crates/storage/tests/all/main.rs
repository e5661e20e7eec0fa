//! The public surface of storage, from outside.

mod inspect;
mod model;
mod precedence;
mod process;
mod recovery;
mod requests;
mod round_trip;
mod support;
