//! The begin of a job that builds a bucket: its sources are cleaned, and its window is held back
//! once they are what was planned.

use std::sync::Arc;

use icecore_records::Bucket;

use super::super::pace::Watch;
use super::{clean_bucket, sources};
use crate::buckets::levels::Listed;
use crate::error::Result;
use crate::ingest::flush::HoldGuard;
use crate::maintenance::Maintenance;

/// Takes what was deleted out of sources: it does not come along.
pub(super) async fn clean(
    maintenance: &Arc<Maintenance>,
    sources: &[Bucket],
    watch: &Watch,
) -> Result<()> {
    for source in sources {
        clean_bucket(maintenance, *source, watch).await?;
    }
    Ok(())
}

/// Holds back flushes and deletions of a target's window until the result is dropped. The job is
/// stale when the target cannot be built any more, or when `check` says why not.
pub(super) async fn hold<'m>(
    maintenance: &'m Maintenance,
    target: Bucket,
    sources: &[Bucket],
    watch: &Watch,
    check: impl FnOnce(&Listed) -> Result<(), String>,
) -> Result<HoldGuard<'m>> {
    let turn = maintenance.ingest.hold().turn().await;
    let frozen = maintenance.ingest.lock_flushes().await;
    let checked = check_target(maintenance, target, sources, check);
    checked.map_err(|reason| watch.stale(reason))?;
    turn.begin(target, &frozen)
}

fn check_target(
    maintenance: &Maintenance,
    target: Bucket,
    sources: &[Bucket],
    check: impl FnOnce(&Listed) -> Result<(), String>,
) -> Result<(), String> {
    if maintenance.buckets.retired().contains_key(&target) {
        return Err(format!("{target} was retired and is not dropped yet"));
    }
    let levels = maintenance.buckets.levels();
    if levels.contains(target) {
        return Err(format!("{target} has been built"));
    }
    check(&levels)?;
    sources::check_tombstones(maintenance.buckets.tombstones(), sources)
}
