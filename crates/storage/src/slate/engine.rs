//! The one SlateDB database of this process, opened for writing.
//!
//! ```text
//! put / write ─► memtable + WAL buffer ─(flush)─► WAL object ─► await_durable returns
//!                     └─(L0 size, WAL files, flush_memtable)─► one L0 file per touched segment
//! ```
//!
//! Holds always:
//! - A write is durable when `WriteHandle::await_durable` returns, never before; `Db::flush` writes
//!   the WAL out now instead of at the next `wal_flush_interval`.
//! - Who opens last owns the database. The writer before it sees, within a poll of the manifest (1
//!   s local, 5 s remote) or at its next WAL write, whichever is first: `write`, `flush`,
//!   `await_durable`, `get`, `scan` and `snapshot` all fail with `ErrorKind::Closed(Fenced)`,
//!   "detected newer DB client", and [`Engine::closed`] resolves. Nothing it had not been told to
//!   be durable becomes durable afterwards.
//! - When the store is given up (`observed_store` says when) or the database is gone from it, the
//!   database closes as well, which [`Engine::closed`] reports as a failure. SlateDB waits for 1 to
//!   2 s between two tries. A running database does not give up writing
//!   ([`Engine::repeat_writes`]).
//!
//! Elsewhere: settings and their reasons (`tuning`), what is compacted and drained (`scheduler`),
//! what becomes of the files (`garbage`).

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use icecore_model::{Clock, SystemClock};
use parking_lot::Mutex;
use slatedb::config::{CloseOptions, FlushOptions, FlushType};
use slatedb::db_cache::{DbCache, SplitCache};
use slatedb::object_store::ObjectStore;
use slatedb::object_store::path::Path;
use slatedb::{CloseReason, Db, ErrorKind};
use tokio::time::Instant;
use tracing::info;

use super::collector::{self, Collector};
use super::event_files;
use super::first_contact;
use super::health::StoreHealth;
use super::location::StoreLocation;
use super::lock_file::DirectoryLock;
use super::merge_operator::RecordMergeOperator;
use super::object_store::{OpenedStore, open_store};
use super::observed_store::ObservedStore;
use super::page_cache::PageCache;
use super::permissions::warn_if_open;
use super::read_view::View;
use super::scheduler::SchedulerSupplier;
use super::segment_extractor::SegmentExtractor;
use super::segment_set::SegmentSet;
use super::slate_metrics::{SlateMetric, SlateMetrics};
use super::staged_files::remove_staged_files;
use super::tick_clock::TickClock;
use super::tuning;
use super::watch::StoreWatch;
use super::worker::{Worker, WorkerSetup};
use crate::error::{Error, FENCED, Result, with_sources, without_document};
use crate::options::StoreOptions;

/// How often to look whether the compactor has dropped segments.
const DRAIN_POLL: Duration = Duration::from_millis(100);

/// The database, opened for writing. One per process and store.
pub(crate) struct Engine {
    pub(super) db: Db,
    pub(super) path: Path,
    pub(super) store: Arc<dyn ObjectStore>,
    pub(super) options: StoreOptions,
    pub(super) location: StoreLocation,
    /// Every opening for writing has one of its own.
    epoch: u64,
    /// By which everything is named, and all checkpoints are dated.
    pub(super) clock: Arc<TickClock>,
    pub(super) collector: Arc<Collector>,
    pub(super) drains: SegmentSet,
    pub(super) joins: SegmentSet,
    /// Until the database is closed, when this process compacts.
    worker: Mutex<Option<Worker>>,
    metrics: SlateMetrics,
    health: Arc<StoreHealth>,
    /// Of a local directory; it goes when the database is closed.
    lock: Option<Arc<DirectoryLock>>,
    _watch: StoreWatch,
}

/// Why a database no longer takes writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Closed {
    /// [`Engine::close`] was called.
    Clean,
    /// Another process opened the same database for writing.
    Fenced,
    /// The store failed for good or a background task died, with the cause.
    Failed(String),
}

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Clean => write!(f, "the database was closed"),
            Self::Fenced => f.write_str(FENCED),
            Self::Failed(cause) => write!(f, "the storage failed for good: {cause}"),
        }
    }
}

impl Engine {
    /// Opens or creates the database at `options.location`, taking it over from whoever had it. A
    /// local directory is only taken over when `options.take_over` says so.
    ///
    /// The first requests to the store are limited by `open_timeout`. Opening itself is not,
    /// because after a crash it replays SlateDB's WAL, which takes as long as it takes; each of its
    /// requests is limited by `retries_max`.
    pub(crate) async fn open(
        options: &StoreOptions,
        store_override: Option<Arc<dyn ObjectStore>>,
    ) -> Result<Self> {
        Self::open_at(options, store_override, &SystemClock).await
    }

