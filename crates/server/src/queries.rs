//! Running queries: which of them, where, and for how long.
//!
//! ```text
//! handler ─► slot, or the queue for one ─► task: each poll on the query pool, no thread in between
//! ```
//!
//! Holds always:
//! - No query computes on an async worker.
//! - Queries compute on a pool of their own, one thread per core. Writes are decoded on storage's
//!   pool, so the operating system shares the cores among them and no heavy query holds up a write.
//! - At most `query.max_concurrency` queries run and `query.max_queue` wait.
//! - A query whose client has gone away ends: at once while it waits for the store, with the next
//!   batch while it computes.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use async_task::Runnable;
use futures::FutureExt as _;
use icecore_model::{MemoryBudget, SelectHints, SeriesSource};
use icecore_promql::{Answer, Engine, Error, Request};
use parking_lot::RwLock;
use rayon::{ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder};
use thiserror::Error as ThisError;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::config::QueryOptions;
use crate::metrics::QueryMetrics;

/// Why a query has no answer.
#[derive(Debug, ThisError)]
pub(crate) enum QueryError {
    #[error(transparent)]
    Engine(#[from] Error),
    #[error(
        "query.max_concurrency queries run and query.max_queue = {0} wait for their turn: try again"
    )]
    QueueFull(usize),
    #[error("the query ended without an answer; the log has the cause")]
    Panicked,
}

/// The engine with what queries share.
pub(crate) struct Queries {
    /// Replaced by a reload; a running query keeps the one it started with.
    engine: RwLock<Arc<Engine>>,
    pool: Arc<ThreadPool>,
    slots: Arc<Semaphore>,
    waiting: AtomicUsize,
    waiting_max: AtomicUsize,
    running_max: usize,
    pub(crate) metrics: QueryMetrics,
}

impl Queries {
    pub(crate) fn new(options: QueryOptions) -> Result<Self, ThreadPoolBuildError> {
        let pool = ThreadPoolBuilder::new()
            .thread_name(|i| format!("query-{i}"))
            .build()?;
        let slots = options.max_concurrency.min(Semaphore::MAX_PERMITS);
        Ok(Self {
            engine: RwLock::new(Arc::new(Engine::new(options.engine))),
            pool: Arc::new(pool),
            slots: Arc::new(Semaphore::new(slots)),
            waiting: AtomicUsize::new(0),
            waiting_max: AtomicUsize::new(options.max_queue),
            running_max: options.max_concurrency,
            metrics: QueryMetrics::default(),
        })
    }

    /// The memory of one request that reads; engine and storage take from the same limit.
    pub(crate) fn memory(&self) -> Arc<MemoryBudget> {
        MemoryBudget::new(self.engine().options().memory_max)
    }

    /// Options of a selection that is not part of a query.
    pub(crate) fn hints(&self) -> SelectHints {
        SelectHints {
            memory: Some(self.memory()),
            ..SelectHints::default()
        }
    }

    pub(crate) fn engine(&self) -> Arc<Engine> {
        Arc::clone(&self.engine.read())
    }

    /// From now on queries begin by these options. How many run at once stays as it was.
    pub(crate) fn set_options(&self, options: &QueryOptions) {
        *self.engine.write() = Arc::new(Engine::new(options.engine.clone()));
        self.waiting_max.store(options.max_queue, Relaxed);
    }

    /// How long a query may take at most: `query.timeout`.
    pub(crate) fn longest(&self) -> Duration {
        self.engine().options().timeout
    }

    /// How long a query may take, waiting included: what it asks for, up to `query.timeout`.
    pub(crate) fn timeout_of(&self, request: &Request) -> Duration {
        let longest = self.longest();
        request.timeout.map_or(longest, |asked| asked.min(longest))
    }

    /// A place among the running queries, held until the last byte of the answer is handed over:
    /// that bounds the memory of answers, too.
    pub(crate) async fn slot(&self, timeout: Duration) -> Result<OwnedSemaphorePermit, QueryError> {
        if let Ok(slot) = Arc::clone(&self.slots).try_acquire_owned() {
            return Ok(slot);
        }
        let _waiting = QueueSlot::begin(&self.waiting, self.waiting_max.load(Relaxed))?;
        let slot = Arc::clone(&self.slots).acquire_owned();
        match tokio::time::timeout(timeout, slot).await {
            Ok(Ok(slot)) => Ok(slot),
            // The semaphore is never closed.
            Ok(Err(_)) | Err(_) => Err(Error::Timeout("query queue").into()),
        }
    }

    /// Drives a future on the pool: every poll runs there, so that what it computes in parallel
    /// stays there. Between polls, while it waits, it takes no thread. It ends when the caller
    /// stops waiting for it.
    pub(crate) async fn on_pool<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, QueryError> {
        let (pool, runtime) = (Arc::clone(&self.pool), Handle::current());
        let schedule = move |runnable: Runnable| {
            let runtime = runtime.clone();
            pool.spawn_fifo(move || {
                // Storage spawns tasks and sets timers, which the pool's threads know nothing of.
                let _runtime = runtime.enter();
                runnable.run();
            });
        };
        // A panic that reaches a pool of rayon ends the process.
        let future = AssertUnwindSafe(future).catch_unwind();
        let (runnable, task) = async_task::spawn(future, schedule);
        runnable.schedule();
        task.await.map_err(|_| QueryError::Panicked)
    }

