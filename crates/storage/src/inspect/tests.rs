//! Each kind of damage, made with raw records on a sound database, is found with its key; what only
//! looks like damage is not reported.

mod coarse;

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use icecore_model::{
    BucketStart, Exemplar, HOUR_MS, Histogram, HistogramCounts, Labels, Metadata, MetricType,
    RawLabels, Sample, SampleSink, Span, push_raw_label,
};
use icecore_records::journal::{BlockEncoder, encode_record};
use icecore_records::{
    SeriesId, bucket_list, bucket_meta, flush_cursor, forward_index, gorilla, inverted_index, key,
    series_dictionary,
};
use roaring::RoaringBitmap;
use slatedb::object_store::memory::InMemory;
use slatedb::object_store::path::Path;
use slatedb::object_store::{ObjectStore, ObjectStoreExt};

use super::*;
use crate::slate::engine::Engine;
use crate::{Database, Environment, ManualClock, Options, WriteBatch};

const T0: i64 = 1_700_000_000_000 / HOUR_MS * HOUR_MS;

fn bucket() -> Bucket {
    Bucket::hour(BucketStart((T0 / 60_000) as u32))
}

fn labels(series: &str) -> Labels {
    Labels::from_pairs([("__name__", "m"), ("series", series)])
}

fn announce(batch: &mut WriteBatch<'_>, series: &str) {
    let mut bytes = Vec::new();
    for (name, value) in labels(series).iter() {
        push_raw_label(&mut bytes, name, value);
    }
    batch.series(RawLabels(&bytes));
}

fn float(batch: &mut WriteBatch<'_>, timestamp_ms: i64, start_timestamp_ms: i64) {
    batch.sample(Sample {
        timestamp_ms,
        value: 1.5,
        start_timestamp_ms,
    });
}

fn histogram() -> Histogram {
    Histogram {
        schema: 0,
        reset_hint: Default::default(),
        zero_threshold: 0.0,
        sum: 3.0,
        counts: HistogramCounts::Integer {
            count: 3,
            zero_count: 0,
            positive_deltas: vec![1, 1],
            negative_deltas: Vec::new(),
        },
        positive_spans: vec![Span {
            offset: 0,
            length: 2,
        }],
        negative_spans: Vec::new(),
        custom_bounds: Arc::from([]),
    }
}

/// A database in memory, opened anew for each step.
struct Bench {
    options: Options,
    store: Arc<dyn ObjectStore>,
}

impl Bench {
    fn new() -> Self {
        let mut options = Options::default();
        options.store.location = "memory://".into();
        options.journal.commit_interval = Some(Duration::ZERO);
        // What is here is judged as it was put here.
        options.maintenance.enabled = false;
        let store = Arc::new(InMemory::new());
        Self { options, store }
    }

    /// Series `b` (0) and `c` (1) from the first flush, `a` (2) from the second: two runs of ids.
    async fn sound() -> Self {
        let bench = Self::new();
        let db = bench.open().await;
        db.write(|batch| {
            announce(batch, "b");
            float(batch, T0, 0);
            float(batch, T0 + 1000, T0 - 5);
            announce(batch, "c");
            batch.histogram(T0 + 2, 0, histogram());
            batch.exemplar(Exemplar {
                labels: Labels::from_pairs([("trace_id", "x")]),
                timestamp_ms: T0 + 3,
                value: 2.0,
            });
            let metadata = Metadata {
                metric_type: MetricType::Counter,
                unit: String::new(),
                help: "help".into(),
                ..Metadata::default()
            };
            batch.metadata("m", metadata);
            Ok::<(), ()>(())
        })
        .await
        .unwrap();
        db.flush().await.unwrap();
        db.write(|batch| {
            announce(batch, "a");
            float(batch, T0 + 500, 0);
            Ok::<(), ()>(())
        })
        .await
        .unwrap();
        db.close().await.unwrap();
        bench
    }

    async fn open(&self) -> Database {
        let environment = Environment {
            clock: Some(Arc::new(ManualClock::at(T0 + 24 * HOUR_MS))),
            object_store: Some(Arc::clone(&self.store)),
        };
        Database::open(self.options.clone(), environment)
            .await
            .unwrap()
    }

