//! Histograms: one with a single bucket behaves like its count; others are cases of Prometheus'
//! scripts.

use std::sync::Arc;

use icecore_model::{CUSTOM_BUCKETS_SCHEMA, CounterResetHint, Span};
use proptest::prelude::*;

use super::super::{HistogramPoint, RangeSeries, WindowMode, Windows};
use super::{at, close, floats, range_series, run, samples, windows};
use crate::exec::Values;
use crate::histogram::FloatHistogram;

/// A histogram whose only bucket has all observations.
fn single(count: f64) -> FloatHistogram {
    FloatHistogram {
        count,
        sum: count,
        positive_spans: vec![Span {
            offset: 1,
            length: 1,
        }],
        positive: vec![count],
        ..FloatHistogram::default()
    }
}

fn hinted(count: f64, reset_hint: CounterResetHint) -> FloatHistogram {
    FloatHistogram {
        reset_hint,
        ..single(count)
    }
}

fn custom(count: f64, bounds: &[f64]) -> FloatHistogram {
    FloatHistogram {
        schema: CUSTOM_BUCKETS_SCHEMA,
        custom_bounds: Arc::from(bounds),
        positive_spans: vec![Span {
            offset: 0,
            length: 1,
        }],
        ..single(count)
    }
}

/// Histograms every `step_s` seconds from 0 on.
fn every(step_s: i64, histograms: impl IntoIterator<Item = FloatHistogram>) -> RangeSeries {
    let point = |(i, histogram)| HistogramPoint {
        time_ms: 1000 * step_s * i as i64,
        histogram: Arc::new(histogram),
    };
    RangeSeries {
        histograms: histograms.into_iter().enumerate().map(point).collect(),
        ..range_series(samples("metric", &[]))
    }
}

fn count_at(values: &Values, step: usize) -> Option<f64> {
    values.histogram(step).map(|histogram| histogram.count)
}

fn counts(name: &str, windows: Windows, series: &RangeSeries) -> Vec<Option<f64>> {
    let values = run(name, windows, &[], series).0.expect("values");
    let steps = 0..windows.grid.steps;
    steps.map(|step| count_at(&values, step)).collect()
}

fn annotations(name: &str, windows: Windows, series: &RangeSeries) -> Vec<String> {
    run(name, windows, &[], series).1
}

fn moded(mode: WindowMode, windows: Windows) -> Windows {
    Windows { mode, ..windows }
}

#[test]
fn edges_and_resets() {
    use CounterResetHint::{NotReset, Reset};
    let (anchored, smoothed) = (WindowMode::Anchored, WindowMode::Smoothed);
    let check =
        |name, mode, (time, range), histograms: &[(i64, f64, CounterResetHint)], expected| {
            let mut series = every(1, []);
            for (time, count, hint) in histograms {
                series.histograms.push(HistogramPoint {
                    time_ms: 1000 * time,
                    histogram: Arc::new(hinted(*count, *hint)),
                });
            }
            let found = counts(name, moded(mode, at(time, range)), &series)[0];
            assert!(
                close(found, Some(expected)),
                "{found:?}, expected {expected}"
            );
        };
    let unknown = CounterResetHint::Unknown;
    check(
        "rate",
        smoothed,
        (20.5, 1.0),
        &[
            (10, 396.0, NotReset),
            (20, 110.0, Reset),
            (30, 194.0, NotReset),
        ],
        9.7,
    );
    check(
        "increase",
        anchored,
        (70.0, 70.0),
        &[(0, 5.0, unknown), (30, 10.0, unknown), (60, 3.0, Reset)],
        8.0,
    );
    check(
        "increase",
        anchored,
        (30.0, 30.0),
        &[(0, 5.0, unknown), (30, 3.0, Reset)],
        3.0,
    );
    let twice = [
        (0, 10.0, unknown),
        (10, 5.0, Reset),
        (20, 2.0, Reset),
        (30, 4.0, unknown),
    ];
    check("increase", smoothed, (15.0, 14.0), &twice, 5.5);
    check(
        "increase",
        smoothed,
        (15.0, 10.0),
        &[(0, 10.0, unknown), (20, 5.0, Reset)],
        2.5,
    );
    check(
        "rate",
        smoothed,
        (15.0, 10.0),
        &[(0, 5.0, unknown), (10, 10.0, unknown), (20, 3.0, Reset)],
        0.4,
    );
}

