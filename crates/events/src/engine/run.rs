//! Background work: flushes after each 5 s, sealing, merging, retention, replays.
//!
//! Flushes come 200 to 600 ms after the end of an interval, at random: several servers on one
//! object store do not write at the same moment, and most events of the interval are there.

use std::future::Future;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use tokio::sync::watch;

use super::{Engine, Events};
use crate::Problem;

const INTERVAL_MS: i64 = 5_000;
const JITTER_MS: std::ops::Range<u64> = 200..600;

/// Interval between checks of whether the tail is to be sealed.
const SEAL_CHECK: Duration = Duration::from_secs(1);

/// Interval between checks of whether files are to be merged or dropped.
const TEND_CHECK: Duration = Duration::from_secs(1);

/// The time after which a replay of the quarantine that failed is tried again.
const REPLAY_RETRY: Duration = Duration::from_secs(60);

impl Events {
    /// Runs until told to stop. What it has begun then is brought to an end.
    pub async fn run(self, stop: impl Future<Output = ()> + Send) {
        let (stopping, stopped) = watch::channel(false);
        let stop = async {
            stop.await;
            stopping.send_replace(true);
        };
        tokio::join!(
            stop,
            self.flush_regularly(stopped.clone()),
            self.seal_regularly(stopped.clone()),
            self.tend_files(stopped.clone()),
            self.replay_registered(stopped),
        );
    }

    async fn flush_regularly(&self, mut stopped: watch::Receiver<bool>) {
        let engine = &self.engine;
        loop {
            tokio::select! {
                _ = stopped.wait_for(|stopped| *stopped) => return,
                () = tokio::time::sleep(until_flush(engine.clock.now_ms())) => {}
                () = engine.flush_wanted.notified() => {}
            }
            if let Err(problem) = self.flush().await {
                tracing::warn!(%problem, "flush of events failed, to be tried again");
            }
        }
    }

    async fn seal_regularly(&self, mut stopped: watch::Receiver<bool>) {
        let engine = &self.engine;
        loop {
            tokio::select! {
                _ = stopped.wait_for(|stopped| *stopped) => return,
                () = tokio::time::sleep(SEAL_CHECK) => {}
                () = engine.seal_wanted.notified() => {}
            }
            if engine.is_seal_due().await {
                warn(self.seal_flushed().await, "sealing");
            }
        }
    }

    /// Beside sealing: merging takes long, and memory must not fill meanwhile.
    async fn tend_files(&self, mut stopped: watch::Receiver<bool>) {
        let engine = &self.engine;
        let mut tended_at_ms = engine.clock.elapsed_ms();
        loop {
            tokio::select! {
                _ = stopped.wait_for(|stopped| *stopped) => return,
                () = tokio::time::sleep(TEND_CHECK) => {}
            }
            let since_ms = engine.clock.elapsed_ms() - tended_at_ms;
            if since_ms >= engine.options.retention_interval.as_millis() as i64 {
                tended_at_ms = engine.clock.elapsed_ms();
                warn(self.merge_files().await, "merging files");
                warn(
                    self.run_retention(engine.store.guarded_ms()).await,
                    "retention",
                );
                warn(self.clean_up().await, "dropping files");
            }
        }
    }
}

impl Events {
    /// Publishes events from the quarantine that have become known: at the start, after each change
    /// of the registry, and again after an error. Stopping is safe at any moment, because what was
    /// published and is listed still is a repeat the next time.
    async fn replay_registered(&self, mut stopped: watch::Receiver<bool>) {
        let mut is_wanted = true;
        loop {
            if !is_wanted {
                tokio::select! {
                    _ = stopped.wait_for(|stopped| *stopped) => return,
                    () = self.engine.replay_wanted.notified() => {}
                }
            }
            let replayed = tokio::select! {
                _ = stopped.wait_for(|stopped| *stopped) => return,
                replayed = self.replay_quarantine() => replayed,
            };
            is_wanted = replayed.is_err();
            match replayed {
                Ok(report) if report.stored > 0 => {
                    tracing::info!(events = report.stored, "stored events from the quarantine");
                }
                replayed => warn(replayed, "replaying the quarantine"),
            }
            if is_wanted {
                tokio::select! {
                    _ = stopped.wait_for(|stopped| *stopped) => return,
                    () = tokio::time::sleep(REPLAY_RETRY) => {}
                }
            }
        }
    }
}

fn warn<T>(outcome: Result<T, Problem>, what: &'static str) {
    if let Err(problem) = outcome {
        tracing::warn!(%problem, what, "maintenance of events failed, to be tried again");
    }
}

fn until_flush(now_ms: i64) -> Duration {
    let to_boundary = INTERVAL_MS - now_ms.rem_euclid(INTERVAL_MS);
    let random = RandomState::new().hash_one(now_ms);
    let jitter = JITTER_MS.start + random % (JITTER_MS.end - JITTER_MS.start);
    Duration::from_millis(to_boundary.unsigned_abs() + jitter)
}

impl Engine {
    async fn is_seal_due(&self) -> bool {
        let (events, bytes) = {
            let memory = self.memory.lock();
            (memory.tail.events(), memory.tail.bytes())
        };
        if events == 0 {
            return false;
        }
        let sealed_at_ms = self.files.lock().await.sealed_at_ms;
        let waited_ms = self.clock.elapsed_ms().saturating_sub(sealed_at_ms);
        events >= self.options.seal_events
            || bytes >= self.options.seal_bytes
            || waited_ms >= self.options.seal_interval.as_millis() as i64
            || self.memory.lock().bytes() >= self.options.memory_limit / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flushes_come_shortly_after_the_end_of_an_interval() {
        for now_ms in [0, 1, 4_999, 5_000, 1_794_218_401_250] {
            let at_ms = now_ms + until_flush(now_ms).as_millis() as i64;
            assert!(JITTER_MS.contains(&(at_ms.rem_euclid(5_000) as u64)));
            assert!(at_ms - now_ms <= 5_600);
        }
    }
}
