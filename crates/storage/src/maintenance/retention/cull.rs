//! Buckets leave the list because they are too old, or because their windows are out of date.
//!
//! ```text
//! samples of its time are refused ─► head flushed ─► planned again, under the flush lock
//!    ─► one write: not listed, retired, what was made of it says so, watermark
//! ```
//!
//! Holds always:
//! - What is culled was planned from what is stored while no flush was under way, and after no
//!   sample of its time could come any more.
//! - What windows were made of is gone in the write that says so. Before it they can be made again,
//!   after it they are what is left.
//! - Doing it twice changes nothing.

use std::sync::Arc;

use icecore_model::BucketStart;
use icecore_model::rollup::Resolution;
use icecore_records::bucket_meta::{self, BucketMeta};
use icecore_records::tombstones::Tombstones;
use icecore_records::{Bucket, key};
use slatedb::WriteBatch;
use tracing::info;

use super::super::pace::Watch;
use super::RetentionSnapshot;
use super::plan::{self, CullPlan};
use crate::buckets::kept_since::KeptClasses;
use crate::buckets::levels::RolledBucket;
use crate::buckets::{ladder, put_list, read_meta, stored_list};
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
    failpoint::pass("cull.before");
    let closed = ClosedTime::new(maintenance, &plan.units).await?;
    failpoint::pass("cull.closed");
    maintenance.context.pauses.pass("cull.closed").await;
    let frozen = maintenance.ingest.lock_flushes().await;
    let hours = frozen.keys().copied().collect();
    let again = RetentionSnapshot::of(maintenance, hours, everything).map(|s| s.culls().0);
    let mut again = again.into_iter().flatten();
    if !again.any(|again| again == *plan) {
        let level = plan.resolution;
        return Err(watch.stale(format!(
            "{level} buckets changed while they were to be culled"
        )));
    }
    let replacement = Replacement {
        made: outlive(maintenance, plan).await?,
        raise: Some((plan.resolution, plan.watermark_ms)),
        ..Replacement::default()
    };
    retire(maintenance, &frozen, &plan.buckets, replacement).await?;
    drop(closed);
    let (level, buckets) = (plan.resolution, plan.buckets.len());
    info!(%level, buckets, watermark_ms = plan.watermark_ms, "old buckets culled");
    Ok(buckets)
}

/// Time that takes no samples until this is dropped. From then on what is stored says what takes
/// none.
pub(crate) struct ClosedTime<'m>(&'m Maintenance);

impl<'m> ClosedTime<'m> {
    /// Closes time that is about to be culled. What was accepted before is in the head: it belongs
    /// into its windows first.
    pub(crate) async fn new(maintenance: &'m Maintenance, units: &[Bucket]) -> Result<Self> {
        set_floor(maintenance, units);
        let closed = Self(maintenance);
        let in_units = |hour: &BucketStart| {
            let time_ms = hour.start_ms();
            units.iter().any(|unit| unit.contains(time_ms))
        };
        let open = maintenance.ingest.head().open_hours();
        if open.iter().any(in_units) {
            ingest::flush_all(&maintenance.ingest).await?;
        }
        Ok(closed)
    }
}

impl Drop for ClosedTime<'_> {
    fn drop(&mut self) {
        set_floor(self.0, &[]);
    }
}

/// The metas of buckets of windows that outlive what they were made of: from now on they are made
/// of what that was made of, or they are all that is left. And those of remnants that are all that
/// is left of some hours.
pub(crate) async fn outlive(
    maintenance: &Maintenance,
    plan: &CullPlan,
) -> Result<Vec<(Bucket, BucketMeta)>> {
    let (outliving, left_alone) = {
        let listed = maintenance.buckets.levels();
        (
            plan::outliving(&listed, plan),
            listed.left_alone(&plan.buckets),
        )
    };
    let view = maintenance.context.engine.live_view();
    let mut metas = Vec::with_capacity(outliving.len());
    for facts in outliving {
        let mut meta = read_meta(&view, facts.bucket).await?;
        meta.rollup.source = facts.source;
        meta.rollup.sources_gone = facts.sources_gone;
        metas.push((facts.bucket, meta));
    }
    for (remnant, hours) in left_alone {
        let mut meta = read_meta(&view, remnant).await?;
        meta.dirty_hours = hours.into_iter().map(BucketStart::minutes).collect();
        metas.push((remnant, meta));
    }
    Ok(metas)
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
    retire(maintenance, &frozen, &[bucket], Replacement::default()).await?;
    info!(%bucket, "windows that are out of date retired: rolling up again");
    Ok(())
}

