//! The scripts of the Prometheus project, with every sample read from buckets of a real store.
//!
//! ```text
//! loads ─► Database ─► flushed, closed ─► opened again, its head empty ─► queries
//! ```

use std::convert::Infallible;
use std::fs;
use std::path::Path;
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use icecore_model::{Labels, RawLabels, Sample, SampleSink as _, SeriesSource, push_raw_label};
use icecore_promql::script::{Backend, LoadedSeries, LoadedValue, Report, Script, run};
use icecore_promql::{Engine, EngineOptions};
use icecore_storage::{Database, Environment, Options, WriteBatch};
use tempfile::TempDir;
use tokio::runtime::Handle;

/// Scripts that run at once: while one waits for its files, another computes.
const SCRIPTS_AT_ONCE: usize = 4;

/// A store on disk. Loads are written at once; the first query after them finds all of it in
/// buckets.
struct StoredBackend {
    runtime: Handle,
    directory: TempDir,
    writing: Mutex<Option<Database>>,
    reading: OnceLock<Database>,
    bucket_samples_read: u64,
}

impl StoredBackend {
    fn new(runtime: Handle) -> Self {
        Self {
            runtime,
            directory: tempfile::tempdir().expect("a directory"),
            writing: Mutex::new(None),
            reading: OnceLock::new(),
            bucket_samples_read: 0,
        }
    }

    fn open(&self) -> Database {
        let mut options = Options::default();
        options.store.location = self.directory.path().display().to_string();
        options.store.fsync = false;
        options.store.compaction = false;
        options.journal.commit_interval = Some(Duration::from_millis(1));
        // Scripts load years at once.
        options.limits.open_buckets_max = usize::MAX;
        options.limits.buckets_per_request_max = usize::MAX;
        let opening = Database::open(options, Environment::default());
        self.runtime.block_on(opening).expect("the store opens")
    }

    /// Closes what the last queries read from, and notes that they did.
    fn stop_reading(&mut self) {
        if let Some(database) = self.reading.take() {
            self.bucket_samples_read += database.metrics().bucket_samples_read.get();
            self.runtime.block_on(database.close()).expect("closing");
        }
    }

    fn stop_writing(&self) {
        let database = self.writing.lock().expect("no panic").take();
        if let Some(database) = database {
            self.runtime.block_on(database.close()).expect("flushing");
        }
    }
}

impl Backend for StoredBackend {
    fn load(&mut self, batch: &[LoadedSeries]) -> Result<(), String> {
        self.stop_reading();
        let mut writing = self.writing.lock().expect("no panic").take();
        let database = writing.take().unwrap_or_else(|| self.open());
        let batch = batch.to_vec();
        let written = self
            .runtime
            .block_on(database.write(move |sink| fill(sink, &batch)));
        *self.writing.lock().expect("no panic") = Some(database);
        let outcome = written.map_err(|error| error.to_string())?;
        if outcome.rejected.is_empty() {
            Ok(())
        } else {
            Err(format!("refused: {:?}", outcome.rejected))
        }
    }

    fn clear(&mut self) -> Result<(), String> {
        self.stop_reading();
        self.stop_writing();
        self.directory = tempfile::tempdir().map_err(|error| error.to_string())?;
        Ok(())
    }

    fn source(&self) -> &dyn SeriesSource {
        self.reading.get_or_init(|| {
            self.stop_writing();
            let database = self.open();
            // The journal may still name series, but every sample has gone into buckets.
            assert_eq!(database.metrics().replayed_samples.get(), 0);
            assert_eq!(database.gauges().open_hours, 0);
            database
        })
    }
}

fn fill(sink: &mut WriteBatch<'_>, batch: &[LoadedSeries]) -> Result<(), Infallible> {
    for series in batch {
        let labels = raw(&series.labels);
        sink.series(RawLabels(&labels));
        for sample in &series.samples {
            let start_timestamp_ms = sample.start_ms.unwrap_or(0);
            match &sample.value {
                LoadedValue::Float(value) => sink.sample(Sample {
                    timestamp_ms: sample.timestamp_ms,
                    value: *value,
                    start_timestamp_ms,
                }),
                LoadedValue::Histogram(histogram) => {
                    let histogram = histogram.as_ref().clone();
                    sink.histogram(sample.timestamp_ms, start_timestamp_ms, histogram);
                }
            }
        }
    }
    Ok(())
}

fn raw(labels: &Labels) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, value) in labels.iter() {
        push_raw_label(&mut bytes, name, value);
    }
    bytes
}

/// Runs one script; how many samples its queries read from buckets, which is where all of them are.
fn run_stored(name: &str, text: &str, runtime: &Handle) -> (Report, u64) {
    let script = Script::parse(text).unwrap_or_else(|error| panic!("{name}: {error}"));
    // Scripts expect metric names to be removed late.
    let engine = Engine::new(EngineOptions {
        delayed_name_removal: true,
        ..EngineOptions::default()
    });
    let mut backend = StoredBackend::new(runtime.clone());
    // The engine's futures are polled on this thread, storage's tasks belong to the runtime.
    let _runtime = runtime.enter();
    let mut report = run(&script, &engine, &mut backend);
    report.name = name.to_owned();
    backend.stop_reading();
    backend.stop_writing();
    let loads = text.lines().any(|line| line.starts_with("load"));
    assert_eq!(backend.bucket_samples_read > 0, loads, "{name}");
    (report, backend.bucket_samples_read)
}

fn scripts_in(directory: &Path) -> Vec<(String, String)> {
    let entries = fs::read_dir(directory).expect("a directory");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let scripts = paths.filter(|path| path.extension().is_some_and(|e| e == "test"));
    let mut scripts: Vec<_> = scripts
        .map(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let text = fs::read_to_string(&path).expect("text");
            (name.into_owned(), text)
        })
        .collect();
    // The longest first, so that none is left for the end.
    scripts.sort_by_key(|(_, text)| std::cmp::Reverse(text.len()));
    scripts
}

/// Runs all scripts of a directory; all must pass.
fn run_all(directory: &Path) -> usize {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let scripts = Mutex::new(scripts_in(directory).into_iter());
    let reports = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..SCRIPTS_AT_ONCE {
            scope.spawn(|| {
                loop {
                    let next = scripts.lock().expect("no panic").next();
                    let Some((name, text)) = next else { return };
                    let outcome = run_stored(&name, &text, runtime.handle());
                    reports.lock().expect("no panic").push(outcome);
                }
            });
        }
    });
    let reports = reports.into_inner().expect("no panic");
    let (mut evals, mut failures, mut samples) = (0, 0, 0);
    for (report, from_buckets) in &reports {
        print!("{}", report.render());
        evals += report.evals;
        failures += report.failures.len();
        samples += from_buckets;
    }
    println!("{evals} evaluations read {samples} samples from buckets");
    assert_eq!(failures, 0, "failures in {}", directory.display());
    evals
}

#[test]
fn given_scripts_pass_through_the_store() {
    if let Some(scripts) = skipped_tests::prometheus_scripts() {
        let evals = run_all(&scripts.directory);
        assert_eq!(evals, scripts.evals.unwrap_or(evals));
    }
}

#[test]
fn own_scripts_pass_through_the_store() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    assert!(run_all(&root.join("testdata/promql")) > 0);
}
