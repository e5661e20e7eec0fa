//! Merging that is cut off anywhere: no late sample is lost, and none counts twice.

use std::sync::Arc;

use bytes::Bytes;
use icecore_records::{ParsedKey, RecordType, key};

use super::*;
use crate::faults::Dice;

/// Fewest writes of a merge in small steps.
const WRITES_MIN: u64 = 4;

/// A store with overlays, and what its series count.
fn with_overlays(policy: &RetentionPolicy) -> (World, BTreeMap<String, u64>) {
    let (mut world, _) = culled(policy);
    world.options.head.flush_batch_records = 1;
    let process = start(&world, policy);
    process.run(write(&process.db, &late()));
    process.run(process.db.flush_buckets()).unwrap();
    let selected = process.run(select(&process.db, range(), hourly()));
    let counted = counts(&selected);
    process.crash();
    (world, counted)
}

fn fork(world: &World) -> World {
    let mut forked = World::over(Arc::new(world.memory().fork()));
    forked.options = world.options.clone();
    forked.clock = Arc::clone(&world.clock);
    forked
}

/// What the windows of both levels show, whatever is merged already.
fn answers(process: &Process) -> String {
    let levels = [hourly(), half_hourly()].map(|choice| {
        let selected = process.run(select(&process.db, range(), choice));
        let windows = selected.iter().map(|series| {
            let rolled = series.rolled.as_ref().unwrap();
            let windows = rolled.segments().map(|(segment, columns)| {
                // Columns that were not asked for come along where something is merged.
                let fields = WindowFields::ALL.without(WindowFields::M2 | WindowFields::CHANGES);
                let windows = columns.windows();
                let kept = WindowColumns::from_windows(&windows, fields);
                (segment.resolution, format!("{kept:?}"))
            });
            (series.labels.to_string(), windows.collect::<Vec<_>>())
        });
        windows.collect::<Vec<_>>()
    });
    format!("{levels:#?}")
}

#[test]
fn a_merge_can_be_cut_before_every_write() {
    let policy = side_by_side();
    let (store, counted) = with_overlays(&policy);
    let (expected, records, targets) = {
        let process = start(&fork(&store), &policy);
        let expected = answers(&process);
        while !process.db.overlays().is_empty() {
            process.run(process.db.merge_late_now(None)).unwrap();
        }
        assert_eq!(answers(&process), expected, "merged in one go");
        let targets = process.db.rolled();
        let records = targets.iter().map(|t| records_of(&process, *t));
        (expected, records.collect::<Vec<_>>(), targets)
    };
    let mut writes = 0;
    loop {
        let when = format!("cut before write {writes}");
        let world = fork(&store);
        let process = start(&world, &policy);
        let whole = process.run(process.db.merge_late_now(Some(writes)));
        assert_eq!(answers(&process), expected, "{when}");
        let selected = process.run(select(&process.db, range(), hourly()));
        assert_eq!(counts(&selected), counted, "{when}");
        // With the WAL written out and without.
        match writes % 2 {
            0 => process.close(),
            _ => process.crash(),
        }
        world.check();
        let process = start(&world, &policy);
        assert_eq!(answers(&process), expected, "{when}, then started");
        while !process.db.overlays().is_empty() {
            process.run(process.db.merge_late_now(None)).unwrap();
        }
        assert_eq!(answers(&process), expected, "{when}, then gone on with");
        let found = targets.iter().map(|target| records_of(&process, *target));
        assert_eq!(windows_of(found.collect()), windows_of(records.clone()));
        process.close();
        world.check();
        if whole.is_ok() {
            break;
        }
        writes += 1;
    }
    assert!(writes >= WRITES_MIN, "only {writes} writes");
}

/// The values of windows: new series may have got other ids.
fn windows_of(targets: Vec<Vec<(Bytes, Bytes)>>) -> Vec<Vec<Bytes>> {
    let values = targets.into_iter().map(|records| {
        let windows = records.into_iter().filter(|(key, _)| {
            let parsed = ParsedKey::parse(key).unwrap();
            matches!(parsed, ParsedKey::RollupSeries { .. })
        });
        let mut values: Vec<Bytes> = windows.map(|(_, value)| value).collect();
        values.sort_unstable();
        values
    });
    values.collect()
}

