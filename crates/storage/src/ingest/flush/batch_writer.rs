//! Bounded batches: a flush writes many records, never many at once.

use bytes::Bytes;
use icecore_records::{Bucket, RecordType, key};
use slatedb::{WriteBatch, WriteHandle};

use crate::error::{Error, Result};
use crate::ingest::Ingest;
use crate::slate::read_view::ScanKind;

/// Bytes after which the WAL is written out: SlateDB holds them in memory until then. Less where L0
/// files are configured to be small.
const WAL_FLUSH_BYTES: usize = 4 << 20;

/// Records after which the memtable is written out. SlateDB decides by encoded bytes, but a record
/// of thirty bytes takes ten times as much memory: a million series would take hundreds of MiB.
const MEMTABLE_RECORDS_MAX: usize = 1 << 18;

/// How records of a bucket are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// The bucket is not listed: nothing there counts, records are replaced.
    Put,
    /// The bucket is listed: records join what is there.
    Merge,
}

/// Gathers records in key order and writes them when a batch is full.
///
/// Each key and value is an allocation of its own: packing those of a batch into one buffer was
/// measured to take a fifth more memory, because SlateDB keeps single keys for longer.
pub(super) struct BatchWriter<'i> {
    ingest: &'i Ingest,
    mode: Mode,
    batch: WriteBatch,
    batch_records: usize,
    batch_bytes: usize,
    since_wal_flush: usize,
    since_memtable_flush: usize,
    pub(super) wrote_starts: bool,
    pub(super) records_written: u64,
    pub(super) bytes_written: u64,
}

impl<'i> BatchWriter<'i> {
    pub(super) fn new(ingest: &'i Ingest, mode: Mode) -> Self {
        Self {
            ingest,
            mode,
            batch: WriteBatch::new(),
            batch_records: 0,
            batch_bytes: 0,
            since_wal_flush: 0,
            since_memtable_flush: 0,
            wrote_starts: false,
            records_written: 0,
            bytes_written: 0,
        }
    }

    /// Adds a record in the way the bucket asks for.
    pub(super) fn add(&mut self, key: Bytes, value: Bytes) {
        match self.mode {
            Mode::Put => self.put(key, value),
            Mode::Merge => self.merge(key, value),
        }
    }

    pub(super) fn put(&mut self, key: Bytes, value: Bytes) {
        self.note(&key, &value);
        self.batch.put_bytes(key, value);
    }

    pub(super) fn merge(&mut self, key: Bytes, value: Bytes) {
        self.note(&key, &value);
        self.batch.merge(key, value);
    }

    /// Deletes all that lies in a bucket, if there is anything.
    pub(super) async fn delete_bucket(&mut self, bucket: Bucket) -> Result<()> {
        let view = self.ingest.context.engine.live_view();
        let scoped = RecordType::ALL
            .iter()
            .filter(|record_type| record_type.is_bucket_scoped());
        for record_type in scoped {
            let prefix = key::record_prefix(*record_type, bucket);
            let mut records = view.scan_prefix(&prefix, ScanKind::Once).await?;
            let reading = || Error::store("looking for records of an interrupted flush");
            while let Some(record) = records.next().await.map_err(reading())? {
                self.batch_records += 1;
                self.batch_bytes += record.key.len();
                self.batch.delete(record.key);
                self.write_if_full().await?;
            }
        }
        self.write_out().await
    }

    fn note(&mut self, key: &Bytes, value: &Bytes) {
        self.batch_records += 1;
        self.batch_bytes += key.len() + value.len();
        // Start timestamps lie under the key of the series' samples plus one byte.
        let is_samples = key
            .get(1)
            .is_some_and(|tag| tag >> 4 == RecordType::TimeSeries.number());
        self.wrote_starts |= is_samples && key.len() > 10;
    }

    /// Writes what has been gathered if that is a full batch, and says whether it did.
    pub(super) async fn write_if_full(&mut self) -> Result<bool> {
        let options = &self.ingest.context.options.head;
        let full = self.batch_records >= options.flush_batch_records
            || self.batch_bytes >= options.flush_batch_bytes;
        if full {
            self.write().await?;
        }
        Ok(full)
    }

    /// Writes what has been gathered.
    pub(super) async fn write_out(&mut self) -> Result<()> {
        self.write().await.map(drop)
    }

    /// Writes what has been gathered and waits until it, and so all before it, is durable.
    pub(super) async fn write_out_durably(&mut self) -> Result<()> {
        match self.write().await? {
            Some(written) => make_durable(self.ingest, written).await,
            None => self.flush_wal().await,
        }
    }

    /// Writes what has been gathered. When the handle is durable, so is all that was written
    /// before.
    pub(super) async fn write(&mut self) -> Result<Option<WriteHandle>> {
        if self.batch_records == 0 {
            return Ok(None);
        }
        let batch = std::mem::take(&mut self.batch);
        let handle = self.ingest.context.engine.db().write(batch).await;
        let handle = handle.map_err(Error::store("flushing a bucket"))?;
        self.records_written += self.batch_records as u64;
        self.bytes_written += self.batch_bytes as u64;
        self.since_wal_flush += self.batch_bytes;
        self.since_memtable_flush += self.batch_records;
        self.batch_records = 0;
        self.batch_bytes = 0;
        let l0_bytes = self.ingest.context.options.store.l0_sst_bytes;
        if self.since_wal_flush >= WAL_FLUSH_BYTES.min(l0_bytes) {
            self.flush_wal().await?;
        }
        if self.since_memtable_flush >= MEMTABLE_RECORDS_MAX {
            self.since_memtable_flush = 0;
            self.ingest.context.engine.flush_memtable().await?;
        }
        Ok(Some(handle))
    }

    async fn flush_wal(&mut self) -> Result<()> {
        self.since_wal_flush = 0;
        flush_wal(self.ingest).await
    }
}

async fn flush_wal(ingest: &Ingest) -> Result<()> {
    let flushed = ingest.context.engine.db().flush().await;
    flushed.map_err(Error::store("flushing the WAL"))
}

/// Waits until what a handle stands for, and so all before it, is durable.
pub(super) async fn make_durable(ingest: &Ingest, written: WriteHandle) -> Result<()> {
    flush_wal(ingest).await?;
    let durable = written.await_durable().await;
    durable.map_err(Error::store("flushing a bucket"))
}
