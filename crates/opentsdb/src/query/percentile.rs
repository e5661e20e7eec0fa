//! Percentiles of sorted values.

/// Where a percentile lies among n values, with q between 0 and 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Estimation {
    /// q·(n + 1)
    Legacy,
    /// n·q rounded to the nearest integer, half to even; the smallest value where q ≤ 0.5 / n.
    R3,
    /// 1 + (n − 1)·q
    R7,
}

impl Estimation {
    fn position(self, q: f64, n: f64) -> f64 {
        match self {
            Self::Legacy => q * (n + 1.0),
            Self::R3 if q <= 0.5 / n => 0.0,
            Self::R3 => (n * q).round_ties_even(),
            Self::R7 => 1.0 + (n - 1.0) * q,
        }
    }
}

/// The percentile of values in ascending order; NaN of none.
pub(crate) fn percentile(sorted: &[f64], p: f64, estimation: Estimation) -> f64 {
    let ranked = |rank: u64| {
        let value = sorted.get((rank as usize).wrapping_sub(1));
        value.copied().unwrap_or(f64::NAN)
    };
    percentile_of(sorted.len() as u64, ranked, p, estimation)
}

/// The percentile of so many values, given the value at each rank, which begin with 1.
pub(crate) fn percentile_of(
    count: u64,
    ranked: impl Fn(u64) -> f64,
    p: f64,
    estimation: Estimation,
) -> f64 {
    if count == 0 {
        return f64::NAN;
    }
    let n = count as f64;
    let position = estimation.position(p / 100.0, n);
    if position < 1.0 {
        return ranked(1);
    }
    if position >= n {
        return ranked(count);
    }
    let at = position.floor();
    let (lower, upper) = (ranked(at as u64), ranked(at as u64 + 1));
    lower + (position - at) * (upper - lower)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_between_values_are_interpolated() {
        let values = [1.0, 2.0, 3.0, 4.0];
        let at = |p, estimation| percentile(&values, p, estimation);
        assert_eq!(at(50.0, Estimation::Legacy), 2.5);
        assert_eq!(at(50.0, Estimation::R3), 2.0);
        assert_eq!(at(50.0, Estimation::R7), 2.5);
        assert_eq!(at(75.0, Estimation::Legacy), 3.75);
        assert_eq!(at(75.0, Estimation::R7), 3.25);
        assert_eq!(at(99.9, Estimation::Legacy), 4.0);
        assert_eq!(at(10.0, Estimation::R3), 1.0);
        assert!(percentile(&[], 50.0, Estimation::R7).is_nan());
    }
}
