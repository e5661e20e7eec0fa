//! Data too large or too irregular for script files, with expectations from simple reference code.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::AtomicBool;

use futures::executor::block_on;
use icecore_model::{Labels, STALE_NAN_BITS};
use icecore_promql::script::{LoadedSample, LoadedValue, run_file};
use icecore_promql::{Engine, MatrixSeries, MemorySource, QueryTime, QueryValue, Request};
use proptest::prelude::*;

const LOOKBACK_MS: i64 = 300_000;

#[test]
fn many_series_over_hours() {
    const SERIES: usize = 3000;
    const GROUPS: usize = 7;
    let mut script = String::from("load 15m\n");
    let mut first_of_group = [0.0; GROUPS];
    let mut size_of_group = [0; GROUPS];
    for id in 0..SERIES {
        let group = id % GROUPS;
        writeln!(script, "  many{{id=\"{id}\", group=\"{group}\"}} {id}+1x12").unwrap();
        first_of_group[group] += id as f64;
        size_of_group[group] += 1;
    }
    script.push_str("\neval instant at 1h count(many)\n  {} 3000\n");
    script.push_str("\neval instant at 1h topk(2, many)\n  expect ordered\n");
    script
        .push_str("  many{id=\"2999\", group=\"3\"} 3003\n  many{id=\"2998\", group=\"2\"} 3002\n");
    script.push_str(
        "\neval instant at 1h many{id=\"1234\"} - ignoring(id) group_left many{id=\"2\"}\n\
         \x20 {group=\"2\", id=\"1234\"} 1232\n",
    );
    script.push_str("\neval range from 45m to 1h15m step 15m sum by (group) (many)\n");
    for group in 0..GROUPS {
        let at = |step: usize| first_of_group[group] + (step * size_of_group[group]) as f64;
        writeln!(
            script,
            "  {{group=\"{group}\"}} {} {} {}",
            at(3),
            at(4),
            at(5)
        )
        .unwrap();
    }
    script.push_str("\neval instant at 3h count(count_over_time(many[3h]) == 12)\n  {} 3000\n");
    script.push_str("\neval instant at 1h count(many * on(id) group_left many)\n  {} 3000\n");
    let report = run_file("many series", &script, &Engine::default());
    assert!(report.is_success(), "{}", report.render());
    assert_eq!(report.evals, 6);
}

/// Samples of one series.
type Samples = BTreeMap<i64, f64>;

/// The result of a window function for the values of a window, oldest first.
type Reference = fn(&[f64]) -> f64;

const FUNCTIONS: [(&str, Reference); 7] = [
    ("count_over_time", |window| window.len() as f64),
    ("sum_over_time", |window| window.iter().sum()),
    ("min_over_time", |window| {
        window.iter().copied().fold(f64::INFINITY, f64::min)
    }),
    ("max_over_time", |window| {
        window.iter().copied().fold(f64::NEG_INFINITY, f64::max)
    }),
    ("last_over_time", |window| *window.last().unwrap()),
    ("changes", |window| pairs(window, |a, b| a != b)),
    ("resets", |window| pairs(window, |a, b| b < a)),
];

fn pairs(window: &[f64], counts: fn(f64, f64) -> bool) -> f64 {
    window
        .windows(2)
        .filter(|pair| counts(pair[0], pair[1]))
        .count() as f64
}

/// The values in `(end - range, end]`, without staleness markers.
fn window(samples: &Samples, end_ms: i64, range_ms: i64) -> Vec<f64> {
    let in_range = samples.range(end_ms - range_ms + 1..=end_ms);
    in_range
        .map(|(_, value)| *value)
        .filter(|value| value.to_bits() != STALE_NAN_BITS)
        .collect()
}

/// The value of an instant selector: the newest sample in the look-back, unless it is a staleness
/// marker.
fn look_back(samples: &Samples, end_ms: i64) -> Option<f64> {
    let (_, value) = samples
        .range(end_ms - LOOKBACK_MS + 1..=end_ms)
        .next_back()?;
    Some(*value).filter(|value| value.to_bits() != STALE_NAN_BITS)
}

fn source_of(series: &[Samples]) -> MemorySource {
    let mut source = MemorySource::default();
    for (i, samples) in series.iter().enumerate() {
        let labels = Labels::from_pairs([("__name__", "m"), ("i", &i.to_string())]);
        for (timestamp_ms, value) in samples {
            let sample = LoadedSample {
                timestamp_ms: *timestamp_ms,
                value: LoadedValue::Float(*value),
                start_ms: None,
            };
            source.add(&labels, sample);
        }
    }
    source
}

