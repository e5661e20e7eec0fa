//! Sums of many histograms that keep what rounding takes away, for `sum`, `avg` and their
//! `_over_time` kin.

use icecore_model::CounterResetHint;

use super::FloatHistogram;
use super::arithmetic::{AddOutcome, HistogramOpError, check_compatible, combined_hint};
use super::combine::Parts;
use super::layout::Compensated;

/// A sum of histograms with the compensation of each count.
#[derive(Clone, Debug)]
pub(crate) struct CompensatedSum {
    reset_hint: CounterResetHint,
    parts: Parts<Compensated>,
}

impl CompensatedSum {
    pub(crate) fn new(first: &FloatHistogram) -> Self {
        Self {
            reset_hint: first.reset_hint,
            parts: Parts::of(first),
        }
    }

    pub(crate) fn add(&mut self, other: &FloatHistogram) -> Result<AddOutcome, HistogramOpError> {
        check_compatible(self.uses_custom_buckets(), other)?;
        let (hint, counter_reset_collision) = combined_hint(self.reset_hint, other.reset_hint);
        self.reset_hint = hint;
        Ok(AddOutcome {
            counter_reset_collision,
            bounds_reconciled: self.parts.add(other, 1.0),
        })
    }

    pub(crate) fn uses_custom_buckets(&self) -> bool {
        self.parts.schema == icecore_model::CUSTOM_BUCKETS_SCHEMA
    }

    /// Multiplies what was summed so far, as a running mean does.
    pub(crate) fn mul(&mut self, factor: f64) {
        self.change_counts(|count| count * factor);
        if factor < 0.0 {
            self.reset_hint = CounterResetHint::Gauge;
        }
    }

    /// Divides what was summed so far by a number of histograms, which is not zero.
    pub(crate) fn div(&mut self, divisor: f64) {
        self.change_counts(|count| count / divisor);
        if divisor < 0.0 {
            self.reset_hint = CounterResetHint::Gauge;
        }
    }

    /// A count or the sum became infinite, so an average has to be computed step by step.
    pub(crate) fn has_overflow(&self) -> bool {
        let parts = &self.parts;
        let buckets = parts.positive.iter().chain(&parts.negative);
        [parts.count, parts.sum, parts.zero]
            .into_iter()
            .chain(buckets.map(|(_, count)| *count))
            .any(|count| count.value.is_infinite())
    }

    /// The sum. It may have empty buckets.
    pub(crate) fn total(&self) -> FloatHistogram {
        FloatHistogram {
            reset_hint: self.reset_hint,
            ..self.parts.to_histogram(with_compensation)
        }
    }

    fn change_counts(&mut self, change: impl Fn(f64) -> f64) {
        let parts = &mut self.parts;
        let buckets = parts.positive.iter_mut().chain(&mut parts.negative);
        [&mut parts.count, &mut parts.sum, &mut parts.zero]
            .into_iter()
            .chain(buckets.map(|(_, count)| count))
            .for_each(|count| {
                count.value = change(count.value);
                count.lost = change(count.lost);
            });
    }
}

/// A sum that lost nothing stays as it is, so that −0 stays −0.
fn with_compensation(count: Compensated) -> f64 {
    if count.lost == 0.0 {
        count.value
    } else {
        count.value + count.lost
    }
}
