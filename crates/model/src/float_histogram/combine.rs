//! A histogram as lists of buckets to which others are added: the only code that reconciles
//! layouts.
//!
//! Exponential histograms are converted to the coarser of their schemas and to a zero bucket that
//! contains both zero buckets and cuts no bucket of either. Histograms with custom bounds are
//! converted to the bounds that both have. The two kinds cannot be added; callers check that.

use std::sync::Arc;

use super::FloatHistogram;
use super::bounds::exponential_bound;
use super::buckets::IndexedCounts;
use super::layout::{Count, Entry, add_entries, coarsen, to_spans};

#[derive(Clone, Debug)]
pub(super) struct HistogramAccumulator<C> {
    pub(super) schema: i8,
    pub(super) zero_threshold: f64,
    pub(super) zero: C,
    pub(super) count: C,
    pub(super) sum: C,
    pub(super) positive: Vec<Entry<C>>,
    pub(super) negative: Vec<Entry<C>>,
    pub(super) custom_bounds: Arc<[f64]>,
}

impl<C: Count> HistogramAccumulator<C> {
    pub(super) fn of(histogram: &FloatHistogram) -> Self {
        let entries = |(index, count)| (index, C::of(count));
        Self {
            schema: histogram.schema,
            zero_threshold: number(histogram.zero_threshold),
            zero: C::of(histogram.zero_count),
            count: C::of(histogram.count),
            sum: C::of(histogram.sum),
            positive: positive_counts(histogram).map(entries).collect(),
            negative: negative_counts(histogram).map(entries).collect(),
            custom_bounds: histogram.custom_bounds.clone(),
        }
    }

    /// Adds another histogram of the same kind, `sign` (1 or −1) times. Says whether custom bounds
    /// had to be reconciled.
    pub(super) fn add(&mut self, other: &FloatHistogram, sign: f64) -> bool {
        self.count = self.count.plus(C::of(sign * other.count));
        self.sum = self.sum.plus(C::of(sign * other.sum));
        if other.uses_custom_buckets() {
            self.add_custom(other, sign)
        } else {
            self.add_exponential(other, sign);
            false
        }
    }

    fn add_exponential(&mut self, other: &FloatHistogram, sign: f64) {
        let other_zero = self.reconcile_zero_buckets(other);
        self.zero = self.zero.plus(C::of(sign * other_zero));
        if other.schema < self.schema {
            for side in [&mut self.positive, &mut self.negative] {
                *side = coarsen(side.iter().copied(), self.schema, other.schema);
            }
            self.schema = other.schema;
        }
        let (schema, threshold) = (self.schema, self.zero_threshold);
        for (sums, counts) in [
            (&mut self.positive, positive_counts(other)),
            (&mut self.negative, negative_counts(other)),
        ] {
            // Buckets within the zero bucket were added to it. That is checked in the schema of the
            // other: a coarser bucket may overlap the zero bucket partly.
            let outside_zero = counts
                .skip_while(|(index, _)| exponential_bound(*index, other.schema) <= threshold);
            let signed = outside_zero.map(|(index, count)| (index, C::of(sign * count)));
            if other.schema > schema {
                add_entries(sums, coarsen(signed, other.schema, schema).into_iter());
            } else {
                add_entries(sums, signed);
            }
        }
    }

    /// Widens the zero bucket to fit both, and returns the other one's count in it.
    fn reconcile_zero_buckets(&mut self, other: &FloatHistogram) -> f64 {
        let (mut zero, mut threshold) = (other.zero_count, number(other.zero_threshold));
        while threshold != self.zero_threshold {
            if threshold < self.zero_threshold {
                let positive = positive_counts(other);
                let negative = negative_counts(other);
                (zero, threshold) = widened_zero_bucket(
                    other.zero_count,
                    (positive, negative),
                    other.schema,
                    self.zero_threshold,
                );
            }
            if threshold > self.zero_threshold {
                self.widen_zero_bucket(threshold);
            }
        }
        zero
    }

    fn widen_zero_bucket(&mut self, threshold: f64) {
        let sides = (self.positive.iter().copied(), self.negative.iter().copied());
        (self.zero, self.zero_threshold) =
            widened_zero_bucket(self.zero, sides, self.schema, threshold);
        let (schema, threshold) = (self.schema, self.zero_threshold);
        let outside = |(index, count): &Entry<C>| {
            exponential_bound(index.saturating_sub(1), schema) >= threshold && !count.is_empty()
        };
        self.positive.retain(outside);
        self.negative.retain(outside);
    }