    async fn engine(&self) -> Engine {
        let store = Arc::clone(&self.store);
        Engine::open(&self.options.store, Some(store))
            .await
            .unwrap()
    }

    async fn put(&self, key: Bytes, value: impl Into<Bytes>) {
        let engine = self.engine().await;
        engine.db().put_bytes(key, value.into()).await.unwrap();
        engine.close().await.unwrap();
    }

    async fn put_all(&self, records: Vec<(Bytes, Bytes)>) {
        let engine = self.engine().await;
        for (key, value) in records {
            engine.db().put_bytes(key, value).await.unwrap();
        }
        engine.close().await.unwrap();
    }

    async fn delete(&self, key: Bytes) {
        let engine = self.engine().await;
        engine.db().delete(&key).await.unwrap();
        engine.close().await.unwrap();
    }

    async fn get(&self, key: &[u8]) -> Bytes {
        let engine = self.engine().await;
        let value = engine.live_view().get(key).await.unwrap().unwrap();
        engine.close().await.unwrap();
        value
    }

    async fn check(&self) -> CheckReport {
        let store = Arc::clone(&self.store);
        check(&self.options.store, Some(store)).await.unwrap()
    }

    async fn change_meta(&self, change: impl FnOnce(&mut bucket_meta::BucketMeta)) {
        let key = key::bucket_meta(bucket());
        let mut meta = bucket_meta::decode(&self.get(&key).await).unwrap();
        change(&mut meta);
        self.put(key, bucket_meta::encode(&meta)).await;
    }

    #[track_caller]
    fn expect(report: &CheckReport, expected: &[(ProblemKind, Bytes)]) {
        let found: Vec<(ProblemKind, Bytes)> = report
            .problems
            .iter()
            .map(|problem| (problem.kind, Bytes::from(problem.key.clone())))
            .collect();
        for problem in expected {
            assert!(
                found.contains(problem),
                "{problem:?} is not in {:#?}",
                report.problems
            );
        }
        assert_eq!(found.len(), expected.len(), "{:#?}", report.problems);
        assert_eq!(report.problems_total as usize, found.len());
    }

    /// One record is replaced, and this is all that is found.
    async fn check_put(key: Bytes, value: impl Into<Bytes>, expected: &[ProblemKind]) {
        let bench = Self::sound().await;
        bench.put(key.clone(), value).await;
        let expected: Vec<_> = expected.iter().map(|kind| (*kind, key.clone())).collect();
        Self::expect(&bench.check().await, &expected);
    }
}

fn postings(ids: &[u32]) -> Bytes {
    inverted_index::encode(&mut RoaringBitmap::from_iter(ids.iter().copied()))
}

fn stream(timestamp_ms: i64) -> Vec<u8> {
    gorilla::encode(&[timestamp_ms], &[1.0])
}

fn forward(series: &str) -> Vec<u8> {
    forward_index::encode(&icecore_records::ForwardRecord {
        unit: String::new(),
        meta: Default::default(),
        labels: labels(series),
    })
}

fn dictionary_key(series: &str) -> Bytes {
    key::series_dictionary(bucket(), labels(series).fingerprint())
}

fn forward_key(id: u32) -> Bytes {
    key::forward_index(bucket(), SeriesId(id))
}

fn samples_key(id: u32) -> Bytes {
    key::time_series(bucket(), SeriesId(id))
}

