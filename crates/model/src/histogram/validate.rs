//! The checks a histogram has to pass before it is stored: those of Prometheus, plus limits that
//! keep bucket indexes and counts inside their types, so that no later arithmetic has to doubt
//! them.

use super::{
    CUSTOM_BUCKETS_SCHEMA, Histogram, HistogramCounts, HistogramError, MAX_HISTOGRAM_BUCKETS, Span,
};

impl Histogram {
    /// Checks that the parts fit together. Buckets of float histograms are not added up and
    /// compared with the count: rounding would refuse valid ones.
    pub fn validate(&self) -> Result<(), HistogramError> {
        self.check_sizes()?;
        let (positive, negative) = self.counts.bucket_counts();
        match self.schema {
            CUSTOM_BUCKETS_SCHEMA => self.check_custom(positive, negative)?,
            -4..=8 => {
                if !self.custom_bounds.is_empty() {
                    return Err(HistogramError::BoundsWithoutCustom);
                }
                if self.zero_threshold.is_nan() || self.zero_threshold < 0.0 {
                    return Err(HistogramError::ZeroThreshold);
                }
                check_spans(&self.positive_spans, positive)?;
                check_spans(&self.negative_spans, negative)?;
            }
            schema => return Err(HistogramError::Schema(i64::from(schema))),
        }
        self.counts.check(self.sum.is_nan())
    }

    fn check_sizes(&self) -> Result<(), HistogramError> {
        let sizes = [
            self.bucket_count(),
            self.positive_spans.len(),
            self.negative_spans.len(),
            self.custom_bounds.len(),
        ];
        if sizes.iter().any(|size| *size > MAX_HISTOGRAM_BUCKETS) {
            return Err(HistogramError::TooManyBuckets(MAX_HISTOGRAM_BUCKETS));
        }
        Ok(())
    }

    fn check_custom(&self, positive: usize, negative: usize) -> Result<(), HistogramError> {
        check_bounds(&self.custom_bounds)?;
        if self.zero_threshold != 0.0 {
            return Err(HistogramError::NotForCustom("a zero threshold"));
        }
        if self.counts.has_zero_count() {
            return Err(HistogramError::NotForCustom("a zero count"));
        }
        if !self.negative_spans.is_empty() {
            return Err(HistogramError::NotForCustom("negative spans"));
        }
        if negative > 0 {
            return Err(HistogramError::NotForCustom("negative buckets"));
        }
        // Buckets are numbered from 0 here, so the first span may not begin before that either.
        if self
            .positive_spans
            .first()
            .is_some_and(|span| span.offset < 0)
        {
            return Err(HistogramError::SpanOffset(1));
        }
        let end = check_spans(&self.positive_spans, positive)?;
        let bounds = self.custom_bounds.len();
        // One bucket more than bounds: the last one reaches to +Inf.
        match u64::try_from(end) {
            Ok(span_length) if span_length > bounds as u64 + 1 => {
                Err(HistogramError::TooFewBounds {
                    bounds,
                    span_length,
                })
            }
            _ => Ok(()),
        }
    }
}

/// Bounds may begin with −Inf, as in Prometheus; +Inf is implied and must not be written.
fn check_bounds(bounds: &[f64]) -> Result<(), HistogramError> {
    let increasing = bounds.windows(2).all(|pair| pair[0] < pair[1]);
    let forbidden = |bound: &f64| bound.is_nan() || *bound == f64::INFINITY;
    if !increasing || bounds.iter().any(forbidden) {
        return Err(HistogramError::CustomBounds);
    }
    Ok(())
}

/// Checks spans against the number of buckets they cover, and returns the index after the last
/// bucket. There are at most [`MAX_HISTOGRAM_BUCKETS`] spans of 32-bit numbers, so 64 bits cannot
/// overflow.
fn check_spans(spans: &[Span], have: usize) -> Result<i64, HistogramError> {
    let mut need = 0;
    let mut end = 0;
    for (i, span) in spans.iter().enumerate() {
        if i > 0 && span.offset < 0 {
            return Err(HistogramError::SpanOffset(i + 1));
        }
        need += u64::from(span.length);
        end += i64::from(span.offset) + i64::from(span.length);
        // The lower bound of a bucket belongs to the index before it, which has to exist as well.
        if end <= i64::from(i32::MIN) + i64::from(span.length) || end > i64::from(i32::MAX) {
            return Err(HistogramError::SpanIndex(i + 1));
        }
    }
    if need != have as u64 {
        return Err(HistogramError::SpanLength { need, have });
    }
    Ok(end)
}

impl HistogramCounts {
    fn has_zero_count(&self) -> bool {
        match self {
            Self::Integer { zero_count, .. } => *zero_count != 0,
            Self::Float { zero_count, .. } => *zero_count != 0.0,
        }
    }

    fn check(&self, sum_is_nan: bool) -> Result<(), HistogramError> {
        match self {
            Self::Integer {
                count,
                zero_count,
                positive_deltas,
                negative_deltas,
            } => {
                let observations = observations(positive_deltas)?
                    .checked_add(observations(negative_deltas)?)
                    .and_then(|sum| sum.checked_add(*zero_count))
                    .ok_or(HistogramError::CountOverflow)?;
                // NaN observations are counted but fall into no bucket, and they make the sum NaN.
                let fits = observations == *count || (sum_is_nan && observations < *count);
                if !fits {
                    return Err(HistogramError::CountMismatch {
                        observations,
                        count: *count,
                    });
                }
            }
            Self::Float {
                count,
                zero_count,
                positive,
                negative,
            } => {
                if positive
                    .iter()
                    .chain(negative)
                    .chain([zero_count])
                    .any(|bucket| *bucket < 0.0)
                {
                    return Err(HistogramError::NegativeCount);
                }
                if *count < 0.0 {
                    return Err(HistogramError::NegativeTotal);
                }
            }
        }
        Ok(())
    }
}

/// The sum of all bucket counts that the deltas describe.
fn observations(deltas: &[i64]) -> Result<u64, HistogramError> {
    let mut bucket = 0i64;
    let mut sum = 0u64;
    for delta in deltas {
        bucket = bucket
            .checked_add(*delta)
            .ok_or(HistogramError::CountOverflow)?;
        let count = u64::try_from(bucket).map_err(|_| HistogramError::NegativeCount)?;
        sum = sum
            .checked_add(count)
            .ok_or(HistogramError::CountOverflow)?;
    }
    Ok(sum)
}
