//! The whole public surface of storage: open, write, read, flush, close.
//!
//! Holds always:
//! - `write` returns success only after the object store holds the request.
//! - What `write` returned success for is in every later selection of this process.
//! - One writer per store: when another one takes over, this one stops acknowledging for good.
//!
//! Verbs return boxed futures. The code of an `async fn` is generated in each crate that awaits it,
//! so without the box most of this crate would be compiled again in the server and in every test.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use futures::future::LocalBoxFuture;
use icecore_model::event::{EventShard, EventStore};
use icecore_model::retention::RetentionPolicy;
use icecore_model::rollup::Resolution;
use icecore_model::{
    AppendError, BoxFuture, BucketSize, Catalog, CatalogRecord, Clock, Discard, Fill, Levels,
    Metadata, PendingWrite, SampleStore, Selection, SeriesSource, SeriesStream, SourceError,
    StoreError, SystemClock, WriteOutcome,
};
use icecore_records::key;
use parking_lot::Mutex;
use slatedb::object_store::ObjectStore;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tracing::warn;

use crate::buckets::Buckets;
use crate::cache::ReadCache;
use crate::context::{Context, Stop};
use crate::error::{Error, Result, WriteError};
use crate::events::{DatabaseEvents, OtherShard};
use crate::ingest::flush::QuarantinedHour;
use crate::ingest::head::{TOO_OLD, WriteBatch, families_of};
use crate::ingest::journal::{Durable, ReplayProgress, summarize_epochs};
use crate::ingest::{self, Ingest};
use crate::maintenance::{
    self, Deletion, DeletionReport, Maintenance, MaintenanceReport, MaintenanceStatus,
};
use crate::metrics::Metrics;
use crate::options::{Limits, Options};
use crate::pause::Pauses;
use crate::pool::{Pool, WriteThreads};
use crate::read::{
    self, BucketFigures, Cardinality, ExemplarList, ExemplarQuery, LabelQuery, NamedCount, Ranking,
    Reader, SelectStream, SeriesList,
};
use crate::retention::{self, Retention};
use crate::slate::engine::{Closed, Engine};
use crate::slate::health::StoreFigures;
use crate::slate::slate_metrics::SlateMetric;
use crate::slate::snapshots::Snapshot;

/// An open database. Clones share it.
#[derive(Clone)]
pub struct Database {
    pub(crate) context: Arc<Context>,
    pub(crate) buckets: Arc<Buckets>,
    pub(crate) ingest: Arc<Ingest>,
    pub(crate) reader: Arc<Reader>,
    pub(crate) maintenance: Arc<Maintenance>,
    events: Arc<DatabaseEvents>,
    background: Arc<Mutex<Option<Background>>>,
    /// What a close is waiting for.
    closing: Arc<Mutex<&'static str>>,
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

/// A request that is appended and on its way into the store.
#[must_use = "whether a request is durable is known by waiting for it"]
pub struct Commit {
    /// `None` when there was nothing to store.
    durable: Option<Durable>,
    samples: u64,
    histograms: u64,
    exemplars: u64,
    /// Without those that came too late.
    rejected: u64,
    too_late: u64,
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
        metrics.rejected_late.add(self.too_late);
        Ok(())
    }
}

/// The time for which a close goes on with flushing where its caller says nothing.
const CLOSE_PATIENCE: Duration = Duration::from_secs(60);

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
    /// The part of it that cells of events take.
    pub event_cell_cache_bytes: usize,
    /// Oldest and newest hour in the head, as ms.
    pub head_start_ms: Option<i64>,
    pub head_end_ms: Option<i64>,
}

