//! What a job writes: bounded batches, each together with the job record that says how far it goes.
//!
//! Holds always:
//! - Everything is put, never merged: repeating a batch writes equal bytes.
//! - A batch and the cursor behind it are one write. SlateDB's WAL is in order, so what is durable
//!   of a job is a beginning of it.

use bytes::Bytes;
use icecore_records::key;
use icecore_records::maintenance_job::{self, Job, Phase};
use slatedb::WriteBatch;

use super::super::pace::Watch;
use super::write_limit::WriteLimit;
use crate::error::{Error, Result};
use crate::failpoint;
use crate::maintenance::Maintenance;

/// Bytes after which the WAL is written out: SlateDB holds them in memory until then.
const WAL_FLUSH_BYTES: usize = 4 << 20;

/// Records after which the memtable is written out: SlateDB decides by encoded bytes, but a small
/// record takes ten times as much memory.
const MEMTABLE_RECORDS_MAX: usize = 1 << 18;

pub(super) struct JobWriter<'j> {
    maintenance: &'j Maintenance,
    watch: &'j Watch,
    pub(super) job: Job,
    batch: WriteBatch,
    batch_records: usize,
    batch_bytes: usize,
    since_wal_flush: usize,
    since_memtable_flush: usize,
    pub(super) limit: WriteLimit,
}

impl<'j> JobWriter<'j> {
    pub(super) fn new(
        maintenance: &'j Maintenance,
        watch: &'j Watch,
        job: Job,
        limit: WriteLimit,
    ) -> Self {
        Self {
            maintenance,
            watch,
            job,
            batch: WriteBatch::new(),
            batch_records: 0,
            batch_bytes: 0,
            since_wal_flush: 0,
            since_memtable_flush: 0,
            limit,
        }
    }

    pub(super) fn put(&mut self, key: Bytes, value: Bytes) {
        self.batch_records += 1;
        self.batch_bytes += key.len() + value.len();
        self.batch.put_bytes(key, value);
    }

    /// Everything before the cursor of `phase` has been put. Writes it if that is a full batch.
    pub(super) async fn reached(&mut self, phase: Phase) -> Result<()> {
        self.job.phase = phase;
        let options = &self.maintenance.context.options.head;
        let full = self.batch_records >= options.flush_batch_records
            || self.batch_bytes >= options.flush_batch_bytes;
        if full { self.write_out().await } else { Ok(()) }
    }

    /// Writes what has been gathered, with the job as it stands.
    pub(super) async fn write_out(&mut self) -> Result<()> {
        let counts = &mut self.job.counts;
        counts.bytes_written += self.batch_bytes as u64;
        counts.records += self.batch_records as u64;
        let job = maintenance_job::encode(&self.job);
        self.batch.put_bytes(key::maintenance_job(), job.into());
        let batch = std::mem::take(&mut self.batch);
        self.write(batch).await?;
        let bytes = std::mem::take(&mut self.batch_bytes);
        self.since_wal_flush += bytes;
        self.since_memtable_flush += std::mem::take(&mut self.batch_records);
        let wal_max = WAL_FLUSH_BYTES.min(self.maintenance.context.options.store.l0_sst_bytes);
        if self.since_wal_flush >= wal_max {
            self.flush_wal().await?;
        }
        if self.since_memtable_flush >= MEMTABLE_RECORDS_MAX {
            self.since_memtable_flush = 0;
            self.maintenance.context.engine.flush_memtable().await?;
        }
        self.watch.wrote(bytes).await
    }

    /// Waits until all that was written is durable.
    pub(super) async fn make_durable(&mut self) -> Result<()> {
        self.flush_wal().await
    }

    /// Gives the job up: the next one begins with an empty target.
    pub(super) async fn forget_job(&mut self) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.delete(key::maintenance_job());
        self.write(batch).await?;
        self.make_durable().await
    }

    /// Writes one batch as it is.
    pub(super) async fn write(&mut self, batch: WriteBatch) -> Result<()> {
        self.limit.take()?;
        failpoint::pass("coarsen.write");
        let written = self.maintenance.context.engine.db().write(batch).await;
        written.map_err(Error::store("writing a coarse bucket"))?;
        failpoint::pass("coarsen.written");
        Ok(())
    }

    async fn flush_wal(&mut self) -> Result<()> {
        self.since_wal_flush = 0;
        let flushed = self.maintenance.context.engine.db().flush().await;
        flushed.map_err(Error::store("flushing the WAL"))
    }
}
