//! Coarse buckets, built of raw records: what is sound is clean, each kind of damage is found, and
//! what comes and goes with maintenance is only counted.

use icecore_model::BucketSize;
use icecore_records::columns::{Times, time_column};
use icecore_records::maintenance_job::{self, Counts, Job, JobKind, JobSource, Phase};
use icecore_records::{
    BucketMeta, HistogramEntry, RetentionState, coarse_samples, histogram_series, merge,
    retention_state, retired_bucket,
};

use super::*;

fn four_hours() -> Bucket {
    let size = BucketSize::from_exponent(3).unwrap();
    let start = size.bucket_of(T0).unwrap();
    Bucket { size, start }
}

fn sixteen_hours() -> Bucket {
    let size = BucketSize::from_exponent(5).unwrap();
    let start = size.bucket_of(T0).unwrap();
    Bucket { size, start }
}

/// Irregular, so that sharing pays.
fn shared_times() -> Vec<i64> {
    (0..6).map(|i| T0 + 15_000 * i + i * i).collect()
}

fn columns_with(times: Times<'_>, values: &[f64]) -> Bytes {
    coarse_samples::encode_columns(four_hours().start_ms(), times, values).into()
}

fn shared(column: u32, first: u32, len: u32) -> Bytes {
    let values: Vec<f64> = (0..len).map(f64::from).collect();
    columns_with(Times::Shared { column, first, len }, &values)
}

fn late(timestamp_ms: i64) -> Bytes {
    coarse_samples::late_stream(&stream(timestamp_ms))
}

fn histograms(times: &[i64]) -> Vec<HistogramEntry> {
    let entry = |timestamp_ms: &i64| HistogramEntry {
        timestamp_ms: *timestamp_ms,
        value: Some(Arc::new(histogram())),
    };
    times.iter().map(entry).collect()
}

fn lined_up(key: &Bytes, parts: &[Bytes]) -> Bytes {
    merge(key, None, parts).unwrap()
}

fn samples_at(id: u32) -> Bytes {
    key::time_series(four_hours(), SeriesId(id))
}

fn histograms_at(id: u32) -> Bytes {
    key::histogram_series(four_hours(), SeriesId(id))
}

fn column_at(id: u32) -> Bytes {
    key::time_column(four_hours(), id)
}

fn job(target: Bucket, sources: &[Bucket]) -> Vec<u8> {
    let source = |bucket: &Bucket| JobSource {
        bucket: *bucket,
        meta_hash: 7,
    };
    maintenance_job::encode(&Job {
        kind: JobKind::Coarsen,
        target,
        sources: sources.iter().map(source).collect(),
        phase: Phase::Samples { next_id: 1 },
        counts: Counts::default(),
    })
}

/// Series `a` and `b` with shared times and a late sample, `c` with times of its own, `h` with
/// histograms; the hour has been replaced and dropped.
fn records() -> Vec<(Bytes, Bytes)> {
    let bucket = four_hours();
    let times = shared_times();
    let mut all: Vec<(Bytes, Bytes)> = Vec::new();
    for (id, name) in (0..).zip(["a", "b", "c", "h"]) {
        let fingerprint = labels(name).fingerprint();
        let ids = [SeriesId(id)];
        all.push((
            key::series_dictionary(bucket, fingerprint),
            series_dictionary::encode(&ids),
        ));
        all.push((
            key::forward_index(bucket, SeriesId(id)),
            forward(name).into(),
        ));
        all.push((key::inverted_index(bucket, "series", name), postings(&[id])));
    }
    all.push((
        key::inverted_index(bucket, "__name__", "m"),
        postings(&[0, 1, 2, 3]),
    ));
    let start_ms = bucket.start_ms();
    all.push((column_at(0), time_column::encode(start_ms, &times).into()));
    all.push((samples_at(0), shared(0, 0, 6)));
    let parts = [shared(0, 1, 4), late(times[0]), late(times[2])];
    all.push((samples_at(1), lined_up(&samples_at(1), &parts)));
    let own = columns_with(Times::Own(&times[..3]), &[1.0, 2.0, 3.0]);
    all.push((samples_at(2), own));
    let base = histogram_series::encode_columns(&histograms(&times)).into();
    let newer = histogram_series::encode(&histograms(&[T0 + 5, times[1]])).into();
    all.push((
        histograms_at(3),
        lined_up(&histograms_at(3), &[base, newer]),
    ));
    all.push((
        key::bucket_meta(bucket),
        bucket_meta::encode(&meta()).into(),
    ));
    let listed = bucket_list::encode(&BTreeSet::from([bucket]));
    all.push((key::bucket_list(), listed));
    all
}

