//! After garbage collection the directory holds what is referred to.

use std::collections::BTreeSet;
use std::path::Path;

use icecore_records::SeriesId;
use slatedb::config::CompressionCodec;

use super::*;
use crate::Database;
use crate::maintenance::retire::tests::{
    SERIES, World, commit, count_records, drop_all, everything, four_hours, hour, two_hours,
};
use crate::read::SelectStream;

fn world_at(directory: &Path) -> World {
    let mut world = World::at(directory.to_str().unwrap(), None);
    world.options.store.fsync = false;
    // Nobody but `collect_garbage` deletes anything while the test runs.
    world.options.store.gc_interval = Duration::from_secs(3600);
    world.options.store.gc_min_age = Duration::from_secs(300);
    world
}

/// Far away: it is reached only when something hangs.
fn far() -> Instant {
    Instant::now() + Duration::from_secs(300)
}

fn files(directory: &Path, part: &str) -> BTreeSet<String> {
    let entries = std::fs::read_dir(directory.join("db").join(part)).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.collect()
}

/// Files of segments that the manifest names.
fn referenced(db: &Database) -> usize {
    db.context.engine.db().manifest().all_sst_views().count()
}

/// Records as a job writes them, in as many files as there are rounds.
async fn write_target(db: &Database, rounds: u32) {
    for round in 0..rounds {
        let mut batch = WriteBatch::new();
        for series in 0..200 {
            let id = SeriesId(round * 200 + series);
            batch.put(key::time_series(four_hours(), id), [round as u8; 100]);
            batch.put(key::forward_index(four_hours(), id), [round as u8; 100]);
        }
        db.context.engine.db().write(batch).await.unwrap();
        db.context.engine.flush_memtable().await.unwrap();
    }
}

#[tokio::test]
async fn the_directory_holds_what_is_referred_to() {
    let directory = tempfile::tempdir().unwrap();
    let db = world_at(directory.path()).open().await;
    two_hours(&db).await;
    write_target(&db, 3).await;
    commit(&db).await;
    assert_eq!(drop_all(&db, Duration::ZERO, 2).await, 2);
    let before = files(directory.path(), "compacted").len();
    assert!(before > referenced(&db), "drained files are still there");
    let old_manifests = files(directory.path(), "manifest");
    let old_wal = files(directory.path(), "wal");

    // Those that fence off earlier writers are empty and stay.
    let is_old = |name: &String| {
        let file = directory.path().join("db/wal").join(name);
        old_wal.contains(name) && std::fs::metadata(file).is_ok_and(|file| file.len() > 0)
    };
    let old_wal_is_gone = || !files(directory.path(), "wal").iter().any(is_old);

    // A compaction that began by itself may end after the files are deleted: once more.
    let mut collected = false;
    for _ in 0..6 {
        collected = collect_garbage(&db.maintenance, far(), 0).await.unwrap();
        assert!(old_wal_is_gone(), "{old_wal:?}");
        if collected && files(directory.path(), "compacted").len() == referenced(&db) {
            break;
        }
    }
    assert!(collected);
    let left = files(directory.path(), "compacted");
    assert_eq!(left.len(), referenced(&db), "{left:?}");
    let manifests = files(directory.path(), "manifest");
    assert!(manifests.is_disjoint(&old_manifests), "{manifests:?}");

    let manifest = db.context.engine.db().manifest();
    let target = manifest.segment(&key::record_prefix(
        icecore_records::RecordType::TimeSeries,
        four_hours(),
    ));
    let target = target.unwrap();
    assert_eq!((target.l0().len(), target.compacted().len()), (0, 1));
    for view in manifest.segments().iter().flat_map(|s| s.compacted()) {
        for view in view.sst_views() {
            let codec = view.sst.info.compression_codec;
            assert_eq!(codec, Some(CompressionCodec::Zstd));
        }
    }
    assert_eq!(count_records(&db, four_hours()).await, 3 * 400 + 1);
    db.close().await.unwrap();

    let db = world_at(directory.path()).open().await;
    assert_eq!(count_records(&db, four_hours()).await, 3 * 400 + 1);
    db.close().await.unwrap();
}

/// Where only little could be gained by it, the age that manifests and the log need is not waited
/// for.
#[tokio::test]
async fn a_little_of_the_log_is_left_to_the_next_collection() {
    let directory = tempfile::tempdir().unwrap();
    let db = world_at(directory.path()).open().await;
    two_hours(&db).await;
    write_target(&db, 3).await;
    let log_bytes = db.context.engine.log_garbage_bytes().await.unwrap();
    assert!(log_bytes > 0);
    let before = files(directory.path(), "compacted");
    let started = Instant::now();
    assert!(
        collect_garbage(&db.maintenance, far(), 1 << 30)
            .await
            .unwrap()
    );
    let took = started.elapsed();
    let left = files(directory.path(), "compacted");
    assert!(!left.is_superset(&before), "files with records are gone");
    let log_bytes = db.context.engine.log_garbage_bytes().await.unwrap();
    // On a machine that needs ten seconds for the rest they are of age by then.
    assert!(log_bytes > 0 || took >= Duration::from_secs(10), "{took:?}");
    db.close().await.unwrap();
}

#[tokio::test]
async fn a_reader_keeps_the_files_that_it_may_use() {
    let directory = tempfile::tempdir().unwrap();
    let db = world_at(directory.path()).open().await;
    two_hours(&db).await;
    db.context.engine.flush_memtable().await.unwrap();
    let before = files(directory.path(), "compacted");
    let mut stream = SelectStream::open(&db.reader, everything()).await.unwrap();
    let mut read = stream.next().await.unwrap().unwrap().len();
    let joined = db.context.engine.join(far()).await;
    assert!(joined.unwrap(), "every segment is one run");
    let collected = collect_garbage(&db.maintenance, Instant::now(), 0).await;
    assert!(!collected.unwrap());
    assert!(files(directory.path(), "compacted").is_superset(&before));
    while let Some(more) = stream.next().await.unwrap() {
        read += more.len();
    }
    assert_eq!(read, SERIES);
    drop(stream);
    assert!(count_records(&db, hour(0)).await > 0);
    db.close().await.unwrap();
}
