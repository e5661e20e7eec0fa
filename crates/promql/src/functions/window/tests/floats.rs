//! Every function against a textbook implementation on a copy of each window.

use icecore_model::STALE_NAN_BITS;
use proptest::prelude::*;

use super::super::{WindowMode, Windows};
use super::{close_within, floats, range_series, samples, windows};

type Point = (f64, f64);

/// The textbook result for the samples of one window, times in seconds.
fn textbook(
    name: &str,
    points: &[Point],
    start: f64,
    end: f64,
    now: f64,
    p: &[f64],
) -> Option<f64> {
    let n = points.len() as f64;
    let values: Vec<f64> = points.iter().map(|p| p.1).collect();
    let numbers: Vec<f64> = values.iter().copied().filter(|v| !v.is_nan()).collect();
    let (first, last) = (*points.first()?, *points.last()?);
    let mean = || values.iter().sum::<f64>() / n;
    let pairs = || values.windows(2).map(|w| (w[0], w[1]));
    let extreme =
        |take: fn(f64, f64) -> f64| numbers.iter().copied().reduce(take).unwrap_or(f64::NAN);
    let time_of = |value: f64| {
        if value.is_nan() {
            last.0
        } else {
            points.iter().rev().find(|p| p.1 == value).expect("there").0
        }
    };
    let two = points.len() >= 2;
    Some(match name {
        "count_over_time" => n,
        "present_over_time" => 1.0,
        "sum_over_time" => values.iter().sum(),
        "avg_over_time" => mean(),
        "min_over_time" => extreme(f64::min),
        "max_over_time" => extreme(f64::max),
        "ts_of_min_over_time" => time_of(extreme(f64::min)),
        "ts_of_max_over_time" => time_of(extreme(f64::max)),
        "first_over_time" => first.1,
        "last_over_time" => last.1,
        "ts_of_first_over_time" => first.0,
        "ts_of_last_over_time" => last.0,
        "stdvar_over_time" => values.iter().map(|v| (v - mean()).powi(2)).sum::<f64>() / n,
        "stddev_over_time" => (values.iter().map(|v| (v - mean()).powi(2)).sum::<f64>() / n).sqrt(),
        "quantile_over_time" => sorted_quantile(p[0], &values),
        "mad_over_time" if values.iter().any(|value| value.is_nan()) => f64::NAN,
        "mad_over_time" => {
            let median = sorted_quantile(0.5, &values);
            let distances: Vec<f64> = values.iter().map(|v| (v - median).abs()).collect();
            sorted_quantile(0.5, &distances)
        }
        "resets" => pairs().filter(|(a, b)| b < a).count() as f64,
        "changes" => pairs()
            .filter(|(a, b)| a != b && !(a.is_nan() && b.is_nan()))
            .count() as f64,
        "idelta" if two => last.1 - points[points.len() - 2].1,
        "irate" if two => {
            let before = points[points.len() - 2];
            let change = if last.1 < before.1 {
                last.1
            } else {
                last.1 - before.1
            };
            change / (last.0 - before.0)
        }
        "deriv" if two => slope(points),
        "predict_linear" if two => {
            let mean_x = points.iter().map(|p| p.0 - now).sum::<f64>() / n;
            mean() + slope(points) * (p[0] - mean_x)
        }
        "double_exponential_smoothing" if two => smooth(p[0], p[1], &values, values.len() - 1).0,
        "rate" | "increase" | "delta" if two => {
            let lost: f64 = pairs().filter(|(a, b)| b < a).map(|(a, _)| a).sum();
            let counter = name != "delta";
            let increase = last.1 - first.1 + if counter { lost } else { 0.0 };
            let sampled = last.0 - first.0;
            let average = sampled / (n - 1.0);
            let side = |gap: f64| {
                if gap < 1.1 * average {
                    gap
                } else {
                    average / 2.0
                }
            };
            let mut left = side(first.0 - start);
            if counter && increase > 0.0 && first.1 >= 0.0 {
                left = left.min(first.1 * sampled / increase);
            }
            let whole = increase * (left + sampled + side(end - last.0)) / sampled;
            if name == "rate" {
                whole / (end - start)
            } else {
                whole
            }
        }
        _ => return None,
    })
}

fn slope(points: &[Point]) -> f64 {
    let n = points.len() as f64;
    if points.iter().all(|p| p.1 == points[0].1) {
        return 0.0;
    }
    let (x, y) = points
        .iter()
        .fold((0.0, 0.0), |a, p| (a.0 + p.0 / n, a.1 + p.1 / n));
    points.iter().map(|p| (p.0 - x) * (p.1 - y)).sum::<f64>()
        / points.iter().map(|p| (p.0 - x).powi(2)).sum::<f64>()
}

/// Level and trend after the sample at `i`, by the recursive definition.
fn smooth(sf: f64, tf: f64, values: &[f64], i: usize) -> (f64, f64) {
    if i == 0 {
        return (values[0], values[1] - values[0]);
    }
    let (level, trend) = smooth(sf, tf, values, i - 1);
    let next = sf * values[i] + (1.0 - sf) * (level + trend);
    (next, tf * (next - level) + (1.0 - tf) * trend)
}

