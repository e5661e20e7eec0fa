//! Epochs that buckets hold are not read at a start, and nothing else is left out.

use std::sync::Arc;

use bytes::Bytes;
use icecore_records::{ParsedKey, key};
use icecore_storage::ManualClock;
use icecore_storage::testing::Hooks;
use proptest::prelude::*;
use slatedb::object_store::memory::InMemory;

use crate::process::{Process, World};
use crate::requests::{Entry, request};
use crate::support::*;

fn content(process: &Process) -> Content {
    process.run(read(&process.db, everything()))
}

fn records_read(process: &Process) -> u64 {
    process.db.metrics().replayed_records.get()
}

fn under(process: &Process, prefix: Bytes) -> Vec<(Bytes, Bytes)> {
    process.run(process.db.records(&prefix)).unwrap()
}

fn summaries(process: &Process) -> Vec<(Bytes, Bytes)> {
    under(process, key::epoch_summary_prefix())
}

/// The journal's records of one epoch.
fn epoch(process: &Process, number: u32) -> Vec<(Bytes, Bytes)> {
    under(process, key::journal_epoch_prefix(number))
}

/// Deletes the summaries, as if an older version had written all this.
fn forget_summaries(process: &Process) {
    let gone = summaries(process).into_iter().map(|(key, _)| (key, None));
    let gone: Vec<_> = gone.collect();
    if !gone.is_empty() {
        process.run(process.db.replace_records(gone)).unwrap();
    }
}

/// A world in which nothing is due by itself and nothing is drained: epochs stay where they are.
fn world() -> World {
    let mut world = World::new();
    world.options.head.flush_grace = std::time::Duration::from_secs(1_000_000);
    world.options.journal.epoch_keep_max = std::time::Duration::from_secs(1_000_000);
    world.options.store.compaction = false;
    world
}

#[test]
fn after_a_clean_stop_nothing_is_read() {
    for compaction in [true, false] {
        let mut world = World::new();
        world.options.store.compaction = compaction;
        world.options.journal.epoch_bytes_max = 1;
        let process = world.start();
        let mut all = Vec::new();
        for i in 0..20 {
            let samples = [("a", T0 + i * HOUR, 1.0), ("b", T0 + i, 2.0)];
            process.run(write(&process.db, &samples));
            process
                .run(request(
                    &process.db,
                    vec![Entry::metadata("m", &format!("round {i}"))],
                ))
                .unwrap();
            all.extend(samples);
            if i % 7 == 3 {
                process.run(process.db.tick()).unwrap();
            }
        }
        process.close();
        let process = world.start();
        assert_eq!(records_read(&process), 0, "compaction {compaction}");
        assert_eq!(process.db.gauges().series, 0, "the head is empty");
        assert_eq!(content(&process), expected(&all));
        assert_eq!(process.db.metadata(Some("m"))[0].1.help, "round 19");
        // Numbers go on, and so does everything else.
        process.run(write(&process.db, &[("a", T0, 9.0)]));
        all.push(("a", T0, 9.0));
        process.crash();
        let process = world.start();
        assert_eq!(records_read(&process), 1, "compaction {compaction}");
        assert_eq!(content(&process), expected(&all));
        process.close();
        world.check();
    }
}

