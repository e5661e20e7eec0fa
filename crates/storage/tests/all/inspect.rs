//! Looking into a database beside its writer: what is seen, that nothing is written, and that a
//! busy writer is no problem.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use icecore_model::{
    BucketSize, Exemplar, Histogram, HistogramCounts, Labels, Metadata, MetricType, RawLabels,
    Sample, SampleSink, Span,
};
use icecore_storage::inspect::{
    Bucket, CheckCounts, CheckOptions, CheckReport, Inspector, RecordSelection, RecordType,
    RecordView, StatisticsQuery, check,
};
use icecore_storage::testing::{Hooks, JobHooks};
use icecore_storage::{Database, Options, StoreOptions};

use crate::support::*;

async fn clean(options: &StoreOptions) -> CheckReport {
    let report = check(options, None).await.expect("the check runs");
    assert!(report.is_clean(), "{report:#?}");
    report
}

fn histogram(sum: f64) -> Histogram {
    Histogram {
        schema: 2,
        reset_hint: Default::default(),
        zero_threshold: 0.001,
        sum,
        counts: HistogramCounts::Integer {
            count: 3,
            zero_count: 1,
            positive_deltas: vec![1, 0],
            negative_deltas: Vec::new(),
        },
        positive_spans: vec![Span {
            offset: 1,
            length: 2,
        }],
        negative_spans: Vec::new(),
        custom_bounds: Arc::from([]),
    }
}

/// Everything that a database can hold, at one time of one series.
async fn write_all_kinds(db: &Database, series: &'static str, timestamp_ms: i64) {
    db.write(move |batch| {
        batch.series(RawLabels(&raw("m", series)));
        batch.sample(Sample {
            timestamp_ms,
            value: 1.0,
            start_timestamp_ms: timestamp_ms - 10,
        });
        batch.exemplar(Exemplar {
            labels: Labels::from_pairs([("trace_id", series)]),
            timestamp_ms,
            value: 2.0,
        });
        batch.series(RawLabels(&raw("h", series)));
        batch.histogram(timestamp_ms, 0, histogram(timestamp_ms as f64));
        let metadata = Metadata {
            metric_type: MetricType::Histogram,
            unit: "seconds".into(),
            help: "how long".into(),
            ..Metadata::default()
        };
        batch.metadata("h", metadata);
        Ok::<(), ()>(())
    })
    .await
    .expect("the write succeeds");
}

