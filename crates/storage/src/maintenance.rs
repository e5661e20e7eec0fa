//! What has to happen from time to time: epochs roll, hours are flushed, epochs are drained, idle
//! series are forgotten.
//!
//! Holds always:
//! - One task does it, so that none of it overlaps with itself.
//! - A step that fails is logged and tried again at the next tick.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use icecore_model::{BucketSize, BucketStart};
use tokio::sync::oneshot;
use tracing::{debug, warn};

use crate::error::Result;
use crate::flush::{flush_catalog, flush_hours};
use crate::head::{CATALOG_HOUR, OpenHour};
use crate::inner::Inner;
use crate::journal::drain_epochs;

const TICK: Duration = Duration::from_secs(1);

/// How often idle series are looked for: a walk over all of them.
const FORGET_EVERY_TICKS: u64 = 60;

/// Runs until it is told to stop.
pub(crate) async fn run(inner: Arc<Inner>, mut stop: oneshot::Receiver<()>) {
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
    }
}

async fn tick(inner: &Arc<Inner>, ticks: u64) -> Result<()> {
    flush_due(inner).await?;
    drain_epochs(inner, Duration::ZERO).await?;
    if ticks.is_multiple_of(FORGET_EVERY_TICKS) {
        forget_idle(inner).await?;
    }
    Ok(())
}

/// Begins a new epoch when it is time, and flushes the hours whose time has come.
pub(crate) async fn flush_due(inner: &Arc<Inner>) -> Result<()> {
    roll_epoch(inner);
    let hours = due_hours(inner);
    let catalog = hours.contains(&CATALOG_HOUR);
    let hours: BTreeSet<u32> = hours
        .into_iter()
        .filter(|hour| *hour != CATALOG_HOUR)
        .collect();
    let flushed_any = !hours.is_empty();
    // Also without an hour that is due: an earlier flush may have failed and left some.
    flush_hours(inner, hours).await?;
    if catalog || flushed_any {
        flush_catalog(inner).await?;
    }
    Ok(())
}

fn roll_epoch(inner: &Inner) {
    let now_ms = inner.clock.now_ms();
    let mut sequencer = inner.head.sequencer.lock();
    let age_max = inner.options.journal.epoch_age_max.as_millis() as i64;
    let old = now_ms - sequencer.epoch_started_ms >= age_max;
    let large = inner.journal.epoch_bytes() >= inner.options.journal.epoch_bytes_max;
    if old || large {
        sequencer.roll_epoch(now_ms);
        inner.journal.epoch_began();
        debug!(epoch = sequencer.epoch, "new journal epoch");
    }
}

/// Hours that should be flushed now, and why.
fn due_hours(inner: &Inner) -> BTreeSet<u32> {
    let now_ms = inner.clock.now_ms();
    let options = &inner.options;
    let sequencer = inner.head.sequencer.lock();
    let grace_ms = options.head.flush_grace.as_millis() as i64;
    let closed = |(hour, open): &(&u32, &OpenHour)| {
        let end_ms = match **hour {
            CATALOG_HOUR => 0,
            hour => BucketStart(hour).end_ms(BucketSize::HOUR),
        };
        now_ms >= end_ms + grace_ms && now_ms >= open.last_write_ms + grace_ms
    };
    let mut due: BTreeSet<u32> = sequencer
        .open_hours
        .iter()
        .filter(closed)
        .map(|(h, _)| *h)
        .collect();
    let keep_ms = options.journal.epoch_keep_max.as_millis() as i64;
    due.extend(sequencer.hours_of_old_epochs(now_ms - keep_ms));
    if sequencer.open_hours.len() > options.limits.open_buckets_max / 2 {
        // Many hours are open, which is backfill: the older half makes room.
        due.extend(
            sequencer
                .open_hours
                .keys()
                .take(sequencer.open_hours.len() / 2),
        );
    }
    if inner.head.bytes() > options.head.flush_bytes {
        due.extend(largest(&sequencer.open_hours));
    }
    due
}

/// The hours that hold most: as few as make up half of all samples.
fn largest(open: &std::collections::BTreeMap<u32, OpenHour>) -> Vec<u32> {
    let mut hours: Vec<(u64, u32)> = open
        .iter()
        .map(|(hour, open)| (open.samples, *hour))
        .collect();
    hours.sort_unstable_by(|a, b| b.cmp(a));
    let all: u64 = hours.iter().map(|(samples, _)| samples).sum();
    let mut taken = 0;
    let half = hours.into_iter().take_while(|(samples, _)| {
        let before = taken;
        taken += samples;
        before * 2 <= all
    });
    half.map(|(_, hour)| hour).collect()
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
