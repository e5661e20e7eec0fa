//! Rolling up: the samples of a window, or its finer windows, become windows in a bucket of their
//! own.
//!
//! Holds always:
//! - The sources stay listed. Until the commit nobody reads the target; from then on it is read
//!   instead of them where a query allows it.
//! - The sources are everything of their level that is listed in the target's window, and what is
//!   finer lies in them, when the window is held back and again at the commit.
//! - Samples that come in meanwhile wait in the head, and deletions for the end of the job.
//! - Series that the policy keeps no windows of are left out, unless sources may have late samples
//!   of series that they say they have left out: nobody knows which ones.
//!
//! Elsewhere: how a bucket is built (`super::job`), what is rolled up and when
//! (`crate::maintenance::retention`).

use std::sync::Arc;

use super::super::pace::Watch;
use super::super::retention::RollUpPlan;
use super::job::{self, Outcome, Product};
use super::windows::{RollUp, SeriesFilter};
use super::{hold, sources};
use crate::buckets::levels::Listed;
use crate::error::Result;
use crate::maintenance::Maintenance;

/// Builds a bucket of windows.
pub(crate) async fn roll_up(
    maintenance: &Arc<Maintenance>,
    plan: &RollUpPlan,
    watch: &Watch,
) -> Result<Outcome> {
    roll_up_until(maintenance, plan, watch, None).await
}

/// The same; with `writes_max` it is interrupted when it wants to write more often than that.
pub(crate) async fn roll_up_until(
    maintenance: &Arc<Maintenance>,
    plan: &RollUpPlan,
    watch: &Watch,
    writes_max: Option<u64>,
) -> Result<Outcome> {
    let target = plan.target;
    let sorted = sources::check_windows(target, &plan.sources)?;
    hold::clean(maintenance, &sorted, watch).await?;
    maintenance.context.pauses.pass("roll_up.planned").await;
    let check = |levels: &Listed| sources::check_complete(levels, target, &sorted);
    let _held = hold::hold(maintenance, target, &sorted, watch, check).await?;
    maintenance.context.pauses.pass("roll_up.held").await;
    let has_all = maintenance.buckets.levels().pass_all_on(&sorted);
    let policy = maintenance.retention.policy().filter(|_| !has_all);
    let filter = SeriesFilter::new(policy, plan.resolution);
    let roll_up = RollUp {
        target,
        resolution: plan.resolution,
        lean: plan.lean,
        left_out: filter.as_ref().map_or(0, SeriesFilter::hash),
        coarsens: false,
    };
    job::build(
        maintenance,
        target,
        &sorted,
        (Product::Windows(roll_up), filter),
        watch,
        writes_max,
    )
    .await
}
