//! Puts that were applied and answered with an error.

use slatedb::object_store::path::Path;
use slatedb::object_store::{self as store, ObjectStoreExt, PutMode, PutOptions, PutPayload};
use slatedb::{CloseReason, Db, ErrorKind};

use super::*;
use crate::slate::faults::{Fault, FaultPlan, FaultStore, Operation};
use crate::slate::local_creates::LocalCreates;

/// Why `LocalCreates` exists. Should this fail one day, SlateDB has learnt it and the wrapper can
/// go.
#[tokio::test]
async fn slatedb_alone_takes_its_own_local_file_for_a_fence() {
    let directory = tempfile::tempdir().unwrap();
    let faults = FaultStore::local(directory.path(), FaultPlan::quiet(1)).unwrap();
    let db = Db::open("db", Arc::new(faults.clone())).await.unwrap();
    faults.script(Operation::Put, "wal/", Fault::AppliedButError, 1);
    db.put(b"key", b"value").await.unwrap();
    let refused = db.flush().await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Closed(CloseReason::Fenced));
    drop(db);
    // Nothing is lost, though: the row was written, only its writer does not know.
    let db = Db::open("db", Arc::new(faults)).await.unwrap();
    assert_eq!(db.get(b"key").await.unwrap().unwrap(), "value");
    db.close().await.unwrap();
}

/// Each kind of object that the writer creates, on each kind of store.
#[tokio::test]
async fn the_engine_survives_applied_but_error() {
    let directory = tempfile::tempdir().unwrap();
    let local = FaultStore::local(directory.path(), FaultPlan::quiet(1)).unwrap();
    let memory = FaultStore::new(
        Arc::new(slatedb::object_store::memory::InMemory::new()),
        FaultPlan::quiet(1),
    );
    for (options, faults) in [(in_directory(&directory), local), (at("memory://"), memory)] {
        let store: Arc<dyn ObjectStore> = Arc::new(faults.clone());
        // Creating the database, its fence and its first manifests.
        faults.script(Operation::Put, "manifest/", Fault::AppliedButError, 2);
        faults.script(Operation::Put, "wal/", Fault::AppliedButError, 1);
        faults.script(Operation::Put, "compactions/", Fault::AppliedButError, 1);
        let engine = open(&options, &store).await;
        for (seq, part) in ["wal/", "compacted/", "manifest/"].into_iter().enumerate() {
            faults.script(Operation::Put, part, Fault::AppliedButError, 1);
            faults.script(Operation::Put, part, Fault::NotApplied, 1);
            let key = journal_key(1, seq as u64);
            put(&engine, key, b"value").await.unwrap();
            engine.flush_memtable().await.unwrap();
        }
        assert_eq!(engine.closed_reason(), None);
        engine.close().await.unwrap();
        assert!(
            faults.counts().applied_but_error >= 7,
            "{:?}",
            faults.counts()
        );
        assert!(faults.counts().not_applied >= 3, "{:?}", faults.counts());

        let engine = open(&options, &store).await;
        for seq in 0..3 {
            assert_eq!(get(&engine, &journal_key(1, seq)).await.unwrap(), "value");
        }
        engine.close().await.unwrap();
    }
}

#[tokio::test]
async fn a_store_that_fails_for_good_closes_the_engine() {
    let faults = FaultStore::new(
        Arc::new(slatedb::object_store::memory::InMemory::new()),
        FaultPlan::quiet(1),
    );
    let options = StoreOptions {
        retries_max: 2,
        ..at("memory://")
    };
    let engine = Engine::open(&options, Some(Arc::new(faults.clone())))
        .await
        .unwrap();
    faults.script(Operation::Put, "wal/", Fault::NotApplied, usize::MAX);
    let failed = put(&engine, journal_key(1, 1), b"value").await.unwrap_err();
    assert_eq!(failed.kind(), ErrorKind::Unavailable, "{failed}");
    let reason = engine.closed().await.to_string();
    assert!(reason.contains("injected fault"), "{reason}");
}

async fn create(
    creates: &LocalCreates,
    content: &'static [u8],
) -> Result<(), slatedb::object_store::Error> {
    let options = PutOptions::from(PutMode::Create);
    creates
        .put_opts(
            &Path::from("wal/1.sst"),
            PutPayload::from_static(content),
            options,
        )
        .await
        .map(drop)
}

#[tokio::test]
async fn a_real_fence_is_never_hidden() {
    let directory = tempfile::tempdir().unwrap();
    let faults = FaultStore::local(directory.path(), FaultPlan::quiet(1)).unwrap();
    let path = Path::from("wal/1.sst");

    // Never attempted before: even equal content belongs to somebody else.
    let creates = LocalCreates::new(Arc::new(faults.clone()));
    faults
        .put(&path, PutPayload::from_static(b"same"))
        .await
        .unwrap();
    let conflict = create(&creates, b"same").await;
    assert!(matches!(conflict, Err(store::Error::AlreadyExists { .. })));
    faults.delete(&path).await.unwrap();

    // Attempted, not applied, and then somebody else was there first.
    faults.script(Operation::Put, "wal/", Fault::NotApplied, 1);
    assert!(create(&creates, b"ours").await.is_err());
    faults
        .put(&path, PutPayload::from_static(b""))
        .await
        .unwrap();
    let conflict = create(&creates, b"ours").await;
    assert!(matches!(conflict, Err(store::Error::AlreadyExists { .. })));
    assert_eq!(faults.get(&path).await.unwrap().bytes().await.unwrap(), "");
    faults.delete(&path).await.unwrap();

    // Attempted and applied: ours, once. The next create of the same path conflicts again.
    faults.script(Operation::Put, "wal/", Fault::AppliedButError, 1);
    assert!(create(&creates, b"ours").await.is_err());
    create(&creates, b"ours").await.unwrap();
    let conflict = create(&creates, b"ours").await;
    assert!(matches!(conflict, Err(store::Error::AlreadyExists { .. })));
}
