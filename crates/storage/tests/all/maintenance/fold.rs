//! Late samples are folded in: the same samples in one part, whatever comes in between.

use icecore_records::coarse_samples::{self, Part};
use icecore_records::{RecordType, histogram_series};
use icecore_storage::testing::{Hooks, JobHooks};

use super::*;
use crate::requests::{Entry, request};
use crate::support::*;

fn early() -> Vec<Entry> {
    let mut entries = vec![
        Entry::histogram("h", T0, 2),
        Entry::histogram("h", T0 + 1, 3),
        Entry::histogram("gone", T0, 4),
        Entry::exemplar("a", T0, "abc"),
    ];
    for i in 0..50 {
        // Two series that share a column of uneven times, and a regular one.
        let uneven = T0 + i * 15_000 + i * i % 7;
        entries.push(Entry::float("a", uneven, i as f64));
        entries.push(Entry::float("b", uneven, i as f64 / 3.0));
        entries.push(Entry::float("c", T0 + i * 15_000, 1.0).starting(T0 - 1));
    }
    entries
}

/// Values replaced at known times, samples in between, a new series, other hours, histograms.
fn late(round: i64) -> Vec<Entry> {
    let value = 100.0 + round as f64;
    vec![
        Entry::float("a", T0, value),
        Entry::float("b", T0 + 7 + round, value),
        Entry::float("c", T0 + 15_000, f64::from_bits(0x7ff8_0000_0000_0001)),
        Entry::float("new", T0 + round, -0.0),
        Entry::float("b", T0 + HOUR + round, value),
        Entry::float("h", T0, value),
        Entry::float("gone", T0, value),
        Entry::histogram("h", T0 + 2 + round, 5),
        Entry::histogram("c", T0 + 30_000, 6),
        Entry::exemplar("a", T0 + round, "def"),
    ]
}

fn coarse_with_late(world: &World) -> Process {
    let process = world.start();
    process.run(request(&process.db, early())).unwrap();
    process.run(process.db.flush_buckets()).unwrap();
    process
        .run(process.db.coarsen_now(5, WINDOW, None))
        .unwrap();
    for round in 0..3 {
        process.run(request(&process.db, late(round))).unwrap();
        process.run(process.db.flush_buckets()).unwrap();
    }
    process
}

fn assert_folded(process: &Process, target: Bucket) {
    for value in values_of(process, RecordType::TimeSeries, target) {
        let parsed = coarse_samples::parse(&value);
        assert!(matches!(parsed, Ok(Part::Columns(_))), "{parsed:?}");
    }
    for value in values_of(process, RecordType::HistogramSeries, target) {
        assert!(histogram_series::is_columns(&value));
    }
}

#[test]
fn folding_changes_nothing_but_the_form() {
    let world = World::new();
    let process = coarse_with_late(&world);
    let (db, target) = (&process.db, bucket(16, 0));
    let before = process.run(db.stored_content()).unwrap();
    assert_eq!(meta_of(&process, target).dirty_hours.len(), 2);
    assert_eq!(db.maintenance_status().dirty, 1);
    let (records, clean) = process.run(db.fold_now(target)).unwrap();
    assert!(records > 5 && clean, "{records} {clean}");
    assert_eq!(process.run(db.stored_content()).unwrap(), before);
    assert_folded(&process, target);
    let meta = meta_of(&process, target);
    assert!(meta.dirty_hours.is_empty());
    assert_eq!(db.maintenance_status().dirty, 0);
    assert_eq!(db.metrics().folded_records.get(), records);

    // Once more there is nothing to do, and nothing changes.
    let folded = records_of(&process, target);
    assert_eq!(process.run(db.fold_now(target)).unwrap(), (0, true));
    assert_eq!(records_of(&process, target), folded);
    process.close();
    let process = world.start();
    assert_eq!(records_of(&process, target), folded);
    assert_eq!(process.run(process.db.stored_content()).unwrap(), before);
}

/// Whatever of a fold reached the store, the next one ends in the same bytes.
#[test]
fn a_fold_that_was_cut_off_is_repeated() {
    let whole = World::new();
    let process = coarse_with_late(&whole);
    let target = bucket(16, 0);
    let before = process.run(process.db.stored_content()).unwrap();
    let late_records = records_of(&process, target);
    process.run(process.db.fold_now(target)).unwrap();
    let expected = records_of(&process, target);
    // As if each record had been reached or not: those before the cut are folded, the rest is not.
    let changed: Vec<usize> = (0..expected.len())
        .filter(|at| expected.get(*at) != late_records.get(*at))
        .collect();
    assert_eq!(
        expected.len() + 1,
        late_records.len(),
        "one histogram is gone for good"
    );
    for cut in 0..=changed.len() {
        let mut half: Vec<_> = late_records
            .iter()
            .cloned()
            .map(|(k, v)| (k, Some(v)))
            .collect();
        for (key, value) in expected.iter().take(cut) {
            half.retain(|(found, _)| found != key);
            half.push((key.clone(), Some(value.clone())));
        }
        // The meta is written last.
        let meta = key::bucket_meta(target);
        half.retain(|(key, _)| *key != meta);
        let dirty = late_records.iter().find(|(key, _)| *key == meta).unwrap();
        half.push((meta, Some(dirty.1.clone())));
        process.run(process.db.replace_records(half)).unwrap();
        assert_eq!(
            process.run(process.db.stored_content()).unwrap(),
            before,
            "cut {cut}"
        );
        let (_, clean) = process.run(process.db.fold_now(target)).unwrap();
        assert!(clean);
        assert_eq!(records_of(&process, target), expected, "cut {cut}");
    }
}

/// A late flush and a fold one after the other, over and over, as a process would do them.
#[test]
fn late_samples_after_a_fold_are_folded_by_the_next() {
    let world = world_without_compaction();
    let process = coarse_with_late(&world);
    let target = bucket(16, 0);
    for round in 3..6 {
        process.run(process.db.fold_now(target)).unwrap();
        process.run(request(&process.db, late(round))).unwrap();
        process.run(process.db.flush_buckets()).unwrap();
        assert_eq!(process.db.maintenance_status().dirty, 1);
        assert!(!meta_of(&process, target).dirty_hours.is_empty());
    }
    let before = process.run(process.db.stored_content()).unwrap();
    process.crash();
    // What is dirty is found again after a restart.
    let process = world.start();
    let report = process.run(process.db.run_maintenance()).unwrap();
    assert_eq!((report.folded, report.coarsened), (1, 0));
    assert_folded(&process, target);
    assert_eq!(process.run(process.db.stored_content()).unwrap(), before);
}
