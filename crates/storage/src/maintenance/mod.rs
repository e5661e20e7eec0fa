//! What has to happen from time to time.
//!
//! ```text
//! one task    each second: epochs roll, hours are flushed, epochs are drained, idle series are forgotten
//! another     jobs: buckets are mended and coarsened, late samples folded in, what was replaced is dropped
//! ```
//!
//! Holds always:
//! - None of it overlaps with itself: one round of flushes, one job at a time.
//! - Jobs never delay flushes of hours that they do not copy, and end when the head needs the others.
//! - A step that fails is logged and tried again.

pub(crate) mod coarsen;
mod flushes;
pub(crate) mod fold;
pub(crate) mod hold;
mod jobs;
pub(crate) mod pace;
pub(crate) mod plan;
mod recent;
pub(crate) mod retire;
pub(crate) mod settle;
mod skipped;
mod status;
pub(crate) mod sweep;
mod task;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tracing::warn;

pub(crate) use flushes::{flush_all, flush_and_drain, flush_due};
pub(crate) use hold::Hold;
pub(crate) use jobs::Jobs;
pub(crate) use recent::RecentWrites;
pub(crate) use skipped::Skipped;
pub(crate) use status::status;
pub use status::{JobStatus, MaintenanceReport, MaintenanceStatus, SizeCount, SkippedJob};
pub(crate) use task::run as run_jobs;

use crate::error::Result;
use crate::inner::Inner;
use crate::journal::drain_epochs;

const TICK: Duration = Duration::from_secs(1);

/// How often idle series are looked for: a walk over all of them.
const FORGET_EVERY_TICKS: u64 = 60;

/// Flushes and what goes with them, until it is told to stop.
pub(crate) async fn run_flushes(inner: Arc<Inner>, mut stop: oneshot::Receiver<()>) {
    let mut ticks = 0;
    loop {
        tokio::select! {
            _ = &mut stop => return,
            () = tokio::time::sleep(TICK) => {}
            () = inner.nudge.notified() => {}
        }
        if inner.journal.failed().is_some() {
            return;
        }
        ticks += 1;
        if let Err(cause) = tick(&inner, ticks).await {
            warn!(%cause, "maintenance failed; trying again");
        }
        inner.flush_log.tell();
    }
}

async fn tick(inner: &Arc<Inner>, ticks: u64) -> Result<()> {
    // One that fails does not keep the others from being tried.
    let flushed = flush_due(inner).await;
    let drained = drain_epochs(inner, Duration::ZERO).await.map(drop);
    let forgotten = match ticks.is_multiple_of(FORGET_EVERY_TICKS) {
        true => forget_idle(inner).await,
        false => Ok(()),
    };
    flushed.and(drained).and(forgotten)
}

pub(crate) async fn forget_idle(inner: &Arc<Inner>) -> Result<()> {
    let idle_s = inner.options.head.series_idle_max.as_secs();
    let now_s = u64::from(inner.process_s(inner.clock.now_ms()));
    let Some(before) = now_s.checked_sub(idle_s) else {
        return Ok(());
    };
    let head = Arc::clone(&inner.head);
    let before = u32::try_from(before).unwrap_or(u32::MAX);
    let forgotten = inner.pool.run(move || head.forget_idle(before)).await?;
    inner.metrics.series_forgotten.add(forgotten as u64);
    Ok(())
}
