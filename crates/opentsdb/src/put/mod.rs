//! Writing points: from texts to appended samples.
//!
//! ```text
//! /api/put ─► endpoint ─┐
//! telnet   ─────────────┴─► append: one for a request ─► PointWriter ─► model::SampleSink
//!                                     SeriesCache ◄──────┤ known text: its label bytes
//!                                     Uids, names ◄──────┘ otherwise: checked, identified
//! ```
//!
//! Holds always:
//! - A text is looked at once; of a known series only its time and value are parsed.
//! - UIDs are stored with the points that need them, until they are known to be durable.
//! - What is wrong with one point is no reason to refuse another one of its request.

pub(crate) mod append;
mod document;
pub(crate) mod endpoint;
mod error;
pub(crate) mod histogram;
mod point;
mod report;
pub(crate) mod rollup;
mod series;
#[cfg(test)]
mod tests;
mod writer;

pub(crate) use error::PutError;
pub(crate) use point::milliseconds;
pub(crate) use series::SeriesText;
pub(crate) use writer::PointWriter;
