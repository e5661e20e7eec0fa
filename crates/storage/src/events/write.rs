//! The batch: what a flush of events brings into the store, as one write.
//!
//! ```text
//! encoded on a thread ─► journal durable up to its marks ─► written ─► durable ─► epochs may go
//! ```
//!
//! Holds always:
//! - A batch that is refused has written nothing: all of it is checked before.
//! - Cells are merged, never replaced; the mark in the same write says that they were.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering::Relaxed;

use bytes::Bytes;
use icecore_model::CatalogChange;
use icecore_model::event::{EventBatch, FlushMark};
use icecore_records::{event_cell, event_identity, flush_cursor, flush_mark, key};
use slatedb::WriteBatch;
use tracing::{error, warn};

use super::Parts;
use crate::cache::CellSpan;
use crate::error::{Error, Result};
use crate::failpoint;
use crate::ingest::EVENT_RECORD_KINDS;
use crate::slate::read_view::View;

/// Bytes of keys and values of one batch. It is held in memory some times over while it is written.
const BATCH_BYTES_MAX: usize = 512 << 20;

/// Bytes of a record of the catalog.
const RECORD_KEY_BYTES_MAX: usize = 32 << 10;
const RECORD_VALUE_BYTES_MAX: usize = 4 << 20;

/// Records after which the memtable is written out: SlateDB decides by encoded bytes, but a record
/// of thirty bytes takes ten times as much memory.
const MEMTABLE_RECORDS_MAX: usize = 1 << 18;

/// Writes a batch. Durable when this returns.
pub(super) async fn write(parts: &Parts, batch: EventBatch) -> Result<()> {
    let written = write_checked(parts, batch).await;
    if let Err(Error::Invalid(reason)) = &written {
        // Whoever tries again would log a store that does not answer.
        error!(%reason, "a batch of events is refused, and would be again: the store is well");
    }
    written
}

async fn write_checked(parts: &Parts, batch: EventBatch) -> Result<()> {
    let (flushed, sealed) = (batch.flushed, batch.sealed);
    let encode = move || EncodedBatch::of(&batch);
    let encoded = parts.context.pool.run(encode).await??;
    if encoded.records == 0 {
        return Ok(());
    }
    wait_for_blocks(parts, flushed, sealed).await?;
    let records = encoded.records;
    {
        let _not_dropped = parts.access.write(encoded.segments).await;
        let _one_at_a_time = parts.writing.lock().await;
        check_marks(parts, flushed, sealed).await?;
        let spans = encoded.spans.into_iter().collect();
        let change = parts.buckets.cache().begin_cell_change(spans);
        let writing = || Error::store("writing events");
        let db = parts.context.engine.db();
        let handle = db.write(encoded.batch).await.map_err(writing())?;
        failpoint::pass("events.batch.written");
        db.flush().await.map_err(writing())?;
        handle.await_durable().await.map_err(writing())?;
        change.end();
        failpoint::pass("events.batch.durable");
    }
    if let Some(sealed) = sealed {
        parts.ingest.events_sealed(sealed);
    }
    limit_memtable(parts, records).await;
    Ok(())
}

/// Cells and files of blocks that the journal might lose would count them for ever.
async fn wait_for_blocks(
    parts: &Parts,
    flushed: Option<FlushMark>,
    sealed: Option<u64>,
) -> Result<()> {
    let last = sealed.max(flushed.map(|mark| mark.seq)).unwrap_or_default();
    let given_out = parts.ingest.head().last_seq();
    if last > given_out {
        return Err(Error::Invalid(
            format!("a batch of events up to block {last}, but the last is {given_out}").into(),
        ));
    }
    parts.ingest.journal().wait_durable(last).await
}

async fn check_marks(parts: &Parts, flushed: Option<FlushMark>, sealed: Option<u64>) -> Result<()> {
    let view = parts.context.engine.live_view();
    if let Some(mark) = flushed {
        let known = stored_mark(&view).await?;
        let goes_back = mark.generation < known.generation
            || mark.seq < known.seq
            || mark.registry_version < known.registry_version;
        if goes_back {
            return Err(Error::Invalid(
                format!("a flush mark of events goes back, from {known:?} to {mark:?}").into(),
            ));
        }
    }
    if let Some(sealed) = sealed {
        let known = stored_sealed(&view).await?;
        if sealed < known {
            return Err(Error::Invalid(
                format!("events are sealed up to block {known}, not only up to {sealed}").into(),
            ));
        }
    }
    Ok(())
}

