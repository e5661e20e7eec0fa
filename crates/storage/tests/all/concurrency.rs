//! Many writers of the same places, with flushes and readers between them: what is seen at the end
//! is what a replay of the journal gives.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use icecore_model::SeriesStream;
use icecore_storage::Database;
use icecore_storage::testing::Hooks;

use crate::process::{Process, World};
use crate::requests::{Entry, request};
use crate::support::*;

const WRITERS: u64 = 8;
const REQUESTS: u64 = 40;
const SERIES: [&str; 5] = ["a", "b", "c", "d", "e"];

/// Floats and histograms of everything, in an order that can be compared.
async fn state(db: &Database) -> Vec<String> {
    let mut stream = db.select(everything()).await.expect("the selection opens");
    let mut found = Vec::new();
    while let Some(batch) = stream.next_batch().await.expect("the batch is read") {
        for series in batch {
            let floats = &series.floats;
            assert!(floats.timestamps.is_sorted_by(|a, b| a < b));
            for (time, value) in floats.timestamps.iter().zip(&floats.values) {
                found.push(format!("{} {time} {value}", series.labels));
            }
            for sample in &series.histograms {
                let (time, sum) = (sample.timestamp_ms, sample.histogram.sum);
                assert!(!floats.timestamps.contains(&time), "both at {time}");
                found.push(format!("{} {time} histogram {sum}", series.labels));
            }
            found.push(format!("{} {:?}", series.labels, series.start_timestamps));
        }
    }
    found
}

/// A request that meets others: few series, few times, values that nobody else writes.
fn conflicting_request(seed: u64, counter: &AtomicU64) -> Vec<Entry> {
    let entry = |i: u64| {
        let dice = (seed * 31 + i).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let series = SERIES[(dice % 5) as usize];
        let time = T0 + (dice / 5 % 3) as i64 * HOUR + (dice / 15 % 12) as i64 * 1000;
        let unique = counter.fetch_add(1, Ordering::Relaxed);
        let entry = match dice / 180 % 6 {
            0 => Entry::histogram(series, time, unique * 2),
            _ => Entry::float(series, time, unique as f64),
        };
        entry.starting(if (dice / 1080).is_multiple_of(4) {
            unique as i64 + 1
        } else {
            0
        })
    };
    (0..8).map(entry).collect()
}

/// Writers, readers and flushes at once; returns when all writers are done.
async fn turmoil(db: &Database, round: u64, counter: &Arc<AtomicU64>) {
    let done = Arc::new(AtomicBool::new(false));
    let mut others = Vec::new();
    for kind in 0..3 {
        let (db, done) = (db.clone(), Arc::clone(&done));
        others.push(tokio::spawn(async move {
            while !done.load(Ordering::Relaxed) {
                match kind {
                    0 => db.flush_buckets().await.expect("flushed"),
                    1 => db.tick().await.expect("maintained"),
                    _ => drop(state(&db).await),
                }
                tokio::time::sleep(std::time::Duration::from_millis(3)).await;
            }
        }));
    }
    let mut writers = Vec::new();
    for writer in 0..WRITERS {
        let (db, counter) = (db.clone(), Arc::clone(counter));
        writers.push(tokio::spawn(async move {
            for i in 0..REQUESTS {
                let seed = (round * WRITERS + writer) * REQUESTS + i;
                let entries = conflicting_request(seed, &counter);
                let outcome = request(&db, entries.clone()).await.expect("stored");
                assert_eq!(outcome.rejected, []);
                if i % 8 == 0 {
                    assert_visible(&db, &entries).await;
                }
            }
        }));
    }
    for writer in writers {
        writer.await.expect("a writer ends well");
    }
    done.store(true, Ordering::Relaxed);
    for other in others {
        other.await.expect("the others end well");
    }
}

/// Acknowledged means visible: something is at each place, ours or newer.
async fn assert_visible(db: &Database, entries: &[Entry]) {
    let found = state(db).await;
    for entry in entries {
        if let Entry::Float { labels, time, .. } | Entry::Histogram { labels, time, .. } = entry {
            let series = &labels[1].1;
            let at = format!("series=\"{series}\"}} {time} ");
            assert!(
                found.iter().any(|line| line.contains(&at)),
                "{at} is missing"
            );
        }
    }
}

fn state_of(process: &Process) -> Vec<String> {
    process.run(state(&process.db))
}

#[test]
fn what_won_before_a_crash_wins_after_it() {
    let world = World::new();
    let counter = Arc::new(AtomicU64::new(1));
    let mut process = world.start();
    for round in 0..4 {
        process.run(turmoil(&process.db, round, &counter));
        let before = state_of(&process);
        process.crash();
        process = world.start();
        assert_eq!(process.db.metrics().replay_unreadable.get(), 0);
        assert_eq!(state_of(&process), before, "round {round}, after a replay");
        process.run(process.db.flush_buckets()).unwrap();
        assert_eq!(state_of(&process), before, "round {round}, from buckets");
    }
    process.close();
}

/// Nothing is flushed, so all of it comes back from the journal alone.
#[test]
fn journal_order_is_append_order() {
    let mut world = World::new();
    world.options.journal.epoch_bytes_max = 2000;
    world.options.head.flush_grace = std::time::Duration::from_secs(1_000_000);
    let counter = Arc::new(AtomicU64::new(1));
    let mut process = world.start();
    for round in 0..3 {
        process.run(async {
            let writers = (0..WRITERS).map(|writer| {
                let (db, counter) = (process.db.clone(), Arc::clone(&counter));
                tokio::spawn(async move {
                    for i in 0..REQUESTS {
                        let seed = (round * WRITERS + writer) * REQUESTS + i;
                        let entries = conflicting_request(seed, &counter);
                        request(&db, entries).await.expect("stored");
                        if i % 10 == 0 {
                            db.tick().await.expect("maintained");
                        }
                    }
                })
            });
            for writer in writers.collect::<Vec<_>>() {
                writer.await.expect("a writer ends well");
            }
        });
        assert_eq!(process.db.gauges().buckets, 0);
        let before = state_of(&process);
        process.crash();
        process = world.start();
        assert_eq!(state_of(&process), before, "round {round}");
    }
}
