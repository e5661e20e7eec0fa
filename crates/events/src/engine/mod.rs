//! The engine of events: takes them in, counts each of them exactly once, and keeps them.
//!
//! ```text
//!              ┌► journal ─► durable ─► open generation ─► flush: cells, identities, mark
//! request ─────┤                  └───► tail ─► seal: files, records of files
//!   registry   └► duplicate
//! ```
//!
//! Holds always:
//! - An event that was answered as stored is in the cells of all windows exactly once, and is found
//!   among events exactly once, whatever is sent again, fails, or crashes.
//! - A request is answered when its events are durable and can be read.
//! - Everything in memory is in the journal, too.
//!
//! Elsewhere: what an envelope is (`envelope`), how questions are answered (`query`, `search`).

mod accept;
mod apply;
mod attribute_value;
mod cells;
mod commit_order;
mod cull_sets;
mod dimension_set;
mod file_list;
mod flush;
mod fold;
mod fold_plan;
mod generation;
mod guard;
mod kept_files;
mod listed;
mod memory;
mod merge_events;
mod merge_files;
mod metrics;
mod not_registered;
#[cfg(any(test, feature = "testing"))]
mod open_generation;
mod options;
mod prepared;
mod publish;
mod quarantine;
mod recover;
mod register_types;
mod retention;
mod run;
mod seal;
mod shard;
mod states;
mod tail;
#[cfg(test)]
mod tests;
mod value_catalog;
mod view;
mod void_events;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use icecore_model::Clock;
use icecore_model::event::{EventShard, EventStore, FlushMark};
use parking_lot::Mutex;
use tokio::sync::{Mutex as AsyncMutex, Notify, RwLock};

use crate::{EventIdSource, FileFormat, Problem, Registry};
use apply::Undecided;
use commit_order::CommitOrder;
use flush::Flusher;
use kept_files::KeptFiles;
use memory::Memory;
use not_registered::LoggedTypes;
use quarantine::Lists;
use register_types::UnregisteredTypes;
use seal::FileWork;
use view::ViewState;

pub use apply::Applied;
pub use dimension_set::{DimensionSet, OVERFLOW};
pub use file_list::EventFile;
pub use listed::ListPage;
pub use metrics::{EventGauges, EventMetrics, SkipReason};
pub use not_registered::NotRegistered;
#[cfg(any(test, feature = "testing"))]
pub use open_generation::OpenGeneration;
pub use options::{EventOptions, Unconfigured};
pub use publish::{BatchOutcome, PublishStatus, Published, RejectedItem};
pub use quarantine::{DeadLetter, QuarantineEntry, ReplayReport};
pub use retention::RetentionReport;
pub use states::NO_STATE;
pub use tail::{BlockSummary, TailBlock};
pub use value_catalog::CataloguedValue;
pub use view::{EventsView, StateCount};

pub(crate) use cells::EXEMPLAR_WINDOW;
#[cfg(test)]
pub(crate) use cells::as_stored;
pub(crate) use shard::{Shard, unavailable as shard_unavailable};

/// The events of one database. Cheap to clone.
#[derive(Clone)]
pub struct Events {
    engine: Arc<Engine>,
}

struct Engine {
    store: Arc<dyn EventStore>,
    format: Arc<dyn FileFormat>,
    clock: Arc<dyn Clock>,
    options: EventOptions,
    metrics: EventMetrics,
    memory: Mutex<Memory>,
    order: CommitOrder,
    /// Held for reading while a request is under way, for writing while the registry changes.
    accepting: RwLock<()>,
    undecided: Undecided,
    /// One append after the other.
    appending: AsyncMutex<()>,
    /// One at a time adds blocks to memory.
    adding: AsyncMutex<()>,
    /// One flush at a time.
    flusher: AsyncMutex<Flusher>,
    /// One at a time replaces or drops files. Taken before `files`, and held for long.
    merging: AsyncMutex<KeptFiles>,
    /// One at a time changes the list of files.
    files: AsyncMutex<FileWork>,
    /// One at a time changes quarantine and dead letters.
    lists: AsyncMutex<Lists>,
    unregistered: UnregisteredTypes,
    logged_types: LoggedTypes,
    ids: EventIdSource,
    /// Of requests that are under way.
    request_bytes: AtomicUsize,
    is_closed: AtomicBool,
    /// Reservations have ended.
    resolved: Notify,
    /// A generation is full.
    flush_wanted: Notify,
    /// Memory is short.
    seal_wanted: Notify,
    /// Types were registered that the quarantine may have events of.
    replay_wanted: Notify,
}

