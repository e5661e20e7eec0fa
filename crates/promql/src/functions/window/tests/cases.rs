//! Cases with known results, most of them from Prometheus' own scripts.

use icecore_model::{Labels, SeriesSamples, TimeColumn};

use super::super::{RangeSeries, WindowMode, Windows, check_mode, window_function};
use super::{at, close, floats, range_series, run, samples, windows};
use crate::exec::{ABSENT, Row, Values};

/// Values at equal distances from time 0 on; NaN for a missing one.
fn every(step_s: i64, values: &[f64]) -> SeriesSamples {
    let points = values.iter().enumerate();
    let points = points.map(|(i, value)| (1000 * step_s * i as i64, *value));
    let points: Vec<_> = points.filter(|(_, value)| !value.is_nan()).collect();
    samples("metric_total", &points)
}

fn check(name: &str, windows: Windows, series: &RangeSeries, expected: &[Option<f64>]) {
    let found = floats(name, windows, &[], series);
    let same = found.iter().zip(expected).all(|(a, b)| close(*a, *b));
    assert!(
        same && found.len() == expected.len(),
        "{name}: {found:?}, expected {expected:?}"
    );
}

const GAP: f64 = f64::NAN;

#[test]
fn edges_of_a_complete_counter() {
    let values = [1.0, 2.0, 3.0, 4.0, 5.0, 9.0, 10.0, 11.0, 12.0, 13.0];
    let series = range_series(every(15, &values));
    let mode = |time, mode| Windows {
        mode,
        ..at(time, 60.0)
    };
    for (time, plain, anchored, smoothed) in [
        (5.0, None, Some(0.0), Some(1.0 / 3.0)),
        (20.0, Some(11.0 / 6.0), Some(1.0), Some(4.0 / 3.0)),
        (35.0, Some(17.0 / 6.0), Some(2.0), Some(7.0 / 3.0)),
        (50.0, Some(4.0), Some(3.0), Some(10.0 / 3.0)),
        (80.0, Some(8.0), Some(7.0), Some(7.0)),
        (95.0, Some(8.0), Some(7.0), Some(7.0)),
        (125.0, Some(4.0), Some(7.0), Some(6.0)),
    ] {
        check("increase", at(time, 60.0), &series, &[plain]);
        check(
            "increase",
            mode(time, WindowMode::Anchored),
            &series,
            &[anchored],
        );
        check(
            "increase",
            mode(time, WindowMode::Smoothed),
            &series,
            &[smoothed],
        );
    }
}

#[test]
fn edges_across_gaps_and_resets() {
    let gaps = range_series(every(
        15,
        &[1.0, 2.0, 3.0, GAP, GAP, 9.0, 10.0, 11.0, 12.0, 13.0],
    ));
    let smoothed = |time, range| Windows {
        mode: WindowMode::Smoothed,
        ..at(time, range)
    };
    let anchored = |time, range| Windows {
        mode: WindowMode::Anchored,
        ..at(time, range)
    };
    check("increase", smoothed(35.0, 60.0), &gaps, &[Some(8.0 / 3.0)]);
    check("increase", smoothed(65.0, 60.0), &gaps, &[Some(19.0 / 3.0)]);
    check(
        "increase",
        smoothed(125.0, 60.0),
        &gaps,
        &[Some(14.0 / 3.0)],
    );
    check("increase", anchored(65.0, 60.0), &gaps, &[Some(2.0)]);

    // The window is open on the left: the sample at its start is an anchor, not a part.
    let open = range_series(every(60, &[1.0, 2.0, GAP, 4.0, 5.0]));
    check("increase", smoothed(120.0, 60.0), &open, &[Some(1.0)]);
    check("increase", anchored(120.0, 60.0), &open, &[None]);

    let reset = range_series(every(15, &[100.0, 10.0]));
    check("rate", smoothed(12.0, 10.0), &reset, &[Some(2.0 / 3.0)]);

    let late = range_series(every(10, &[GAP, 5.0, 6.0, 7.0, 8.0, 9.0]));
    check("rate", smoothed(5.0, 5.0), &late, &[None]);
    check("increase", smoothed(15.0, 10.0), &late, &[Some(0.5)]);
    check("increase", smoothed(60.0, 5.0), &late, &[None]);

    let gauge = range_series(every(60, &[11.0, -1.0, 100.0, 0.0]));
    check("delta", smoothed(330.0, 300.0), &gauge, &[Some(-5.0)]);
    let other = range_series(every(60, &[0.0, 0.0, 100.0, 0.0, 0.0, 11.0, -1.0]));
    check("delta", smoothed(345.0, 300.0), &other, &[Some(2.0)]);
}

