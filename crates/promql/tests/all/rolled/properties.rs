//! What holds for queries over rolled-up time, whatever the samples.

use proptest::prelude::*;

use icecore_model::rollup::WindowFields;
use icecore_model::{SelectHints, Selection};
use icecore_promql::testing::Random;
use icecore_promql::{EngineOptions, Rules};

use super::differential::{INSTANT_FUNCTIONS, RANGE_FUNCTIONS, compare, random_source, samples};
use super::*;

const STALE: f64 = f64::from_bits(icecore_model::STALE_NAN_BITS);

/// A function over a range, with its modifier after the range.
fn call(function: &str, range: &str) -> String {
    match function.split_once("$ ") {
        Some((name, modifier)) => format!("{name}{range} {modifier}"),
        None => function.replace('$', range),
    }
}

fn at(source: &dyn SeriesSource, query: &str, time_ms: i64) -> Option<f64> {
    value(source, query, time_ms)
}

fn is_equal(a: Option<f64>, b: Option<f64>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => is_close(a, b) || (a - b).abs() < 1e-9,
        (a, b) => a == b,
    }
}

/// The same without what is kept at a level.
fn without(source: &RolledSource, level: Resolution) -> RolledSource {
    let mut samples = MemorySource::default();
    for (labels, all) in floats(&source.samples) {
        let is_of_level = |time: i64| {
            let kept = source.kept.iter().find(|kept| time < kept.end_ms);
            kept.is_some_and(|kept| kept.levels[0].0 == level)
        };
        let rest: Vec<_> = all
            .into_iter()
            .filter(|(time, _)| !is_of_level(*time))
            .collect();
        add(&mut samples, &labels, &rest);
    }
    RolledSource {
        reads_before_ms: source.reads_before_ms,
        samples,
        kept: source.kept.clone(),
    }
}

