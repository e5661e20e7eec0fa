//! The CPU pool: decoding, encoding and matching run here, never on the async workers.

use tokio::sync::oneshot;

use crate::error::{Error, Result};

pub(crate) struct Pool(rayon::ThreadPool);

impl Pool {
    /// A pool with one thread per core.
    pub(crate) fn new() -> Result<Self> {
        let pool = rayon::ThreadPoolBuilder::new()
            .thread_name(|i| format!("cpu-{i}"))
            .build();
        pool.map(Self)
            .map_err(|cause| Error::Unavailable(format!("no CPU pool: {cause}")))
    }

    /// Runs `work` on the pool and waits for it without blocking an async worker.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        let (sender, receiver) = oneshot::channel();
        self.0.spawn(move || {
            // A panic in `work` drops the sender; the pool's thread and the process go on.
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
            if let Ok(value) = done {
                // The asker may have gone away.
                let _ = sender.send(value);
            }
        });
        receiver.await.map_err(|_| {
            Error::Unavailable("work on the CPU pool failed; the log has the cause".into())
        })
    }
}
