//! CPU pools: decoding, encoding and matching run here, never on the async workers.
//!
//! Requests and maintenance have a pool each: the slices of a job take tenths of a second, and a
//! request must not wait behind one. Writes have threads that sleep as soon as they have nothing to
//! do ([`WriteThreads`]).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tokio::sync::{Semaphore, oneshot};

use crate::error::{Error, Reason, Result};

pub(crate) struct Pool(rayon::ThreadPool);

impl Pool {
    /// The pool of requests and flushes, with one thread per core.
    pub(crate) fn for_requests() -> Result<Self> {
        Self::new("cpu", 0)
    }

    /// The pool of jobs. Half of the cores, so that they leave room for requests.
    pub(crate) fn for_jobs() -> Result<Self> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self::new("job", (cores / 2).max(1))
    }

    /// A pool with some number of threads; 0 for one per core.
    fn new(name: &'static str, threads: usize) -> Result<Self> {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(move |i| format!("{name}-{i}"))
            .build();
        pool.map(Self)
            .map_err(|cause| Error::Unavailable(Reason::caused("no CPU pool", cause)))
    }

    /// Runs `work` on the pool and waits for it without blocking an async worker.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        self.start(work).await.map_err(|_| failed())
    }

    /// The same for work that is small, for example on a number of series that is known to be.
    /// Where the caller is on a CPU pool already, as a query is while it computes, it runs there:
    /// handing it to another thread and back would take longer than the work. What is large, or
    /// done for several buckets at once, must not: it would hold up the query's timeout and its
    /// other reads.
    pub(crate) async fn run_small<T: Send + 'static>(
        &self,
        is_small: bool,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        if is_small && rayon::current_thread_index().is_some() {
            return catch_unwind(AssertUnwindSafe(work)).map_err(|_| failed());
        }
        self.run(work).await
    }

    /// Runs `work` on the pool. The receiver is told that the sender is gone if it panics.
    pub(crate) fn start<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> oneshot::Receiver<T> {
        let (sender, receiver) = oneshot::channel();
        self.0.spawn(move || {
            // A panic in `work` drops the sender; the pool's thread and the process go on.
            let done = catch_unwind(AssertUnwindSafe(work));
            if let Ok(value) = done {
                // The asker may have gone away.
                let _ = sender.send(value);
            }
        });
        receiver
    }
}

/// Where writes are decoded and appended, as many at once as there are cores.
///
/// These are no threads of rayon: those look for work thirty times before they sleep, and give way
/// to another thread each time. That suits work that is split; for a small write, which is not,
/// it was 20 to 30 changes of threads and a tenth of the CPU.
pub(crate) struct WriteThreads {
    places: Arc<Semaphore>,
    count: u32,
}

impl WriteThreads {
    pub(crate) fn new() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let cores = u16::try_from(cores).unwrap_or(u16::MAX);
        Self {
            places: Arc::new(Semaphore::new(cores.into())),
            count: cores.into(),
        }
    }

    /// Waits until all work that has begun has ended. Work that is asked for meanwhile begins
    /// afterwards.
    pub(crate) async fn barrier(&self) -> Result<()> {
        let all = self.places.acquire_many(self.count).await;
        all.map(drop).map_err(|_| failed())
    }

    /// Runs `work` and waits for it without blocking an async worker. Once it has begun it runs to
    /// its end, also when nobody waits for it any more.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        let core = Arc::clone(&self.places).acquire_owned().await;
        let done = tokio::task::spawn_blocking(move || {
            let _core = core;
            work()
        });
        done.await.map_err(|_| failed())
    }
}

fn failed() -> Error {
    Error::Unavailable("work on the CPU pool failed; the log has the cause".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_stays_on_a_cpu_thread_and_leaves_an_async_one() {
        let pool = Pool::for_requests().unwrap();
        let name = || std::thread::current().name().map(str::to_owned);
        let there = pool.run(name).await.unwrap();
        assert!(there.is_some_and(|name| name.starts_with("cpu-")));
        let other = Pool::for_jobs().unwrap();
        let stays = move || {
            let here = std::thread::current().id();
            let ran =
                futures::executor::block_on(pool.run_small(true, || std::thread::current().id()));
            ran.unwrap() == here
        };
        assert!(other.run(stays).await.unwrap());
        let pool = Pool::for_requests().unwrap();
        let leaves = move || {
            let here = std::thread::current().id();
            let ran = pool.run_small(false, || std::thread::current().id());
            futures::executor::block_on(ran).unwrap() != here
        };
        assert!(other.run(leaves).await.unwrap());
    }

    #[tokio::test]
    async fn a_write_runs_to_its_end_and_its_panic_is_an_error() {
        let threads = WriteThreads::new();
        assert_eq!(threads.run(|| 1).await.unwrap(), 1);
        assert!(threads.run(|| panic!("on purpose")).await.is_err());
        let cores = threads.places.available_permits();
        assert_eq!(Ok(cores), usize::try_from(threads.count));
        let (begun, has_begun) = oneshot::channel();
        let (go_on, may_go_on) = std::sync::mpsc::channel::<()>();
        let (ended, has_ended) = oneshot::channel();
        let mut waiting = Box::pin(threads.run(move || {
            begun.send(()).unwrap();
            may_go_on.recv().unwrap();
            ended.send(()).unwrap();
        }));
        assert!(futures::poll!(&mut waiting).is_pending());
        has_begun.await.unwrap();
        assert_eq!(threads.places.available_permits(), cores - 1);
        drop(waiting);
        // Its caller has gone, and it is not done.
        let mut barrier = Box::pin(threads.barrier());
        assert!(futures::poll!(&mut barrier).is_pending());
        go_on.send(()).unwrap();
        has_ended.await.unwrap();
        barrier.await.unwrap();
        assert_eq!(threads.run(|| 2).await.unwrap(), 2);
    }

    #[tokio::test]
    async fn a_panic_is_an_error_on_either_thread() {
        let pool = Pool::for_requests().unwrap();
        assert!(pool.run(|| panic!("on purpose")).await.is_err());
        let inside = move || {
            let panicked = pool.run_small(true, || panic!("on purpose"));
            futures::executor::block_on(panicked).is_err()
        };
        assert!(Pool::for_jobs().unwrap().run(inside).await.unwrap());
    }
}
