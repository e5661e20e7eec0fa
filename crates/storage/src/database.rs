//! The whole public surface of storage: open, write, read, flush, close.
//!
//! Holds always:
//! - `write` returns success only after the object store holds the request.
//! - What `write` returned success for is in every later selection of this process.
//! - One writer per store: when another one takes over, this one stops acknowledging for good.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use icecore_model::{
    BoxFuture, Clock, Discard, Exemplar, Fill, Labels, Metadata, PendingWrite, SampleStore,
    Selection, SeriesSource, SeriesStream, SourceError, StoreError, SystemClock, WriteOutcome,
};
use icecore_records::{bucket_list, key};
use parking_lot::{Mutex, RwLock};
use slatedb::object_store::ObjectStore;
use thiserror::Error as ThisError;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tracing::{info, warn};

use crate::cache::ReadCache;
use crate::error::{Error, Result};
use crate::flush::{FlushLog, Quarantine, QuarantinedHour, load_metadata, load_totals};
use crate::head::{CATALOG_HOUR, Head, Sequencer, TooManyHours, WriteBatch};
use crate::inner::Inner;
use crate::journal::{Durable, Journal, forget_unreadable, recover, summarize_epochs};
use crate::maintenance::retire::load_retired;
use crate::maintenance::{
    self, Hold, Jobs, MaintenanceReport, MaintenanceStatus, RecentWrites, Skipped,
};
use crate::memory::HeadBudget;
use crate::metrics::Metrics;
use crate::options::{Limits, Options};
use crate::pause::Pauses;
use crate::pool::Pool;
use crate::read::{self, Cardinality, ExemplarQuery, LabelQuery, SelectStream, SeriesList};
use crate::slate::engine::{Closed, Engine};
use crate::slate::health::StoreFigures;
use crate::slate::slate_metrics::SlateMetric;
use crate::slate::snapshots::Snapshot;
use crate::snapshots;
use crate::tombstones::{AllTombstones, Deletion, clean_all, delete_series};

/// Time between commits where each is a PUT that costs money, and where it is a local file.
const REMOTE_COMMIT_INTERVAL: Duration = Duration::from_millis(200);
const LOCAL_COMMIT_INTERVAL: Duration = Duration::from_millis(2);

/// An open database. Clones share it.
#[derive(Clone)]
pub struct Database {
    inner: Arc<Inner>,
    background: Arc<Mutex<Option<Background>>>,
}

struct Background {
    stop: oneshot::Sender<()>,
    flushes: JoinHandle<()>,
    jobs: JoinHandle<()>,
}

/// What a database is opened with beside its options; the defaults are the real world.
#[derive(Default)]
pub struct Environment {
    pub clock: Option<Arc<dyn Clock>>,
    /// An object store to use in place of the one that the location names (tests).
    pub object_store: Option<Arc<dyn ObjectStore>>,
}

