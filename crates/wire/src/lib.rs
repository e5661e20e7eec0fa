//! Protocol bytes to model values, and results to protocol bytes.
//!
//! ```text
//! bytes ──► prometheus::{snappy, remote_write_v1, remote_write_v2} ──► model::SampleSink
//! bytes ──► exposition                                             ──► entries, for a scraper
//! bytes ──► otlp::{json, request}                                  ──► model::SampleSink
//! text  ──► prometheus::{params, selector, escaping}               ──► model values
//! text  ──► opentsdb::{put_json, telnet, number}                   ──► points that borrow
//! model values ──► prometheus::{api_json, export, text}, native    ──► bytes
//! pieces ──► prometheus::import ──► sample_batch::SampleBatch; native frames ──► model::SampleSink
//! ```
//!
//! Holds always:
//! - Pure: no sockets, no clock, no storage, no HTTP types. The same bytes give the same calls.
//! - No input panics; every buffer that input can make grow has a cap given by the caller.
//! - What is wrong with the whole request is an error; what is wrong with one series, sample or
//!   histogram is rejected at the sink, and the rest is decoded.
//!
//! Elsewhere: status codes and headers (`server`), limits on series and labels (`storage`).

mod error;
pub mod exposition;
pub mod json;
pub mod native;
pub mod opentsdb;
pub mod otlp;
pub mod prometheus;
pub mod sample_batch;
mod series_content;
#[cfg(test)]
mod testing;

pub use error::WireError;
pub use series_content::SeriesContent;
