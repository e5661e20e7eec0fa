//! Which hours of the head are flushed, and when.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use icecore_model::{BucketSize, BucketStart};
use tokio::time::Instant;
use tracing::{debug, warn};

use crate::error::Result;
use crate::ingest::Ingest;
use crate::ingest::flush::{
    Retry, flush_catalog, flush_hours, flush_round, flush_totals, take_round,
};
use crate::ingest::head::{CATALOG_HOUR, LiveHours, OpenHour, TOTALS_HOUR};
use crate::ingest::journal::{drain_epochs, summarize_epochs};

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
pub(crate) async fn flush_due(ingest: &Arc<Ingest>) -> Result<bool> {
    roll_epoch(ingest, false);
    let mut hours = due_hours(ingest);
    let catalog = hours.remove(&CATALOG_HOUR);
    let totals = hours.remove(&TOTALS_HOUR);
    let flushed_any = !hours.is_empty();
    if flushed_any {
        roll_epoch(ingest, true);
    }
    let summarized = summarize_epochs(ingest).await;
    let now_ms = ingest.context.clock.now_ms();
    let round = take_round(&mut hours, now_ms);
    let more = !hours.is_empty();
    let live = LiveHours::at(now_ms);
    if round.iter().any(|hour| !live.contains(*hour)) {
        leave_room_for_the_journal(ingest).await;
    }
    // Also without an hour that is due: an earlier flush may have failed and left some. What a job
    // holds back is due again at the next tick.
    let hours = flush_round(ingest, round, Retry::Due).await.map(drop);
    // One that fails does not keep the others from being tried.
    let catalog = match catalog || flushed_any {
        true => flush_catalog(ingest).await,
        false => Ok(()),
    };
    let totals = match totals || flushed_any {
        true => flush_totals(ingest).await,
        false => Ok(()),
    };
    let done = hours.and(catalog).and(totals).and(summarized);
    done.map(|()| more)
}

/// Waits while half of what SlateDB may hold in memory is taken: the rest is for the journal, so that no
/// write waits for the flush of a backfill. A memtable with many hours in it becomes many files, which
/// takes a while.
async fn leave_room_for_the_journal(ingest: &Ingest) {
    let max = ingest.context.options.store.unflushed_bytes_max / 2;
    let give_up = Instant::now() + STORE_PATIENCE;
    while ingest.context.engine.unflushed_bytes() > max && Instant::now() < give_up {
        tokio::select! {
            () = ingest.context.stop.stopped() => return,
            () = tokio::time::sleep(STORE_POLL) => {}
        }
    }
}

/// Moves everything that was acknowledged into buckets, but for hours that cannot be flushed
/// (`Ingest::quarantine`). What a job holds back is waited for: the job is
/// told that somebody waits, and hurries.
pub(crate) async fn flush_all(ingest: &Arc<Ingest>) -> Result<()> {
    let hours = all_hours(ingest);
    let mut held_back = flush_hours(ingest, hours, Retry::All).await?;
    while !held_back.is_empty() {
        ingest.hold.ended(&held_back).await;
        held_back = flush_hours(ingest, held_back, Retry::Due).await?;
    }
    flush_catalog(ingest).await?;
    flush_totals(ingest).await?;
    summarize_epochs(ingest).await
}

/// The same for the end of a process, which no job holds back, as far as there is time.
pub(crate) async fn flush_at_stop(ingest: &Arc<Ingest>) -> Result<()> {
    let give_up = Instant::now() + STOP_PATIENCE;
    let mut hours = all_hours(ingest);
    let (mut result, mut retry) = (Ok(()), Retry::All);
    loop {
        let round = take_round(&mut hours, ingest.context.clock.now_ms());
        result = flush_round(ingest, round, retry)
            .await
            .map(drop)
            .and(result);
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
    flush_catalog(ingest).await?;
    flush_totals(ingest).await?;
    result
}

/// All open hours, after the beginning of a new epoch.
fn all_hours(ingest: &Ingest) -> BTreeSet<u32> {
    let mut sequencer = ingest.head.sequencer.lock();
    sequencer.roll_epoch(ingest.context.clock.now_ms());
    let open = sequencer.open_hours.keys().copied();
    let hours = open.filter(|hour| *hour != CATALOG_HOUR).collect();
    drop(sequencer);
    ingest.journal.epoch_began();
    hours
}

/// The same, and lets go of the journal.
pub(crate) async fn flush_and_drain(ingest: &Arc<Ingest>) -> Result<()> {
    flush_all(ingest).await?;
    // Without compaction nobody here drops segments: the next process that compacts will.
    let patience = match ingest.context.options.store.compaction {
        true => DRAIN_PATIENCE,
        false => Duration::ZERO,
    };
    drain_epochs(ingest, patience).await.map(drop)
}

/// Begins a new epoch when the old one is large, or at the full hour (or whatever span epochs have):
/// then an epoch holds the samples of one hour, mostly, and goes when that is flushed. Before a flush
/// an epoch is large soon: what comes after it must not keep alive, nor have a start read, what was
/// flushed. A new epoch defines all series anew, so it is not begun for little.
fn roll_epoch(ingest: &Ingest, before_flush: bool) {
    let now_ms = ingest.context.clock.now_ms();
    let options = &ingest.context.options.journal;
    let mut sequencer = ingest.head.sequencer.lock();
    let age_max = (options.epoch_age_max.as_millis() as i64).max(1);
    let span = |ms: i64| ms.div_euclid(age_max);
    let old = span(now_ms) != span(sequencer.epoch_started_ms);
    let bytes_max = match before_flush {
        true => options.epoch_bytes_max / FLUSHED_EPOCH_SHARE,
        false => options.epoch_bytes_max,
    };
    if old || ingest.journal.epoch_bytes() >= bytes_max.max(1) {
        sequencer.roll_epoch(now_ms);
        ingest.journal.epoch_began();
        debug!(epoch = sequencer.epoch, "new journal epoch");
    }
}

/// Hours that should be flushed now, and why.
fn due_hours(ingest: &Ingest) -> BTreeSet<u32> {
    let now_ms = ingest.context.clock.now_ms();
    let options = &ingest.context.options;
    let sequencer = ingest.head.sequencer.lock();
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
    due.extend(flush_for_memory(ingest));
    // They have a time of their own.
    due.retain(|hour| !ingest.quarantine.contains(*hour));
    due
}

/// Hours that should be flushed so that samples take less memory.
pub(crate) fn flush_for_memory(ingest: &Ingest) -> impl Iterator<Item = u32> {
    let full = ingest.head.sample_bytes() > ingest.budget.flush_bytes;
    let hours = full.then(|| largest(&ingest.head.sequencer.lock().open_hours));
    let stuck = ingest.quarantine.hours();
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