/// Two hours in three epochs: the first and the last epoch touch both, the second one hour only.
fn three_epochs(world: &World) -> (Process, Vec<(&'static str, i64, f64)>) {
    let process = world.start();
    let rounds = [
        vec![("a", T0, 1.0), ("a", T0 + HOUR, 2.0)],
        vec![("a", T0 + 1, 3.0), ("b", T0 + 1, 4.0)],
        vec![("b", T0 + 2, 5.0), ("b", T0 + HOUR, 6.0)],
    ];
    for samples in &rounds {
        process.run(write(&process.db, samples));
        // Ends the epoch.
        process.run(process.db.tick()).unwrap();
    }
    (process, rounds.concat())
}

#[test]
fn an_epoch_that_buckets_hold_is_not_read() {
    let mut world = world();
    world.options.journal.epoch_bytes_max = 1;
    let (process, mut all) = three_epochs(&world);
    process.run(process.db.flush_buckets()).unwrap();
    let late = ("b", T0 + 3, 7.0);
    process.run(write(&process.db, &[late]));
    all.push(late);
    // Whoever read them would notice.
    let damaged = (1..=3).flat_map(|number| epoch(&process, number));
    let damaged: Vec<_> = damaged
        .map(|(key, _)| (key, Some(Bytes::from_static(b"garbage"))))
        .collect();
    assert_eq!(damaged.len(), 3);
    process.run(process.db.replace_records(damaged)).unwrap();
    process.crash();
    let process = world.start();
    assert_eq!(process.db.metrics().replay_unreadable.get(), 0);
    assert_eq!(
        (records_read(&process), content(&process)),
        (1, expected(&all))
    );
    // They wait for somebody who compacts, and then they go, with their summaries.
    process.crash();
    world.options.store.compaction = true;
    let process = world.start();
    process.run(process.db.flush()).unwrap();
    assert_eq!(under(&process, key::journal_prefix()), []);
    assert_eq!(summaries(&process), []);
    assert_eq!(content(&process), expected(&all));
}

#[test]
fn an_epoch_with_one_hour_that_is_in_no_bucket_is_read() {
    let mut world = world();
    world.options.journal.epoch_bytes_max = 1;
    world.options.head.flush_grace = std::time::Duration::from_secs(100);
    // Only the first of the two hours ends.
    world.clock = Arc::new(ManualClock::at(T0 + HOUR - 1));
    let (process, all) = three_epochs(&world);
    world.clock.advance(150_000);
    process.run(process.db.tick()).unwrap();
    assert_eq!(process.db.gauges().open_hours, 1);
    process.crash();
    let process = world.start();
    assert_eq!(records_read(&process), 2, "the first and the last epoch");
    assert_eq!(process.db.metrics().replayed_samples.get(), 2);
    assert_eq!(content(&process), expected(&all));
}

#[test]
fn without_a_summary_everything_is_read() {
    for damaged in [None, Some(Bytes::from_static(b"garbage"))] {
        let mut world = world();
        world.options.journal.epoch_bytes_max = 1;
        let (process, all) = three_epochs(&world);
        process.run(process.db.flush_buckets()).unwrap();
        let changed = summaries(&process)
            .into_iter()
            .map(|(key, _)| (key, damaged.clone()));
        let changed: Vec<_> = changed.collect();
        assert_eq!(changed.len(), 3);
        process.run(process.db.replace_records(changed)).unwrap();
        process.crash();
        let process = world.start();
        assert_eq!(records_read(&process), 3);
        assert_eq!(process.db.metrics().replayed_samples.get(), 0);
        assert_eq!(content(&process), expected(&all));
        // What was read once is summarized for the next start. Nobody waits until that is durable.
        process.run(process.db.tick()).unwrap();
        process.run(process.db.write_memtables()).unwrap();
        process.crash();
        let process = world.start();
        assert_eq!(records_read(&process), 0);
        assert_eq!(content(&process), expected(&all));
    }
}

/// The summary of an epoch must not be there before the epoch is complete, nor be used for another
/// one.
#[test]
fn numbers_of_epochs_that_only_a_summary_knows_are_not_used_again() {
    let mut world = world();
    world.options.journal.epoch_bytes_max = 1;
    let (process, _) = three_epochs(&world);
    process.run(process.db.flush_buckets()).unwrap();
    let mut gone: Vec<_> = under(&process, key::journal_prefix());
    gone.extend(under(&process, key::journal_watermark()));
    gone.extend(under(&process, key::flush_cursor_prefix()));
    let gone = gone.into_iter().map(|(key, _)| (key, None)).collect();
    process.run(process.db.replace_records(gone)).unwrap();
    process.crash();
    let process = world.start();
    process.run(write(&process.db, &[("a", T0, 8.0)]));
    let numbers = under(&process, key::journal_prefix());
    let numbers: Vec<_> = numbers
        .iter()
        .map(|(key, _)| ParsedKey::parse(key).unwrap())
        .collect();
    assert_eq!(numbers, [ParsedKey::Journal { epoch: 4, seq: 4 }]);
    process.crash();
    let process = world.start();
    assert_eq!(records_read(&process), 1);
    assert_eq!(content(&process)["a"][&T0], 8f64.to_bits());
}

/// The process dies after each of the puts of a clean stop.
#[test]
fn a_clean_stop_can_be_cut_anywhere() {
    let written = {
        let mut world = world();
        world.options.journal.epoch_bytes_max = 1;
        let (process, _) = three_epochs(&world);
        process.crash();
        world.memory().fork()
    };
    let (mut cuts, mut read_nothing) = (0, 0);
    loop {
        let world = World::over(Arc::new(written.fork()));
        let process = world.start();
        let more = [("a", T0 + HOUR + 5, 1.5), ("c", T0 + 2 * HOUR, 2.5)];
        process.run(write(&process.db, &more));
        let before = content(&process);
        process.faults.power_off_after(cuts);
        let closed = process.run_until_off(process.db.close());
        let whole = closed.is_some_and(|closed| closed.is_ok()) && !process.faults.is_off();
        process.crash();
        let process = world.start();
        assert_eq!(content(&process), before, "cut after {cuts} puts");
        read_nothing += u32::from(records_read(&process) == 0);
        process.close();
        world.check();
        if whole {
            break;
        }
        cuts += 1;
    }
    assert!(cuts >= 3, "only {cuts} places to cut");
    assert!(read_nothing >= 1, "the whole stop leaves nothing to read");
}

#[derive(Clone, Debug)]
enum Step {
    /// Series, hour and minute of each sample.
    Write(Vec<(u8, u8, u8)>),
    Metadata(u8),
    /// Time goes on, what is due is flushed, the epoch may end.
    Tick(u8),
    FlushAll,
    Crash,
    Close,
}

fn any_step() -> impl Strategy<Value = Step> {
    let sample = (0..4u8, 0..6u8, 0..60u8);
    prop_oneof![
        6 => prop::collection::vec(sample, 1..6).prop_map(Step::Write),
        1 => any::<u8>().prop_map(Step::Metadata),
        4 => (0..100u8).prop_map(Step::Tick),
        1 => Just(Step::FlushAll),
        1 => Just(Step::Crash),
        1 => Just(Step::Close),
    ]
}

/// What a start makes of a store.
#[derive(Debug, PartialEq)]
struct Started {
    content: Content,
    replayed_samples: u64,
    open_hours: usize,
    head_ms: (Option<i64>, Option<i64>),
    metadata: Vec<String>,
}

fn start_from(store: InMemory, before: &World) -> (Started, u64) {
    let mut world = World::over(Arc::new(store));
    world.options = before.options.clone();
    world.clock = Arc::clone(&before.clock);
    let process = world.start();
    let gauges = process.db.gauges();
    let started = Started {
        content: content(&process),
        replayed_samples: process.db.metrics().replayed_samples.get(),
        open_hours: gauges.open_hours,
        head_ms: (gauges.head_start_ms, gauges.head_end_ms),
        metadata: process
            .db
            .metadata(None)
            .into_iter()
            .map(|(_, said)| said.help)
            .collect(),
    };
    (started, records_read(&process))
}

fn check_same_as_reading_everything(steps: &[Step]) -> Result<(u64, u64), TestCaseError> {
    let mut world = World::new();
    // Epochs of a record or a few, hours that are due one after the other, nothing drained.
    world.options.journal.epoch_bytes_max = 200;
    world.options.head.flush_grace = std::time::Duration::from_secs(120);
    world.options.store.compaction = false;
    world.options.limits.future_max = std::time::Duration::from_secs(10 * 3600);
    world.clock = Arc::new(ManualClock::at(T0));
    let mut process = world.start();
    let mut all = Content::new();
    for (at, step) in steps.iter().enumerate() {
        match step {
            Step::Write(samples) => {
                let value = at as f64;
                let samples = samples.iter().map(|(series, hour, minute)| {
                    let time = T0 + i64::from(*hour) * HOUR + i64::from(*minute) * 60_000;
                    (format!("s{series}"), time, value)
                });
                let samples: Vec<_> = samples.collect();
                for (series, time, value) in &samples {
                    let series = all.entry(series.clone()).or_default();
                    series.insert(*time, value.to_bits());
                }
                process.run(try_write(&process.db, samples)).unwrap();
            }
            Step::Metadata(said) => {
                let said = vec![Entry::metadata("m", &said.to_string())];
                process.run(request(&process.db, said)).unwrap();
            }
            Step::Tick(minutes) => {
                world.clock.advance(i64::from(*minutes) * 60_000);
                process.run(process.db.tick()).unwrap();
            }
            Step::FlushAll => process.run(process.db.flush_buckets()).unwrap(),
            Step::Crash => {
                process.crash();
                process = world.start();
            }
            Step::Close => {
                process.close();
                process = world.start();
            }
        }
    }
    // What is due is flushed, so that nothing changes between the two copies.
    process.run(process.db.tick()).unwrap();
    process.run(process.db.tick()).unwrap();
    let with_summaries = world.memory().fork();
    forget_summaries(&process);
    let without = world.memory().fork();
    process.crash();
    let (passing_over, some) = start_from(with_summaries, &world);
    let (reading, everything) = start_from(without, &world);
    prop_assert_eq!(&passing_over, &reading);
    prop_assert_eq!(&passing_over.content, &all);
    prop_assert!(some <= everything);
    Ok((some, everything))
}

#[test]
fn passing_over_is_the_same_as_reading_everything() {
    let cases = std::env::var("RECOVERY_CASES").ok();
    let cases = cases.and_then(|cases| cases.parse().ok()).unwrap_or(24);
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(cases));
    let (read, stored) = (std::cell::Cell::new(0), std::cell::Cell::new(0));
    let steps = prop::collection::vec(any_step(), 1..40);
    let ran = runner.run(&steps, |steps| {
        let (some, everything) = check_same_as_reading_everything(&steps)?;
        read.set(read.get() + some);
        stored.set(stored.get() + everything);
        Ok(())
    });
    if let Err(cause) = ran {
        panic!("{cause}");
    }
    assert!(
        read.get() < stored.get(),
        "nothing was ever passed over: {} of {}",
        read.get(),
        stored.get()
    );
}

#[test]
fn a_start_says_which_epochs_it_replays() {
    let mut world = world();
    world.options.journal.epoch_bytes_max = 1;
    let said = |process: &Process| {
        let replay = &process.replay;
        (replay.first(), replay.last(), replay.current())
    };
    let (process, _) = three_epochs(&world);
    assert_eq!(said(&process), (0, 0, 0), "a new store has no journal");
    process.crash();
    let process = world.start();
    assert_eq!(said(&process), (1, 3, 3));
    // An epoch that was open at the end has no summary.
    process.run(write(&process.db, &[("b", T0 + 9, 1.0)]));
    process.crash();
    let (first, last, current) = said(&world.start());
    assert_eq!(first, 1);
    assert!(last > 3 && current == last, "{last} and {current}");
}
