//! `stddev_over_time`, `stdvar_over_time`, `quantile_over_time` and `mad_over_time`.

use std::cmp::Ordering;

use crate::annotations::{Annotation, GoFloat};
use crate::exec::Values;

use super::compensated;
use super::view::View;

pub(super) fn variance(view: &View<'_>) -> Values {
    view.each_of_floats(1, |_, _, window| variance_of(window))
}

pub(super) fn deviation(view: &View<'_>) -> Values {
    view.each_of_floats(1, |_, _, window| variance_of(window).sqrt())
}

/// Welford's algorithm with compensated sums, as in Prometheus. Cheaper ones round differently for
/// values that differ by little, and give a constant a variance other than zero.
fn variance_of(window: &[f64]) -> f64 {
    let (mut mean, mut mean_lost) = (0.0, 0.0);
    let (mut squares, mut squares_lost) = (0.0, 0.0);
    let mut count = 0.0;
    for value in window {
        count += 1.0;
        let delta = value - (mean + mean_lost);
        (mean, mean_lost) = compensated::add(delta / count, mean, mean_lost);
        let square = delta * (value - (mean + mean_lost));
        (squares, squares_lost) = compensated::add(square, squares, squares_lost);
    }
    (squares + squares_lost) / count
}

/// The quantile of every window; `q` is that of the step.
pub(super) fn quantile(view: &View<'_>, q: impl Fn(usize) -> f64) -> Values {
    let mut scratch = Vec::new();
    view.each_of_floats(1, |step, _, window| {
        let q = q(step);
        if !(0.0..=1.0).contains(&q) {
            view.annotations
                .add(Annotation::InvalidQuantile(GoFloat(q)));
        }
        scratch.clear();
        scratch.extend_from_slice(window);
        quantile_of(q, &mut scratch)
    })
}

/// The median distance from the median; NaN if a sample is.
pub(super) fn median_deviation(view: &View<'_>) -> Values {
    let mut scratch = Vec::new();
    view.each_of_floats(1, |_, _, window| median_deviation_of(window, &mut scratch))
}

pub(super) fn median_deviation_of(values: &[f64], scratch: &mut Vec<f64>) -> f64 {
    if values.iter().any(|value| value.is_nan()) {
        return f64::NAN;
    }
    scratch.clear();
    scratch.extend_from_slice(values);
    let median = quantile_of(0.5, scratch);
    scratch.clear();
    scratch.extend(values.iter().map(|value| (value - median).abs()));
    quantile_of(0.5, scratch)
}

/// The quantile of values in any order, which it changes. Interpolates linearly between two values.
pub(crate) fn quantile_of(q: f64, values: &mut [f64]) -> f64 {
    if values.is_empty() || q.is_nan() {
        return f64::NAN;
    }
    if q < 0.0 {
        return f64::NEG_INFINITY;
    }
    if q > 1.0 {
        return f64::INFINITY;
    }
    let rank = q * (values.len() - 1) as f64;
    let (lower, weight) = (rank.floor(), rank - rank.floor());
    let lower = (lower as usize).min(values.len() - 1);
    let (_, at, above) = values.select_nth_unstable_by(lower, nan_first);
    let above = above.iter().copied().min_by(nan_first).unwrap_or(*at);
    *at * (1.0 - weight) + above * weight
}

/// NaN sorts before all numbers.
pub(super) fn nan_first(a: &f64, b: &f64) -> Ordering {
    a.partial_cmp(b)
        .unwrap_or_else(|| b.is_nan().cmp(&a.is_nan()))
}
