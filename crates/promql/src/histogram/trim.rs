//! The operators `</` and `>/`: the observations of a histogram below or above a value.
//!
//! The bucket that contains the value is split by the same interpolation as for quantiles. The sum
//! is estimated from the middles of the remaining parts, but only if something was cut off: a cut
//! beyond all buckets leaves the histogram unchanged.

use super::quantile::exponential_fraction;
use super::{Bucket, FloatHistogram};

/// Which observations remain.
#[derive(Clone, Copy, PartialEq, Eq)]
enum KeptSide {
    Below,
    Above,
}

/// The rest of a bucket after a cut: its count, and the average value of its observations.
struct Remainder {
    count: f64,
    middle: f64,
}

/// The observations on one side of a limit.
pub(crate) trait Trim {
    /// `self </ limit`: the observations of at most `limit`.
    fn trim_upper(&self, limit: f64) -> Self;

    /// `self >/ limit`: the observations above `limit`.
    fn trim_lower(&self, limit: f64) -> Self;
}

impl Trim for FloatHistogram {
    fn trim_upper(&self, limit: f64) -> Self {
        trimmed(self, limit, KeptSide::Below)
    }

    fn trim_lower(&self, limit: f64) -> Self {
        trimmed(self, limit, KeptSide::Above)
    }
}

fn trimmed(histogram: &FloatHistogram, limit: f64, keep: KeptSide) -> FloatHistogram {
    let mut trimmed = histogram.clone();
    let mut totals = Totals::default();
    let linear = histogram.uses_custom_buckets();
    for (bucket, count) in histogram.positive_buckets().zip(&mut trimmed.positive) {
        let interpolation = Interpolation::of(linear, Interpolation::Positive);
        totals.keep(count, interpolation.kept(&bucket, limit, keep));
    }
    for (bucket, count) in histogram.negative_buckets().zip(&mut trimmed.negative) {
        let interpolation = Interpolation::of(linear, Interpolation::Negative);
        totals.keep(count, interpolation.kept(&bucket, limit, keep));
    }
    if histogram.zero_count > 0.0 {
        let kept = kept_of_zero_bucket(histogram, limit, keep);
        totals.keep(&mut trimmed.zero_count, kept);
    }
    if totals.changed {
        trimmed.count = totals.count;
        trimmed.sum = totals.sum;
        trimmed.compact(0);
    }
    trimmed
}

fn kept_of_zero_bucket(histogram: &FloatHistogram, limit: f64, keep: KeptSide) -> Remainder {
    let mut bucket = histogram.zero_bucket();
    // Unlike for quantiles, buckets without observations do not count.
    let is_populated = |counts: &[f64]| counts.iter().any(|count| *count != 0.0);
    match (
        is_populated(&histogram.negative),
        is_populated(&histogram.positive),
    ) {
        (false, true) => bucket.lower = 0.0,
        (true, false) => bucket.upper = 0.0,
        _ => {}
    }
    Interpolation::Linear.kept(&bucket, limit, keep)
}

/// Totals of the remaining observations.
#[derive(Default)]
struct Totals {
    count: f64,
    sum: f64,
    changed: bool,
}

impl Totals {
    fn keep(&mut self, count: &mut f64, kept: Remainder) {
        if *count == 0.0 {
            return;
        }
        self.count += kept.count;
        // An empty rest adds nothing, even if the bucket reached to infinity.
        if kept.count != 0.0 {
            self.sum += kept.count * kept.middle;
        }
        if *count != kept.count {
            *count = kept.count;
            self.changed = true;
        }
    }
}

/// How observations are assumed to be spread within a bucket.
#[derive(Clone, Copy)]
enum Interpolation {
    Linear,
    Positive,
    Negative,
}

impl Interpolation {
    fn of(linear: bool, exponential: Self) -> Self {
        if linear { Self::Linear } else { exponential }
    }

    fn kept(self, bucket: &Bucket, limit: f64, keep: KeptSide) -> Remainder {
        // A zero bucket without width lies at its lower bound, so that one decides first.
        let (all, none) = match (keep, bucket.lower >= limit) {
            (KeptSide::Below, true) => (false, true),
            (KeptSide::Below, false) => (bucket.upper <= limit, false),
            (KeptSide::Above, true) => (true, false),
            (KeptSide::Above, false) => (false, bucket.upper <= limit),
        };
        if all {
            return Remainder {
                count: bucket.count,
                middle: self.middle(bucket.lower, bucket.upper),
            };
        }
        if none || limit.is_nan() {
            return NOTHING;
        }
        if bucket.lower == f64::NEG_INFINITY {
            return kept_of_first(bucket, limit, keep);
        }
        if bucket.upper == f64::INFINITY {
            return kept_of_last(bucket, limit, keep);
        }
        let below = bucket.count * self.fraction_below(bucket, limit);
        match keep {
            KeptSide::Below => Remainder {
                count: below,
                middle: self.middle(bucket.lower, limit),
            },
            KeptSide::Above => Remainder {
                count: bucket.count - below,
                middle: self.middle(limit, bucket.upper),
            },
        }
    }

    fn fraction_below(self, bucket: &Bucket, value: f64) -> f64 {
        match self {
            Self::Linear => (value - bucket.lower) / (bucket.upper - bucket.lower),
            Self::Positive | Self::Negative => exponential_fraction(bucket, value),
        }
    }

    /// The middle of an interval. That of an unbounded one is its finite bound; without a lower
    /// bound and with an upper one above zero it is assumed to start at zero.
    fn middle(self, lower: f64, upper: f64) -> f64 {
        match (lower.is_finite(), upper.is_finite()) {
            (false, false) => 0.0,
            (false, true) if upper > 0.0 => upper / 2.0,
            (false, true) => upper,
            (true, false) => lower,
            (true, true) => match self {
                Self::Linear => (lower + upper) / 2.0,
                Self::Positive => (lower * upper).abs().sqrt(),
                Self::Negative => -(lower * upper).abs().sqrt(),
            },
        }
    }
}

const NOTHING: Remainder = Remainder {
    count: 0.0,
    middle: 0.0,
};

/// A part of a bucket without a lower bound. If it ends above zero, it is assumed to start there.
fn kept_of_first(bucket: &Bucket, limit: f64, keep: KeptSide) -> Remainder {
    let begins_at_zero = bucket.upper > 0.0 && bucket.upper.is_finite();
    match keep {
        KeptSide::Below if begins_at_zero && limit > 0.0 => Remainder {
            count: bucket.count * limit / bucket.upper,
            middle: limit / 2.0,
        },
        // All may be below the limit, so all are kept, at the limit.
        KeptSide::Below if bucket.upper <= 0.0 => Remainder {
            count: bucket.count,
            middle: limit,
        },
        KeptSide::Above if begins_at_zero && limit >= 0.0 => Remainder {
            count: bucket.count * (1.0 - limit / bucket.upper),
            middle: (limit + bucket.upper) / 2.0,
        },
        _ => NOTHING,
    }
}

/// A part of a bucket without an upper bound: all observations count as above the limit.
fn kept_of_last(bucket: &Bucket, limit: f64, keep: KeptSide) -> Remainder {
    match keep {
        KeptSide::Above => Remainder {
            count: bucket.count,
            middle: limit,
        },
        KeptSide::Below => NOTHING,
    }
}
