//! Native histograms that grow old: rolled up, culled, deleted, read at any level.

use std::collections::BTreeMap;
use std::sync::Arc;

use icecore_model::rollup::{
    HistogramWindow, Resolution, RollupChoice, Window, WindowColumns, last_histogram_positions,
    last_positions, roll_up, roll_up_histogram_windows, roll_up_histograms, roll_up_windows,
    unite_ends,
};
use icecore_model::{
    CUSTOM_BUCKETS_SCHEMA, CounterResetHint, Histogram, HistogramCounts, STALE_NAN_BITS,
    SeriesSamples, SeriesStream, Span, is_stale_nan,
};
use icecore_storage::Database;
use icecore_storage::testing::Hooks;

use crate::process::Process;
use crate::requests::{Entry, request};
use crate::rollup::*;
use crate::support::{HOUR, everything, selection};

const MINUTE: i64 = 60_000;

#[derive(Clone, Debug)]
pub(crate) enum Value {
    Float(f64),
    Histogram(Arc<Histogram>),
}

/// Bit by bit, so that a stale marker equals itself.
impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Float(one), Self::Float(other)) => one.to_bits() == other.to_bits(),
            (Self::Histogram(one), Self::Histogram(other)) => one == other,
            _ => false,
        }
    }
}

impl Value {
    pub(crate) fn is_stale(&self) -> bool {
        match self {
            Self::Float(value) => is_stale_nan(*value),
            Self::Histogram(histogram) => histogram.is_stale(),
        }
    }
}

