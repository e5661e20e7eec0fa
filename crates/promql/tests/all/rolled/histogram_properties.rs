//! What holds for native histograms over rolled-up time, also beside the grid.

use std::sync::Arc;

use icecore_model::{FloatHistogram, Histogram, Span};
use icecore_promql::testing::Random;

use super::*;

/// One bucket, so that a counter is reset when its count falls.
fn histogram(count: u64) -> Arc<Histogram> {
    let histogram = FloatHistogram {
        schema: 2,
        zero_threshold: 1e-6,
        count: count as f64,
        sum: 3.0 * count as f64,
        positive_spans: vec![Span {
            offset: 3,
            length: 1,
        }],
        positive: vec![count as f64],
        ..FloatHistogram::default()
    };
    Arc::new(histogram.to_model())
}

fn add_histogram(source: &mut MemorySource, labels: &Labels, timestamp_ms: i64, count: u64) {
    let sample = LoadedSample {
        timestamp_ms,
        value: LoadedValue::Histogram(histogram(count)),
        start_ms: None,
    };
    source.add(labels, sample);
}

/// A counter as histograms `x` and as floats `y`.
fn twins(random: &mut Random, hours: i64) -> MemorySource {
    let mut source = MemorySource::default();
    let interval_ms = random.pick(&[MINUTE_MS, 3 * MINUTE_MS, 20 * MINUTE_MS]);
    let mut time = random.within(0..20) * MINUTE_MS + random.pick(&[0, 1_234]);
    let mut count = 100;
    while time < hours * HOUR_MS {
        count = if random.one_in(50) {
            random.within(0..50) as u64
        } else {
            count + random.within(0..60) as u64
        };
        add_histogram(&mut source, &labels("x"), time, count);
        add(&mut source, &labels("y"), &[(time, count as f64)]);
        time += interval_ms;
        if random.one_in(60) {
            time += interval_ms * random.within(1..40);
        }
    }
    source
}

/// Functions that do the same to counts as to floats, over ranges for `$`.
const FUNCTIONS: &[&str] = &[
    "rate($)",
    "increase($)",
    "delta($)",
    "irate($)",
    "idelta($)",
    "sum_over_time($)",
    "avg_over_time($)",
    "first_over_time($)",
    "last_over_time($)",
    "increase($ anchored)",
    "rate($ smoothed)",
    "delta($ smoothed)",
];

/// Functions whose values are floats for both.
const COUNTING: &[&str] = &[
    "count_over_time($)",
    "present_over_time($)",
    "ts_of_first_over_time($)",
    "ts_of_last_over_time($)",
    "resets($)",
    "changes($)",
    "resets($ anchored)",
];

/// Times are rounded and first windows scaled for histograms as for floats.
#[test]
fn histograms_are_treated_as_floats_are() {
    let mut compared = 0;
    for seed in 0..150 {
        let mut random = Random::new(seed);
        let source = RolledSource {
            reads_before_ms: 0,
            samples: twins(&mut random, 26),
            kept: super::differential::random_levels(&mut random, 26),
        };
        let minutes = random.pick(&[3, 15, 45, 60, 90, 777]);
        let time_ms = random.within(0..28 * 60) * MINUTE_MS;
        let range = |name: &str| format!("{name}[{minutes}m]");
        let call = |function: &str, name: &str| {
            let (before, after) = function.split_once('$').unwrap();
            format!("{before}{}{after}", range(name))
        };
        let mut compare = |of_histograms: &str, of_floats: &str| {
            let found = value(&source, of_histograms, time_ms);
            let expected = value(&source, of_floats, time_ms);
            let is_same = match (found, expected) {
                (Some(found), Some(expected)) => {
                    is_close(found, expected) || (found - expected).abs() < 1e-9
                }
                (found, expected) => found == expected,
            };
            assert!(
                is_same,
                "seed {seed} at {time_ms}: {of_histograms} is {found:?}, expected {expected:?}"
            );
            compared += usize::from(found.is_some());
        };
        for function in FUNCTIONS {
            let of_histograms = format!("histogram_count({})", call(function, "x"));
            compare(&of_histograms, &call(function, "y"));
        }
        for function in COUNTING {
            compare(&call(function, "x"), &call(function, "y"));
        }
        compare("histogram_count(x)", "y");
        compare("timestamp(x)", "timestamp(y)");
        compare("histogram_count(x smoothed)", "y smoothed");
    }
    assert!(compared > 1000, "{compared}");
}

