//! Files: beside the database, untouched by what happens to it, kept for snapshots.

use bytes::Bytes;
use icecore_model::CatalogChange;
use icecore_model::event::EventBatch;
use icecore_storage::testing::{Fault, Hooks, Operation};
use icecore_storage::{Restore, restore};
use slatedb::object_store::memory::InMemory;
use slatedb::object_store::{ObjectStore, ObjectStoreExt as _};

use super::*;
use crate::process::World;
use crate::support::options;

const PATH: &str = "events/service=shop/week=2026w46/type=order.placed/17-42.parquet";

fn put(process: &Process, path: &str, content: impl Into<Bytes>) -> Result<(), String> {
    let put = process.run(store(process).files().put(path, content.into()));
    put.map_err(|error| error.to_string())
}

fn read(process: &Process, path: &str, range: Range<u64>) -> Result<Bytes, String> {
    let read = process.run(store(process).files().read(path, range));
    read.map_err(|error| error.to_string())
}

fn delete(process: &Process, path: &str) {
    process.run(store(process).files().delete(path)).unwrap();
}

fn list(process: &Process) -> Vec<(String, u64)> {
    let listed = process.run(store(process).files().list()).unwrap();
    listed
        .into_iter()
        .map(|file| (file.path, file.bytes))
        .collect()
}

#[test]
fn files_are_put_read_listed_and_deleted() {
    let directory = tempfile::tempdir().unwrap();
    for world in [World::new(), World::in_directory(directory.path())] {
        let process = world.start();
        assert_eq!(list(&process), []);
        put(&process, PATH, "content").unwrap();
        put(&process, "events/b", "other").unwrap();
        put(&process, "events/b", "").unwrap();
        let files = [("events/b".to_owned(), 0), (PATH.to_owned(), 7)];
        assert_eq!(list(&process), files);
        let listed = process.run(store(&process).files().list()).unwrap();
        assert!(listed[0].modified_ms > 1_700_000_000_000);
        assert_eq!(read(&process, PATH, 0..7).unwrap(), "content");
        assert_eq!(read(&process, PATH, 3..5).unwrap(), "te");
        assert_eq!(read(&process, PATH, 3..3).unwrap(), "");
        let short = read(&process, PATH, 3..8).unwrap_err();
        assert!(short.contains("ends before byte 8"), "{short}");
        let missing = read(&process, "events/none", 0..1).unwrap_err();
        assert!(missing.contains("events/none is missing"), "{missing}");
        delete(&process, "events/none");
        // Files of the database are collected, these are not.
        write(
            &process,
            EventBatch {
                cells: vec![counter(7, 0, 1, 1)],
                ..Default::default()
            },
        )
        .unwrap();
        process.run(process.db.run_maintenance()).unwrap();
        process.close();
        let process = world.start();
        assert_eq!(list(&process), files);
        delete(&process, PATH);
        delete(&process, "events/b");
        assert_eq!(list(&process), []);
        process.close();
    }
    let left = std::fs::read_dir(directory.path().join("events")).unwrap();
    assert_eq!(left.count(), 0, "no empty directories");
}

#[test]
fn only_paths_below_events_are_taken() {
    let world = World::new();
    let process = world.start();
    let long = format!("events/{}", "x".repeat(900));
    let wrong = [
        "",
        "a",
        "events",
        "events/",
        "/events/a",
        "eventsx/a",
        "db/manifest/1",
        "events/../db/a",
        "events/./a",
        "events//a",
        "events/a/",
        "events/a\n",
        "events/a#1",
        &long,
    ];
    for path in wrong {
        let refused = put(&process, path, "x").unwrap_err();
        assert!(refused.contains("no path of a file of events"), "{refused}");
        assert!(read(&process, path, 0..1).is_err());
        assert!(process.run(store(&process).files().delete(path)).is_err());
    }
    // Whatever else a name has, it is listed as it was given.
    let odd = "events/service=a b%2f{ü}/x=~*.parquet";
    put(&process, odd, "x").unwrap();
    assert_eq!(list(&process), [(odd.to_owned(), 1)]);
    assert_eq!(read(&process, odd, 0..1).unwrap(), "x");
}

