//! The order of writes: sequence numbers, journal epochs, and which hours they touched.
//!
//! Holds always:
//! - Whoever holds this lock appends; sequence numbers are given out in append order, never reused.
//! - Hours around now may always be opened: there are few of them. Hours of long ago share a budget
//!   of their own, so that a backfill never takes the room of what is written live.
//! - An epoch can be drained when every hour it touched has been flushed up to the last sequence
//!   number with which the epoch touched it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use icecore_model::{BucketSize, BucketStart, HOUR_MS};
use icecore_records::epoch_summary::{EpochSummary, FlushUnit};
use icecore_records::watermark::Watermark;

use super::cursor::Touched;
use super::freeze::Freeze;
use super::registry::SeriesRef;

/// How far from now, into past and future, hours are written live. What senders kept through an
/// outage of some hours is live, too.
const LIVE_MS: i64 = 12 * HOUR_MS;

/// The hours around now, as start minutes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LiveHours {
    first: BucketStart,
    last: BucketStart,
}

impl LiveHours {
    pub(crate) fn at(now_ms: i64) -> Self {
        // Where the clock is out of all range nothing can be told apart: then every hour is live.
        let hour = |ms: i64| BucketSize::HOUR.bucket_of(ms);
        Self {
            first: hour(now_ms.saturating_sub(LIVE_MS)).unwrap_or(BucketStart(0)),
            last: hour(now_ms.saturating_add(LIVE_MS)).unwrap_or(BucketStart(u32::MAX)),
        }
    }

    pub(crate) fn range(self) -> RangeInclusive<BucketStart> {
        self.first..=self.last
    }

    pub(crate) fn contains(self, hour: BucketStart) -> bool {
        self.range().contains(&hour)
    }
}

/// Why a request is not appended now.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NotAdmitted {
    /// It would open hours of long ago, and as many are open as may be.
    TooManyHours,
    /// Hours of it became too old while it was decoded.
    TooOld,
}

pub(crate) struct Sequencer {
    pub(crate) next_seq: u64,
    pub(crate) epoch: u32,
    /// When the current epoch began, by the machine's clock: epochs change at full hours.
    pub(crate) epoch_started_ms: i64,
    /// Hours with data in the head that is not being flushed.
    pub(crate) open_hours: BTreeMap<BucketStart, OpenHour>,
    /// Hours that are being flushed: the head has them until their flush is done.
    pub(super) frozen_hours: BTreeSet<BucketStart>,
    /// Metadata that no flush has written, likewise.
    pub(crate) open_catalog: Option<OpenHour>,
    pub(crate) epochs: BTreeMap<u32, Epoch>,
    /// The freeze that is under way: appends freeze what they are about to change.
    pub(super) freeze: Option<Arc<Freeze>>,
    /// How many freezes there were.
    pub(super) freezes: u64,
    /// References of forgotten series, given out again first.
    pub(crate) free_refs: Vec<SeriesRef>,
    pub(crate) next_ref: u32,
}

/// What flush decisions need to know about an hour, or the catalog.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OpenHour {
    /// The first sequence number since it was frozen last: what came before is in its bucket, or
    /// frozen.
    pub(crate) first_seq: u64,
    pub(crate) samples: u64,
    /// By monotonic time.
    pub(crate) last_write_ms: i64,
}

/// A stretch of the journal.
#[derive(Clone, Debug, Default)]
pub(crate) struct Epoch {
    pub(crate) first_seq: u64,
    pub(crate) last_seq: u64,
    /// By monotonic time.
    pub(crate) started_ms: i64,
    /// The last sequence number with which each unflushed unit was touched.
    pub(crate) units: BTreeMap<FlushUnit, u64>,
    /// Something in it could not be read: it is never drained.
    pub(crate) unreadable: bool,
    /// The compactor has been told to drop it.
    draining: bool,
    /// The store has a summary of it.
    pub(crate) summarized: bool,
}

impl Sequencer {
    pub(crate) fn new(next_seq: u64, epoch: u32, now_ms: i64) -> Self {
        Self {
            next_seq,
            epoch,
            epoch_started_ms: now_ms,
            open_hours: BTreeMap::new(),
            frozen_hours: BTreeSet::new(),
            open_catalog: None,
            epochs: BTreeMap::new(),
            freeze: None,
            freezes: 0,
            free_refs: Vec::new(),
            next_ref: 0,
        }
    }

    /// Open hours that are not around now, oldest first.
    pub(crate) fn distant_hours(&self, now_ms: i64) -> impl Iterator<Item = BucketStart> {
        let live = LiveHours::at(now_ms);
        let hours = self.open_hours.keys().copied();
        hours.filter(move |hour| !live.contains(*hour))
    }

