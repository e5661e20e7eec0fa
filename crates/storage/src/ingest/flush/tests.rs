//! What a flush leaves where there is nothing to write.

use std::collections::BTreeSet;
use std::sync::Arc;

use icecore_model::{
    BucketStart, HOUR_MS, MINUTE_MS, RawLabels, Sample, SampleSink, push_raw_label,
};
use icecore_records::epoch_summary::FlushUnit;
use icecore_records::{Bucket, flush_cursor, key};
use slatedb::object_store::memory::InMemory;

use super::{ROUND_HOURS, take_round};
use crate::ingest::flush_all;
use crate::{Database, Environment, ManualClock, Options};

const T0: i64 = 1_700_000_000_000 / HOUR_MS * HOUR_MS;

async fn open() -> Database {
    let mut options = Options::default();
    options.store.location = "memory://".into();
    options.journal.commit_interval = Some(std::time::Duration::ZERO);
    options.maintenance.enabled = false;
    let environment = Environment {
        // Before the hours have ended, so that nothing is flushed without being told to.
        clock: Some(Arc::new(ManualClock::at(T0))),
        object_store: Some(Arc::new(InMemory::new())),
    };
    Database::open(options, environment).await.unwrap()
}

async fn write(db: &Database, timestamp_ms: i64) {
    let stored = db.write(move |batch| {
        let mut labels = Vec::new();
        push_raw_label(&mut labels, "__name__", "m");
        batch.series(RawLabels(&labels));
        batch.sample(Sample {
            timestamp_ms,
            value: 1.0,
            start_timestamp_ms: 0,
        });
        Ok::<(), ()>(())
    });
    stored.await.unwrap();
}

async fn cursor(db: &Database, hour: BucketStart) -> Option<u64> {
    let key = key::flush_cursor(Bucket::hour(hour));
    let value = db.context.engine.live_view().get(&key).await.unwrap();
    value.map(|value| flush_cursor::decode(&value).unwrap())
}

/// Epochs go when an hour was found empty, so a replay must not see more of it than they did.
#[tokio::test]
async fn the_cursor_of_an_hour_found_empty_moves() {
    let db = open().await;
    let hour = BucketStart((T0 / 60_000) as u32);
    write(&db, T0).await;
    flush_all(&db.ingest).await.unwrap();
    assert_eq!(cursor(&db, hour).await, Some(1));
    write(&db, T0 + HOUR_MS).await;
    // The journal has something of the hour, the head has nothing.
    db.ingest.head().touch(hour, 2, T0);
    flush_all(&db.ingest).await.unwrap();
    assert_eq!(cursor(&db, hour).await, Some(2));
    assert!(!db.ingest.head().is_waited_for(FlushUnit::Hour(hour)));
}

#[test]
fn a_round_has_what_is_of_now_and_then_the_oldest() {
    let now: u32 = 60 * 100_000;
    let now_ms = i64::from(now) * MINUTE_MS;
    let old = (0..1000).map(|i| 60 * i);
    let minutes = old.chain([now - 60, now]);
    let mut hours: BTreeSet<BucketStart> = minutes.map(BucketStart).collect();
    let round = take_round(&mut hours, now_ms);
    // Two of now and a whole window of the old ones.
    assert_eq!(round.len(), 2 + ROUND_HOURS);
    assert!(round.contains(&BucketStart(now)) && round.contains(&BucketStart(now - 60)));
    assert_eq!(round.first(), Some(&BucketStart(0)));
    assert_eq!(hours.first(), Some(&BucketStart(60 * ROUND_HOURS as u32)));
    let mut rounds = 1;
    while !hours.is_empty() {
        take_round(&mut hours, now_ms);
        rounds += 1;
    }
    assert_eq!(rounds, 4);
}
