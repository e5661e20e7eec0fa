//! The flush: hours of the head become buckets.
//!
//! ```text
//! freeze ─► wait until journalled ─► bucket by bucket, oldest first: order by labels ─► ids
//!    ─► series records ─► index ─► samples ─► commit: bucket listed, cursors moved ─► durable
//!    ─► head lets go
//! ```
//!
//! Holds always:
//! - One flush at a time. Until its commit an unlisted bucket is invisible, and a listed one holds
//!   a part of what the head still has: readers see every sample once, in whichever place.
//! - Only what is durable in the journal is written, so a crash leaves nothing that a repeat would
//!   not write again.
//! - Ids are given in label order; a repeat finds the ids it gave before and ends in the same
//!   state.
//! - A committed bucket holds of an hour exactly what requests up to its cursor brought: nothing
//!   less, so that epochs can go, and nothing more, so that a deletion is not undone by a replay
//!   (`head::freeze`). Cursors only grow, and change under the flush lock only.
//!
//! - An hour is written to the listed bucket that covers it, whatever its size; the list is read
//!   under the flush lock, so a bucket that a coarser one took the place of is never written to
//!   again.
//! - Hours of one bucket are written together, with one commit. What is long over is written as
//!   columns into one coarse bucket (`place`).
//! - Hours are flushed in rounds, those of now first: whoever waits for the flush lock waits for a
//!   round, however many hours are open. In a round they are written oldest first and made durable
//!   together.
//! - Hours that a job holds back (`hold`) stay in head and journal until it ends.
//! - An hour that cannot be flushed stays there, too, and holds nothing else up (`quarantine`).
//!
//! Elsewhere: when to flush (`super::due`), what merging means (`records::merge`).

mod assemble;
mod batch_writer;
mod catalog;
mod columns;
mod hold;
mod hour;
mod ids;
mod log;
mod place;
mod quarantine;
mod totals;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use icecore_model::BucketStart;
use icecore_records::epoch_summary::FlushUnit;
use icecore_records::{Bucket, flush_cursor, key, maintenance_job, watermark};
use tracing::warn;

pub(crate) use catalog::{delete_metadata, flush_catalog, load_metadata};
pub(crate) use hold::{FlushHold, HoldGuard, holds};
pub(crate) use log::FlushLog;
pub(crate) use place::window_of;
pub use quarantine::QuarantinedHour;
pub(crate) use quarantine::{Quarantine, Retry, time_of};
pub(crate) use totals::{flush_totals, load_totals};

use crate::buckets::{raw_of, stored_list};
use crate::error::{Error, Result};
use crate::failpoint;
use crate::ingest::Ingest;
use crate::ingest::head::{LiveHours, SeriesRef};
use batch_writer::{BatchWriter, Mode};
use hour::{WrittenHours, finish_hours, write_hours};
use place::{HourWeight, Placement, Portion};

/// Hours of one round, to which the rest of the last window comes. A freeze walks over all series,
/// so that fewer would cost more; many more would let others wait for seconds.
const ROUND_HOURS: usize = 256;

/// What is made durable together: a sync of the WAL for each hour would be most of the work of a
/// backfill. The bytes are those that a flush holds in the WAL's memory anyway.
const GROUP_HOURS: usize = 512;
const GROUP_BYTES: u64 = 4 << 20;

/// Hours that are frozen and not yet in their buckets. Between two flushes that is what a failed
/// one left to be done.
pub(crate) type FrozenHours = BTreeMap<BucketStart, FrozenHour>;

pub(crate) struct FrozenHour {
    /// Who has something in it.
    series: Vec<SeriesRef>,
    /// Everything up to this sequence number is in it or in the bucket.
    cursor: u64,
    samples: u64,
}

/// Flushes the given hours, as far as the head has something in them. Hours that a failed flush
/// left come first, of those that are quarantined the ones that `retry` names; one that cannot be
/// flushed does not hold back the others. Returns the hours that were left out because a job holds
/// them back.
pub(crate) async fn flush_hours(
    ingest: &Arc<Ingest>,
    mut hours: BTreeSet<BucketStart>,
    mut retry: Retry,
) -> Result<BTreeSet<BucketStart>> {
    let (mut held_back, mut result) = (BTreeSet::new(), Ok(()));
    loop {
        let round = take_round(&mut hours, ingest.context.clock.now_ms());
        match flush_round(ingest, round, retry).await {
            Ok(hours) => held_back.extend(hours),
            Err(cause) if result.is_ok() => result = Err(cause),
            Err(cause) => warn!(%cause, "cannot flush more hours"),
        }
        if hours.is_empty() {
            return result.map(|()| held_back);
        }
        // What is quarantined was tried once.
        retry = Retry::Due;
    }
}