/// Several flushes, late data, histograms under floats, and something that is only in the journal.
async fn rich(db: &Database) {
    write_all_kinds(db, "b", T0).await;
    write_all_kinds(db, "c", T0 + HOUR).await;
    db.flush().await.expect("the flush succeeds");
    write_all_kinds(db, "a", T0 + 1).await;
    write_all_kinds(db, "b", T0).await;
    write(db, &[("b", T0 - 5 * HOUR, 1.0), ("b", T0 + 15_000, 2.0)]).await;
    db.flush().await.expect("the flush succeeds");
    write_all_kinds(db, "d", T0 + 2).await;
    write(db, &[("e", T0 + 2 * HOUR, 1.0)]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_is_clean_at_every_stage() {
    let dir = tempfile::tempdir().unwrap();
    let options = options(&dir.path().to_string_lossy());
    let db = open(options.clone()).await;
    let report = clean(&options.store).await;
    // Maintenance may have noted its time already.
    let maintenance = report.counts.records.get(&RecordType::Maintenance);
    let others = report.counts.records_total() - maintenance.copied().unwrap_or(0);
    assert_eq!(others, 0, "{report:#?}");

    rich(&db).await;
    let report = clean(&options.store).await;
    let counts = &report.counts;
    assert_eq!(counts.buckets, 3);
    assert!(
        counts.journal_epochs >= 1 && counts.journal_entries >= 5,
        "{counts:?}"
    );
    assert_eq!(counts.float_samples, 5);
    assert_eq!((counts.histogram_samples, counts.exemplars), (3, 3));

    drop(db); // As if the process had been killed, whose lock would be gone.
    clean(&options.store).await;
    let mut taking_over = options.clone();
    taking_over.store.take_over = true;
    let db = open(taking_over).await;
    clean(&options.store).await;
    db.close().await.unwrap();
    let report = clean(&options.store).await;
    assert_eq!(report.counts.buckets, 4);
    assert_eq!(report.counts.float_samples, 7);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_is_clean_while_its_buckets_become_coarse() {
    let (db, dir) = open_local().await;
    let options = options(&dir.path().to_string_lossy());
    rich(&db).await;
    // Times that are not regular and that two series have in common.
    let shared = (0..20).map(|i| T0 + HOUR + 1000 * i + i * i);
    let shared = shared.flat_map(|t| [("x", t, 1.5), ("y", t, 2.5)]);
    write(&db, &shared.collect::<Vec<_>>()).await;
    db.flush_buckets().await.expect("the flush succeeds");
    let hours = clean(&options.store).await.counts;

    let size = BucketSize::from_exponent(5).expect("between 1 and 15");
    let start = size
        .bucket_of(T0 + HOUR)
        .expect("a time that can be stored");
    let interrupted = db.coarsen_now(5, start, Some(3)).await;
    assert!(interrupted.is_err());
    // What a job writes is durable only when it ends; an inspector sees nothing before.
    db.write_memtables().await.expect("memtables are written");
    let half = clean(&options.store).await.counts;
    assert!(half.unfinished_records > 0, "{half:?}");
    assert_eq!(samples(&half), samples(&hours));

    db.coarsen_now(5, start, None).await.expect("it is done");
    let coarse = clean(&options.store).await.counts;
    assert!(coarse.time_columns > 0, "{coarse:?}");
    assert!(coarse.retired_records > 0, "{coarse:?}");
    assert_eq!((coarse.unfinished_records, coarse.unknown_records), (0, 0));
    assert_eq!(samples(&coarse), samples(&hours));

    // Late: a new series, a histogram, and a sample in the place of another.
    write_all_kinds(&db, "z", T0 + HOUR + 5).await;
    write(&db, &[("x", T0 + HOUR + 1001, 7.0)]).await;
    db.flush_buckets().await.expect("the flush succeeds");
    let late = clean(&options.store).await.counts;
    assert_eq!(late.float_samples, coarse.float_samples + 1);
    assert_eq!(late.histogram_samples, coarse.histogram_samples + 1);

    let mut inspector = Inspector::open(&options.store).await.unwrap();
    let everything = RecordSelection {
        details: true,
        ..RecordSelection::default()
    };
    for record in records(&mut inspector, &everything).await {
        assert_eq!(record.problem, None, "{}", record.name);
        assert!(!record.facts.is_empty(), "{}", record.name);
    }
    let overview = inspector.overview().await.unwrap();
    assert!(overview.problems.is_empty() && overview.unlisted.is_empty());
    assert!(!overview.retired.is_empty() && overview.job.is_none());
    assert!(overview.buckets.iter().any(|bucket| bucket.late_hours > 0));
    inspector.close().await.unwrap();

    db.fold_now(Bucket { size, start }).await.expect("it folds");
    let folded = clean(&options.store).await.counts;
    assert_eq!(samples(&folded), samples(&late));
    db.close().await.unwrap();
    clean(&options.store).await;
}

fn samples(counts: &CheckCounts) -> (u64, u64, u64) {
    let (floats, histograms) = (counts.float_samples, counts.histogram_samples);
    (floats, histograms, counts.exemplars)
}

async fn records(inspector: &mut Inspector, selection: &RecordSelection) -> Vec<RecordView> {
    let mut found = Vec::new();
    let shown = inspector
        .records(selection, |record| {
            found.push(record);
            true
        })
        .await
        .expect("records are read");
    assert_eq!(shown as usize, found.len());
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_overview_and_statistics_show_what_is_there() {
    let (db, dir) = open_local().await;
    rich(&db).await;
    let options = options(&dir.path().to_string_lossy());
    let mut inspector = Inspector::open(&options.store).await.unwrap();

    let overview = inspector.overview().await.unwrap();
    assert_eq!(overview.buckets.len(), 3);
    assert!(overview.problems.is_empty() && overview.unlisted.is_empty());
    let first = overview
        .buckets
        .iter()
        .find(|b| b.bucket.start_ms() == T0)
        .unwrap();
    assert_eq!((first.series, first.runs), (4, 2));
    assert_eq!(overview.metadata, 1);
    let last_epoch = overview.epochs.last().unwrap();
    assert_eq!(
        last_epoch.last_sequence - last_epoch.first_sequence + 1,
        last_epoch.blocks
    );

    let everything = RecordSelection {
        details: true,
        ..RecordSelection::default()
    };
    let all = records(&mut inspector, &everything).await;
    assert!(all.is_sorted_by(|a, b| a.key < b.key));
    for record in &all {
        assert_eq!(record.problem, None, "{}", record.name);
        assert!(!record.facts.is_empty(), "{}", record.name);
    }
    let of_bucket = RecordSelection {
        record_type: Some(RecordType::ForwardIndex),
        bucket: Some(first.bucket),
        ..RecordSelection::default()
    };
    let found = records(&mut inspector, &of_bucket).await;
    assert_eq!(found.len(), 4);
    let by_prefix = RecordSelection {
        prefix: found[0].key[..6].to_vec(),
        from: found[1].key.clone(),
        to: Some(found[3].key.clone()),
        ..RecordSelection::default()
    };
    let part = records(&mut inspector, &by_prefix).await;
    let keys = |found: &[RecordView]| found.iter().map(|r| r.key.clone()).collect::<Vec<_>>();
    assert_eq!(keys(&part), keys(&found[1..3]));
    let limited = RecordSelection {
        limit: Some(3),
        ..RecordSelection::default()
    };
    assert_eq!(
        keys(&records(&mut inspector, &limited).await),
        keys(&all[..3])
    );
    let by_type: usize = {
        let mut sum = 0;
        for record_type in RecordType::ALL {
            let selection = RecordSelection {
                record_type: Some(record_type),
                ..RecordSelection::default()
            };
            sum += records(&mut inspector, &selection).await.len();
        }
        sum
    };
    assert_eq!(by_type, all.len());

    let statistics = inspector
        .statistics(&StatisticsQuery::default())
        .await
        .unwrap();
    assert_eq!((statistics.series, statistics.samples), (6, 8));
    let metric = |name: &str| statistics.metrics.iter().find(|m| m.name == name).unwrap();
    assert_eq!((metric("m").series, metric("m").samples), (3, 5));
    assert_eq!((metric("h").series, metric("h").samples), (3, 3));
    let label = statistics
        .labels
        .iter()
        .find(|l| l.name == "series")
        .unwrap();
    assert_eq!((label.values, label.series, label.samples), (3, 6, 8));
    let late = StatisticsQuery {
        start_ms: T0 + HOUR,
        ..StatisticsQuery::default()
    };
    assert_eq!(inspector.statistics(&late).await.unwrap().buckets, 1);
    inspector.close().await.unwrap();
    db.close().await.unwrap();
}

/// Names, content and times of all files and directories.
fn listing(directory: &Path) -> BTreeMap<String, (Vec<u8>, std::time::SystemTime)> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(directory).expect("the store is readable") {
        let entry = entry.expect("the store is readable");
        let (path, metadata) = (
            entry.path(),
            entry.metadata().expect("the store is readable"),
        );
        let content = if metadata.is_dir() {
            Vec::new()
        } else {
            std::fs::read(&path).expect("the store is readable")
        };
        if metadata.is_dir() {
            found.extend(listing(&path));
        }
        found.insert(
            path.display().to_string(),
            (content, metadata.modified().expect("the store is readable")),
        );
    }
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn looking_writes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let options = options(&dir.path().to_string_lossy());
    let db = open(options.clone()).await;
    rich(&db).await;
    db.close().await.unwrap();
    let before = listing(dir.path());
    clean(&options.store).await;
    let mut inspector = Inspector::open(&options.store).await.unwrap();
    inspector.overview().await.unwrap();
    inspector
        .statistics(&StatisticsQuery::default())
        .await
        .unwrap();
    records(&mut inspector, &RecordSelection::default()).await;
    inspector.close().await.unwrap();
    assert_eq!(listing(dir.path()), before);
    let nowhere = dir.path().join("nowhere");
    let missing = StoreOptions {
        location: nowhere.to_string_lossy().into(),
        ..options.store.clone()
    };
    assert!(check(&missing, None).await.is_err());
    assert!(!nowhere.exists());
}

/// Writes, flushes and drains without a pause, on a store that keeps nothing longer than it must.
fn busy_options(location: &str) -> Options {
    let mut options = options(location);
    options.store.gc_interval = Duration::from_millis(500);
    // Four times as long as the writer itself waits to look for a newer manifest, so that a check
    // on a busy machine ends before its files go.
    options.store.gc_min_age = Duration::from_secs(4);
    options.store.l0_sst_bytes = 64 << 10;
    options.store.unflushed_bytes_max = 1 << 20;
    options.head.flush_batch_records = 16;
    options
}

/// Waits until so many more hours have been flushed.
async fn flushed_more(db: &Database, hours: u64) {
    let wanted = db.metrics().flushed_hours.get() + hours;
    until("hours are flushed", || {
        db.metrics().flushed_hours.get() >= wanted
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_busy_writer_is_no_problem() {
    let dir = tempfile::tempdir().unwrap();
    let options = busy_options(&dir.path().to_string_lossy());
    let db = open(options.clone()).await;
    let stop = Arc::new(AtomicBool::new(false));
    let writer = tokio::spawn({
        let (db, stop) = (db.clone(), Arc::clone(&stop));
        async move {
            let mut round = 0i64;
            while !stop.load(Relaxed) {
                let samples = (0..200).map(|i| {
                    // Old series with new samples, new series between them, three hours.
                    let series = format!("{}", (i * 37 + round * 11) % 1000);
                    (series, T0 + (i % 3) * HOUR + round * 1000 + i, 1.0)
                });
                try_write(&db, samples.collect()).await.expect("written");
                if round % 4 == 3 {
                    db.flush().await.expect("flushed");
                }
                round += 1;
            }
            round
        }
    });
    // Something is in buckets and in files: what is only in the log a reader has in memory.
    flushed_more(&db, 1).await;
    db.write_memtables().await.unwrap();
    for _ in 0..3 {
        clean(&options.store).await;
    }
    // Files are not deleted any sooner while there is a reader.
    let held = Inspector::open(&options.store).await.unwrap();
    assert!(!db.collect_garbage_now().await.unwrap());
    held.close().await.unwrap();
    // A state of which files are gone is given up for the one of now. How soon files go depends on
    // what the compactor has under way: another state is held until some of its files are gone.
    let give_up = Instant::now() + PATIENCE;
    let mut restarts = 0;
    while restarts == 0 {
        assert!(Instant::now() < give_up, "no file has vanished");
        let mut held = Inspector::open(&options.store).await.unwrap();
        let old = Instant::now() + options.store.gc_min_age;
        while Instant::now() < old {
            flushed_more(&db, 8).await;
        }
        let report = held.check(CheckOptions::default()).await.unwrap();
        assert!(report.is_clean(), "{report:#?}");
        restarts = report.restarts;
        held.close().await.unwrap();
    }
    for _ in 0..3 {
        clean(&options.store).await;
    }
    stop.store(true, Relaxed);
    let rounds = writer.await.unwrap();
    assert!(rounds >= 8, "{rounds} rounds");
    db.close().await.unwrap();
    clean(&options.store).await;
}