    /// [`Engine::open`] on a machine whose clock is another one.
    pub(crate) async fn open_at(
        options: &StoreOptions,
        store_override: Option<Arc<dyn ObjectStore>>,
        machine: &dyn Clock,
    ) -> Result<Self> {
        let location = StoreLocation::parse(&options.location)?;
        let settings = tuning::settings(options, &location)?;
        let block_size = tuning::block_size(options)?;
        let mut opened = open_store(options, store_override, true)?;
        let lock = match location.directory() {
            Some(directory) => {
                warn_if_open(directory);
                DirectoryLock::acquire(directory, options.take_over)?
            }
            None => None,
        };
        let lock = lock.map(Arc::new);
        let exists = first_contact::look(&opened, options).await?;
        keep_directories(&opened)?;
        first_contact::prove_create(&opened, options).await?;
        // Those of a writer that is taken over are not judged by their age: the clock of this
        // machine may be ahead of the other's.
        let is_free = lock.as_ref().is_none_or(|lock| lock.is_held());
        if let Some(directory) = location.directory().filter(|_| is_free) {
            remove_staged_files(&directory.join(opened.path.as_ref()));
            remove_staged_files(&directory.join(event_files::DIRECTORY));
        }
        info!(%location, new = !exists, "opening the database");
        let health = Arc::new(StoreHealth::default());
        let observed = ObservedStore::new(opened.store, Arc::clone(&health), options.retries_max);
        opened.store = Arc::new(observed);
        let watch = StoreWatch::start(&opened, Arc::clone(&health), lock.clone());

        let clock = TickClock::starting(machine.now_ms());
        let retries_max = options.retries_max;
        clock
            .follow(&opened.path, &opened.store, retries_max)
            .await?;
        let drains = SegmentSet::default();
        let joins = SegmentSet::default();
        let metrics = SlateMetrics::default();
        let builder = Db::builder(opened.path.clone(), Arc::clone(&opened.store))
            .with_settings(settings)
            .with_system_clock(Arc::clone(&clock) as _)
            .with_sst_block_size(block_size)
            .with_segment_extractor(Arc::new(SegmentExtractor))
            .with_merge_operator(Arc::new(RecordMergeOperator))
            .with_block_cache_policy(tuning::cache_policy())
            .with_db_cache(block_and_meta_cache(options), 0)
            .with_metrics_recorder(metrics.recorder());
        let began = Instant::now();
        let db = builder
            .build()
            .await
            .map_err(|cause| open_error(&location, cause))?;
        let epoch = db.manifest().writer_epoch();
        keep_directories(&opened)?;
        // What the writer before this one has written until it was fenced.
        clock
            .follow(&opened.path, &opened.store, retries_max)
            .await?;
        let collector = Arc::new(Collector::new(
            opened.path.clone(),
            Arc::clone(&opened.store),
            Arc::clone(&clock),
            metrics.clone(),
            tuning::garbage(options, &location),
            began,
        ));
        let worker = options.compaction.then(|| {
            let setup = WorkerSetup {
                path: opened.path.clone(),
                store: Arc::clone(&opened.store),
                options: tuning::compactor(options, &location),
                scheduler: Arc::new(SchedulerSupplier {
                    drains: drains.clone(),
                    joins: joins.clone(),
                    clock: Arc::clone(&clock),
                }),
                block_size,
                metrics: metrics.clone(),
                clock: Arc::clone(&clock),
            };
            Worker::start(setup, &db)
        });
        let engine = Self {
            epoch,
            db,
            path: opened.path,
            store: opened.store,
            options: options.clone(),
            location,
            clock,
            collector,
            drains,
            joins,
            worker: Mutex::new(worker),
            metrics,
            health,
            lock,
            _watch: watch,
        };
        engine.adopt_snapshots().await?;
        if engine.options.compaction {
            engine.collect_garbage();
        }
        Ok(engine)
    }

    /// Deletes old files from now on, until the database is closed.
    fn collect_garbage(&self) {
        let (collector, status) = (Arc::clone(&self.collector), self.db.subscribe());
        tokio::spawn(collector::run(collector, self.options.gc_interval, status));
    }

