//! What the process may hold: memory, open hours, bytes on their way to the store.

use std::time::Duration;

use icecore_storage::Error;
use icecore_storage::testing::{FaultPlan, Hooks, JobHooks};

use super::*;
use crate::pressed::bucket;
use crate::support::*;

fn unavailable(answer: Result<WriteOutcome, WriteError<()>>) -> String {
    match answer {
        Err(WriteError::Storage(Error::Unavailable(reason))) => reason.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_full_head_asks_for_patience_until_it_is_flushed() {
    let (_world, process) = with(|options| {
        options.head.bytes_max = Some(50_000);
        // The background task must not be quicker than the test.
        options.head.flush_bytes = Some(usize::MAX);
    });
    let mut stored = Vec::new();
    let refused = loop {
        let i = stored.len() as i64;
        assert!(i < 100_000, "the limit is never reached");
        let values: Vec<Entry> = (0..100)
            .map(|k| Entry::float("a", T0 + i + k, (i + k) as f64 * 0.1))
            .collect();
        match send(&process, values) {
            Ok(_) => stored.extend((0..100).map(|k| ("a", T0 + i + k, (i + k) as f64 * 0.1))),
            refused => break unavailable(refused),
        }
    };
    assert!(refused.contains("head.bytes_max"), "{refused}");
    assert_eq!(
        content(&process),
        expected(&stored),
        "what was taken is there"
    );
    process.run(process.db.flush_buckets()).unwrap();
    send(&process, vec![Entry::float("a", T0 - 1, 0.0)]).unwrap();
    stored.push(("a", T0 - 1, 0.0));
    assert_eq!(content(&process), expected(&stored));
}

#[test]
fn memory_pressure_flushes_the_largest_hours_first() {
    let (_world, process) = with(|options| {
        options.head.flush_bytes = Some(1);
        options.head.flush_grace = Duration::from_secs(1_000_000);
    });
    let mut entries: Vec<Entry> = (0..50).map(|i| Entry::float("a", T0 + i, 1.0)).collect();
    entries.push(Entry::float("a", T0 + HOUR, 1.0));
    send(&process, entries).unwrap();
    process.run(process.db.tick()).unwrap();
    // The background task may have come first and taken the small one as well.
    let gauges = process.db.gauges();
    assert!(gauges.buckets >= 1);
    assert_eq!(gauges.buckets + gauges.open_hours, 2);
    assert_eq!(content(&process)["a"].len(), 51);
}

#[test]
fn open_buckets_max_asks_for_patience_and_recovers() {
    let (_world, process) = with(|options| {
        options.limits.open_buckets_max = 4;
        options.head.flush_grace = Duration::from_secs(1_000_000);
    });
    // Metadata is no hour, whatever it is tracked as.
    send(&process, vec![Entry::metadata("m", "help")]).unwrap();
    let hour = |i: i64| Entry::float("a", T0 + i * HOUR, i as f64);
    // So many open hours are flushed soon, and not before the limit was looked at.
    let held = process.run(process.db.hold_back(bucket(7, T0))).unwrap();
    send(&process, (0..4).map(hour).collect()).unwrap();
    let reason = unavailable(send(&process, vec![hour(4)]));
    assert!(reason.contains("limits.open_buckets_max"), "{reason}");
    send(&process, vec![hour(3)]).expect("an hour that is open already");
    drop(held);
    process.run(process.db.tick()).unwrap();
    send(&process, vec![hour(4)]).expect("the older half made room");
    let stored: Vec<(&str, i64, f64)> = (0..5).map(|i| ("a", T0 + i * HOUR, i as f64)).collect();
    assert_eq!(content(&process), expected(&stored));
}

#[test]
fn queue_bytes_max_asks_for_patience_while_the_store_is_slow() {
    let mut world = World::new();
    world.options.journal.queue_bytes_max = 1000;
    world.options.journal.commit_timeout = Duration::from_secs(600);
    let process = world.start_quietly(FaultPlan {
        delay: 1.0,
        delay_max: Duration::from_secs(1_000_000),
        ..FaultPlan::quiet(7)
    });
    // From here on nothing is committed until the store is quick again.
    process.faults.set_enabled(true);
    let values = |i: i64| (0..20).map(move |k| (T0 + 20 * i + k, 0.1 * k as f64));
    let mut requests = 0..200i64;
    let (taken, refused) = process.run(async {
        let (mut taken, mut refused) = (Vec::new(), Vec::new());
        // Some more than fit.
        while refused.len() < 5 {
            let i = requests.next().expect("the limit is reached");
            let entries = values(i).map(|(time, value)| Entry::float("a", time, value));
            let (db, entries) = (process.db.clone(), entries.collect());
            let task = tokio::spawn(async move { request(&db, entries).await });
            let is_queued = || process.db.gauges().journal_lag > taken.len() as u64;
            until("it is queued or refused", || {
                is_queued() || task.is_finished()
            })
            .await;
            if is_queued() {
                taken.push((i, task));
            } else {
                refused.push(unavailable(task.await.unwrap()));
            }
        }
        process.faults.set_enabled(false);
        let mut acknowledged = Vec::new();
        for (i, task) in taken {
            task.await.unwrap().expect("what was taken is stored");
            acknowledged.push(i);
        }
        (acknowledged, refused)
    });
    for reason in refused {
        assert!(reason.contains("journal.queue_bytes_max"), "{reason}");
    }
    assert!(!taken.is_empty());
    let stored = taken.into_iter().flat_map(values);
    let stored: Vec<_> = stored.map(|(time, value)| ("a", time, value)).collect();
    assert_eq!(content(&process), expected(&stored));
    send(&process, vec![Entry::float("a", T0 - 1, 1.0)]).expect("room again");
}

#[test]
fn reads_have_limits_too() {
    let (_world, process) = with(|options| {
        options.read.series_max = 2;
        options.read.samples_max = 3;
    });
    let select = |selection: icecore_model::Selection| {
        process.run(async {
            use icecore_model::SeriesStream;
            let mut stream = process.db.select(selection).await?;
            let mut samples = 0;
            while let Some(batch) = stream
                .next_batch()
                .await
                .map_err(|e| Error::LimitReached(e.to_string()))?
            {
                samples += batch.iter().map(|s| s.sample_count()).sum::<usize>();
            }
            Ok::<usize, Error>(samples)
        })
    };
    let samples =
        |series: &str, n: i64| (0..n).map(|i| Entry::float(series, T0 + i, 1.0)).collect();
    send(&process, samples("a", 3)).unwrap();
    assert_eq!(select(everything()).unwrap(), 3);
    send(&process, samples("b", 1)).unwrap();
    for flushed in [false, true] {
        if flushed {
            process.run(process.db.flush_buckets()).unwrap();
        }
        match select(everything()) {
            Err(Error::LimitReached(reason)) => {
                assert!(reason.contains("read.samples_max"), "{reason}")
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(select(selection(Vec::new(), T0, T0)).unwrap(), 2);
    }
    send(&process, samples("c", 1)).unwrap();
    match select(selection(Vec::new(), T0, T0)) {
        Err(Error::LimitReached(reason)) => assert!(reason.contains("read.series_max"), "{reason}"),
        other => panic!("{other:?}"),
    }
}