/// Why a request was not acknowledged.
#[derive(Debug, ThisError)]
pub enum WriteError<E> {
    /// The request could not be decoded; nothing of it is stored.
    #[error("{0}")]
    Decode(E),
    #[error(transparent)]
    Storage(#[from] Error),
}

/// A request that is appended and on its way into the store.
#[must_use = "whether a request is durable is known by waiting for it"]
pub struct Commit {
    /// `None` when there was nothing to store.
    durable: Option<Durable>,
    samples: u64,
    histograms: u64,
    exemplars: u64,
    rejected: u64,
    metrics: Arc<Metrics>,
}

impl Commit {
    /// Returns when the object store holds the request.
    pub async fn wait(self) -> Result<()> {
        if let Some(durable) = self.durable {
            durable.wait().await?;
        }
        let metrics = &self.metrics;
        metrics.requests.add(1);
        metrics.samples.add(self.samples);
        metrics.histograms.add(self.histograms);
        metrics.exemplars.add(self.exemplars);
        metrics.rejected.add(self.rejected);
        Ok(())
    }
}

/// Numbers of the moment, for metrics and status pages.
#[derive(Clone, Debug, Default)]
pub struct Gauges {
    pub series: usize,
    /// Memory of the head: samples, and series with their labels and tables.
    pub head_sample_bytes: usize,
    pub head_series_bytes: usize,
    pub open_hours: usize,
    /// Hours that cannot be flushed.
    pub quarantined_hours: usize,
    pub buckets: usize,
    pub journal_queued_bytes: usize,
    /// Requests that are appended and not yet durable.
    pub journal_lag: u64,
    pub journal_epochs: usize,
    /// Epochs kept because something in them could not be read.
    pub journal_unreadable_epochs: usize,
    pub oldest_epoch_age_s: f64,
    pub metadata: usize,
    /// Running totals of deltas, and their memory.
    pub delta_series: usize,
    pub delta_bytes: usize,
    /// Memory of the read cache, labels and index included.
    pub chunk_cache_bytes: usize,
    /// Oldest and newest hour in the head, as ms.
    pub head_start_ms: Option<i64>,
    pub head_end_ms: Option<i64>,
}

impl Database {
    /// Opens or creates the database and recovers what the journal holds.
    pub async fn open(options: Options, environment: Environment) -> Result<Self> {
        let clock = environment.clock.unwrap_or_else(|| Arc::new(SystemClock));
        let now_ms = clock.now_ms();
        options.maintenance.check()?;
        let engine = Engine::open(&options.store, environment.object_store).await?;
        let view = engine.live_view();
        if view.get(&key::restore_mark()).await?.is_some() {
            let location = engine.location().clone();
            engine.close().await?;
            return Err(Error::Invalid(format!(
                "a restore into {location} has not come to its end: run it again, or remove what is there"
            )));
        }
        let budget = HeadBudget::choose(&options.head);
        let seed = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), now_ms);
        let head = Arc::new(Head::new(
            options.limits.clone(),
            budget.series_max,
            seed,
            Sequencer::new(1, 1, now_ms),
        ));
        *head.metadata.write() = load_metadata(&view).await?;
        let buckets = match view.get(&key::bucket_list()).await? {
            Some(value) => bucket_list::decode(&value)
                .map_err(|cause| Error::Corrupt(format!("list of buckets: {cause}")))?,
            None => BTreeSet::new(),
        };
        let retired = load_retired(&view).await?;
        let tombstones = AllTombstones::load(&view).await?;
        let started = std::time::Instant::now();
        load_totals(&view, &head).await?;
        let pool = Pool::for_requests()?;
        let flushed = tombstones.flushed_hours();
        let strict = options.journal.strict_recovery;
        let recovered = recover(&view, &head, &pool, &flushed, strict, now_ms).await?;
        forget_unreadable(engine.db(), &head).await?;
        {
            let mut sequencer = head.sequencer.lock();
            sequencer.next_seq = recovered.next_seq;
            sequencer.epoch = recovered.next_epoch;
        }
        info!(
            records = recovered.records,
            samples = recovered.samples,
            unreadable = recovered.unreadable,
            epochs_passed_over = recovered.passed_over,
            series = head.series.load(Relaxed),
            buckets = buckets.len(),
            seconds = started.elapsed().as_secs_f64(),
            "journal replayed"
        );
        let metrics = Arc::new(Metrics::default());
        metrics.replayed_records.add(recovered.records);
        metrics.replayed_samples.add(recovered.samples);
        metrics.replay_unreadable.add(recovered.unreadable);
        let local = engine.location().is_local();
        let default_interval = if local {
            LOCAL_COMMIT_INTERVAL
        } else {
            REMOTE_COMMIT_INTERVAL
        };
        let interval = options.journal.commit_interval.unwrap_or(default_interval);
        let db = engine.db().clone();
        // From here on there is something in memory that is worth waiting for the store.
        engine.repeat_writes(true);
        let journal = Journal::start(
            db,
            interval,
            recovered.next_seq,
            Arc::clone(&metrics),
            Arc::clone(engine.health()),
        );
        let cache = ReadCache::new(options.read.chunk_cache_bytes, Arc::clone(&metrics));
        let inner = Arc::new(Inner {
            cache: Arc::new(cache),
            options,
            budget,
            head,
            journal,
            engine,
            buckets: RwLock::new(buckets),
            leases: Arc::default(),
            tombstones,
            retired: RwLock::new(retired),
            quarantine: Quarantine::default(),
            hold: Hold::new(Arc::clone(&metrics)),
            recent: RecentWrites::default(),
            jobs: Jobs::default(),
            skipped: Skipped::default(),
            metrics,
            clock,
            started_ms: now_ms,
            pool,
            job_pool: Pool::for_jobs()?,
            scratch: Mutex::default(),
            flushing: tokio::sync::Mutex::default(),
            flush_log: FlushLog::default(),
            closing: Mutex::new(""),
            cleaning: tokio::sync::Mutex::default(),
            snapshotting: tokio::sync::Mutex::default(),
            nudge: tokio::sync::Notify::new(),
            pauses: Pauses::default(),
        });
        let (stop, stopped) = oneshot::channel();
        let background = Background {
            stop,
            flushes: tokio::spawn(maintenance::run_flushes(Arc::clone(&inner), stopped)),
            jobs: tokio::spawn(maintenance::run_jobs(Arc::clone(&inner))),
        };
        let background = Arc::new(Mutex::new(Some(background)));
        Ok(Self { inner, background })
    }

    /// Stores one request: `fill` decodes it into the batch, on a CPU thread. Returns when the object
    /// store holds it.
    ///
    /// When the store does not take it within `journal.commit_timeout` it is answered with
    /// [`Error::Unavailable`] and stays where it is: in the head, and in the queue for the store. To send
    /// it again is right and stores it once. While the store has failed for that long already, nothing
    /// more is taken in.
    pub async fn write<E, F>(&self, fill: F) -> Result<WriteOutcome, WriteError<E>>
    where
        E: Send + 'static,
        F: FnOnce(&mut WriteBatch<'_>) -> Result<(), E> + Send + 'static,
    {
        // Whoever was told to send it again does so; to queue each attempt would fill the memory.
        if let Some(trouble) = self.inner.engine.health().trouble()
            && trouble.lasts >= self.inner.options.journal.commit_timeout
        {
            let reason = trouble.reason;
            return Err(Error::Unavailable(format!("{reason}: try again")).into());
        }
        self.write_patiently(Duration::ZERO, fill).await
    }

    /// The same for who has time: the request waits for others to share its commit with, at most for
    /// `patience`. Each commit is a file that is created and synced, or a PUT that costs money. It is
    /// taken in while the store fails, too, as far as the queue goes: who scrapes cannot do so again.
    pub async fn write_patiently<E, F>(
        &self,
        patience: Duration,
        fill: F,
    ) -> Result<WriteOutcome, WriteError<E>>
    where
        E: Send + 'static,
        F: FnOnce(&mut WriteBatch<'_>) -> Result<(), E> + Send + 'static,
    {
        let (outcome, commit) = self.append(patience, fill).await?;
        let limit = self.inner.options.journal.commit_timeout;
        let in_time = tokio::time::timeout(limit, commit.wait()).await;
        in_time.unwrap_or_else(|_| Err(self.inner.not_committed(limit)))?;
        Ok(outcome)
    }

    /// Appends one request, which queries see from then on, and does not wait for the store: for who has
    /// other work until it is durable. It becomes so also when nobody waits for the commit; if it cannot,
    /// the database has failed as a whole ([`Database::failed`]).
    pub async fn append<E, F>(
        &self,
        patience: Duration,
        fill: F,
    ) -> Result<(WriteOutcome, Commit), WriteError<E>>
    where
        E: Send + 'static,
        F: FnOnce(&mut WriteBatch<'_>) -> Result<(), E> + Send + 'static,
    {
        // Before any work is done, and once more before the append: many requests may be decoded by
        // then.
        self.inner.admit()?;
        let inner = Arc::clone(&self.inner);
        let (outcome, durable) = self
            .inner
            .pool
            .run(move || append(&inner, patience, fill))
            .await??;
        let commit = Commit {
            durable,
            samples: outcome.samples,
            histograms: outcome.histograms,
            exemplars: outcome.exemplars,
            rejected: outcome.rejected_count(),
            metrics: Arc::clone(&self.inner.metrics),
        };
        Ok((outcome, commit))
    }

    /// Selects series; their samples are read as the stream is pulled.
    pub async fn select(&self, selection: Selection) -> Result<impl SeriesStream + use<>> {
        SelectStream::open(&self.inner, selection).await
    }

    /// Label sets that match, in label order.
    pub async fn series(&self, query: &LabelQuery) -> Result<SeriesList> {
        read::series(&self.inner, query).await
    }

    /// Exemplars of the series that match any selector: series in label order, exemplars in time
    /// order, each once.
    pub async fn exemplars(&self, query: ExemplarQuery) -> Result<Vec<(Labels, Vec<Exemplar>)>> {
        read::exemplars(&self.inner, query).await
    }

    pub async fn label_names(&self, query: &LabelQuery) -> Result<Vec<String>> {
        read::label_names(&self.inner, query).await
    }

    pub async fn label_values(&self, name: &str, query: &LabelQuery) -> Result<Vec<String>> {
        read::label_values(&self.inner, name, query).await
    }

    /// Rankings of the series in the head.
    pub async fn head_cardinality(&self, limit: usize) -> Result<Cardinality> {
        read::head_cardinality(&self.inner, limit).await
    }

    /// Rankings of the series that match, in head and buckets.
    pub async fn cardinality(&self, query: &LabelQuery, limit: usize) -> Result<Cardinality> {
        read::cardinality(&self.inner, query, limit).await
    }

    /// Metadata of metric families, by name; of one family when it is given.
    pub fn metadata(&self, family: Option<&str>) -> Vec<(String, Metadata)> {
        let known = self.inner.head.metadata.read();
        match family {
            Some(family) => {
                let found = known.get_key_value(family);
                found
                    .map(|(name, m)| (name.clone(), m.clone()))
                    .into_iter()
                    .collect()
            }
            None => known
                .iter()
                .map(|(name, m)| (name.clone(), m.clone()))
                .collect(),
        }
    }

    /// Moves everything that was acknowledged into buckets and drains the journal. Waits for a job that
    /// copies buckets of hours that are to be flushed. Hours that cannot be flushed stay in head and
    /// journal: see [`Database::quarantined`].
    pub async fn flush(&self) -> Result<()> {
        maintenance::flush_and_drain(&self.inner).await
    }

    /// The hours that cannot be flushed, and why.
    pub fn quarantined(&self) -> Vec<QuarantinedHour> {
        self.inner.quarantine.list()
    }

    /// Brings everything that is closed into its final form: flushes, coarsens, folds late samples in,
    /// drops what was replaced, and waits until the store has let go of it.
    pub async fn run_maintenance(&self) -> Result<MaintenanceReport> {
        self.inner.jobs.ask().await
    }

    /// Ends maintenance for good: the job that is under way ends at its next yield point and is gone on
    /// with by the next process; who waits for a run is told. To be called before requests are waited
    /// for, because a run may take long.
    pub fn stop_maintenance(&self) {
        self.inner.jobs.stop();
    }

    /// Deletes: what is deleted is in no later selection of anybody, also after a restart; what is written
    /// afterwards is. Durable when it returns. Waits for a job that copies what is to be deleted.
    pub async fn delete_series(&self, deletion: Deletion) -> Result<()> {
        delete_series(&self.inner, deletion).await
    }

    /// Removes what was deleted from the records it lies in, now.
    pub async fn clean_tombstones(&self) -> Result<()> {
        let inner = Arc::clone(&self.inner);
        // To its end, also when whoever asked for it goes away.
        let work = tokio::spawn(async move {
            let _one_at_a_time = inner.cleaning.lock().await;
            let watch = maintenance::pace::Watch::unpaced(&inner);
            clean_all(&inner, &watch).await
        });
        let ended = work.await;
        ended.map_err(|cause| Error::Unavailable(format!("cleaning ended abnormally: {cause}")))?
    }

    /// Keeps the state of now under a name (without one, one is made from the time), until it is deleted or `lifetime` is over: everything that was
    /// acknowledged before is in it.
    pub async fn create_snapshot(
        &self,
        name: Option<&str>,
        lifetime: Option<Duration>,
    ) -> Result<Snapshot> {
        snapshots::create(&self.inner, name, lifetime).await
    }

    /// The snapshots that there are, by time.
    pub async fn snapshots(&self) -> Result<Vec<Snapshot>> {
        self.inner.engine.snapshots().await
    }

    /// Lets a snapshot go; false when there is none of that name.
    pub async fn delete_snapshot(&self, name: &str) -> Result<bool> {
        self.inner.engine.delete_snapshot(name).await
    }

    /// What maintenance is doing and what is left to do.
    pub fn maintenance_status(&self) -> MaintenanceStatus {
        maintenance::status(&self.inner)
    }

    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.inner
    }

    /// Flushes, stops the background work and closes the store.
    pub async fn close(&self) -> Result<()> {
        let background = self.background.lock().take();
        let Some(background) = background else {
            return Ok(());
        };
        // First the job: it holds back flushes until it ends.
        self.stop_maintenance();
        let waits_for = |what| *self.inner.closing.lock() = what;
        waits_for("maintenance to reach a point where it can stop");
        let jobs = background.jobs.await;
        // The task ends with its receiver; it may have ended by itself.
        let _ = background.stop.send(());
        waits_for("a flush that is under way");
        let flushes = background.flushes.await;
        if jobs.and(flushes).is_err() {
            warn!("a maintenance task ended abnormally");
        }
        waits_for("hours to be flushed");
        let flushed = match self.inner.journal.failed() {
            None => maintenance::flush_at_stop(&self.inner).await,
            Some(_) => Ok(()),
        };
        self.inner.flush_log.tell_all();
        waits_for("the storage to take what was flushed");
        // Also when an hour could not be flushed: the next start reads the epochs that it is in, and no
        // others.
        if let Err(cause) = summarize_epochs(&self.inner).await {
            warn!(%cause, "the next start will read more of the journal than it needs");
        }
        // There is an end to waiting.
        self.inner.engine.repeat_writes(false);
        // What could not be flushed is still in the journal.
        for hour in self.inner.quarantine.list() {
            let QuarantinedHour {
                start_ms, cause, ..
            } = hour;
            warn!(
                start_ms,
                cause, "closing with an hour that cannot be flushed: it stays in the journal"
            );
        }
        self.inner.engine.close().await.and(flushed)
    }

    /// What a close that is under way is waiting for.
    pub fn closing(&self) -> &'static str {
        *self.inner.closing.lock()
    }

    /// Why nothing can be acknowledged for the moment; it may pass.
    pub fn unready(&self) -> Option<String> {
        let failed = self.inner.journal.failed();
        let trouble = || self.inner.engine.health().trouble();
        failed
            .map(|reason| reason.to_string())
            .or_else(|| trouble().map(|trouble| trouble.reason))
    }

    /// What the store has answered.
    pub fn store_figures(&self) -> StoreFigures {
        self.inner.engine.health().figures()
    }

    /// Resolves with the reason when the database stops acknowledging for good.
    pub async fn failed(&self) -> String {
        let mut failure = self.inner.journal.watch_failure();
        tokio::select! {
            failed = failure.wait_for(Option::is_some) => {
                let reason = failed.ok().and_then(|reason| reason.clone());
                reason.map_or_else(|| "the journal is closed".into(), |reason| reason.to_string())
            }
            closed = self.inner.engine.closed() => {
                if closed != Closed::Clean {
                    self.inner.journal.fail(&closed.to_string());
                }
                closed.to_string()
            }
        }
    }

    pub fn metrics(&self) -> &Metrics {
        &self.inner.metrics
    }

    pub fn slate_metrics(&self) -> Vec<SlateMetric> {
        self.inner.engine.slate_metrics()
    }

    pub fn gauges(&self) -> Gauges {
        let inner = &self.inner;
        let sequencer = inner.head.sequencer.lock();
        let now_ms = inner.clock.now_ms();
        let oldest = sequencer
            .epochs
            .values()
            .map(|e| e.started_ms)
            .min()
            .unwrap_or(now_ms);
        let hours = || {
            sequencer
                .open_hours
                .keys()
                .filter(|hour| **hour != CATALOG_HOUR)
        };
        let totals = {
            let totals = inner.head.totals.lock();
            (totals.len(), totals.bytes())
        };
        let ms = |hour: &u32| i64::from(*hour) * icecore_model::MINUTE_MS;
        Gauges {
            series: inner.head.series.load(Relaxed),
            head_sample_bytes: inner.head.sample_bytes(),
            head_series_bytes: inner.head.series_bytes(),
            open_hours: hours().count(),
            quarantined_hours: inner.quarantine.len(),
            buckets: inner.buckets.read().len(),
            journal_queued_bytes: inner.journal.queued_bytes(),
            journal_lag: sequencer.next_seq - inner.journal.durable_below().min(sequencer.next_seq),
            journal_epochs: sequencer.epochs.len(),
            journal_unreadable_epochs: sequencer.epochs.values().filter(|e| e.unreadable).count(),
            oldest_epoch_age_s: (now_ms - oldest) as f64 / 1e3,
            chunk_cache_bytes: inner.cache.bytes(),
            metadata: inner.head.metadata.read().len(),
            delta_series: totals.0,
            delta_bytes: totals.1,
            head_start_ms: hours().next().map(ms),
            head_end_ms: hours().next_back().map(|h| ms(h) + icecore_model::HOUR_MS),
        }
    }

    /// What one request may hold, for those who split what they store.
    pub fn limits(&self) -> &Limits {
        &self.inner.options.limits
    }

    /// Where the data lies, for people.
    pub fn location(&self) -> String {
        self.inner.engine.location().to_string()
    }
}

