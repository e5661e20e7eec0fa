//! Which hours of the head are flushed, and when.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use icecore_model::{BucketSize, BucketStart};
use tokio::time::Instant;
use tracing::{debug, warn};

use crate::error::Result;
use crate::flush::{Retry, flush_catalog, flush_hours, flush_round, flush_totals, take_round};
use crate::head::{CATALOG_HOUR, LiveHours, OpenHour, TOTALS_HOUR};
use crate::inner::Inner;
use crate::journal::{drain_epochs, summarize_epochs};

/// How long an explicit flush waits for drained epochs to vanish. The next tick goes on with the rest.
const DRAIN_PATIENCE: Duration = Duration::from_secs(30);

/// Of the bytes of an epoch: one that holds so little is not ended by a flush.
const FLUSHED_EPOCH_SHARE: usize = 4;

/// How long a stop goes on with flushing. What is left then stays in the journal, from which the next
/// process has it again: a stop ends, however many hours are open.
const STOP_PATIENCE: Duration = Duration::from_secs(60);

/// How long hours of long ago wait at most for a store that has enough to do, and how often it is asked.
const STORE_PATIENCE: Duration = Duration::from_secs(10);
const STORE_POLL: Duration = Duration::from_millis(50);

/// Begins a new epoch when it is time, and flushes a round of the hours whose time has come. Says whether
/// there are more.
pub(crate) async fn flush_due(inner: &Arc<Inner>) -> Result<bool> {
    roll_epoch(inner, false);
    let mut hours = due_hours(inner);
    let catalog = hours.remove(&CATALOG_HOUR);
    let totals = hours.remove(&TOTALS_HOUR);
    let flushed_any = !hours.is_empty();
    if flushed_any {
        roll_epoch(inner, true);
    }
    let summarized = summarize_epochs(inner).await;
    let now_ms = inner.clock.now_ms();
    let round = take_round(&mut hours, now_ms);
    let more = !hours.is_empty();
    let live = LiveHours::at(now_ms);
    if round.iter().any(|hour| !live.contains(*hour)) {
        leave_room_for_the_journal(inner).await;
    }
    // Also without an hour that is due: an earlier flush may have failed and left some. What a job
    // holds back is due again at the next tick.
    let hours = flush_round(inner, round, Retry::Due).await.map(drop);
    // One that fails does not keep the others from being tried.
    let catalog = match catalog || flushed_any {
        true => flush_catalog(inner).await,
        false => Ok(()),
    };
    let totals = match totals || flushed_any {
        true => flush_totals(inner).await,
        false => Ok(()),
    };
    let done = hours.and(catalog).and(totals).and(summarized);
    done.map(|()| more)
}

/// Waits while half of what SlateDB may hold in memory is taken: the rest is for the journal, so that no
/// write waits for the flush of a backfill. A memtable with many hours in it becomes many files, which
/// takes a while.
async fn leave_room_for_the_journal(inner: &Inner) {
    let max = inner.options.store.unflushed_bytes_max / 2;
    let give_up = Instant::now() + STORE_PATIENCE;
    while inner.engine.unflushed_bytes() > max && Instant::now() < give_up {
        tokio::select! {
            () = inner.jobs.stopped() => return,
            () = tokio::time::sleep(STORE_POLL) => {}
        }
    }
}

/// Moves everything that was acknowledged into buckets, but for hours that cannot be flushed
/// (`Inner::quarantine`). What a job holds back is waited for: the job is
/// told that somebody waits, and hurries.
pub(crate) async fn flush_all(inner: &Arc<Inner>) -> Result<()> {
    let hours = all_hours(inner);
    let mut held_back = flush_hours(inner, hours, Retry::All).await?;
    while !held_back.is_empty() {
        inner.hold.ended(&held_back).await;
        held_back = flush_hours(inner, held_back, Retry::Due).await?;
    }
    flush_catalog(inner).await?;
    flush_totals(inner).await?;
    summarize_epochs(inner).await
}

/// The same for the end of a process, which no job holds back, as far as there is time.
pub(crate) async fn flush_at_stop(inner: &Arc<Inner>) -> Result<()> {
    let give_up = Instant::now() + STOP_PATIENCE;
    let mut hours = all_hours(inner);
    let (mut result, mut retry) = (Ok(()), Retry::All);
    loop {
        let round = take_round(&mut hours, inner.clock.now_ms());
        result = flush_round(inner, round, retry).await.map(drop).and(result);
        retry = Retry::Due;
        if hours.is_empty() {
            break;
        }
        if Instant::now() >= give_up {
            warn!(
                hours = hours.len(),
                "stopping before all hours are flushed: the next start replays them from the journal"
            );
            break;
        }
    }
    flush_catalog(inner).await?;
    flush_totals(inner).await?;
    result
}

/// All open hours, after the beginning of a new epoch.
fn all_hours(inner: &Inner) -> BTreeSet<u32> {
    let mut sequencer = inner.head.sequencer.lock();
    sequencer.roll_epoch(inner.clock.now_ms());
    let open = sequencer.open_hours.keys().copied();
    let hours = open.filter(|hour| *hour != CATALOG_HOUR).collect();
    drop(sequencer);
    inner.journal.epoch_began();
    hours
}

/// The same, and lets go of the journal.
pub(crate) async fn flush_and_drain(inner: &Arc<Inner>) -> Result<()> {
    flush_all(inner).await?;
    // Without compaction nobody here drops segments: the next process that compacts will.
    let patience = match inner.options.store.compaction {
        true => DRAIN_PATIENCE,
        false => Duration::ZERO,
    };
    drain_epochs(inner, patience).await.map(drop)
}

/// Begins a new epoch when the old one is large, or at the full hour (or whatever span epochs have):
/// then an epoch holds the samples of one hour, mostly, and goes when that is flushed. Before a flush
/// an epoch is large soon: what comes after it must not keep alive, nor have a start read, what was
/// flushed. A new epoch defines all series anew, so it is not begun for little.
fn roll_epoch(inner: &Inner, before_flush: bool) {
    let now_ms = inner.clock.now_ms();
    let options = &inner.options.journal;
    let mut sequencer = inner.head.sequencer.lock();
    let age_max = (options.epoch_age_max.as_millis() as i64).max(1);
    let span = |ms: i64| ms.div_euclid(age_max);
    let old = span(now_ms) != span(sequencer.epoch_started_ms);
    let bytes_max = match before_flush {
        true => options.epoch_bytes_max / FLUSHED_EPOCH_SHARE,
        false => options.epoch_bytes_max,
    };
    if old || inner.journal.epoch_bytes() >= bytes_max.max(1) {
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
    let distant = sequencer.distant_count(now_ms);
    if distant > options.limits.open_buckets_max / 2 {
        // Many hours of long ago are open, which is backfill: the older half makes room.
        due.extend(sequencer.distant_hours(now_ms).take(distant.div_ceil(2)));
    }
    drop(sequencer);
    due.extend(flush_for_memory(inner));
    // They have a time of their own.
    due.retain(|hour| !inner.quarantine.contains(*hour));
    due
}

/// Hours that should be flushed so that samples take less memory.
pub(super) fn flush_for_memory(inner: &Inner) -> impl Iterator<Item = u32> {
    let full = inner.head.sample_bytes() > inner.budget.flush_bytes;
    let hours = full.then(|| largest(&inner.head.sequencer.lock().open_hours));
    let stuck = inner.quarantine.hours();
    let hours = hours.unwrap_or_default().into_iter();
    hours.filter(move |hour| !stuck.contains(hour))
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