#[test]
fn kinds_that_do_not_fit() {
    let bounds = [5.0, 10.0];
    let mixed = every(
        30,
        [
            single(1.0),
            custom(1.0, &bounds),
            single(4.0),
            custom(1.0, &bounds),
        ],
    );
    let warning = "PromQL warning: vector contains a mix of histograms with exponential and custom buckets schemas for metric name \"metric\" (1:6)";
    for (time, range, mode) in [
        (60.0, 60.0, WindowMode::Anchored),
        (45.0, 60.0, WindowMode::Smoothed),
        (90.0, 90.0, WindowMode::Plain),
    ] {
        let windows = moded(mode, at(time, range));
        assert_eq!(counts("rate", windows, &mixed), [None]);
        assert_eq!(annotations("rate", windows, &mixed), [warning]);
    }
    for name in ["sum_over_time", "avg_over_time"] {
        assert_eq!(counts(name, at(60.0, 60.0), &mixed), [None]);
        assert_eq!(annotations(name, at(60.0, 60.0), &mixed), [warning]);
    }
    let gauge = hinted(2.0, CounterResetHint::Gauge);
    let gauge_within = every(30, [single(1.0), gauge.clone(), single(3.0)]);
    let not_counter =
        "PromQL warning: this native histogram metric is not a counter: \"metric\" (1:6)";
    let not_gauge = "PromQL warning: this native histogram metric is not a gauge: \"metric\" (1:6)";
    let anchored = moded(WindowMode::Anchored, at(90.0, 90.0));
    assert_eq!(annotations("rate", anchored, &gauge_within), [not_counter]);
    assert_eq!(annotations("delta", anchored, &gauge_within), [not_gauge]);
    assert_eq!(counts("delta", anchored, &gauge_within), [Some(2.0)]);
    assert_eq!(
        annotations("irate", at(60.0, 61.0), &gauge_within),
        [not_counter]
    );
    assert_eq!(
        annotations("idelta", at(60.0, 61.0), &gauge_within),
        [not_gauge]
    );
    let gauges = every(30, [gauge.clone(), gauge.clone(), gauge]);
    assert_eq!(annotations("delta", at(90.0, 90.0), &gauges), [""; 0]);
    assert_eq!(annotations("idelta", at(90.0, 90.0), &gauges), [""; 0]);

    let reconciled = every(60, [custom(1.0, &[5.0]), custom(3.0, &[5.0, 10.0])]);
    let info = |during| {
        format!("PromQL info: mismatched custom buckets were reconciled during {during} (1:6)")
    };
    assert_eq!(
        annotations("irate", at(60.0, 120.0), &reconciled),
        [info("subtraction")]
    );
    assert_eq!(
        annotations("rate", at(60.0, 120.0), &reconciled),
        [info("subtraction")]
    );
    assert_eq!(
        annotations("sum_over_time", at(60.0, 120.0), &reconciled),
        [info("aggregation")]
    );

    let collision = every(
        60,
        [
            single(1.0),
            hinted(1.0, CounterResetHint::Reset),
            hinted(2.0, CounterResetHint::NotReset),
        ],
    );
    let warning = "PromQL warning: conflicting counter resets during histogram aggregation (1:6)";
    for name in ["sum_over_time", "avg_over_time"] {
        assert_eq!(annotations(name, at(120.0, 121.0), &collision), [warning]);
        assert_eq!(annotations(name, at(60.0, 61.0), &collision), [""; 0]);
    }
}

#[test]
fn averages_beyond_the_range_of_sums() {
    let large = single(f64::MAX / 2.0);
    let series = every(10, [large.clone(), large.clone(), large.clone(), large]);
    let average = counts("avg_over_time", at(30.0, 31.0), &series)[0].expect("an average");
    assert!((average / (f64::MAX / 2.0) - 1.0).abs() < 1e-12);
    assert_eq!(
        counts("sum_over_time", at(30.0, 31.0), &series),
        [Some(f64::INFINITY)]
    );
}

#[test]
fn a_single_histogram_with_a_start() {
    let mut series = every(60, []);
    series.histograms.push(HistogramPoint {
        time_ms: 120_000,
        histogram: Arc::new(single(60.0)),
    });
    assert_eq!(counts("rate", at(180.0, 300.0), &series), [None]);
    series.starts.push((120_000, 60_000));
    assert_eq!(counts("rate", at(180.0, 300.0), &series), [Some(0.2)]);
}