/// The answer to a range query by the value of label `i`.
fn ask(source: &MemorySource, query: &str, grid: Grid) -> BTreeMap<usize, Vec<(i64, f64)>> {
    let request = Request {
        query: query.to_owned(),
        time: QueryTime::Range {
            start_ms: grid.start_ms,
            end_ms: grid.start_ms + grid.step_ms * (grid.steps - 1),
            step_ms: grid.step_ms,
        },
        lookback_ms: None,
        limit: None,
        timeout: None,
        counts_touched: false,
        max_source_resolution: None,
        rollup_strict: false,
    };
    let never = AtomicBool::new(false);
    let answer = block_on(Engine::default().execute(source, &request, &never)).unwrap();
    let QueryValue::Matrix(matrix) = answer.value else {
        panic!("a range query answers with a matrix");
    };
    let points = |series: &MatrixSeries| {
        let number = series.labels.get("i").unwrap().parse().unwrap();
        (number, series.floats().collect())
    };
    matrix.iter().map(points).collect()
}

#[derive(Clone, Copy, Debug)]
struct Grid {
    start_ms: i64,
    step_ms: i64,
    steps: i64,
}

impl Grid {
    fn times(self) -> impl Iterator<Item = i64> {
        (0..self.steps).map(move |step| self.start_ms + step * self.step_ms)
    }
}

/// The expected answer: `value` at each step, without empty series.
fn expect(
    series: &[Samples],
    grid: Grid,
    value: impl Fn(&Samples, i64) -> Option<f64>,
) -> BTreeMap<usize, Vec<(i64, f64)>> {
    let mut expected = BTreeMap::new();
    for (i, samples) in series.iter().enumerate() {
        let points: Vec<_> = grid
            .times()
            .filter_map(|time| Some((time, value(samples, time)?)))
            .collect();
        if !points.is_empty() {
            expected.insert(i, points);
        }
    }
    expected
}

const HOUR_MS: i64 = 3_600_000;

/// Times often on, just before or just after a full hour or minute.
fn time() -> impl Strategy<Value = i64> {
    prop_oneof![
        0..4 * HOUR_MS,
        (0..4i64, -2..=2i64).prop_map(|(hour, off)| (hour * HOUR_MS + off).max(0)),
        (0..240i64).prop_map(|minute| minute * 60_000),
    ]
}

/// Whole numbers, so that sums are exact in any order; sometimes a staleness marker.
fn value() -> impl Strategy<Value = f64> {
    prop_oneof![
        9 => (-20..20i32).prop_map(f64::from),
        1 => Just(f64::from_bits(STALE_NAN_BITS)),
    ]
}

fn series() -> impl Strategy<Value = Vec<Samples>> {
    prop::collection::vec(prop::collection::btree_map(time(), value(), 0..120), 1..4)
}

fn grid() -> impl Strategy<Value = Grid> {
    let step = prop_oneof![Just(60_000), Just(HOUR_MS), 1..2 * HOUR_MS];
    (time(), step, 1..40i64).prop_map(|(start_ms, step_ms, steps)| Grid {
        start_ms,
        step_ms,
        steps,
    })
}

fn range() -> impl Strategy<Value = i64> {
    prop_oneof![Just(60_000), Just(HOUR_MS), 1..3 * HOUR_MS]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn windows_are_what_a_filter_would_find(
        series in series(), grid in grid(), range_ms in range(), offset_ms in -HOUR_MS..HOUR_MS
    ) {
        let source = source_of(&series);
        for (name, reference) in FUNCTIONS {
            let sign = if offset_ms < 0 { "-" } else { "" };
            let query = format!("{name}(m[{range_ms}ms] offset {sign}{}ms)", offset_ms.abs());
            let expected = expect(&series, grid, |samples, time| {
                let window = window(samples, time - offset_ms, range_ms);
                (!window.is_empty()).then(|| reference(&window))
            });
            prop_assert_eq!(ask(&source, &query, grid), expected, "{}", query);
        }
    }

    #[test]
    fn selectors_look_back(series in series(), grid in grid(), at in time()) {
        let source = source_of(&series);
        let expected = expect(&series, grid, look_back);
        prop_assert_eq!(ask(&source, "m", grid), expected);
        let pinned = expect(&series, grid, |samples, _| look_back(samples, at));
        let query = format!("m @ {}.{:03}", at / 1000, at % 1000);
        prop_assert_eq!(ask(&source, &query, grid), pinned);
    }

    #[test]
    fn subqueries_look_at_multiples_of_their_step(
        series in series(), grid in grid(), range_ms in 1..HOUR_MS, step_ms in 30_000..HOUR_MS
    ) {
        let source = source_of(&series);
        let query = format!("sum_over_time(m[{range_ms}ms:{step_ms}ms])");
        let expected = expect(&series, grid, |samples, time| {
            let first = (time - range_ms).div_euclid(step_ms) * step_ms + step_ms;
            let times = (0..).map(|k| first + k * step_ms).take_while(|t| *t <= time);
            let values: Vec<f64> = times.filter_map(|t| look_back(samples, t)).collect();
            (!values.is_empty()).then(|| values.iter().sum())
        });
        prop_assert_eq!(ask(&source, &query, grid), expected, "{}", query);
    }
}