type Samples = Vec<(&'static str, i64, Value)>;

pub(crate) fn histogram(schema: i8, buckets: [i64; 3]) -> Histogram {
    let [a, b, c] = buckets;
    let is_custom = schema == CUSTOM_BUCKETS_SCHEMA;
    Histogram {
        schema,
        reset_hint: CounterResetHint::Unknown,
        zero_threshold: if is_custom { 0.0 } else { 0.001 },
        sum: (a + 2 * b + 5 * c) as f64 / 8.0,
        counts: HistogramCounts::Integer {
            count: (a + b + c).unsigned_abs(),
            zero_count: 0,
            positive_deltas: vec![a, b - a, c - b],
            negative_deltas: Vec::new(),
        },
        positive_spans: vec![Span {
            offset: 0,
            length: 3,
        }],
        negative_spans: Vec::new(),
        custom_bounds: if is_custom {
            [0.5, 1.0, 2.5].into()
        } else {
            [].into()
        },
    }
}

/// A counter that is reset now and then and becomes coarser, one with custom bounds, a gauge on the
/// grid, and one that changes between floats and histograms and ends in between.
fn samples(hours: i64) -> Samples {
    let mut samples = Samples::new();
    for minute in (0..hours * 60).step_by(2) {
        let time = START + minute * MINUTE;
        let n = minute % 1_110;
        let of = |schema, buckets| Value::Histogram(Arc::new(histogram(schema, buckets)));
        let schema = if minute < 900 { 3 } else { 1 };
        samples.push(("counter", time + 7, of(schema, [n, 2 * n, 3 * n + 1])));
        let custom = of(CUSTOM_BUCKETS_SCHEMA, [n, n + 1, 7]);
        samples.push(("custom", time + 31_000, custom));
        let gauge = Histogram {
            reset_hint: CounterResetHint::Gauge,
            ..histogram(0, [minute % 17, minute % 5, 3])
        };
        samples.push(("gauge", time, Value::Histogram(Arc::new(gauge))));
        let mixed = match minute % 400 {
            0..200 => of(0, [n, n, n]),
            200 => Value::Float(f64::from_bits(STALE_NAN_BITS)),
            202..380 => Value::Float(minute as f64),
            380 => Value::Histogram(Arc::new(Histogram::stale())),
            _ => continue,
        };
        samples.push(("mixed", time + 500, mixed));
    }
    samples
}

async fn write_all(db: &Database, samples: &Samples) {
    for part in samples.chunks(5_000) {
        let entry = |(series, time, value): &(&str, i64, Value)| match value {
            Value::Float(value) => Entry::float(series, *time, *value),
            Value::Histogram(histogram) => {
                let mut entry = Entry::histogram(series, *time, 0);
                if let Entry::Histogram { value, .. } = &mut entry {
                    *value = Histogram::clone(histogram);
                }
                entry
            }
        };
        request(db, part.iter().map(entry).collect()).await.unwrap();
    }
    db.flush_buckets().await.unwrap();
}

/// The windows of a series.
fn expected(
    samples: &Samples,
    series: &str,
    resolution: Resolution,
) -> (Vec<Window>, Vec<HistogramWindow>) {
    let of_series = samples.iter().filter(|(name, ..)| *name == series);
    windows_of(of_series.map(|(_, time, value)| (*time, value)), resolution)
}

/// The windows of samples in time order: wide ones are made of those of 5 minutes.
pub(crate) fn windows_of<'a>(
    samples: impl Iterator<Item = (i64, &'a Value)>,
    resolution: Resolution,
) -> (Vec<Window>, Vec<HistogramWindow>) {
    let mut floats: Vec<(i64, f64)> = Vec::new();
    let mut histograms: Vec<(i64, &Arc<Histogram>)> = Vec::new();
    for (time, value) in samples {
        match value {
            Value::Float(value) => floats.push((time, *value)),
            Value::Histogram(histogram) => histograms.push((time, histogram)),
        }
    }
    let fine = resolution.min(FIVE);
    let mut windows = roll_up(fine, floats.iter().copied());
    let mut histogram_windows = roll_up_histograms(fine, histograms.iter().copied());
    let float_times: Vec<i64> = floats.iter().map(|sample| sample.0).collect();
    let histogram_times: Vec<i64> = histograms.iter().map(|sample| sample.0).collect();
    unite_ends(
        fine,
        (&mut windows, &float_times),
        (&mut histogram_windows, &histogram_times),
    );
    if resolution == fine {
        return (windows, histogram_windows);
    }
    let positions = last_positions(&windows);
    let histogram_positions = last_histogram_positions(&histogram_windows);
    let mut windows = roll_up_windows(resolution, &windows);
    let mut histogram_windows = roll_up_histogram_windows(resolution, &histogram_windows);
    unite_ends(
        resolution,
        (&mut windows, &positions),
        (&mut histogram_windows, &histogram_positions),
    );
    (windows, histogram_windows)
}

/// Checks the windows of all series of a selection against the samples, and returns how many
/// windows of histograms there were.
fn check_windows(selected: &[SeriesSamples], samples: &Samples) -> usize {
    let mut checked = 0;
    for series in selected {
        let name = series.labels.get("series").unwrap();
        let rolled = series.rolled.as_ref().expect("some of it is rolled up");
        for (at, (segment, windows)) in rolled.segments().enumerate() {
            let (mut floats, mut histograms) = expected(samples, name, segment.resolution);
            let within = |start_ms: i64| (segment.start_ms..segment.end_ms).contains(&start_ms);
            floats.retain(|window| within(window.start_ms));
            histograms.retain(|window| within(window.start_ms));
            let found = rolled.histograms.get(at).map_or(&[][..], Vec::as_slice);
            assert!(found == histograms, "{name} {segment:?}");
            checked += found.len();
            let columns = WindowColumns::from_windows(&floats, windows.fields);
            assert_eq!(windows.starts, columns.starts, "{name} {segment:?}");
            assert_eq!(windows.ends_stale, columns.ends_stale, "{name} {segment:?}");
            assert_eq!(windows.sum, columns.sum, "{name} {segment:?}");
        }
    }
    checked
}

/// What a query with a step and a range of half an hour reads.
fn half_hourly() -> RollupChoice {
    RollupChoice {
        step_ms: HOUR / 2,
        range_ms: HOUR / 2,
        ..hourly()
    }
}

/// Everything that is handed out as samples, by series and time.
async fn left(db: &Database, range: (i64, i64)) -> BTreeMap<String, BTreeMap<i64, Value>> {
    let selection = selection(everything().matchers, range.0, range.1);
    let mut stream = db.select(selection).await.unwrap();
    let mut left = BTreeMap::<String, BTreeMap<i64, Value>>::new();
    while let Some(batch) = stream.next_batch().await.unwrap() {
        for series in batch {
            let name = series.labels.get("series").unwrap().to_owned();
            let times = series.floats.timestamps.iter().copied();
            let floats = times.zip(series.floats.values.iter().map(|v| Value::Float(*v)));
            let histograms = series.histograms.iter();
            let histograms =
                histograms.map(|s| (s.timestamp_ms, Value::Histogram(Arc::clone(&s.histogram))));
            let all: Vec<_> = floats.chain(histograms).collect();
            let of_series = left.entry(name).or_default();
            for (time, value) in all {
                assert!((range.0..=range.1).contains(&time), "{time} in {range:?}");
                assert!(of_series.insert(time, value).is_none(), "twice at {time}");
            }
        }
    }
    left
}

/// What is left are samples as they were written, and markers after the samples that they end.
fn check_left(left: &BTreeMap<String, BTreeMap<i64, Value>>, samples: &Samples) {
    for (series, left) in left {
        let of_series = samples.iter().filter(|(name, ..)| name == series);
        let written: BTreeMap<i64, &Value> = of_series.map(|(_, t, value)| (*t, value)).collect();
        let mut markers = 0;
        for (time, value) in left {
            if value.is_stale() {
                markers += 1;
                // No sample lies between the marker and the one that was written.
                let next = written.range(time..).next();
                assert!(
                    next.is_some_and(|(_, value)| value.is_stale()),
                    "{series} {time}"
                );
            } else {
                assert!(written.get(time) == Some(&value), "{series} at {time}");
            }
        }
        assert_eq!(markers > 0, series == "mixed", "{series}");
    }
}

#[test]
fn histograms_are_rolled_up_and_read_at_each_level() {
    let world = world(START + 40 * HOUR);
    let process = world.start();
    let samples = samples(40);
    let policy = policy([21, 90, 365]);
    process.run(write_all(&process.db, &samples));
    let all = (START, START + 40 * HOUR - 1);
    let before = process.run(left(&process.db, all));
    process.db.set_retention(Some(policy.clone()));
    assert_eq!(maintain(&process).rolled_up, 1, "one of 32 h");
    assert_eq!(
        process.run(left(&process.db, all)),
        before,
        "samples are still there"
    );
    let selected = process.run(select(&process.db, all, half_hourly()));
    let levels = &selected[0].rolled.as_ref().unwrap().levels;
    assert_eq!(segments(levels)[1..], [(0, 32, FIVE), (32, 40, RAW)]);
    assert!(check_windows(&selected, &samples) > 3 * 12 * 32);
    drop(process);
    world.check();

    let process = world.start();
    set_clock(&world, START + 30 * 24 * HOUR);
    process.db.set_retention(Some(policy.clone()));
    let report = maintain(&process);
    assert!(report.culled > 0 && report.rolled_up > 0);
    for choice in [hourly(), half_hourly()] {
        let selected = process.run(select(&process.db, all, choice));
        assert_eq!(selected.len(), 4);
        assert!(check_windows(&selected, &samples) > 100);
        // Each sample that was written is counted.
        for series in &selected {
            let name = series.labels.get("series").unwrap();
            let rolled = series.rolled.as_ref().unwrap();
            let windows = rolled.histograms.iter().flatten();
            let counted: u64 = windows.map(HistogramWindow::samples).sum();
            let is_counted = |(of, _, value): &&(&str, i64, Value)| {
                *of == name && matches!(value, Value::Histogram(_)) && !value.is_stale()
            };
            assert_eq!(counted, samples.iter().filter(is_counted).count() as u64);
        }
    }
    let of_five = process.run(left(&process.db, all));
    check_left(&of_five, &samples);
    let kept = |left: &BTreeMap<String, BTreeMap<i64, Value>>| -> usize {
        left.values().map(BTreeMap::len).sum()
    };
    assert!(kept(&of_five) < kept(&before) && of_five.len() == before.len());
    // A range in the middle of windows.
    let cut = (START + 5 * HOUR + 90_000, START + 5 * HOUR + 7 * MINUTE);
    let mut expected = of_five;
    for series in expected.values_mut() {
        series.retain(|time, _| (cut.0..=cut.1).contains(time));
    }
    assert!(expected["counter"].len() > 1);
    let mut found = process.run(left(&process.db, cut));
    found.retain(|_, samples| !samples.is_empty());
    expected.retain(|_, samples| !samples.is_empty());
    assert_eq!(found, expected);
    drop(process);
    world.check();

    let process = world.start();
    set_clock(&world, START + 120 * 24 * HOUR);
    process.db.set_retention(Some(policy));
    maintain(&process);
    assert!(process.db.rolled().iter().all(|b| b.size.exponent() == 8));
    let selected = process.run(select(&process.db, all, hourly()));
    assert!(check_windows(&selected, &samples) > 100);
    check_left(&process.run(left(&process.db, all)), &samples);
    drop(process);
    world.check();
}

#[test]
fn late_histograms_make_windows_out_of_date() {
    let world = world(START + 40 * HOUR);
    let process = world.start();
    process.db.set_retention(Some(policy([21, 90, 365])));
    let mut all = samples(40);
    process.run(write_all(&process.db, &all));
    assert_eq!(maintain(&process).rolled_up, 1);
    let time = START + 5 * HOUR + 90_500;
    let value = Value::Histogram(Arc::new(histogram(2, [70, 80, 90])));
    let late = vec![("custom_late", time, value.clone()), ("gauge", time, value)];
    process.run(write_all(&process.db, &late));
    let range = (START, START + 32 * HOUR - 1);
    let selected = process.run(select(&process.db, range, half_hourly()));
    let levels = &selected[0].rolled.as_ref().unwrap().levels;
    let expected = [(0, 5, FIVE), (5, 6, RAW), (6, 32, FIVE)];
    assert_eq!(segments(levels)[1..], expected);
    check_windows(&selected, &all);
    let of_gauge = |s: &&SeriesSamples| s.labels.get("series") == Some("gauge");
    let gauge = selected.iter().find(of_gauge).unwrap();
    assert!(
        gauge
            .histograms
            .iter()
            .any(|sample| sample.timestamp_ms == time)
    );
    assert_eq!(maintain(&process).rolled_up, 1, "again");
    all.extend(late);
    all.sort_by_key(|sample| sample.1);
    let selected = process.run(select(&process.db, range, half_hourly()));
    let levels = &selected[0].rolled.as_ref().unwrap().levels;
    assert_eq!(segments(levels)[1..], [(0, 32, FIVE)]);
    assert_eq!(selected.len(), 5);
    check_windows(&selected, &all);
    drop(process);
    world.check();
}

#[test]
fn a_deletion_takes_windows_of_histograms() {
    let world = world(START + 40 * HOUR);
    let process = world.start();
    process.db.set_retention(Some(policy([21, 90, 365])));
    let all = samples(40);
    process.run(write_all(&process.db, &all));
    assert_eq!(maintain(&process).rolled_up, 1);
    // While there are samples, windows are made again of those that are left.
    let (from, to) = (5 * HOUR + 100_000, 5 * HOUR + 1_000_000);
    delete(&process, "gauge", from, to);
    let is_left = |(series, time, _): &(&str, i64, Value)| {
        *series != "gauge" || !(START + from..=START + to).contains(time)
    };
    let left: Samples = all
        .iter()
        .filter(|sample| is_left(sample))
        .cloned()
        .collect();
    let range = (START, START + 32 * HOUR - 1);
    for rebuilt in [false, true] {
        if rebuilt {
            assert_eq!(maintain(&process).rolled_up, 1, "again");
        }
        let selected = process.run(select(&process.db, range, half_hourly()));
        check_windows(&selected, &left);
    }
    // Afterwards the windows that it touches go, those of floats and those of histograms.
    set_clock(&world, START + 60 * 24 * HOUR);
    maintain(&process);
    delete(&process, "mixed", 2 * HOUR + 1, 4 * HOUR + 1);
    delete(&process, "custom", 0, 40 * HOUR);
    for cleaned in [false, true] {
        if cleaned {
            maintain(&process);
        }
        let selected = process.run(select(&process.db, range, hourly()));
        let names: Vec<_> = selected.iter().map(|s| s.labels.get("series")).collect();
        let expected = [Some("counter"), Some("gauge"), Some("mixed")];
        assert_eq!(names, expected, "cleaned: {cleaned}");
        let mixed = selected[2].rolled.as_ref().unwrap();
        let floats = mixed.windows[0].starts.iter().copied();
        let histograms = mixed.histograms[0].iter().map(|window| window.start_ms);
        for starts in [floats.collect::<Vec<_>>(), histograms.collect()] {
            let hours: Vec<i64> = starts.iter().map(|start| (start - START) / HOUR).collect();
            assert!(hours.contains(&1) || hours.contains(&5), "{hours:?}");
            assert!(
                hours.iter().all(|hour| !(2..=4).contains(hour)),
                "{hours:?}"
            );
        }
        // What else there is stays as it was.
        check_windows(&selected[..2], &left);
    }
    drop(process);
    world.check();
}

#[test]
fn an_interrupted_roll_up_gives_the_same_bytes() {
    let samples = samples(40);
    let write = |process: &Process| process.run(write_all(&process.db, &samples));
    let expected = rolled_up_after(&world(START + 40 * HOUR), write, &[]);
    assert!(expected.len() > 10);
    for writes in [vec![0], vec![1, 1]] {
        let interrupted = world(START + 40 * HOUR);
        let content = rolled_up_after(&interrupted, write, &writes);
        assert_eq!(content, expected, "{writes:?}");
    }
}
