//! Native histograms, as Prometheus defines them: integer or float counts in exponential buckets
//! (schemas −4 to 8) or in buckets with custom bounds (schema −53).
//!
//! The fields are public and may contradict each other, because they come from clients.
//! [`Histogram::validate`] is the gate: what passed it has spans that fit its buckets, bucket
//! indexes that fit an `i32`, and counts that are not negative.
//!
//! Equality is bit for bit, so that a histogram with a NaN sum (a stale one, for example) equals
//! itself and −0 differs from 0.

mod add;
mod validate;

use std::sync::Arc;

use thiserror::Error;

use crate::{STALE_NAN_BITS, is_stale_nan};
pub use add::HistogramAddError;

/// The schema of histograms whose bucket bounds are given one by one.
pub const CUSTOM_BUCKETS_SCHEMA: i8 = -53;

/// Most buckets (both sides together), spans of one side, and custom bounds of a histogram. Clients
/// keep to a few hundred; the cap bounds what one sample can cost.
pub const MAX_HISTOGRAM_BUCKETS: usize = 65_536;

/// What is known about a counter reset between this histogram and the one before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CounterResetHint {
    #[default]
    Unknown,
    Reset,
    NotReset,
    Gauge,
}

impl CounterResetHint {
    pub fn number(self) -> u8 {
        self as u8
    }

    pub fn from_number(number: u64) -> Option<Self> {
        match number {
            0 => Some(Self::Unknown),
            1 => Some(Self::Reset),
            2 => Some(Self::NotReset),
            3 => Some(Self::Gauge),
            _ => None,
        }
    }
}

/// A run of consecutive buckets, `offset` buckets after the end of the previous run (the first:
/// after index 0).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Span {
    pub offset: i32,
    pub length: u32,
}

/// The counts of a histogram. Integer bucket counts are deltas: the first to 0, each other to the
/// bucket before it. Float bucket counts are absolute.
#[derive(Clone, Debug)]
pub enum HistogramCounts {
    Integer {
        count: u64,
        zero_count: u64,
        positive_deltas: Vec<i64>,
        negative_deltas: Vec<i64>,
    },
    Float {
        count: f64,
        zero_count: f64,
        positive: Vec<f64>,
        negative: Vec<f64>,
    },
}

/// One native histogram.
#[derive(Clone, Debug)]
pub struct Histogram {
    pub schema: i8,
    pub reset_hint: CounterResetHint,
    pub zero_threshold: f64,
    pub sum: f64,
    pub counts: HistogramCounts,
    pub positive_spans: Vec<Span>,
    pub negative_spans: Vec<Span>,
    /// Upper bounds of the buckets of schema −53, ascending, without +Inf; shared, because a
    /// series repeats them.
    pub custom_bounds: Arc<[f64]>,
}

impl Histogram {
    /// The staleness marker.
    pub fn stale() -> Self {
        Self {
            schema: 0,
            reset_hint: CounterResetHint::Unknown,
            zero_threshold: 0.0,
            sum: f64::from_bits(STALE_NAN_BITS),
            counts: HistogramCounts::Integer {
                count: 0,
                zero_count: 0,
                positive_deltas: Vec::new(),
                negative_deltas: Vec::new(),
            },
            positive_spans: Vec::new(),
            negative_spans: Vec::new(),
            custom_bounds: [].into(),
        }
    }

    /// Whether this is the staleness marker rather than a measurement.
    pub fn is_stale(&self) -> bool {
        is_stale_nan(self.sum)
    }

    /// How many buckets have a count, without the zero bucket.
    pub fn bucket_count(&self) -> usize {
        let (positive, negative) = self.counts.bucket_counts();
        positive + negative
    }

    /// Bytes held outside the value itself, for accounting. Shared bounds count in full each time.
    pub fn heap_bytes(&self) -> usize {
        let spans = self.positive_spans.capacity() + self.negative_spans.capacity();
        spans * size_of::<Span>() + size_of_val(&*self.custom_bounds) + self.counts.heap_bytes()
    }
}

