//! Every function that windows answer exactly, over random series: windows against samples.

use icecore_promql::testing::Random;

use super::*;

const STALE: f64 = f64::from_bits(icecore_model::STALE_NAN_BITS);

/// Functions of a range, which stands for `$`.
pub(super) const RANGE_FUNCTIONS: &[&str] = &[
    "rate($)",
    "increase($)",
    "delta($)",
    "sum_over_time($)",
    "count_over_time($)",
    "avg_over_time($)",
    "min_over_time($)",
    "max_over_time($)",
    "first_over_time($)",
    "last_over_time($)",
    "ts_of_first_over_time($)",
    "ts_of_last_over_time($)",
    "stddev_over_time($)",
    "stdvar_over_time($)",
    "changes($)",
    "resets($)",
    "present_over_time($)",
    "absent_over_time($)",
    "quantile_over_time(0, $)",
    "quantile_over_time(1, $)",
    "rate($ anchored)",
    "increase($ anchored)",
    "delta($ anchored)",
    "changes($ anchored)",
    "resets($ anchored)",
    "rate($ smoothed)",
    "increase($ smoothed)",
    "delta($ smoothed)",
];

/// Functions of an instant.
pub(super) const INSTANT_FUNCTIONS: &[&str] = &["x", "timestamp(x)", "x smoothed", "absent(x)"];

/// What a series is like.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Counter,
    Gauge,
    Integers,
    WithNaN,
    Extremes,
}

/// Samples of a day with gaps, stale markers, samples on the grid and counter resets.
pub(super) fn samples(random: &mut Random, hours: i64) -> Vec<(i64, f64)> {
    let kind = random.pick(&[
        Kind::Counter,
        Kind::Counter,
        Kind::Gauge,
        Kind::Integers,
        Kind::WithNaN,
        Kind::Extremes,
    ]);
    let interval_ms = random.pick(&[15_000, 30_000, MINUTE_MS, 7 * MINUTE_MS, 37 * MINUTE_MS]);
    // On the grid of minutes or beside it.
    let shift_ms = random.pick(&[0, 0, 1, 3_217]);
    let jitter_ms = random.pick(&[1, 1, 2_000]);
    let mut samples = Vec::new();
    let mut value = random.within(0..1000) as f64;
    let mut time = random.within(0..20) * MINUTE_MS + shift_ms;
    while time < hours * HOUR_MS {
        value = next_value(random, kind, value);
        let is_stale = random.one_in(40);
        let at = time + random.within(0..jitter_ms);
        samples.push((at, if is_stale { STALE } else { value }));
        time += interval_ms;
        if random.one_in(50) {
            time += interval_ms * random.within(1..60);
        }
    }
    samples
}

fn next_value(random: &mut Random, kind: Kind, before: f64) -> f64 {
    let before = if before.is_nan() { 1.0 } else { before };
    match kind {
        Kind::Counter if random.one_in(60) => random.within(0..30) as f64,
        Kind::Counter => before + random.within(0..500) as f64 / 8.0,
        Kind::Gauge => random.within(-100_000..100_000) as f64 / 97.0,
        Kind::Integers => random.within(-3..3) as f64,
        Kind::WithNaN if random.one_in(6) => f64::NAN,
        Kind::WithNaN => random.within(0..1_000_000) as f64 / 7.0,
        Kind::Extremes => random.pick(&[0.0, -0.0, 1e-300, 5e-324, 1e15, -1e15, 1.0]),
    }
}

pub(super) fn random_source(random: &mut Random, series: usize, hours: i64) -> MemorySource {
    let mut source = MemorySource::default();
    for id in 0..series {
        let labels = Labels::from_pairs([("__name__", "x"), ("id", &id.to_string())]);
        add(&mut source, &labels, &samples(random, hours));
    }
    source
}

/// Levels that change at hours, the finest last.
pub(super) fn random_levels(random: &mut Random, hours: i64) -> Vec<KeptTime> {
    let first = random.within(1..hours);
    let second = random.within(first..hours + 4);
    let borders = [-1000, first, second.max(first + 1), 100_000].map(|hour| hour * HOUR_MS);
    let levels = random.pick(&[
        [Resolution::HOUR, Resolution::FIVE_MINUTES, Resolution::RAW],
        [Resolution::HOUR, Resolution::RAW, Resolution::FIVE_MINUTES],
        [Resolution::FIVE_MINUTES, Resolution::HOUR, Resolution::RAW],
        [Resolution::HOUR, Resolution::HOUR, Resolution::HOUR],
        [Resolution::RAW, Resolution::HOUR, Resolution::RAW],
    ]);
    (borders.windows(2).zip(levels))
        .map(|(ends, level)| KeptTime::at(ends[0], ends[1], level))
        .collect()
}