impl Events {
    /// Opens the events of a store and takes over what its journal has.
    pub async fn open(
        store: Arc<dyn EventStore>,
        format: Arc<dyn FileFormat>,
        clock: Arc<dyn Clock>,
        options: EventOptions,
    ) -> Result<Self, Problem> {
        let metrics = EventMetrics::default();
        let registry = apply::stored_registry(&*store).await?;
        let recovered = recover::recover(&*store, registry, &options, &metrics).await;
        let recovered = recovered.map_err(Problem::from_store)?;
        let snapshot = store.snapshot().await.map_err(Problem::from_store)?;
        let lists = Lists::load(&*snapshot, store.guarded_ms()).await;
        let engine = Engine {
            store,
            format,
            clock,
            options,
            metrics,
            memory: Mutex::new(recovered.memory),
            order: CommitOrder::default(),
            accepting: RwLock::new(()),
            undecided: Undecided::default(),
            appending: AsyncMutex::new(()),
            adding: AsyncMutex::new(()),
            flusher: AsyncMutex::new(recovered.flusher),
            merging: AsyncMutex::default(),
            files: AsyncMutex::default(),
            lists: AsyncMutex::new(lists.map_err(Problem::from_store)?),
            unregistered: UnregisteredTypes::default(),
            logged_types: LoggedTypes::default(),
            ids: EventIdSource::random()?,
            request_bytes: AtomicUsize::new(0),
            is_closed: AtomicBool::new(false),
            resolved: Notify::new(),
            flush_wanted: Notify::new(),
            seal_wanted: Notify::new(),
            replay_wanted: Notify::new(),
        };
        Ok(Self {
            engine: Arc::new(engine),
        })
    }

    pub fn registry(&self) -> Arc<Registry> {
        self.engine.memory.lock().registry.clone()
    }

    pub fn options(&self) -> &EventOptions {
        &self.engine.options
    }

    pub fn metrics(&self) -> &EventMetrics {
        &self.engine.metrics
    }

    /// How the shard of another instance is read: as this one's own events are.
    pub(crate) fn shard(&self, shard: Arc<dyn EventShard>) -> Shard {
        let engine = &self.engine;
        Shard::new(
            shard,
            engine.format.clone(),
            engine.clock.clone(),
            engine.store.clone(),
            engine.options.memory_limit,
        )
    }

    /// What is in memory now.
    pub fn gauges(&self) -> EventGauges {
        self.engine.memory.lock().gauges()
    }

    /// Puts everything that has been acknowledged into cells; durable when it returns.
    pub async fn flush(&self) -> Result<FlushMark, Problem> {
        self.to_its_end(|engine| async move { engine.flush().await })
            .await
    }

    /// Puts everything that has been acknowledged into cells, and into files.
    pub async fn seal(&self) -> Result<(), Problem> {
        self.flush().await?;
        self.seal_flushed().await
    }

    /// Puts everything that is in cells into files.
    pub async fn seal_flushed(&self) -> Result<(), Problem> {
        self.to_its_end(|engine| async move { engine.seal().await })
            .await
    }

    /// Merges small files. Returns how many have been retired.
    pub async fn merge_files(&self) -> Result<usize, Problem> {
        self.to_its_end(|engine| async move { engine.merge_files().await })
            .await
    }

    /// Drops files that are not listed any more.
    pub async fn clean_up(&self) -> Result<(), Problem> {
        self.to_its_end(|engine| async move { engine.clean_up().await })
            .await
    }

    /// Ends accepting, waits for what is under way, and flushes.
    pub async fn close(&self) -> Result<(), Problem> {
        self.engine.is_closed.store(true, Relaxed);
        drop(self.engine.accepting.write().await);
        self.flush().await?;
        Ok(())
    }

    /// Does something in a task of its own: what was begun and dropped half-way might be applied
    /// after it was looked for in vain.
    async fn to_its_end<T, F>(&self, work: impl FnOnce(Arc<Engine>) -> F) -> Result<T, Problem>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Problem>> + Send + 'static,
    {
        let task = tokio::spawn(work(self.engine.clone()));
        task.await.map_err(stopped)?
    }

    /// A consistent read of everything that has been acknowledged.
    pub async fn view(&self) -> Result<EventsView, Problem> {
        let engine = &self.engine;
        let (registry, mut generations, mut tail) = {
            let memory = engine.memory.lock();
            let tail = memory.tail.all();
            (memory.registry.clone(), memory.generations(), tail)
        };
        // What is flushed or sealed from here on is in both, and is left out below.
        let snapshot = engine.store.snapshot().await;
        let snapshot = snapshot.map_err(Problem::from_store)?;
        let mark = snapshot.mark();
        generations.retain(|generation| generation.number > mark.generation);
        let sealed = snapshot.sealed();
        tail.retain(|block| block.seq() > sealed);
        let store = engine.store.clone();
        Ok(EventsView::new(ViewState {
            registry,
            now_ms: engine.clock.now_ms(),
            guarded_ms: engine.store.guarded_ms(),
            read_file: Arc::new(move |path, range| {
                let store = store.clone();
                Box::pin(async move { store.files().read(&path, range).await })
            }),
            format: engine.format.clone(),
            snapshot,
            generations,
            tail,
        }))
    }
}

impl Engine {
    fn check_open(&self) -> Result<(), Problem> {
        if self.is_closed.load(Relaxed) {
            let detail = "this server is shutting down";
            return Err(Problem::new(503, "ingest.unavailable", detail));
        }
        Ok(())
    }
}

/// A task that did not come to its end.
fn stopped(error: tokio::task::JoinError) -> Problem {
    Problem::new(
        503,
        "ingest.unavailable",
        format!("a task has ended: {error}"),
    )
}
