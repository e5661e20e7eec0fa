//! A flush cut off after any of its puts, then repeated, ends in the same records byte for byte.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use icecore_model::{BucketSize, BucketStart, Matcher};
use icecore_records::ParsedKey;
use icecore_storage::Deletion;
use icecore_storage::testing::Hooks;
use slatedb::object_store::memory::InMemory;

use crate::process::{Process, World};
use crate::requests::{Entry, pairs, request};
use crate::support::*;

/// A world whose flushes reach the store record by record.
fn world_of_small_steps(store: InMemory) -> World {
    let mut world = World::over(Arc::new(store));
    world.options.head.flush_batch_records = 1;
    world.options.store.l0_sst_bytes = 512;
    world.options.store.unflushed_bytes_max = 1 << 20;
    world
}

/// Everything that a flush leaves for readers: all but journal, cursors, summaries of
/// epochs and watermark.
fn flushed_records(process: &Process) -> Vec<(Bytes, Bytes)> {
    let mut records = process.run(process.db.records(&[])).unwrap();
    records.retain(|(key, _)| {
        !matches!(
            ParsedKey::parse(key),
            Ok(ParsedKey::Journal { .. }
                | ParsedKey::FlushCursor { .. }
                | ParsedKey::CatalogCursor
                | ParsedKey::EpochSummary { .. }
                // It has the time of day.
                | ParsedKey::RetentionState
                | ParsedKey::JournalWatermark)
        )
    });
    records
}

fn first_requests() -> Vec<Entry> {
    let mut entries = vec![
        Entry::histogram("h", T0, 2),
        Entry::histogram("h", T0 + 1, 3).starting(T0 - 5),
        Entry::exemplar("b", T0 + 2, "abc"),
        Entry::metadata("m", "says what it is"),
    ];
    for (i, series) in ["d", "b", "a", "c"].iter().enumerate() {
        for hour in 0..2 {
            let time = T0 + hour * HOUR + i as i64;
            entries.push(Entry::float(series, time, i as f64).starting(T0 * (i as i64 % 2)));
        }
    }
    entries
}

/// Old series, new ones between them, values replaced, a float over a histogram, a start taken
/// away.
fn late_requests() -> Vec<Entry> {
    let other = pairs(&[("__name__", "m"), ("series", "bb"), ("more", "x")]);
    vec![
        Entry::float("a", T0 + 2, 77.0),
        Entry::float("b", T0 + 1, 78.0),
        Entry::float("b", T0 + 30_000, 79.0),
        Entry::float("h", T0, 80.0),
        Entry::histogram("c", T0 + 3, 5),
        Entry::float("", T0 + 40_000, 81.0).labelled(other),
        Entry::float("aa", T0 + 41_000, 82.0),
        Entry::exemplar("b", T0 + 3, "def"),
    ]
}

/// A store with journalled requests that are in no bucket, left by a crash.
fn store_with_journal(base: &InMemory, entries: Vec<Entry>) -> InMemory {
    let store = base.fork();
    let world = World::over(Arc::new(store.fork()));
    let process = world.start();
    process.run(request(&process.db, entries)).unwrap();
    // What the process has done so far, before any background work of it.
    drop(process);
    store_of(&world)
}

fn store_of(world: &World) -> InMemory {
    world.memory().fork()
}

/// Fewest puts of a flush in small steps. How many there are beyond that is up to SlateDB, which
/// gathers more records in one put when the machine is busy.
const PUTS_MIN: usize = 3;

/// Cuts the flush of what the journal holds after each number of puts, until one is not cut.
fn check_every_cut(journalled: &InMemory) -> InMemory {
    check_every_cut_later(journalled, 0)
}

/// The same some days later.
fn check_every_cut_later(journalled: &InMemory, days: i64) -> InMemory {
    let world_of_small_steps = |store: InMemory| {
        let world = world_of_small_steps(store);
        world.clock.advance(days * 24 * HOUR);
        world
    };
    let world = world_of_small_steps(journalled.fork());
    let process = world.start();
    process.run(process.db.flush_buckets()).unwrap();
    let expected = flushed_records(&process);
    let content = process.run(read(&process.db, everything()));
    process.crash();

    let mut cuts = 0;
    loop {
        let world = world_of_small_steps(journalled.fork());
        let process = world.start();
        process.faults.power_off_after(cuts);
        let flushed = process.run(process.db.flush_buckets());
        let whole = flushed.is_ok() && !process.faults.is_off();
        process.crash();
        let process = world.start();
        let found = process.run(read(&process.db, everything()));
        assert_eq!(found, content, "cut after {cuts} puts, before the repeat");
        process.run(process.db.flush_buckets()).unwrap();
        let found = flushed_records(&process);
        for (found, expected) in found.iter().zip(&expected) {
            assert_eq!(found, expected, "cut after {cuts} puts");
        }
        assert_eq!(found.len(), expected.len(), "cut after {cuts} puts");
        if whole {
            break;
        }
        cuts += 1;
    }
    assert!(cuts >= PUTS_MIN, "only {cuts} places to cut");
    store_of(&world)
}

#[test]
fn a_first_flush_can_be_cut_anywhere() {
    let journalled = store_with_journal(&InMemory::new(), first_requests());
    check_every_cut(&journalled);
}

