//! Snapshots: what is in them, that nothing takes it away, and that a restore makes a database of
//! its own.

mod levels;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use icecore_model::{Labels, MatchOp, Matcher, Selection, SeriesStream as _};
use icecore_storage::testing::{FaultPlan, FaultStore, Hooks};
use icecore_storage::{Database, Deletion, Environment, Error, Restore, restore};
use slatedb::object_store::ObjectStore;
use slatedb::object_store::memory::InMemory;

use crate::requests::{Entry, pairs, request};
use crate::support::*;

type Found = BTreeMap<Labels, Vec<(i64, u64)>>;

async fn everything(db: &Database) -> Found {
    let selection = Selection {
        matchers: Vec::new(),
        start_ms: i64::MIN,
        end_ms: i64::MAX,
        hints: Default::default(),
    };
    let mut stream = db.select(selection).await.unwrap();
    let mut found = Found::new();
    while let Some(batch) = stream.next_batch().await.unwrap() {
        for series in batch {
            let floats = series.floats.timestamps.iter().zip(&series.floats.values);
            let floats: Vec<_> = floats.map(|(t, v)| (*t, v.to_bits())).collect();
            if !floats.is_empty() {
                found.insert(series.labels, floats);
            }
        }
    }
    found
}

async fn open(store: &Arc<InMemory>) -> icecore_storage::Result<Database> {
    let environment = Environment {
        clock: Some(clock()),
        object_store: Some(Arc::clone(store) as Arc<dyn ObjectStore>),
    };
    Database::open(options("memory://"), environment).await
}

async fn write(db: &Database, hours: std::ops::Range<i64>, series: i64) {
    for hour in hours {
        let entries = (0..series).map(|n| Entry::Float {
            labels: pairs(&[("__name__", "m"), ("n", &n.to_string())]),
            time: T0 + hour * HOUR + n,
            value: (hour * 1000 + n) as f64,
            start: 0,
        });
        request(db, entries.collect()).await.unwrap();
    }
}

fn plan(from: &Arc<InMemory>, to: &Arc<dyn ObjectStore>, name: &str) -> Restore {
    Restore {
        from: options("memory://").store,
        snapshot: name.into(),
        to: options("memory://").store,
        stores: Some((Arc::clone(from) as _, Arc::clone(to))),
    }
}

async fn restored(from: &Arc<InMemory>, name: &str) -> Found {
    let to = Arc::new(InMemory::new());
    let store = Arc::clone(&to) as Arc<dyn ObjectStore>;
    restore(plan(from, &store, name), |_| {}).await.unwrap();
    let db = open(&to).await.unwrap();
    let found = everything(&db).await;
    db.close().await.unwrap();
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_outlives_everything_that_happens_to_its_files() {
    let store = Arc::new(InMemory::new());
    let db = open(&store).await.unwrap();
    write(&db, 0..5, 20).await;
    db.flush().await.unwrap();
    // Only in the journal.
    write(&db, 5..6, 20).await;
    let before = everything(&db).await;
    let made = db.create_snapshot(Some("first"), None).await.unwrap();
    assert_eq!((made.name.as_str(), made.expires_ms), ("first", None));

    // Everything is rewritten, drained, joined, and what is not needed any more deleted.
    write(&db, 0..3, 25).await;
    let deletion = Deletion {
        selectors: vec![vec![Matcher::new(MatchOp::Regex, "n", "1.*").unwrap()]],
        start_ms: i64::MIN,
        end_ms: i64::MAX,
    };
    db.delete_series(deletion).await.unwrap();
    for _ in 0..2 {
        db.run_maintenance().await.unwrap();
    }
    let after = everything(&db).await;
    assert_ne!(after, before);
    db.create_snapshot(Some("second"), None).await.unwrap();
    assert_eq!(restored(&store, "first").await, before);
    assert_eq!(restored(&store, "second").await, after);

    let names = |found: Vec<icecore_storage::Snapshot>| -> Vec<String> {
        found.into_iter().map(|s| s.name).collect()
    };
    assert_eq!(names(db.snapshots().await.unwrap()), ["first", "second"]);
    let twice = db.create_snapshot(Some("first"), None).await;
    assert!(matches!(twice, Err(Error::Invalid(_))), "{twice:?}");
    assert!(db.delete_snapshot("first").await.unwrap());
    assert!(!db.delete_snapshot("first").await.unwrap());
    assert_eq!(names(db.snapshots().await.unwrap()), ["second"]);
    db.close().await.unwrap();

    // The next process knows them, too.
    let db = open(&store).await.unwrap();
    assert_eq!(names(db.snapshots().await.unwrap()), ["second"]);
    db.run_maintenance().await.unwrap();
    db.close().await.unwrap();
    assert_eq!(restored(&store, "second").await, after);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_that_was_cut_off_is_gone_on_with() {
    let store = Arc::new(InMemory::new());
    let db = open(&store).await.unwrap();
    write(&db, 0..3, 3000).await;
    db.flush_buckets().await.unwrap();
    let before = everything(&db).await;
    for name in ["a", "b"] {
        db.create_snapshot(Some(name), None).await.unwrap();
    }
    db.close().await.unwrap();

    let memory = Arc::new(InMemory::new());
    let raw = Arc::clone(&memory) as Arc<dyn ObjectStore>;
    let faults = FaultStore::new(Arc::clone(&raw), FaultPlan::quiet(0));
    let cut = Arc::new(faults.clone()) as Arc<dyn ObjectStore>;
    let calls = AtomicUsize::new(0);
    let running = restore(plan(&store, &cut, "a"), |_| {
        if calls.fetch_add(1, Relaxed) == 1 {
            faults.power_off();
        }
    });
    let ended = ending("it ends without its store", running).await;
    assert!(ended.is_err(), "{ended:?}");

    // It is no database yet, and of no other snapshot.
    let opened = open(&memory).await.err().expect("refused").to_string();
    assert!(opened.contains("has not finished"), "{opened}");
    let other = restore(plan(&store, &raw, "b"), |_| {}).await;
    assert!(matches!(other, Err(Error::Invalid(_))), "{other:?}");
    let report = restore(plan(&store, &raw, "a"), |_| {}).await.unwrap();
    assert!(report.resumed && report.records > 9000, "{report:?}");

    let db = open(&memory).await.unwrap();
    assert_eq!(everything(&db).await, before);
    write(&db, 7..8, 3).await;
    db.close().await.unwrap();
    // Now something lies there.
    let again = restore(plan(&store, &raw, "a"), |_| {}).await;
    let again = again.unwrap_err().to_string();
    assert!(again.contains("is not empty"), "{again}");
    let missing = restore(plan(&store, &raw, "c"), |_| {}).await;
    let missing = missing.unwrap_err().to_string();
    assert!(missing.contains("there are a, b"), "{missing}");
}
