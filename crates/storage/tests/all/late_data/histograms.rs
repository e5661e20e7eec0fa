//! Native histograms that come late, and series that have both kinds.

use std::sync::Arc;

use icecore_model::rollup::{HistogramWindow, roll_up_histograms, unite_ends};
use icecore_model::{Histogram, STALE_NAN_BITS};

use super::*;
use crate::requests::{Entry, request};
use crate::rollup_histograms::{Value, histogram};

type Mixed = Vec<(&'static str, i64, Value)>;

fn of_minutes(minutes: impl Iterator<Item = i64>) -> Mixed {
    let mut samples = Mixed::new();
    for minute in minutes {
        let time = START + minute * 60_000;
        let n = minute % 300;
        let counter = histogram(3, [n, 2 * n, 3 * n + 1]);
        samples.push(("counter", time + 7, Value::Histogram(Arc::new(counter))));
        let mixed = match minute % 60 {
            0..20 => Value::Float(minute as f64),
            20..50 => Value::Histogram(Arc::new(histogram(0, [n, 1, 2]))),
            50 => Value::Float(f64::from_bits(STALE_NAN_BITS)),
            _ => continue,
        };
        samples.push(("mixed", time, mixed));
    }
    samples
}

async fn write_mixed(db: &Database, samples: &Mixed) {
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
    let entries = samples.iter().map(entry).collect();
    request(db, entries).await.unwrap();
}

fn windows(samples: &Mixed, series: &str, resolution: Resolution) -> SeriesWindows {
    let of_series = samples.iter().filter(|(name, ..)| *name == series);
    let (mut floats, mut histograms) = (Vec::new(), Vec::new());
    for (_, time, value) in of_series {
        match value {
            Value::Float(value) => floats.push((*time, *value)),
            Value::Histogram(histogram) => histograms.push((*time, histogram)),
        }
    }
    let times = |of: &[(i64, f64)]| -> Vec<i64> { of.iter().map(|s| s.0).collect() };
    let histogram_times: Vec<i64> = histograms.iter().map(|s| s.0).collect();
    let mut windows = SeriesWindows {
        floats: roll_up(resolution, floats.iter().copied()),
        histograms: roll_up_histograms(resolution, histograms),
    };
    unite_ends(
        resolution,
        (&mut windows.floats, &times(&floats)),
        (&mut windows.histograms, &histogram_times),
    );
    windows
}

#[test]
fn late_histograms_are_merged() {
    let policy = side_by_side();
    let world = world(START + 40 * HOUR);
    let process = world.start();
    let samples = of_minutes((0..600).step_by(2));
    process.run(write_mixed(&process.db, &samples));
    process.run(process.db.flush_buckets()).unwrap();
    set_clock(&world, START + 40 * DAY);
    process.db.set_retention(Some(policy));
    maintain(&process);
    assert_eq!(process.db.listed(), []);
    // Every seventh minute of those between, some at the start of windows, and a new series.
    let mut late = of_minutes((1..700).step_by(7));
    late.retain(|(_, time, _)| !samples.iter().any(|(_, other, _)| other == time));
    let edge = Value::Histogram(Arc::new(histogram(0, [1, 1, 1])));
    late.push(("mixed", START + 8 * HOUR, edge));
    late.push((
        "new",
        START + 3 * HOUR + 1,
        Value::Histogram(Arc::new(histogram(1, [4, 5, 6]))),
    ));
    late.sort_by_key(|(_, time, _)| *time);
    process.run(write_mixed(&process.db, &late));
    for when in ["in the head", "in overlays", "merged"] {
        match when {
            "in overlays" => process.run(process.db.flush_buckets()).unwrap(),
            "merged" => assert!(maintain(&process).merged > 0),
            _ => {}
        }
        for choice in [hourly(), half_hourly()] {
            let wanted = (choice, WindowFields::ALL.without(WindowFields::M2));
            let matchers = everything().matchers;
            let selected = process.run(select_rolled(&process.db, matchers, range(), wanted));
            let names: Vec<_> = selected.iter().map(|s| s.labels.get("series")).collect();
            assert_eq!(names, [Some("counter"), Some("mixed"), Some("new")]);
            for series in &selected {
                check_series(series, &samples, &late, when);
            }
        }
    }
    drop(process);
    world.check();
}

fn check_series(series: &SeriesSamples, samples: &Mixed, late: &Mixed, when: &str) {
    let name = series.labels.get("series").unwrap();
    let rolled = series.rolled.as_ref().unwrap();
    let segments = rolled.segments().enumerate();
    for (at, (segment, columns)) in segments {
        let mut expected = windows(samples, name, segment.resolution);
        expected.merge_late(windows(late, name, segment.resolution));
        let within = |start_ms: i64| (segment.start_ms..segment.end_ms).contains(&start_ms);
        expected.floats.retain(|w| within(w.start_ms));
        expected.histograms.retain(|w| within(w.start_ms));
        let floats = WindowColumns::from_windows(&expected.floats, columns.fields);
        assert_eq!(
            format!("{columns:?}"),
            format!("{floats:?}"),
            "{name}, {when}"
        );
        let found: &[HistogramWindow] = rolled.histograms.get(at).map_or(&[], Vec::as_slice);
        assert_eq!(found, expected.histograms, "{name}, {when}");
    }
}
