//! PromQL: answers a query by pulling series from a `SeriesSource`.
//!
//! ```text
//! text ─ parse ─► Expr ─ plan ─► logical plan ─ optimise ─► operators ─► QueryValue
//!                                                              │
//!                                                        SeriesSource
//! ```
//!
//! Holds always:
//! - Evaluation is series-major: an operator yields rows, and a row has the values of one series at
//!   all steps of the query.
//! - No input causes a panic; time, memory and samples of a query are limited.
//! - Nothing here depends on buckets, HTTP or an async runtime.

mod annotations;
mod arithmetic;
mod calendar;
mod engine;
mod error;
mod exec;
mod functions;
mod go_math;
mod histogram;
mod memory_source;
mod operators;
pub mod parse;
mod plan;
mod rollup;
pub mod script;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod value;

pub use engine::{Engine, EngineOptions};
pub use error::Error;
pub use histogram::{Bucket, FloatHistogram};
pub use memory_source::MemorySource;
pub use plan::Rules;
pub use value::{
    Answer, MatrixSeries, QueryTime, QueryValue, Request, SampleValue, Stats, VectorSample,
};
