//! The read cache changes what a selection costs, never what it says.

use icecore_model::{MatchOp, Matcher, SeriesSamples, SeriesStream};
use icecore_storage::testing::Hooks;
use icecore_storage::{Database, Options};

use crate::support::*;

/// Series that two targets expose, and a third one that is alone with its times.
const SERIES: [(&str, i64); 5] = [("a1", 0), ("a2", 0), ("b1", 70), ("b2", 70), ("c", 333)];

fn samples(hours: std::ops::Range<i64>) -> Vec<(&'static str, i64, f64)> {
    let mut samples = Vec::new();
    for hour in hours {
        for step in 0..60 {
            for (series, offset) in SERIES {
                let time = T0 + hour * HOUR + step * 60_000 + offset;
                samples.push((series, time, (hour * 100 + step) as f64 / 4.0));
            }
        }
    }
    samples
}

async fn select(db: &Database, selection: icecore_model::Selection) -> Vec<SeriesSamples> {
    let mut stream = db.select(selection).await.unwrap();
    let mut found = Vec::new();
    while let Some(batch) = stream.next_batch().await.unwrap() {
        found.extend(batch);
    }
    found
}

fn misses(db: &Database) -> u64 {
    db.metrics().chunk_cache_misses.get()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn series_with_the_same_times_share_a_column() {
    let (db, _dir) = open_local().await;
    write(&db, &samples(0..3)).await;
    for place in ["head", "buckets", "both"] {
        let found = select(&db, everything()).await;
        let column = |at: usize| found[at].floats.timestamps.identity();
        assert_eq!(column(0), column(1), "{place}");
        assert_eq!(column(2), column(3), "{place}");
        assert_ne!(column(0), column(2), "{place}");
        assert_ne!(column(2), column(4), "{place}");
        let hour = selection(Vec::new(), T0 + HOUR + 1, T0 + HOUR + 120_000);
        let found = select(&db, hour).await;
        let column = |at: usize| found[at].floats.timestamps.identity();
        assert_eq!((column(0), column(2)), (column(1), column(3)), "{place}");
        assert_eq!(found[0].floats.timestamps.len(), 2, "{place}");
        match place {
            "head" => db.flush().await.unwrap(),
            _ => drop(write(&db, &samples(3..4)).await),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_second_read_decodes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let location = dir.path().to_string_lossy().to_string();
    let db = open(options(&location)).await;
    let all = samples(0..3);
    write(&db, &all).await;
    for _ in 0..2 {
        assert_eq!(read(&db, everything()).await, expected(&all));
    }
    assert_eq!(misses(&db), 15, "five series, three hours of the head");
    assert_eq!(db.metrics().chunk_cache_hits.get(), 15);
    db.flush().await.unwrap();
    for _ in 0..2 {
        assert_eq!(read(&db, everything()).await, expected(&all));
    }
    assert_eq!(misses(&db), 30, "once more, from buckets");
    // A part of an hour that is known needs nothing new.
    let part = selection(Vec::new(), T0 + HOUR, T0 + HOUR + 300_000);
    assert_eq!(read(&db, part).await.len(), SERIES.len());
    assert_eq!(misses(&db), 30);
    db.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn late_flushes_are_seen() {
    let (db, _dir) = open_local().await;
    let mut all = samples(0..2);
    write(&db, &all).await;
    db.flush().await.unwrap();
    let like = |value: &str| Matcher::new(MatchOp::Regex, "series", value).unwrap();
    for round in 0..4 {
        assert_eq!(read(&db, everything()).await, expected(&all));
        let new = ["n0", "n1", "n2", "n3"][round as usize];
        // An overwritten sample, one in between, and a series that the bucket does not have yet.
        let late = [
            ("a1", T0 + 60_000, f64::from(round)),
            ("b1", T0 + 1 + i64::from(round), -1.5),
            (new, T0 + HOUR + 5, 1e300),
        ];
        write(&db, &late).await;
        all.extend(late);
        assert_eq!(
            read(&db, everything()).await,
            expected(&all),
            "over the bucket"
        );
        let found = read(&db, selection(vec![like("n.*")], 0, i64::MAX)).await;
        assert_eq!(found.len(), round as usize + 1);
        db.flush_buckets().await.unwrap();
        assert_eq!(
            read(&db, everything()).await,
            expected(&all),
            "in the bucket"
        );
        let found = read(&db, selection(vec![like("n.*")], 0, i64::MAX)).await;
        assert_eq!(found.len(), round as usize + 1);
        let found = read(
            &db,
            selection(vec![Matcher::equal("series", new)], 0, i64::MAX),
        )
        .await;
        assert_eq!(found.len(), 1, "{new} was asked for before it was there");
        let next = ["n1", "n2", "n3", "n4"][round as usize];
        let found = read(
            &db,
            selection(vec![Matcher::equal("series", next)], 0, i64::MAX),
        )
        .await;
        assert_eq!(found.len(), 0);
    }
}

/// A stream that was opened before a flush goes on with what it saw.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_stream_keeps_its_state() {
    let mut options = options("memory://");
    options.read.batch_series = 1;
    let db = open(options).await;
    let first = samples(0..2);
    write(&db, &first).await;
    db.flush_buckets().await.unwrap();
    for warm in [false, true] {
        let before = read(&db, everything()).await;
        let mut stream = db.select(everything()).await.unwrap();
        let mut found = stream.next_batch().await.unwrap().unwrap();
        let late: Vec<_> = SERIES
            .map(|(s, _)| (s, T0 + 7 + i64::from(warm), 5.5))
            .into();
        write(&db, &late).await;
        db.flush_buckets().await.unwrap();
        assert_ne!(
            read(&db, everything()).await,
            before,
            "others see the flush"
        );
        while let Some(batch) = stream.next_batch().await.unwrap() {
            found.extend(batch);
        }
        for series in found {
            let name = series.labels.get("series").unwrap();
            let times: Vec<i64> = before[name].keys().copied().collect();
            assert_eq!(*series.floats.timestamps, *times, "{name}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_do_not_depend_on_the_limit() {
    let all = samples(0..4);
    for bytes in [0, 1, 3_000, 20_000, 1 << 30] {
        let mut options: Options = options("memory://");
        options.read.chunk_cache_bytes = bytes;
        let db = open(options).await;
        write(&db, &all).await;
        for place in ["head", "buckets"] {
            for _ in 0..3 {
                let found = read(&db, everything()).await;
                assert_eq!(found, expected(&all), "{bytes} bytes, {place}");
                let one = selection(vec![Matcher::equal("series", "c")], T0, T0 + HOUR);
                assert_eq!(
                    read(&db, one).await["c"].len(),
                    60,
                    "{bytes} bytes, {place}"
                );
                // Label sets and times that the last answer still held go with the next one.
                let used = db.gauges().chunk_cache_bytes;
                assert!(
                    used <= bytes + 12_000,
                    "{used} bytes are kept, {bytes} allowed"
                );
            }
            db.flush_buckets().await.unwrap();
        }
    }
}

/// Readers and flushes at the same time: every answer holds at least what was there before it was
/// asked for, and nothing that was never written.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn readers_and_flushes_do_not_disturb_each_other() {
    let mut options = options("memory://");
    options.read.chunk_cache_bytes = 30_000;
    let db = open(options).await;
    let written = std::sync::Arc::new(std::sync::atomic::AtomicI64::new(0));
    let writer = {
        let (db, written) = (db.clone(), written.clone());
        tokio::spawn(async move {
            for step in 0..60i64 {
                let time = T0 + (step * 37 % 60) * 60_000;
                let samples: Vec<_> = SERIES.map(|(s, o)| (s, time + o, step as f64)).into();
                write(&db, &samples).await;
                written.store(step + 1, std::sync::atomic::Ordering::SeqCst);
                if step % 4 == 3 {
                    db.flush_buckets().await.unwrap();
                }
            }
        })
    };
    while !writer.is_finished() {
        let least = written.load(std::sync::atomic::Ordering::SeqCst) as usize;
        let found = read(&db, everything()).await;
        assert!(least == 0 || found.len() == SERIES.len());
        for (series, samples) in &found {
            assert!(
                samples.len() >= least,
                "{series}: {} of {least}",
                samples.len()
            );
            for (time, bits) in samples {
                let step = f64::from_bits(*bits) as i64;
                assert_eq!((time - T0) / 60_000, step * 37 % 60);
            }
        }
    }
    writer.await.unwrap();
}