impl Database {
    /// Opens or creates the database and recovers what the journal holds.
    pub fn open(
        options: Options,
        environment: Environment,
    ) -> LocalBoxFuture<'static, Result<Self>> {
        Self::open_with_progress(options, environment, Arc::default())
    }

    /// As [`Database::open`], and says how far the replay of the journal is.
    pub fn open_with_progress(
        options: Options,
        environment: Environment,
        progress: Arc<ReplayProgress>,
    ) -> LocalBoxFuture<'static, Result<Self>> {
        Box::pin(Self::open_and_recover(options, environment, progress))
    }

    async fn open_and_recover(
        options: Options,
        environment: Environment,
        progress: Arc<ReplayProgress>,
    ) -> Result<Self> {
        let clock = environment.clock.unwrap_or_else(|| Arc::new(SystemClock));
        options.maintenance.check()?;
        let engine = Engine::open_at(&options.store, environment.object_store, &*clock).await?;
        if let Some(_unfinished) = engine.live_view().get(&key::restore_mark()).await? {
            let location = engine.location().clone();
            engine.close().await?;
            return Err(Error::Invalid(format!(
                "a restore into {location} has not finished: run it again, or remove what is there"
            ).into()));
        }
        let retention_state = retention::stored_state(&engine.live_view()).await?;
        let guarded_clock = retention::guarded_clock(&retention_state, &*clock);
        let context = Arc::new(Context {
            options,
            engine,
            guarded_clock: Mutex::new(guarded_clock),
            opened_elapsed_ms: clock.elapsed_ms(),
            clock,
            metrics: Arc::default(),
            pool: Pool::for_requests()?,
            job_pool: Pool::for_jobs()?,
            write_threads: WriteThreads::new(),
            stop: Stop::default(),
            pauses: Pauses::default(),
        });
        let cache_bytes = context.options.read.chunk_cache_bytes;
        let cache = ReadCache::new(cache_bytes, Arc::clone(&context.metrics));
        let buckets = Arc::new(Buckets::load(&context, cache).await?);
        let ingest = Arc::new(Ingest::open(&context, &buckets, &progress).await?);
        let reader = Arc::new(Reader::new(&context, &buckets, Some(ingest.head())));
        let retention = Arc::new(Retention::new(&context, retention_state));
        let maintenance = Maintenance::new(&context, &buckets, &ingest, &reader, &retention);
        let maintenance = Arc::new(maintenance);
        // What is culled stays refused, also before somebody sets a policy.
        maintenance.set_retention(None);
        let events = Arc::new(DatabaseEvents::new(&context, &buckets, &ingest, &retention));
        let (stop, stopped) = oneshot::channel();
        let background = Background {
            stop,
            flushes: tokio::spawn(ingest::run(Arc::clone(&ingest), stopped)),
            jobs: tokio::spawn(maintenance::run(Arc::clone(&maintenance))),
        };
        Ok(Self {
            context,
            buckets,
            ingest,
            reader,
            maintenance,
            events,
            background: Arc::new(Mutex::new(Some(background))),
            closing: Arc::default(),
        })
    }

    /// Stores one request: `fill` decodes it into the batch, on a CPU thread. Returns when the
    /// object store holds it.
    ///
    /// When the store does not take it within `journal.commit_timeout` it is answered with
    /// [`Error::Unavailable`] and stays where it is: in the head, and in the queue for the store.
    /// To send it again is right and stores it once. While the store has failed for that long
    /// already, nothing more is taken in.
    pub async fn write<E, F>(&self, fill: F) -> Result<WriteOutcome, WriteError<E>>
    where
        E: Send + 'static,
        F: FnOnce(&mut WriteBatch<'_>) -> Result<(), E> + Send + 'static,
    {
        self.ingest.check_store()?;
        self.write_patiently(Duration::ZERO, fill).await
    }

    /// The same for who has time: the request waits for others to share its commit with, at most
    /// for `patience`. Each commit is a file that is created and synced, or a PUT that costs money.
    /// It is taken in while the store fails, too, as far as the queue goes: who scrapes cannot do
    /// so again.
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
        let limit = self.context.options.journal.commit_timeout;
        let in_time = tokio::time::timeout(limit, commit.wait()).await;
        in_time.unwrap_or_else(|_| Err(self.ingest.not_committed(limit)))?;
        Ok(outcome)
    }

    /// Appends one request, which queries see from then on, and does not wait for the store: for
    /// who has other work until it is durable. It becomes so also when nobody waits for the commit;
    /// if it cannot, the database has failed as a whole ([`Database::failed`]).
    pub async fn append<E, F>(
        &self,
        patience: Duration,
        fill: F,
    ) -> Result<(WriteOutcome, Commit), WriteError<E>>
    where
        E: Send + 'static,
        F: FnOnce(&mut WriteBatch<'_>) -> Result<(), E> + Send + 'static,
    {
        let began = Instant::now();
        // Before any work is done, and once more before the append: many requests may be decoded by
        // then.
        self.ingest.admit()?;
        let ingest = Arc::clone(&self.ingest);
        let append = move || ingest.append(patience, fill);
        let (outcome, mut durable) = self.context.write_threads.run(append).await??;
        if let Some(durable) = &mut durable {
            durable.began_at(began);
        }
        let late = outcome.rejected.iter().filter(|r| r.reason == TOO_OLD);
        let too_late = late.map(|rejection| rejection.count).sum();
        let commit = Commit {
            durable,
            samples: outcome.samples,
            histograms: outcome.histograms,
            exemplars: outcome.exemplars,
            rejected: outcome.rejected_count() - too_late,
            too_late,
            metrics: Arc::clone(&self.context.metrics),
        };
        Ok((outcome, commit))
    }

    /// Selects series; their samples are read as the stream is pulled.
    pub fn select(&self, selection: Selection) -> BoxFuture<'_, Result<impl SeriesStream + use<>>> {
        Box::pin(async move { SelectStream::open(&self.reader, selection).await })
    }

    /// Which levels a selection of samples would read now, both ends included.
    pub fn levels(&self, start_ms: i64, end_ms: i64) -> Vec<Arc<Levels>> {
        self.reader.finest_levels((start_ms, end_ms))
    }

    /// Label sets that match, in label order.
    pub fn series<'a>(&'a self, query: &'a LabelQuery) -> BoxFuture<'a, Result<SeriesList>> {
        Box::pin(async move { read::series(&self.reader, query).await })
    }

    /// Exemplars of the series that match any selector: series in label order, exemplars in time
    /// order, each once.
    pub fn exemplars(&self, query: ExemplarQuery) -> BoxFuture<'_, Result<ExemplarList>> {
        Box::pin(async move { read::exemplars(&self.reader, query).await })
    }

    pub fn label_names<'a>(&'a self, query: &'a LabelQuery) -> BoxFuture<'a, Result<Vec<String>>> {
        Box::pin(async move { read::label_names(&self.reader, query).await })
    }

    pub fn label_values<'a>(
        &'a self,
        name: &'a str,
        query: &'a LabelQuery,
    ) -> BoxFuture<'a, Result<Vec<String>>> {
        Box::pin(async move { read::label_values(&self.reader, name, query).await })
    }

    /// Rankings of the series in the head.
    pub fn head_cardinality(&self, ranking: Ranking) -> BoxFuture<'_, Result<Cardinality>> {
        Box::pin(async move { read::head_cardinality(&self.reader, ranking).await })
    }

    /// Rankings of the series that match, in head and buckets.
    pub fn cardinality<'a>(
        &'a self,
        query: &'a LabelQuery,
        ranking: Ranking,
    ) -> BoxFuture<'a, Result<Cardinality>> {
        Box::pin(async move { read::cardinality(&self.reader, query, ranking).await })
    }

    /// The metrics in the head whose names are wanted, each with its series, in no order.
    pub async fn head_metrics(
        &self,
        wanted: impl Fn(&str) -> bool + Send + 'static,
    ) -> Result<Vec<NamedCount>> {
        read::head_metrics(&self.reader, wanted).await
    }

    /// Every bucket with what is known of it, the one that is being made included; oldest first.
    pub fn bucket_figures(&self) -> BoxFuture<'_, Result<Vec<BucketFigures>>> {
        Box::pin(
            async move { read::bucket_figures(&self.reader, self.maintenance.under_way()).await },
        )
    }

    /// What `read` makes of what was said of metrics, in their order: each by the likeliest family
    /// that it may be of.
    pub fn metric_metadata<'n, R>(
        &self,
        names: impl Iterator<Item = &'n str>,
        read: impl Fn(&str, Option<&Metadata>) -> R,
    ) -> Vec<R> {
        let known = self.ingest.head().metadata.read();
        let said = |name| families_of(name).find_map(|family| known.get(family));
        names
            .map(|name| read(name, said(name).map(|known| &known.metadata)))
            .collect()
    }

    /// Metadata of metric families, by name; of one family when it is given.
    pub fn metadata(&self, family: Option<&str>) -> Vec<(String, Metadata)> {
        let known = self.ingest.head().metadata.read();
        match family {
            Some(family) => {
                let found = known.get_key_value(family);
                found
                    .map(|(name, known)| (name.clone(), known.metadata.clone()))
                    .into_iter()
                    .collect()
            }
            None => known
                .iter()
                .map(|(name, known)| (name.clone(), known.metadata.clone()))
                .collect(),
        }
    }

    /// Moves everything that was acknowledged into buckets and drains the journal. Waits for a job
    /// that copies buckets of hours that are to be flushed. Hours that cannot be flushed stay in
    /// head and journal: see [`Database::quarantined`].
    pub fn flush(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move { ingest::flush_and_drain(&self.ingest).await })
    }

    /// The hours that cannot be flushed, and why.
    pub fn quarantined(&self) -> Vec<QuarantinedHour> {
        self.ingest.quarantine().list()
    }

    /// From now on this policy of retention holds. Without one, as after opening, nothing is rolled
    /// up or deleted.
    pub fn set_retention(&self, policy: Option<RetentionPolicy>) {
        self.maintenance.set_retention(policy);
    }

    /// The levels of which something was culled, and since when they are whole, in ms.
    pub fn kept_since(&self) -> Vec<(Resolution, i64)> {
        self.maintenance.kept_since()
    }

    /// The time by which data is deleted for its age, which no machine's clock moves by itself.
    pub fn guarded_ms(&self) -> i64 {
        self.context.guarded_ms()
    }

    /// Brings everything that is closed into its final form: flushes, coarsens, folds late samples
    /// in, drops what was replaced, and waits until the store has let go of it.
    pub fn run_maintenance(&self) -> BoxFuture<'_, Result<MaintenanceReport>> {
        Box::pin(async move { self.maintenance.run_all().await })
    }

    /// Ends maintenance for good: the job that is under way ends at its next yield point and is
    /// gone on with by the next process; who waits for a run is told. To be called before requests
    /// are waited for, because a run may take long.
    pub fn stop_maintenance(&self) {
        self.context.stop.stop();
    }

    /// Deletes: what is deleted is in no later selection of anybody, also after a restart; what is
    /// written afterwards is. Durable when it returns. Waits for a job that copies what is to be
    /// deleted. Says what went beside it: where samples are gone, windows go whole.
    pub fn delete_series(&self, deletion: Deletion) -> BoxFuture<'_, Result<DeletionReport>> {
        Box::pin(async move { maintenance::delete_series(&self.maintenance, deletion).await })
    }

    /// Removes what was deleted from the records it lies in, now.
    pub fn clean_tombstones(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move { self.maintenance.clean_tombstones().await })
    }

    /// Keeps the state of now under a name (without one, one is made from the time), until it is
    /// deleted or `lifetime` is over: everything that was acknowledged before is in it.
    pub fn create_snapshot<'a>(
        &'a self,
        name: Option<&'a str>,
        lifetime: Option<Duration>,
    ) -> BoxFuture<'a, Result<Snapshot>> {
        Box::pin(
            async move { maintenance::create_snapshot(&self.maintenance, name, lifetime).await },
        )
    }

    /// The snapshots that there are, by time.
    pub fn snapshots(&self) -> BoxFuture<'_, Result<Vec<Snapshot>>> {
        Box::pin(async move { self.context.engine.snapshots().await })
    }

    /// Lets a snapshot go; false when there is none of that name.
    pub fn delete_snapshot<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<bool>> {
        Box::pin(async move { self.context.engine.delete_snapshot(name).await })
    }

    /// What maintenance is doing and what is left to do.
    pub fn maintenance_status(&self) -> MaintenanceStatus {
        maintenance::status(&self.maintenance)
    }

    /// Flushes, stops the background work and closes the store.
    pub fn close(&self) -> BoxFuture<'_, Result<()>> {
        self.close_within(CLOSE_PATIENCE)
    }

    /// Flushes likewise, and begins no further round of the flush after `patience`. What is not
    /// flushed then stays in the journal, and so does everything if the future is dropped: the next
    /// process replays it.
    pub fn close_within(&self, patience: Duration) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.flush_and_close(patience))
    }

    async fn flush_and_close(&self, patience: Duration) -> Result<()> {
        let background = self.background.lock().take();
        let Some(background) = background else {
            return Ok(());
        };
        // First the job: it holds back flushes until it ends.
        self.stop_maintenance();
        let waits_for = |what| *self.closing.lock() = what;
        waits_for("maintenance to reach a point where it can stop");
        let jobs = background.jobs.await;
        // The task ends with its receiver; it may have ended by itself.
        let _ = background.stop.send(());
        waits_for("a flush that is under way");
        let flushes = background.flushes.await;
        if jobs.and(flushes).is_err() {
            warn!("a background task panicked");
        }
        waits_for("hours to be flushed");
        let flushed = match self.ingest.journal().failed() {
            None => ingest::flush_at_stop(&self.ingest, patience).await,
            Some(_) => Ok(()),
        };
        self.ingest.flush_log().tell_all();
        waits_for("the storage to take what was flushed");
        // Also when an hour could not be flushed: the next start reads the epochs that it is in,
        // and no others.
        if let Err(cause) = summarize_epochs(&self.ingest).await {
            warn!(%cause, "cannot write epoch summaries: the next start reads more of the journal");
        }
        // There is an end to waiting.
        self.context.engine.repeat_writes(false);
        // What could not be flushed is still in the journal.
        for hour in self.ingest.quarantine().list() {
            let QuarantinedHour {
                start_ms, cause, ..
            } = hour;
            warn!(
                start_ms,
                cause, "closing with an hour that cannot be flushed: it stays in the journal"
            );
        }
        self.context.engine.close().await.and(flushed)
    }

    /// What a close that is under way is waiting for.
    pub fn closing(&self) -> &'static str {
        *self.closing.lock()
    }

    /// Why nothing can be acknowledged for the moment; it may pass.
    pub fn unready(&self) -> Option<String> {
        let failed = self.ingest.journal().failed();
        let trouble = || self.context.engine.health().trouble();
        failed
            .map(|reason| reason.to_string())
            .or_else(|| trouble().map(|trouble| trouble.reason))
    }

    /// What the store has answered.
    pub fn store_figures(&self) -> StoreFigures {
        self.context.engine.health().figures()
    }

    /// Resolves with the reason when the database stops acknowledging for good.
    pub async fn failed(&self) -> String {
        let mut failure = self.ingest.journal().watch_failure();
        tokio::select! {
            failed = failure.wait_for(Option::is_some) => {
                let reason = failed.ok().and_then(|reason| reason.clone());
                reason.map_or_else(|| "the journal is closed".into(), |reason| reason.to_string())
            }
            closed = self.context.engine.closed() => {
                if closed != Closed::Clean {
                    self.ingest.journal().fail(&closed.to_string());
                }
                closed.to_string()
            }
        }
    }

    pub fn metrics(&self) -> &Metrics {
        &self.context.metrics
    }

    pub fn slate_metrics(&self) -> Vec<SlateMetric> {
        self.context.engine.slate_metrics()
    }

    pub fn gauges(&self) -> Gauges {
        let (ingest, head) = (&self.ingest, self.ingest.head());
        let elapsed_ms = self.context.clock.elapsed_ms();
        let journal = head.journal_state();
        let oldest_ms = journal.oldest_epoch_ms.unwrap_or(elapsed_ms);
        let durable_below = ingest.journal().durable_below().min(journal.next_seq);
        let hours = head.open_hours();
        let totals = {
            let totals = head.totals.lock();
            (totals.len(), totals.bytes())
        };
        Gauges {
            series: head.series.load(Relaxed),
            head_sample_bytes: head.sample_bytes(),
            head_series_bytes: head.series_bytes(),
            open_hours: hours.len(),
            quarantined_hours: ingest.quarantine().len(),
            buckets: self.buckets.listed().len(),
            journal_queued_bytes: ingest.journal().queued_bytes(),
            journal_lag: journal.next_seq - durable_below,
            journal_epochs: journal.epochs,
            journal_unreadable_epochs: journal.unreadable_epochs,
            oldest_epoch_age_s: (elapsed_ms - oldest_ms) as f64 / 1e3,
            chunk_cache_bytes: self.buckets.cache().bytes(),
            event_cell_cache_bytes: self.buckets.cache().event_cells.bytes(),
            metadata: head.metadata.read().len(),
            delta_series: totals.0,
            delta_bytes: totals.1,
            head_start_ms: hours.first().map(|hour| hour.start_ms()),
            head_end_ms: hours.last().map(|hour| hour.end_ms(BucketSize::HOUR)),
        }
    }

    /// Where events and what is made of them is stored.
    pub fn events(&self) -> Arc<dyn EventStore> {
        Arc::clone(&self.events) as Arc<dyn EventStore>
    }

    /// The events of another instance, whose database lies at `location`: on a store with the
    /// settings of this one. What is read of it is no older than `age_max`. Nothing is asked of the
    /// store yet.
    pub fn event_shard(&self, location: &str, age_max: Duration) -> Result<Arc<dyn EventShard>> {
        let shard = OtherShard::new(&self.context, location, age_max)?;
        Ok(Arc::new(shard) as Arc<dyn EventShard>)
    }

    /// What one request may hold, for those who split what they store.
    pub fn limits(&self) -> &Limits {
        &self.context.options.limits
    }

    /// Where the data lies, for people.
    pub fn location(&self) -> String {
        self.context.engine.location().to_string()
    }
}

