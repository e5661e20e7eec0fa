//! Coarsening from outside: nothing is lost or invented, whatever interrupts it.

mod answers;
mod content;
mod interrupted;
mod overlap;
mod refused;

use std::sync::Arc;

use bytes::Bytes;
use icecore_model::{BucketSize, BucketStart};
use icecore_records::{Bucket, ParsedKey};
use icecore_storage::testing::Hooks;
use slatedb::object_store::memory::InMemory;

use crate::process::{Process, World};
use crate::requests::{Entry, pairs, request};
use crate::support::*;

/// The window of 16 hours that `T0` lies in; `T0` is its fifteenth hour.
const WINDOW: BucketStart = BucketStart(28_332_480);

fn bucket(exponent: u8, hours_after: u32) -> Bucket {
    Bucket {
        size: BucketSize::from_exponent(exponent).unwrap(),
        start: BucketStart(WINDOW.minutes() + 60 * hours_after),
    }
}

fn hour_ms(hour: i64) -> i64 {
    WINDOW.start_ms() + hour * HOUR
}

/// One hour of many kinds of series.
fn entries(hour: i64) -> Vec<Entry> {
    let start = hour_ms(hour);
    let mut entries = Vec::new();
    for minute in 0..60 {
        let regular = start + minute * 60_000;
        let value = (hour * 60 + minute) as f64;
        entries.push(Entry::float("regular", regular, value));
        entries.push(Entry::float("constant", regular, 1.0));
        if minute % 7 != 3 {
            entries.push(Entry::float("gaps", regular + minute % 3, value / 3.0));
        }
        // Two scrape targets of three series each, with jitter of their own.
        for target in 0..2 {
            let time = regular + (minute * minute * (target + 3) + hour) % 59;
            for series in 0..3 {
                let name = format!("jitter-{series}-{target}");
                entries.push(Entry::float(&name, time, value * series as f64));
            }
        }
        if minute % 10 == 0 {
            entries.push(Entry::histogram("histogram", regular, minute as u64 + 2));
            entries.push(Entry::histogram("mixed", regular, minute as u64 + 2));
            entries.push(Entry::float("mixed", regular + 5, f64::NAN));
            let started = Entry::float("started", regular, value).starting(start - 5_000);
            entries.push(started);
            entries.push(Entry::exemplar(
                "regular",
                regular + 1,
                &format!("t{minute}"),
            ));
        }
    }
    entries.push(Entry::float(&format!("only-{hour}"), start + 7, -0.0));
    if hour % 3 == 1 {
        entries.push(Entry::float("sometimes", start + 1, f64::INFINITY));
    }
    let more = pairs(&[("__name__", "n"), ("series", "regular"), ("zone", "z")]);
    entries.push(Entry::float("", start + 8, 3.5).labelled(more));
    entries
}

/// What comes after the hour was flushed: other values, new series between the old ones, a float
/// over a histogram, a histogram over a float, a start taken away, an exemplar once more.
fn late_entries(hour: i64) -> Vec<Entry> {
    let start = hour_ms(hour);
    vec![
        Entry::float("regular", start, 99.0),
        Entry::float("regular", start + 30_000, 98.0),
        Entry::float("jitter-0-0", start + 1_000_000, 97.0),
        Entry::float("late", start + 9, 96.0),
        Entry::float("aaa", start + 9, 95.0),
        Entry::float("histogram", start + 600_000, 94.0),
        Entry::histogram("constant", start + 120_000, 8),
        Entry::float("started", start, 93.0),
        Entry::exemplar("regular", start + 1, "t0"),
        Entry::exemplar("late", start + 2, "tt"),
    ]
}

/// A store whose buckets are these hours after the window's start, some with late data.
fn store_with_hours(hours: std::ops::Range<i64>) -> InMemory {
    let world = World::new();
    let process = world.start();
    for hour in hours.clone() {
        process.run(request(&process.db, entries(hour))).unwrap();
    }
    process.run(process.db.flush_buckets()).unwrap();
    for hour in hours.filter(|hour| hour % 2 == 0) {
        process
            .run(request(&process.db, late_entries(hour)))
            .unwrap();
    }
    process.run(process.db.flush()).unwrap();
    process.close();
    world.memory().fork()
}

/// A world over a copy of a store, whose jobs write in small steps.
fn world_of(store: &InMemory) -> World {
    let mut world = World::over(Arc::new(store.fork()));
    world.options.head.flush_batch_records = 3;
    world
}

/// Every record of a bucket.
fn records_of(process: &Process, bucket: Bucket) -> Vec<(Bytes, Bytes)> {
    let mut records = process.run(process.db.records(&[])).unwrap();
    records.retain(|(key, _)| bucket_of(key) == Some(bucket));
    records
}

fn bucket_of(key: &[u8]) -> Option<Bucket> {
    match ParsedKey::parse(key).unwrap() {
        ParsedKey::SeriesDictionary { bucket, .. }
        | ParsedKey::ForwardIndex { bucket, .. }
        | ParsedKey::InvertedIndex { bucket, .. }
        | ParsedKey::TimeSeries { bucket, .. }
        | ParsedKey::TimeSeriesStarts { bucket, .. }
        | ParsedKey::BucketMeta { bucket }
        | ParsedKey::TimeColumn { bucket, .. }
        | ParsedKey::HistogramSeries { bucket, .. }
        | ParsedKey::HistogramSeriesStarts { bucket, .. }
        | ParsedKey::ExemplarSeries { bucket, .. } => Some(bucket),
        _ => None,
    }
}

/// Compares record by record, so that a failure names the first that differs.
fn assert_same_records(found: &[(Bytes, Bytes)], expected: &[(Bytes, Bytes)], when: &str) {
    for (found, expected) in found.iter().zip(expected) {
        let name = |key: &Bytes| ParsedKey::parse(key).unwrap().to_string();
        assert_eq!(name(&found.0), name(&expected.0), "{when}");
        assert_eq!(found.1, expected.1, "{} {when}", name(&found.0));
    }
    assert_eq!(found.len(), expected.len(), "{when}");
}
