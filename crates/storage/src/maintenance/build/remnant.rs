//! Remnants: of raw buckets that most series can do without the others move into one bucket, and
//! the rest is culled.
//!
//! ```text
//! samples of its time are refused ─► head flushed ─► hold back ─► build, with the series that are
//!    kept for longer ─► planned again, under the flush lock
//!    ─► one write: remnant listed, sources retired, what was made of them says so, watermark
//! ```
//!
//! Holds always:
//! - Until the write the sources are listed and read, and nobody reads the remnant. After it a
//!   series has all of its samples in the remnant, or none and its windows.
//! - The sources are everything raw of the remnant's time, which no sample could come to since they
//!   were read. They are culled under the rules that hold for any level.
//! - Which series these are is what the policy said when the job began; the remnant's index tells
//!   it from then on.
//!
//! Elsewhere: how a bucket is built (`super::job`), what is built and when
//! (`crate::maintenance::retention`), who reads it (`crate::read::levels`).

use std::collections::BTreeSet;
use std::sync::Arc;

use icecore_model::BucketStart;
use icecore_model::rollup::Resolution;
use icecore_records::Bucket;
use tracing::info;

use super::super::pace::Watch;
use super::super::retention::{ClosedTime, RemnantPlan, Replacement, RetentionSnapshot};
use super::super::retention::{outlive, retire};
use super::commit::{check_window, meta_of};
use super::job::{self, Outcome, Product};
use super::sources::check_tombstones;
use super::windows::SeriesFilter;
use super::writer::JobWriter;
use super::{hold, sources};
use crate::buckets::levels::Listed;
use crate::buckets::raw_of;
use crate::error::Result;
use crate::failpoint;
use crate::ingest::flush::FrozenHours;
use crate::maintenance::Maintenance;

/// A remnant that is being built.
#[derive(Clone, Copy)]
pub(super) struct Remnant<'p> {
    plan: &'p RemnantPlan,
    /// [`SeriesFilter::hash`].
    pub(super) left_out: u64,
    /// Somebody asked for everything that can be done.
    everything: bool,
}

/// Builds a remnant and culls what it is made of.
pub(crate) async fn build_remnant(
    maintenance: &Arc<Maintenance>,
    plan: &RemnantPlan,
    everything: bool,
    watch: &Watch,
) -> Result<Outcome> {
    build_remnant_until(maintenance, plan, everything, watch, None).await
}

/// The same; with `writes_max` it is interrupted when it wants to write more often than that.
pub(crate) async fn build_remnant_until(
    maintenance: &Arc<Maintenance>,
    plan: &RemnantPlan,
    everything: bool,
    watch: &Watch,
    writes_max: Option<u64>,
) -> Result<Outcome> {
    let target = plan.target;
    let sorted = sources::check_remnant(target, &plan.sources)?;
    let _closed = ClosedTime::new(maintenance, &[target]).await?;
    hold::clean(maintenance, &sorted, watch).await?;
    let check = |levels: &Listed| {
        if !levels.is_whole(Resolution::RAW, target) {
            return Err(format!("raw has lost something of {target}"));
        }
        check_window(levels.raw(), target, &sorted)
    };
    let _held = hold::hold(maintenance, target, &sorted, watch, check).await?;
    maintenance.context.pauses.pass("remnant.held").await;
    let filter = SeriesFilter::longer(maintenance.retention.policy());
    let remnant = Remnant {
        plan,
        left_out: filter.hash(),
        everything,
    };
    let product = (Product::Remnant(remnant), Some(filter));
    job::build(maintenance, target, &sorted, product, watch, writes_max).await
}

impl Remnant<'_> {
    /// Lists the remnant in place of its sources. `stored` is the list as the store has it.
    pub(super) async fn commit(
        self,
        maintenance: &Maintenance,
        watch: &Watch,
        frozen: &FrozenHours,
        stored: &BTreeSet<Bucket>,
        writer: &mut JobWriter<'_>,
    ) -> Result<()> {
        let plan = self.check(maintenance, frozen, stored);
        let plan = plan.map_err(|reason| watch.stale(reason))?;
        let cull = plan.cull();
        let job = &writer.job;
        let (series, sources) = (job.counts.series, plan.sources.len());
        let mut meta = meta_of(job, None, None);
        let alone = {
            let levels = maintenance.buckets.levels();
            levels.hours_without_windows(&plan.sources)
        };
        let alone = alone.into_iter();
        meta.dirty_hours = alone.map(BucketStart::minutes).collect();
        let replacement = Replacement {
            made: outlive(maintenance, &cull).await?,
            raise: Some((cull.resolution, cull.watermark_ms)),
            // Where nobody is kept for longer there is nothing to list.
            remnant: (series > 0).then_some((plan.target, meta)),
            ends_job: true,
        };
        writer.limit.take()?;
        failpoint::pass("remnant.commit");
        retire(maintenance, frozen, &plan.sources, replacement).await?;
        let (target, watermark_ms) = (plan.target, plan.watermark_ms);
        info!(%target, sources, series, watermark_ms, "old raw buckets culled");
        Ok(())
    }

    /// The plan as it is made now, if the remnant still fits. Says why not.
    fn check(
        self,
        maintenance: &Maintenance,
        frozen: &FrozenHours,
        stored: &BTreeSet<Bucket>,
    ) -> Result<RemnantPlan, String> {
        let RemnantPlan {
            target, sources, ..
        } = self.plan;
        if stored.contains(target) {
            return Err(format!("{target} has been built"));
        }
        check_window(&raw_of(stored), *target, sources)?;
        check_tombstones(maintenance.buckets.tombstones(), sources)?;
        let policy = maintenance.retention.policy();
        if SeriesFilter::longer(policy).hash() != self.left_out {
            return Err(format!("the policy has changed since {target} was begun"));
        }
        let hours = frozen.keys().copied().collect();
        let again = RetentionSnapshot::of(maintenance, hours, self.everything);
        let again = again.map(|again| again.remnants().0).unwrap_or_default();
        let is_same = |again: &RemnantPlan| (again.target, &again.sources) == (*target, sources);
        let again = again.into_iter().find(is_same);
        again.ok_or_else(|| format!("raw buckets in {target} changed while they were to be culled"))
    }
}