    /// Tells this opening for writing from all others, also from those of before and after it.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    pub(crate) fn db(&self) -> &Db {
        &self.db
    }

    /// Reads what is written, as it is written.
    pub(crate) fn live_view(&self) -> View {
        View::Live(self.db.clone())
    }

    /// Reads what has been written by now, and nothing later.
    pub(crate) fn snapshot(&self) -> Result<View> {
        self.db
            .snapshot()
            .map(View::Snapshot)
            .map_err(Error::store("taking a snapshot"))
    }

    /// Drops everything under a segment prefix: all that is in files by the next poll of the
    /// compactor (1 s local, 5 s remote), and later whatever a memtable still held.
    ///
    /// The caller no longer writes to the segment. Readers stop seeing its rows as they go, open
    /// snapshots included. Nothing is remembered across a restart: what [`Engine::segments`] lists
    /// then and is not wanted is to be drained again.
    pub(crate) fn drain(&self, prefix: Bytes) {
        let present: BTreeSet<Bytes> = self.segments().into_iter().collect();
        self.drains.retain(|drained| present.contains(drained));
        self.drains.insert(prefix);
    }

    /// [`Engine::drain`] of several.
    pub(crate) fn drain_all(&self, prefixes: &[Bytes]) {
        for prefix in prefixes {
            self.drains.insert(prefix.clone());
        }
    }

    /// Ends drains: what is written under these prefixes from now on stays. What the compactor has
    /// been told to drop already is of before.
    pub(crate) fn stop_draining(&self, prefixes: &[Bytes]) {
        for prefix in prefixes {
            self.drains.remove(prefix);
        }
    }

    /// Drops everything under some prefixes and waits for at most `patience`. Returns those whose
    /// segments still have something; it is as it was, or a part of it.
    ///
    /// The caller keeps the segments from being written meanwhile. Afterwards they may be. This
    /// process must compact: nobody else drops segments.
    pub(crate) async fn drop_segments(
        &self,
        prefixes: &[Bytes],
        patience: Duration,
    ) -> Result<BTreeSet<Bytes>> {
        // Rows that are in a memtable would come back with its flush.
        self.flush_memtable().await?;
        self.drain_all(prefixes);
        let give_up = Instant::now() + patience;
        let mut held = self.having_files(prefixes);
        while !held.is_empty() && Instant::now() < give_up {
            tokio::time::sleep(DRAIN_POLL).await;
            held = self.having_files(prefixes);
        }
        self.stop_draining(prefixes);
        Ok(held)
    }

    /// Prefixes of the segments that have files.
    pub(crate) fn segments_in_files(&self) -> BTreeSet<Bytes> {
        let manifest = self.db.manifest();
        let segments = manifest.segments().iter();
        segments
            .filter(|segment| !segment.l0().is_empty() || !segment.compacted().is_empty())
            .map(|segment| segment.prefix().clone())
            .collect()
    }

    /// Those of the given prefixes whose segments have files. Nothing is copied: a manifest may
    /// name hundreds of thousands of segments.
    pub(crate) fn having_files(&self, prefixes: &[Bytes]) -> BTreeSet<Bytes> {
        let status = self.db.subscribe();
        let status = status.borrow();
        let has_files = |prefix: &&Bytes| {
            let segment = status.current_manifest.segment(prefix);
            segment.is_some_and(|s| !s.l0().is_empty() || !s.compacted().is_empty())
        };
        prefixes.iter().filter(has_files).cloned().collect()
    }

    /// File bytes of the segments with these prefixes, as the manifest estimates them.
    pub(crate) fn file_bytes(&self, prefixes: impl Iterator<Item = Bytes>) -> u64 {
        let status = self.db.subscribe();
        let status = status.borrow();
        prefixes
            .filter_map(|prefix| status.current_manifest.segment(&prefix))
            .map(|segment| {
                let fresh = segment.l0().iter().map(|file| file.estimate_size());
                let compacted = segment.compacted().iter().map(|run| run.estimate_size());
                fresh.chain(compacted).sum::<u64>()
            })
            .sum()
    }

    /// Prefixes of the segments that hold anything, in files or still in memory.
    pub(crate) fn segments(&self) -> Vec<Bytes> {
        self.db
            .status()
            .list_segments()
            .into_iter()
            .map(|segment| segment.prefix)
            .collect()
    }

    /// Writes all memtables out as L0 files. Returns when the manifest lists them.
    pub(crate) async fn flush_memtable(&self) -> Result<()> {
        self.db
            .flush_with_options(FlushOptions {
                flush_type: FlushType::MemTable,
            })
            .await
            .map_err(Error::store("flushing the memtable"))
    }

    /// Writes out what is left and stops all background work. A second call does nothing.
    pub(crate) async fn close(&self) -> Result<()> {
        let worker = self.worker.lock().take();
        if let Some(worker) = worker {
            worker.stop().await;
        }
        let closed = self.db.close_with_options(CloseOptions::default()).await;
        if let Some(lock) = &self.lock {
            lock.release();
        }
        match closed {
            Ok(()) => Ok(()),
            Err(cause) if cause.kind() == ErrorKind::Closed(CloseReason::Clean) => Ok(()),
            Err(cause) => Err(Error::store("closing the database")(cause)),
        }
    }

    /// From now on, or no longer, failed writes are repeated until they succeed, instead of closing
    /// the database after `retries_max` of them.
    pub(crate) fn repeat_writes(&self, endless: bool) {
        self.health.repeat_writes(endless);
    }

    pub(crate) fn health(&self) -> &Arc<StoreHealth> {
        &self.health
    }

    /// Why the database is closed, if it is.
    #[cfg(test)]
    pub(crate) fn closed_reason(&self) -> Option<Closed> {
        let reason = self.db.subscribe().borrow().close_reason?;
        Some(self.closed_for(reason))
    }

    /// Waits until the database is closed, by us or by what happened to it, and says why.
    pub(crate) async fn closed(&self) -> Closed {
        let mut status = self.db.subscribe();
        let closed = status
            .wait_for(|status| status.close_reason.is_some())
            .await;
        // The channel ends only together with the database.
        match closed.ok().and_then(|status| status.close_reason) {
            Some(reason) => self.closed_for(reason),
            None => Closed::Clean,
        }
    }

    fn closed_for(&self, reason: CloseReason) -> Closed {
        match reason {
            CloseReason::Clean => Closed::Clean,
            CloseReason::Fenced => Closed::Fenced,
            // SlateDB says "panic" for every other end, a store that is out of reach included.
            // Every later call is answered with the error itself; this one costs nothing.
            _ => Closed::Failed(match self.db.snapshot() {
                Err(cause) => without_document(&with_sources(&cause)),
                Ok(_) => "a background task ended".to_owned(),
            }),
        }
    }

    /// Files that one key may be in before writes wait for compaction.
    pub(crate) fn l0_files_max(&self) -> usize {
        tuning::L0_FILES_PER_KEY_MAX
    }

    pub(crate) fn location(&self) -> &StoreLocation {
        &self.location
    }

    /// What SlateDB holds in memory and has not written to files.
    pub(crate) fn unflushed_bytes(&self) -> usize {
        self.metrics.level("slatedb.db.total_mem_size_bytes")
    }

    /// SlateDB's own metrics as they stand.
    pub(crate) fn slate_metrics(&self) -> Vec<SlateMetric> {
        self.metrics.snapshot()
    }
}

