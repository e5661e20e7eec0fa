//! Warnings and infos: what a person should know about an answer, and which part of the query it is
//! about.

use std::collections::BTreeSet;
use std::fmt;

use parking_lot::Mutex;
use thiserror::Error;

use crate::parse::{Span, line_and_column};

/// What may be said about an answer, in the words of Prometheus.
#[derive(Clone, Debug, Error, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Note {
    #[error("ratio value should be between -1 and 1, got {got}, capping to {capped}")]
    InvalidRatio { got: GoFloat, capped: GoFloat },
    #[error("quantile value should be between 0 and 1, got {0}")]
    InvalidQuantile(GoFloat),
    #[error("bucket label \"le\" is missing or has a malformed value of {value:?}{metric}")]
    BadBucketLabel { value: String, metric: ForMetric },
    #[error("encountered a mix of histograms and floats for metric name {0:?}")]
    MixedFloatsHistograms(String),
    #[error("encountered a mix of histograms and floats for aggregation")]
    MixedFloatsHistogramsInAggregation,
    #[error("vector contains a mix of classic and native histograms{0}")]
    MixedClassicNative(ForMetric),
    #[error("this native histogram metric is not a counter: {0:?}")]
    NativeHistogramNotCounter(String),
    #[error("this native histogram metric is not a gauge: {0:?}")]
    NativeHistogramNotGauge(String),
    #[error(
        "vector contains a mix of histograms with exponential and custom buckets schemas for metric name {0:?}"
    )]
    MixedExponentialCustom(String),
    #[error("incompatible bucket layout encountered for binary operator {0}")]
    IncompatibleBucketLayout(&'static str),
    #[error("sort is ineffective for range queries since results are always ordered by labels")]
    SortInRangeQuery,
    #[error("conflicting counter resets during histogram {0}")]
    CounterResetCollision(HistogramOperation),
    #[error("sample has start time that overlaps with previous sample timestamp for metric {0:?}")]
    StartTimeOverlap(String),
    #[error(
        "metric might not be a counter, name does not end in _total/_sum/_count/_bucket: {0:?}"
    )]
    PossibleNonCounter(String),
    #[error(
        "input to histogram_quantile needed to be fixed for monotonicity (see https://prometheus.io/docs/prometheus/latest/querying/functions/#histogram_quantile){0}"
    )]
    ForcedMonotonicity(ForMetric),
    #[error("incompatible sample types encountered for binary operator \"{op}\": {lhs} {op} {rhs}")]
    IncompatibleTypes {
        op: &'static str,
        lhs: &'static str,
        rhs: &'static str,
    },
    #[error("ignored histogram in {0} aggregation")]
    HistogramIgnoredInAggregation(&'static str),
    #[error(
        "ignored histograms in a range containing both floats and histograms for metric name {0:?}"
    )]
    HistogramIgnoredInMixedRange(String),
    #[error("input to histogram_quantile has NaN observations, result is NaN{0}")]
    QuantileNaNResult(ForMetric),
    #[error("input to histogram_quantile has NaN observations, result is skewed higher{0}")]
    QuantileNaNSkew(ForMetric),
    #[error(
        "input to histogram_fraction has NaN observations, which are excluded from all fractions{0}"
    )]
    FractionNaNs(ForMetric),
    #[error("mismatched custom buckets were reconciled during {0}")]
    MismatchedCustomBuckets(HistogramOperation),
}

/// During which operation histograms did not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum HistogramOperation {
    Addition,
    Subtraction,
    Aggregation,
}

impl fmt::Display for HistogramOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Addition => "addition",
            Self::Subtraction => "subtraction",
            Self::Aggregation => "aggregation",
        })
    }
}

/// ` for metric name "…"`, or nothing where the name is not known.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ForMetric(pub(crate) String);

impl fmt::Display for ForMetric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.is_empty() {
            true => Ok(()),
            false => write!(f, " for metric name {:?}", self.0),
        }
    }
}

/// A float that is written as Go's `%g` does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GoFloat(pub(crate) f64);

impl fmt::Display for GoFloat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&crate::parse::go_float(self.0))
    }
}

impl PartialEq for GoFloat {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for GoFloat {}

impl PartialOrd for GoFloat {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for GoFloat {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl Note {
    fn is_warning(&self) -> bool {
        match self {
            Self::InvalidRatio { .. }
            | Self::InvalidQuantile(_)
            | Self::BadBucketLabel { .. }
            | Self::MixedFloatsHistograms(_)
            | Self::MixedFloatsHistogramsInAggregation
            | Self::MixedClassicNative(_)
            | Self::NativeHistogramNotCounter(_)
            | Self::NativeHistogramNotGauge(_)
            | Self::MixedExponentialCustom(_)
            | Self::IncompatibleBucketLayout(_)
            | Self::SortInRangeQuery
            | Self::CounterResetCollision(_)
            | Self::StartTimeOverlap(_) => true,
            Self::PossibleNonCounter(_)
            | Self::ForcedMonotonicity(_)
            | Self::IncompatibleTypes { .. }
            | Self::HistogramIgnoredInAggregation(_)
            | Self::HistogramIgnoredInMixedRange(_)
            | Self::QuantileNaNResult(_)
            | Self::QuantileNaNSkew(_)
            | Self::FractionNaNs(_)
            | Self::MismatchedCustomBuckets(_) => false,
        }
    }
}

/// Most different notes that a query keeps: with a metric name in each, a selector over many names
/// could have thousands.
const NOTES_MAX: usize = 1000;

/// The notes of one query. Saying one twice is saying it once.
#[derive(Debug, Default)]
pub(crate) struct Annotations(Mutex<BTreeSet<(Span, Note)>>);

impl Annotations {
    pub(crate) fn add(&self, span: Span, note: Note) {
        let mut notes = self.0.lock();
        if notes.len() < NOTES_MAX {
            notes.insert((span, note));
        }
    }

    /// Says again, for the same text written at `start`, what was said about `span`.
    pub(crate) fn repeat(&self, span: Span, start: usize) {
        if span.start == start {
            return;
        }
        let mut notes = self.0.lock();
        // Notes that have no place stay without one.
        let within = |inner: &Span| {
            *inner != Span::default() && span.start <= inner.start && inner.end <= span.end
        };
        let moved: Vec<(Span, Note)> = notes
            .iter()
            .filter(|(inner, _)| within(inner))
            .map(|(inner, note)| {
                let moved = Span {
                    start: inner.start - span.start + start,
                    end: inner.end - span.start + start,
                };
                (moved, note.clone())
            })
            .collect();
        notes.extend(moved);
    }

    /// The warnings and the infos, each with its place in the query.
    pub(crate) fn render(&self, query: &str) -> (Vec<String>, Vec<String>) {
        let (mut warnings, mut infos) = (Vec::new(), Vec::new());
        for (span, note) in self.0.lock().iter() {
            let (line, column) = line_and_column(query, span.start);
            match note.is_warning() {
                true => warnings.push(format!("PromQL warning: {note} ({line}:{column})")),
                false => infos.push(format!("PromQL info: {note} ({line}:{column})")),
            }
        }
        (warnings, infos)
    }
}
