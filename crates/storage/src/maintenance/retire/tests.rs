//! What is retired goes, once, and not while somebody reads it.

use std::collections::BTreeSet;

use icecore_model::{
    BucketSize, BucketStart, HOUR_MS, Matcher, RawLabels, Sample, SampleSink, SelectHints,
    Selection, SeriesSamples, push_raw_label,
};
use icecore_records::bucket_meta;
use slatedb::WriteBatch;
use slatedb::object_store::ObjectStore;
use slatedb::object_store::memory::InMemory;

use super::*;
use crate::buckets::{Retired, put_list, stored_retired};
use crate::read::{LabelQuery, Ranking, SelectStream};
use crate::slate::read_view::ScanKind;
use crate::{Database, Environment, ManualClock, Options};

/// A multiple of four hours.
pub(in crate::maintenance) const T0: i64 = 1_700_000_000_000 / (4 * HOUR_MS) * (4 * HOUR_MS);

/// More than a stream reads with its first batch.
pub(in crate::maintenance) const SERIES: usize = 200;

pub(in crate::maintenance) struct World {
    pub(in crate::maintenance) options: Options,
    store: Option<Arc<dyn ObjectStore>>,
    clock: Arc<ManualClock>,
}

impl World {
    pub(in crate::maintenance) fn new() -> Self {
        Self::at("memory://", Some(Arc::new(InMemory::new())))
    }

    pub(in crate::maintenance) fn at(location: &str, store: Option<Arc<dyn ObjectStore>>) -> Self {
        let mut options = Options::default();
        options.store.location = location.into();
        options.journal.commit_interval = Some(Duration::ZERO);
        // What the tests do, they do themselves.
        options.maintenance.enabled = false;
        Self {
            options,
            store,
            clock: Arc::new(ManualClock::at(T0 + 24 * HOUR_MS)),
        }
    }

    pub(in crate::maintenance) async fn open(&self) -> Database {
        let environment = Environment {
            clock: Some(Arc::clone(&self.clock) as Arc<dyn crate::Clock>),
            object_store: self.store.clone(),
        };
        Database::open(self.options.clone(), environment)
            .await
            .unwrap()
    }
}

pub(in crate::maintenance) fn hour(number: i64) -> Bucket {
    Bucket::hour(BucketStart(((T0 + number * HOUR_MS) / 60_000) as u32))
}

pub(in crate::maintenance) fn four_hours() -> Bucket {
    Bucket {
        size: BucketSize::from_exponent(3).unwrap(),
        start: hour(0).start,
    }
}

/// One sample per series in each of two hours, flushed.
pub(in crate::maintenance) async fn two_hours(db: &Database) {
    db.write(|batch| {
        for series in 0..SERIES {
            let mut labels = Vec::new();
            push_raw_label(&mut labels, "__name__", "m");
            push_raw_label(&mut labels, "series", &format!("{series:04}"));
            batch.series(RawLabels(&labels));
            for at in 0..2 {
                batch.sample(Sample {
                    timestamp_ms: T0 + at * HOUR_MS + 1000,
                    value: (series as i64 + at) as f64,
                    start_timestamp_ms: 0,
                });
            }
        }
        Ok::<(), ()>(())
    })
    .await
    .unwrap();
    crate::ingest::flush_all(&db.ingest).await.unwrap();
}

/// What the commit of a job does, with a target that has no series.
pub(in crate::maintenance) async fn commit(db: &Database) {
    let now_ms = db.context.clock.now_ms();
    let mut batch = WriteBatch::new();
    let sources = [hour(0), hour(1)];
    put_list(
        &mut batch,
        &BTreeSet::from([four_hours()]),
        &sources,
        now_ms,
    );
    batch.put(
        key::bucket_meta(four_hours()),
        bucket_meta::encode(&Default::default()),
    );
    let handle = db.context.engine.db().write(batch).await.unwrap();
    handle.await_durable().await.unwrap();
    let fail = |reason: &str| panic!("{reason}");
    let buckets = &db.buckets;
    let followed = buckets.committed(Ok(()), Some((four_hours(), None)), &sources, now_ms, fail);
    followed.await.unwrap();
}

pub(in crate::maintenance) fn everything() -> Selection {
    Selection {
        matchers: vec![Matcher::equal("__name__", "m")],
        start_ms: 0,
        end_ms: i64::MAX,
        hints: SelectHints::default(),
    }
}

pub(in crate::maintenance) async fn count_records(db: &Database, bucket: Bucket) -> usize {
    let mut count = 0;
    for prefix in segments_of(bucket) {
        let view = db.context.engine.live_view();
        let mut records = view.scan_prefix(&prefix, ScanKind::Once).await.unwrap();
        while records.next().await.unwrap().is_some() {
            count += 1;
        }
    }
    count
}

