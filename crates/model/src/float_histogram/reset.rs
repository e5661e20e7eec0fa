//! Detection of counter resets between two histograms, and equality.

use crate::{CounterResetHint, Span};

use super::FloatHistogram;
use super::bounds::exponential_bound;
use super::buckets::IndexedCounts;
use super::combine::{
    add_to_common, common_bounds, negative_counts, positive_counts, same_bounds,
    widened_zero_bucket,
};
use super::layout::{Entry, coarsen};

impl FloatHistogram {
    /// Whether the counter was reset between `previous` and this histogram: the hint says so, or a
    /// count is smaller, a populated bucket is missing, or the resolution grew, which only happens
    /// with a restart. A known hint decides; a gauge is treated as a counter.
    pub fn detect_reset(&self, previous: &Self) -> bool {
        match self.reset_hint {
            CounterResetHint::Reset => return true,
            CounterResetHint::NotReset => return false,
            CounterResetHint::Unknown | CounterResetHint::Gauge => {}
        }
        if self.count < previous.count {
            return true;
        }
        if self.uses_custom_buckets() {
            return !previous.uses_custom_buckets() || self.custom_counts_fell(previous);
        }
        self.schema > previous.schema
            || self.zero_threshold < previous.zero_threshold
            || self.exponential_counts_fell(previous)
    }

    fn custom_counts_fell(&self, previous: &Self) -> bool {
        if same_bounds(&self.custom_bounds, &previous.custom_bounds) {
            let before = positive_counts(previous);
            return counts_fell(positive_counts(self), before);
        }
        let common = common_bounds(&self.custom_bounds, &previous.custom_bounds);
        let cells = |histogram: &Self| {
            let mut cells = vec![0.0; common.len() + 1];
            let counts = positive_counts(histogram);
            add_to_common(&mut cells, counts, &histogram.custom_bounds, &common);
            cells
        };
        let now = cells(self);
        now.iter()
            .zip(cells(previous))
            .any(|(now, before)| *now < before)
    }

    fn exponential_counts_fell(&self, previous: &Self) -> bool {
        let mut previous_zero = previous.zero_count;
        if self.zero_threshold > previous.zero_threshold {
            let sides = (positive_counts(previous), negative_counts(previous));
            let (zero, threshold) =
                widened_zero_bucket(previous_zero, sides, previous.schema, self.zero_threshold);
            // The new threshold lies within a populated bucket.
            if threshold != self.zero_threshold {
                return true;
            }
            previous_zero = zero;
        }
        self.zero_count < previous_zero
            || self.side_fell(
                positive_counts(self),
                positive_counts(previous),
                previous.schema,
            )
            || self.side_fell(
                negative_counts(self),
                negative_counts(previous),
                previous.schema,
            )
    }

    fn side_fell(
        &self,
        now: IndexedCounts<'_>,
        before: IndexedCounts<'_>,
        schema_before: i8,
    ) -> bool {
        let threshold = self.zero_threshold;
        let in_zero =
            |schema| move |(index, _): &Entry<f64>| exponential_bound(*index, schema) <= threshold;
        let now = now.skip_while(in_zero(self.schema));
        // Checked in the previous schema: a coarser bucket may overlap the zero bucket partly.
        let before = before.skip_while(in_zero(schema_before));
        if schema_before == self.schema {
            counts_fell(now, before)
        } else {
            counts_fell(now, coarsen(before, schema_before, self.schema).into_iter())
        }
    }

    /// Whether the two have the same counts in the same buckets, bit for bit, so that a histogram
    /// of NaNs equals itself. Empty buckets count as buckets; the reset hint does not matter.
    pub fn equals(&self, other: &Self) -> bool {
        self.schema == other.schema
            && same_bits(&[self.count, self.sum], &[other.count, other.sum])
            && (!self.uses_custom_buckets()
                || same_bounds(&self.custom_bounds, &other.custom_bounds))
            && self.zero_threshold == other.zero_threshold
            && self.zero_count.to_bits() == other.zero_count.to_bits()
            && runs(&self.negative_spans).eq(runs(&other.negative_spans))
            && same_bits(&self.negative, &other.negative)
            && runs(&self.positive_spans).eq(runs(&other.positive_spans))
            && same_bits(&self.positive, &other.positive)
    }
}

/// Whether a bucket has fewer observations than before, or a populated one is missing.
fn counts_fell(
    now: impl Iterator<Item = Entry<f64>>,
    before: impl Iterator<Item = Entry<f64>>,
) -> bool {
    let mut now = now.peekable();
    for (index, count_before) in before {
        while now.next_if(|(earlier, _)| *earlier < index).is_some() {}
        let fell = match now.peek() {
            Some((same, count)) if *same == index => *count < count_before,
            _ => count_before != 0.0,
        };
        if fell {
            return true;
        }
    }
    false
}

fn same_bits(one: &[f64], other: &[f64]) -> bool {
    one.len() == other.len()
        && one
            .iter()
            .zip(other)
            .all(|(a, b)| a.to_bits() == b.to_bits())
}

/// The spans without empty ones.
fn runs(spans: &[Span]) -> impl Iterator<Item = (i64, u32)> + '_ {
    let mut skipped = 0i64;
    spans.iter().filter_map(move |span| {
        let offset = skipped + i64::from(span.offset);
        skipped = if span.length == 0 { offset } else { 0 };
        (span.length > 0).then_some((offset, span.length))
    })
}
