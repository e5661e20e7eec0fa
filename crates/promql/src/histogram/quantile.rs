//! Quantiles and fractions of native histograms, by interpolation within a bucket.
//!
//! Observations are assumed to be spread evenly over the logarithm within an exponential bucket,
//! and evenly within the zero bucket and custom buckets. The zero bucket of a histogram with only
//! positive buckets starts at 0, and with only negative ones ends there.
//!
//! Observations of NaN are in the count but in no bucket; they make the sum NaN.

use super::{Bucket, FloatHistogram};
use crate::go_math::{exp2, log2};

/// How NaN observations affected a quantile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QuantileAnnotation {
    /// The quantile is among the NaNs.
    NaNResult,
    /// They count as larger than all others.
    NaNSkew,
}

/// Ranks of observations.
pub(crate) trait Quantiles {
    /// The value below which a fraction `q` of the observations lies.
    fn quantile(&self, q: f64) -> (f64, Option<QuantileAnnotation>);

    /// The fraction of the observations between two values, and whether there are NaNs, which are
    /// in no fraction.
    fn fraction(&self, lower: f64, upper: f64) -> (f64, bool);
}

impl Quantiles for FloatHistogram {
    fn quantile(&self, q: f64) -> (f64, Option<QuantileAnnotation>) {
        if q < 0.0 {
            return (f64::NEG_INFINITY, None);
        }
        if q > 1.0 {
            return (f64::INFINITY, None);
        }
        if self.count == 0.0 || q.is_nan() {
            return (f64::NAN, None);
        }
        // From the nearer end; but NaNs have no bucket, so with them only from the lower end.
        let has_nans = self.sum.is_nan();
        if has_nans || q < 0.5 {
            let found = find_rank(self.all_buckets(), q * self.count);
            let (value, is_nan_result) = value_at(self, &found, false);
            let annotation = match (has_nans, is_nan_result) {
                (true, true) => Some(QuantileAnnotation::NaNResult),
                (true, false) if observed(self) < self.count => Some(QuantileAnnotation::NaNSkew),
                _ => None,
            };
            (value, annotation)
        } else {
            let found = find_rank(self.all_buckets().rev(), (1.0 - q) * self.count);
            (value_at(self, &found, true).0, None)
        }
    }

    fn fraction(&self, lower: f64, upper: f64) -> (f64, bool) {
        if self.count == 0.0 || lower.is_nan() || upper.is_nan() {
            return (f64::NAN, false);
        }
        if lower >= upper {
            return (0.0, false);
        }
        let (lower_rank, upper_rank) = ranks(self, lower, upper);
        let has_nans = self.sum.is_nan();
        let count = if has_nans { observed(self) } else { self.count };
        let capped = |rank: Option<f64>| rank.filter(|rank| *rank <= count).unwrap_or(count);
        let fraction = (capped(upper_rank) - capped(lower_rank)) / self.count;
        (fraction, has_nans && count < self.count)
    }
}

/// The value at the rank, and whether it is NaN because the rank is among the NaNs.
fn value_at(histogram: &FloatHistogram, found: &RankPosition, from_above: bool) -> (f64, bool) {
    let mut bucket = cut_to_one_sign(histogram, found.bucket);
    if histogram.uses_custom_buckets() {
        if bucket.lower == f64::NEG_INFINITY {
            if bucket.upper <= 0.0 {
                return (bucket.upper, false);
            }
            bucket.lower = 0.0;
        } else if bucket.upper == f64::INFINITY {
            return (bucket.lower, false);
        }
    }
    // Rounding can make the sum of the buckets larger than the count.
    let count = found.count.min(histogram.count);
    if count < found.rank {
        return if histogram.sum.is_nan() {
            (f64::NAN, true)
        } else {
            // The buckets hold less than the count: an invalid histogram.
            (bucket.upper, false)
        };
    }
    let rank_in_bucket = if from_above {
        count - found.rank
    } else {
        found.rank - (count - bucket.count)
    };
    let fraction = rank_in_bucket / bucket.count;
    (interpolated(histogram, &bucket, fraction), false)
}

