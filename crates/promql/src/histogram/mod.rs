//! Histograms as values of a query: float counts, exponential or custom buckets.

use std::sync::Arc;

use icecore_model::{CounterResetHint, Span};

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