fn sorted_quantile(q: f64, values: &[f64]) -> f64 {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|v| v.is_nan()).collect();
    let mut numbers: Vec<f64> = values.iter().copied().filter(|v| !v.is_nan()).collect();
    numbers.sort_by(f64::total_cmp);
    sorted.extend(numbers);
    let rank = q * (sorted.len() - 1) as f64;
    let above = sorted[(rank.floor() as usize + 1).min(sorted.len() - 1)];
    sorted[rank.floor() as usize] * (1.0 - rank.fract()) + above * rank.fract()
}

const FUNCTIONS: &[(&str, &[f64])] = &[
    ("count_over_time", &[]),
    ("present_over_time", &[]),
    ("sum_over_time", &[]),
    ("avg_over_time", &[]),
    ("min_over_time", &[]),
    ("max_over_time", &[]),
    ("ts_of_min_over_time", &[]),
    ("ts_of_max_over_time", &[]),
    ("first_over_time", &[]),
    ("last_over_time", &[]),
    ("ts_of_first_over_time", &[]),
    ("ts_of_last_over_time", &[]),
    ("stdvar_over_time", &[]),
    ("stddev_over_time", &[]),
    ("quantile_over_time", &[0.3]),
    ("mad_over_time", &[]),
    ("resets", &[]),
    ("changes", &[]),
    ("idelta", &[]),
    ("irate", &[]),
    ("deriv", &[]),
    ("predict_linear", &[3600.0]),
    ("double_exponential_smoothing", &[0.3, 0.6]),
    ("rate", &[]),
    ("increase", &[]),
    ("delta", &[]),
];

/// Samples at irregular times: numbers, NaN and stale markers; a counter with resets, or a gauge.
fn series() -> impl Strategy<Value = Vec<(i64, f64)>> {
    let gap = prop_oneof![8 => 1_000..20_000i64, 1 => 60_000..400_000i64];
    let value = prop_oneof![
        30 => (-200..2000i32).prop_map(|v| f64::from(v) * 0.25),
        1 => Just(f64::NAN),
        1 => Just(f64::from_bits(STALE_NAN_BITS)),
    ];
    let counter = prop::bool::ANY;
    (prop::collection::vec((gap, value), 0..260), counter).prop_map(|(points, counter)| {
        let (mut time, mut count) = (0, 0.0);
        let sample = |(gap, value): (i64, f64)| {
            time += gap;
            if counter && value.is_finite() {
                count = if value < -40.0 {
                    0.0
                } else {
                    count + value.abs()
                };
                return (time, count);
            }
            (time, value)
        };
        points.into_iter().map(sample).collect()
    })
}

fn any_windows() -> impl Strategy<Value = Windows> {
    let range = prop_oneof![1..60i64, 60..4000i64];
    let offset = prop_oneof![3 => Just(0), 1 => -600..600i64];
    let at = prop_oneof![5 => Just(None), 1 => (0..2_000_000i64).prop_map(Some)];
    (0..1500i64, 1..90i64, 1..40usize, range, offset, at).prop_map(
        |(start, step, steps, range, offset, at_ms)| Windows {
            offset_ms: 1000 * offset,
            at_ms,
            mode: WindowMode::Plain,
            ..windows(start, step, steps, range)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_function_is_the_textbooks(points in series(), windows in any_windows()) {
        let series = range_series(samples("a_total", &points));
        let alive = points.iter().filter(|p| p.1.to_bits() != STALE_NAN_BITS);
        let alive: Vec<(i64, f64)> = alive.copied().collect();
        for (name, parameters) in FUNCTIONS {
            let found = floats(name, windows, parameters, &series);
            for (step, found) in found.into_iter().enumerate() {
                let now = windows.grid.time(step);
                let end = windows.at_ms.unwrap_or(now) - windows.offset_ms;
                let start = end - windows.range_ms;
                let window = alive.iter().filter(|p| p.0 > start && p.0 <= end);
                let window: Vec<Point> = window.map(|p| (p.0 as f64 / 1000.0, p.1)).collect();
                let seconds = |ms: i64| ms as f64 / 1000.0;
                let expected = textbook(name, &window, seconds(start), seconds(end), seconds(now), parameters);
                // As in Prometheus, times are relative to that of the evaluation: far from the
                // window, squares of the distance cancel.
                let tolerance = if *name == "predict_linear" { 1e-6 } else { 1e-9 };
                prop_assert!(
                    close_within(tolerance, found, expected),
                    "{name} at step {step}: {found:?}, textbook {expected:?} of {window:?}"
                );
            }
        }
    }

    #[test]
    fn reading_covers_every_window(windows in any_windows(), mode in 0..3) {
        let mode = [WindowMode::Plain, WindowMode::Anchored, WindowMode::Smoothed][mode as usize];
        let windows = Windows { mode, ..windows };
        let (from, to) = windows.read_range();
        for step in 0..windows.grid.steps {
            let (start, end) = windows.edges(step);
            prop_assert!(from <= start + 1 && end <= to);
        }
        let beside = i64::from(mode != WindowMode::Plain) * windows.lookback_ms;
        prop_assert_eq!(from, windows.edges(0).0 + 1 - beside);
    }
}
