//! Draining: epochs whose every entry lies in buckets leave the store.
//!
//! Holds always:
//! - Rows of an epoch are in files, not in a memtable, before its segment is drained: otherwise they
//!   would come back with the next memtable flush.
//! - A bucket's cursor is kept as long as a replay could see an entry that it covers.

use std::time::Duration;

use bytes::Bytes;
use icecore_records::{key, watermark};
use slatedb::WriteBatch;
use tracing::{debug, warn};

use crate::error::{Error, Result};
use crate::failpoint;
use crate::head::Head;
use crate::slate::engine::Engine;
use crate::slate::read_view::ScanKind;

/// How long to wait for the compactor to drop a segment before trying again later.
const DRAIN_PATIENCE: Duration = Duration::from_secs(30);
const DRAIN_POLL: Duration = Duration::from_millis(200);

/// Drains what can be drained; returns how many epochs went.
pub(crate) async fn drain_epochs(engine: &Engine, head: &Head) -> Result<usize> {
    let epochs = head.sequencer.lock().drainable();
    if epochs.is_empty() {
        return Ok(0);
    }
    failpoint::pass("drain.before_memtable");
    engine.flush_memtable().await?;
    failpoint::pass("drain.before");
    for epoch in &epochs {
        engine.drain(key::journal_epoch_prefix(*epoch));
    }
    failpoint::pass("drain.submitted");
    let mut drained = 0;
    for epoch in epochs {
        if !wait_until_gone(engine, &key::journal_epoch_prefix(epoch)).await? {
            warn!(epoch, "journal epoch is not gone yet; trying again later");
            continue;
        }
        head.sequencer.lock().epochs.remove(&epoch);
        debug!(epoch, "journal epoch drained");
        drained += 1;
    }
    failpoint::pass("drain.done");
    forget_cursors(engine, head).await?;
    failpoint::pass("drain.cursors");
    Ok(drained)
}

async fn wait_until_gone(engine: &Engine, prefix: &Bytes) -> Result<bool> {
    let started = tokio::time::Instant::now();
    loop {
        let view = engine.live_view();
        let mut records = view.scan_prefix(prefix, ScanKind::Once).await?;
        let first = records
            .next()
            .await
            .map_err(Error::store("reading the journal"))?;
        if first.is_none() {
            return Ok(true);
        }
        if started.elapsed() > DRAIN_PATIENCE {
            return Ok(false);
        }
        tokio::time::sleep(DRAIN_POLL).await;
    }
}

/// Deletes the cursors below everything that a replay would see. The watermark goes along, so that
/// sequence numbers are not reused when neither journal nor cursors remember them.
async fn forget_cursors(engine: &Engine, head: &Head) -> Result<()> {
    let (oldest_seq, mark) = {
        let sequencer = head.sequencer.lock();
        (sequencer.oldest_seq(), sequencer.watermark())
    };
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
    batch.put_bytes(key::journal_watermark(), watermark::encode(mark));
    let handle = engine
        .db()
        .write(batch)
        .await
        .map_err(Error::store("deleting cursors"))?;
    handle
        .await_durable()
        .await
        .map_err(Error::store("deleting cursors"))
}