/// From now on the directories of the database must stay where they are.
fn keep_directories(opened: &OpenedStore) -> Result<()> {
    let Some(directories) = &opened.directories else {
        return Ok(());
    };
    directories.arm().map_err(|cause| {
        Error::Unavailable(
            format!(
                "cannot read the storage directory {}: {cause}",
                opened.location
            )
            .into(),
        )
    })
}

/// Decoded blocks apart from indexes and filters, so that a large scan cannot evict the latter.
pub(crate) fn block_and_meta_cache(options: &StoreOptions) -> Arc<dyn DbCache> {
    let cache = |bytes: usize| Some(Arc::new(PageCache::new(bytes)) as Arc<dyn DbCache>);
    Arc::new(
        SplitCache::new()
            .with_block_cache(cache(options.block_cache_bytes))
            .with_meta_cache(cache(options.meta_cache_bytes))
            .build(),
    )
}

/// Says what a failed open means for the person who started it.
pub(crate) fn open_error(location: &StoreLocation, cause: slatedb::Error) -> Error {
    let same_moment = || {
        Error::Closed(format!(
            "another process opened {location} for writing at the same moment; start this one again if it is to take over"
        ))
    };
    match cause.kind() {
        ErrorKind::Closed(CloseReason::Fenced) => same_moment(),
        // Two that create the database at once: SlateDB reports the later one as wrong data.
        ErrorKind::Data if cause.to_string().contains("version already exists") => same_moment(),
        ErrorKind::Unavailable => Error::Unavailable(format!(
            "cannot open the database at {location}: {cause}; the storage answered at first, so check whether it may be written to and has space"
        ).into()),
        ErrorKind::Invalid | ErrorKind::Data => Error::Corrupt(format!(
            "what lies at {location} cannot be opened as a database of this version: {cause}"
        ).into()),
        _ => Error::store("opening the database")(cause),
    }
}