/// A sample that is a float or a histogram, with a start timestamp relative to it.
type Either = (i64, f64, bool, Option<i64>);

fn samples_of_both() -> impl Strategy<Value = Vec<Either>> {
    let gap = prop_oneof![6 => 1_000..20_000i64, 1 => 60_000..300_000i64];
    let start = prop_oneof![6 => Just(None), 1 => (-30_000..2i64).prop_map(Some)];
    let kinds = prop_oneof![Just((0, 1)), Just((1, 1)), Just((1, 8)), Just((1, 2))];
    let sample = (gap, 0..40u8, 0..8u32, start);
    (prop::collection::vec(sample, 0..60), kinds).prop_map(|(samples, (some, of))| {
        let mut time = 0;
        let sample = |(gap, value, kind, start): (i64, u8, u32, Option<i64>)| {
            time += gap;
            (time, f64::from(value), kind % of < some, start)
        };
        samples.into_iter().map(sample).collect()
    })
}

fn series_of(
    samples_of: &[Either],
    hint: CounterResetHint,
    keep: impl Fn(bool) -> Option<bool>,
) -> RangeSeries {
    let mut series = every(1, []);
    let mut points = Vec::new();
    for (time, value, histogram, start) in samples_of {
        match keep(*histogram) {
            Some(true) => series.histograms.push(HistogramPoint {
                time_ms: *time,
                histogram: Arc::new(hinted(*value, hint)),
            }),
            Some(false) => points.push((*time, *value)),
            None => continue,
        }
        series
            .starts
            .extend(start.map(|start| (*time, time + start)));
    }
    let floats = range_series(samples("metric", &points));
    RangeSeries {
        times: floats.times,
        floats: floats.floats,
        ..series
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn histograms_behave_as_their_counts(
        both in samples_of_both(),
        mode in 0..3usize,
        (start, step, range) in (0..500i64, 1..90i64, 1..600i64),
    ) {
        let mode = [WindowMode::Plain, WindowMode::Anchored, WindowMode::Smoothed][mode];
        let windows = Windows { mode, lookback_ms: 30_000, ..windows(start, step, 12, range) };
        for name in ["rate", "increase", "delta", "irate", "idelta", "sum_over_time", "avg_over_time", "last_over_time", "first_over_time"] {
            let extended = matches!(name, "rate" | "increase" | "delta");
            if !extended && mode != WindowMode::Plain {
                continue;
            }
            let hint = match name {
                "delta" | "idelta" => CounterResetHint::Gauge,
                _ => CounterResetHint::Unknown,
            };
            let series = series_of(&both, hint, Some);
            let twin = floats(name, windows, &[], &series_of(&both, hint, |_| Some(false)));
            let values = run(name, windows, &[], &series).0.expect("values");
            for (step, twin) in twin.into_iter().enumerate() {
                let (from, to) = windows.touched(step);
                let window = both.iter().filter(|s| s.0 > from && s.0 <= to);
                let kinds: Vec<bool> = window.map(|sample| sample.2).collect();
                // The samples that decide the kind: the last two, one end, or all.
                let deciding = match name {
                    "irate" | "idelta" => &kinds[kinds.len().saturating_sub(2)..],
                    "last_over_time" => &kinds[kinds.len().saturating_sub(1)..],
                    "first_over_time" => &kinds[..kinds.len().min(1)],
                    _ => &kinds,
                };
                let (histograms, floats) = (deciding.contains(&true), deciding.contains(&false));
                let found = (values.float(step), count_at(&values, step));
                let expected = match (floats, histograms) {
                    (true, true) => (None, None),
                    (true, false) => (twin, None),
                    _ => (None, twin),
                };
                prop_assert!(
                    close(found.0, expected.0) && close(found.1, expected.1),
                    "{name} {mode:?} at step {step}: {found:?}, as floats {expected:?}"
                );
                if let Some(histogram) = values.histogram(step) {
                    prop_assert!(close(Some(histogram.sum), Some(histogram.count)));
                    let bucket: f64 = histogram.positive.iter().sum();
                    prop_assert!(close(Some(bucket), Some(histogram.count)));
                }
            }
        }
    }

    #[test]
    fn transitions_of_both_kinds(
        both in samples_of_both(),
        anchored in prop::bool::ANY,
        (start, step, range) in (0..500i64, 1..90i64, 1..600i64),
    ) {
        let mode = if anchored { WindowMode::Anchored } else { WindowMode::Plain };
        let windows = Windows { mode, lookback_ms: 30_000, ..windows(start, step, 12, range) };
        // Start times are covered by the cases of scripts.
        let plain: Vec<Either> = both.iter().map(|s| (s.0, s.1, s.2, None)).collect();
        let series = series_of(&plain, CounterResetHint::Unknown, Some);
        for name in ["resets", "changes"] {
            let found = floats(name, windows, &[], &series);
            for (step, found) in found.into_iter().enumerate() {
                let (from, to) = windows.touched(step);
                let start = windows.edges(step).0;
                let mut window: Vec<Either> = plain.iter().copied().filter(|s| s.0 > from && s.0 <= to).collect();
                while anchored && window.len() > 1 && window[1].0 <= start {
                    window.remove(0);
                }
                let present = window.last().is_some_and(|last| last.0 > start);
                let transition = |pair: &&[Either]| {
                    let (a, b) = (pair[0], pair[1]);
                    a.2 != b.2 || if name == "resets" { b.1 < a.1 } else { b.1 != a.1 }
                };
                let expected = present.then(|| window.windows(2).filter(transition).count() as f64);
                prop_assert_eq!(found, expected, "{} at step {} of {:?}", name, step, window);
            }
        }
    }

    #[test]
    fn functions_of_floats_ignore_histograms(both in samples_of_both(), range in 1..600i64) {
        let windows = windows(60, 30, 12, range);
        let series = series_of(&both, CounterResetHint::Unknown, Some);
        let only_floats = series_of(&both, CounterResetHint::Unknown, |histogram| (!histogram).then_some(false));
        for (name, parameters) in [
            ("min_over_time", &[][..]), ("max_over_time", &[]), ("ts_of_max_over_time", &[]),
            ("stddev_over_time", &[]), ("mad_over_time", &[]), ("quantile_over_time", &[0.5]),
            ("deriv", &[]), ("predict_linear", &[60.0]), ("double_exponential_smoothing", &[0.5, 0.5]),
        ] {
            let found = floats(name, windows, parameters, &series);
            prop_assert_eq!(&found, &floats(name, windows, parameters, &only_floats), "{}", name);
            let mixed = (0..12).any(|step| {
                let (from, to) = windows.edges(step);
                let has = |kind| both.iter().any(|s| s.0 > from && s.0 <= to && s.2 == kind);
                has(true) && has(false)
            });
            let annotations = run(name, windows, parameters, &series).1;
            prop_assert_eq!(mixed, annotations == ["PromQL info: ignored histograms in a range containing both floats and histograms for metric name \"metric\" (1:6)"]);
            prop_assert_eq!(mixed, !annotations.is_empty());
        }
        for (name, pick) in [("count_over_time", 0), ("ts_of_first_over_time", 1), ("ts_of_last_over_time", 2)] {
            for (step, found) in floats(name, windows, &[], &series).into_iter().enumerate() {
                let (from, to) = windows.edges(step);
                let times: Vec<i64> = both.iter().map(|s| s.0).filter(|t| *t > from && *t <= to).collect();
                let ends = times.first().zip(times.last());
                let expected = ends.map(|(first, last)| match pick {
                    0 => times.len() as f64,
                    1 => *first as f64 / 1000.0,
                    _ => *last as f64 / 1000.0,
                });
                prop_assert_eq!(found, expected);
            }
        }
    }
}

#[test]
fn what_lies_between_windows_is_skipped() {
    // (8, 10], (18, 20], (28, 30]
    let apart = windows(10, 10, 3, 2);
    let skips = |before_s: i64, time_s: i64| apart.skip_between(1000 * before_s, 1000 * time_s);
    assert!(skips(7, 9) && !skips(8, 9) && !skips(9, 10));
    assert!(!skips(9, 19), "no sample lies between");
    assert!(
        skips(10, 19),
        "what ends a window is looked at again, and left"
    );
    assert!(skips(17, 18) && !skips(18, 19));
    assert!(!skips(11, 12), "neither is in a window");
    assert!(!skips(35, 40), "nothing is read any more");
    let together = windows(10, 10, 3, 10);
    assert!(!together.skip_between(15_000, 21_000));
    let fixed = Windows {
        at_ms: Some(9000),
        ..apart
    };
    assert!(fixed.skip_between(6000, 8000) && !fixed.skip_between(8000, 9000));
}