/// One histogram a minute for four hours.
fn counter() -> MemorySource {
    let mut source = MemorySource::default();
    for minute in 0..240 {
        let count = 3 * minute as u64;
        add_histogram(&mut source, &labels("x"), minute * MINUTE_MS + 7, count);
    }
    source
}

fn infos(source: &RolledSource, query: &str) -> Vec<String> {
    answer(source, query, 3 * HOUR_MS).infos
}

#[test]
fn answers_say_what_they_read_of_histograms() {
    let source = rolled(&counter(), Resolution::HOUR, 100 * HOUR_MS);
    let used = "rolled-up data at 1h resolution used for";
    assert!(infos(&source, "rate(x[1h])")[0].contains(used));
    let answer = answer(&source, "rate(x[2h])", 3 * HOUR_MS);
    assert_eq!(answer.stats.windows_read[0].0, Resolution::HOUR);
    // Functions of floats have nothing to say.
    let of_floats = infos(&source, "deriv(x[1h])");
    assert!(!of_floats.iter().any(|text| text.contains("estimated")));
    for function in ["irate", "idelta"] {
        let estimated = format!("PromQL info: {function} estimated from 1h windows");
        assert!(infos(&source, &format!("{function}(x[1h])")).contains(&estimated));
    }
    // An exact rate of 3 a minute.
    let rate = value(&source, "histogram_count(rate(x[2h]))", 3 * HOUR_MS);
    assert!(is_close(rate.unwrap(), 0.05));
}

#[test]
fn floats_and_histograms_that_alternate_are_counted_roughly() {
    let mut samples = counter();
    let floats: Vec<_> = (0..4)
        .map(|i| ((60 + 10 * i) * MINUTE_MS + 30_000, 1.0))
        .collect();
    add(&mut samples, &labels("x"), &floats);
    let source = rolled(&samples, Resolution::HOUR, 100 * HOUR_MS);
    let estimated = "PromQL info: resets estimated from 1h windows".to_string();
    assert!(infos(&source, "resets(x[3h])").contains(&estimated));
    // They are in one of three hours.
    assert_eq!(
        value(&source, "count_over_time(x[3h])", 3 * HOUR_MS),
        Some(184.0)
    );
    let both = answer(&source, "sum_over_time(x[3h])", 3 * HOUR_MS);
    assert!(both.warnings[0].contains("a mix of histograms and floats"));
    let ignored = infos(&source, "max_over_time(x[3h])");
    assert!(
        ignored
            .iter()
            .any(|text| text.contains("ignored histograms in a range"))
    );
    // Before them all is known.
    let source = rolled(&counter(), Resolution::HOUR, 100 * HOUR_MS);
    assert!(!infos(&source, "resets(x[3h])").contains(&estimated));
}

#[test]
fn samples_that_are_left_are_real() {
    let samples = counter();
    let source = rolled(&samples, Resolution::HOUR, 2 * HOUR_MS);
    let query = request(
        "x[3h]",
        QueryTime::Instant {
            time_ms: 3 * HOUR_MS,
        },
    );
    let times = |source: &dyn SeriesSource| -> Vec<(i64, f64)> {
        let QueryValue::Matrix(series) = execute(source, &query).unwrap().value else {
            panic!("not a matrix");
        };
        let histograms = series[0].histograms();
        histograms.map(|(time, of)| (time, of.count)).collect()
    };
    let (all, left) = (times(&samples), times(&source));
    assert!(left.iter().all(|sample| all.contains(sample)));
    // Two of each window, and all of the last hour.
    assert_eq!(left.len(), 2 * 2 + 60);
}
