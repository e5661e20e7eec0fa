//! What was acknowledged comes back: from the head, from buckets, after a restart.

use std::time::Duration;

use icecore_model::{AppendError, RawLabels, Sample, SampleSink, SampleStore};

use crate::support::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn samples_come_back_from_head_buckets_and_after_restart() {
    let dir = tempfile::tempdir().unwrap();
    let location = dir.path().to_string_lossy().to_string();
    let db = open(options(&location)).await;
    let first = [
        ("a", T0, 1.0),
        ("b", T0 + 1, -0.0),
        ("a", T0 + 15_000, 2.5),
        ("a", T0 + HOUR, 3.0),
    ];
    let outcome = write(&db, &first).await;
    assert_eq!((outcome.samples, outcome.rejected.len()), (4, 0));
    assert_eq!(db.metrics().series_created.get(), 2);
    assert_eq!(
        read(&db, everything()).await,
        expected(&first),
        "from the head"
    );

    db.flush().await.unwrap();
    assert_eq!(db.gauges().open_hours, 0);
    assert_eq!(db.gauges().buckets, 2);
    assert_eq!(
        read(&db, everything()).await,
        expected(&first),
        "from buckets"
    );

    let late = [("a", T0 + 5_000, 9.0), ("a", T0, 7.0), ("c", T0 + 2, 4.0)];
    write(&db, &late).await;
    let all = [first.as_slice(), &late].concat();
    assert_eq!(
        read(&db, everything()).await,
        expected(&all),
        "late samples over buckets"
    );

    // No close: as if the process had been killed, whose lock would be gone.
    drop(db);
    let mut taking_over = options(&location);
    taking_over.store.take_over = true;
    let db = open(taking_over.clone()).await;
    assert_eq!(
        read(&db, everything()).await,
        expected(&all),
        "after a crash"
    );
    db.flush().await.unwrap();
    assert_eq!(
        read(&db, everything()).await,
        expected(&all),
        "merged into buckets"
    );
    db.close().await.unwrap();
    let db = open(taking_over).await;
    assert_eq!(
        read(&db, everything()).await,
        expected(&all),
        "after a clean restart"
    );
    assert_eq!(db.gauges().journal_epochs, 0, "the journal was drained");
}

/// On a remote store each commit is a PUT that is paid for, however large it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_requests_keep_the_commit_interval() {
    let interval = std::time::Duration::from_millis(150);
    let mut options = options("memory://");
    options.journal.commit_interval = Some(interval);
    let db = open(options).await;
    let began = std::time::Instant::now();
    for request in 0..3 {
        let fraction = |i: i64| (i as f64).sqrt();
        let samples =
            (0..10_000).map(|i| ("a".to_string(), T0 + request * 10_000 + i, fraction(i)));
        try_write(&db, samples.collect()).await.unwrap();
    }
    assert!(
        db.metrics().journal_bytes.get() > 3 * (64 << 10),
        "the requests are not large"
    );
    assert!(
        began.elapsed() >= 2 * interval,
        "three commits came within {:?}",
        began.elapsed()
    );
}

/// Samples of series `a`, one per value, and then the result.
fn fill_with(
    values: &'static [f64],
    result: Result<(), &'static str>,
) -> impl FnOnce(&mut dyn SampleSink) -> Result<(), &'static str> + Send {
    move |sink| {
        sink.series(RawLabels(&raw("m", "a")));
        for (timestamp_ms, value) in (T0..).zip(values) {
            sink.sample(Sample {
                timestamp_ms,
                value: *value,
                start_timestamp_ms: 0,
            });
        }
        result
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_appended_through_the_trait_is_seen_at_once_and_what_is_refused_never() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = options(&dir.path().to_string_lossy());
    options.limits.samples_per_request_max = 1;
    let db = open(options).await;
    let store: &dyn SampleStore = &db;
    let append = |values, result| store.append(Duration::ZERO, fill_with(values, result));

    let discarded = append(&[1.0], Err("cut off")).await.err();
    assert!(matches!(discarded, Some(AppendError::Fill("cut off"))));
    let refused = append(&[1.0, 2.0], Ok(())).await.err();
    let Some(AppendError::Refused(error)) = refused else {
        panic!("two samples are too many")
    };
    let text = error.to_string();
    assert!(text.starts_with("2 samples in one request"), "{text}");
    assert_eq!(read(&db, everything()).await, expected(&[]));

    let appended = append(&[1.0], Ok(())).await.unwrap();
    assert_eq!(appended.outcome.samples, 1);
    let one = expected(&[("a", T0, 1.0)]);
    assert_eq!(read(&db, everything()).await, one);
    appended.commit.await.unwrap();
    assert_eq!(db.metrics().requests.get(), 1);
}
