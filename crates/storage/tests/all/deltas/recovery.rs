//! Totals after crashes, with and without what was saved.

use std::sync::Arc;

use icecore_records::{ParsedKey, delta_totals, key};
use icecore_storage::testing::Hooks;
use slatedb::object_store::memory::InMemory;

use super::*;
use crate::process::World;

fn total_after(process: &Process, end: i64) -> f64 {
    send(process, &[delta("a", 0, end, 1.0)]);
    let found = process.run(read(&process.db, everything()));
    f64::from_bits(found["a"][&end]) - 1.0
}

fn saved(process: &Process) -> usize {
    let records = process.run(process.db.records(&key::delta_totals_prefix()));
    let parts = records
        .unwrap()
        .into_iter()
        .filter(|(key, _)| matches!(ParsedKey::parse(key), Ok(ParsedKey::DeltaTotals { .. })));
    parts
        .map(|(_, value)| delta_totals::decode(&value).unwrap().len())
        .sum()
}

#[test]
fn totals_come_back_from_the_journal_alone() {
    let world = World::new();
    let process = world.start();
    send(
        &process,
        &[
            delta("a", T0, T0 + 10, 5.0),
            delta("a", T0 + 10, T0 + 20, 2.0),
        ],
    );
    assert_eq!(saved(&process), 0);
    process.crash();
    let process = world.start();
    let again = send(&process, &[delta("a", T0 + 10, T0 + 20, 2.0)]);
    assert_eq!(again.duplicates, 1);
    assert_eq!(total_after(&process, T0 + 30), 7.0);
    let starts = only_series(&process).start_timestamps;
    assert_eq!(starts.last(), Some(&(T0 + 30, T0)));
}

#[test]
fn totals_come_back_from_what_was_saved_when_the_journal_is_gone() {
    let world = World::new();
    let process = world.start();
    send(&process, &[delta("a", T0, T0 + 10, 5.0)]);
    process.run(process.db.flush()).unwrap();
    assert_eq!(process.db.gauges().journal_epochs, 0);
    assert_eq!(saved(&process), 1);
    process.crash();
    let process = world.start();
    assert_eq!(process.db.metrics().replayed_samples.get(), 0);
    assert_eq!(
        send(&process, &[delta("a", T0, T0 + 10, 5.0)]).duplicates,
        1
    );
    assert_eq!(total_after(&process, T0 + 30), 5.0);
    let starts = only_series(&process).start_timestamps;
    assert_eq!(starts.last(), Some(&(T0 + 30, T0)));
    process.close();
    assert_eq!(total_after(&world.start(), T0 + 40), 6.0);
}

#[test]
fn the_journal_goes_on_from_what_was_saved() {
    let world = World::new();
    let process = world.start();
    send(
        &process,
        &[delta("a", T0, T0 + 10, 5.0), delta("b", T0, T0 + 10, 1.0)],
    );
    process.run(process.db.flush()).unwrap();
    send(&process, &[delta("a", T0 + 10, T0 + 20, 2.0)]);
    process.crash();
    let process = world.start();
    assert_eq!(process.db.gauges().delta_series, 2);
    assert_eq!(
        send(&process, &[delta("a", T0 + 10, T0 + 20, 2.0)]).duplicates,
        1
    );
    assert_eq!(total_after(&process, T0 + 30), 7.0);
}

#[test]
fn only_parts_that_changed_are_saved_again() {
    let process = World::new().start();
    let many: Vec<Delta> = (0..50)
        .map(|i| delta(&format!("s{i}"), T0, T0 + 10, 1.0))
        .collect();
    send(&process, &many);
    process.run(process.db.flush_buckets()).unwrap();
    assert_eq!(saved(&process), 50);
    let first = process.db.metrics().delta_bytes_saved.get();
    send(&process, &[delta("s7", T0 + 10, T0 + 20, 1.0)]);
    process.run(process.db.flush_buckets()).unwrap();
    let second = process.db.metrics().delta_bytes_saved.get() - first;
    assert!(second * 10 < first, "{first} bytes, then {second}");
    assert_eq!(saved(&process), 50);
    process.run(process.db.flush_buckets()).unwrap();
    let third = process.db.metrics().delta_bytes_saved.get() - first - second;
    assert_eq!(third, 0, "nothing has changed");
}

#[test]
fn a_flush_can_be_cut_anywhere() {
    let world = World::new();
    let process = world.start();
    let series = ["a", "b", "c", "d", "e"];
    let points = |start: i64| series.map(|s| delta(s, start, start + 10, 1.0));
    send(&process, &points(T0));
    process.run(process.db.flush_buckets()).unwrap();
    for i in 1..4 {
        send(&process, &points(T0 + 10 * i));
    }
    process.crash();
    let journalled = world.memory().fork();
    for cuts in 0.. {
        let mut world = World::over(Arc::new(InMemory::fork(&journalled)));
        world.options.head.flush_batch_records = 1;
        let process = world.start();
        process.faults.power_off_after(cuts);
        let flushed = process.run_until_off(process.db.flush());
        let whole = flushed.is_some_and(|flushed| flushed.is_ok()) && !process.faults.is_off();
        process.crash();
        let process = world.start();
        let again = send(&process, &points(T0 + 30));
        assert_eq!(again.duplicates, 5, "cut after {cuts} puts");
        send(&process, &points(T0 + 40));
        let found = process.run(read(&process.db, everything()));
        for series in series {
            let last = found[series][&(T0 + 50)];
            assert_eq!(f64::from_bits(last), 5.0, "{series}, cut after {cuts} puts");
        }
        if whole {
            assert!(cuts > 0);
            break;
        }
    }
}

#[test]
fn totals_that_cannot_be_read_start_anew() {
    let world = World::new();
    let process = world.start();
    send(&process, &[delta("a", T0, T0 + 10, 5.0)]);
    process.run(process.db.flush()).unwrap();
    let records = process
        .run(process.db.records(&key::delta_totals_prefix()))
        .unwrap();
    let broken = records.into_iter().filter(|(key, _)| key.len() > 3);
    let broken = broken
        .map(|(key, _)| (key, Some(vec![99].into())))
        .collect();
    process.run(process.db.replace_records(broken)).unwrap();
    process.crash();
    assert_eq!(total_after(&world.start(), T0 + 20), 0.0);
}
