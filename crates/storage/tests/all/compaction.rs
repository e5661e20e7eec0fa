//! Compaction joins what flushes have merged into the same records: readers see no difference.

use icecore_storage::testing::Hooks;
use icecore_storage::{Database, SlateMetricValue};

use crate::process::World;
use crate::requests::{Entry, request};
use crate::support::*;

fn compacted_bytes(db: &Database) -> u64 {
    let metrics = db.slate_metrics();
    let found = metrics
        .iter()
        .find(|metric| metric.name.contains("bytes_compacted"));
    match found.map(|metric| &metric.value) {
        Some(SlateMetricValue::Counter(bytes)) => *bytes,
        other => panic!("SlateDB counts compacted bytes: {other:?}"),
    }
}

#[test]
fn late_flushes_read_the_same_after_compaction() {
    let world = World::new();
    let process = world.start();
    let db = &process.db;
    let mut all: Vec<(String, i64, f64)> = Vec::new();
    // One file per round and segment, each with other values for some of the same places.
    for round in 0..6i64 {
        let mut entries = Vec::new();
        for i in 0..40 {
            let series = format!("s{:02}", (i * 7 + round) % 25);
            let time = T0 + (i % 2) * HOUR + ((i * 13 + round * 3) % 50) * 1000;
            all.push((series.clone(), time, (round * 100 + i) as f64));
            entries.push(Entry::float(&series, time, (round * 100 + i) as f64).starting(round));
        }
        process.run(request(db, entries)).unwrap();
        process.run(db.flush_buckets()).unwrap();
        process.run(db.write_memtables()).unwrap();
    }
    let all: Vec<(&str, i64, f64)> = all.iter().map(|(s, t, v)| (s.as_str(), *t, *v)).collect();
    assert_eq!(process.run(read(db, everything())), expected(&all));
    process.run(async {
        let compacted = until("something is compacted", || compacted_bytes(db) > 0);
        let mut compacted = std::pin::pin!(compacted);
        while futures::poll!(&mut compacted).is_pending() {
            assert_eq!(read(db, everything()).await, expected(&all));
        }
    });
    assert_eq!(process.run(read(db, everything())), expected(&all));
    process.crash();
    let process = world.start();
    let found = process.run(read(&process.db, everything()));
    assert_eq!(found, expected(&all), "after a crash");
}
