//! Draining: epochs whose every entry lies in buckets leave the store.
//!
//! Holds always:
//! - Rows of an epoch are in files, not in a memtable, before its segment is drained: otherwise
//!   they would come back with the next memtable flush.
//! - A bucket's cursor is kept as long as a replay could see an entry that it covers.
//! - Cursors are looked at and deleted, and the watermark is written, under the flush lock, under
//!   which all others write them: none is deleted that a flush has just moved, and the watermark
//!   never goes back.

use std::time::Duration;

use icecore_records::{key, watermark};
use slatedb::WriteBatch;
use tracing::debug;

use super::summary::forget_summaries;
use crate::error::{Error, Result};
use crate::failpoint;
use crate::ingest::Ingest;
use crate::slate::engine::Engine;
use crate::slate::read_view::ScanKind;

/// How often to look whether the compactor has dropped a segment.
const DRAIN_POLL: Duration = Duration::from_millis(100);

/// Drains what can be drained and waits for at most `patience` until it is gone; the rest is seen
/// to by the next call. Returns how many epochs went.
pub(crate) async fn drain_epochs(ingest: &Ingest, patience: Duration) -> Result<usize> {
    let (engine, head) = (&ingest.context.engine, &ingest.head);
    let durable_below = ingest.journal.durable_below();
    let (fresh, mut waiting) = head.drainable(durable_below);
    if !fresh.is_empty() {
        failpoint::pass("drain.before_memtable");
        engine.flush_memtable().await?;
        failpoint::pass("drain.before");
        for epoch in &fresh {
            engine.drain(key::journal_epoch_prefix(*epoch));
        }
        failpoint::pass("drain.submitted");
        head.draining(&fresh);
        waiting.extend(fresh);
    }
    let give_up = tokio::time::Instant::now() + patience;
    let mut drained = 0;
    for epoch in waiting {
        while !is_gone(engine, epoch).await? {
            if tokio::time::Instant::now() >= give_up {
                return finish(ingest, drained).await;
            }
            tokio::time::sleep(DRAIN_POLL).await;
        }
        head.drained(epoch);
        debug!(epoch, "journal epoch drained");
        drained += 1;
    }
    finish(ingest, drained).await
}

async fn finish(ingest: &Ingest, drained: usize) -> Result<usize> {
    if drained > 0 {
        failpoint::pass("drain.done");
        forget_cursors(ingest).await?;
        failpoint::pass("drain.cursors");
        forget_summaries(ingest).await?;
        ingest.context.metrics.drained_epochs.add(drained as u64);
    }
    Ok(drained)
}

async fn is_gone(engine: &Engine, epoch: u32) -> Result<bool> {
    let prefix = key::journal_epoch_prefix(epoch);
    let mut records = engine
        .live_view()
        .scan_prefix(&prefix, ScanKind::Once)
        .await?;
    let first = records
        .next()
        .await
        .map_err(Error::store("reading the journal"))?;
    Ok(first.is_none())
}

/// Deletes the cursors below everything that a replay would see. The watermark goes along, so that
/// sequence numbers are not reused when neither journal nor cursors remember them.
async fn forget_cursors(ingest: &Ingest) -> Result<()> {
    let engine = &ingest.context.engine;
    let no_flush = ingest.flushing.lock().await;
    let (oldest_seq, mark) = ingest.head.oldest_seq_and_watermark();
    let mut batch = WriteBatch::new();
    let view = engine.live_view();
    let mut records = view
        .scan_prefix(&key::flush_cursor_prefix(), ScanKind::Once)
        .await?;
    while let Some(record) = records
        .next()
        .await
        .map_err(Error::store("reading cursors"))?
    {
        let cursor = icecore_records::flush_cursor::decode(&record.value);
        if cursor.is_ok_and(|cursor| cursor < oldest_seq) {
            batch.delete(&record.key);
        }
    }
    ingest.context.pauses.pass("drain.scanned").await;
    batch.put_bytes(key::journal_watermark(), watermark::encode(mark));
    let handle = engine
        .db()
        .write(batch)
        .await
        .map_err(Error::store("deleting cursors"))?;
    // Writes take effect in the order of their calls: who comes later may go on.
    drop(no_flush);
    handle
        .await_durable()
        .await
        .map_err(Error::store("deleting cursors"))
}
