//! Buckets leave the list because they are too old, or because their windows are out of date.
//!
//! ```text
//! watermark raised, durably ─► older samples are refused ─► head flushed
//!    ─► planned again, under the flush lock ─► not listed, retired
//! ```
//!
//! Holds always:
//! - What is culled was planned from what is stored while no flush was under way, and after no
//!   sample of its time could come any more.
//! - Doing it twice changes nothing.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use icecore_model::BucketStart;
use icecore_model::rollup::Resolution;
use icecore_records::tombstones::Tombstones;
use icecore_records::{Bucket, key};
use slatedb::WriteBatch;
use tracing::info;

use super::super::pace::Watch;
use super::{CullPlan, RetentionSnapshot};
use crate::buckets::{put_list, stored_list};
use crate::error::{Error, Result};
use crate::failpoint;
use crate::ingest;
use crate::ingest::flush::FrozenHours;
use crate::ingest::head::TimeFloor;
use crate::maintenance::Maintenance;

/// Culls buckets of a level. Returns how many.
pub(crate) async fn cull(
    maintenance: &Arc<Maintenance>,
    plan: &CullPlan,
    everything: bool,
    watch: &Watch,
) -> Result<usize> {
    let CullPlan {
        resolution,
        watermark_ms,
        ..
    } = *plan;
    failpoint::pass("cull.before");
    maintenance
        .retention
        .raise(resolution, watermark_ms)
        .await?;
    set_floor(maintenance);
    if resolution.is_raw() {
        // What was accepted before is in the head: it belongs into its windows first.
        let head = maintenance.ingest.head();
        let old = |hour: &BucketStart| hour.start_ms() < watermark_ms;
        if head.open_hours().iter().any(old) {
            ingest::flush_all(&maintenance.ingest).await?;
        }
    }
    failpoint::pass("cull.raised");
    let frozen = maintenance.ingest.lock_flushes().await;
    let hours = frozen.keys().copied().collect();
    let again = RetentionSnapshot::of(maintenance, hours, everything).map(|s| s.culls().0);
    let again = again.into_iter().flatten();
    let allowed: BTreeSet<Bucket> = again
        .filter(|again| again.resolution == resolution)
        .flat_map(|again| again.buckets)
        .collect();
    let buckets = plan.buckets.iter().copied();
    let buckets: Vec<Bucket> = buckets.filter(|bucket| allowed.contains(bucket)).collect();
    if buckets.len() < plan.buckets.len() {
        let reason = format!("{resolution} buckets were written to while they were culled");
        return Err(watch.stale(reason));
    }
    if buckets.is_empty() {
        return Ok(0);
    }
    retire(maintenance, &frozen, &buckets).await?;
    info!(level = %resolution, buckets = buckets.len(), watermark_ms, "old buckets culled");
    Ok(buckets.len())
}

/// Retires a bucket of windows that are out of date, so that it is made again.
pub(crate) async fn retire_outdated(
    maintenance: &Arc<Maintenance>,
    bucket: Bucket,
    everything: bool,
    watch: &Watch,
) -> Result<()> {
    let frozen = maintenance.ingest.lock_flushes().await;
    let hours = frozen.keys().copied().collect();
    let again = RetentionSnapshot::of(maintenance, hours, everything);
    if !again.is_some_and(|again| again.outdated().contains(&bucket)) {
        return Err(watch.stale(format!("{bucket} cannot be made again now")));
    }
    retire(maintenance, &frozen, &[bucket]).await?;
    info!(%bucket, "windows that are out of date retired: rolling up again");
    Ok(())
}

/// Takes buckets off the list.
async fn retire(
    maintenance: &Maintenance,
    _no_flush: &FrozenHours,
    buckets: &[Bucket],
) -> Result<()> {
    let view = maintenance.context.engine.live_view();
    let mut listed = stored_list(&view).await?;
    listed.retain(|bucket| !buckets.contains(bucket));
    let now_ms = maintenance.context.clock.now_ms();
    let mut batch = WriteBatch::new();
    put_list(&mut batch, &listed, buckets, now_ms);
    // Windows that are made again have lost nothing; and what is gone has nothing to lose.
    for bucket in buckets {
        batch.delete(key::tombstones(*bucket));
    }
    let failed = || Error::store("retiring buckets");
    let db = maintenance.context.engine.db();
    let written = db.write(batch).await.map(drop).map_err(failed());
    let fail = |reason: &str| maintenance.ingest.journal().fail(reason);
    let known = &maintenance.buckets;
    known
        .committed(written, None, buckets, now_ms, fail)
        .await?;
    for bucket in buckets {
        known.tombstones().set(*bucket, Tombstones::default());
    }
    failpoint::pass("cull.committed");
    db.flush().await.map_err(failed())
}

/// Tells ingest what is too old.
pub(crate) fn set_floor(maintenance: &Maintenance) {
    let raw_ms = maintenance.retention.watermark_ms(Resolution::RAW);
    let policy = maintenance.retention.policy();
    let coarsest = policy.and_then(|policy| Some(policy.levels().last()?.resolution));
    let all_ms = coarsest.map_or(0, |level| maintenance.retention.watermark_ms(level));
    let rolled = {
        let levels = maintenance.buckets.levels();
        let mut buckets: Vec<Bucket> = levels.rolled().values().flatten().copied().collect();
        buckets.sort_unstable_by_key(|bucket| bucket.start);
        joined(
            buckets
                .iter()
                .map(|bucket| bucket.start_ms()..bucket.end_ms()),
        )
    };
    let floor = TimeFloor::new(raw_ms, all_ms, rolled);
    maintenance.ingest.head().set_floor(floor);
}

/// Ranges, by start, as few that do not overlap.
fn joined(ranges: impl Iterator<Item = Range<i64>>) -> Vec<Range<i64>> {
    let mut joined: Vec<Range<i64>> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}
