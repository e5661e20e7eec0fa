//! SQL from outside: what is found, what is refused, and when it ends.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod cells;
mod events;
mod limits;
mod queries;
mod refused;
