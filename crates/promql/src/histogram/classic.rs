//! Quantiles and fractions of classic histograms: series of cumulative counts by upper bound.

/// A bucket of a classic histogram.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ClassicBucket {
    pub(crate) upper: f64,
    /// Of all observations up to `upper`.
    pub(crate) count: f64,
}

/// Relative difference of two counts that counts as a rounding error. One observation is that small
/// only in a bucket of 10¹².
const SMALL_DELTA: f64 = 1e-12;

/// A quantile, and how the counts were fixed to compute it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ClassicQuantile {
    pub(crate) value: f64,
    /// Counts that were smaller than the one before, and were raised.
    pub(crate) monotonicity_fix: Option<MonotonicityFix>,
    /// Small differences were ignored.
    pub(crate) fixed_precision: bool,
}

/// The lowest and highest bucket whose count was raised to be monotonic, and the largest
/// difference.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct MonotonicityFix {
    pub(crate) lowest: f64,
    pub(crate) highest: f64,
    pub(crate) difference_max: f64,
}

/// The value below which a fraction `q` of the observations lies. Sorts the buckets and makes their
/// counts monotonic, so a second quantile of the same buckets needs no fix.
pub(crate) fn bucket_quantile(q: f64, buckets: &mut Vec<ClassicBucket>) -> ClassicQuantile {
    let unfixed = |value| ClassicQuantile {
        value,
        monotonicity_fix: None,
        fixed_precision: false,
    };
    if q.is_nan() {
        return unfixed(f64::NAN);
    }
    if q < 0.0 {
        return unfixed(f64::NEG_INFINITY);
    }
    if q > 1.0 {
        return unfixed(f64::INFINITY);
    }
    if !sort_and_merge(buckets) {
        return unfixed(f64::NAN);
    }
    let (monotonicity_fix, fixed_precision) = ensure_monotonic(buckets);
    // Without a result no fixes are reported.
    if buckets.len() < 2 || buckets.last().is_some_and(|last| last.count == 0.0) {
        return unfixed(f64::NAN);
    }
    ClassicQuantile {
        value: quantile_of_monotonic(q, buckets),
        monotonicity_fix,
        fixed_precision,
    }
}

fn quantile_of_monotonic(q: f64, buckets: &[ClassicBucket]) -> f64 {
    // The last bucket is that of +Inf.
    let Some((last, finite)) = buckets.split_last() else {
        return f64::NAN;
    };
    let (Some(highest), Some(lowest)) = (finite.last(), finite.first()) else {
        return f64::NAN;
    };
    let rank = q * last.count;
    // NaN counts and ranks are never reached.
    let at = finite.partition_point(|bucket| {
        let reached = bucket.count >= rank;
        !reached
    });
    let Some(bucket) = finite.get(at) else {
        return highest.upper;
    };
    if at == 0 && lowest.upper <= 0.0 {
        return lowest.upper;
    }
    let before = at.checked_sub(1).and_then(|before| finite.get(before));
    let (start, below) = before.map_or((0.0, 0.0), |before| (before.upper, before.count));
    start + (bucket.upper - start) * ((rank - below) / (bucket.count - below))
}

/// The fraction of the observations between two values.
pub(crate) fn bucket_fraction(lower: f64, upper: f64, buckets: &mut Vec<ClassicBucket>) -> f64 {
    if !sort_and_merge(buckets) {
        return f64::NAN;
    }
    let count = buckets.last().map_or(0.0, |bucket| bucket.count);
    if count == 0.0 || lower.is_nan() || upper.is_nan() {
        return f64::NAN;
    }
    if lower >= upper {
        return 0.0;
    }
    let capped = |value| {
        let rank = rank_of(value, buckets);
        rank.filter(|rank| *rank <= count).unwrap_or(count)
    };
    (capped(upper) - capped(lower)) / count
}

/// The number of observations below a value; none if it is above all buckets.
fn rank_of(value: f64, buckets: &[ClassicBucket]) -> Option<f64> {
    // If the first bucket ends above zero, it is assumed to start there.
    let starts_at_zero = buckets.first().is_some_and(|bucket| bucket.upper > 0.0);
    let mut start = if starts_at_zero {
        0.0
    } else {
        f64::NEG_INFINITY
    };
    let mut rank = 0.0;
    for bucket in buckets {
        if start >= value {
            return Some(rank);
        }
        if bucket.upper > value {
            return Some(if start == f64::NEG_INFINITY {
                // No interpolation within a bucket without a lower bound.
                bucket.count
            } else {
                rank + (bucket.count - rank) * (value - start) / (bucket.upper - start)
            });
        }
        rank = bucket.count;
        start = bucket.upper;
    }
    None
}

/// Sorts the buckets and adds up the counts of equal bounds. False without a bucket of +Inf, which
/// is required.
fn sort_and_merge(buckets: &mut Vec<ClassicBucket>) -> bool {
    buckets.sort_by(|a, b| a.upper.total_cmp(&b.upper));
    if buckets
        .last()
        .is_none_or(|last| last.upper != f64::INFINITY)
    {
        return false;
    }
    buckets.dedup_by(|later, earlier| {
        let same = later.upper == earlier.upper;
        if same {
            earlier.count += later.count;
        }
        same
    });
    true
}