/// Two of the late samples replaced others, which flushes do not know.
fn meta() -> BucketMeta {
    BucketMeta {
        next_series_id: 4,
        run_starts: vec![SeriesId(0)],
        dirty_hours: vec![(T0 / 60_000) as u32],
        float_samples: 6 + 4 + 2 + 3,
        histogram_samples: 6 + 2,
        has_histograms: true,
        min_timestamp_ms: T0,
        max_timestamp_ms: shared_times()[5],
        ..BucketMeta::default()
    }
}

async fn coarse() -> Bench {
    let bench = Bench::new();
    bench.open().await.close().await.unwrap();
    bench.put_all(records()).await;
    bench
}

async fn check_put(key: Bytes, value: impl Into<Bytes>, expected: &[ProblemKind]) {
    let bench = coarse().await;
    bench.put(key.clone(), value).await;
    let expected: Vec<_> = expected.iter().map(|kind| (*kind, key.clone())).collect();
    Bench::expect(&bench.check().await, &expected);
}

fn noted(report: &CheckReport) -> Vec<&str> {
    report.notes.iter().map(|note| note.text.as_str()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sound_coarse_bucket_is_clean_and_counted() {
    let bench = coarse().await;
    let report = bench.check().await;
    Bench::expect(&report, &[]);
    assert!(report.notes.is_empty(), "{report:#?}");
    let counts = &report.counts;
    // Parts are united: the late samples of `b` replace one and add one.
    assert_eq!((counts.series, counts.float_samples), (4, 6 + 5 + 3));
    assert_eq!((counts.histogram_samples, counts.time_columns), (7, 1));
    assert_eq!(counts.unknown_records, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn parts_that_do_not_decode_are_found() {
    let value = [ProblemKind::Value];
    check_put(samples_at(0), "\u{7f}some garbage", &value).await;
    check_put(samples_at(0), stream(T0), &value).await;
    check_put(histograms_at(3), "\u{7f}some garbage", &value).await;
    check_put(key::retired_bucket(bucket()), "\u{7f}", &value).await;
    check_put(key::maintenance_job(), "\u{7f}", &value).await;
    let broken = [shared(0, 0, 6), Bytes::from_static(b"\x02garbage")];
    check_put(samples_at(1), lined_up(&samples_at(1), &broken), &value).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn shared_times_must_be_there_and_long_enough() {
    // The second column is not there; the first has six times.
    check_put(samples_at(0), shared(1, 0, 6), &[ProblemKind::Value]).await;
    check_put(samples_at(0), shared(0, 1, 6), &[ProblemKind::Value]).await;

    let bench = coarse().await;
    bench.delete(column_at(0)).await;
    let expected = [0, 1].map(|id| (ProblemKind::Value, samples_at(id)));
    Bench::expect(&bench.check().await, &expected);

    // A column that cannot be read is said once.
    check_put(column_at(0), "\u{7f}garbage", &[ProblemKind::Value]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn times_outside_a_coarse_bucket_are_found() {
    let end = four_hours().end_ms();
    let own = columns_with(Times::Own(&[T0, end]), &[1.0, 2.0]);
    check_put(samples_at(2), own, &[ProblemKind::Time]).await;
    let outside = histogram_series::encode_columns(&histograms(&[end]));
    check_put(histograms_at(3), outside, &[ProblemKind::Time]).await;
    let column = time_column::encode(four_hours().start_ms(), &[T0, T0 + 1, end]);
    check_put(column_at(1), column, &[ProblemKind::Time]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unused_column_is_a_note() {
    let bench = coarse().await;
    let column = time_column::encode(four_hours().start_ms(), &[T0, T0 + 1]);
    bench.put(column_at(1), column).await;
    let report = bench.check().await;
    Bench::expect(&report, &[]);
    let noted = noted(&report);
    assert!(
        matches!(noted[..], [text] if text.contains("uses 1 of 2 shared columns")),
        "{noted:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn meta_must_not_say_less_than_there_is() {
    let changes: [fn(&mut BucketMeta); 4] = [
        |meta| meta.float_samples = 13,
        |meta| meta.histogram_samples = 6,
        |meta| meta.max_timestamp_ms -= 1,
        |meta| meta.has_histograms = false,
    ];
    for change in changes {
        let mut meta = meta();
        change(&mut meta);
        let value = bucket_meta::encode(&meta);
        check_put(key::bucket_meta(four_hours()), value, &[ProblemKind::Meta]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn listed_buckets_must_not_contradict_each_other() {
    let bench = Bench::sound().await;
    bench.put_all(records()).await;
    let both = bucket_list::encode(&BTreeSet::from([bucket(), four_hours()]));
    bench.put(key::bucket_list(), both).await;
    let report = bench.check().await;
    Bench::expect(&report, &[(ProblemKind::Buckets, key::bucket_list())]);

    let retired = key::retired_bucket(four_hours());
    let value = retired_bucket::encode(T0);
    check_put(retired, value, &[ProblemKind::Buckets]).await;
    let listed = job(four_hours(), &[four_hours()]);
    check_put(key::maintenance_job(), listed, &[ProblemKind::Buckets]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn retired_buckets_are_counted() {
    let bench = Bench::sound().await;
    bench.put_all(records()).await;
    let retired = key::retired_bucket(bucket());
    bench.put(retired, retired_bucket::encode(T0)).await;
    // Half of it is gone already.
    bench.delete(forward_key(0)).await;
    let report = bench.check().await;
    // The cursor of the hour stays: the coarse bucket holds it.
    Bench::expect(&report, &[]);
    assert!(report.counts.retired_records > 5, "{report:#?}");
    assert_eq!(report.counts.series, 4, "those of the coarse bucket");
    let noted = noted(&report);
    assert!(
        matches!(noted[..], [text] if text.contains("wait to be dropped")),
        "{noted:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_that_is_being_made_is_counted() {
    let bench = Bench::sound().await;
    let unlisted = records()
        .into_iter()
        .filter(|(key, _)| *key != key::bucket_list() && *key != key::bucket_meta(four_hours()));
    // Only a part of it is written.
    let written: Vec<(Bytes, Bytes)> = unlisted.skip(1).collect();
    let count = written.len() as u64;
    bench.put_all(written).await;
    let target = job(four_hours(), &[bucket()]);
    bench.put(key::maintenance_job(), target).await;
    let report = bench.check().await;
    Bench::expect(&report, &[]);
    assert_eq!(report.counts.unfinished_records, count);
    assert!(noted(&report)[0].contains("is being made"), "{report:#?}");

    // Without the job it is what a sweep removes.
    bench.delete(key::maintenance_job()).await;
    let report = bench.check().await;
    Bench::expect(&report, &[]);
    assert_eq!(report.counts.unfinished_records, count);
    assert!(noted(&report)[0].contains("sweep"), "{report:#?}");

    // Finished buckets are listed in the batch that finishes them.
    let finished = bucket_meta::encode(&meta());
    bench.put(key::bucket_meta(four_hours()), finished).await;
    let report = bench.check().await;
    assert!(
        report.problems_by_kind.contains_key(&ProblemKind::Unlisted),
        "{report:#?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_late_flush_has_not_committed_is_a_note() {
    let bench = coarse().await;
    let db = bench.open().await;
    db.write(|batch| {
        announce(batch, "z");
        float(batch, T0 + 700, 0);
        Ok::<(), ()>(())
    })
    .await
    .unwrap();
    // As if the process had died in a flush into the coarse bucket.
    drop(db);
    let id = SeriesId(4);
    bench
        .put(key::forward_index(four_hours(), id), forward("z"))
        .await;
    bench.put(samples_at(4), late(T0 + 700)).await;
    let report = bench.check().await;
    Bench::expect(&report, &[]);
    let noted = noted(&report);
    assert!(
        matches!(noted[..], [text] if text.contains("has not committed")),
        "{noted:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_overview_knows_what_comes_and_goes() {
    let bench = coarse().await;
    let job_of_16_h = job(sixteen_hours(), &[four_hours()]);
    bench
        .put_all(vec![
            (key::retired_bucket(bucket()), retired_bucket::encode(T0)),
            (samples_key(0), stream(T0).into()),
            (key::maintenance_job(), job_of_16_h.into()),
            (
                key::forward_index(sixteen_hours(), SeriesId(0)),
                forward("a").into(),
            ),
            (key::flush_cursor(bucket()), flush_cursor::encode(3)),
            // Which a writer may or may not have written before it was closed.
            (
                key::retention_state(),
                retention_state::encode(&RetentionState::default()).into(),
            ),
        ])
        .await;
    let store = Some(Arc::clone(&bench.store));
    let mut inspector = Inspector::open_on(&bench.options.store, store)
        .await
        .unwrap();
    let overview = inspector.overview().await.unwrap();
    assert!(overview.unlisted.is_empty() && overview.problems.is_empty());
    assert_eq!(overview.unknown_records, 0);
    let retired = RetiredOverview {
        bucket: bucket(),
        retired_at_ms: T0,
    };
    assert_eq!(overview.retired, [retired]);
    let running = JobOverview {
        target: sixteen_hours(),
        sources: vec![four_hours()],
        phase: "samples",
    };
    assert_eq!(overview.job, Some(running));
    let [listed] = &overview.buckets[..] else {
        panic!("{overview:#?}")
    };
    assert_eq!((listed.series, listed.late_hours), (4, 1));
    assert_eq!(listed.cursor, Some(3), "that of the hour");

    let statistics = inspector
        .statistics(&StatisticsQuery::default())
        .await
        .unwrap();
    assert_eq!((statistics.buckets, statistics.unreadable), (1, 0));
    // Floats of all parts, histograms united.
    assert_eq!(statistics.samples, (6 + 6 + 3) + 7);
    inspector.close().await.unwrap();
}

#[test]
fn coarse_records_are_described() {
    let fact = |view: &RecordView, name: &str| {
        let found = view.facts.iter().find(|(fact, _)| *fact == name);
        found.map(|(_, fact)| fact.clone())
    };
    let all = records();
    let view = |key: Bytes| {
        let found = all.iter().find(|(stored, _)| *stored == key);
        let view = describe::describe(&key, &found.unwrap().1, true);
        assert_eq!(view.problem, None, "{view:#?}");
        assert_eq!(view.bucket, Some(four_hours()));
        view
    };
    let mixed = view(samples_at(1));
    assert_eq!(fact(&mixed, "samples"), Some(Fact::Count(6)));
    assert_eq!(fact(&mixed, "parts"), Some(Fact::Count(3)));
    assert_eq!(fact(&mixed, "shared_times"), Some(Fact::Text("0".into())));
    let details = &mixed.details;
    assert_eq!(
        details[0],
        "part 0: columns, 4 samples, times in column 0 from 1"
    );
    assert_eq!(details[1], "#1 0");
    assert_eq!(details[5], "part 1: late stream, 1 samples");
    assert_eq!(details[6], format!("{T0} 1"));
    let own = view(samples_at(2));
    assert_eq!(fact(&own, "first"), Some(Fact::Time(T0)));
    assert_eq!(fact(&own, "last"), Some(Fact::Time(shared_times()[2])));
    let column = view(column_at(0));
    assert_eq!(fact(&column, "times"), Some(Fact::Count(6)));
    assert_eq!(column.details.len(), 6);
    let histograms = view(histograms_at(3));
    assert_eq!(fact(&histograms, "histograms"), Some(Fact::Count(7)));
    assert_eq!(fact(&histograms, "parts"), Some(Fact::Count(2)));

    let value = job(sixteen_hours(), &[four_hours()]).into();
    let running = describe::describe(&key::maintenance_job(), &value, true);
    let target = Fact::Text(sixteen_hours().to_string());
    assert_eq!(fact(&running, "target"), Some(target));
    assert_eq!(fact(&running, "phase"), Some(Fact::Text("samples".into())));
    let value = retired_bucket::encode(T0);
    let retired = describe::describe(&key::retired_bucket(bucket()), &value, false);
    assert_eq!(fact(&retired, "retired"), Some(Fact::Time(T0)));
    let broken = lined_up(&samples_at(1), &[late(T0), Bytes::from_static(b"\x09")]);
    let broken = describe::describe(&samples_at(1), &broken, false);
    assert!(broken.problem.is_some());
    assert_eq!(fact(&broken, "parts"), Some(Fact::Count(2)));
}
