//! Compensated sums of histograms, for `sum`, `avg` and their `_over_time` variants.

use crate::CounterResetHint;

use super::FloatHistogram;
use super::arithmetic::{AddOutcome, HistogramOpError, check_compatible, combined_hint};
use super::combine::HistogramAccumulator;
use super::layout::Compensated;

/// A sum of histograms with the compensation of each count.
#[derive(Clone, Debug)]
pub struct CompensatedSum {
    reset_hint: CounterResetHint,
    accumulator: HistogramAccumulator<Compensated>,
}

impl CompensatedSum {
    pub fn new(first: &FloatHistogram) -> Self {
        Self {
            reset_hint: first.reset_hint,
            accumulator: HistogramAccumulator::of(first),
        }
    }

    pub fn add(&mut self, other: &FloatHistogram) -> Result<AddOutcome, HistogramOpError> {
        check_compatible(self.uses_custom_buckets(), other)?;
        let (hint, counter_reset_collision) = combined_hint(self.reset_hint, other.reset_hint);
        self.reset_hint = hint;
        Ok(AddOutcome {
            counter_reset_collision,
            bounds_reconciled: self.accumulator.add(other, 1.0),
        })
    }

    pub fn uses_custom_buckets(&self) -> bool {
        self.accumulator.schema == crate::CUSTOM_BUCKETS_SCHEMA
    }

    /// Multiplies the sum, for a running mean.
    pub fn mul(&mut self, factor: f64) {
        self.change_counts(|count| count * factor);
        if factor < 0.0 {
            self.reset_hint = CounterResetHint::Gauge;
        }
    }

    /// Divides the sum by a number of histograms, which is not zero.
    pub fn div(&mut self, divisor: f64) {
        self.change_counts(|count| count / divisor);
        if divisor < 0.0 {
            self.reset_hint = CounterResetHint::Gauge;
        }
    }

    /// A count or the sum is infinite, so an average needs a running mean.
    pub fn has_overflow(&self) -> bool {
        let accumulator = &self.accumulator;
        let buckets = accumulator.positive.iter().chain(&accumulator.negative);
        [accumulator.count, accumulator.sum, accumulator.zero]
            .into_iter()
            .chain(buckets.map(|(_, count)| *count))
            .any(|count| count.value.is_infinite())
    }

    /// The sum. It may have empty buckets.
    pub fn total(&self) -> FloatHistogram {
        FloatHistogram {
            reset_hint: self.reset_hint,
            ..self.accumulator.to_histogram(with_compensation)
        }
    }

    fn change_counts(&mut self, change: impl Fn(f64) -> f64) {
        let accumulator = &mut self.accumulator;
        let buckets = accumulator
            .positive
            .iter_mut()
            .chain(&mut accumulator.negative);
        [
            &mut accumulator.count,
            &mut accumulator.sum,
            &mut accumulator.zero,
        ]
        .into_iter()
        .chain(buckets.map(|(_, count)| count))
        .for_each(|count| {
            count.value = change(count.value);
            count.lost = change(count.lost);
        });
    }
}

/// Without compensation the sum stays as it is, so that −0 stays −0.
fn with_compensation(count: Compensated) -> f64 {
    if count.lost == 0.0 {
        count.value
    } else {
        count.value + count.lost
    }
}