    /// Their number, without walking over them: every request asks for it.
    pub(crate) fn distant_count(&self, now_ms: i64) -> usize {
        let live = self.open_hours.range(LiveHours::at(now_ms).range()).count();
        self.open_hours.len() - live
    }

    /// Whether a request may touch these hours now. It may open as many as it likes while there is
    /// room for one more: if it had to wait for room for all of them, others would take that over
    /// and over.
    pub(crate) fn admit(
        &self,
        mut hours: impl Iterator<Item = BucketStart>,
        open_max: usize,
        now_ms: i64,
    ) -> Result<(), NotAdmitted> {
        let live = LiveHours::at(now_ms);
        let opens =
            |hour: BucketStart| !live.contains(hour) && !self.open_hours.contains_key(&hour);
        if hours.any(opens) && self.distant_count(now_ms) >= open_max {
            Err(NotAdmitted::TooManyHours)
        } else {
            Ok(())
        }
    }

    /// Begins a new epoch, unless nothing was written in this one.
    pub(crate) fn roll_epoch(&mut self, now_ms: i64) {
        self.epoch_started_ms = now_ms;
        if self.epochs.contains_key(&self.epoch) {
            self.epoch += 1;
        }
    }

    /// Gives out the next sequence number to a request.
    pub(crate) fn advance(&mut self, touched: &Touched, elapsed_ms: i64) -> u64 {
        let seq = self.next_seq;
        self.next_seq += 1;
        let epoch = self.epoch;
        self.note(epoch, seq, touched, elapsed_ms);
        seq
    }

    /// Records what `seq` of an epoch touched.
    pub(crate) fn note(&mut self, epoch: u32, seq: u64, touched: &Touched, elapsed_ms: i64) {
        let epoch = self.epochs.entry(epoch).or_insert_with(|| Epoch {
            first_seq: seq,
            started_ms: elapsed_ms,
            ..Epoch::default()
        });
        epoch.last_seq = seq;
        let fresh = OpenHour {
            first_seq: seq,
            ..OpenHour::default()
        };
        for (unit, samples) in touched.units() {
            epoch.units.insert(unit, seq);
            let open = match unit {
                FlushUnit::Hour(hour) => self.open_hours.entry(hour).or_insert(fresh),
                FlushUnit::Catalog => self.open_catalog.get_or_insert(fresh),
                FlushUnit::Totals | FlushUnit::Events => continue,
            };
            open.samples += samples;
            open.last_write_ms = elapsed_ms;
        }
    }

    /// A unit is in the store up to `cursor`: epochs no longer wait for it.
    pub(crate) fn flushed(&mut self, unit: FlushUnit, cursor: u64) {
        for epoch in self.epochs.values_mut() {
            if epoch.units.get(&unit).is_some_and(|last| *last <= cursor) {
                epoch.units.remove(&unit);
            }
        }
    }

    /// The last sequence number up to which nothing of these hours is open.
    pub(crate) fn closed_through(&self, hours: Range<BucketStart>) -> u64 {
        let open = self.open_hours.range(hours);
        let before = open.map(|(_, open)| open.first_seq - 1).min();
        before.unwrap_or(self.next_seq - 1)
    }

    /// Whether an epoch waits for a unit to be flushed.
    pub(crate) fn is_waited_for(&self, unit: FlushUnit) -> bool {
        self.epochs
            .values()
            .any(|epoch| epoch.units.contains_key(&unit))
    }

    /// Epochs whose every entry is durable and lies in buckets, oldest first: those not yet handed
    /// to the compactor, and those that it has not dropped yet.
    pub(crate) fn drainable(&self, durable_below: u64) -> (Vec<u32>, Vec<u32>) {
        let done = |(number, epoch): &(&u32, &Epoch)| {
            **number != self.epoch
                && epoch.units.is_empty()
                && epoch.last_seq < durable_below
                && !epoch.unreadable
        };
        let done = self.epochs.iter().filter(done);
        let (waiting, fresh): (Vec<_>, Vec<_>) = done.partition(|(_, epoch)| epoch.draining);
        let numbers = |epochs: Vec<(&u32, &Epoch)>| epochs.into_iter().map(|(n, _)| *n).collect();
        (numbers(fresh), numbers(waiting))
    }

