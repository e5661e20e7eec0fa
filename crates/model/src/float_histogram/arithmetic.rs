//! Sums, differences and multiples of histograms.
//!
//! A result may have empty buckets; [`FloatHistogram::compact`] removes them.

use crate::CounterResetHint;
use thiserror::Error;

use super::FloatHistogram;
use super::bounds::exponential_bound;
use super::combine::{HistogramAccumulator, negative_counts, positive_counts, same_bounds};
use super::layout::{coarsen, compacted, to_spans};

/// Conditions met when histograms were added, for annotations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddOutcome {
    /// One has the hint "reset", the other "not reset".
    pub counter_reset_collision: bool,
    /// The custom bounds differed; only the common ones were kept.
    pub bounds_reconciled: bool,
}

#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum HistogramOpError {
    #[error(
        "cannot apply this operation on histograms with a mix of exponential and custom bucket schemas"
    )]
    IncompatibleSchema,
}

impl FloatHistogram {
    /// Adds another histogram. Where the layouts differ, the result has the coarser one.
    pub fn add(&mut self, other: &Self) -> Result<AddOutcome, HistogramOpError> {
        self.combine(other, 1.0)
    }

    /// Subtracts another histogram. The reset hint becomes that of a sum; the operator `-` then
    /// sets it to gauge.
    pub fn sub(&mut self, other: &Self) -> Result<AddOutcome, HistogramOpError> {
        self.combine(other, -1.0)
    }

    fn combine(&mut self, other: &Self, sign: f64) -> Result<AddOutcome, HistogramOpError> {
        check_compatible(self.uses_custom_buckets(), other)?;
        let (hint, counter_reset_collision) = combined_hint(self.reset_hint, other.reset_hint);
        let bounds_reconciled = if self.has_layout_of(other) {
            self.add_in_place(other, sign);
            false
        } else {
            let mut accumulator = HistogramAccumulator::<f64>::of(self);
            let reconciled = accumulator.add(other, sign);
            *self = accumulator.to_histogram(|count| count);
            reconciled
        };
        self.reset_hint = hint;
        Ok(AddOutcome {
            counter_reset_collision,
            bounds_reconciled,
        })
    }

    /// Whether the layouts are equal, as mostly between samples of one series.
    fn has_layout_of(&self, other: &Self) -> bool {
        let first_outside_zero = |spans: &[crate::Span]| {
            self.uses_custom_buckets()
                || spans.first().is_none_or(|span| {
                    exponential_bound(i64::from(span.offset), self.schema) > self.zero_threshold
                })
        };
        self.schema == other.schema
            && self.zero_threshold == other.zero_threshold
            && self.positive.len() == other.positive.len()
            && self.negative.len() == other.negative.len()
            && self.positive_spans == other.positive_spans
            && self.negative_spans == other.negative_spans
            && (!self.uses_custom_buckets()
                || same_bounds(&self.custom_bounds, &other.custom_bounds))
            && first_outside_zero(&self.positive_spans)
            && first_outside_zero(&self.negative_spans)
    }

    fn add_in_place(&mut self, other: &Self, sign: f64) {
        self.count += sign * other.count;
        self.sum += sign * other.sum;
        self.zero_count += sign * other.zero_count;
        let positive = self.positive.iter_mut().zip(&other.positive);
        let negative = self.negative.iter_mut().zip(&other.negative);
        for (sum, count) in positive.chain(negative) {
            *sum += sign * count;
        }
    }

    /// Multiplies all counts and the sum. A negative factor makes a gauge.
    pub fn mul(&mut self, factor: f64) {
        self.change_counts(|count| count * factor);
        if factor < 0.0 {
            self.reset_hint = CounterResetHint::Gauge;
        }
    }

    /// Divides all counts and the sum. A division by zero leaves no buckets.
    pub fn div(&mut self, divisor: f64) {
        if divisor == 0.0 {
            self.positive_spans.clear();
            self.negative_spans.clear();
            self.positive.clear();
            self.negative.clear();
        }
        self.change_counts(|count| count / divisor);
        if divisor < 0.0 {
            self.reset_hint = CounterResetHint::Gauge;
        }
    }

    fn change_counts(&mut self, change: impl Fn(f64) -> f64) {
        let totals = [&mut self.count, &mut self.sum, &mut self.zero_count];
        let buckets = self.positive.iter_mut().chain(&mut self.negative);
        for count in totals.into_iter().chain(buckets) {
            *count = change(*count);
        }
    }

    /// A copy in a coarser schema, with an unknown reset hint. A plain copy if the schema is not
    /// coarser or either has custom buckets.
    pub fn copy_to_schema(&self, schema: i8) -> Self {
        if self.uses_custom_buckets() || schema >= self.schema || schema < COARSEST_SCHEMA {
            return self.clone();
        }
        let coarser = |counts| to_spans(coarsen(counts, self.schema, schema).into_iter());
        let (positive_spans, positive) = coarser(positive_counts(self));
        let (negative_spans, negative) = coarser(negative_counts(self));
        Self {
            reset_hint: CounterResetHint::Unknown,
            schema,
            zero_threshold: self.zero_threshold,
            zero_count: self.zero_count,
            count: self.count,
            sum: self.sum,
            positive_spans,
            negative_spans,
            positive,
            negative,
            custom_bounds: self.custom_bounds.clone(),
        }
    }

    /// Removes empty buckets, except runs of at most `empty_max` between two others.
    pub fn compact(&mut self, empty_max: usize) {
        let positive = compacted(positive_counts(self), empty_max);
        let negative = compacted(negative_counts(self), empty_max);
        (self.positive_spans, self.positive) = positive;
        (self.negative_spans, self.negative) = negative;
    }

    /// Bytes as Prometheus counts them for query statistics, where sixteen are one sample.
    pub fn size(&self) -> usize {
        let elements = self.positive_spans.len()
            + self.negative_spans.len()
            + self.positive.len()
            + self.negative.len()
            + self.custom_bounds.len();
        168 + 8 * elements
    }
}

/// The coarsest valid schema.
const COARSEST_SCHEMA: i8 = -4;

pub(super) fn check_compatible(
    custom: bool,
    other: &FloatHistogram,
) -> Result<(), HistogramOpError> {
    if custom == other.uses_custom_buckets() {
        Ok(())
    } else {
        Err(HistogramOpError::IncompatibleSchema)
    }
}

/// The reset hint of a sum, and whether the two hints conflict.
pub(super) fn combined_hint(
    one: CounterResetHint,
    other: CounterResetHint,
) -> (CounterResetHint, bool) {
    use CounterResetHint::{Gauge, Unknown};
    match (one, other) {
        (one, other) if one == other => (one, false),
        (Gauge, _) | (_, Gauge) => (Gauge, false),
        (Unknown, _) | (_, Unknown) => (Unknown, false),
        _ => (Unknown, true),
    }
}