impl HistogramCounts {
    /// How many positive and how many negative buckets have a count.
    pub fn bucket_counts(&self) -> (usize, usize) {
        match self {
            Self::Integer {
                positive_deltas,
                negative_deltas,
                ..
            } => (positive_deltas.len(), negative_deltas.len()),
            Self::Float {
                positive, negative, ..
            } => (positive.len(), negative.len()),
        }
    }

    fn heap_bytes(&self) -> usize {
        let buckets = match self {
            Self::Integer {
                positive_deltas,
                negative_deltas,
                ..
            } => positive_deltas.capacity() + negative_deltas.capacity(),
            Self::Float {
                positive, negative, ..
            } => positive.capacity() + negative.capacity(),
        };
        8 * buckets
    }
}

impl PartialEq for Histogram {
    fn eq(&self, other: &Self) -> bool {
        self.schema == other.schema
            && self.reset_hint == other.reset_hint
            && same_bits(
                &[self.zero_threshold, self.sum],
                &[other.zero_threshold, other.sum],
            )
            && self.counts == other.counts
            && self.positive_spans == other.positive_spans
            && self.negative_spans == other.negative_spans
            && (Arc::ptr_eq(&self.custom_bounds, &other.custom_bounds)
                || same_bits(&self.custom_bounds, &other.custom_bounds))
    }
}

impl Eq for Histogram {}

impl PartialEq for HistogramCounts {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (
                Self::Integer {
                    count,
                    zero_count,
                    positive_deltas,
                    negative_deltas,
                },
                Self::Integer {
                    count: other_count,
                    zero_count: other_zero_count,
                    positive_deltas: other_positive,
                    negative_deltas: other_negative,
                },
            ) => {
                (count, zero_count) == (other_count, other_zero_count)
                    && positive_deltas == other_positive
                    && negative_deltas == other_negative
            }
            (
                Self::Float {
                    count,
                    zero_count,
                    positive,
                    negative,
                },
                Self::Float {
                    count: other_count,
                    zero_count: other_zero_count,
                    positive: other_positive,
                    negative: other_negative,
                },
            ) => {
                same_bits(&[*count, *zero_count], &[*other_count, *other_zero_count])
                    && same_bits(positive, other_positive)
                    && same_bits(negative, other_negative)
            }
            _ => false,
        }
    }
}

impl Eq for HistogramCounts {}

fn same_bits(one: &[f64], other: &[f64]) -> bool {
    one.len() == other.len()
        && one
            .iter()
            .zip(other)
            .all(|(a, b)| a.to_bits() == b.to_bits())
}

/// Why a histogram contradicts itself. The words are those Prometheus uses where it has them.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum HistogramError {
    #[error("histogram has an invalid schema {0}, which must be between -4 and 8, or -53")]
    Schema(i64),
    #[error("histogram spans need {need} buckets, have {have} buckets")]
    SpanLength { need: u64, have: usize },
    #[error("span number {0} has a negative offset")]
    SpanOffset(usize),
    #[error("span number {0} leads to a bucket index out of range")]
    SpanIndex(usize),
    #[error("histogram has a bucket whose observation count is negative")]
    NegativeCount,
    #[error("histogram's observation count is negative")]
    NegativeTotal,
    #[error("{observations} observations found in buckets, but the count field is {count}")]
    CountMismatch { observations: u64, count: u64 },
    #[error("histogram has a bucket count, or a sum of them, that is too large")]
    CountOverflow,
    #[error("histogram custom bounds must be numbers below +Inf in strictly increasing order")]
    CustomBounds,
    #[error("{bounds} custom bounds are too few for a total span length of {span_length}")]
    TooFewBounds { bounds: usize, span_length: u64 },
    #[error("histogram with custom buckets must not have {0}")]
    NotForCustom(&'static str),
    #[error("histogram with exponential buckets must not have custom bounds")]
    BoundsWithoutCustom,
    #[error("histogram has more than {0} buckets")]
    TooManyBuckets(usize),
    #[error("histogram has a zero threshold that is negative or not a number")]
    ZeroThreshold,
}

#[cfg(test)]
mod tests;
