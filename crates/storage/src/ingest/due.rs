//! Which hours of the head are flushed, and when.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use icecore_model::{BucketSize, BucketStart};
use icecore_records::Bucket;
use icecore_records::epoch_summary::FlushUnit;
use tokio::time::Instant;
use tracing::{debug, warn};

use crate::error::Result;
use crate::ingest::Ingest;
use crate::ingest::flush::{
    Retry, flush_catalog, flush_hours, flush_round, flush_totals, take_round, window_of,
};
use crate::ingest::head::{LiveHours, OpenUnits};
use crate::ingest::journal::{drain_epochs, summarize_epochs};

/// How long an explicit flush waits for drained epochs to vanish. The next tick goes on with the
/// rest.
const DRAIN_PATIENCE: Duration = Duration::from_secs(30);

/// Of the bytes of an epoch: one that holds so little is not ended by a flush.
const FLUSHED_EPOCH_SHARE: usize = 4;

/// Changes of the catalog that are flushed although more are coming.
const CATALOG_FLUSH_BYTES: usize = 8 << 20;

/// How long hours of long ago wait at most for a store that has enough to do, and how often it is
/// asked.
const STORE_PATIENCE: Duration = Duration::from_secs(10);
const STORE_POLL: Duration = Duration::from_millis(50);

/// Begins a new epoch when it is time, and flushes a round of the hours whose time has come. Says
/// whether there are more.
pub(crate) async fn flush_due(ingest: &Arc<Ingest>) -> Result<bool> {
    roll_epoch(ingest, false);
    let Due {
        mut hours,
        catalog,
        totals,
    } = due(ingest);
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
    let catalog = if catalog || flushed_any {
        flush_catalog(ingest).await
    } else {
        Ok(())
    };
    let totals = if totals || flushed_any {
        flush_totals(ingest).await
    } else {
        Ok(())
    };
    let done = hours.and(catalog).and(totals).and(summarized);
    done.map(|()| more)
}

/// Waits while half of what SlateDB may hold in memory is taken: the rest is for the journal, so
/// that no write waits for the flush of a backfill. A memtable with many hours in it becomes many
/// files, which takes a while.
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

