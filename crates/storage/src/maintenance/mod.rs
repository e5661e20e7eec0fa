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
use tokio::time::Instant;
use tracing::warn;

pub(crate) use coarsen::stored_list;
#[cfg(feature = "testing")]
pub(crate) use flushes::flush_all;
pub(crate) use flushes::{flush_and_drain, flush_at_stop, flush_due};
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
const FORGET_EVERY: Duration = Duration::from_secs(60);

/// Series that are forgotten in one go, which takes milliseconds.
const FORGET_SERIES: usize = 4096;

/// How long it is waited for requests to end, at first and at most; how many times as long requests have
/// the head for themselves before the next try; and how long all of it may take.
const FORGET_PATIENCE: Duration = Duration::from_millis(5);
const FORGET_PATIENCE_MAX: Duration = Duration::from_millis(200);
const FORGET_PAUSE: u32 = 5;
const FORGET_MAX: Duration = Duration::from_secs(10);

/// Flushes and what goes with them, until it is told to stop.
pub(crate) async fn run_flushes(inner: Arc<Inner>, mut stop: oneshot::Receiver<()>) {
    let mut next_forget = Instant::now() + FORGET_EVERY;
    let mut pause = TICK;
    loop {
        tokio::select! {
            biased;
            _ = &mut stop => return,
            () = inner.nudge.notified() => {}
            () = tokio::time::sleep(pause) => {}
        }
        if inner.journal.failed().is_some() {
            return;
        }
        pause = match tick(&inner, &mut next_forget).await {
            Ok(true) => Duration::ZERO,
            Ok(false) => TICK,
            Err(cause) => {
                warn!(%cause, "maintenance failed; trying again");
                TICK
            }
        };
        inner.flush_log.tell();
    }
}

/// One round of everything; whether more hours are due.
async fn tick(inner: &Arc<Inner>, next_forget: &mut Instant) -> Result<bool> {
    // One that fails does not keep the others from being tried.
    let flushed = flush_due(inner).await;
    let drained = drain_epochs(inner, Duration::ZERO).await.map(drop);
    let forgotten = match Instant::now() >= *next_forget {
        true => {
            *next_forget = Instant::now() + FORGET_EVERY;
            forget_idle(inner).await
        }
        false => Ok(()),
    };
    drained.and(forgotten).and(flushed)
}

/// Forgets idle series, some at a time: requests wait while some are forgotten.
pub(crate) async fn forget_idle(inner: &Arc<Inner>) -> Result<()> {
    let idle_s = inner.options.head.series_idle_max.as_secs();
    let now_s = u64::from(inner.process_s(inner.clock.now_ms()));
    let Some(before) = now_s.checked_sub(idle_s) else {
        return Ok(());
    };
    let before = u32::try_from(before).unwrap_or(u32::MAX);
    let head = Arc::clone(&inner.head);
    let idle = inner.pool.run(move || head.idle_series(before)).await?;
    let give_up = Instant::now() + FORGET_MAX;
    let (mut forgotten, mut patience) = (Vec::new(), FORGET_PATIENCE);
    let mut left = &idle[..];
    while !left.is_empty() && Instant::now() < give_up && !inner.jobs.is_stopped() {
        let (some, rest) = left.split_at(left.len().min(FORGET_SERIES));
        let (head, some) = (Arc::clone(&inner.head), some.to_vec());
        let forget = move || head.forget(&some, before, patience);
        match inner.pool.run(forget).await? {
            Some(gone) => {
                forgotten.extend(gone);
                left = rest;
            }
            // Somebody reads for long. Those who write wait along, so they get time in between.
            None => {
                tokio::time::sleep(patience * FORGET_PAUSE).await;
                patience = (patience * 2).min(FORGET_PATIENCE_MAX);
            }
        }
    }
    inner.metrics.series_forgotten.add(forgotten.len() as u64);
    let head = Arc::clone(&inner.head);
    inner.pool.run(move || head.reuse(&forgotten)).await
}