/// The power goes at any put of a merge, the one that would make its commit durable included.
#[test]
fn the_power_may_go_at_any_put() {
    let policy = side_by_side();
    let (store, counted) = with_overlays(&policy);
    for puts in 0..40 {
        let mut world = fork(&store);
        world.options.store.retries_max = 1;
        world.options.store.compaction = false;
        let process = start(&world, &policy);
        process.faults.power_off_after(puts);
        let mut merged = Ok(0);
        while merged.is_ok() && !process.db.overlays().is_empty() {
            merged = process.run(process.db.merge_late_now(None));
        }
        process.crash();
        let world = fork(&world);
        let process = start(&world, &policy);
        let check = |when: &str| {
            for choice in [hourly(), half_hourly()] {
                let selected = process.run(select(&process.db, range(), choice));
                assert_eq!(counts(&selected), counted, "{puts} puts, {when}");
            }
        };
        check("after a start");
        while !process.db.overlays().is_empty() {
            process.run(process.db.merge_late_now(None)).unwrap();
        }
        check("merged");
        process.close();
        world.check();
        if merged.is_ok() {
            return;
        }
    }
    panic!("a merge needs more than 40 puts");
}

/// Late samples are in the journal for as long as other hours of their epoch are not flushed. What
/// was merged does not come back from there, and a flush that was cut off leaves nothing behind
/// that counts twice.
#[test]
fn a_replay_brings_nothing_back_that_was_merged() {
    let policy = side_by_side();
    let (store, _) = culled(&policy);
    let total = |process: &Process| {
        let selected = process.run(select(&process.db, range(), hourly()));
        counts(&selected)["gauge"]
    };
    let mut dice = Dice(7);
    for puts in 0..24 {
        let mut world = fork(&store);
        world.options.store.retries_max = 1;
        let process = start(&world, &policy);
        let before = total(&process);
        // Of the hour that is open now, which keeps the epoch.
        let now_ms = START + 40 * DAY - HOUR / 2;
        process.run(write(&process.db, &[("now", now_ms, 1.0)]));
        for i in 0..5 {
            let time = START + dice.below(40) as i64 * HOUR + 11 + i;
            process.run(write(&process.db, &[("gauge", time, 1.0)]));
        }
        // The store goes away in a flush, or a merge.
        process.faults.power_off_after(puts);
        let flushed = process.run(process.db.tick());
        if flushed.is_ok() {
            let _ = process.run(process.db.merge_late_now(None));
        }
        process.crash();
        let world = fork(&world);
        let process = start(&world, &policy);
        assert_eq!(total(&process), before + 5, "{puts} puts");
        process.run(process.db.flush_buckets()).unwrap();
        while !process.db.overlays().is_empty() {
            process.run(process.db.merge_late_now(None)).unwrap();
        }
        assert_eq!(total(&process), before + 5, "{puts} puts, merged");
        process.crash();
        let process = start(&world, &policy);
        assert_eq!(total(&process), before + 5, "{puts} puts, replayed");
        assert_eq!(process.db.overlays(), []);
        process.close();
        world.check();
    }
}

/// A flush into an overlay that is cut off leaves samples there that the head has, too, after a
/// replay. Were they merged then, the flush that is repeated would bring them once more.
#[test]
fn what_a_cut_flush_has_left_is_not_merged() {
    let policy = side_by_side();
    let (world, _) = culled(&policy);
    let gauges = |process: &Process| {
        let selected = process.run(select(&process.db, range(), hourly()));
        counts(&selected)["gauge"]
    };
    let process = start(&world, &policy);
    let before = gauges(&process);
    process.run(write(&process.db, &[("gauge", START + 1, 1.0)]));
    process.run(process.db.flush_buckets()).unwrap();
    process.run(write(&process.db, &[("gauge", START + 2, 1.0)]));
    let overlay = process.db.overlays()[0];
    process.crash();
    // What the flush would write, without its commit.
    let samples = {
        let process = start(&fork(&world), &policy);
        process.run(process.db.flush_buckets()).unwrap();
        assert_eq!(process.db.overlays(), [overlay]);
        let prefix = key::record_prefix(RecordType::TimeSeries, overlay);
        process.run(process.db.records(&prefix)).unwrap()
    };
    let process = start(&world, &policy);
    let samples = samples.into_iter().map(|(key, value)| (key, Some(value)));
    let cut = process.db.replace_records(samples.collect());
    process.run(cut).unwrap();
    assert_eq!(gauges(&process), before + 2);
    assert!(process.run(process.db.merge_late_now(None)).is_err());
    assert_eq!(gauges(&process), before + 2);
    assert_eq!(maintain(&process).merged, 1);
    assert_eq!(gauges(&process), before + 2);
    process.close();
    world.check();
}