/// All floats, stale markers included.
fn floats(source: &MemorySource) -> Vec<(Labels, Vec<(i64, f64)>)> {
    let everything = Selection {
        matchers: Vec::new(),
        start_ms: i64::MIN,
        end_ms: i64::MAX,
        hints: SelectHints::default(),
    };
    let mut stream = block_on(source.select(everything)).unwrap();
    let mut all = Vec::new();
    while let Some(batch) = block_on(stream.next_batch()).unwrap() {
        for series in batch {
            let times = series.floats.timestamps.iter().copied();
            let samples = times.zip(series.floats.values.iter().copied()).collect();
            all.push((series.labels, samples));
        }
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// A query at any time is the query of samples at that time rounded down, as long as its range
    /// is a multiple of the windows.
    #[test]
    fn times_are_rounded_down(seed in any::<u64>(), time_ms in 0..30 * HOUR_MS, hours in 1..26_i64) {
        let mut random = Random::new(seed);
        let resolution = random.pick(&[Resolution::HOUR, Resolution::FIVE_MINUTES]);
        let numbers: Vec<_> = samples(&mut random, 26).into_iter()
            .map(|(time, value)| (time, if value.abs() > 1e9 { 0.5 } else { value }))
            .collect();
        let source = rolled(&memory(&numbers), resolution, 100 * HOUR_MS);
        let rounded = resolution.floor(time_ms);
        let queries = RANGE_FUNCTIONS.iter().map(|function| call(function, &format!("x[{hours}h]")));
        for query in queries.chain(INSTANT_FUNCTIONS.iter().map(ToString::to_string)) {
            let (found, expected) = (at(&source, &query, time_ms), at(&source.samples, &query, rounded));
            prop_assert!(is_equal(found, expected), "{query}: {found:?}, expected {expected:?}");
        }
    }

    /// On the grid an answer stays the same, however the samples are kept.
    #[test]
    fn answers_stay_the_same_as_time_is_rolled_up(seed in any::<u64>()) {
        const HOURS: i64 = 26;
        let mut random = Random::new(seed);
        let samples = random_source(&mut random, 3, HOURS);
        let time = QueryTime::Range {
            start_ms: 0,
            end_ms: 29 * HOUR_MS,
            step_ms: random.within(1..4) * HOUR_MS,
        };
        let all = |levels: &[Resolution]| -> Vec<(Resolution, WindowFields)> {
            levels.iter().map(|level| (*level, WindowFields::ALL)).collect()
        };
        let border = random.within(1..HOURS) * HOUR_MS;
        let part = |start_ms, end_ms, levels| KeptTime { start_ms, end_ms, levels };
        let (raw, minutes, hours) = (Resolution::RAW, Resolution::FIVE_MINUTES, Resolution::HOUR);
        let (long_ago, far_ahead) = (-1000 * HOUR_MS, 1000 * HOUR_MS);
        let stages = [
            // Rolled up while samples are still there, then without them, then without minutes.
            vec![part(long_ago, border, all(&[raw, minutes, hours])), part(border, far_ahead, all(&[raw]))],
            vec![part(long_ago, border, all(&[minutes, hours])), part(border, far_ahead, all(&[raw, minutes]))],
            vec![part(long_ago, border, all(&[hours])), part(border, far_ahead, all(&[minutes]))],
            vec![part(long_ago, far_ahead, all(&[hours]))],
        ];
        let range = random.pick(&["x[1h]", "x[3h]", "x[1d]"]);
        let function = random.pick(RANGE_FUNCTIONS);
        for kept in stages {
            let source = RolledSource { reads_before_ms: 2 * HOUR_MS,  samples: samples.clone(), kept };
            compare(&samples, &source, &request(&call(function, range), time));
            compare(&samples, &source, &request("x", time));
        }
    }

    /// Nothing is counted twice and nothing is lost at the borders of ranges and levels.
    #[test]
    fn ranges_add_up(seed in any::<u64>(), border in 2..24_i64, first in 0..10_i64, hours in (1..8_i64, 1..8_i64)) {
        let mut random = Random::new(seed);
        // On the grid, and no NaN.
        let samples: Vec<_> = (0..26 * 12)
            .map(|i| (i * 5 * MINUTE_MS, random.within(-50..50) as f64))
            .collect();
        let source = rolled(&memory(&samples), Resolution::HOUR, border * HOUR_MS);
        let end = |hour: i64| (first + hour) * HOUR_MS;
        for function in ["count_over_time", "sum_over_time"] {
            let of = |hours: i64, until: i64| {
                at(&source, &format!("{function}(x[{hours}h])"), end(until)).unwrap_or(0.0)
            };
            let (left, right) = hours;
            prop_assert_eq!(of(left + right, left + right), of(left, left) + of(right, left + right));
        }
    }

    /// Rolled-up time is mentioned if and only if some of it was read.
    #[test]
    fn answers_say_what_they_read(seed in any::<u64>(), time_ms in 0..30 * HOUR_MS, cap in 0..4_usize) {
        let mut random = Random::new(seed);
        let samples = random_source(&mut random, 2, 26);
        let source = RolledSource { reads_before_ms: 2 * HOUR_MS,
            kept: super::differential::random_levels(&mut random, 26),
            samples,
        };
        let cap = [None, Some(0), Some(5 * MINUTE_MS), Some(HOUR_MS)][cap];
        for function in ["rate($)", "quantile_over_time(0.3, $)", "mad_over_time($)", "x"] {
            let range = format!("x[{}h]", random.within(1..9));
            let mut request = request(&call(function, &range), QueryTime::Instant { time_ms });
            request.max_source_resolution = cap;
            let answer = execute(&source, &request).unwrap();
            for level in Resolution::all().filter(|level| !level.is_raw()) {
                let was_read = answer.stats.windows_read.iter().any(|(read, _)| *read == level);
                let info = format!("PromQL info: rolled-up data at {level} resolution used for [");
                let is_named = answer.infos.iter().any(|text| text.starts_with(&info));
                prop_assert!(!was_read || cap.is_none_or(|cap| level.ms() <= cap));
                prop_assert!(was_read || !is_named);
                if !is_named {
                    // So its samples do not matter.
                    let others = execute(&without(&source, level), &request).unwrap();
                    prop_assert_eq!(format!("{:?}", answer.value), format!("{:?}", others.value));
                }
                let guess = format!("estimated from {level} windows, and may be far off");
                let is_guess = function.contains("quantile") || function.contains("mad");
                let warned = answer.warnings.iter().any(|text| text.ends_with(&guess));
                prop_assert_eq!(warned, is_named && is_guess);
            }
        }
    }

    /// Selectors that share a read get all that each of them needs.
    #[test]
    fn shared_reads_change_nothing(seed in any::<u64>(), time_ms in 0..30 * HOUR_MS, offset in 0..200_i64) {
        let mut random = Random::new(seed);
        let samples = samples(&mut random, 26);
        let source = rolled(&memory(&samples), Resolution::HOUR, random.within(1..40) * HOUR_MS);
        let query = format!("sum_over_time(x[1h]) + max_over_time(x[2h] offset {offset}m) + x offset {offset}m");
        let request = request(&query, QueryTime::Instant { time_ms });
        let of_rules = |rules| {
            let engine = Engine::new(EngineOptions { rules, ..EngineOptions::default() });
            let answer = block_on(engine.execute(&source, &request, &AtomicBool::new(false)));
            match answer.unwrap().value {
                QueryValue::Vector(samples) => format!("{samples:?}"),
                _ => unreachable!("the query is for a vector"),
            }
        };
        prop_assert_eq!(of_rules(Rules::ALL), of_rules(Rules::NONE));
    }

    /// Instant values on the grid, with stale markers anywhere, on the grid, too.
    #[test]
    fn stale_markers_end_series(placed in prop::collection::vec((0..25_i64, 0..3_u8), 1..12)) {
        // Times in steps of 150 s: every other one is on the grid.
        let mut samples: Vec<(i64, f64)> = placed.iter()
            .map(|(place, kind)| (place * 150_000, if *kind == 0 { STALE } else { *place as f64 }))
            .collect();
        samples.sort_by_key(|(time, _)| *time);
        samples.dedup_by_key(|(time, _)| *time);
        let source = rolled(&memory(&samples), Resolution::FIVE_MINUTES, 100 * HOUR_MS);
        for window in 0..14 {
            let time_ms = window * 5 * MINUTE_MS;
            for query in INSTANT_FUNCTIONS {
                let (found, expected) = (at(&source, query, time_ms), at(&source.samples, query, time_ms));
                prop_assert!(is_equal(found, expected), "{query} at {time_ms}: {found:?}, expected {expected:?}");
            }
        }
    }
}
