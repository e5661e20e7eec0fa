//! Orphans go, and nothing else.

use bytes::Bytes;
use icecore_model::{RawLabels, Sample, SampleSink, push_raw_label};
use icecore_records::maintenance_job::{self, Job, JobKind, JobSource, Phase};
use slatedb::WriteBatch;

use super::*;
use crate::Database;
use crate::maintenance::retire::tests::{T0, World, count_records, four_hours, hour, two_hours};

async fn put(db: &Database, keys: &[Bytes]) {
    let mut batch = WriteBatch::new();
    for key in keys {
        batch.put(key, b"something");
    }
    let handle = db.context.engine.db().write(batch).await.unwrap();
    handle.await_durable().await.unwrap();
}

/// Sweeps until something is gone: a call ends early on a machine that is busy.
async fn sweep_one(db: &Database) -> usize {
    for _ in 0..30 {
        match sweep(&db.maintenance).await.unwrap() {
            0 => {}
            swept => return swept,
        }
    }
    0
}

/// What a job that was killed leaves of its target.
fn half_a_target() -> Vec<Bytes> {
    let id = icecore_records::SeriesId(7);
    vec![
        key::forward_index(four_hours(), id),
        key::inverted_index(four_hours(), "name", "value"),
        key::time_series(four_hours(), id),
        key::time_column(four_hours(), 3),
    ]
}

#[tokio::test]
async fn what_a_killed_job_left_goes() {
    let world = World::new();
    let db = world.open().await;
    two_hours(&db).await;
    let before = (
        count_records(&db, hour(0)).await,
        count_records(&db, hour(1)).await,
    );
    put(&db, &half_a_target()).await;
    // As long as the job may be resumed, its target is wanted.
    let job = Job {
        kind: JobKind::Coarsen,
        target: four_hours(),
        sources: [hour(0), hour(1)]
            .map(|bucket| JobSource {
                bucket,
                meta_hash: 1,
            })
            .to_vec(),
        phase: Phase::Series { next_id: 8 },
        counts: Default::default(),
    };
    let mut batch = WriteBatch::new();
    batch.put(key::maintenance_job(), maintenance_job::encode(&job));
    db.context.engine.db().write(batch).await.unwrap();
    assert_eq!(sweep(&db.maintenance).await.unwrap(), 0);
    assert_eq!(count_records(&db, four_hours()).await, 4);
    let mut batch = WriteBatch::new();
    batch.delete(key::maintenance_job());
    db.context.engine.db().write(batch).await.unwrap();

    assert_eq!(sweep_one(&db).await, 1);
    assert_eq!(count_records(&db, four_hours()).await, 0);
    let after = (
        count_records(&db, hour(0)).await,
        count_records(&db, hour(1)).await,
    );
    assert_eq!(before, after, "a listed bucket is never touched");
    assert_eq!(sweep(&db.maintenance).await.unwrap(), 0);
    db.close().await.unwrap();
}

#[tokio::test]
async fn what_this_program_does_not_know_stays() {
    let world = World::new();
    let db = world.open().await;
    let start = 60u32.to_be_bytes();
    // Another version, no record type, an annotation, an event, a bucket of 8 192 h.
    let unknown: Vec<Bytes> = [[2, 0x51], [1, 0x01], [1, 0xD1], [1, 0xE0], [1, 0x5E]]
        .into_iter()
        .map(|begin| [&begin[..], &start, b"rest"].concat().into())
        .collect();
    put(&db, &unknown).await;
    assert_eq!(sweep(&db.maintenance).await.unwrap(), 0);
    db.context.engine.flush_memtable().await.unwrap();
    assert_eq!(sweep(&db.maintenance).await.unwrap(), 0);
    for key in unknown {
        let value = db.context.engine.live_view().get(&key).await.unwrap();
        assert_eq!(value.unwrap(), "something", "{key:?}");
    }
    db.close().await.unwrap();
}

#[tokio::test]
async fn retired_buckets_and_hours_that_are_about_to_be_flushed_stay() {
    let world = World::new();
    let db = world.open().await;
    let id = icecore_records::SeriesId(7);
    let keys = [hour(0), hour(1), hour(2)].map(|bucket| key::forward_index(bucket, id));
    put(&db, &keys).await;
    db.buckets.retire(hour(0), T0);
    // The head has something for this hour, of which a flush may have written a part before.
    db.write(|batch| {
        let mut labels = Vec::new();
        push_raw_label(&mut labels, "__name__", "m");
        batch.series(RawLabels(&labels));
        batch.sample(Sample {
            timestamp_ms: hour(1).start_ms() + 5,
            value: 1.0,
            start_timestamp_ms: 0,
        });
        Ok::<(), ()>(())
    })
    .await
    .unwrap();
    let open = db.ingest.head().open_hours().len();
    assert_eq!(open, 1, "the hour is still in the head");
    assert_eq!(sweep_one(&db).await, 1);
    assert_eq!(count_records(&db, hour(0)).await, 1);
    assert_eq!(count_records(&db, hour(1)).await, 1);
    assert_eq!(count_records(&db, hour(2)).await, 0);
    db.close().await.unwrap();
}