    /// Summaries of the epochs to which nothing more comes, which are durable, and which have none
    /// yet.
    pub(crate) fn unsummarized(&self, durable_below: u64) -> Vec<(u32, EpochSummary)> {
        let finished = |(number, epoch): &(&u32, &Epoch)| {
            **number != self.epoch
                && !epoch.summarized
                && !epoch.unreadable
                && epoch.last_seq < durable_below
        };
        let finished = self.epochs.iter().filter(finished);
        let summary = |epoch: &Epoch| EpochSummary {
            first_seq: epoch.first_seq,
            last_seq: epoch.last_seq,
            units: epoch.units.clone(),
        };
        finished
            .map(|(number, epoch)| (*number, summary(epoch)))
            .collect()
    }

    /// Epochs of which something could not be read.
    pub(crate) fn unreadable_epochs(&self) -> Vec<u32> {
        let unreadable = self.epochs.iter().filter(|(_, epoch)| epoch.unreadable);
        unreadable.map(|(number, _)| *number).collect()
    }

    /// The store has a summary of an epoch.
    pub(crate) fn summarized(&mut self, epoch: u32) {
        if let Some(epoch) = self.epochs.get_mut(&epoch) {
            epoch.summarized = true;
        }
    }

    /// An epoch that was not read, because buckets hold all of it.
    pub(crate) fn passed_over(&mut self, number: u32, summary: &EpochSummary, elapsed_ms: i64) {
        let epoch = Epoch {
            first_seq: summary.first_seq,
            last_seq: summary.last_seq,
            started_ms: elapsed_ms,
            summarized: true,
            ..Epoch::default()
        };
        self.epochs.insert(number, epoch);
    }

    /// The compactor has been told to drop these epochs.
    pub(crate) fn draining(&mut self, epochs: &[u32]) {
        for epoch in epochs {
            if let Some(epoch) = self.epochs.get_mut(epoch) {
                epoch.draining = true;
            }
        }
    }

    /// What keeps epochs alive that began before `before_ms`.
    pub(crate) fn units_of_old_epochs(&self, before_ms: i64) -> impl Iterator<Item = FlushUnit> {
        let old = self
            .epochs
            .values()
            .filter(move |e| e.started_ms < before_ms && !e.unreadable);
        old.flat_map(|e| e.units.keys().copied())
    }

    /// What a later process must not give out again.
    pub(crate) fn watermark(&self) -> Watermark {
        Watermark {
            next_seq: self.next_seq,
            next_epoch: self.epoch + 1,
        }
    }

    /// The first sequence number that a replay would still see.
    pub(crate) fn oldest_seq(&self) -> u64 {
        self.epochs
            .values()
            .map(|e| e.first_seq)
            .min()
            .unwrap_or(self.next_seq)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use icecore_model::MINUTE_MS;

    const NOW: u32 = 60 * 1_000_000;
    const NOW_MS: i64 = NOW as i64 * MINUTE_MS;

    fn open(hours: &[u32]) -> Sequencer {
        let mut sequencer = Sequencer::new(1, 1, NOW_MS);
        let mut touched = Touched {
            catalog: 1,
            totals: 1,
            ..Touched::default()
        };
        for hour in hours {
            touched.hours.add(BucketStart(*hour), 1);
        }
        sequencer.advance(&touched, NOW_MS);
        sequencer
    }

    #[test]
    fn hours_of_now_are_always_admitted_and_others_share_a_budget() {
        let sequencer = open(&[60, 120, NOW - 60, NOW]);
        assert_eq!(sequencer.distant_count(NOW_MS), 2);
        let distant: Vec<BucketStart> = sequencer.distant_hours(NOW_MS).collect();
        assert_eq!(distant, [BucketStart(60), BucketStart(120)]);
        let admitted = |hours: &[u32], max| {
            let hours = hours.iter().map(|hour| BucketStart(*hour));
            sequencer.admit(hours, max, NOW_MS).is_ok()
        };
        assert!(admitted(&[NOW + 60, NOW - 600], 2), "around now");
        assert!(admitted(&[60, 120, NOW], 2), "open already");
        assert!(!admitted(&[180], 2));
        assert!(!admitted(&[NOW, 180], 2));
        let many: Vec<u32> = (3..1000).map(|i| i * 60).collect();
        assert!(admitted(&many, 3), "room for one is room for a request");
        let far_ahead = NOW + 60 * 24;
        assert!(!admitted(&[far_ahead], 2), "the far future is not now");
    }

    #[test]
    fn a_clock_out_of_range_lets_everything_in() {
        let sequencer = open(&[60, 120]);
        assert_eq!(sequencer.distant_count(i64::MIN), 0);
        assert!(
            sequencer
                .admit([BucketStart(180)].into_iter(), 0, i64::MIN)
                .is_ok()
        );
    }
}
