//! A machine whose clock is wrong harms nothing.

use std::sync::Arc;
use std::time::Duration;

use futures::TryStreamExt as _;
use icecore_model::{Clock as _, HOUR_MS, ManualClock, SystemClock};
use slatedb::admin::Admin;
use slatedb::config::{CheckpointOptions, CheckpointScope};
use slatedb::object_store::ObjectStore;
use slatedb::object_store::path::Path;

use super::{bucket_key, eventually, get, in_memory, put};
use crate::options::StoreOptions;
use crate::slate::engine::Engine;

const DAY_MS: i64 = 24 * HOUR_MS;
const YEAR_MS: i64 = 365 * DAY_MS;

/// Opens a database on a machine whose clock is so far off.
async fn open_off(options: &StoreOptions, store: &Arc<dyn ObjectStore>, off_ms: i64) -> Engine {
    let machine = ManualClock::at(SystemClock.now_ms() + off_ms);
    Engine::open_at(options, Some(Arc::clone(store)), &machine)
        .await
        .unwrap()
}

/// Garbage is collected all the time.
fn collecting() -> (StoreOptions, Arc<dyn ObjectStore>) {
    let (options, store) = in_memory();
    let options = StoreOptions {
        gc_interval: Duration::from_millis(100),
        gc_min_age: Duration::from_millis(500),
        ..options
    };
    (options, store)
}

async fn files(store: &Arc<dyn ObjectStore>, directory: &str) -> usize {
    let listed = store.list(Some(&Path::from(format!("db/{directory}"))));
    let listed: Vec<_> = listed.try_collect().await.unwrap();
    listed.len()
}

/// The last tick and the names of all files are of a clock that is a year ahead: SlateDB would
/// otherwise follow the real one, which no test moves.
fn check_times_ahead(engine: &Engine) {
    let ahead_ms = SystemClock.now_ms() + YEAR_MS / 2;
    let manifest = engine.db().manifest();
    assert!(manifest.last_l0_clock_tick() > ahead_ms);
    let names = manifest.all_sst_views().map(|view| view.sst.id.value());
    let named_ms: Vec<u64> = names.map(|name| name.timestamp_ms()).collect();
    let is_ahead = |named_ms: &u64| *named_ms > ahead_ms.unsigned_abs();
    assert!(named_ms.iter().all(is_ahead), "{named_ms:?}");
    assert!(!named_ms.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_clock_that_was_a_year_ahead_everything_goes_on() {
    let (options, store) = collecting();
    let engine = open_off(&options, &store, YEAR_MS).await;
    put(&engine, bucket_key(60, 0), b"ahead").await.unwrap();
    engine.flush_memtable().await.unwrap();
    check_times_ahead(&engine);
    engine.close().await.unwrap();

    let engine = open_off(&options, &store, 0).await;
    for round in 1..=40_u32 {
        put(&engine, bucket_key(60, round), b"right").await.unwrap();
        engine.flush_memtable().await.unwrap();
    }
    assert_eq!(get(&engine, &bucket_key(60, 0)).await.unwrap(), "ahead");
    // Compacted, and what was replaced is deleted.
    eventually("compaction and collection", async || {
        files(&store, "compacted").await < 12
            && files(&store, "wal").await < 12
            && files(&store, "manifest").await < 24
    })
    .await;
    eventually("the manifest has what was compacted", async || {
        let manifest = engine.db().manifest();
        let mut segments = manifest.segments().iter();
        segments.any(|segment| !segment.compacted().is_empty())
    })
    .await;
    check_times_ahead(&engine);
    for round in 0..=40 {
        assert!(
            get(&engine, &bucket_key(60, round)).await.is_some(),
            "{round}"
        );
    }
    engine.close().await.unwrap();
}

/// Writes that are in the log alone have times, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_crash_with_a_clock_that_was_ahead_writes_go_on() {
    let (options, store) = in_memory();
    let ahead = open_off(&options, &store, HOUR_MS).await;
    put(&ahead, bucket_key(60, 0), b"ahead").await.unwrap();
    // Taken over while it is still there, by a machine with the right time.
    let right = open_off(&options, &store, 0).await;
    put(&right, bucket_key(60, 1), b"right").await.unwrap();
    right.flush_memtable().await.unwrap();
    assert_eq!(get(&right, &bucket_key(60, 0)).await.unwrap(), "ahead");
    right.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_is_a_year_ahead_deletes_nothing_that_is_young() {
    let (options, store) = in_memory();
    let options = StoreOptions {
        gc_interval: Duration::from_millis(100),
        gc_min_age: Duration::from_secs(3600),
        ..options
    };
    let engine = open_off(&options, &store, 0).await;
    for round in 0..5 {
        put(&engine, bucket_key(60, round), b"x").await.unwrap();
        engine.flush_memtable().await.unwrap();
    }
    engine.close().await.unwrap();
    let (logs, manifests) = (files(&store, "wal").await, files(&store, "manifest").await);
    let engine = open_off(&options, &store, YEAR_MS).await;
    // By the age that was asked for: a requested run hurries.
    for _ in 0..3 {
        engine.collector.collect_regularly().await.unwrap();
        tokio::time::sleep(Duration::from_millis(150)).await;
    }
    assert!(files(&store, "manifest").await >= manifests);
    assert!(files(&store, "wal").await >= logs);
    engine.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn snapshots_expire_by_the_time_that_they_are_told() {
    let (options, store) = collecting();
    let now_ms = SystemClock.now_ms();
    let engine = open_off(&options, &store, 0).await;
    put(&engine, bucket_key(60, 0), b"x").await.unwrap();
    let week = Some(Duration::from_secs(7 * 86_400));
    let made = engine.create_snapshot("week", week, now_ms).await.unwrap();
    assert_eq!(
        (made.created_ms, made.expires_ms),
        (now_ms, Some(now_ms + 7 * DAY_MS))
    );
    engine.create_snapshot("ever", None, now_ms).await.unwrap();
    // One of a program before this one, which left it to SlateDB.
    let old = CheckpointOptions {
        lifetime: week,
        source: None,
        name: Some("old".to_owned()),
    };
    let old = engine.db().create_checkpoint(CheckpointScope::All, &old);
    old.await.unwrap();
    engine.close().await.unwrap();

    let engine = open_off(&options, &store, YEAR_MS).await;
    engine.delete_garbage().await;
    let names = async |engine: &Engine| {
        let snapshots = engine.snapshots().await.unwrap().into_iter();
        let mut names: Vec<String> = snapshots.map(|snapshot| snapshot.name).collect();
        names.sort();
        names
    };
    assert_eq!(names(&engine).await, ["ever", "old", "week"]);
    let expired = engine.delete_expired_snapshots(now_ms + DAY_MS).await;
    assert_eq!(expired.unwrap(), []);
    let later_ms = now_ms + 7 * DAY_MS + 60_000;
    // The manifest in memory learns of what was taken over with a poll.
    eventually("expired snapshots are deleted", async || {
        engine.delete_expired_snapshots(later_ms).await.unwrap();
        names(&engine).await == ["ever"]
    })
    .await;
    engine.close().await.unwrap();
    // SlateDB knows of no time of theirs.
    let admin = Admin::builder("db", Arc::clone(&store)).build();
    let left = admin.list_checkpoints(None).await.unwrap();
    let named = left.iter().filter(|checkpoint| checkpoint.name.is_some());
    assert!(named.clone().count() == 1 && named.clone().all(|c| c.expire_time.is_none()));
}