#[test]
fn large_files_and_failing_stores() {
    let world = World::new();
    let process = world.start();
    let large: Vec<u8> = (0..40u32 << 20).map(|i| (i % 251) as u8).collect();
    let faults = &process.faults;
    for fault in [Fault::NotApplied, Fault::AppliedButError] {
        faults.script(Operation::Put, "events/", fault, 2);
        put(&process, PATH, large.clone()).unwrap();
        faults.script(Operation::Put, "events/", fault, 2);
        put(&process, "events/small", "small").unwrap();
        faults.script(Operation::Get, "events/", fault, 1);
        assert_eq!(read(&process, "events/small", 0..5).unwrap(), "small");
        faults.script(Operation::List, "events", fault, 1);
        assert_eq!(list(&process).len(), 2);
        faults.script(Operation::Delete, "events/", fault, 1);
        delete(&process, "events/small");
        assert_eq!(list(&process), [(PATH.to_owned(), large.len() as u64)]);
    }
    let part = read(&process, PATH, 16_777_000..33_555_000).unwrap();
    assert_eq!(part, large[16_777_000..33_555_000]);
}

/// Records, which list files, can be read as a snapshot has them, for as long as it is there.
#[test]
fn snapshots_keep_states() {
    let world = World::new();
    let process = world.start();
    let record = |value: &str| EventBatch {
        records: vec![CatalogChange {
            key: vec![0x30, 1],
            value: Some(value.into()),
        }],
        ..EventBatch::default()
    };
    write(&process, record("then")).unwrap();
    let kept = || process.run(store(&process).kept()).unwrap();
    assert!(kept().is_empty());
    let snapshot = process.run(process.db.create_snapshot(Some("s"), None));
    write(&process, record("now")).unwrap();
    let id = snapshot.unwrap().id;
    assert_eq!(kept(), std::slice::from_ref(&id));
    let read = || {
        let store = store(&process);
        process.run(async {
            let state = store.kept_state(&id).await.unwrap()?;
            Some(state.records(vec![0x30]..vec![0x31], 10).await.unwrap())
        })
    };
    assert_eq!(read().unwrap(), [(vec![0x30, 1], b"then".to_vec())]);
    process.run(process.db.delete_snapshot("s")).unwrap();
    assert!(kept().is_empty());
    assert_eq!(read(), None);
}

/// A restore copies files.
#[test]
fn a_snapshot_has_its_files() {
    let world = World::new();
    let process = world.start();
    put(&process, "events/old", "old").unwrap();
    process
        .run(process.db.create_snapshot(Some("s"), None))
        .unwrap();
    delete(&process, "events/none");

    let target = Arc::new(InMemory::new());
    let copied = |name: &str| {
        let name = slatedb::object_store::path::Path::from(name);
        process.run(async {
            let found = target.get(&name).await?;
            found.bytes().await
        })
    };
    let plan = |target: &Arc<InMemory>| Restore {
        from: options("memory://").store,
        snapshot: "s".into(),
        to: options("memory://").store,
        stores: Some((
            Arc::new(process.faults.clone()) as Arc<dyn ObjectStore>,
            Arc::clone(target) as Arc<dyn ObjectStore>,
        )),
    };
    process.run(restore(plan(&target), |_| {})).unwrap();
    assert_eq!(copied("events/old").unwrap(), "old");
    // Files of others are not taken over.
    let strange = Arc::new(InMemory::new());
    let name = slatedb::object_store::path::Path::from("events/x");
    process.run(strange.put(&name, "x".into())).unwrap();
    let refused = process.run(restore(plan(&strange), |_| {})).unwrap_err();
    assert!(refused.to_string().contains("is not empty"), "{refused}");
}

/// A directory of the database that has gone ends it; one of events is made again.
#[test]
fn directories_of_events_are_not_kept_open() {
    let directory = tempfile::tempdir().unwrap();
    let world = World::in_directory(directory.path());
    let process = world.start();
    // Other tests of this process have files open, too.
    let open_files = || {
        let open = std::fs::read_dir("/proc/self/fd").into_iter().flatten();
        let targets = open.filter_map(|file| std::fs::read_link(file.ok()?.path()).ok());
        targets
            .filter(|file| file.starts_with(directory.path()))
            .count()
    };
    put(&process, "events/a/0", "x").unwrap();
    let before = open_files();
    for n in 0..512 {
        put(&process, &format!("events/a{n}/b/c"), "x").unwrap();
    }
    assert!(open_files() < before + 64, "{} are open", open_files());
    std::fs::remove_dir_all(directory.path().join("events")).unwrap();
    put(&process, "events/a/1", "x").unwrap();
    assert_eq!(list(&process), [("events/a/1".to_owned(), 1)]);
    std::fs::write(directory.path().join("events/a/1#7"), "staged").unwrap();
    assert_eq!(list(&process).len(), 1, "no file yet");
    process.run(process.db.write_memtables()).unwrap();
}
