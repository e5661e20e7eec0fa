//! Cursors, epochs and sequence numbers: what is covered is skipped, what was used is not reused.

use icecore_records::{ParsedKey, key, watermark};
use icecore_storage::testing::Hooks;

use crate::process::{Process, World};
use crate::requests::{Entry, request};
use crate::support::*;

/// `(epoch, sequence number)` of all journal records.
fn numbers(process: &Process) -> Vec<(u32, u64)> {
    let records = process
        .run(process.db.records(&key::journal_prefix()))
        .unwrap();
    let parsed = records
        .iter()
        .map(|(key, _)| ParsedKey::parse(key).unwrap());
    parsed
        .map(|key| match key {
            ParsedKey::Journal { epoch, seq } => (epoch, seq),
            other => panic!("{other}"),
        })
        .collect()
}

fn cursors(process: &Process) -> usize {
    let prefix = key::flush_cursor_prefix();
    process.run(process.db.records(&prefix)).unwrap().len()
}

fn content(process: &Process) -> Content {
    process.run(read(&process.db, everything()))
}

#[test]
fn what_a_cursor_covers_is_not_replayed() {
    let world = World::new();
    let process = world.start();
    let flushed = [("a", T0, 1.0), ("a", T0 + HOUR, 2.0)];
    process.run(write(&process.db, &flushed));
    process.run(process.db.flush_buckets()).unwrap();
    let fresh = [("a", T0, 3.0), ("a", T0 + 2 * HOUR, 4.0)];
    process.run(write(&process.db, &fresh));
    process.crash();
    let process = world.start();
    assert_eq!(process.db.metrics().replayed_samples.get(), 2);
    let all = [flushed, fresh].concat();
    assert_eq!(content(&process), expected(&all));
}

/// Old and new values of one place, in buckets and in the journal, in every order.
#[test]
fn the_last_write_wins_across_flushes_and_crashes() {
    for pattern in 0..64u32 {
        let world = World::new();
        let mut process = world.start();
        let mut all = Vec::new();
        for round in 0..3 {
            let value = f64::from(round);
            let samples = [("a", T0, value), ("b", T0 + HOUR, value)];
            process.run(write(&process.db, &samples));
            all.extend(samples);
            match (pattern >> (2 * round)) & 3 {
                0 => {}
                1 => process.run(process.db.flush_buckets()).unwrap(),
                2 => {
                    process.crash();
                    process = world.start();
                }
                _ => {
                    // One hour only: the other stays in the journal.
                    world.clock.advance(90_000);
                    process.run(write(&process.db, &[("c", T0 + HOUR, value)]));
                    all.push(("c", T0 + HOUR, value));
                    world.clock.advance(60_000);
                    process.run(process.db.tick()).unwrap();
                }
            }
            assert_eq!(
                content(&process),
                expected(&all),
                "{pattern:o}, round {round}"
            );
        }
        process.crash();
        let process = world.start();
        assert_eq!(content(&process), expected(&all), "{pattern:o}, at the end");
    }
}

#[test]
fn a_drained_journal_is_empty_and_its_numbers_are_used_up() {
    let world = World::new();
    let mut used = (0, 0);
    for round in 0..3 {
        let process = world.start();
        let entries = vec![
            Entry::float("a", T0 + round, round as f64),
            Entry::metadata("m", &format!("round {round}")),
        ];
        process.run(request(&process.db, entries)).unwrap();
        let numbers_now = numbers(&process);
        let last = *numbers_now.last().unwrap();
        assert!(
            last.0 > used.0 && last.1 > used.1,
            "round {round}: {last:?} after {used:?}"
        );
        used = last;
        process.run(process.db.flush()).unwrap();
        assert_eq!(numbers(&process), [], "segments are gone");
        assert_eq!(cursors(&process), 0, "no cursor covers anything any more");
        assert_eq!(process.db.gauges().journal_epochs, 0);
        let mark = process
            .run(process.db.records(&key::journal_watermark()))
            .unwrap();
        let mark = watermark::decode(&mark[0].1).unwrap();
        assert!(
            mark.next_seq > used.1 && mark.next_epoch > used.0,
            "{mark:?}"
        );
        match round {
            0 => process.crash(),
            _ => process.close(),
        }
    }
    let process = world.start();
    assert_eq!(content(&process)["a"].len(), 3);
    assert_eq!(process.db.metadata(Some("m"))[0].1.help, "round 2");
}

#[test]
fn an_epoch_that_an_open_hour_needs_is_kept() {
    let world = World::new();
    let process = world.start();
    process.run(write(&process.db, &[("a", T0, 1.0)]));
    world.clock.advance(90_000);
    process.run(write(&process.db, &[("a", T0 + HOUR, 2.0)]));
    // Only the first hour is due. The epoch that both are in stays.
    world.clock.advance(60_000);
    process.run(process.db.tick()).unwrap();
    assert_eq!(process.db.gauges().open_hours, 1);
    assert_eq!(numbers(&process).len(), 2);
    assert_eq!(cursors(&process), 1);
    process.crash();
    let process = world.start();
    assert_eq!(process.db.metrics().replayed_samples.get(), 1);
    let all = [("a", T0, 1.0), ("a", T0 + HOUR, 2.0)];
    assert_eq!(content(&process), expected(&all));
    process.run(process.db.flush()).unwrap();
    assert_eq!(numbers(&process), []);
}

#[test]
fn epochs_roll_by_size_and_by_age_and_old_ones_force_a_flush() {
    let mut world = World::new();
    world.options.journal.epoch_bytes_max = 1;
    world.options.journal.epoch_age_max = std::time::Duration::from_secs(600);
    world.options.journal.epoch_keep_max = std::time::Duration::from_secs(3600);
    // Nothing is ever due by itself.
    world.options.head.flush_grace = std::time::Duration::from_secs(1_000_000);
    let process = world.start();
    for i in 0..3 {
        process.run(write(&process.db, &[("a", T0 + i, 1.0)]));
        process.run(process.db.tick()).unwrap();
    }
    let epochs: Vec<u32> = numbers(&process).iter().map(|n| n.0).collect();
    assert!(
        epochs.is_sorted_by(|a, b| a < b),
        "one epoch each: {epochs:?}"
    );
    assert_eq!(process.db.gauges().buckets, 0);
    world.clock.advance(3_700_000);
    process.run(process.db.tick()).unwrap();
    assert_eq!(
        process.db.gauges().buckets,
        1,
        "the old epochs asked for it"
    );
    process.crash();
    let process = world.start();
    assert_eq!(process.db.metrics().replayed_samples.get(), 0);
    assert_eq!(content(&process)["a"].len(), 3);
}
