//! CPU pools: decoding, encoding and matching run here, never on the async workers.
//!
//! Requests and maintenance have a pool each: the slices of a job take tenths of a second, and a
//! request must not wait behind one.

use tokio::sync::oneshot;

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
        self.start(work).await.map_err(|_| {
            Error::Unavailable("work on the CPU pool failed; the log has the cause".into())
        })
    }

    /// Runs `work` on the pool. The receiver is told that the sender is gone if it panics.
    pub(crate) fn start<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> oneshot::Receiver<T> {
        let (sender, receiver) = oneshot::channel();
        self.0.spawn(move || {
            // A panic in `work` drops the sender; the pool's thread and the process go on.
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
            if let Ok(value) = done {
                // The asker may have gone away.
                let _ = sender.send(value);
            }
        });
        receiver
    }
}