/// Drops until `count` buckets are gone: a call ends early on a machine that is busy.
pub(in crate::maintenance) async fn drop_all(
    db: &Database,
    grace: Duration,
    count: usize,
) -> usize {
    let mut dropped = 0;
    for _ in 0..10 {
        dropped += drop_retired(&db.maintenance, grace).await.unwrap();
        if dropped >= count {
            break;
        }
    }
    dropped
}

async fn retired_records(db: &Database) -> Retired {
    stored_retired(&db.context.engine.live_view())
        .await
        .unwrap()
}

#[tokio::test]
async fn a_stream_that_is_open_reads_on_over_commit_and_drop() {
    let world = World::new();
    let db = world.open().await;
    two_hours(&db).await;
    let mut stream = SelectStream::open(&db.reader, everything()).await.unwrap();
    let mut read: Vec<SeriesSamples> = stream.next().await.unwrap().unwrap();
    assert!(read.len() < SERIES, "the stream has more to read");
    commit(&db).await;
    assert_eq!(
        drop_retired(&db.maintenance, Duration::ZERO).await.unwrap(),
        0
    );
    while let Some(more) = stream.next().await.unwrap() {
        read.extend(more);
    }
    assert_eq!(read.len(), SERIES);
    for (number, series) in read.iter().enumerate() {
        let values = [number as f64, number as f64 + 1.0];
        assert_eq!(series.floats.values.as_slice(), values, "{}", series.labels);
    }
    drop((read, stream));

    assert_eq!(drop_all(&db, Duration::ZERO, 2).await, 2);
    for bucket in [hour(0), hour(1)] {
        assert_eq!(count_records(&db, bucket).await, 0);
        assert!(!db.buckets.leases().is_leased(bucket));
    }
    assert!(retired_records(&db).await.is_empty() && db.buckets.retired().is_empty());
    assert_eq!(
        drop_retired(&db.maintenance, Duration::ZERO).await.unwrap(),
        0
    );
    db.close().await.unwrap();
}

#[tokio::test]
async fn readers_of_labels_and_exemplars_give_their_leases_back() {
    let world = World::new();
    let db = world.open().await;
    two_hours(&db).await;
    let query = LabelQuery {
        selectors: Vec::new(),
        start_ms: 0,
        end_ms: i64::MAX,
        ..LabelQuery::default()
    };
    assert_eq!(db.series(&query).await.unwrap().len(), SERIES);
    let values = db.label_values("series", &query).await.unwrap();
    assert_eq!(values.len(), SERIES);
    assert_eq!(db.label_names(&query).await.unwrap().len(), 2);
    assert_eq!(
        db.cardinality(&query, Ranking::default())
            .await
            .unwrap()
            .series,
        SERIES as u64
    );
    assert!(!db.buckets.leases().is_leased(hour(0)));
    db.close().await.unwrap();
}

#[tokio::test]
async fn grace_is_kept_and_a_restart_goes_on_with_what_is_left() {
    let world = World::new();
    let db = world.open().await;
    two_hours(&db).await;
    commit(&db).await;
    let grace = Duration::from_secs(300);
    assert_eq!(drop_retired(&db.maintenance, grace).await.unwrap(), 0);
    assert!(count_records(&db, hour(1)).await > 0);
    // The segments go, and the process ends before it could delete the records that say so.
    let patience = Duration::from_secs(300);
    let gone = empty_buckets(&db.maintenance, &[hour(0)], patience).await;
    assert_eq!(gone.unwrap(), [hour(0)]);
    db.close().await.unwrap();

    let db = world.open().await;
    assert_eq!(count_records(&db, hour(0)).await, 0);
    let stored = retired_records(&db).await;
    assert_eq!(*db.buckets.retired(), stored);
    assert_eq!(db.buckets.retired().len(), 2);
    assert_eq!(drop_retired(&db.maintenance, grace).await.unwrap(), 0);
    world.clock.advance(300_000);
    assert_eq!(drop_all(&db, grace, 2).await, 2);
    assert_eq!(count_records(&db, hour(1)).await, 0);
    assert!(count_records(&db, four_hours()).await > 0);
    db.close().await.unwrap();

    let db = world.open().await;
    assert!(db.buckets.retired().is_empty());
    assert_eq!(count_records(&db, hour(1)).await, 0);
    db.close().await.unwrap();
}

#[tokio::test]
async fn a_bucket_that_is_listed_is_not_dropped() {
    let world = World::new();
    let db = world.open().await;
    two_hours(&db).await;
    // This cannot happen; if it did, the list would count.
    db.buckets.retire(hour(0), 0);
    assert_eq!(
        drop_retired(&db.maintenance, Duration::ZERO).await.unwrap(),
        0
    );
    assert!(count_records(&db, hour(0)).await > 0);
    db.close().await.unwrap();
}