fn name_key() -> Bytes {
    key::inverted_index(bucket(), "__name__", "m")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sound_database_is_clean_and_counted() {
    let report = Bench::sound().await.check().await;
    Bench::expect(&report, &[]);
    let counts = &report.counts;
    assert_eq!(
        (counts.buckets, counts.series, counts.float_samples),
        (1, 3, 3)
    );
    assert_eq!((counts.histogram_samples, counts.exemplars), (1, 1));
    assert_eq!((counts.label_pairs, counts.postings), (4, 6));
    assert_eq!((counts.metadata, counts.start_timestamps), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn broken_keys_are_found() {
    let short = forward_key(0).slice(..8);
    Bench::check_put(short, "x", &[ProblemKind::Key]).await;
    let sizeless = Bytes::from_static(&[1, 0x30, 0, 0, 0, 0, 0, 0, 0, 0]);
    Bench::check_put(sizeless, "x", &[ProblemKind::Key]).await;
    let short_journal = Bytes::from_static(&[1, 0xA0, 0, 0, 0, 1, 2]);
    Bench::check_put(short_journal, "x", &[ProblemKind::Key]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_records_are_no_problem() {
    let bench = Bench::sound().await;
    bench
        .put(Bytes::from_static(&[2, 0x10, 1, 2, 3]), "x")
        .await;
    bench.put(Bytes::from_static(&[1, 0xC0, 9]), "x").await;
    let report = bench.check().await;
    Bench::expect(&report, &[]);
    assert_eq!(report.counts.unknown_records, 2);
    assert!(!report.notes.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn values_that_do_not_decode_are_found() {
    for key in [
        samples_key(0),
        key::time_series_starts(bucket(), SeriesId(0)),
        key::histogram_series(bucket(), SeriesId(1)),
        key::exemplar_series(bucket(), SeriesId(1)),
        key::journal_watermark(),
        key::catalog_cursor(),
        key::metric_metadata("m"),
        key::bucket_meta(bucket()),
    ] {
        Bench::check_put(key, "\u{7f}some garbage", &[ProblemKind::Value]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unmerged_operands_are_found() {
    let bench = Bench::sound().await;
    let engine = bench.engine().await;
    engine
        .db()
        .merge(samples_key(0), "\u{7f}some garbage")
        .await
        .unwrap();
    engine.close().await.unwrap();
    let report = bench.check().await;
    Bench::expect(&report, &[(ProblemKind::Unmerged, samples_key(0))]);
}

#[tokio::test(flavor = "multi_thread")]
async fn samples_outside_their_bucket_are_found() {
    Bench::check_put(samples_key(0), stream(T0 + HOUR_MS), &[ProblemKind::Time]).await;
    Bench::check_put(samples_key(0), stream(T0 - 1), &[ProblemKind::Time]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_belongs_to_no_series_is_found() {
    let id = SeriesId(77);
    let bench = Bench::sound().await;
    let histograms = bench
        .get(&key::histogram_series(bucket(), SeriesId(1)))
        .await;
    let exemplars = bench
        .get(&key::exemplar_series(bucket(), SeriesId(1)))
        .await;
    let wrong = [
        (key::time_series(bucket(), id), stream(T0).into()),
        (key::histogram_series(bucket(), id), histograms),
        (key::exemplar_series(bucket(), id), exemplars),
        (name_key(), postings(&[0, 1, 2, 77])),
    ];
    for (key, value) in wrong.clone() {
        bench.put(key, value).await;
    }
    let expected = wrong.map(|(key, _)| (ProblemKind::NoSeries, key));
    Bench::expect(&bench.check().await, &expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn dictionary_and_forward_index_must_agree() {
    let bench = Bench::sound().await;
    bench.delete(dictionary_key("b")).await;
    Bench::expect(
        &bench.check().await,
        &[(ProblemKind::Dictionary, forward_key(0))],
    );

    // Another series' id under the fingerprint: wrong there, and missing for the series itself.
    let bench = Bench::sound().await;
    bench
        .put(
            dictionary_key("b"),
            series_dictionary::encode(&[SeriesId(1)]),
        )
        .await;
    let expected = [
        (ProblemKind::Dictionary, dictionary_key("b")),
        (ProblemKind::Dictionary, forward_key(0)),
    ];
    Bench::expect(&bench.check().await, &expected);

    let ids = series_dictionary::encode(&[SeriesId(0), SeriesId(50)]);
    Bench::check_put(dictionary_key("b"), ids, &[ProblemKind::Dictionary]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_forward_record_is_found() {
    let bench = Bench::sound().await;
    bench.delete(forward_key(0)).await;
    let expected = [
        (ProblemKind::Dictionary, dictionary_key("b")),
        (ProblemKind::NoSeries, name_key()),
        (
            ProblemKind::NoSeries,
            key::inverted_index(bucket(), "series", "b"),
        ),
        (ProblemKind::NoSeries, samples_key(0)),
        (
            ProblemKind::NoSeries,
            key::time_series_starts(bucket(), SeriesId(0)),
        ),
    ];
    Bench::expect(&bench.check().await, &expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn labels_and_postings_must_agree() {
    let of_b = key::inverted_index(bucket(), "series", "b");
    Bench::check_put(name_key(), postings(&[0, 2]), &[ProblemKind::Postings]).await;
    Bench::check_put(of_b.clone(), postings(&[0, 1]), &[ProblemKind::Postings]).await;
    let of_nobody = key::inverted_index(bucket(), "series", "nobody");
    Bench::check_put(of_nobody.clone(), postings(&[]), &[ProblemKind::Postings]).await;
    Bench::check_put(of_nobody, postings(&[1]), &[ProblemKind::Postings]).await;
    let bench = Bench::sound().await;
    bench.delete(of_b.clone()).await;
    Bench::expect(&bench.check().await, &[(ProblemKind::Postings, of_b)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn ids_must_be_given_out_once_and_in_order() {
    // Not given out yet, and no journal that would explain it.
    Bench::check_put(forward_key(3), forward("d"), &[ProblemKind::Ids]).await;

    let bench = Bench::sound().await;
    bench.change_meta(|meta| meta.run_starts.truncate(1)).await;
    Bench::expect(&bench.check().await, &[(ProblemKind::Ids, forward_key(2))]);

    // Series 1 gets the labels of series 0.
    let bench = Bench::sound().await;
    bench.put(forward_key(1), forward("b")).await;
    let report = bench.check().await;
    let repeated = report.problems.iter().find(|p| p.kind == ProblemKind::Ids);
    assert_eq!(repeated.unwrap().key, forward_key(1), "{report:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn buckets_must_be_listed_and_described() {
    let bench = Bench::sound().await;
    bench
        .put(key::bucket_list(), bucket_list::encode(&BTreeSet::new()))
        .await;
    let report = bench.check().await;
    let kinds: BTreeSet<ProblemKind> = report.problems.iter().map(|p| p.kind).collect();
    assert!(kinds.contains(&ProblemKind::Unlisted), "{report:#?}");
    assert!(
        kinds.is_subset(&[ProblemKind::Unlisted, ProblemKind::Cursor].into()),
        "{report:#?}"
    );

    let other = Bucket::hour(BucketStart(bucket().start.minutes() + 60));
    let bench = Bench::sound().await;
    bench
        .put(key::forward_index(other, SeriesId(0)), forward("x"))
        .await;
    let prefix = key::record_prefix(RecordType::ForwardIndex, other);
    Bench::expect(&bench.check().await, &[(ProblemKind::Unlisted, prefix)]);

    let bench = Bench::sound().await;
    bench.delete(key::bucket_meta(bucket())).await;
    let meta = key::bucket_meta(bucket());
    Bench::expect(&bench.check().await, &[(ProblemKind::Meta, meta.clone())]);

    let changes: [fn(&mut bucket_meta::BucketMeta); 4] = [
        |meta| meta.has_histograms = false,
        |meta| meta.has_start_timestamps = false,
        |meta| meta.min_timestamp_ms += 1,
        |meta| meta.run_starts.push(SeriesId(3)),
    ];
    for change in changes {
        let bench = Bench::sound().await;
        bench.change_meta(change).await;
        Bench::expect(&bench.check().await, &[(ProblemKind::Meta, meta.clone())]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_journal_covers_is_a_note() {
    let bench = Bench::sound().await;
    let db = bench.open().await;
    let other = Bucket::hour(BucketStart(bucket().start.minutes() + 60));
    db.write(|batch| {
        announce(batch, "d");
        float(batch, T0 + 700, 0);
        float(batch, T0 + HOUR_MS, 0);
        Ok::<(), ()>(())
    })
    .await
    .unwrap();
    // As if the process had died in a flush of both hours.
    drop(db);
    bench.put(forward_key(3), forward("d")).await;
    bench
        .put(key::forward_index(other, SeriesId(0)), forward("d"))
        .await;
    let report = bench.check().await;
    Bench::expect(&report, &[]);
    let noted: Vec<&str> = report.notes.iter().map(|note| note.text.as_str()).collect();
    assert_eq!(noted.len(), 2, "{noted:?}");
    assert!(
        noted.iter().all(|text| text.contains("has not committed")),
        "{noted:?}"
    );
    assert_eq!(report.counts.journal_definitions, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn cursors_must_not_be_ahead() {
    let far = flush_cursor::encode(1_000_000);
    Bench::check_put(
        key::flush_cursor(bucket()),
        far.clone(),
        &[ProblemKind::Cursor],
    )
    .await;
    Bench::check_put(key::catalog_cursor(), far, &[ProblemKind::Cursor]).await;
    let other = Bucket::hour(BucketStart(0));
    let near = flush_cursor::encode(1);
    Bench::check_put(key::flush_cursor(other), near, &[ProblemKind::Cursor]).await;
}

fn journal_record(refs: &[u32], define: bool, blocks: usize) -> Vec<u8> {
    let mut encoder = BlockEncoder::new();
    let blocks: Vec<Vec<u8>> = (0..blocks)
        .map(|_| {
            for number in refs.iter().filter(|_| define) {
                encoder.define(*number, labels("j").iter());
            }
            let times: Vec<i64> = refs.iter().map(|_| T0).collect();
            let values: Vec<f64> = refs.iter().map(|_| 1.0).collect();
            encoder.floats(refs, &times, &values);
            encoder.finish()
        })
        .collect();
    encode_record(&blocks)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_journal_must_be_complete() {
    let at = |seq| key::journal(500, seq);
    let with = async |records: Vec<(Bytes, Vec<u8>)>| {
        let bench = Bench::sound().await;
        for (key, value) in records {
            bench.put(key, value).await;
        }
        bench.check().await
    };
    let good = journal_record(&[1, 2], true, 2);
    let report = with(vec![
        (at(10), good.clone()),
        (at(12), journal_record(&[2], false, 1)),
    ])
    .await;
    Bench::expect(&report, &[]);
    // The sound database has one of its own.
    assert_eq!(report.counts.journal_blocks, 4);

    let report = with(vec![(at(10), good.clone()), (at(13), good.clone())]).await;
    Bench::expect(&report, &[(ProblemKind::Journal, at(13))]);
    let report = with(vec![(at(10), good.clone()), (at(11), good.clone())]).await;
    Bench::expect(&report, &[(ProblemKind::Journal, at(11))]);
    let next = key::journal(501, 11);
    let report = with(vec![(at(10), good.clone()), (next.clone(), good.clone())]).await;
    Bench::expect(&report, &[(ProblemKind::Journal, next)]);
    let undefined = journal_record(&[3], false, 1);
    let report = with(vec![(at(10), good.clone()), (at(12), undefined)]).await;
    Bench::expect(&report, &[(ProblemKind::Journal, at(12))]);
    let report = with(vec![(at(10), good), (at(12), b"\x01garbage".to_vec())]).await;
    Bench::expect(&report, &[(ProblemKind::Value, at(12))]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_file_is_a_problem_and_not_a_failure() {
    use futures::TryStreamExt as _;
    let bench = Bench::sound().await;
    let folder = Path::from("db/compacted");
    let files: Vec<_> = bench.store.list(Some(&folder)).try_collect().await.unwrap();
    assert!(!files.is_empty());
    for file in files {
        bench.store.delete(&file.location).await.unwrap();
    }
    let report = bench.check().await;
    assert!(!report.is_clean());
    assert!(
        report.problems.iter().all(|p| p.kind == ProblemKind::Store),
        "{report:#?}"
    );
    assert!(report.restarts > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_so_many_problems_are_spelled_out() {
    let bench = Bench::sound().await;
    for id in 10..15 {
        bench.put(samples_key(id), stream(T0)).await;
    }
    let store = Some(Arc::clone(&bench.store));
    let mut inspector = Inspector::open_on(&bench.options.store, store)
        .await
        .unwrap();
    let report = inspector
        .check(CheckOptions { problems_max: 2 })
        .await
        .unwrap();
    assert_eq!((report.problems.len(), report.problems_total), (2, 5));
    assert_eq!(report.problems_by_kind[&ProblemKind::NoSeries], 5);
    inspector.close().await.unwrap();
}
