//! Iteration over the buckets of a histogram, from either end.
//!
//! Spans and counts may be inconsistent: counts beyond the spans, and spans beyond the counts, are
//! ignored.

use crate::{CUSTOM_BUCKETS_SCHEMA, Span};

use super::FloatHistogram;
use super::bounds::upper_bound;

/// A bucket with its bounds and the absolute count of observations in it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bucket {
    pub lower: f64,
    pub upper: f64,
    pub lower_inclusive: bool,
    pub upper_inclusive: bool,
    pub count: f64,
    /// Within the schema and the side; 0 for the zero bucket.
    pub index: i64,
}

impl FloatHistogram {
    pub fn uses_custom_buckets(&self) -> bool {
        self.schema == CUSTOM_BUCKETS_SCHEMA
    }

    /// The positive buckets, away from zero.
    pub fn positive_buckets(&self) -> impl DoubleEndedIterator<Item = Bucket> + '_ {
        IndexedCounts::new(&self.positive_spans, &self.positive)
            .map(|(index, count)| self.positive_bucket(index, count))
    }

    /// The negative buckets, away from zero.
    pub fn negative_buckets(&self) -> impl DoubleEndedIterator<Item = Bucket> + '_ {
        IndexedCounts::new(&self.negative_spans, &self.negative)
            .map(|(index, count)| self.negative_bucket(index, count))
    }

    /// All buckets in ascending order: the negative ones, the zero bucket if it has observations,
    /// the positive ones. A bucket that overlaps the zero bucket is cut there.
    pub fn all_buckets(&self) -> impl DoubleEndedIterator<Item = Bucket> + '_ {
        let negative = self.negative_buckets().rev();
        let zero = (self.zero_count > 0.0).then(|| self.zero_bucket());
        let outside_zero = |bucket| self.cut_at_zero_bucket(bucket);
        negative
            .map(outside_zero)
            .chain(zero)
            .chain(self.positive_buckets().map(outside_zero))
    }

    pub fn zero_bucket(&self) -> Bucket {
        Bucket {
            lower: -self.zero_threshold,
            upper: self.zero_threshold,
            lower_inclusive: true,
            upper_inclusive: true,
            count: self.zero_count,
            index: 0,
        }
    }

    fn positive_bucket(&self, index: i64, count: f64) -> Bucket {
        let lower = upper_bound(index.saturating_sub(1), self.schema, &self.custom_bounds);
        let upper = upper_bound(index, self.schema, &self.custom_bounds);
        self.bucket(lower, upper, index, count)
    }

    fn negative_bucket(&self, index: i64, count: f64) -> Bucket {
        let lower = -upper_bound(index, self.schema, &self.custom_bounds);
        let upper = -upper_bound(index.saturating_sub(1), self.schema, &self.custom_bounds);
        self.bucket(lower, upper, index, count)
    }

    fn bucket(&self, lower: f64, upper: f64, index: i64, count: f64) -> Bucket {
        let (lower_inclusive, upper_inclusive) = if self.uses_custom_buckets() {
            (index == 0, true)
        } else {
            (lower < 0.0, upper > 0.0)
        };
        Bucket {
            lower,
            upper,
            lower_inclusive,
            upper_inclusive,
            count,
            index,
        }
    }

    fn cut_at_zero_bucket(&self, mut bucket: Bucket) -> Bucket {
        if bucket.upper < 0.0 && bucket.upper > -self.zero_threshold {
            bucket.upper = -self.zero_threshold;
        } else if bucket.lower > 0.0 && bucket.lower < self.zero_threshold {
            bucket.lower = self.zero_threshold;
        }
        bucket
    }
}

/// The counts of one side with their bucket indexes.
#[derive(Clone)]
pub(super) struct IndexedCounts<'a> {
    spans: &'a [Span],
    /// Those not yielded yet.
    counts: &'a [f64],
    front: BucketCursor,
    back: BucketCursor,
}

/// The position of the next bucket: `index` is its index, `within` its position in its span.
#[derive(Clone, Copy)]
struct BucketCursor {
    span: usize,
    within: u32,
    index: i64,
}

impl<'a> IndexedCounts<'a> {
    pub(super) fn new(spans: &'a [Span], counts: &'a [f64]) -> Self {
        let in_spans: u64 = spans.iter().map(|span| u64::from(span.length)).sum();
        let used = counts
            .len()
            .min(usize::try_from(in_spans).unwrap_or(usize::MAX));
        let front = BucketCursor {
            span: 0,
            within: 0,
            index: spans.first().map_or(0, |span| i64::from(span.offset)),
        };
        Self {
            spans,
            counts: counts.get(..used).unwrap_or_default(),
            front,
            back: last_bucket(spans, used),
        }
    }
}

impl Iterator for IndexedCounts<'_> {
    type Item = (i64, f64);

    fn next(&mut self) -> Option<Self::Item> {
        let (&count, rest) = self.counts.split_first()?;
        while self.front.within >= self.spans.get(self.front.span)?.length {
            self.front.span += 1;
            self.front.within = 0;
            self.front.index += i64::from(self.spans.get(self.front.span)?.offset);
        }
        let index = self.front.index;
        self.front.within += 1;
        self.front.index += 1;
        self.counts = rest;
        Some((index, count))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.counts.len(), Some(self.counts.len()))
    }
}

impl DoubleEndedIterator for IndexedCounts<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        let (&count, rest) = self.counts.split_last()?;
        let index = self.back.index;
        self.counts = rest;
        if !rest.is_empty() {
            self.back = bucket_before(self.spans, self.back)?;
        }
        Some((index, count))
    }
}

/// The position of the last of `used` buckets.
fn last_bucket(spans: &[Span], used: usize) -> BucketCursor {
    let (mut left, mut start) = (used as u64, 0i64);
    for (number, span) in spans.iter().enumerate() {
        start += i64::from(span.offset);
        let length = u64::from(span.length);
        if left > 0 && left <= length {
            let within = (left - 1) as u32;
            let index = start + i64::from(within);
            return BucketCursor {
                span: number,
                within,
                index,
            };
        }
        left = left.saturating_sub(length);
        start += i64::from(span.length);
    }
    BucketCursor {
        span: 0,
        within: 0,
        index: 0,
    }
}

fn bucket_before(spans: &[Span], place: BucketCursor) -> Option<BucketCursor> {
    if let Some(within) = place.within.checked_sub(1) {
        let index = place.index - 1;
        return Some(BucketCursor {
            within,
            index,
            ..place
        });
    }
    let mut index = place.index - i64::from(spans.get(place.span)?.offset);
    for number in (0..place.span).rev() {
        let span = spans.get(number)?;
        if let Some(within) = span.length.checked_sub(1) {
            index -= 1;
            return Some(BucketCursor {
                span: number,
                within,
                index,
            });
        }
        index -= i64::from(span.offset);
    }
    None
}
