//! One request: admitted, decoded, appended to the head, handed over to the journal.

use std::time::Duration;

use icecore_model::WriteOutcome;
use icecore_records::journal::BlockEncoder;

use super::Ingest;
use super::head::{AppendTime, BatchBuffers, LiveHours, NotAdmitted, WriteBatch};
use super::journal::Durable;
use crate::error::{Error, Result, WriteError};

/// Changes of the catalog that may be in memory.
const CATALOG_BYTES_MAX: usize = 256 << 20;

/// Buffers that are kept; more requests at once allocate their own.
const SCRATCH_MAX: usize = 16;

/// What one request needs while it is decoded.
#[derive(Default)]
pub(super) struct Scratch {
    batch: BatchBuffers,
    pub(super) encoder: BlockEncoder,
}

pub(crate) type AppendResult<E> = Result<(WriteOutcome, Option<Durable>), WriteError<E>>;

impl Ingest {
    /// The CPU part of a write: decode, append, encode the journal block, hand it over.
    pub(crate) fn append<E, F>(&self, patience: Duration, fill: F) -> AppendResult<E>
    where
        F: FnOnce(&mut WriteBatch<'_>) -> Result<(), E>,
    {
        let mut scratch = self.take_scratch();
        let time = AppendTime::of(&self.context);
        let _references = self.head.hold_references();
        let mut batch = WriteBatch::new(&self.head, &mut scratch.batch, time.now_ms);
        fill(&mut batch).map_err(WriteError::Decode)?;
        self.admit()?;
        self.check_batch(&scratch.batch)?;
        if scratch.batch.is_empty() {
            let outcome = WriteOutcome {
                rejected: scratch.batch.take_rejections(),
                refused_points: scratch.batch.take_refused_points(),
                ..Default::default()
            };
            self.give_back(scratch);
            return Ok((outcome, None));
        }
        // Those that no flush can close do not count.
        let open_hours_max = self.context.options.limits.open_buckets_max;
        let open_hours_max = open_hours_max.saturating_add(self.quarantine.len());
        let appended = self.head.append(&mut scratch.batch, time, open_hours_max);
        let appended = appended.map_err(|reason| match reason {
            NotAdmitted::TooManyHours => self.too_many_hours(),
            // Decoded again, its samples are told apart.
            NotAdmitted::TooOld => Error::Unavailable(
                "samples of the request became too old while it was decoded: send it again".into(),
            ),
        })?;
        let ticket = self.journal.ticket(appended.seq, appended.epoch);
        let block = self
            .head
            .encode_block(&scratch.batch, &appended, &mut scratch.encoder);
        let durable = ticket.fill(block, patience);
        let metrics = &self.context.metrics;
        metrics.series_created.add(appended.created);
        metrics
            .delta_duplicates
            .add(appended.accumulated.duplicates);
        metrics.delta_overlaps.add(appended.accumulated.overlaps);
        metrics.delta_restarts.add(appended.accumulated.restarts);
        let outcome = WriteOutcome {
            samples: appended.floats,
            histograms: appended.histograms,
            exemplars: appended.exemplars,
            duplicates: appended.accumulated.duplicates,
            rejected: scratch.batch.take_rejections(),
            refused_points: scratch.batch.take_refused_points(),
        };
        self.give_back(scratch);
        Ok((outcome, Some(durable)))
    }

    /// Refuses when the head or the store cannot keep up.
    pub(crate) fn admit(&self) -> Result<()> {
        self.check_journal()?;
        let (bytes, max) = (self.head.sample_bytes(), self.budget.samples_max);
        if bytes > max {
            self.nudge.notify_one();
            return Err(Error::Unavailable(format!(
                "the head holds {bytes} bytes of samples, more than head.bytes_max = {max}: {}, try again",
                match self.quarantine.len() {
                    0 => "flushing".into(),
                    hours => format!("flushing, and {hours} hours cannot be flushed"),
                }
            ).into()));
        }
        if self.head.catalog.read().bytes() > CATALOG_BYTES_MAX {
            self.nudge.notify_one();
            return Err(Error::Unavailable(
                format!(
                    "more than {CATALOG_BYTES_MAX} bytes of catalog records wait to be flushed: try again"
                )
                .into(),
            ));
        }
        self.check_queue()
    }

    /// The same for a block that the head keeps nothing of.
    pub(super) fn admit_block(&self) -> Result<()> {
        self.check_journal()?;
        self.check_queue()
    }

    fn check_journal(&self) -> Result<()> {
        match self.journal.failed() {
            Some(reason) => Err(Error::Closed(reason.to_string())),
            None => Ok(()),
        }
    }

    fn check_queue(&self) -> Result<()> {
        let max = self.context.options.journal.queue_bytes_max;
        if self.journal.queued_bytes() > max {
            return Err(Error::Unavailable(
                format!(
                    "more than journal.queue_bytes_max = {max} bytes wait for the store: try again"
                )
                .into(),
            ));
        }
        Ok(())
    }

    /// Refuses while the store has failed for longer than anybody waits for a commit. Whoever was
    /// told to send a request again does so; to queue each attempt would fill the memory.
    pub(crate) fn check_store(&self) -> Result<()> {
        match self.context.engine.health().trouble() {
            Some(trouble) if trouble.lasts >= self.context.options.journal.commit_timeout => {
                let reason = trouble.reason;
                Err(Error::Unavailable(format!("{reason}: try again").into()))
            }
            _ => Ok(()),
        }
    }

    /// What is told to a request that the store has not taken in time.
    pub(crate) fn not_committed(&self, limit: Duration) -> Error {
        let trouble = self.context.engine.health().trouble();
        let why = trouble.map_or_else(|| "it is slow".to_owned(), |trouble| trouble.reason);
        Error::Unavailable(format!(
            "not committed within journal.commit_timeout = {limit:?}, and kept until it is: {why}: send it again"
        ).into())
    }

    /// Limits of a request as a whole: nothing of it has been stored yet.
    fn check_batch(&self, batch: &BatchBuffers) -> Result<()> {
        let limits = &self.context.options.limits;
        let (n, max) = (batch.len(), limits.samples_per_request_max);
        if n > max {
            return Err(Error::Invalid(format!(
                "{n} samples in one request, more than limits.samples_per_request_max = {max}: split it"
            ).into()));
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
            ).into()));
        }
        // A backfill leaves the last part of the memory to what is written live.
        let backfill_max = self.budget.backfill_max();
        let live = LiveHours::at(self.context.clock.now_ms());
        let of_long_ago = || batch.hours().any(|hour| !live.contains(hour));
        if self.head.sample_bytes() > backfill_max && of_long_ago() {
            self.nudge.notify_one();
            return Err(Error::Unavailable(format!(
                "the head holds more than {backfill_max} bytes of samples, and the request is of long ago: the rest up to head.bytes_max is for hours around now; flushing, try again"
            ).into()));
        }
        Ok(())
    }

    /// What a request is told that would open more hours than there may be.
    fn too_many_hours(&self) -> Error {
        self.nudge.notify_one();
        Error::Unavailable(
            format!(
                "limits.open_buckets_max = {} hours of long ago are open: flushing, try again",
                self.context.options.limits.open_buckets_max
            )
            .into(),
        )
    }

    pub(super) fn take_scratch(&self) -> Scratch {
        self.scratch.lock().pop().unwrap_or_default()
    }

    pub(super) fn give_back(&self, scratch: Scratch) {
        let mut kept = self.scratch.lock();
        if kept.len() < SCRATCH_MAX {
            kept.push(scratch);
        }
    }
}