#[test]
fn anchored_changes_and_resets() {
    let sparse = every(60, &[2.0, GAP, 1.0, GAP, GAP, GAP, GAP, GAP, 0.0]);
    let series = range_series(sparse);
    let anchored = |time, range| Windows {
        mode: WindowMode::Anchored,
        ..at(time, range)
    };
    for name in ["changes", "resets"] {
        check(name, at(180.0, 60.0), &series, &[None]);
        check(name, anchored(120.0, 60.0), &series, &[Some(1.0)]);
        check(name, anchored(180.0, 60.0), &series, &[None]);
        check(name, anchored(480.0, 60.0), &series, &[Some(0.0)]);
        check(name, anchored(480.0, 60.001), &series, &[Some(1.0)]);
    }
}

#[test]
fn modifiers_have_their_functions() {
    let text = |function, mode| check_mode(function, mode).expect_err("refused").to_string();
    assert!(check_mode("resets", WindowMode::Anchored).is_ok());
    assert!(check_mode("max_over_time", WindowMode::Plain).is_ok());
    assert_eq!(
        text("max_over_time", WindowMode::Anchored),
        "anchored modifier can only be used with: changes, delta, increase, rate, resets - not with max_over_time"
    );
    assert_eq!(
        text("resets", WindowMode::Smoothed),
        "smoothed modifier can only be used with: delta, increase, rate - not with resets"
    );
}

/// A series of one sample per minute with start timestamps relative to its samples.
fn started(from_minute: i64, samples_and_starts: &[(f64, Option<i64>)]) -> RangeSeries {
    let minute = |i: usize| 60_000 * (from_minute + i as i64);
    let points = samples_and_starts.iter().enumerate();
    let floats: Vec<_> = points
        .clone()
        .map(|(i, (value, _))| (minute(i), *value))
        .collect();
    let starts = points.filter_map(|(i, (_, start))| Some((minute(i), minute(i) + (*start)?)));
    range_series(SeriesSamples {
        start_timestamps: starts.collect(),
        forms: Default::default(),
        rolled: None,
        ..samples("series", &floats)
    })
}

#[test]
fn starts_of_counters() {
    let cumulative = |first: i64, last: usize| -> RangeSeries {
        let points = (0..last).map(|i| ((i + 1) as f64, Some(first - 60_000 * i as i64)));
        started(2, &points.collect::<Vec<_>>())
    };
    let increase = |series: &RangeSeries, expected| {
        check("increase", at(360.0, 300.0), series, &[expected]);
    };
    increase(&cumulative(-60_000, 5), Some(5.0));
    increase(&cumulative(-30_000, 5), Some(5.0));
    increase(&cumulative(0, 5), Some(5.0));
    increase(&cumulative(1, 5), Some(5.0));
    increase(&cumulative(-30_000, 4), Some(36.0 / 7.0));
    increase(&cumulative(1, 4), Some(5.0));
    // A single sample is enough if the counter started within the window.
    increase(&started(4, &[(3.0, Some(-150_000))]), Some(3.0));
    increase(&started(4, &[(3.0, Some(-180_000))]), None);
    increase(&started(4, &[(3.0, Some(0))]), None);
    increase(&started(4, &[(3.0, None)]), None);

    let series = started(2, &[(5.0, Some(-60_000)), (5.0, Some(-1_000)), (2.0, None)]);
    check("increase", at(300.0, 300.0), &series, &[Some(16.0)]);
}

#[test]
fn restarts_of_counters() {
    let starts = [
        [-30_000, -90_000, -150_000],
        [-60_000, -120_000, -180_000],
        [-59_999, -119_999, -179_999],
        [-1_000, -61_000, -121_000],
        [-1, -60_001, -120_001],
    ];
    let starts = starts.iter().flatten().enumerate();
    let points: Vec<_> = starts
        .map(|(i, start)| (60.0 * i as f64, Some(*start)))
        .collect();
    let series = started(2, &points);
    let steps = windows(420, 60, 9, 300);
    let some = |values: [f64; 9]| values.map(Some);
    check(
        "increase",
        steps,
        &series,
        &some([
            420.0, 780.0, 675.0, 675.0, 1275.0, 1080.0, 900.0, 1725.0, 1440.0,
        ]),
    );
    check(
        "rate",
        steps,
        &series,
        &some([1.4, 2.6, 2.25, 2.25, 4.25, 3.6, 3.0, 5.75, 4.8]),
    );
    check(
        "irate",
        steps,
        &series,
        &some([1.0, 6.0, 1.0, 1.0, 9.0, 1.0, 1.0, 12.0, 1.0]),
    );
    check(
        "resets",
        steps,
        &series,
        &some([1.0, 2.0, 1.0, 1.0, 2.0, 1.0, 1.0, 2.0, 1.0]),
    );
    // Gauges have no starts.
    check("delta", steps, &series, &some([300.0; 9]));

    let deltas = |start: i64| started(2, &[(60.0, Some(start)); 16]);
    let steps = windows(600, 60, 6, 300);
    for (start, increase, irate) in [
        (-60_000, 300.0, 1.0),
        (-59_999, 300.0, 1.0),
        (-1, 300.0, 1.0),
        (0, 0.0, 0.0),
    ] {
        check("increase", steps, &deltas(start), &[Some(increase); 6]);
        check("irate", steps, &deltas(start), &[Some(irate); 6]);
    }
}

