//! Sums of native histograms, for running totals.
//!
//! Holds always:
//! - Integer counts stay integers; a sum that does not fit is an error, and nothing has changed.
//! - Exponential histograms meet in the coarser of their schemas and in a zero bucket that holds
//!   both; custom buckets meet only when their bounds are equal.
//! - Histograms that contradict themselves give some sum or an error, never a panic.

use std::sync::Arc;

use thiserror::Error;

use super::{CUSTOM_BUCKETS_SCHEMA, Histogram, HistogramCounts, Span, same_bits};

/// The coarsest exponential schema.
const COARSEST_SCHEMA: i8 = -4;

/// Why two histograms have no sum.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum HistogramAddError {
    #[error("the bounds of the buckets differ")]
    Bounds,
    #[error("the sum of the counts is too large")]
    Overflow,
}

impl Histogram {
    /// Adds the counts and the sum of another histogram. The reset hint stays.
    pub fn add(&mut self, other: &Histogram) -> Result<(), HistogramAddError> {
        let custom = |h: &Histogram| h.schema == CUSTOM_BUCKETS_SCHEMA;
        let same_bounds = Arc::ptr_eq(&self.custom_bounds, &other.custom_bounds)
            || same_bits(&self.custom_bounds, &other.custom_bounds);
        if custom(self) != custom(other) || (custom(self) && !same_bounds) {
            return Err(HistogramAddError::Bounds);
        }
        let same_layout = self.schema == other.schema
            && self.zero_threshold == other.zero_threshold
            && self.positive_spans == other.positive_spans
            && self.negative_spans == other.negative_spans;
        match same_layout
            .then(|| self.counts.add(&other.counts))
            .flatten()
        {
            Some(counts) => self.counts = counts?,
            None => self.add_by_index(other)?,
        }
        self.sum += other.sum;
        Ok(())
    }

    /// Makes the buckets coarser until neither side has more than `max` of them, as far as there
    /// are coarser schemas.
    pub fn limit_buckets(&mut self, max: usize) {
        let (positive, negative) = self.counts.bucket_counts();
        if positive.max(negative) <= max || self.schema == CUSTOM_BUCKETS_SCHEMA {
            return;
        }
        // Merging neighbours cannot overflow where the counts had a sum before.
        let _ = match &self.counts {
            HistogramCounts::Integer { .. } => self.coarsened::<i64>(max),
            HistogramCounts::Float { .. } => self.coarsened::<f64>(max),
        }
        .map(|coarser| *self = coarser);
    }

    fn coarsened<C: Count>(&self, max: usize) -> Result<Self, HistogramAddError> {
        let mut indexed = IndexedHistogram::<C>::of(self)?;
        while indexed.positive.len().max(indexed.negative.len()) > max
            && indexed.schema > COARSEST_SCHEMA
        {
            indexed.coarsen(indexed.schema - 1)?;
        }
        indexed.into_histogram(self)
    }

    fn add_by_index(&mut self, other: &Histogram) -> Result<(), HistogramAddError> {
        let integers = |h: &Histogram| matches!(h.counts, HistogramCounts::Integer { .. });
        let sum = if integers(self) && integers(other) {
            IndexedHistogram::<i64>::of(self)?
                .plus(IndexedHistogram::of(other)?)?
                .into_histogram(self)
        } else {
            IndexedHistogram::<f64>::of(self)?
                .plus(IndexedHistogram::of(other)?)?
                .into_histogram(self)
        };
        *self = sum?;
        Ok(())
    }
}

impl HistogramCounts {
    /// The sum of counts of one layout; `None` where kinds or numbers of buckets differ.
    fn add(&self, other: &Self) -> Option<Result<Self, HistogramAddError>> {
        if self.bucket_counts() != other.bucket_counts() {
            return None;
        }
        match (self, other) {
            (
                Self::Integer {
                    count,
                    zero_count,
                    positive_deltas,
                    negative_deltas,
                },
                Self::Integer {
                    count: count_added,
                    zero_count: zero_added,
                    positive_deltas: positive_added,
                    negative_deltas: negative_added,
                },
            ) => {
                // Differences of neighbours add up like the counts themselves.
                let side = |one: &[i64], added: &[i64]| -> Option<Vec<i64>> {
                    let pairs = one.iter().zip(added);
                    pairs.map(|(a, b)| a.checked_add(*b)).collect()
                };
                let sum = || {
                    Some(Self::Integer {
                        count: count.checked_add(*count_added)?,
                        zero_count: zero_count.checked_add(*zero_added)?,
                        positive_deltas: side(positive_deltas, positive_added)?,
                        negative_deltas: side(negative_deltas, negative_added)?,
                    })
                };
                Some(sum().ok_or(HistogramAddError::Overflow))
            }
            (
                Self::Float {
                    count,
                    zero_count,
                    positive,
                    negative,
                },
                Self::Float {
                    count: count_added,
                    zero_count: zero_added,
                    positive: positive_added,
                    negative: negative_added,
                },
            ) => {
                let side = |one: &[f64], added: &[f64]| {
                    one.iter().zip(added).map(|(a, b)| a + b).collect()
                };
                Some(Ok(Self::Float {
                    count: count + count_added,
                    zero_count: zero_count + zero_added,
                    positive: side(positive, positive_added),
                    negative: side(negative, negative_added),
                }))
            }
            _ => None,
        }
    }
}

