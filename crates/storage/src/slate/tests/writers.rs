//! Opening, reopening and taking over.

use slatedb::{CloseReason, ErrorKind};

use super::*;
use crate::slate::engine::Closed;

#[tokio::test]
async fn a_directory_keeps_what_was_written() {
    let directory = tempfile::tempdir().unwrap();
    let options = in_directory(&directory);
    let engine = Engine::open(&options, None).await.unwrap();
    put(&engine, bucket_key(60, 1), b"one").await.unwrap();
    engine.close().await.unwrap();
    engine.close().await.unwrap();
    assert_eq!(engine.closed_reason(), Some(Closed::Clean));

    let engine = Engine::open(&options, None).await.unwrap();
    assert_eq!(get(&engine, &bucket_key(60, 1)).await.unwrap(), "one");
    engine.close().await.unwrap();
}

#[tokio::test]
async fn a_missing_directory_is_created() {
    let directory = tempfile::tempdir().unwrap();
    let deep = directory.path().join("a/b");
    let engine = Engine::open(&at(deep.to_str().unwrap()), None)
        .await
        .unwrap();
    put(&engine, bucket_key(60, 1), b"one").await.unwrap();
    assert!(deep.join("db/manifest").is_dir());
    engine.close().await.unwrap();
}

#[tokio::test]
async fn durable_writes_survive_without_close() {
    let (options, store) = in_memory();
    let engine = open(&options, &store).await;
    put(&engine, journal_key(1, 1), b"durable").await.unwrap();
    let engine = {
        let second = open(&options, &store).await;
        drop(engine);
        second
    };
    assert_eq!(get(&engine, &journal_key(1, 1)).await.unwrap(), "durable");
    engine.close().await.unwrap();
}

#[tokio::test]
async fn the_second_writer_fences_the_first() {
    let directory = tempfile::tempdir().unwrap();
    let options = StoreOptions {
        take_over: true,
        ..in_directory(&directory)
    };
    let first = Engine::open(&options, None).await.unwrap();
    put(&first, journal_key(1, 1), b"first").await.unwrap();
    let second = Engine::open(&options, None).await.unwrap();

    let refused = put(&first, journal_key(1, 2), b"too late").await;
    let kind = refused.unwrap_err().kind();
    assert_eq!(kind, ErrorKind::Closed(CloseReason::Fenced));
    assert_eq!(first.closed().await, Closed::Fenced);
    assert_eq!(first.closed_reason(), Some(Closed::Fenced));
    let read = first.db().get(journal_key(1, 1)).await.unwrap_err();
    assert_eq!(read.kind(), ErrorKind::Closed(CloseReason::Fenced));
    assert!(first.snapshot().is_err());
    // A fenced database still closes, and without an error: there is nothing left to write.
    first.close().await.unwrap();

    assert_eq!(get(&second, &journal_key(1, 1)).await.unwrap(), "first");
    assert_eq!(get(&second, &journal_key(1, 2)).await, None);
    put(&second, journal_key(2, 3), b"second").await.unwrap();
    second.close().await.unwrap();
}

#[tokio::test]
async fn an_idle_writer_notices_that_it_is_fenced() {
    let (options, store) = in_memory();
    let first = open(&options, &store).await;
    let second = open(&options, &store).await;
    let noticed = tokio::time::timeout(PATIENCE, first.closed()).await;
    assert_eq!(noticed.unwrap(), Closed::Fenced);
    second.close().await.unwrap();
}

#[tokio::test]
async fn merges_are_resolved() {
    let (options, store) = in_memory();
    let engine = open(&options, &store).await;
    let key = icecore_records::key::bucket_list();
    let one = icecore_records::bucket_list::encode(&Default::default());
    engine.db().merge(&key, &one).await.unwrap();
    engine.flush_memtable().await.unwrap();
    engine.db().merge(&key, &one).await.unwrap();
    engine.flush_memtable().await.unwrap();
    assert_eq!(get(&engine, &key).await.unwrap(), one);
    engine.close().await.unwrap();
}

#[tokio::test]
async fn slatedb_counts_are_shown() {
    let (options, store) = in_memory();
    let engine = open(&options, &store).await;
    put(&engine, bucket_key(60, 1), b"one").await.unwrap();
    let metrics = engine.slate_metrics();
    assert!(metrics.len() > 20, "{}", metrics.len());
    assert!(
        metrics
            .iter()
            .all(|metric| metric.name.starts_with("slatedb_"))
    );
    assert!(metrics.iter().any(|metric| metric.name.contains("wal")));
    engine.close().await.unwrap();
}
