//! The operators `</` and `>/`: what of a histogram lies below or above a value.
//!
//! A bucket in which the value lies keeps a part, by the same interpolation as a quantile. The sum is
//! estimated from the middles of what remains, but only if something was cut: a cut beyond all
//! buckets leaves the histogram as it is.

use super::quantile::exponential_fraction;
use super::{Bucket, FloatHistogram};

/// Which observations remain.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keep {
    Below,
    Above,
}

/// What remains of a bucket: a count, and the value that its observations have on average.
struct Kept {
    count: f64,
    middle: f64,
}

impl FloatHistogram {
    /// `self </ limit`: the observations of at most `limit`.
    pub(crate) fn trim_upper(&self, limit: f64) -> Self {
        self.trimmed(limit, Keep::Below)
    }

    /// `self >/ limit`: the observations above `limit`.
    pub(crate) fn trim_lower(&self, limit: f64) -> Self {
        self.trimmed(limit, Keep::Above)
    }

    fn trimmed(&self, limit: f64, keep: Keep) -> Self {
        let mut trimmed = self.clone();
        let mut totals = Totals::default();
        let linear = self.uses_custom_buckets();
        for (bucket, count) in self.positive_buckets().zip(&mut trimmed.positive) {
            let shape = Shape::of(linear, Shape::Positive);
            totals.keep(count, shape.kept(&bucket, limit, keep));
        }
        for (bucket, count) in self.negative_buckets().zip(&mut trimmed.negative) {
            let shape = Shape::of(linear, Shape::Negative);
            totals.keep(count, shape.kept(&bucket, limit, keep));
        }
        if self.zero_count > 0.0 {
            let kept = self.kept_of_zero_bucket(limit, keep);
            totals.keep(&mut trimmed.zero_count, kept);
        }
        if totals.changed {
            trimmed.count = totals.count;
            trimmed.sum = totals.sum;
            trimmed.compact(0);
        }
        trimmed
    }

    fn kept_of_zero_bucket(&self, limit: f64, keep: Keep) -> Kept {
        let mut bucket = self.zero_bucket();
        // Unlike for quantiles, a bucket without observations is none here.
        let is_populated = |counts: &[f64]| counts.iter().any(|count| *count != 0.0);
        match (is_populated(&self.negative), is_populated(&self.positive)) {
            (false, true) => bucket.lower = 0.0,
            (true, false) => bucket.upper = 0.0,
            _ => {}
        }
        Shape::Linear.kept(&bucket, limit, keep)
    }
}

/// What remains of all buckets.
#[derive(Default)]
struct Totals {
    count: f64,
    sum: f64,
    changed: bool,
}

impl Totals {
    fn keep(&mut self, count: &mut f64, kept: Kept) {
        if *count == 0.0 {
            return;
        }
        self.count += kept.count;
        // What is cut to nothing adds nothing, even if it reached to infinity.
        if kept.count != 0.0 {
            self.sum += kept.count * kept.middle;
        }
        if *count != kept.count {
            *count = kept.count;
            self.changed = true;
        }
    }
}

/// How observations spread within a bucket.
#[derive(Clone, Copy)]
enum Shape {
    Linear,
    Positive,
    Negative,
}

impl Shape {
    fn of(linear: bool, exponential: Self) -> Self {
        if linear { Self::Linear } else { exponential }
    }

    fn kept(self, bucket: &Bucket, limit: f64, keep: Keep) -> Kept {
        // A zero bucket without width lies at its lower bound, so that one decides first.
        let (all, none) = match (keep, bucket.lower >= limit) {
            (Keep::Below, true) => (false, true),
            (Keep::Below, false) => (bucket.upper <= limit, false),
            (Keep::Above, true) => (true, false),
            (Keep::Above, false) => (false, bucket.upper <= limit),
        };
        if all {
            return Kept {
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
            Keep::Below => Kept {
                count: below,
                middle: self.middle(bucket.lower, limit),
            },
            Keep::Above => Kept {
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

    /// The middle of an interval. One that is endless has its middle at the end that it has, and one
    /// that ends above zero is taken to begin there.
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

const NOTHING: Kept = Kept {
    count: 0.0,
    middle: 0.0,
};

/// A part of a bucket without a lower bound. If it ends above zero, it is taken to begin there.
fn kept_of_first(bucket: &Bucket, limit: f64, keep: Keep) -> Kept {
    let begins_at_zero = bucket.upper > 0.0 && bucket.upper.is_finite();
    match keep {
        Keep::Below if begins_at_zero && limit > 0.0 => Kept {
            count: bucket.count * limit / bucket.upper,
            middle: limit / 2.0,
        },
        // All may be below the limit, so all are kept, at the limit.
        Keep::Below if bucket.upper <= 0.0 => Kept {
            count: bucket.count,
            middle: limit,
        },
        Keep::Above if begins_at_zero && limit >= 0.0 => Kept {
            count: bucket.count * (1.0 - limit / bucket.upper),
            middle: (limit + bucket.upper) / 2.0,
        },
        _ => NOTHING,
    }
}

/// A part of a bucket without an upper bound: above the limit may be all, below it may be nothing.
fn kept_of_last(bucket: &Bucket, limit: f64, keep: Keep) -> Kept {
    match keep {
        Keep::Above => Kept {
            count: bucket.count,
            middle: limit,
        },
        Keep::Below => NOTHING,
    }
}
