//! Databases that disappear while they are in use, or of which a part has.

use slatedb::object_store::ObjectStoreExt as _;
use slatedb::object_store::path::Path;

use super::*;
use crate::error::Error;
use crate::slate::engine::Closed;
use crate::slate::lock_file::DirectoryLock;
use crate::slate::reader::open_reader;
use crate::slate::watch::{end_without_manifest, is_manifest_gone};

async fn remove_manifests(store: &Arc<dyn ObjectStore>) {
    use futures::TryStreamExt as _;
    let manifests = Path::from("db/manifest");
    let listed: Vec<_> = store.list(Some(&manifests)).try_collect().await.unwrap();
    assert!(!listed.is_empty());
    for manifest in listed {
        store.delete(&manifest.location).await.unwrap();
    }
}

/// Removes a directory in which the engine may be writing a file at that moment.
fn remove(directory: &std::path::Path) {
    while std::fs::remove_dir_all(directory).is_err() && directory.exists() {}
}

#[tokio::test]
async fn a_removed_directory_ends_the_engine_and_stays_removed() {
    for removed in ["", "db", "db/manifest"] {
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path().join("data");
        let options = at(data.to_str().unwrap());
        let engine = Engine::open(&options, None).await.unwrap();
        put(&engine, journal_key(1, 1), b"one").await.unwrap();
        let removed = data.join(removed);
        remove(&removed);
        assert!(put(&engine, journal_key(1, 2), b"two").await.is_err());
        let Closed::Failed(reason) = engine.closed().await else {
            panic!("it goes on");
        };
        assert!(reason.contains("while the database was in use"), "{reason}");
        let _ = engine.close().await;
        // A put that was under way takes back what it has made when it ends.
        eventually("what is back goes", async || !removed.exists()).await;
    }
}

/// Nobody has to write for a database to learn that it is gone.
#[tokio::test]
async fn an_idle_engine_notices_that_its_directory_is_removed() {
    let directory = tempfile::tempdir().unwrap();
    let engine = Engine::open(&in_directory(&directory), None).await.unwrap();
    put(&engine, journal_key(1, 1), b"one").await.unwrap();
    remove(&directory.path().join("db"));
    let noticed = tokio::time::timeout(PATIENCE, engine.closed()).await;
    assert!(matches!(noticed.unwrap(), Closed::Failed(_)));
}

#[tokio::test]
async fn a_moved_directory_is_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    let (data, away) = (directory.path().join("data"), directory.path().join("away"));
    let options = at(data.to_str().unwrap());
    let engine = Engine::open(&options, None).await.unwrap();
    engine.repeat_writes(true);
    put(&engine, journal_key(1, 1), b"one").await.unwrap();
    std::fs::rename(&data, &away).unwrap();
    let writing = put(&engine, journal_key(1, 2), b"two");
    let mut writing = std::pin::pin!(writing);
    let in_trouble = eventually("it is told", async || engine.health().trouble().is_some());
    tokio::select! {
        biased;
        written = &mut writing => panic!("it was written to nowhere: {written:?}"),
        () = in_trouble => {}
    }
    assert!(!data.exists());
    let trouble = engine.health().trouble().unwrap();
    assert!(trouble.reason.contains("put it back"), "{}", trouble.reason);
    std::fs::rename(&away, &data).unwrap();
    writing.await.unwrap();
    assert_eq!(engine.health().trouble(), None);
    engine.close().await.unwrap();
    let engine = Engine::open(&options, None).await.unwrap();
    assert_eq!(get(&engine, &journal_key(1, 2)).await.unwrap(), "two");
    engine.close().await.unwrap();
}

#[tokio::test]
async fn files_without_a_manifest_are_not_opened() {
    let (options, store) = in_memory();
    let engine = open(&options, &store).await;
    put(&engine, journal_key(1, 1), b"one").await.unwrap();
    engine.close().await.unwrap();
    remove_manifests(&store).await;
    let refused = |error: &Error| {
        assert!(matches!(error, Error::Corrupt(_)), "{error}");
        let said = error.to_string();
        assert!(
            said.contains("no manifest") && said.contains("db/wal/"),
            "{said}"
        );
    };
    let opened = Engine::open(&options, Some(Arc::clone(&store))).await;
    refused(&opened.err().unwrap());
    let read = open_reader(&options, Some(Arc::clone(&store))).await;
    refused(&read.err().unwrap());
    // It was not made anew either.
    assert!(is_manifest_gone(&store, &Path::from("db")).await);
}

#[tokio::test]
async fn an_object_store_without_its_manifest_ends_the_engine() {
    let (options, store) = in_memory();
    let engine = open(&options, &store).await;
    engine.repeat_writes(true);
    put(&engine, journal_key(1, 1), b"one").await.unwrap();
    let path = Path::from("db");
    assert!(!is_manifest_gone(&store, &path).await);
    remove_manifests(&store).await;
    assert!(is_manifest_gone(&store, &path).await);
    end_without_manifest(engine.health(), &path);
    assert!(put(&engine, journal_key(1, 2), b"two").await.is_err());
    let Closed::Failed(reason) = engine.closed().await else {
        panic!("it goes on");
    };
    assert!(reason.contains("manifest"), "{reason}");
}

#[tokio::test]
async fn a_directory_in_use_is_refused_and_can_be_taken_over() {
    let directory = tempfile::tempdir().unwrap();
    let options = in_directory(&directory);
    let first = Engine::open(&options, None).await.unwrap();
    put(&first, journal_key(1, 1), b"one").await.unwrap();
    let refused = Engine::open(&options, None).await.err().unwrap();
    assert!(refused.to_string().contains("in use"), "{refused}");
    put(&first, journal_key(1, 2), b"two").await.unwrap();
    let taking = StoreOptions {
        take_over: true,
        ..options.clone()
    };
    let second = Engine::open(&taking, None).await.unwrap();
    assert_eq!(first.closed().await, Closed::Fenced);
    first.close().await.unwrap();
    // It gets the lock when the first one has ended.
    eventually("the second has the lock", async || {
        DirectoryLock::acquire(directory.path(), false).is_err()
    })
    .await;
    put(&second, journal_key(1, 3), b"three").await.unwrap();
    second.close().await.unwrap();
    let third = Engine::open(&options, None).await.unwrap();
    assert_eq!(get(&third, &journal_key(1, 3)).await.unwrap(), "three");
    third.close().await.unwrap();
}
