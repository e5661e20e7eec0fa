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

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use icecore_records::{Bucket, RecordType, key};
use tracing::info;

use crate::error::Result;
use crate::failpoint;
use crate::maintenance::Maintenance;

/// How long a call waits for the compactor, which needs a poll or two (1 s local, 5 s remote) for
/// as many segments as it takes at once. The next call goes on with the rest.
const PATIENCE: Duration = Duration::from_secs(30);

/// Drops the records of buckets that were retired at least `grace` ago and that nobody reads.
/// Returns how many buckets are gone.
pub(crate) async fn drop_retired(maintenance: &Arc<Maintenance>, grace: Duration) -> Result<usize> {
    let due = due(maintenance, grace);
    if due.is_empty() {
        return Ok(0);
    }
    failpoint::pass("retire.before");
    let gone = empty_buckets(maintenance, &due, PATIENCE).await?;
    failpoint::pass("retire.drained");
    maintenance.buckets.forget_retired(&gone).await?;
    failpoint::pass("retire.done");
    if !gone.is_empty() {
        info!(buckets = gone.len(), "retired buckets dropped");
    }
    Ok(gone.len())
}

fn due(maintenance: &Maintenance, grace: Duration) -> Vec<Bucket> {
    let now_ms = maintenance.context.clock.now_ms();
    let grace_ms = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
    let (retired, listed) = (maintenance.buckets.retired(), maintenance.buckets.levels());
    let is_due = |(bucket, at_ms): &(&Bucket, &i64)| {
        // A clock that was ahead when they were retired must not keep them until it is that late.
        now_ms.abs_diff(**at_ms) >= grace_ms
            && !listed.contains(**bucket)
            && !maintenance.buckets.leases().is_leased(**bucket)
    };
    let due = retired.iter().filter(is_due);
    due.map(|(bucket, _)| *bucket).collect()
}

/// Drains everything that buckets hold and waits for at most `patience`. Returns those of which
/// nothing is left; what is left of the others is as it was, or a part of it.
///
/// The caller keeps the buckets from being written meanwhile. Afterwards they may be.
pub(crate) async fn empty_buckets(
    maintenance: &Maintenance,
    buckets: &[Bucket],
    patience: Duration,
) -> Result<Vec<Bucket>> {
    let engine = &maintenance.context.engine;
    // Without compaction nobody here drops segments: the next process that compacts will.
    if !maintenance.context.options.store.compaction {
        return Ok(Vec::new());
    }
    let all: Vec<Bytes> = buckets.iter().copied().flat_map(segments_of).collect();
    let held = engine.drop_segments(&all, patience).await?;
    let is_empty = |bucket: &Bucket| !segments_of(*bucket).iter().any(|s| held.contains(s));
    Ok(buckets.iter().copied().filter(is_empty).collect())
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

#[cfg(test)]
pub(super) mod tests;