/// A count that can be added up.
trait Count: Copy + PartialEq + Default {
    fn plus(self, other: Self) -> Option<Self>;
    fn from_integer(count: i64) -> Self;
    /// `None` where a float would lose its fraction.
    fn from_float(count: f64) -> Option<Self>;
    fn counts(
        count: Self,
        zero: Self,
        positive: Vec<Self>,
        negative: Vec<Self>,
    ) -> Option<HistogramCounts>;
}

impl Count for i64 {
    fn plus(self, other: Self) -> Option<Self> {
        self.checked_add(other)
    }

    fn from_integer(count: i64) -> Self {
        count
    }

    fn from_float(_: f64) -> Option<Self> {
        None
    }

    fn counts(
        count: Self,
        zero: Self,
        positive: Vec<Self>,
        negative: Vec<Self>,
    ) -> Option<HistogramCounts> {
        let deltas = |counts: Vec<i64>| -> Option<Vec<i64>> {
            let mut before = 0i64;
            let each = counts.into_iter().map(|count| {
                let delta = count.checked_sub(before);
                before = count;
                delta
            });
            each.collect()
        };
        Some(HistogramCounts::Integer {
            count: u64::try_from(count).ok()?,
            zero_count: u64::try_from(zero).ok()?,
            positive_deltas: deltas(positive)?,
            negative_deltas: deltas(negative)?,
        })
    }
}

impl Count for f64 {
    fn plus(self, other: Self) -> Option<Self> {
        Some(self + other)
    }

    fn from_integer(count: i64) -> Self {
        count as f64
    }

    fn from_float(count: f64) -> Option<Self> {
        Some(count)
    }

    fn counts(
        count: Self,
        zero: Self,
        positive: Vec<Self>,
        negative: Vec<Self>,
    ) -> Option<HistogramCounts> {
        Some(HistogramCounts::Float {
            count,
            zero_count: zero,
            positive,
            negative,
        })
    }
}

type Entries<C> = Vec<(i64, C)>;

/// A histogram as lists of buckets in the order of their indexes.
struct IndexedHistogram<C> {
    schema: i8,
    zero_threshold: f64,
    count: C,
    zero: C,
    positive: Entries<C>,
    negative: Entries<C>,
}

impl<C: Count> IndexedHistogram<C> {
    fn of(histogram: &Histogram) -> Result<Self, HistogramAddError> {
        let overflow = HistogramAddError::Overflow;
        let whole = |count: u64| {
            i64::try_from(count)
                .map(C::from_integer)
                .map_err(|_| overflow)
        };
        let (count, zero, positive, negative) = match &histogram.counts {
            HistogramCounts::Integer {
                count,
                zero_count,
                positive_deltas,
                negative_deltas,
            } => (
                whole(*count)?,
                whole(*zero_count)?,
                absolute(positive_deltas).ok_or(overflow)?,
                absolute(negative_deltas).ok_or(overflow)?,
            ),
            HistogramCounts::Float {
                count,
                zero_count,
                positive,
                negative,
            } => {
                let float = |count: &f64| C::from_float(*count).ok_or(overflow);
                let side = |counts: &[f64]| counts.iter().map(float).collect::<Result<Vec<C>, _>>();
                (
                    float(count)?,
                    float(zero_count)?,
                    side(positive)?,
                    side(negative)?,
                )
            }
        };
        let threshold = histogram.zero_threshold;
        Ok(Self {
            schema: histogram.schema,
            zero_threshold: if threshold.is_nan() { 0.0 } else { threshold },
            count,
            zero,
            positive: indexed(&histogram.positive_spans, positive),
            negative: indexed(&histogram.negative_spans, negative),
        })
    }

    fn plus(mut self, mut other: Self) -> Result<Self, HistogramAddError> {
        if self.schema != CUSTOM_BUCKETS_SCHEMA {
            let mut threshold = self.zero_threshold.max(other.zero_threshold);
            // Widening one may end beyond the other's buckets; each turn takes some buckets away.
            while self.zero_threshold != threshold || other.zero_threshold != threshold {
                self.widen_zero_bucket(threshold)?;
                other.widen_zero_bucket(threshold)?;
                threshold = self.zero_threshold.max(other.zero_threshold);
            }
            let schema = self.schema.min(other.schema);
            self.coarsen(schema)?;
            other.coarsen(schema)?;
        }
        let overflow = HistogramAddError::Overflow;
        self.count = self.count.plus(other.count).ok_or(overflow)?;
        self.zero = self.zero.plus(other.zero).ok_or(overflow)?;
        self.positive = merge_entries(self.positive, other.positive).ok_or(overflow)?;
        self.negative = merge_entries(self.negative, other.negative).ok_or(overflow)?;
        Ok(self)
    }

