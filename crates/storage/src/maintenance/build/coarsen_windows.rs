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

use super::super::pace::Watch;
use super::super::retention::LargerPlan;
use super::job::{self, Outcome, Product};
use super::windows::RollUp;
use super::{hold, sources};
use crate::buckets::levels::Listed;
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
    hold::clean(maintenance, &sorted, watch).await?;
    let check = |levels: &Listed| levels.coarsened(target, &sorted).map(drop);
    let _held = hold::hold(maintenance, target, &sorted, watch, check).await?;
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
    let product = (Product::Windows(roll_up), None);
    job::build(maintenance, target, &sorted, product, watch, writes_max).await
}
