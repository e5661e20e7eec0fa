//! Scraping: targets are found, fetched on schedule, and what they expose is stored.
//!
//! ```text
//! config (a Prometheus file) ─► manager ─► one pool per job
//!                                            discovery ─► relabel ─► targets, each with a loop:
//!                                              fetch ─► wire::exposition ─► relabel ─► SampleStore
//! ```
//!
//! Holds always:
//! - A target is never scraped twice at once, and its offset in the interval does not change with
//!   restarts.
//! - A series that a target no longer exposes, and every series of a target that goes away, ends
//!   with a staleness marker.
//!
//! Elsewhere: text and protobuf formats (`icecore_wire`), what the API says about targets (`http`).

mod append;
mod body;
mod cache;
mod config;
mod discovery;
mod families;
mod fetch;
mod http_client;
mod info;
mod job;
mod manager;
mod metrics;
mod pending_commits;
mod pool;
mod relabel;
mod report;
mod resolution;
mod resolve;
mod schedule;
mod series;
mod source;
mod target;
#[cfg(test)]
mod testing;
mod worker;

pub use config::{ScrapeSettings, read};
pub use info::{LabelsTooLarge, RELABEL_BYTES_MAX, RelabelStep, TargetInfo, TargetMetadata};
pub use manager::{LoadState, ScrapeManager, SelfScrape};
