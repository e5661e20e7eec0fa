//! How fast a job may go: byte rates, yield points, pauses while ingest needs the machine.
//!
//! ```text
//! job ─ read, wrote(bytes) ─► stopped? ─► gives way? ─► pressure? ─► clients slow, above rate?
//!                               └ error     └ error       └ pause      └ rest
//! ```
//!
//! Holds always:
//! - Without pressure, without clients that write, and below its rates a job never sleeps.
//! - A pause is bounded: a job that is in the way of nobody but itself goes on, slowly.
//! - A job that holds back hours which the head must give away for its memory is given up; what it
//!   has done so far stays and is gone on with later.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::error::{Error, Result};
use crate::ingest::flush::holds;
use crate::ingest::flush_for_memory;
use crate::maintenance::Maintenance;
use crate::maintenance::duty::DutyCycle;
use crate::slate::slate_metrics::SlateMetricValue;

/// How often it is looked whether a pause may end, and how long it lasts at most: a job that waits
/// for good would let buckets pile up.
const PAUSE_POLL: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// How often SlateDB is asked: all of its metrics are copied for it.
const STORE_EVERY: Duration = Duration::from_secs(1);

/// Accompanies a job: tells it when to wait and when to end, and tells others how far it is.
pub(crate) struct Watch {
    maintenance: Arc<Maintenance>,
    /// `None`: as fast as the machine goes.
    read_rate: Option<Mutex<Rate>>,
    write_rate: Option<Mutex<Rate>>,
    store: Mutex<StorePressure>,
    duty: Mutex<DutyCycle>,
    gave_way: AtomicBool,
    is_stale: AtomicBool,
    bytes_read: AtomicU64,
    bytes_written: AtomicU64,
}

#[derive(Default)]
struct StorePressure {
    asked: Option<Instant>,
    unflushed_bytes: i64,
    l0_files: i64,
}

impl Watch {
    /// For a job that nobody waits for.
    pub(crate) fn paced(maintenance: &Arc<Maintenance>) -> Self {
        let options = &maintenance.context.options.maintenance;
        let rate = |bytes: usize| Some(Mutex::new(Rate::new(bytes)));
        Self {
            read_rate: rate(options.read_bytes_per_second),
            write_rate: rate(options.write_bytes_per_second),
            ..Self::unpaced(maintenance)
        }
    }

    /// For a job that somebody asked for. It still makes room for ingest.
    pub(crate) fn unpaced(maintenance: &Arc<Maintenance>) -> Self {
        Self {
            maintenance: Arc::clone(maintenance),
            read_rate: None,
            write_rate: None,
            store: Mutex::default(),
            duty: Mutex::new(DutyCycle::new(
                maintenance.ingest.journal().write_time(),
                Instant::now(),
            )),
            gave_way: AtomicBool::new(false),
            is_stale: AtomicBool::new(false),
            bytes_read: AtomicU64::new(0),
            bytes_written: AtomicU64::new(0),
        }
    }

    /// To be called after each batch that was read: waits as long as the job has to, and fails when
    /// it is to end.
    pub(crate) async fn read(&self, bytes: usize) -> Result<()> {
        self.bytes_read.fetch_add(bytes as u64, Relaxed);
        self.maintenance
            .context
            .metrics
            .maintenance_bytes_read
            .add(bytes as u64);
        self.maintenance
            .jobs
            .update(|job| job.bytes_read += bytes as u64);
        self.pass(self.read_rate.as_ref(), bytes).await
    }

    /// The same after each batch that was written.
    pub(crate) async fn wrote(&self, bytes: usize) -> Result<()> {
        self.bytes_written.fetch_add(bytes as u64, Relaxed);
        let metrics = &self.maintenance.context.metrics;
        metrics.maintenance_bytes_written.add(bytes as u64);
        self.maintenance
            .jobs
            .update(|job| job.bytes_written += bytes as u64);
        self.pass(self.write_rate.as_ref(), bytes).await
    }

    /// What the job is doing, for people.
    pub(crate) fn phase(&self, name: &'static str, done: u64, total: u64) {
        let (bytes_read, bytes_written) = self.bytes();
        self.maintenance.jobs.update(|job| {
            job.bytes_read = bytes_read;
            job.bytes_written = bytes_written;
            job.phase = name;
            job.series_done = done;
            job.series_total = total;
        });
    }

    /// Whether the job was given up so that the head can flush.
    pub(crate) fn gave_way(&self) -> bool {
        self.gave_way.load(Relaxed)
    }

    /// What the job was planned from is not what there is any more: the error with which it ends.
    pub(crate) fn stale(&self, reason: String) -> Error {
        self.is_stale.store(true, Relaxed);
        Error::Unavailable(format!("{reason}: planning again").into())
    }

    /// Whether the job was given up because it has to be planned again.
    pub(crate) fn is_stale(&self) -> bool {
        self.is_stale.load(Relaxed)
    }

    /// Bytes read and written so far.
    pub(crate) fn bytes(&self) -> (u64, u64) {
        (
            self.bytes_read.load(Relaxed),
            self.bytes_written.load(Relaxed),
        )
    }

    async fn pass(&self, rate: Option<&Mutex<Rate>>, bytes: usize) -> Result<()> {
        tokio::task::yield_now().await;
        self.check()?;
        let journal = self.maintenance.ingest.journal();
        let now = Instant::now();
        let rest = self.duty.lock().worked(journal.write_time(), now);
        let wait = rate.map_or(Duration::ZERO, |rate| rate.lock().take(bytes, now));
        self.pause().await?;
        self.wait(rest.max(wait)).await?;
        let now = Instant::now();
        self.duty.lock().rested(journal.write_time(), now);
        Ok(())
    }

