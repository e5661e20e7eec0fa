//! `deriv`, `predict_linear` and `double_exponential_smoothing`.

use crate::error::{Error, Result};
use crate::exec::Values;
use crate::parse::go_float;

use super::compensated;
use super::view::View;

/// The slope of the line through the samples of a window, per second.
pub(super) fn derivative(view: &View<'_>) -> Values {
    // Times are counted from a moment near the samples, else their squares lose digits.
    view.each_of_floats(2, |_, times, window| line(times, window, times[0]).slope)
}

/// Where the line through the samples will be, `ahead` seconds after the step.
pub(super) fn prediction(view: &View<'_>, ahead: impl Fn(usize) -> f64) -> Values {
    view.each_of_floats(2, |step, times, window| {
        let line = line(times, window, view.windows.grid.time(step));
        line.slope * ahead(step) + line.intercept
    })
}

struct Line {
    slope: f64,
    /// The value at the moment from which times are counted.
    intercept: f64,
}

#[derive(Default)]
struct Sum(f64, f64);

impl Sum {
    #[inline]
    fn add(&mut self, value: f64) {
        (self.0, self.1) = compensated::add(value, self.0, self.1);
    }

    fn total(&self) -> f64 {
        self.0 + self.1
    }
}

/// The least-squares line.
fn line(times: &[i64], values: &[f64], moment: i64) -> Line {
    let Some(first) = values.first() else {
        return Line {
            slope: f64::NAN,
            intercept: f64::NAN,
        };
    };
    if values.iter().all(|value| value == first) || values.len() == 1 {
        let finite = !first.is_infinite();
        return Line {
            slope: if finite { 0.0 } else { f64::NAN },
            intercept: if finite { *first } else { f64::NAN },
        };
    }
    let (mut x_sum, mut y_sum) = (Sum::default(), Sum::default());
    let (mut xy_sum, mut xx_sum) = (Sum::default(), Sum::default());
    for (time, y) in times.iter().zip(values) {
        let x = time.saturating_sub(moment) as f64 / 1000.0;
        x_sum.add(x);
        y_sum.add(*y);
        xy_sum.add(x * y);
        xx_sum.add(x * x);
    }
    let n = values.len() as f64;
    let (x, y) = (x_sum.total(), y_sum.total());
    let covariance = xy_sum.total() - x * y / n;
    let variance = xx_sum.total() - x * x / n;
    let slope = covariance / variance;
    Line {
        slope,
        intercept: y / n - slope * x / n,
    }
}

/// Smoothed values: of the level by `smoothing`, of its trend by `trend`, each between 0 and 1.
pub(super) fn double_exponential_smoothing(
    view: &View<'_>,
    smoothing: impl Fn(usize) -> f64,
    trend: impl Fn(usize) -> f64,
) -> Result<Values> {
    for step in 0..view.steps() {
        let window = view.window(step);
        if window.floats.is_empty() && window.histograms.is_empty() {
            continue;
        }
        check_factors(smoothing(step), trend(step))?;
    }
    Ok(view.each_of_floats(2, |step, _, window| {
        smoothed(window, smoothing(step), trend(step))
    }))
}

pub(super) fn check_factors(smoothing: f64, trend: f64) -> Result<()> {
    check_factor("smoothing", "sf", smoothing)?;
    check_factor("trend", "tf", trend)
}

fn check_factor(name: &str, short: &str, factor: f64) -> Result<()> {
    if factor > 0.0 && factor < 1.0 || factor.is_nan() {
        return Ok(());
    }
    // As Go's `%f` writes it.
    let got = if factor.is_infinite() {
        go_float(factor)
    } else {
        format!("{factor:.6}")
    };
    Err(Error::Execution(format!(
        "invalid {name} factor. Expected: 0 < {short} < 1, got: {got}"
    )))
}

pub(super) fn smoothed(window: &[f64], smoothing: f64, trend_factor: f64) -> f64 {
    let [first, second, ..] = window else {
        return f64::NAN;
    };
    let (mut before, mut level, mut trend) = (0.0, *first, second - first);
    for (i, value) in window.iter().enumerate().skip(1) {
        if i > 1 {
            trend = trend_factor * (level - before) + (1.0 - trend_factor) * trend;
        }
        let next = smoothing * value + (1.0 - smoothing) * (level + trend);
        (before, level) = (level, next);
    }
    level
}
