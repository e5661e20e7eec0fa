//! Views of the writer, and readers beside it.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;
use std::time::SystemTime;

use slatedb::DbIterator;

use super::*;
use crate::error::Error;
use crate::slate::read_view::{ScanKind, View};
use crate::slate::reader::{is_vanished, open_reader};

async fn ids(mut records: DbIterator) -> Vec<u32> {
    let mut ids = Vec::new();
    while let Some(record) = records.next().await.unwrap() {
        ids.push(u32::from_be_bytes(record.key[6..10].try_into().unwrap()));
    }
    ids
}

async fn check_view(view: &View) {
    assert_eq!(view.get(&bucket_key(60, 2)).await.unwrap().unwrap(), "x");
    assert_eq!(view.get(&bucket_key(60, 9)).await.unwrap(), None);
    let prefix = bucket_key(60, 0).slice(..6);
    for kind in [ScanKind::Cached, ScanKind::Once] {
        let found = view.scan_prefix(&prefix, kind).await.unwrap();
        assert_eq!(ids(found).await, [1, 2, 3]);
        let range = (
            Bound::Excluded(bucket_key(60, 1)),
            Bound::Included(bucket_key(60, 3)),
        );
        assert_eq!(ids(view.scan(range, kind).await.unwrap()).await, [2, 3]);
    }
}

fn listing(directory: &Path) -> BTreeMap<String, (u64, SystemTime)> {
    let mut found = BTreeMap::new();
    let mut pending = vec![directory.to_owned()];
    while let Some(next) = pending.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let entry = entry.unwrap();
            let metadata = entry.metadata().unwrap();
            if metadata.is_dir() {
                pending.push(entry.path());
            }
            let name = entry.path().display().to_string();
            found.insert(name, (metadata.len(), metadata.modified().unwrap()));
        }
    }
    found
}

#[tokio::test]
async fn all_views_read_alike() {
    let (options, store) = in_memory();
    let engine = open(&options, &store).await;
    put(&engine, bucket_key(60, 1), b"x").await.unwrap();
    put(&engine, bucket_key(60, 2), b"x").await.unwrap();
    engine.flush_memtable().await.unwrap();
    put(&engine, bucket_key(60, 3), b"x").await.unwrap();
    let snapshot = engine.snapshot().unwrap();
    check_view(&engine.live_view()).await;
    check_view(&snapshot).await;
    // What lies only in the WAL of the running writer is seen too.
    let reader = open_reader(&options, Some(Arc::clone(&store)))
        .await
        .unwrap();
    check_view(&reader.view()).await;
    reader.close().await.unwrap();

    put(&engine, bucket_key(60, 4), b"x").await.unwrap();
    check_view(&snapshot).await;
    engine.close().await.unwrap();
}

#[tokio::test]
async fn a_reader_writes_nothing_and_fences_nobody() {
    let directory = tempfile::tempdir().unwrap();
    let options = in_directory(&directory);
    // Without background work of the writer every change would be the reader's.
    let quiet = StoreOptions {
        compaction: false,
        ..options.clone()
    };
    let engine = Engine::open(&quiet, None).await.unwrap();
    for id in 1..=3 {
        put(&engine, bucket_key(60, id), b"x").await.unwrap();
        engine.flush_memtable().await.unwrap();
    }
    let before = listing(directory.path());
    let reader = open_reader(&options, None).await.unwrap();
    check_view(&reader.view()).await;
    // A reader that follows its writer looks for a newer state now and then.
    for _ in 0..3 {
        reader.step().await;
        check_view(&reader.view()).await;
    }
    reader.close().await.unwrap();
    assert_eq!(listing(directory.path()), before);
    assert_eq!(engine.closed_reason(), None);
    put(&engine, bucket_key(60, 4), b"x").await.unwrap();
    engine.close().await.unwrap();
}

/// A snapshot keeps its files by itself.
#[tokio::test]
async fn a_writer_that_reads_its_snapshots_is_no_other_program() {
    let directory = tempfile::tempdir().unwrap();
    let options = in_directory(&directory);
    let engine = Engine::open(&options, None).await.unwrap();
    put(&engine, bucket_key(60, 1), b"x").await.unwrap();
    let made = engine.create_snapshot("a", None, 0).await.unwrap();
    let own = engine.open_own_snapshot(&made.id).await.unwrap().unwrap();
    assert!(own.view().get(&bucket_key(60, 1)).await.unwrap().is_some());
    assert!(!engine.is_read_elsewhere().await.unwrap());
    let other = open_reader(&options, None).await.unwrap();
    assert!(engine.is_read_elsewhere().await.unwrap());
    other.close().await.unwrap();
    drop(own);
    engine.close().await.unwrap();
}

#[tokio::test]
async fn a_reader_creates_no_database() {
    let directory = tempfile::tempdir().unwrap();
    let missing = at(directory.path().join("none").to_str().unwrap());
    assert!(open_reader(&missing, None).await.is_err());
    assert!(!directory.path().join("none").exists());
    let empty = open_reader(&in_directory(&directory), None).await;
    assert!(empty.err().unwrap().to_string().contains("no database"));
    assert!(listing(directory.path()).is_empty());
}

#[tokio::test]
async fn a_vanished_file_is_recognised() {
    let directory = tempfile::tempdir().unwrap();
    let options = in_directory(&directory);
    let engine = Engine::open(&options, None).await.unwrap();
    put(&engine, bucket_key(60, 1), b"x").await.unwrap();
    engine.close().await.unwrap();
    let reader = open_reader(&options, None).await.unwrap();
    for file in std::fs::read_dir(directory.path().join("db/compacted")).unwrap() {
        std::fs::remove_file(file.unwrap().path()).unwrap();
    }
    let failed = |error: Error| match error {
        Error::Store { source, .. } => source,
        other => panic!("{other}"),
    };
    let view = reader.view();
    let got = failed(view.get(&bucket_key(60, 1)).await.unwrap_err());
    assert!(is_vanished(&got), "{got:?}");
    let prefix = bucket_key(60, 0).slice(..6);
    let scanned = match view.scan_prefix(&prefix, ScanKind::Once).await {
        Err(error) => failed(error),
        Ok(mut records) => records.next().await.unwrap_err(),
    };
    assert!(is_vanished(&scanned), "{scanned:?}");
    reader.close().await.unwrap();
}
