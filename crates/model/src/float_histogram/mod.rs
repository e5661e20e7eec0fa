//! Histograms to compute with: float counts, exponential or custom buckets.
//!
//! ```text
//! stored ─ convert ─► FloatHistogram ─ add, sub, mul ─► FloatHistogram ─► buckets, text
//! ```
//!
//! Holds always:
//! - Fields come from clients and may be inconsistent. Inconsistent ones give some answer, never a
//!   panic and never more memory than a small multiple of the fields.
//! - Only `combine` reconciles different layouts, for plain and for compensated sums alike.

mod arithmetic;
mod bounds;
mod buckets;
mod combine;
mod convert;
mod kahan;
mod layout;
mod reset;
mod text;

use std::sync::Arc;

use crate::{CounterResetHint, Span};

pub use arithmetic::{AddOutcome, HistogramOpError};
pub use buckets::Bucket;
pub use kahan::CompensatedSum;

/// A native histogram with absolute float counts.
#[derive(Clone, Debug, Default)]
pub struct FloatHistogram {
    pub reset_hint: CounterResetHint,
    pub schema: i8,
    pub zero_threshold: f64,
    pub zero_count: f64,
    pub count: f64,
    pub sum: f64,
    pub positive_spans: Vec<Span>,
    pub negative_spans: Vec<Span>,
    /// Counts of the buckets that the spans describe.
    pub positive: Vec<f64>,
    pub negative: Vec<f64>,
    /// Upper bounds of custom buckets (schema −53), without +Inf.
    pub custom_bounds: Arc<[f64]>,
}

impl FloatHistogram {
    /// Bytes held outside the value itself, for accounting.
    pub fn heap_bytes(&self) -> usize {
        8 * (self.positive_spans.len() + self.negative_spans.len())
            + 8 * (self.positive.len() + self.negative.len())
            + size_of::<Self>()
    }
}
