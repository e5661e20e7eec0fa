//! Garbage collection on request: the store holds what is referred to and nothing else, each
//! segment in one run.
//!
//! Holds always:
//! - No file is deleted that a reader of this process may still use: the readers that began before
//!   the files were replaced have ended. Whoever reads holds a lease, or the lock of flushes.
//!
//! Elsewhere: what keeps a file (`slate::garbage`); the same without anybody waiting for it is
//! SlateDB's own garbage collection.

use std::sync::Arc;
use std::time::Duration;

use icecore_records::{key, watermark};
use slatedb::WriteBatch;
use tokio::time::Instant;
use tracing::{debug, info};

use crate::error::{Error, Result};
use crate::maintenance::Maintenance;

/// How often to look whether readers have ended.
const READERS_POLL: Duration = Duration::from_millis(50);

/// Brings the store to rest. False when it is not by `deadline`, or when a program beside this one
/// reads the database; what is left then follows within minutes. The same goes for manifests and
/// files of the log, which have to be older than others before they may go, if those are less than
/// `log_bytes`: nobody waits for a few kilobytes.
pub(crate) async fn collect_garbage(
    maintenance: &Arc<Maintenance>,
    deadline: Instant,
    log_bytes: u64,
) -> Result<bool> {
    let started = Instant::now();
    let engine = &maintenance.context.engine;
    let joined = engine.join(deadline).await?;
    begin_file(maintenance).await?;
    let Some(ages) = engine.release_files().await? else {
        return Ok(false);
    };
    tokio::time::sleep(ages.records).await;
    // So that whoever begins to read from here on does not look for the files that go.
    let known = engine.db().refresh_manifest().await;
    known.map_err(Error::store("collecting garbage"))?;
    if !readers_end(maintenance, deadline).await {
        debug!("a reader still uses old files");
        return Ok(false);
    }
    if engine.is_read_elsewhere().await? {
        debug!("a reader of another program has come");
        return Ok(false);
    }
    engine.delete_garbage().await;
    let rest = ages.logs.saturating_sub(ages.records);
    if engine.log_garbage_bytes().await? >= log_bytes.max(1) && !rest.is_zero() {
        tokio::time::sleep(rest).await;
        engine.delete_garbage().await;
    }
    let seconds = started.elapsed().as_secs_f64();
    info!(joined, seconds, "garbage collected");
    Ok(joined)
}

/// Writes a memtable out that has next to nothing in it: no file that is newer than the newest of
/// them is ever deleted, and the newest may be one that was just replaced. Before that a file of
/// the log: a memtable remembers the last one that was complete when it was closed, and that one is
/// kept.
async fn begin_file(maintenance: &Maintenance) -> Result<()> {
    let mark = maintenance.ingest.head().watermark();
    let mut batch = WriteBatch::new();
    batch.put_bytes(key::journal_watermark(), watermark::encode(mark));
    let written = maintenance.context.engine.db().write(batch).await;
    let _handle = written.map_err(Error::store("collecting garbage"))?;
    let logged = maintenance.context.engine.db().flush().await;
    logged.map_err(Error::store("collecting garbage"))?;
    maintenance.context.engine.flush_memtable().await
}

/// Waits until everybody has ended who reads now.
async fn readers_end(maintenance: &Maintenance, deadline: Instant) -> bool {
    let now = maintenance.buckets.leases().next();
    // A flush reads the bucket that it writes.
    let flush = tokio::time::timeout_at(deadline, maintenance.ingest.lock_flushes()).await;
    if flush.is_err() {
        return false;
    }
    drop(flush);
    while maintenance
        .buckets
        .leases()
        .oldest()
        .is_some_and(|oldest| oldest < now)
    {
        if Instant::now() >= deadline {
            return false;
        }
        tokio::time::sleep(READERS_POLL).await;
    }
    true
}

#[cfg(test)]
mod tests;