#[test]
fn a_late_flush_can_be_cut_anywhere() {
    let journalled = store_with_journal(&InMemory::new(), first_requests());
    let world = world_of_small_steps(journalled);
    let process = world.start();
    process.run(process.db.flush_buckets()).unwrap();
    process.crash();
    let journalled = store_with_journal(&store_of(&world), late_requests());
    check_every_cut(&journalled);
}

/// Late requests in the journal, for a bucket of 16 hours that took the place of the hours; and its
/// start.
fn late_for_a_coarse_bucket() -> (InMemory, BucketStart) {
    let journalled = store_with_journal(&InMemory::new(), first_requests());
    let world = world_of_small_steps(journalled);
    let process = world.start();
    process.run(process.db.flush_buckets()).unwrap();
    let start = BucketSize::from_exponent(5).unwrap().bucket_of(T0).unwrap();
    process.run(process.db.coarsen_now(5, start, None)).unwrap();
    process.crash();
    (
        store_with_journal(&store_of(&world), late_requests()),
        start,
    )
}

/// The same into a bucket of 16 hours that took the place of the hours meanwhile.
#[test]
fn a_late_flush_into_a_coarse_bucket_can_be_cut_anywhere() {
    let (journalled, start) = late_for_a_coarse_bucket();
    let flushed = check_every_cut(&journalled);
    let process = World::over(Arc::new(flushed)).start();
    let listed = process.db.listed();
    assert!(
        listed.iter().all(|bucket| bucket.start == start),
        "{listed:?}"
    );
}

/// Series that a cut flush has left in a bucket of 16 hours are found, also when another hour is
/// flushed to it before theirs is again.
#[test]
fn what_a_cut_flush_left_is_found_after_the_flush_of_another_hour() {
    let (journalled, start) = late_for_a_coarse_bucket();

    let earlier = T0 - HOUR;
    assert!(earlier >= start.start_ms(), "an hour of the same window");
    let mut cuts = 0;
    loop {
        let world = world_of_small_steps(journalled.fork());
        let process = world.start();
        process.faults.power_off_after(cuts);
        let flushed = process.run(process.db.flush_buckets());
        let whole = flushed.is_ok() && !process.faults.is_off();
        process.crash();
        let process = world.start();
        process.run(write(&process.db, &[("a", earlier, 99.0)]));
        let expected = process.run(read(&process.db, everything()));
        assert!(expected.contains_key("aa"), "cut after {cuts} puts");
        process.run(process.db.flush_buckets()).unwrap();
        let found = process.run(read(&process.db, everything()));
        assert_eq!(found, expected, "cut after {cuts} puts");
        if whole {
            break;
        }
        cuts += 1;
    }
    assert!(cuts >= PUTS_MIN, "only {cuts} places to cut");
}

/// What is of long ago becomes a coarse bucket at once, or comes to one late.
#[test]
fn a_flush_of_long_ago_can_be_cut_anywhere() {
    for (days, exponent) in [(3, 5), (50, 7), (300, 9)] {
        let journalled = store_with_journal(&InMemory::new(), first_requests());
        let flushed = check_every_cut_later(&journalled, days);
        let journalled = store_with_journal(&flushed, late_requests());
        let flushed = check_every_cut_later(&journalled, days);
        let process = World::over(Arc::new(flushed)).start();
        let listed = process.db.listed();
        let size = BucketSize::from_exponent(exponent).unwrap();
        assert!(
            listed.iter().all(|bucket| bucket.size == size),
            "{listed:?}"
        );
        let windows = [0, 1].map(|hour| size.bucket_of(T0 + hour * HOUR));
        assert_eq!(listed.len(), BTreeSet::from(windows).len());
    }
}

/// What a cut flush left of a coarse bucket is gone when the bucket is made.
#[test]
fn what_a_cut_flush_left_of_a_coarse_bucket_does_not_come_back() {
    let mut cuts = 0;
    loop {
        let journalled = store_with_journal(&InMemory::new(), first_requests());
        let world = world_of_small_steps(journalled);
        world.clock.advance(300 * 24 * HOUR);
        let process = world.start();
        process.faults.power_off_after(cuts);
        let flushed = process.run(process.db.flush_buckets());
        let whole = flushed.is_ok() && !process.faults.is_off();
        process.crash();
        let process = world.start();
        let mut expected = process.run(read(&process.db, everything()));
        let first_hour = Deletion {
            selectors: vec![vec![Matcher::equal("__name__", "m")]],
            start_ms: T0,
            end_ms: T0 + HOUR - 1,
        };
        process.run(process.db.delete_series(first_hour)).unwrap();
        process.run(process.db.clean_tombstones()).unwrap();
        for samples in expected.values_mut() {
            samples.retain(|time, _| *time >= T0 + HOUR);
        }
        expected.retain(|_, samples| !samples.is_empty());
        let found = process.run(read(&process.db, everything()));
        assert_eq!(found, expected, "cut after {cuts} puts");
        process.close();
        world.check();
        if whole {
            break;
        }
        cuts += 1;
    }
    assert!(cuts >= PUTS_MIN, "only {cuts} places to cut");
}