fn interpolated(histogram: &FloatHistogram, bucket: &Bucket, fraction: f64) -> f64 {
    if histogram.uses_custom_buckets() || (bucket.lower <= 0.0 && bucket.upper >= 0.0) {
        return bucket.lower + (bucket.upper - bucket.lower) * fraction;
    }
    let (lower, upper) = (log2(bucket.lower.abs()), log2(bucket.upper.abs()));
    if bucket.lower > 0.0 {
        exp2(lower + (upper - lower) * fraction)
    } else {
        -exp2(upper + (lower - upper) * (1.0 - fraction))
    }
}

/// The zero bucket without the sign that no other bucket has.
fn cut_to_one_sign(histogram: &FloatHistogram, mut bucket: Bucket) -> Bucket {
    if !histogram.uses_custom_buckets() && bucket.lower < 0.0 && bucket.upper > 0.0 {
        match (histogram.negative.is_empty(), histogram.positive.is_empty()) {
            (true, false) => bucket.lower = 0.0,
            (false, true) => bucket.upper = 0.0,
            _ => {}
        }
    }
    bucket
}

/// The observations in buckets: all but NaNs.
fn observed(histogram: &FloatHistogram) -> f64 {
    histogram.all_buckets().map(|bucket| bucket.count).sum()
}

/// The number of observations below each of two values; none if it is above all buckets.
fn ranks(histogram: &FloatHistogram, lower: f64, upper: f64) -> (Option<f64>, Option<f64>) {
    let (mut lower_rank, mut upper_rank) = (None, None);
    let mut rank = 0.0;
    for bucket in histogram.all_buckets() {
        let bucket = cut_for_fraction(histogram, bucket);
        for (value, known) in [(lower, &mut lower_rank), (upper, &mut upper_rank)] {
            if known.is_none() {
                *known = rank_in(histogram, &bucket, rank, value);
            }
        }
        if lower_rank.is_some() && upper_rank.is_some() {
            break;
        }
        rank += bucket.count;
    }
    (lower_rank, upper_rank)
}

/// Like [`cut_to_one_sign`], also for custom buckets around zero: all of them are stored
/// as positive ones, and the first has no other lower bound.
fn cut_for_fraction(histogram: &FloatHistogram, mut bucket: Bucket) -> Bucket {
    if bucket.lower <= 0.0 && bucket.upper >= 0.0 {
        match (histogram.negative.is_empty(), histogram.positive.is_empty()) {
            (true, false) => bucket.lower = 0.0,
            (false, true) => bucket.upper = 0.0,
            _ => {}
        }
    }
    bucket
}

/// The rank of a value that lies before or within a bucket.
fn rank_in(histogram: &FloatHistogram, bucket: &Bucket, rank: f64, value: f64) -> Option<f64> {
    if bucket.lower >= value {
        return Some(rank);
    }
    if bucket.upper <= value || bucket.upper.is_nan() {
        return None;
    }
    let around_zero = bucket.lower <= 0.0 && bucket.upper >= 0.0;
    Some(if !histogram.uses_custom_buckets() && !around_zero {
        rank + bucket.count * exponential_fraction(bucket, value)
    } else if bucket.lower == f64::NEG_INFINITY {
        // No interpolation within a bucket without a lower bound.
        bucket.count
    } else {
        rank + bucket.count * (value - bucket.lower) / (bucket.upper - bucket.lower)
    })
}

/// The fraction of an exponential bucket below a value within it.
pub(super) fn exponential_fraction(bucket: &Bucket, value: f64) -> f64 {
    let (lower, upper) = (log2(bucket.lower.abs()), log2(bucket.upper.abs()));
    let value_log = log2(value.abs());
    if value > 0.0 {
        (value_log - lower) / (upper - lower)
    } else {
        1.0 - (value_log - upper) / (lower - upper)
    }
}

/// The bucket in which a rank lies; the last one where the buckets do not reach it.
struct RankPosition {
    rank: f64,
    bucket: Bucket,
    /// Observations up to and with the bucket.
    count: f64,
}

fn find_rank(buckets: impl Iterator<Item = Bucket>, rank: f64) -> RankPosition {
    let mut found = RankPosition {
        rank,
        bucket: Bucket {
            lower: 0.0,
            upper: 0.0,
            lower_inclusive: false,
            upper_inclusive: false,
            count: 0.0,
            index: 0,
        },
        count: 0.0,
    };
    for bucket in buckets {
        found.bucket = bucket;
        if bucket.count == 0.0 {
            continue;
        }
        found.count += bucket.count;
        if found.count >= rank {
            break;
        }
    }
    found
}