impl SeriesSource for Database {
    fn select(
        &self,
        selection: Selection,
    ) -> BoxFuture<'_, Result<Box<dyn SeriesStream>, SourceError>> {
        Box::pin(async move {
            let stream = SelectStream::open(&self.reader, selection).await?;
            Ok(Box::new(stream) as Box<dyn SeriesStream>)
        })
    }
}

impl SampleStore for Database {
    fn append_boxed(
        &self,
        patience: Duration,
        fill: Fill,
    ) -> BoxFuture<'_, Result<PendingWrite, AppendError<Discard>>> {
        Box::pin(async move {
            let (outcome, commit) = self.append(patience, |batch| fill(batch)).await?;
            let commit = Box::pin(async move { Ok(commit.wait().await?) });
            Ok(PendingWrite { outcome, commit })
        })
    }

    fn barrier(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        // A fill and its append are one piece of work there.
        Box::pin(async move { Ok(self.context.write_threads.barrier().await?) })
    }
}

impl Catalog for Database {
    fn range(
        &self,
        keys: Range<Vec<u8>>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<CatalogRecord>, StoreError>> {
        Box::pin(async move {
            let view = self.context.engine.live_view();
            let records = read::catalog_records(self.ingest.head(), &view, keys, limit).await;
            Ok(records?)
        })
    }
}
