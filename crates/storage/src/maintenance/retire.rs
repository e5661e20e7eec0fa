//! Retired buckets: a coarser one has taken their place, and their records leave the store.
//!
//! ```text
//! commit of a job ─► not listed, retired at t ─(grace over, no lease)─► memtable to files
//!     ─► segments drained ─► gone from the manifest ─► record deleted ─► forgotten
//! ```
//!
//! Holds always:
//! - What is listed or leased is never drained.
//! - The retired record is deleted after the last segment is gone. A crash at any point leaves a
//!   record that the next start goes on with; draining twice does no harm.
//! - A prefix is drained only until its segment is gone: a bucket of the same name that is written
//!   later stays.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use icecore_records::{Bucket, ParsedKey, RecordType, key, retired_bucket};
use slatedb::WriteBatch;
use tracing::{info, warn};

use crate::error::{Error, Result};
use crate::failpoint;
use crate::inner::Inner;
use crate::slate::read_view::{ScanKind, View};

/// Retired buckets and when they were retired, in ms.
pub(crate) type Retired = BTreeMap<Bucket, i64>;

/// How long a call waits for the compactor, which needs a poll or two (1 s local, 5 s remote) for as
/// many segments as it takes at once. The next call goes on with the rest.
const PATIENCE: Duration = Duration::from_secs(30);

/// How often to look whether the compactor has dropped the segments.
const DRAIN_POLL: Duration = Duration::from_millis(100);

/// The retired buckets that an earlier process left.
pub(crate) async fn load_retired(view: &View) -> Result<Retired> {
    let prefix = key::retired_bucket_prefix();
    let mut records = view.scan_prefix(&prefix, ScanKind::Once).await?;
    let mut retired = Retired::new();
    while let Some(record) = records
        .next()
        .await
        .map_err(Error::store("reading retired buckets"))?
    {
        let value = retired_bucket::decode(&record.value);
        match (ParsedKey::parse(&record.key), value) {
            (Ok(ParsedKey::RetiredBucket { bucket }), Ok(at_ms)) => {
                retired.insert(bucket, at_ms);
            }
            // Left alone: what a newer version wrote is that version's business.
            (_, Err(cause)) | (Err(cause), _) => warn!(%cause, "a retired bucket cannot be read"),
            _ => warn!("a retired bucket cannot be read"),
        }
    }
    Ok(retired)
}

/// What a commit means for this process: `target` is listed, and the buckets it took the place of are
/// listed no more. Their records are dropped after the next file of SlateDB is written, which has the
/// commit.
pub(crate) fn take_place(inner: &Inner, target: Bucket, sources: &[Bucket], now_ms: i64) {
    // Before they leave the list: a bucket that is neither listed nor retired is an orphan.
    let mut retired = inner.retired.write();
    retired.extend(sources.iter().map(|source| (*source, now_ms)));
    let mut listed = inner.buckets.write();
    for source in sources {
        listed.remove(source);
    }
    listed.insert(target);
    drop((listed, retired));
    for source in sources {
        forget_cached(inner, *source);
    }
}

/// The same where only the store knows what was written: these buckets are listed and those retired.
pub(crate) fn follow_store(inner: &Inner, listed: BTreeSet<Bucket>, retired: Retired) {
    let mut known_retired = inner.retired.write();
    let before = std::mem::replace(&mut *inner.buckets.write(), listed.clone());
    *known_retired = retired;
    drop(known_retired);
    for gone in before.difference(&listed) {
        forget_cached(inner, *gone);
    }
}

/// Drops the records of buckets that were retired at least `grace` ago and that nobody reads. Returns
/// how many buckets are gone.
pub(crate) async fn drop_retired(inner: &Arc<Inner>, grace: Duration) -> Result<usize> {
    let due = due(inner, grace);
    if due.is_empty() {
        return Ok(0);
    }
    failpoint::pass("retire.before");
    let gone = empty_buckets(inner, &due, PATIENCE).await?;
    failpoint::pass("retire.drained");
    forget(inner, &gone).await?;
    failpoint::pass("retire.done");
    if !gone.is_empty() {
        info!(buckets = gone.len(), "retired buckets dropped");
    }
    Ok(gone.len())
}

fn due(inner: &Inner, grace: Duration) -> Vec<Bucket> {
    let now_ms = inner.clock.now_ms();
    let grace_ms = i64::try_from(grace.as_millis()).unwrap_or(i64::MAX);
    let (retired, listed) = (inner.retired.read(), inner.buckets.read());
    let is_due = |(bucket, at_ms): &(&Bucket, &i64)| {
        now_ms.saturating_sub(**at_ms) >= grace_ms
            && !listed.contains(bucket)
            && !inner.leases.is_leased(**bucket)
    };
    let due = retired.iter().filter(is_due);
    due.map(|(bucket, _)| *bucket).collect()
}

/// Drains everything that buckets hold and waits for at most `patience`. Returns those of which
/// nothing is left; what is left of the others is as it was, or a part of it.
///
/// The caller keeps the buckets from being written meanwhile. Afterwards they may be.
pub(crate) async fn empty_buckets(
    inner: &Inner,
    buckets: &[Bucket],
    patience: Duration,
) -> Result<Vec<Bucket>> {
    let engine = &inner.engine;
    // Without compaction nobody here drops segments: the next process that compacts will.
    if !inner.options.store.compaction {
        return Ok(Vec::new());
    }
    // Rows that are in a memtable would come back with its flush.
    engine.flush_memtable().await?;
    let mut left: BTreeMap<Bucket, Vec<Bytes>> = buckets
        .iter()
        .map(|bucket| (*bucket, segments_of(*bucket)))
        .collect();
    let all: Vec<Bytes> = left.values().flatten().cloned().collect();
    engine.drain_all(&all);
    let give_up = tokio::time::Instant::now() + patience;
    let mut gone = Vec::new();
    loop {
        let held = engine.having_files(&all);
        left.retain(|bucket, segments| {
            segments.retain(|segment| held.contains(segment));
            let empty = segments.is_empty();
            gone.extend(empty.then_some(*bucket));
            !empty
        });
        if left.is_empty() || tokio::time::Instant::now() >= give_up {
            break;
        }
        tokio::time::sleep(DRAIN_POLL).await;
    }
    engine.stop_draining(&all);
    Ok(gone)
}

/// The segments that records of a bucket may lie in.
pub(crate) fn segments_of(bucket: Bucket) -> Vec<Bytes> {
    let scoped = RecordType::ALL
        .iter()
        .filter(|record_type| record_type.is_bucket_scoped());
    scoped
        .map(|record_type| key::record_prefix(*record_type, bucket))
        .collect()
}

/// Deletes the records that say that buckets are retired, and what the process knows of them.
async fn forget(inner: &Inner, buckets: &[Bucket]) -> Result<()> {
    if buckets.is_empty() {
        return Ok(());
    }
    let mut batch = WriteBatch::new();
    for bucket in buckets {
        batch.delete(key::retired_bucket(*bucket));
    }
    let written = inner.engine.db().write(batch).await;
    let handle = written.map_err(Error::store("forgetting retired buckets"))?;
    handle
        .await_durable()
        .await
        .map_err(Error::store("forgetting retired buckets"))?;
    let mut retired = inner.retired.write();
    for bucket in buckets {
        retired.remove(bucket);
        forget_cached(inner, *bucket);
    }
    Ok(())
}

fn forget_cached(inner: &Inner, bucket: Bucket) {
    inner.cache.begin_change(bucket);
    inner.cache.end_change(bucket);
}

#[cfg(test)]
pub(super) mod tests;