/// What is written when buckets are retired.
#[derive(Default)]
pub(crate) struct Replacement {
    /// Buckets of windows that were made of them, as they are known from then on.
    pub(crate) made: Vec<(Bucket, BucketMeta)>,
    /// Nothing older is left of a level.
    pub(crate) raise: Option<(Resolution, i64)>,
    /// The remnant that takes their place; `None` where no series outlives them.
    pub(crate) remnant: Option<(Bucket, BucketMeta)>,
    /// The job that made it is over.
    pub(crate) ends_job: bool,
}

/// Takes buckets off the list, and says what becomes of those that were made of them.
pub(crate) async fn retire(
    maintenance: &Maintenance,
    _no_flush: &FrozenHours,
    buckets: &[Bucket],
    replacement: Replacement,
) -> Result<()> {
    let Replacement {
        made,
        raise,
        remnant,
        ends_job,
    } = replacement;
    let view = maintenance.context.engine.live_view();
    let mut listed = stored_list(&view).await?;
    listed.retain(|bucket| !buckets.contains(bucket));
    let now_ms = maintenance.context.clock.now_ms();
    let mut batch = WriteBatch::new();
    if ends_job {
        batch.delete(key::maintenance_job());
    }
    if let Some((bucket, meta)) = &remnant {
        listed.insert(*bucket);
        batch.put(key::bucket_meta(*bucket), bucket_meta::encode(meta));
    }
    put_list(&mut batch, &listed, buckets, now_ms);
    // Windows that are made again have lost nothing; and what is gone has nothing to lose.
    for bucket in buckets {
        batch.delete(key::tombstones(*bucket));
    }
    for (bucket, meta) in &made {
        batch.put(key::bucket_meta(*bucket), bucket_meta::encode(meta));
    }
    let retention = &maintenance.retention;
    let state = raise.map(|(level, watermark_ms)| retention.raise(&mut batch, level, watermark_ms));
    let failed = || Error::store("retiring buckets");
    let db = maintenance.context.engine.db();
    let known = &maintenance.buckets;
    let changed: Vec<Bucket> = made.iter().map(|(bucket, _)| *bucket).collect();
    let written = known.cache().during_write(&changed, db.write(batch)).await;
    let written = written.map(drop).map_err(failed());
    let fail = |reason: &str| maintenance.ingest.journal().fail(reason);
    let target = remnant.as_ref().map(|(bucket, _)| (*bucket, None));
    let followed = known
        .committed(written, target, buckets, now_ms, fail)
        .await;
    if followed.is_err() {
        retention.reload().await;
    }
    followed?;
    if let Some(state) = state {
        retention.set_state(state);
    }
    let facts = made
        .iter()
        .filter_map(|(bucket, meta)| Some((*bucket, RolledBucket::of(meta)?)));
    known.set_facts(facts);
    let remnants = made.iter().filter(|(b, _)| ladder::is_remnant(b.size));
    for (bucket, meta) in remnants {
        known.set_remnant(*bucket, meta);
    }
    if let Some((bucket, meta)) = &remnant {
        known.set_remnant(*bucket, meta);
    }
    for bucket in buckets {
        known.tombstones().set(*bucket, Tombstones::default());
    }
    failpoint::pass("cull.committed");
    db.flush().await.map_err(failed())
}

/// Tells ingest and readers what is too old.
pub(crate) fn tell_what_is_too_old(maintenance: &Maintenance) {
    set_floor(maintenance, &[]);
}

/// The same; buckets in `closing` are about to be culled.
fn set_floor(maintenance: &Maintenance, closing: &[Bucket]) {
    let _one_at_a_time = maintenance.telling.lock();
    let policy = maintenance.retention.policy();
    let kept_since = KeptClasses::new(policy.as_ref(), maintenance.retention.now_ms());
    maintenance.context.pauses.pass_blocking("set_floor.looked");
    let floor = {
        let listed = maintenance.buckets.levels();
        TimeFloor::new(policy.as_ref(), &kept_since, &listed, closing)
    };
    maintenance.ingest.head().set_floor(floor);
    let buckets = &maintenance.buckets;
    buckets.set_kept_since(policy.as_deref(), kept_since);
}
