//! Samples that come after their hour was coarsened.

use icecore_model::BucketStart;
use icecore_records::coarse_samples::{self, Part};
use icecore_records::{Bucket, RecordType, flush_cursor, gorilla, histogram_series, key};
use icecore_storage::testing::Hooks;

use super::*;
use crate::requests::{Entry, request};
use crate::support::*;

fn hour_of(time: i64) -> Bucket {
    Bucket::hour(BucketStart((time / 60_000) as u32))
}

/// A process with one hour of `entries` in a 16 h bucket.
fn coarse(world: &World, entries: Vec<Entry>) -> Process {
    let process = world.start();
    process.run(request(&process.db, entries)).unwrap();
    process.run(process.db.flush_buckets()).unwrap();
    process
        .run(process.db.coarsen_now(5, WINDOW, None))
        .unwrap();
    process
}

#[test]
fn late_samples_go_to_the_listed_bucket_that_covers_their_hour() {
    let world = World::new();
    let early = vec![Entry::float("b", T0, 1.0), Entry::float("d", T0 + 1, 2.0)];
    let process = coarse(&world, early);
    let retired = records_of(&process, hour_of(T0));
    assert!(!retired.is_empty(), "what was replaced is still there");

    // Of an hour that is retired and of one that never was a bucket; old series and new ones.
    let late = [
        ("b", T0 + 5, 3.0),
        ("c", T0, 4.0),
        ("b", T0 + HOUR, 5.0),
        ("a", T0 + HOUR, 6.0),
    ];
    process.run(write(&process.db, &late));
    process.run(process.db.flush_buckets()).unwrap();
    assert_eq!(process.db.gauges().open_hours, 0);

    let target = bucket(16, 0);
    assert_eq!(process.db.listed(), [target], "nothing else is listed");
    assert_eq!(
        records_of(&process, hour_of(T0)),
        retired,
        "a retired bucket is never written again"
    );
    assert!(records_of(&process, hour_of(T0 + HOUR)).is_empty());

    let meta = meta_of(&process, target);
    let hours = [T0, T0 + HOUR].map(|time| (time / 60_000) as u32);
    assert_eq!(meta.dirty_hours, hours);
    assert_eq!(meta.next_series_id, 4);
    let runs: Vec<u32> = meta.run_starts.iter().map(|id| id.0).collect();
    assert_eq!(runs, [0, 2], "each flush adds a run in label order");
    assert_eq!(meta.float_samples, 6);
    assert!(meta.min_timestamp_ms <= T0 && meta.max_timestamp_ms >= T0 + HOUR);

    // The series of the base has two late parts, each of one flush; that without late samples is as
    // it was.
    let values = values_of(&process, RecordType::TimeSeries, target);
    let kinds: Vec<Vec<bool>> = values
        .iter()
        .map(|value| {
            let parts = coarse_samples::parts(value);
            let is_late = |part: &Bytes| matches!(coarse_samples::parse(part), Ok(Part::Stream(_)));
            parts.iter().map(is_late).collect()
        })
        .collect();
    let expected: [&[bool]; 4] = [&[false, true], &[false], &[true], &[true]];
    assert_eq!(kinds, expected);
    let parts = coarse_samples::parts(&values[0]);
    let Ok(Part::Stream(stream)) = coarse_samples::parse(&parts[1]) else {
        panic!("a late stream");
    };
    assert_eq!(gorilla::first_timestamp(stream).unwrap(), Some(T0 + 5));

    // Cursors are kept by hour, so that a replay finds them.
    let cursors = process
        .run(process.db.records(&key::flush_cursor_prefix()))
        .unwrap();
    for time in [T0, T0 + HOUR] {
        let key = key::flush_cursor(hour_of(time));
        let found = cursors.iter().find(|(found, _)| *found == key).unwrap();
        assert!(flush_cursor::decode(&found.1).unwrap() > 0);
    }
    assert!(
        !cursors
            .iter()
            .any(|(found, _)| *found == key::flush_cursor(target))
    );
    let content = process.run(process.db.stored_content()).unwrap();
    process.crash();
    let process = world.start();
    assert_eq!(process.db.metrics().replayed_samples.get(), 0);
    assert_eq!(process.run(process.db.stored_content()).unwrap(), content);
    let floats: usize = content.values().map(|series| series.floats.len()).sum();
    assert_eq!(floats, 6);
}

#[test]
fn a_late_float_takes_the_place_of_a_histogram_and_of_a_start() {
    let world = World::new();
    let early = vec![
        Entry::histogram("h", T0, 2),
        Entry::histogram("h", T0 + 1, 3),
        Entry::float("s", T0, 1.0).starting(T0 - 5),
    ];
    let process = coarse(&world, early);
    let late = [("h", T0, 7.0), ("s", T0, 8.0)];
    // Twice, so that the second flush meets the parts of the first.
    for round in 0..2 {
        let late = late.map(|(series, time, value)| (series, time, value + f64::from(round)));
        process.run(write(&process.db, &late));
        process.run(process.db.flush_buckets()).unwrap();
    }
    let content = process.run(process.db.stored_content()).unwrap();
    let of = |name: &str| {
        let found = content.iter().find(|(labels, _)| labels.contains(name));
        found.unwrap().1
    };
    let h = of("\"h\"");
    assert_eq!(h.histograms.keys().copied().collect::<Vec<_>>(), [T0 + 1]);
    assert_eq!(h.floats[&T0], 8f64.to_bits());
    let s = of("\"s\"");
    assert_eq!(s.floats[&T0], 9f64.to_bits());
    assert!(s.starts.is_empty(), "the sample that had a start is gone");
    let values = values_of(&process, RecordType::HistogramSeries, bucket(16, 0));
    let parts = histogram_series::parts(&values[0]);
    assert_eq!(
        parts.len(),
        2,
        "said once: the second float found none to beat"
    );
}

#[test]
fn late_samples_in_a_bucket_of_any_size() {
    for (exponent, hours) in [(2, 2), (3, 4), (4, 8), (5, 16)] {
        let world = World::new();
        let process = world.start();
        process.run(write(&process.db, &[("a", T0, 1.0)]));
        process.run(process.db.flush_buckets()).unwrap();
        let target = bucket(hours, 14 / hours * hours);
        process
            .run(process.db.coarsen_now(exponent, target.start, None))
            .unwrap();
        process.run(write(&process.db, &[("a", T0 + 1, 2.0)]));
        process.run(process.db.flush_buckets()).unwrap();
        assert_eq!(process.db.listed(), [target]);
        assert_eq!(
            meta_of(&process, target).dirty_hours,
            [(T0 / 60_000) as u32]
        );
    }
}
