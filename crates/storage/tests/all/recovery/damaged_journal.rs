//! Journal records that cannot be read: reported, kept, and nothing else is lost.

use bytes::Bytes;
use icecore_model::BucketSize;
use icecore_records::epoch_summary::{self, EpochSummary, FlushUnit};
use icecore_records::{ParsedKey, journal, key};
use icecore_storage::Error;
use icecore_storage::testing::{FaultPlan, Hooks};

use crate::process::{Process, World};
use crate::support::*;

const FIRST: (&str, i64, f64) = ("a", T0, 1.0);
const SECOND: (&str, i64, f64) = ("b", T0 + 1, 2.0);
const THIRD: (&str, i64, f64) = ("a", T0 + HOUR, 3.0);

/// A crashed process left three requests in three records of one epoch. `damage` changes them.
fn after_damage(damage: impl Fn(&mut Vec<(Bytes, Option<Bytes>)>)) -> World {
    let world = World::new();
    let process = world.start();
    for sample in [FIRST, SECOND, THIRD] {
        process.run(write(&process.db, &[sample]));
    }
    let records = journal_of(&process);
    assert_eq!(records.len(), 3, "one record per request");
    let mut changed: Vec<_> = records.into_iter().map(|(k, v)| (k, Some(v))).collect();
    damage(&mut changed);
    process.run(process.db.replace_records(changed)).unwrap();
    process.crash();
    world
}

fn journal_of(process: &Process) -> Vec<(Bytes, Bytes)> {
    process
        .run(process.db.records(&key::journal_prefix()))
        .unwrap()
}

fn content(process: &Process) -> Content {
    process.run(read(&process.db, everything()))
}

/// Opens, flushes and restarts several times: the damage is seen each time and nothing is drained.
fn check_kept(world: &World, unreadable: u64, survivors: &[(&str, i64, f64)]) {
    for round in 0..3 {
        let process = world.start();
        let db = &process.db;
        assert_eq!(
            db.metrics().replay_unreadable.get(),
            unreadable,
            "round {round}"
        );
        assert_eq!(db.gauges().journal_unreadable_epochs, 1);
        assert_eq!(content(&process), expected(survivors), "round {round}");
        let kept = journal_of(&process);
        process.run(db.flush()).unwrap();
        assert_eq!(content(&process), expected(survivors), "round {round}");
        assert_eq!(
            journal_of(&process),
            kept,
            "nothing of the epoch is drained"
        );
        match round {
            0 => process.crash(),
            _ => process.close(),
        }
    }
}

fn check_strict_refuses(mut world: World) {
    world.options.journal.strict_recovery = true;
    match world.try_start(FaultPlan::quiet(0)).err() {
        Some(Error::Corrupt(reason)) => {
            assert!(reason.to_string().contains("strict_recovery"), "{reason}")
        }
        other => panic!("{other:?}"),
    }
    world.options.journal.strict_recovery = false;
    world.start().close();
}

#[test]
fn garbage_in_place_of_a_record() {
    let world = after_damage(|records| records[1].1 = Some(Bytes::from_static(b"garbage")));
    check_kept(&world, 1, &[FIRST, THIRD]);
    check_strict_refuses(world);
}

/// A summary says that all of the epoch is in buckets once its hours are flushed: not of what
/// nobody read.
#[test]
fn a_summary_does_not_let_a_damaged_epoch_go() {
    let world = after_damage(|records| {
        let Ok(ParsedKey::Journal { epoch, seq }) = ParsedKey::parse(&records[0].0) else {
            panic!("not a journal key");
        };
        records[1].1 = Some(Bytes::from_static(b"garbage"));
        let hour = |time: i64| FlushUnit::Hour(BucketSize::HOUR.bucket_of(time).unwrap());
        let summary = EpochSummary {
            first_seq: seq,
            last_seq: seq + 2,
            units: [(hour(T0), seq + 1), (hour(T0 + HOUR), seq + 2)].into(),
        };
        let summary = epoch_summary::encode(&summary);
        records.push((key::epoch_summary(epoch), Some(summary)));
    });
    check_kept(&world, 1, &[FIRST, THIRD]);
}

#[test]
fn every_flipped_bit_is_noticed() {
    // One bit per record is enough for a start; the codec's own tests flip all of them.
    for at in [0, 5, 20] {
        let world = after_damage(|records| {
            let mut value = records[1].1.as_ref().unwrap().to_vec();
            value[at] ^= 0x10;
            records[1].1 = Some(value.into());
        });
        let process = world.start();
        assert_eq!(process.db.metrics().replay_unreadable.get(), 1, "byte {at}");
        assert_eq!(content(&process), expected(&[FIRST, THIRD]));
    }
}

#[test]
fn a_lost_definition_costs_only_what_refers_to_it() {
    // The first record defines "a", which the third one uses; the second brings its own series.
    let world = after_damage(|records| records[0].1 = None);
    check_kept(&world, 1, &[SECOND]);
    check_strict_refuses(world);
}

#[test]
fn a_section_of_a_newer_version_keeps_its_epoch() {
    let world = after_damage(|records| {
        let value = records[1].1.take().unwrap();
        let mut block = journal::decode_record(&value).unwrap()[0].to_vec();
        // Kind 99, not compressed, three bytes.
        block.extend_from_slice(&[99, 0, 3, 3, 1, 2, 3]);
        records[1].1 = Some(journal::encode_record(&[block]).into());
    });
    check_kept(&world, 1, &[FIRST, SECOND, THIRD]);
    check_strict_refuses(world);
}

#[test]
fn a_key_that_is_no_journal_key_is_left_alone() {
    let world = after_damage(|records| {
        let mut odd = records[2].0.to_vec();
        odd.push(7);
        records.push((odd.into(), Some(Bytes::from_static(b"?"))));
    });
    let process = world.start();
    assert_eq!(content(&process), expected(&[FIRST, SECOND, THIRD]));
    assert_eq!(process.db.metrics().replay_unreadable.get(), 1);
    process.run(process.db.flush()).unwrap();
    assert!(
        journal_of(&process).iter().any(|(_, value)| value == "?"),
        "not drained"
    );
}

#[test]
fn a_record_that_is_put_back_is_read_again() {
    let world = World::new();
    let process = world.start();
    for sample in [FIRST, SECOND, THIRD] {
        process.run(write(&process.db, &[sample]));
    }
    let (lost, value) = journal_of(&process).remove(1);
    let damaged = vec![(lost.clone(), Some(Bytes::from_static(b"x")))];
    process.run(process.db.replace_records(damaged)).unwrap();
    process.crash();
    let process = world.start();
    assert_eq!(content(&process), expected(&[FIRST, THIRD]));
    let restored = vec![(lost, Some(value))];
    process.run(process.db.replace_records(restored)).unwrap();
    process.crash();
    let process = world.start();
    assert_eq!(content(&process), expected(&[FIRST, SECOND, THIRD]));
    assert_eq!(process.db.metrics().replay_unreadable.get(), 0);
}

#[test]
fn new_requests_go_on_after_damage() {
    let world = after_damage(|records| records[1].1 = Some(Bytes::new()));
    let process = world.start();
    let later = ("b", T0 + 1, 9.0);
    process.run(write(&process.db, &[later]));
    process.crash();
    let process = world.start();
    assert_eq!(content(&process), expected(&[FIRST, THIRD, later]));
    process.run(process.db.flush()).unwrap();
    let epochs = process.db.gauges();
    assert_eq!(
        (epochs.journal_epochs, epochs.journal_unreadable_epochs),
        (1, 1)
    );
}