    /// In pieces, so that who waits for the job to end sees it hurry.
    async fn wait(&self, time: Duration) -> Result<()> {
        let until = Instant::now() + time;
        while Instant::now() < until && !self.maintenance.ingest.hold().is_waited_for() {
            self.sleep(PAUSE_POLL.min(until - Instant::now())).await;
            self.check()?;
        }
        Ok(())
    }

    /// Fails when the job is to end.
    fn check(&self) -> Result<()> {
        if self.maintenance.context.stop.is_stopped()
            || self.maintenance.ingest.journal().failed().is_some()
        {
            return Err(Error::Closed("the database is closing".into()));
        }
        let Some(window) = self.maintenance.ingest.hold().window() else {
            return Ok(());
        };
        if flush_for_memory(&self.maintenance.ingest).any(|hour| holds(window, hour)) {
            self.gave_way.store(true, Relaxed);
            return Err(Error::Unavailable(
                format!("the head is full of hours that {window} holds back: the job gives way")
                    .into(),
            ));
        }
        Ok(())
    }

    /// Waits while ingest needs the machine, unless somebody waits for this job.
    async fn pause(&self) -> Result<()> {
        let give_up = Instant::now() + PAUSE_MAX;
        let mut paused = false;
        while let Some(reason) = self.pressure() {
            if Instant::now() >= give_up || self.maintenance.ingest.hold().is_waited_for() {
                break;
            }
            paused = true;
            self.maintenance.jobs.set_paused(Some(reason));
            self.sleep(PAUSE_POLL).await;
            self.check()?;
        }
        if paused {
            self.maintenance.jobs.set_paused(None);
        }
        Ok(())
    }

    /// Sleeps, but not when the job is to end.
    async fn sleep(&self, time: Duration) {
        tokio::select! {
            () = self.maintenance.context.stop.stopped() => {}
            () = tokio::time::sleep(time) => {}
        }
    }

    /// Why ingest needs the machine for itself, if it does.
    fn pressure(&self) -> Option<String> {
        let maintenance = &self.maintenance;
        let options = &maintenance.context.options;
        // From `flush_bytes` on flushes make room, which is work enough.
        let head_max = (maintenance.ingest.budget().samples_max / 2)
            .max(maintenance.ingest.budget().flush_bytes);
        if maintenance.ingest.head().sample_bytes() > head_max {
            let held = format!("the head holds more than {head_max} bytes of samples");
            return Some(held);
        }
        let queue_max = options.journal.queue_bytes_max / 2;
        if maintenance.ingest.journal().queued_bytes() > queue_max {
            return Some(format!("more than {queue_max} bytes wait for the journal"));
        }
        let (unflushed_bytes, l0_files) = self.store_pressure();
        let unflushed_max = options.store.unflushed_bytes_max / 2;
        if usize::try_from(unflushed_bytes).is_ok_and(|bytes| bytes > unflushed_max) {
            return Some(format!("SlateDB holds more than {unflushed_max} bytes"));
        }
        let l0_max = maintenance.context.engine.l0_files_max() / 4 * 3;
        if usize::try_from(l0_files).is_ok_and(|files| files > l0_max) {
            return Some(format!("more than {l0_max} files wait for compaction"));
        }
        None
    }

    fn store_pressure(&self) -> (i64, i64) {
        let mut known = self.store.lock();
        if known.asked.is_none_or(|at| at.elapsed() >= STORE_EVERY) {
            known.asked = Some(Instant::now());
            for metric in self.maintenance.context.engine.slate_metrics() {
                let SlateMetricValue::Gauge(level) = metric.value else {
                    continue;
                };
                match metric.name.as_str() {
                    "slatedb_db_total_mem_size_bytes" => known.unflushed_bytes = level,
                    "slatedb_db_segment_max_l0_sst_count" => known.l0_files = level,
                    _ => {}
                }
            }
        }
        (known.unflushed_bytes, known.l0_files)
    }
}

/// A token bucket that holds one second's worth of bytes.
struct Rate {
    bytes_per_second: f64,
    /// Negative after a batch that was larger than what there was.
    tokens: f64,
    at: Option<Instant>,
}

impl Rate {
    fn new(bytes_per_second: usize) -> Self {
        let bytes_per_second = bytes_per_second.max(1) as f64;
        Self {
            bytes_per_second,
            tokens: bytes_per_second,
            at: None,
        }
    }

    /// Takes tokens for what was done; returns how long to wait for those that were not there.
    fn take(&mut self, bytes: usize, now: Instant) -> Duration {
        let passed = self.at.map_or(0.0, |at| (now - at).as_secs_f64());
        self.at = Some(now);
        let room = self.tokens + passed * self.bytes_per_second;
        self.tokens = room.min(self.bytes_per_second) - bytes as f64;
        Duration::from_secs_f64((-self.tokens / self.bytes_per_second).max(0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_lets_a_second_pass_at_once_and_then_paces() {
        let mut rate = Rate::new(1000);
        let start = Instant::now();
        assert_eq!(rate.take(600, start), Duration::ZERO);
        assert_eq!(rate.take(400, start), Duration::ZERO);
        assert_eq!(rate.take(500, start), Duration::from_millis(500));
        // The half second has passed: the next batch is paid for again.
        let later = start + Duration::from_millis(500);
        assert_eq!(rate.take(250, later), Duration::from_millis(250));
        // A long rest saves up no more than a second.
        let much_later = start + Duration::from_secs(100);
        assert_eq!(rate.take(1000, much_later), Duration::ZERO);
        assert_eq!(rate.take(1, much_later), Duration::from_millis(1));
    }
}