/// [`flush_hours`] of at most [`ROUND_HOURS`].
pub(crate) async fn flush_round(
    ingest: &Arc<Ingest>,
    hours: BTreeSet<BucketStart>,
    retry: Retry,
) -> Result<BTreeSet<BucketStart>> {
    let ingest = Arc::clone(ingest);
    to_the_end(async move { flush_these(&ingest, hours, retry).await }).await
}

/// Takes the hours of the next round out: those around now, then the oldest, in whole windows.
pub(crate) fn take_round(hours: &mut BTreeSet<BucketStart>, now_ms: i64) -> BTreeSet<BucketStart> {
    if hours.len() <= ROUND_HOURS {
        return std::mem::take(hours);
    }
    let live = LiveHours::at(now_ms);
    let of_now: BTreeSet<BucketStart> = hours.range(live.range()).copied().collect();
    let mut round = of_now.clone();
    let mut window = None;
    for hour in hours.iter().copied().filter(|hour| !of_now.contains(hour)) {
        let of_hour = Some(window_of(hour, now_ms));
        if round.len() >= ROUND_HOURS && window != of_hour {
            break;
        }
        window = of_hour;
        round.insert(hour);
    }
    hours.retain(|hour| !round.contains(hour));
    round
}

/// Runs a flush to its end, also when whoever asked for it goes away: hours that are taken from the
/// open ones and not yet frozen would be flushed by nobody.
async fn to_the_end<T: Send + 'static>(
    flush: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    let ended = tokio::spawn(flush).await;
    ended.map_err(Error::ended_abnormally("a flush"))?
}

async fn flush_these(
    ingest: &Arc<Ingest>,
    mut hours: BTreeSet<BucketStart>,
    retry: Retry,
) -> Result<BTreeSet<BucketStart>> {
    let mut frozen = ingest.flushing.lock().await;
    let left_over = flush_frozen(ingest, &mut frozen, retry).await;
    let held_back = ingest.hold.take_out(&mut hours);
    // Of an hour that is still frozen the rest has to wait: the older part is written first.
    hours.retain(|hour| !frozen.contains_key(hour));
    if !hours.is_empty() {
        freeze(ingest, hours, &mut frozen).await?;
    }
    let flushed = flush_frozen(ingest, &mut frozen, Retry::Due).await;
    ingest.quarantine.limit(ingest);
    flushed.and(left_over)?;
    Ok(held_back)
}

async fn freeze(
    ingest: &Ingest,
    hours: BTreeSet<BucketStart>,
    frozen: &mut FrozenHours,
) -> Result<()> {
    let (cursor, freeze) = ingest.head.begin_freeze(&hours);
    ingest.context.pauses.pass("flush.freezing").await;
    let (head, walk) = (Arc::clone(&ingest.head), Arc::clone(&freeze));
    let found = ingest.context.pool.run(move || head.freeze(&walk)).await;
    // Some series are frozen and no list says which. A start has everything again from the journal.
    let mut found =
        found.inspect_err(|_| ingest.journal.fail("freezing hours ended abnormally"))?;
    for hour in hours {
        let series = found.remove(&hour).unwrap_or_default();
        let samples = freeze.samples(hour);
        frozen.insert(
            hour,
            FrozenHour {
                series,
                cursor,
                samples,
            },
        );
    }
    Ok(())
}

