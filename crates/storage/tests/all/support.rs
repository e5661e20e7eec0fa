//! What every test of this crate needs: a database on some store, series by name, samples back out.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use icecore_model::{
    Labels, Matcher, RawLabels, Sample, SampleSink, SelectHints, Selection, SeriesStream,
    push_raw_label,
};
use icecore_storage::{Database, Environment, ManualClock, Options, WriteError, WriteOutcome};

/// An hour with room before and after it.
pub(crate) const T0: i64 = 1_700_000_000_000 / 3_600_000 * 3_600_000;
pub(crate) const HOUR: i64 = 3_600_000;

/// Longest wait for something that has to happen. Only a test that fails reaches it, so it is far
/// beyond what a loaded machine needs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// Time between two looks at something that has to happen.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(1);

/// All samples of a selection: series as text, then value bits by time.
pub(crate) type Content = BTreeMap<String, BTreeMap<i64, u64>>;

/// Options that make tests quick: small caches, no waiting for company.
pub(crate) fn options(location: &str) -> Options {
    let mut options = Options::default();
    options.store.location = location.into();
    options.store.fsync = false;
    options.store.block_cache_bytes = 8 << 20;
    options.store.meta_cache_bytes = 4 << 20;
    options.journal.commit_interval = Some(Duration::ZERO);
    // Tests say themselves what is coarsened, and when.
    options.maintenance.enabled = false;
    options
}

/// A clock one day after `T0`, so that hours around it have long ended.
pub(crate) fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::at(T0 + 24 * HOUR))
}

pub(crate) async fn open(options: Options) -> Database {
    try_open(options).await.expect("the database opens")
}

pub(crate) async fn try_open(options: Options) -> icecore_storage::Result<Database> {
    Database::open(
        options,
        Environment {
            clock: Some(clock()),
            object_store: None,
        },
    )
    .await
}

/// Waits until something holds that others bring about.
#[track_caller]
pub(crate) fn until(what: &str, holds: impl Fn() -> bool) -> impl Future<Output = ()> {
    let caller = std::panic::Location::caller();
    async move {
        let give_up = Instant::now() + PATIENCE;
        while !holds() {
            assert!(
                Instant::now() < give_up,
                "{caller}: {what}: not within {PATIENCE:?}"
            );
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

/// Waits for the end of something that has to end.
#[track_caller]
pub(crate) fn ending<T>(what: &str, work: impl Future<Output = T>) -> impl Future<Output = T> {
    let caller = std::panic::Location::caller();
    async move {
        let ended = tokio::time::timeout(PATIENCE, work).await;
        ended.unwrap_or_else(|_| panic!("{caller}: {what}: not within {PATIENCE:?}"))
    }
}

/// A local database in a directory that goes away with the guard.
pub(crate) async fn open_local() -> (Database, tempfile::TempDir) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let db = open(options(&dir.path().to_string_lossy())).await;
    (db, dir)
}

/// Label bytes of `name{series="…"}`.
pub(crate) fn raw(name: &str, series: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    push_raw_label(&mut bytes, "__name__", name);
    push_raw_label(&mut bytes, "series", series);
    bytes
}

/// Writes `(series, timestamp, value)` as one request.
pub(crate) async fn write(db: &Database, samples: &[(&str, i64, f64)]) -> WriteOutcome {
    let owned: Vec<(String, i64, f64)> = samples
        .iter()
        .map(|(s, t, v)| (s.to_string(), *t, *v))
        .collect();
    try_write(db, owned).await.expect("the write succeeds")
}

pub(crate) async fn try_write(
    db: &Database,
    samples: Vec<(String, i64, f64)>,
) -> Result<WriteOutcome, WriteError<()>> {
    db.write(move |batch| {
        for (series, timestamp_ms, value) in samples {
            batch.series(RawLabels(&raw("m", &series)));
            batch.sample(Sample {
                timestamp_ms,
                value,
                start_timestamp_ms: 0,
            });
        }
        Ok::<(), ()>(())
    })
    .await
}

pub(crate) fn selection(matchers: Vec<Matcher>, start_ms: i64, end_ms: i64) -> Selection {
    Selection {
        matchers,
        start_ms,
        end_ms,
        hints: SelectHints::default(),
    }
}

/// Everything of metric `m`, whenever.
pub(crate) fn everything() -> Selection {
    selection(vec![Matcher::equal("__name__", "m")], 0, i64::MAX)
}

pub(crate) async fn read(db: &Database, selection: Selection) -> Content {
    let mut stream = db.select(selection).await.expect("the selection opens");
    let mut content = Content::new();
    while let Some(batch) = stream.next_batch().await.expect("the batch is read") {
        for series in batch {
            let floats = &series.floats;
            assert!(
                floats.timestamps.is_sorted_by(|a, b| a < b),
                "times ascend strictly"
            );
            let samples = floats.timestamps.iter().copied();
            let samples = samples
                .zip(floats.values.iter().map(|v| v.to_bits()))
                .collect();
            let known = content.insert(name_of(&series.labels), samples);
            assert!(known.is_none(), "{} occurs twice", series.labels);
        }
    }
    content.retain(|_, samples: &mut BTreeMap<i64, u64>| !samples.is_empty());
    content
}

fn name_of(labels: &Labels) -> String {
    labels.get("series").unwrap_or_default().to_string()
}

/// The content that a list of writes should leave, the last one of each time.
pub(crate) fn expected(samples: &[(&str, i64, f64)]) -> Content {
    let mut content = Content::new();
    for (series, time, value) in samples {
        content
            .entry(series.to_string())
            .or_default()
            .insert(*time, value.to_bits());
    }
    content
}
