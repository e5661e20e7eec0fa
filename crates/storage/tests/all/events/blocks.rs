//! Blocks: durable in order, replayed until they are sealed.

use icecore_model::CatalogChange;
use icecore_model::event::EventBatch;
use icecore_records::{journal, key};
use icecore_storage::testing::{Fault, FaultPlan, Hooks, Operation};

use super::*;
use crate::process::World;
use crate::support::{T0, everything, expected, read, write as write_samples};

#[test]
fn blocks_are_replayed_in_order_until_they_are_sealed() {
    let world = World::new();
    let process = world.start();
    assert_eq!(replayed(&process), []);
    let first = append(&process, &["one", "two"]);
    process.run(write_samples(&process.db, &[("a", T0, 1.0)]));
    let third = append(&process, &["three"])[0];
    assert_eq!(third, first[1] + 2, "one numbering for all writes");
    process.crash();

    for round in 0..2 {
        let process = world.start();
        let blocks = [(first[0], "one"), (first[1], "two"), (third, "three")];
        assert_eq!(replayed(&process), blocks.map(|(s, b)| (s, b.to_owned())));
        assert_eq!(replayed(&process), [], "only once");
        let samples = process.run(read(&process.db, everything()));
        assert_eq!(samples, expected(&[("a", T0, 1.0)]));
        match round {
            0 => process.close(),
            _ => process.crash(),
        }
    }
    world.check();

    let process = world.start();
    let sealed = EventBatch {
        sealed: Some(first[1]),
        ..EventBatch::default()
    };
    write(&process, sealed).unwrap();
    process.crash();
    let process = world.start();
    assert_eq!(replayed(&process), [(third, "three".to_owned())]);
    assert_eq!(snapshot(&process).sealed(), first[1]);
    let later = append(&process, &["four"])[0];
    assert!(later > third);
}

/// A block that nobody waits for is durable before those that come after it.
#[test]
fn a_commit_need_not_be_awaited() {
    let world = World::new();
    let process = world.start();
    let (first, second) = process.run(async {
        let store = store(&process);
        let first = store.append(b"one".to_vec()).await.unwrap();
        let second = store.append(b"two".to_vec()).await.unwrap();
        drop(first.commit);
        second.commit.await.unwrap();
        (first.seq, second.seq)
    });
    assert_eq!(second, first + 1);
    process.crash();
    let process = world.start();
    let blocks = [(first, "one".to_owned()), (second, "two".to_owned())];
    assert_eq!(replayed(&process), blocks);
}

#[test]
fn an_epoch_goes_when_its_events_are_sealed_and_not_before() {
    let world = World::new();
    let process = world.start();
    let db = &process.db;
    let seqs = append(&process, &["one", "two"]);
    process.run(write_samples(db, &[("a", T0, 1.0)]));
    let journal = || process.run(db.records(&key::journal_prefix())).unwrap();
    process.run(db.flush()).unwrap();
    process.run(db.drain()).unwrap();
    assert!(!journal().is_empty(), "events are nowhere else");
    let seal = |seq| EventBatch {
        sealed: Some(seq),
        ..EventBatch::default()
    };
    write(&process, seal(seqs[0])).unwrap();
    process.run(db.flush()).unwrap();
    assert!(!journal().is_empty());
    write(&process, seal(seqs[1])).unwrap();
    process.run(db.flush()).unwrap();
    assert_eq!(journal(), []);
    assert_eq!(db.gauges().journal_epochs, 0);
    process.crash();
    world.check();

    let process = world.start();
    assert_eq!(replayed(&process), []);
    assert_eq!(snapshot(&process).sealed(), seqs[1]);
    assert!(append(&process, &["three"])[0] > seqs[1]);
}

/// An epoch whose summary says that its events were not sealed is passed over once they are.
#[test]
fn a_summary_knows_of_events() {
    let world = World::new();
    let process = world.start();
    let seqs = append(&process, &["one"]);
    // A summary is not worth waiting for, but a clean stop writes it.
    process.run(process.db.flush_buckets()).unwrap();
    process.close();
    let process = world.start();
    assert_eq!(replayed(&process), [(seqs[0], "one".to_owned())]);
    let batch = EventBatch {
        sealed: Some(seqs[0]),
        ..EventBatch::default()
    };
    write(&process, batch).unwrap();
    process.crash();
    let process = world.start();
    assert_eq!(replayed(&process), []);
    assert_eq!(process.db.metrics().replayed_records.get(), 0, "not read");
}

#[test]
fn a_block_that_cannot_be_read_keeps_its_epoch_and_hides_no_other() {
    let world = World::new();
    let process = world.start();
    let seqs = append(&process, &["one", "two", "three"]);
    let records = process.run(process.db.records(&key::journal_prefix()));
    let (damaged, value) = records.unwrap().swap_remove(1);
    let mut value = value.to_vec();
    *value.last_mut().unwrap() ^= 1;
    assert!(journal::decode_record(&value).is_err());
    let damage = vec![(damaged, Some(value.into()))];
    process.run(process.db.replace_records(damage)).unwrap();
    process.crash();
    for _ in 0..2 {
        let process = world.start();
        let blocks = [(seqs[0], "one".to_owned()), (seqs[2], "three".to_owned())];
        assert_eq!(replayed(&process), blocks);
        assert_eq!(process.db.gauges().journal_unreadable_epochs, 1);
        process.close();
    }
    let process = world.start();
    let batch = EventBatch {
        sealed: Some(seqs[2]),
        ..EventBatch::default()
    };
    write(&process, batch).unwrap();
    process.run(process.db.flush()).unwrap();
    let left = process.run(process.db.records(&key::journal_prefix()));
    assert_eq!(left.unwrap().len(), 3, "somebody may repair it");
}

#[test]
fn what_cannot_be_stored_is_refused() {
    let mut world = World::new();
    world.options.journal.queue_bytes_max = 64;
    let process = world.start_quietly(FaultPlan::quiet(0));
    let append = |block: Vec<u8>| process.run(store(&process).append(block)).map(|a| a.seq);
    let empty = append(Vec::new()).unwrap_err().to_string();
    assert!(empty.contains("without bytes"), "{empty}");
    let large = append(vec![0; (128 << 20) + 1]).unwrap_err().to_string();
    assert!(large.contains("more than"), "{large}");
    // The queue fills while the store takes nothing.
    let faults = &process.faults;
    faults.script(Operation::Put, "", Fault::NotApplied, usize::MAX);
    let noise = |seed: u8| (0..200u8).map(|i| i.wrapping_mul(i) ^ seed).collect();
    let refused = (0..10).find_map(|i| append(noise(i)).err());
    let refused = refused.expect("the queue is full").to_string();
    assert!(refused.contains("journal.queue_bytes_max"), "{refused}");
}

/// Samples cannot change records of events: a flush of them could undo what a batch wrote.
#[test]
fn records_of_events_come_with_events_only() {
    let world = World::new();
    let process = world.start();
    let written = process.run(process.db.write(|batch| {
        use icecore_model::SampleSink as _;
        batch.catalog(CatalogChange {
            key: vec![0x33, 1],
            value: Some(vec![1]),
        });
        Ok::<(), ()>(())
    }));
    assert_eq!(written.unwrap().rejected_count(), 1);
}
