//! Native histograms, as Prometheus defines them: integer or float counts in exponential buckets
//! (schemas −4 to 8) or in buckets with custom bounds (schema −53).

use std::sync::Arc;

use thiserror::Error;

/// The schema of histograms whose bucket bounds are given one by one.
pub const CUSTOM_BUCKETS_SCHEMA: i8 = -53;

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
#[derive(Clone, Debug, PartialEq)]
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
#[derive(Clone, Debug, PartialEq)]
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

/// Why a histogram contradicts itself. The words are those Prometheus uses where it has them.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum HistogramError {
    #[error("histogram has an invalid schema {0}, which must be between -4 and 8, or -53")]
    Schema(i64),
    #[error("histogram spans need {need} buckets, have {have} buckets")]
    SpanLength { need: u64, have: usize },
    #[error("span number {0} has a negative offset")]
    SpanOffset(usize),
    #[error("histogram has a bucket whose observation count is negative")]
    NegativeCount,
    #[error("{observations} observations found in buckets, but the count field is {count}")]
    CountMismatch { observations: u64, count: u64 },
    #[error("histogram custom bounds must be finite and in strictly increasing order")]
    CustomBounds,
    #[error("histogram with custom buckets must not have {0}")]
    NotForCustom(&'static str),
    #[error("histogram with exponential buckets must not have custom bounds")]
    BoundsWithoutCustom,
    #[error("histogram has more than {0} buckets")]
    TooManyBuckets(usize),
    #[error("histogram has a zero threshold that is negative or not a number")]
    ZeroThreshold,
}