impl SeriesSource for Database {
    fn select(
        &self,
        selection: Selection,
    ) -> BoxFuture<'_, Result<Box<dyn SeriesStream>, SourceError>> {
        Box::pin(async move {
            let stream = SelectStream::open(&self.inner, selection).await?;
            Ok(Box::new(stream) as Box<dyn SeriesStream>)
        })
    }
}

impl SampleStore for Database {
    fn append_boxed(
        &self,
        patience: Duration,
        fill: Fill,
    ) -> BoxFuture<'_, Result<PendingWrite, StoreError>> {
        Box::pin(async move {
            let (outcome, commit) = self.append(patience, |batch| fill(batch)).await?;
            let commit = Box::pin(async move { Ok(commit.wait().await?) });
            Ok(PendingWrite { outcome, commit })
        })
    }
}

impl From<WriteError<Discard>> for StoreError {
    fn from(error: WriteError<Discard>) -> Self {
        match error {
            WriteError::Decode(discard) => discard.into(),
            WriteError::Storage(error) => error.into(),
        }
    }
}

type AppendResult<E> = Result<(WriteOutcome, Option<Durable>), WriteError<E>>;

/// The CPU part of a write: decode, append, encode the journal block, hand it over.
fn append<E, F>(inner: &Inner, patience: Duration, fill: F) -> AppendResult<E>
where
    F: FnOnce(&mut WriteBatch<'_>) -> Result<(), E>,
{
    let mut scratch = inner.take_scratch();
    let time = inner.time();
    let _references = inner.head.hold_references();
    let mut batch = WriteBatch::new(&inner.head, &mut scratch.batch, time.now_ms);
    fill(&mut batch).map_err(WriteError::Decode)?;
    inner.admit()?;
    inner.check_batch(&scratch.batch)?;
    if scratch.batch.is_empty() {
        let outcome = WriteOutcome {
            rejected: scratch.batch.take_rejections(),
            ..Default::default()
        };
        inner.give_back(scratch);
        return Ok((outcome, None));
    }
    // Those that no flush can close do not count.
    let open_hours_max = inner.options.limits.open_buckets_max;
    let open_hours_max = open_hours_max.saturating_add(inner.quarantine.len());
    let appended = inner.head.append(&mut scratch.batch, time, open_hours_max);
    let appended = appended.map_err(|_: TooManyHours| inner.too_many_hours())?;
    let ticket = inner.journal.ticket(appended.seq, appended.epoch);
    let block = inner
        .head
        .encode_block(&scratch.batch, &appended, &mut scratch.encoder);
    let durable = ticket.fill(block, patience);
    let metrics = &inner.metrics;
    metrics.series_created.add(appended.created);
    metrics
        .delta_duplicates
        .add(appended.accumulated.duplicates);
    metrics.delta_overlaps.add(appended.accumulated.overlaps);
    metrics.delta_restarts.add(appended.accumulated.restarts);
    let outcome = WriteOutcome {
        samples: appended.floats,
        histograms: appended.histograms,
        exemplars: appended.exemplars,
        duplicates: appended.accumulated.duplicates,
        rejected: scratch.batch.take_rejections(),
    };
    inner.give_back(scratch);
    Ok((outcome, Some(durable)))
}