/// Does so for the end of a process, which no job holds back. It goes on for `patience`, or to the
/// end of the round that is under way then. What is left stays in the journal, from which the next
/// process has it again: a stop ends, however many hours are open.
pub(crate) async fn flush_at_stop(ingest: &Arc<Ingest>, patience: Duration) -> Result<()> {
    let give_up = Instant::now() + patience;
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
fn all_hours(ingest: &Ingest) -> BTreeSet<BucketStart> {
    let now_ms = ingest.context.clock.now_ms();
    ingest.head.roll_epoch(now_ms, |_| true);
    ingest.journal.epoch_began();
    ingest.head.open_hours()
}

/// The same, and lets go of the journal.
pub(crate) async fn flush_and_drain(ingest: &Arc<Ingest>) -> Result<()> {
    flush_all(ingest).await?;
    // Without compaction nobody here drops segments: the next process that compacts will.
    let patience = if ingest.context.options.store.compaction {
        DRAIN_PATIENCE
    } else {
        Duration::ZERO
    };
    drain_epochs(ingest, patience).await.map(drop)
}

/// Begins a new epoch when the old one is large, or at the full hour (or whatever span epochs
/// have): then an epoch holds the samples of one hour, mostly, and goes when that is flushed.
/// Before a flush an epoch is large soon: what comes after it must not keep alive, nor have a start
/// read, what was flushed. A new epoch defines all series anew, so it is not begun for little.
fn roll_epoch(ingest: &Ingest, before_flush: bool) {
    let now_ms = ingest.context.clock.now_ms();
    let options = &ingest.context.options.journal;
    let age_max = (options.epoch_age_max.as_millis() as i64).max(1);
    let span = |ms: i64| ms.div_euclid(age_max);
    let bytes_max = if before_flush {
        options.epoch_bytes_max / FLUSHED_EPOCH_SHARE
    } else {
        options.epoch_bytes_max
    };
    let is_large = ingest.journal.epoch_bytes() >= bytes_max.max(1);
    let is_due = |began_ms| is_large || span(now_ms) != span(began_ms);
    if let Some(epoch) = ingest.head.roll_epoch(now_ms, is_due) {
        ingest.journal.epoch_began();
        debug!(epoch, "new journal epoch");
    }
}

/// What should be flushed now.
struct Due {
    hours: BTreeSet<BucketStart>,
    catalog: bool,
    totals: bool,
}

fn due(ingest: &Ingest) -> Due {
    let clock = &ingest.context.clock;
    let (now_ms, elapsed_ms) = (clock.now_ms(), clock.elapsed_ms());
    let options = &ingest.context.options;
    let keep_ms = options.journal.epoch_keep_max.as_millis() as i64;
    let open = ingest.head.open_units(now_ms, elapsed_ms - keep_ms);
    let grace_ms = options.head.flush_grace.as_millis() as i64;
    let is_quiet = |last_write_ms: i64| elapsed_ms >= last_write_ms + grace_ms;
    let has_ended = |hour: BucketStart| now_ms >= hour.end_ms(BucketSize::HOUR) + grace_ms;
    let windows = open_windows(&open, now_ms);
    let mut due = Due {
        hours: BTreeSet::new(),
        catalog: open
            .catalog
            .is_some_and(|open| is_quiet(open.last_write_ms))
            || ingest.head.catalog.read().bytes() > CATALOG_FLUSH_BYTES,
        totals: false,
    };
    for window in windows.values() {
        let hours = window.hours.iter().copied();
        if is_quiet(window.last_write_ms) {
            due.hours.extend(hours.filter(|hour| has_ended(*hour)));
        }
    }
    for unit in open.overdue {
        match unit {
            FlushUnit::Hour(hour) => drop(due.hours.insert(hour)),
            FlushUnit::Catalog => due.catalog = true,
            FlushUnit::Totals => due.totals = true,
            // Whoever wrote them brings them into files.
            FlushUnit::Events => {}
        }
    }
    let distant = open.distant.len();
    if distant > options.limits.open_buckets_max / 2 {
        // Many hours of long ago are open, which is backfill: a half of them makes room.
        let live = LiveHours::at(now_ms);
        let old = windows.values().filter(|w| !live.contains(w.hours[0]));
        due.hours.extend(left_longest(old, distant.div_ceil(2)));
    }
    due.hours.extend(flush_for_memory(ingest));
    // What is written to one bucket is best written at once.
    for window in windows.values() {
        if window.hours.iter().any(|hour| due.hours.contains(hour)) {
            let hours = window.hours.iter().copied();
            due.hours.extend(hours.filter(|hour| has_ended(*hour)));
        }
    }
    // They have a time of their own.
    due.hours.retain(|hour| !ingest.quarantine.contains(*hour));
    due
}

/// The open hours of one bucket.
#[derive(Debug, Default)]
struct OpenWindow {
    /// Ascending, at least one.
    hours: Vec<BucketStart>,
    /// By monotonic time.
    last_write_ms: i64,
}

/// The open hours by the bucket that they belong to by their age.
fn open_windows(open: &OpenUnits, now_ms: i64) -> BTreeMap<Bucket, OpenWindow> {
    let mut windows: BTreeMap<Bucket, OpenWindow> = BTreeMap::new();
    for (hour, open) in &open.hours {
        let window = windows.entry(window_of(*hour, now_ms)).or_default();
        window.last_write_ms = window.last_write_ms.max(open.last_write_ms);
        window.hours.push(*hour);
    }
    windows
}

/// Hours of whole windows, at least so many: first those that nobody has written to for longest, of
/// equal ones the oldest. What is being written to is best left alone, wherever a backfill is.
fn left_longest<'w>(
    windows: impl Iterator<Item = &'w OpenWindow>,
    hours_min: usize,
) -> Vec<BucketStart> {
    let mut windows: Vec<&OpenWindow> = windows.collect();
    windows.sort_by_key(|window| (window.last_write_ms, window.hours[0]));
    let mut hours = Vec::new();
    for window in windows {
        if hours.len() >= hours_min {
            break;
        }
        hours.extend_from_slice(&window.hours);
    }
    hours
}

/// Hours that should be flushed so that samples take less memory.
pub(crate) fn flush_for_memory(ingest: &Ingest) -> impl Iterator<Item = BucketStart> {
    let full = ingest.head.sample_bytes() > ingest.budget.flush_bytes;
    let hours = full.then(|| ingest.head.largest_hours());
    let stuck = ingest.quarantine.hours();
    let hours = hours.unwrap_or_default().into_iter();
    hours.filter(move |hour| !stuck.contains(hour))
}
