//! Coarsening of windows: buckets of them become one larger bucket with the same windows.
//!
//! Holds always:
//! - The sources are all that is left of their time, and cover it. Nothing is written there, and a
//!   deletion, which takes windows, waits for the end of the job.
//! - After the commit the target is listed in place of the sources, with what was known of them.
//!
//! Elsewhere: how a bucket is built (`super::job`), what is coarsened and when
//! (`crate::maintenance::retention`).

use std::sync::Arc;

use icecore_records::Bucket;

use super::super::pace::Watch;
use super::super::retention::LargerPlan;
use super::job::{self, Outcome};
use super::windows::RollUp;
use super::{clean_bucket, sources};
use crate::error::Result;
use crate::maintenance::Maintenance;

/// Builds a larger bucket of windows and lets it take the place of the smaller ones.
pub(crate) async fn coarsen_windows(
    maintenance: &Arc<Maintenance>,
    plan: &LargerPlan,
    watch: &Watch,
) -> Result<Outcome> {
    coarsen_windows_until(maintenance, plan, watch, None).await
}

/// The same; with `writes_max` it is interrupted when it wants to write more often than that.
pub(crate) async fn coarsen_windows_until(
    maintenance: &Arc<Maintenance>,
    plan: &LargerPlan,
    watch: &Watch,
    writes_max: Option<u64>,
) -> Result<Outcome> {
    let target = plan.target;
    let sorted = sources::check_windows(target, &plan.sources)?;
    // What was deleted does not come along.
    for source in &sorted {
        clean_bucket(maintenance, *source, watch).await?;
    }
    let _held = {
        let turn = maintenance.ingest.hold().turn().await;
        let frozen = maintenance.ingest.lock_flushes().await;
        check_listed(maintenance, target, &sorted).map_err(|reason| watch.stale(reason))?;
        turn.begin(target, &frozen)?
    };
    maintenance
        .context
        .pauses
        .pass("coarsen_windows.held")
        .await;
    let roll_up = RollUp {
        target,
        resolution: plan.resolution,
        lean: plan.lean,
        left_out: 0,
        coarsens: true,
    };
    let roll_up = Some((roll_up, None));
    job::build(maintenance, target, &sorted, roll_up, watch, writes_max).await
}

/// Whether a target can be built from these sources now. Says why not.
fn check_listed(
    maintenance: &Maintenance,
    target: Bucket,
    sources: &[Bucket],
) -> Result<(), String> {
    let retired = maintenance.buckets.retired();
    if retired.contains_key(&target) {
        return Err(format!("{target} was retired and is not dropped yet"));
    }
    let levels = maintenance.buckets.levels();
    if levels.contains(target) {
        return Err(format!("{target} has been built"));
    }
    levels.coarsened(target, sources)?;
    sources::check_tombstones(maintenance.buckets.tombstones(), sources)
}