/// Up to where blocks are in cells, as the store has it.
pub(super) async fn stored_mark(view: &View) -> Result<FlushMark> {
    let value = view.get(&key::event_mark()).await?;
    let mark = value.map(|value| flush_mark::decode(&value)).transpose();
    let mark = mark.map_err(Error::corrupt("the flush mark of events"))?;
    Ok(mark.unwrap_or_default())
}

/// Up to where blocks are in files.
pub(super) async fn stored_sealed(view: &View) -> Result<u64> {
    let value = view.get(&key::events_sealed()).await?;
    let sealed = value.map(|value| flush_cursor::decode(&value)).transpose();
    let sealed = sealed.map_err(Error::corrupt("the sealed cursor of events"))?;
    Ok(sealed.unwrap_or_default())
}

async fn limit_memtable(parts: &Parts, records: usize) {
    let before = parts.unflushed_records.fetch_add(records, Relaxed);
    if before.saturating_add(records) < MEMTABLE_RECORDS_MAX {
        return;
    }
    parts.unflushed_records.store(0, Relaxed);
    // The batch is durable, whatever becomes of this.
    if let Err(cause) = parts.context.engine.flush_memtable().await {
        warn!(%cause, "cannot write the memtable out after a batch of events");
    }
}

/// A batch as SlateDB takes it.
struct EncodedBatch {
    batch: WriteBatch,
    records: usize,
    bytes: usize,
    /// The segments that it writes to and that may be dropped.
    segments: BTreeSet<Bytes>,
    /// The spans whose cells it changes.
    spans: BTreeSet<CellSpan>,
}

impl EncodedBatch {
    fn of(events: &EventBatch) -> Result<Self> {
        let mut encoded = Self {
            batch: WriteBatch::new(),
            records: 0,
            bytes: 0,
            segments: BTreeSet::new(),
            spans: BTreeSet::new(),
        };
        for (cell_key, cell) in &events.cells {
            let Some(key) = key::event_cell(cell_key) else {
                return Err(Error::Invalid(
                    format!("no interval of a window begins where a cell does: {cell_key:?}")
                        .into(),
                ));
            };
            let value = event_cell::encode(cell);
            encoded.note(&key, value.len())?;
            encoded.batch.merge(&key, &value);
            encoded.spans.insert(CellSpan::of_cell(cell_key));
        }
        for (identity, seq) in &events.identities {
            let (key, value) = (key::event_identity(identity), event_identity::encode(*seq));
            encoded.note(&key, value.len())?;
            encoded.batch.put_bytes(key, value);
        }
        for change in &events.records {
            encoded.record(change)?;
        }
        if let Some(mark) = events.flushed {
            encoded.put(key::event_mark(), flush_mark::encode(mark))?;
        }
        if let Some(sealed) = events.sealed {
            encoded.put(key::events_sealed(), flush_cursor::encode(sealed))?;
        }
        Ok(encoded)
    }

    fn record(&mut self, change: &CatalogChange) -> Result<()> {
        let is_ours = |kind: &u8| EVENT_RECORD_KINDS.contains(kind);
        let key = key::catalog_record(&change.key).filter(|_| {
            let kind = change.key.first();
            kind.is_some_and(is_ours) && change.key.len() <= RECORD_KEY_BYTES_MAX
        });
        let value_bytes = change.value.as_ref().map_or(0, Vec::len);
        let Some(key) = key.filter(|_| value_bytes <= RECORD_VALUE_BYTES_MAX) else {
            return Err(Error::Invalid(
                format!(
                    "a catalog record of events whose key is another's or too long, \
                     or that has more than {RECORD_VALUE_BYTES_MAX} bytes"
                )
                .into(),
            ));
        };
        self.count(key.len() + value_bytes)?;
        match &change.value {
            Some(value) => self.batch.put(&key, value),
            None => self.batch.delete(&key),
        }
        Ok(())
    }

    fn put(&mut self, key: Bytes, value: Bytes) -> Result<()> {
        self.count(key.len() + value.len())?;
        self.batch.put_bytes(key, value);
        Ok(())
    }

    /// Counts a record of a week.
    fn note(&mut self, key: &Bytes, value_bytes: usize) -> Result<()> {
        let segment = key.slice(..key::segment_len(key));
        if !self.segments.contains(&segment) {
            self.segments.insert(Bytes::copy_from_slice(&segment));
        }
        self.count(key.len() + value_bytes)
    }

    fn count(&mut self, bytes: usize) -> Result<()> {
        self.records += 1;
        self.bytes += bytes;
        if self.bytes <= BATCH_BYTES_MAX {
            Ok(())
        } else {
            Err(Error::Invalid(
                format!("a batch of events of more than {BATCH_BYTES_MAX} bytes").into(),
            ))
        }
    }
}
