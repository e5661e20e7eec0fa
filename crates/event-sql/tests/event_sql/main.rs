//! SQL from outside: what is found, what is refused, and when it ends.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[cfg(feature = "sql")]
mod cells;
#[cfg(feature = "sql")]
mod events;
#[cfg(feature = "sql")]
mod limits;
#[cfg(feature = "sql")]
mod queries;
#[cfg(feature = "sql")]
mod refused;

#[cfg(not(feature = "sql"))]
#[test]
fn sql_is_not_tested() {
    skipped_tests::skip(
        "SQL over events",
        "cargo test -p icecore-event-sql --features sql (builds DataFusion: minutes)",
    );
}