    fn coarsen(&mut self, schema: i8) -> Result<(), HistogramAddError> {
        let steps = i64::from(self.schema) - i64::from(schema);
        if steps <= 0 {
            return Ok(());
        }
        for side in [&mut self.positive, &mut self.negative] {
            let mut merged: Entries<C> = Vec::with_capacity(side.len());
            for (index, count) in side.drain(..) {
                let index = ((index - 1) >> steps.min(63)) + 1;
                match merged.last_mut() {
                    Some((last, sum)) if *last == index => {
                        *sum = sum.plus(count).ok_or(HistogramAddError::Overflow)?;
                    }
                    _ => merged.push((index, count)),
                }
            }
            *side = merged;
        }
        self.schema = schema;
        Ok(())
    }

    /// Lets the zero bucket reach to `threshold`, or to the end of the populated bucket in which
    /// that lies.
    fn widen_zero_bucket(&mut self, threshold: f64) -> Result<(), HistogramAddError> {
        if threshold <= self.zero_threshold {
            return Ok(());
        }
        self.zero_threshold = threshold;
        for side in [&mut self.positive, &mut self.negative] {
            let mut within = 0;
            for (index, count) in side.iter() {
                if bound(index - 1, self.schema) >= self.zero_threshold {
                    break;
                }
                within += 1;
                self.zero = self.zero.plus(*count).ok_or(HistogramAddError::Overflow)?;
                if *count != C::default() {
                    self.zero_threshold = self.zero_threshold.max(bound(*index, self.schema));
                }
            }
            side.drain(..within);
        }
        Ok(())
    }

    fn into_histogram(self, like: &Histogram) -> Result<Histogram, HistogramAddError> {
        let overflow = HistogramAddError::Overflow;
        let (positive_spans, positive) = spans(self.positive).ok_or(overflow)?;
        let (negative_spans, negative) = spans(self.negative).ok_or(overflow)?;
        let counts = C::counts(self.count, self.zero, positive, negative).ok_or(overflow)?;
        Ok(Histogram {
            schema: self.schema,
            reset_hint: like.reset_hint,
            zero_threshold: self.zero_threshold,
            sum: like.sum,
            counts,
            positive_spans,
            negative_spans,
            custom_bounds: Arc::clone(&like.custom_bounds),
        })
    }
}

/// The upper bound of a bucket.
fn bound(index: i64, schema: i8) -> f64 {
    (index as f64 * f64::from(-i32::from(schema)).exp2()).exp2()
}

fn absolute<C: Count>(deltas: &[i64]) -> Option<Vec<C>> {
    let mut count = 0i64;
    let each = deltas.iter().map(|delta| {
        count = count.checked_add(*delta)?;
        Some(C::from_integer(count))
    });
    each.collect()
}

/// Counts with the indexes of their buckets, in order, without empty ones.
fn indexed<C: Count>(spans: &[Span], counts: Vec<C>) -> Entries<C> {
    let mut next = 0i64;
    let indexes = spans.iter().flat_map(|span| {
        let first = next.saturating_add(span.offset.into());
        next = first.saturating_add(span.length.into());
        first..next
    });
    let mut entries: Entries<C> = indexes.zip(counts).collect();
    entries.retain(|(_, count)| *count != C::default());
    entries.sort_unstable_by_key(|(index, _)| *index);
    entries
}

fn merge_entries<C: Count>(one: Entries<C>, other: Entries<C>) -> Option<Entries<C>> {
    let mut both: Entries<C> = Vec::with_capacity(one.len() + other.len());
    let mut other = other.into_iter().peekable();
    for (index, count) in one {
        while let Some(earlier) = other.next_if(|(added, _)| *added < index) {
            both.push(earlier);
        }
        let mut sum = count;
        while let Some((_, added)) = other.next_if(|(added, _)| *added == index) {
            sum = sum.plus(added)?;
        }
        both.push((index, sum));
    }
    both.extend(other);
    Some(both)
}

/// Spans and counts of a list of buckets. `None` where a distance does not fit.
fn spans<C: Count>(entries: Entries<C>) -> Option<(Vec<Span>, Vec<C>)> {
    let mut spans: Vec<Span> = Vec::new();
    let mut counts = Vec::with_capacity(entries.len());
    let mut end = 0i64;
    for (index, count) in entries {
        match spans.last_mut() {
            Some(span) if index == end => span.length = span.length.checked_add(1)?,
            _ => spans.push(Span {
                offset: i32::try_from(index.checked_sub(end)?).ok()?,
                length: 1,
            }),
        }
        counts.push(count);
        end = index.checked_add(1)?;
    }
    Some((spans, counts))
}

#[cfg(test)]
mod tests;
