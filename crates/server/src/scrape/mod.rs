//! Scraping: targets are found, fetched on schedule, and what they expose is stored.
//!
//! ```text
//! config (a Prometheus file) ─► manager ─► one pool per job
//!                                            discovery ─► relabel ─► targets, each with its own loop:
//!                                              fetch ─► wire::exposition ─► relabel ─► Database::write
//! ```
//!
//! Holds always:
//! - A target is never scraped twice at once, and its offset in the interval does not change with restarts.
//! - A series that a target no longer exposes, and every series of a target that goes away, ends with a
//!   staleness marker.
//!
//! Elsewhere: text and protobuf formats (`icecore_wire`), what the API says about targets (`http`).

pub(crate) mod config;
mod discovery;
mod http_client;
mod md5;
pub(crate) mod relabel;