/// Makes the counts monotonic. Races of scrapes and rules, and rounding, can break that.
fn ensure_monotonic(buckets: &mut [ClassicBucket]) -> (Option<MonotonicityFix>, bool) {
    let (mut fix, mut fixed_precision) = (None, false);
    let Some((first, rest)) = buckets.split_first_mut() else {
        return (None, false);
    };
    let mut highest_count = first.count;
    for bucket in rest {
        if bucket.count == highest_count {
            continue;
        }
        if almost_equal(highest_count, bucket.count) {
            bucket.count = highest_count;
            fixed_precision = true;
        } else if bucket.count < highest_count {
            let difference = highest_count - bucket.count;
            let so_far = fix.unwrap_or(MonotonicityFix {
                lowest: bucket.upper,
                highest: bucket.upper,
                difference_max: difference,
            });
            fix = Some(MonotonicityFix {
                lowest: so_far.lowest,
                highest: bucket.upper,
                difference_max: so_far.difference_max.max(difference),
            });
            bucket.count = highest_count;
        } else {
            highest_count = bucket.count;
        }
    }
    (fix, fixed_precision)
}

fn almost_equal(a: f64, b: f64) -> bool {
    if a.is_nan() && b.is_nan() {
        return true;
    }
    let (sum, difference) = (a.abs() + b.abs(), (a - b).abs());
    if a == 0.0 || b == 0.0 || sum < f64::MIN_POSITIVE {
        return difference < SMALL_DELTA * f64::MIN_POSITIVE;
    }
    difference / sum.min(f64::MAX) < SMALL_DELTA
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buckets(list: &[(f64, f64)]) -> Vec<ClassicBucket> {
        let bucket = |(upper, count): &(f64, f64)| ClassicBucket {
            upper: *upper,
            count: *count,
        };
        list.iter().map(bucket).collect()
    }

    const ENDLESS: f64 = f64::INFINITY;

    #[test]
    fn quantiles_interpolate() {
        let list = [(0.1, 50.0), (0.2, 70.0), (1.0, 110.0), (ENDLESS, 120.0)];
        let quantile = |q| bucket_quantile(q, &mut buckets(&list)).value;
        assert!((quantile(0.2) - 0.048).abs() < 1e-12);
        assert!((quantile(0.5) - 0.15).abs() < 1e-12);
        assert!((quantile(0.8) - 0.72).abs() < 1e-12);
        assert_eq!(quantile(1.0), 1.0);
        assert_eq!(quantile(0.0), 0.0);
        assert_eq!(quantile(-0.1), f64::NEG_INFINITY);
        assert_eq!(quantile(1.1), f64::INFINITY);
        assert!(quantile(f64::NAN).is_nan());
    }

    #[test]
    fn counts_that_fall_are_raised_and_reported() {
        let list = [
            (0.1, 20.0),
            (1.0, 10.0),
            (10.0, 50.0),
            (100.0, 40.0),
            (1000.0, 90.0),
            (ENDLESS, 80.0),
        ];
        let found = bucket_quantile(0.5, &mut buckets(&list));
        assert_eq!(found.value, 8.5);
        let fix = MonotonicityFix {
            lowest: 1.0,
            highest: ENDLESS,
            difference_max: 10.0,
        };
        assert_eq!(found.monotonicity_fix, Some(fix));
        assert!((bucket_quantile(0.99, &mut buckets(&list)).value - 979.75).abs() < 1e-9);
    }

    #[test]
    fn rounding_errors_are_ignored() {
        let list = [(1.0, 100.0), (2.0, 100.0 - 1e-12), (ENDLESS, 100.0)];
        let found = bucket_quantile(0.5, &mut buckets(&list));
        assert_eq!(found.monotonicity_fix, None);
        assert!(found.fixed_precision);
    }

    #[test]
    fn equal_bounds_add_up() {
        let list = [
            (0.1, 10.0),
            (0.2, 10.0),
            (0.2, 10.0),
            (0.2, 10.0),
            (ENDLESS, 40.0),
        ];
        assert!((bucket_quantile(0.5, &mut buckets(&list)).value - 0.15).abs() < 1e-12);
    }

    #[test]
    fn too_little_gives_nan() {
        for list in [
            vec![],
            vec![(1.0, 5.0)],
            vec![(ENDLESS, 5.0)],
            vec![(1.0, 0.0), (ENDLESS, 0.0)],
            vec![(f64::NAN, 1.0), (ENDLESS, 5.0)],
        ] {
            assert!(bucket_quantile(0.5, &mut buckets(&list)).value.is_nan());
        }
    }

    #[test]
    fn fractions_interpolate() {
        let list = [(1.0, 1.0), (2.0, 3.0), (3.0, 6.0), (ENDLESS, 100.0)];
        let fraction = |lower, upper| bucket_fraction(lower, upper, &mut buckets(&list));
        assert_eq!(fraction(0.0, 1.5), 0.02);
        assert_eq!(fraction(f64::NEG_INFINITY, ENDLESS), 1.0);
        assert_eq!(fraction(4.0, 5.0), 0.0);
        assert_eq!(fraction(2.0, 5.0), 0.03);
        assert_eq!(fraction(400.0, ENDLESS), 0.94);
        assert_eq!(fraction(2.0, 2.0), 0.0);
        assert_eq!(fraction(-10.0, -5.0), 0.0);
        assert!(fraction(f64::NAN, 1.0).is_nan());
        let negative = [(-3.0, 10.0), (-2.0, 12.0), (-1.0, 15.0), (ENDLESS, 100.0)];
        let below = bucket_fraction(f64::NEG_INFINITY, -1.5, &mut buckets(&negative));
        assert_eq!(below, 0.135);
        assert_eq!(bucket_fraction(-4.0, -2.0, &mut buckets(&negative)), 0.02);
        assert!(bucket_fraction(0.0, 1.0, &mut Vec::new()).is_nan());
        assert_eq!(
            bucket_fraction(0.0, 1.0, &mut buckets(&[(ENDLESS, 100.0)])),
            0.0
        );
    }
}
