//! Segments that go, and segments that are left alone.

use super::*;

fn files_of(engine: &Engine, prefix: &[u8]) -> (usize, usize) {
    let manifest = engine.db().manifest();
    manifest.segment(prefix).map_or((0, 0), |segment| {
        (segment.l0().len(), segment.compacted().len())
    })
}

#[tokio::test]
async fn a_drained_segment_is_empty_and_stays_so() {
    let (options, store) = in_memory();
    let engine = open(&options, &store).await;
    let epoch_1 = icecore_records::key::journal_epoch_prefix(1);
    put(&engine, journal_key(1, 1), b"flushed").await.unwrap();
    put(&engine, journal_key(2, 3), b"kept").await.unwrap();
    put(&engine, bucket_key(60, 1), b"kept").await.unwrap();
    engine.flush_memtable().await.unwrap();
    // Still in the memtable when the drain begins.
    put(&engine, journal_key(1, 2), b"late").await.unwrap();

    engine.drain(epoch_1.clone());
    eventually("the flushed row goes", async || {
        get(&engine, &journal_key(1, 1)).await.is_none()
    })
    .await;
    engine.flush_memtable().await.unwrap();
    eventually("the row flushed later goes", async || {
        get(&engine, &journal_key(1, 2)).await.is_none() && files_of(&engine, &epoch_1) == (0, 0)
    })
    .await;
    eventually("the segment is forgotten", async || {
        !engine.segments().contains(&epoch_1)
    })
    .await;
    assert_eq!(get(&engine, &journal_key(2, 3)).await.unwrap(), "kept");
    assert_eq!(get(&engine, &bucket_key(60, 1)).await.unwrap(), "kept");
    engine.close().await.unwrap();

    // And it does not come back from the WAL.
    let engine = open(&options, &store).await;
    assert_eq!(get(&engine, &journal_key(1, 1)).await, None);
    assert_eq!(get(&engine, &journal_key(1, 2)).await, None);
    engine.close().await.unwrap();
}

#[tokio::test]
async fn what_is_written_after_a_drain_has_ended_stays() {
    let (options, store) = in_memory();
    let engine = open(&options, &store).await;
    let [first, second] = [60, 120].map(|bucket| bucket_key(bucket, 1).slice(..6));
    put(&engine, bucket_key(60, 1), b"before").await.unwrap();
    engine.flush_memtable().await.unwrap();
    engine.drain_all(std::slice::from_ref(&first));
    eventually("the segment goes", async || {
        !engine.segments_in_files().contains(&first)
    })
    .await;
    engine.stop_draining(std::slice::from_ref(&first));
    put(&engine, bucket_key(60, 2), b"after").await.unwrap();
    put(&engine, bucket_key(120, 1), b"gone").await.unwrap();
    engine.flush_memtable().await.unwrap();
    // Both segments have a file now: a drain of the first one would go on with that of the second.
    engine.drain_all(std::slice::from_ref(&second));
    eventually("the other segment goes", async || {
        !engine.segments_in_files().contains(&second)
    })
    .await;
    assert_eq!(get(&engine, &bucket_key(60, 1)).await, None);
    assert_eq!(get(&engine, &bucket_key(60, 2)).await.unwrap(), "after");
    engine.close().await.unwrap();
}

#[tokio::test]
async fn many_segments_drain_at_once() {
    let (options, store) = in_memory();
    let engine = open(&options, &store).await;
    for bucket in 0..100 {
        let key = bucket_key(bucket * 60, 1);
        engine
            .db()
            .put_bytes(key, Bytes::from_static(b"x"))
            .await
            .unwrap();
    }
    engine.flush_memtable().await.unwrap();
    for bucket in 0..99 {
        engine.drain(bucket_key(bucket * 60, 1).slice(..6));
    }
    eventually("all but one go", async || engine.segments().len() == 1).await;
    assert_eq!(get(&engine, &bucket_key(99 * 60, 1)).await.unwrap(), "x");
    engine.close().await.unwrap();
}

#[tokio::test]
async fn the_journal_is_not_compacted_and_stalls_nothing() {
    let (options, store) = in_memory();
    let engine = open(&options, &store).await;
    let epoch = icecore_records::key::journal_epoch_prefix(1);
    let bucket = bucket_key(60, 1).slice(..6);
    // Far more memtables than may cover one key, each with a journal record of its own. The
    // bucket's key is in all of them, so that it needs compaction to go on.
    for seq in 0..80 {
        let key = journal_key(1, seq);
        engine
            .db()
            .put_bytes(key, Bytes::from_static(b"j"))
            .await
            .unwrap();
        let key = bucket_key(60, 1);
        engine
            .db()
            .put_bytes(key, Bytes::from_static(b"b"))
            .await
            .unwrap();
        tokio::time::timeout(PATIENCE, engine.flush_memtable())
            .await
            .expect("a flush that waits for compaction gets its turn")
            .unwrap();
    }
    assert_eq!(files_of(&engine, &epoch), (80, 0));
    eventually("the bucket is compacted", async || {
        let (l0, runs) = files_of(&engine, &bucket);
        l0 < 8 && runs > 0
    })
    .await;
    assert_eq!(files_of(&engine, &epoch), (80, 0));
    for seq in 0..80 {
        assert_eq!(get(&engine, &journal_key(1, seq)).await.unwrap(), "j");
    }
    engine.close().await.unwrap();
}

#[tokio::test]
async fn the_files_of_what_was_drained_are_deleted() {
    let directory = tempfile::tempdir().unwrap();
    let options = StoreOptions {
        gc_interval: Duration::from_secs(1),
        gc_min_age: Duration::from_secs(1),
        ..in_directory(&directory)
    };
    let files = |part: &str| {
        let entries = std::fs::read_dir(directory.path().join("db").join(part)).unwrap();
        entries.count()
    };
    let engine = Engine::open(&options, None).await.unwrap();
    for seq in 0..50 {
        put(&engine, journal_key(1, seq), b"gone").await.unwrap();
        if seq % 10 == 9 {
            engine.flush_memtable().await.unwrap();
        }
    }
    put(&engine, bucket_key(60, 1), b"kept").await.unwrap();
    engine.flush_memtable().await.unwrap();
    assert!(files("compacted") >= 6, "{}", files("compacted"));
    engine.drain(icecore_records::key::journal_epoch_prefix(1));
    eventually("only the bucket's file is left", async || {
        files("compacted") == 1 && files("wal") <= 3 && files("manifest") <= 10
    })
    .await;
    assert_eq!(get(&engine, &bucket_key(60, 1)).await.unwrap(), "kept");
    engine.close().await.unwrap();
}