/// Writes all frozen hours whose turn it is; those that were written are no longer frozen. One that
/// fails for a reason of its own is quarantined, which is no failure of the flush.
async fn flush_frozen(ingest: &Arc<Ingest>, frozen: &mut FrozenHours, retry: Retry) -> Result<()> {
    let now_ms = ingest.context.clock.now_ms();
    let is_due = |hour: &BucketStart| ingest.quarantine.is_due(*hour, retry, now_ms);
    let hours: Vec<BucketStart> = frozen.keys().copied().filter(is_due).collect();
    let cursors = hours.iter().filter_map(|hour| frozen.get(hour));
    let Some(last_seq) = cursors.map(|frozen| frozen.cursor).max() else {
        return Ok(());
    };
    ingest.journal.wait_durable(last_seq).await?;
    failpoint::pass("flush.frozen");
    let mut result = Ok(());
    let mut weights: BTreeMap<BucketStart, HourWeight> = BTreeMap::new();
    for hour in hours {
        let Some(FrozenHour {
            series,
            cursor,
            samples,
        }) = frozen.get(&hour)
        else {
            continue;
        };
        if !series.is_empty() {
            let weight = HourWeight {
                series: series.len() as u64,
                samples: *samples,
            };
            weights.insert(hour, weight);
            continue;
        }
        match move_cursor(ingest, hour, *cursor).await {
            Ok(()) => {
                ingest.head.flushed(FlushUnit::Hour(hour), *cursor);
                frozen.remove(&hour);
                ingest.quarantine.release(hour);
            }
            Err(cause) if result.is_ok() => result = Err(cause),
            Err(cause) => warn!(%hour, %cause, "cannot move another cursor"),
        }
    }
    let portions = portions(ingest, &weights, now_ms).await?;
    let mut group = Group::default();
    for Portion { target, hours } in portions {
        let of_hour = |hour: &BucketStart| Some((*hour, frozen.get(hour)?));
        let frozen_hours: Vec<(BucketStart, &FrozenHour)> =
            hours.iter().filter_map(of_hour).collect();
        let written = match target {
            Some(target) => write_hours(ingest, target, &frozen_hours).await,
            None => Err(Error::Unavailable(
                "the records of an older bucket of the hour are not dropped yet".into(),
            )),
        };
        match written {
            Ok(written) => group.add(written),
            Err(cause) => match ingest.quarantine.take(&hours, cause, now_ms) {
                Ok(()) => {}
                Err(cause) if result.is_ok() => result = Err(cause),
                Err(cause) => {
                    warn!(first = %hours[0], hours = hours.len(), %cause, "cannot flush more hours");
                }
            },
        }
        if group.is_full() {
            std::mem::take(&mut group).finish(ingest, frozen).await?;
        }
    }
    group.finish(ingest, frozen).await.and(result)
}

/// Where hours go.
async fn portions(
    ingest: &Ingest,
    hours: &BTreeMap<BucketStart, HourWeight>,
    now_ms: i64,
) -> Result<Vec<Portion>> {
    let view = ingest.context.engine.live_view();
    // As the store has it: a flush that did not come to its end may have listed buckets that memory
    // does not know of. What lies there is joined, never replaced.
    let listed = raw_of(&stored_list(&view).await?);
    let mut taken: BTreeSet<Bucket> = ingest.buckets.retired().keys().copied().collect();
    // What an interrupted job has written is dropped when another one begins.
    let job = view.get(&key::maintenance_job()).await?;
    let job = job.and_then(|job| maintenance_job::decode(&job).ok());
    taken.extend(job.map(|job| job.target));
    let placement = Placement {
        listed: &listed,
        taken: &taken,
        levels: &ingest.buckets.levels(),
        now_ms,
    };
    Ok(placement.portions(hours))
}

/// What is written and made durable together.
#[derive(Default)]
struct Group {
    written: Vec<WrittenHours>,
    hours: usize,
    bytes: u64,
}

impl Group {
    fn add(&mut self, written: WrittenHours) {
        self.bytes += written.bytes;
        self.hours += written.hours.len();
        self.written.push(written);
    }

    fn is_full(&self) -> bool {
        self.hours >= GROUP_HOURS || self.bytes >= GROUP_BYTES
    }

    async fn finish(self, ingest: &Arc<Ingest>, frozen: &mut FrozenHours) -> Result<()> {
        finish_hours(ingest, &self.written).await?;
        for hour in self.written.iter().flat_map(|w| w.hours.iter()) {
            if let Some(FrozenHour { cursor, .. }) = frozen.remove(hour) {
                ingest.head.flushed(FlushUnit::Hour(*hour), cursor);
            }
            ingest.quarantine.release(*hour);
        }
        Ok(())
    }
}

/// An hour in which the head has nothing: all that the journal has of it is in its bucket.
async fn move_cursor(ingest: &Ingest, hour: BucketStart, cursor: u64) -> Result<()> {
    // What no epoch waits for is covered by the cursor that the hour has.
    if !ingest.head.is_waited_for(FlushUnit::Hour(hour)) {
        return Ok(());
    }
    let mark = ingest.head.watermark();
    let hour = Bucket::hour(hour);
    let mut writer = BatchWriter::new(ingest, Mode::Put);
    writer.put(key::flush_cursor(hour), flush_cursor::encode(cursor));
    writer.put(key::journal_watermark(), watermark::encode(mark));
    writer.write_out_durably().await
}

#[cfg(test)]
mod tests;
