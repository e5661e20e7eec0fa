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
//! buckets that overlap (`super::mend`).

use std::sync::Arc;

use icecore_records::Bucket;

use super::super::pace::Watch;
use super::job::{self, Outcome};
use super::{clean_bucket, commit, sources};
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
    job::build(maintenance, target, &sorted, None, watch, writes_max).await
}

/// Whether a target can be built from these sources now. Says why not.
fn check_listed(
    maintenance: &Maintenance,
    target: Bucket,
    sources: &[Bucket],
) -> Result<(), String> {
    if maintenance.buckets.retired().contains_key(&target) {
        return Err(format!("{target} has been built before"));
    }
    commit::check_window(&maintenance.buckets.listed(), target, sources)?;
    sources::check_tombstones(maintenance.buckets.tombstones(), sources)
}