    fn add_custom(&mut self, other: &FloatHistogram, sign: f64) -> bool {
        let signed = positive_counts(other).map(|(index, count)| (index, C::of(sign * count)));
        if same_bounds(&self.custom_bounds, &other.custom_bounds) {
            add_entries(&mut self.positive, signed);
            return false;
        }
        let common = common_bounds(&self.custom_bounds, &other.custom_bounds);
        let mut cells = vec![C::ZERO; common.len() + 1];
        let own = self.positive.iter().copied();
        add_to_common(&mut cells, own, &self.custom_bounds, &common);
        add_to_common(&mut cells, signed, &other.custom_bounds, &common);
        let numbered = (0i64..).zip(cells);
        self.positive = numbered.filter(|(_, count)| !count.is_empty()).collect();
        self.custom_bounds = common.into();
        true
    }

    /// The histogram, with `value` applied to each count. The caller sets the reset hint.
    pub(super) fn to_histogram(&self, value: impl Fn(C) -> f64) -> FloatHistogram {
        let side = |entries: &[Entry<C>]| {
            to_spans(entries.iter().map(|(index, count)| (*index, value(*count))))
        };
        let (positive_spans, positive) = side(&self.positive);
        let (negative_spans, negative) = side(&self.negative);
        FloatHistogram {
            reset_hint: Default::default(),
            schema: self.schema,
            zero_threshold: self.zero_threshold,
            zero_count: value(self.zero),
            count: value(self.count),
            sum: value(self.sum),
            positive_spans,
            negative_spans,
            positive,
            negative,
            custom_bounds: self.custom_bounds.clone(),
        }
    }
}

pub(super) fn positive_counts(histogram: &FloatHistogram) -> IndexedCounts<'_> {
    IndexedCounts::new(&histogram.positive_spans, &histogram.positive)
}

pub(super) fn negative_counts(histogram: &FloatHistogram) -> IndexedCounts<'_> {
    IndexedCounts::new(&histogram.negative_spans, &histogram.negative)
}

/// The count of the zero bucket widened to `threshold`, and its actual threshold: the end of the
/// populated bucket in which `threshold` lies.
pub(super) fn widened_zero_bucket<C: Count>(
    zero: C,
    (positive, negative): (
        impl Iterator<Item = Entry<C>> + Clone,
        impl Iterator<Item = Entry<C>> + Clone,
    ),
    schema: i8,
    mut threshold: f64,
) -> (C, f64) {
    loop {
        let (with_positive, reach) = absorbed(zero, positive.clone(), schema, threshold);
        let (with_both, reach_of_both) = absorbed(with_positive, negative.clone(), schema, reach);
        if reach_of_both == reach {
            return (with_both, reach);
        }
        // A negative bucket moved the threshold, so the positive ones are checked again.
        threshold = reach_of_both;
    }
}

/// The same for one side.
fn absorbed<C: Count>(
    mut zero: C,
    buckets: impl Iterator<Item = Entry<C>>,
    schema: i8,
    threshold: f64,
) -> (C, f64) {
    for (index, count) in buckets {
        if exponential_bound(index.saturating_sub(1), schema) >= threshold {
            break;
        }
        zero = zero.plus(count);
        let upper = exponential_bound(index, schema);
        if upper > threshold {
            return if count.value() == 0.0 {
                (zero, threshold)
            } else {
                (zero, upper)
            };
        }
    }
    (zero, threshold)
}

pub(super) fn same_bounds(one: &Arc<[f64]>, other: &Arc<[f64]>) -> bool {
    Arc::ptr_eq(one, other) || one[..] == other[..]
}

/// The bounds that both have. Both ascend.
pub(super) fn common_bounds(one: &[f64], other: &[f64]) -> Vec<f64> {
    let mut common = Vec::new();
    let mut other = other.iter().copied().peekable();
    for bound in one {
        while other.next_if(|candidate| candidate < bound).is_some() {}
        common.extend(other.next_if(|candidate| candidate == bound));
    }
    common
}

/// Adds buckets to the cells between the common bounds: each to the first cell that ends at or
/// after its own end; the last cell reaches to infinity.
pub(super) fn add_to_common<C: Count>(
    cells: &mut [C],
    buckets: impl Iterator<Item = Entry<C>>,
    bounds: &[f64],
    common: &[f64],
) {
    for (index, count) in buckets {
        let own_bound = usize::try_from(index.max(0))
            .ok()
            .and_then(|at| bounds.get(at));
        let cell = match own_bound {
            Some(own) => common.partition_point(|bound| bound < own),
            None => common.len(),
        };
        if let Some(sum) = cells.get_mut(cell) {
            *sum = sum.plus(count);
        }
    }
}

/// The threshold, 0 if it is NaN.
fn number(threshold: f64) -> f64 {
    if threshold.is_nan() { 0.0 } else { threshold }
}
