//! What every part of an open database uses and none of them owns.

use std::sync::Arc;

use icecore_model::{Clock, GuardedClock, HOUR_MS};
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::metrics::Metrics;
use crate::options::Options;
use crate::pause::Pauses;
use crate::pool::{Pool, WriteThreads};
use crate::slate::engine::Engine;

pub(crate) struct Context {
    pub(crate) options: Options,
    pub(crate) engine: Engine,
    pub(crate) clock: Arc<dyn Clock>,
    /// The clock of everything that is dropped, hidden, refused or forgotten for its age.
    pub(crate) guarded_clock: Mutex<GuardedClock>,
    /// When the database was opened, by monotonic time.
    pub(crate) opened_elapsed_ms: i64,
    pub(crate) metrics: Arc<Metrics>,
    /// The CPU pools of requests and of jobs.
    pub(crate) pool: Pool,
    pub(crate) job_pool: Pool,
    pub(crate) write_threads: WriteThreads,
    pub(crate) stop: Stop,
    /// Where tests of interleavings hold this database still.
    pub(crate) pauses: Pauses,
}

impl Context {
    /// Returns the guarded time in milliseconds.
    pub(crate) fn guarded_ms(&self) -> i64 {
        self.guarded_clock.lock().advance(self.clock.as_ref())
    }

    /// Returns the time by which something becomes idle: the guarded time. While that catches up
    /// with the machine's clock after a long stop, it passes ten times too fast, and nothing does.
    pub(crate) fn idle_ms(&self) -> i64 {
        let guarded_ms = self.guarded_ms();
        let lag_ms = self.clock.now_ms().saturating_sub(guarded_ms);
        if lag_ms < HOUR_MS { guarded_ms } else { 0 }
    }

    /// Returns the milliseconds since the database was opened, however the machine's clock is set.
    pub(crate) fn open_for_ms(&self) -> i64 {
        self.clock.elapsed_ms() - self.opened_elapsed_ms
    }

    /// Seconds since the database was opened, plus one, so that 0 means never.
    pub(crate) fn process_s(&self) -> u32 {
        u32::try_from(self.open_for_ms() / 1000 + 1).unwrap_or(1)
    }
}

/// Tells jobs, and whoever waits for the store, that the database is about to close.
#[derive(Default)]
pub(crate) struct Stop(watch::Sender<bool>);

impl Stop {
    /// Jobs end at their next yield point, and none is started.
    pub(crate) fn stop(&self) {
        self.0.send_replace(true);
    }

    pub(crate) fn is_stopped(&self) -> bool {
        *self.0.borrow()
    }

    pub(crate) async fn stopped(&self) {
        // The sender lives as long as `self`.
        let _ = self.0.subscribe().wait_for(|stop| *stop).await;
    }
}
