//! Coarsening: the buckets of a window become one larger bucket that holds columns.
//!
//! Holds always:
//! - After the commit nobody writes the sources. What comes in meanwhile goes to the target.
//! - The sources are everything raw that is listed in the target's window, when it is held back and
//!   again at the commit. A flush may list a bucket there until then: the job is planned again.
//! - No source has tombstones: they are cleaned before, and a deletion waits for the end of the
//!   job, and the next job for the deletion.
//!
//! Elsewhere: how a bucket is built (`super::job`), what is coarsened and when
//! (`crate::maintenance::plan`), what becomes of the sources (`crate::maintenance::retire`),
//! buckets that overlap (`super::repair`).

use std::sync::Arc;

use icecore_records::Bucket;

use super::super::pace::Watch;
use super::job::{self, Outcome, Product};
use super::{commit, hold, sources};
use crate::buckets::levels::Listed;
use crate::error::Result;
use crate::maintenance::Maintenance;

/// Builds `target` out of `sources` and lets it take their place.
pub(crate) async fn coarsen(
    maintenance: &Arc<Maintenance>,
    target: Bucket,
    sources: &[Bucket],
    watch: &Watch,
) -> Result<Outcome> {
    coarsen_until(maintenance, target, sources, watch, None).await
}

/// The same; with `writes_max` it is interrupted when it wants to write more often than that.
pub(crate) async fn coarsen_until(
    maintenance: &Arc<Maintenance>,
    target: Bucket,
    sources: &[Bucket],
    watch: &Watch,
    writes_max: Option<u64>,
) -> Result<Outcome> {
    let sorted = sources::check(target, sources)?;
    hold::clean(maintenance, &sorted, watch).await?;
    let check = |levels: &Listed| commit::check_window(levels.raw(), target, &sorted);
    let _held = hold::hold(maintenance, target, &sorted, watch, check).await?;
    let product = (Product::Samples, None);
    job::build(maintenance, target, &sorted, product, watch, writes_max).await
}
