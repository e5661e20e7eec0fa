//! The parts of an open database, as they share one another.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use icecore_model::Clock;
use icecore_records::Bucket;
use icecore_records::journal::BlockEncoder;
use parking_lot::{Mutex, RwLock};

use crate::cache::ReadCache;
use crate::error::{Error, Result};
use crate::flush::{FlushLog, FrozenHours, Quarantine};
use crate::head::{AppendTime, BatchBuffers, Head, LiveHours};
use crate::journal::Journal;
use crate::lease::Leases;
use crate::maintenance::retire::Retired;
use crate::maintenance::{Hold, Jobs, RecentWrites, Skipped};
use crate::memory::HeadBudget;
use crate::metrics::Metrics;
use crate::options::Options;
use crate::pause::Pauses;
use crate::pool::Pool;
use crate::slate::engine::Engine;
use crate::tombstones::AllTombstones;

pub(crate) struct Inner {
    pub(crate) options: Options,
    pub(crate) budget: HeadBudget,
    pub(crate) head: Arc<Head>,
    pub(crate) journal: Journal,
    pub(crate) engine: Engine,
    /// The buckets that are listed.
    pub(crate) buckets: RwLock<BTreeSet<Bucket>>,
    /// The buckets that are being read; leases are taken while `buckets` is locked.
    pub(crate) leases: Arc<Leases>,
    /// What was deleted from buckets and still lies in them.
    pub(crate) tombstones: AllTombstones,
    /// The buckets that are no longer listed and not yet dropped. Locked before `buckets`.
    pub(crate) retired: RwLock<Retired>,
    pub(crate) cache: Arc<ReadCache>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) started_ms: i64,
    pub(crate) pool: Pool,
    pub(crate) job_pool: Pool,
    /// Buffers of finished requests, for the next ones.
    pub(crate) scratch: Mutex<Vec<Scratch>>,
    /// Held by the one flush that is under way.
    pub(crate) flushing: tokio::sync::Mutex<FrozenHours>,
    pub(crate) flush_log: FlushLog,
    /// What a close is waiting for.
    pub(crate) closing: Mutex<&'static str>,
    /// Held by the one cleaning of all buckets that somebody asked for.
    pub(crate) cleaning: tokio::sync::Mutex<()>,
    /// Held by the one snapshot that is being made: names are looked at before.
    pub(crate) snapshotting: tokio::sync::Mutex<()>,
    /// Hours that cannot be flushed.
    pub(crate) quarantine: Quarantine,
    /// Which hours flushes leave alone, because a job copies their buckets.
    pub(crate) hold: Hold,
    /// When buckets were last written to.
    pub(crate) recent: RecentWrites,
    /// The job that is under way, and the run that somebody asked for.
    pub(crate) jobs: Jobs,
    /// Jobs that failed and are left alone for a while.
    pub(crate) skipped: Skipped,
    /// Wakes the maintenance task before its next tick.
    pub(crate) nudge: tokio::sync::Notify,
    /// Where tests of interleavings hold this database still.
    pub(crate) pauses: Pauses,
}

/// What one request needs while it is decoded.
#[derive(Default)]
pub(crate) struct Scratch {
    pub(crate) batch: BatchBuffers,
    pub(crate) encoder: BlockEncoder,
}

/// Buffers that are kept; more requests at once allocate their own.
const SCRATCH_MAX: usize = 16;

impl Inner {
    pub(crate) fn time(&self) -> AppendTime {
        let now_ms = self.clock.now_ms();
        AppendTime {
            now_ms,
            process_s: self.process_s(now_ms),
        }
    }

    /// Seconds since the database was opened, plus one, so that 0 means never.
    pub(crate) fn process_s(&self, now_ms: i64) -> u32 {
        u32::try_from((now_ms - self.started_ms) / 1000 + 1).unwrap_or(1)
    }

    /// Refuses when the head or the store cannot keep up.
    pub(crate) fn admit(&self) -> Result<()> {
        if let Some(reason) = self.journal.failed() {
            return Err(Error::Closed(reason.to_string()));
        }
        let (bytes, max) = (self.head.sample_bytes(), self.budget.samples_max);
        if bytes > max {
            self.nudge.notify_one();
            return Err(Error::Unavailable(format!(
                "the head holds {bytes} bytes of samples, more than head.bytes_max = {max}: {}, try again",
                match self.quarantine.len() {
                    0 => "flushing".into(),
                    hours => format!("flushing, and {hours} hours cannot be flushed"),
                }
            )));
        }
        let max = self.options.journal.queue_bytes_max;
        if self.journal.queued_bytes() > max {
            return Err(Error::Unavailable(format!(
                "more than journal.queue_bytes_max = {max} bytes wait for the store: try again"
            )));
        }
        Ok(())
    }

    /// What is told to a request that the store has not taken in time.
    pub(crate) fn not_committed(&self, limit: Duration) -> Error {
        let trouble = self.engine.health().trouble();
        let why = trouble.map_or_else(|| "it is slow".to_owned(), |trouble| trouble.reason);
        Error::Unavailable(format!(
            "not committed within journal.commit_timeout = {limit:?}, and kept until it is: {why}: send it again"
        ))
    }

    /// Limits of a request as a whole: nothing of it has been stored yet.
    pub(crate) fn check_batch(&self, batch: &BatchBuffers) -> Result<()> {
        let limits = &self.options.limits;
        let (n, max) = (batch.len(), limits.samples_per_request_max);
        if n > max {
            return Err(Error::Invalid(format!(
                "{n} samples in one request, more than limits.samples_per_request_max = {max}: split it"
            )));
        }
        if !batch.fits_a_block() {
            return Err(Error::Invalid(
                "the samples of one request take more than the journal holds in a block: split it"
                    .into(),
            ));
        }
        let (n, max) = (batch.hours().len(), limits.buckets_per_request_max);
        if n > max {
            return Err(Error::Invalid(format!(
                "one request touches {n} hours, more than limits.buckets_per_request_max = {max}: split it"
            )));
        }
        // A backfill leaves the last part of the memory to what is written live.
        let backfill_max = self.budget.backfill_max();
        let live = LiveHours::at(self.clock.now_ms());
        let of_long_ago = || batch.hours().any(|hour| !live.contains(hour));
        if self.head.sample_bytes() > backfill_max && of_long_ago() {
            self.nudge.notify_one();
            return Err(Error::Unavailable(format!(
                "the head holds more than {backfill_max} bytes of samples, and the request is of long ago: the rest up to head.bytes_max is for hours around now; flushing, try again"
            )));
        }
        Ok(())
    }

    /// What a request is told that would open more hours than there may be.
    pub(crate) fn too_many_hours(&self) -> Error {
        self.nudge.notify_one();
        Error::Unavailable(format!(
            "limits.open_buckets_max = {} hours of long ago are open: flushing, try again",
            self.options.limits.open_buckets_max
        ))
    }

    pub(crate) fn take_scratch(&self) -> Scratch {
        self.scratch.lock().pop().unwrap_or_default()
    }

    pub(crate) fn give_back(&self, scratch: Scratch) {
        let mut kept = self.scratch.lock();
        if kept.len() < SCRATCH_MAX {
            kept.push(scratch);
        }
    }
}