/// Compares all values of a query, and returns how many there were.
pub(super) fn compare(
    samples: &dyn SeriesSource,
    rolled: &dyn SeriesSource,
    request: &Request,
) -> usize {
    let (expected, found) = (matrix(samples, request), matrix(rolled, request));
    let context = || format!("{} {:?}", request.query, request.time);
    let names = |rows: &[(Labels, Vec<(i64, f64)>)]| -> Vec<String> {
        rows.iter().map(|(labels, _)| labels.to_string()).collect()
    };
    assert_eq!(names(&found), names(&expected), "{}", context());
    let is_squared = request.query.contains("stdvar");
    let scale = |labels: &Labels| -> f64 {
        let largest = largest(samples, labels);
        if is_squared {
            largest * largest
        } else {
            largest
        }
    };
    let mut compared = 0;
    for ((labels, expected), (_, found)) in expected.iter().zip(&found) {
        let times =
            |values: &[(i64, f64)]| -> Vec<i64> { values.iter().map(|(t, _)| *t).collect() };
        assert_eq!(times(found), times(expected), "{labels} {}", context());
        for ((time, expected), (_, found)) in expected.iter().zip(found) {
            // Differences of large numbers are rounded by both, not in the same way.
            let is_rounding = || (expected - found).abs() <= 1e-12 * scale(labels);
            assert!(
                is_close(*expected, *found) || is_rounding(),
                "{labels} at {time}: {found}, expected {expected}; {}",
                context()
            );
        }
        compared += expected.len();
    }
    compared
}

/// The largest magnitude of the samples of a series.
fn largest(source: &dyn SeriesSource, labels: &Labels) -> f64 {
    let id = labels.get("id").unwrap_or_default();
    let query = format!("max_over_time(abs(x{{id=\"{id}\"}})[2d:1m])");
    value(source, &query, 48 * HOUR_MS).unwrap_or_default()
}

#[test]
fn windows_answer_as_samples_do() {
    const HOURS: i64 = 26;
    let mut compared = 0;
    for seed in 0..40 {
        let mut random = Random::new(seed);
        let samples = random_source(&mut random, 6, HOURS);
        let rolled = RolledSource {
            reads_before_ms: random.pick(&[0, 0, 2 * HOUR_MS]),
            kept: random_levels(&mut random, HOURS),
            samples: samples.clone(),
        };
        let time = QueryTime::Range {
            start_ms: 0,
            end_ms: (HOURS + 3) * HOUR_MS,
            step_ms: HOUR_MS,
        };
        for function in RANGE_FUNCTIONS {
            let hours = random.pick(&[1, 1, 2, 5, 24]);
            let offset = random.pick(&["", "", " offset 2h"]);
            let (name, rest) = function.split_once('$').unwrap();
            let modifier = rest.trim_end_matches(')');
            let query = format!("{name}x[{hours}h]{modifier}{offset})");
            compared += compare(&samples, &rolled, &request(&query, time));
        }
        for function in INSTANT_FUNCTIONS {
            compared += compare(&samples, &rolled, &request(function, time));
        }
    }
    println!("compared {compared} values");
    assert!(compared >= 100_000, "{compared}");
}

/// Who counts what steps touch has the cells of all windows copied; all others have them read where
/// they lie. Ranges on the grid and off it, of many windows and of a part of one.
#[test]
fn copied_windows_answer_as_those_where_they_lie() {
    const HOURS: i64 = 26;
    let mut compared = 0;
    for seed in 100..130 {
        let mut random = Random::new(seed);
        let rolled = RolledSource {
            reads_before_ms: random.pick(&[0, 0, 2 * HOUR_MS]),
            samples: random_source(&mut random, 4, HOURS),
            kept: random_levels(&mut random, HOURS),
        };
        let step_ms = random.pick(&[HOUR_MS, 3 * HOUR_MS, 25 * MINUTE_MS]);
        let start_ms = random.pick(&[0, 0, 7 * MINUTE_MS]);
        let time = QueryTime::Range {
            start_ms,
            end_ms: (HOURS + 3) * HOUR_MS,
            step_ms,
        };
        for function in RANGE_FUNCTIONS {
            let range = random.pick(&["1h", "3h", "24h", "20m", "95m"]);
            let (name, rest) = function.split_once('$').unwrap();
            let query = format!("{name}x[{range}]{rest}");
            let direct = request(&query, time);
            let copied = Request {
                counts_touched: true,
                ..direct.clone()
            };
            let (direct, copied) = (matrix(&rolled, &direct), matrix(&rolled, &copied));
            assert_eq!(direct.len(), copied.len(), "{query}");
            for ((labels, direct), (_, copied)) in direct.iter().zip(&copied) {
                assert_eq!(direct.len(), copied.len(), "{labels} {query}");
                for (direct, copied) in direct.iter().zip(copied) {
                    let is_same = direct.0 == copied.0 && is_close(direct.1, copied.1);
                    // Overlapping ranges are folded in another order.
                    let is_rounding = || (direct.1 - copied.1).abs() <= 1e-3;
                    assert!(
                        is_same || is_rounding(),
                        "{labels}: {direct:?}, copied {copied:?}; {query} {time:?}"
                    );
                }
                compared += direct.len();
            }
        }
    }
    println!("compared {compared} values");
    assert!(compared >= 30_000, "{compared}");
}