#[test]
fn notes_about_counters() {
    let annotations = |series: &RangeSeries, name| run(name, at(240.0, 180.0), &[], series).1;
    let overlap = started(
        2,
        &[
            (60.0, Some(-120_000)),
            (120.0, Some(-120_000)),
            (180.0, Some(-120_000)),
        ],
    );
    assert_eq!(
        annotations(&overlap, "rate"),
        [
            "PromQL warning: sample has start time that overlaps with previous sample timestamp for metric \"series\" (1:6)",
            "PromQL info: metric might not be a counter, name does not end in _total/_sum/_count/_bucket: \"series\" (1:6)",
        ]
    );
    assert_eq!(annotations(&overlap, "delta"), [""; 0]);
    let total = range_series(every(60, &[1.0, 2.0, 3.0, 4.0]));
    assert_eq!(annotations(&total, "rate"), [""; 0]);
    let nothing = range_series(samples("gauge", &[(1, 1.0)]));
    assert_eq!(annotations(&nothing, "increase"), [""; 0]);
}

#[test]
fn parameters_are_checked() {
    let series = range_series(every(10, &[1.0, 2.0, 3.0]));
    let (values, annotations) = run("quantile_over_time", at(60.0, 60.0), &[2.0], &series);
    assert_eq!(values.expect("a value").float(0), Some(f64::INFINITY));
    assert_eq!(
        annotations,
        ["PromQL warning: quantile value should be between 0 and 1, got 2 (1:6)"]
    );
    let (error, _) = run(
        "double_exponential_smoothing",
        at(60.0, 60.0),
        &[0.5, 1.5],
        &series,
    );
    assert_eq!(
        error.expect_err("refused").to_string(),
        "invalid trend factor. Expected: 0 < tf < 1, got: 1.500000"
    );
    let none = range_series(every(10, &[]));
    assert!(
        run(
            "double_exponential_smoothing",
            at(60.0, 60.0),
            &[2.0, 2.0],
            &none
        )
        .0
        .is_ok()
    );
}

#[test]
fn names_that_stay() {
    for (name, stays) in [
        ("last_over_time", true),
        ("first_over_time", true),
        ("rate", false),
    ] {
        assert_eq!(window_function(name).expect("known").keeps_name, stays);
    }
    assert!(window_function("absent_over_time").is_none());
}

#[test]
fn bounds_are_shared_and_samples_counted() {
    fn shared_by_threads<T: Sync>(_: &T) {}
    let steps = windows(60, 60, 3, 120);
    let column = every(30, &[1.0; 10]);
    let shared: Vec<_> = (0..5).map(|_| range_series(column.clone())).collect();
    let own: Vec<_> = (0..500)
        .map(|_| range_series(every(30, &[1.0; 10])))
        .collect();
    // At 60 s three samples, then four: (0, 120] and (60, 180].
    let one = [3, 4, 4];
    for (series, times) in [(&shared, 5), (&own, 500)] {
        super::evaluator("rate", steps, &[], |evaluator| {
            shared_by_threads(evaluator);
            for series in series {
                assert_eq!(series.times.len(), 10);
                evaluator.evaluate(series).expect("values");
            }
            let counts = evaluator.sample_counts();
            assert_eq!(counts.touched, one.map(|samples| samples * times));
            assert_eq!(counts.read, [3, 2, 2].map(|samples| samples * times));
        });
    }
    assert_eq!(
        shared[0].times.identity(),
        column.floats.timestamps.identity()
    );
}

#[test]
fn rows_of_subqueries_are_samples() {
    let times: TimeColumn = [0, 60_000, 120_000].into_iter().collect();
    let row = |floats: [f64; 3]| Row {
        labels: Labels::from_pairs([("__name__", "metric")]),
        drop_name: true,
        values: Values {
            floats: floats.to_vec(),
            histograms: Vec::new(),
        },
    };
    let whole = RangeSeries::from_row(row([1.0, 2.0, 3.0]), &times);
    assert_eq!(whole.times.identity(), times.identity());
    assert!(whole.drop_name);
    let part = RangeSeries::from_row(row([1.0, ABSENT, 3.0]), &times);
    assert_eq!(
        (&*part.times, &*part.floats),
        (&[0, 120_000][..], &[1.0, 3.0][..])
    );
    check("sum_over_time", at(120.0, 121.0), &part, &[Some(4.0)]);
}