    /// Answers a query within the request's time, and explains how if asked. Computes: to be driven
    /// by [`Queries::on_pool`].
    pub(crate) async fn execute(
        &self,
        source: &dyn SeriesSource,
        request: &Request,
        canceled: &AtomicBool,
        explains: bool,
    ) -> Result<(Answer, Option<String>), Error> {
        let timeout = self.timeout_of(request);
        let engine = self.engine();
        let answer = async {
            if explains {
                let explained = engine.execute_explained(source, request, canceled).await?;
                return Ok((explained.0, Some(explained.1)));
            }
            let answer = engine.execute(source, request, canceled).await?;
            Ok((answer, None))
        };
        // The engine looks at flag and time itself, but not while it waits for the store.
        tokio::select! {
            biased;
            answer = answer => answer,
            () = tokio::time::sleep(timeout) => Err(Error::Timeout("expression evaluation")),
        }
    }

    /// Queries that have a slot.
    pub(crate) fn running(&self) -> usize {
        let slots = self.running_max.min(Semaphore::MAX_PERMITS);
        slots.saturating_sub(self.slots.available_permits())
    }

    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Relaxed)
    }

    pub(crate) fn running_max(&self) -> usize {
        self.running_max
    }
}

/// A slot in the queue, released when dropped.
struct QueueSlot<'a>(&'a AtomicUsize);

impl<'a> QueueSlot<'a> {
    fn begin(count: &'a AtomicUsize, max: usize) -> Result<Self, QueryError> {
        let place = Self(count);
        if count.fetch_add(1, Relaxed) >= max {
            return Err(QueryError::QueueFull(max));
        }
        Ok(place)
    }
}

impl Drop for QueueSlot<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// Held while an answer is awaited: dropping it cancels a query that computes.
#[derive(Default)]
pub(crate) struct CancelOnDrop(Arc<AtomicBool>);

impl CancelOnDrop {
    /// True from when the answer is awaited no more.
    pub(crate) fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queries(max_concurrency: usize, max_queue: usize) -> Queries {
        Queries::new(QueryOptions {
            max_concurrency,
            max_queue,
            ..QueryOptions::default()
        })
        .unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn further_queries_wait_and_then_give_up() {
        let queries = queries(1, 1);
        let patience = Duration::from_secs(7);
        let slot = queries.slot(patience).await.unwrap();
        assert_eq!((queries.running(), queries.waiting()), (1, 0));
        let began = tokio::time::Instant::now();
        let error = queries.slot(patience).await.unwrap_err();
        assert_eq!(error.to_string(), "query timed out in query queue");
        assert_eq!(began.elapsed(), patience);
        assert_eq!(queries.waiting(), 0);
        drop(slot);
        assert!(queries.slot(patience).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn the_queue_is_bounded() {
        let queries = Arc::new(queries(1, 1));
        let slot = queries.slot(Duration::MAX).await.unwrap();
        let other = Arc::clone(&queries);
        let waits = tokio::spawn(async move { other.slot(Duration::from_secs(9)).await.is_ok() });
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(queries.waiting(), 1);
        let refused = queries.slot(Duration::from_secs(9)).await;
        assert!(matches!(refused, Err(QueryError::QueueFull(1))));
        assert_eq!(queries.waiting(), 1);
        drop(slot);
        assert!(waits.await.unwrap());
    }

    #[tokio::test]
    async fn futures_compute_on_the_pool_and_wait_elsewhere() {
        let queries = queries(1, 1);
        let on_pool = || rayon::current_thread_index().is_some();
        let computed = queries.on_pool(async move {
            let first = std::thread::current().name().map(str::to_owned);
            tokio::time::sleep(Duration::from_millis(5)).await;
            let spawned = tokio::spawn(async move { on_pool() }).await;
            (first, on_pool(), spawned.unwrap())
        });
        let (thread, still_on_pool, spawned_on_pool) = computed.await.unwrap();
        assert!(thread.unwrap().starts_with("query-"));
        assert!(still_on_pool && !spawned_on_pool);
    }

    #[tokio::test]
    async fn a_panic_ends_its_query_only() {
        let queries = queries(1, 1);
        let panicked = queries.on_pool(async { panic!("on purpose") });
        let panicked: Result<(), _> = panicked.await;
        assert!(matches!(panicked, Err(QueryError::Panicked)));
        assert_eq!(queries.on_pool(async { 7 }).await.unwrap(), 7);
    }

    #[tokio::test]
    async fn a_query_that_waits_ends_with_its_client() {
        let queries = queries(1, 1);
        let (held, dropped) = tokio::sync::oneshot::channel::<()>();
        let waits = queries.on_pool(async move {
            let _held = held;
            std::future::pending::<()>().await;
        });
        assert!(waits.now_or_never().is_none());
        let dropped = tokio::time::timeout(Duration::from_secs(120), dropped).await;
        assert!(dropped.expect("dropped with its client").is_err());
    }

    #[test]
    fn dropping_cancels() {
        let waiting = CancelOnDrop::default();
        let flag = waiting.flag();
        assert!(!flag.load(Relaxed));
        drop(waiting);
        assert!(flag.load(Relaxed));
    }
}
