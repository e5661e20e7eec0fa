//! What others ask about the order of writes: each question takes the sequencer once.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use icecore_model::BucketStart;
use icecore_records::epoch_summary::{EpochSummary, FlushUnit};
use icecore_records::watermark::Watermark;

use super::Head;
use super::cursor::Touched;
use super::sequencer::OpenHour;

/// The journal at one moment, as far as the head knows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JournalState {
    pub(crate) next_seq: u64,
    pub(crate) epochs: usize,
    /// Epochs of which something could not be read.
    pub(crate) unreadable_epochs: usize,
    /// When the oldest epoch began, by monotonic time.
    pub(crate) oldest_epoch_ms: Option<i64>,
}

/// What is open and what keeps old epochs alive, as flush decisions need it.
pub(crate) struct OpenUnits {
    pub(crate) hours: BTreeMap<BucketStart, OpenHour>,
    pub(crate) catalog: Option<OpenHour>,
    /// Units of epochs that should have been drained by now.
    pub(crate) overdue: Vec<FlushUnit>,
    /// Hours that are not around now, oldest first.
    pub(crate) distant: Vec<BucketStart>,
}

impl Head {
    /// The last sequence number that was given out.
    pub(crate) fn last_seq(&self) -> u64 {
        self.sequencer.lock().next_seq - 1
    }

    /// Where a process that has recovered the journal goes on.
    pub(crate) fn continue_at(&self, next_seq: u64, epoch: u32) {
        let mut sequencer = self.sequencer.lock();
        sequencer.next_seq = next_seq;
        sequencer.epoch = epoch;
    }

    /// What a later process must not give out again.
    pub(crate) fn watermark(&self) -> Watermark {
        self.sequencer.lock().watermark()
    }

    /// The same, with the first sequence number that a replay would still see.
    pub(crate) fn oldest_seq_and_watermark(&self) -> (u64, Watermark) {
        let sequencer = self.sequencer.lock();
        (sequencer.oldest_seq(), sequencer.watermark())
    }

    pub(crate) fn journal_state(&self) -> JournalState {
        let sequencer = self.sequencer.lock();
        let epochs = &sequencer.epochs;
        JournalState {
            next_seq: sequencer.next_seq,
            epochs: epochs.len(),
            unreadable_epochs: epochs.values().filter(|epoch| epoch.unreadable).count(),
            oldest_epoch_ms: epochs.values().map(|epoch| epoch.started_ms).min(),
        }
    }

    /// Hours with data in the head that is not being flushed.
    pub(crate) fn open_hours(&self) -> BTreeSet<BucketStart> {
        self.sequencer.lock().open_hours.keys().copied().collect()
    }

    /// Hours with data in the head, also those that are being flushed.
    pub(crate) fn held_hours(&self) -> BTreeSet<BucketStart> {
        let sequencer = self.sequencer.lock();
        let open = sequencer.open_hours.keys();
        open.chain(&sequencer.frozen_hours).copied().collect()
    }

    /// How many samples the open ones of these hours have.
    pub(crate) fn open_samples(&self, hours: impl Iterator<Item = BucketStart>) -> u64 {
        let sequencer = self.sequencer.lock();
        let open = hours.filter_map(|hour| sequencer.open_hours.get(&hour));
        open.map(|open| open.samples).sum()
    }

    /// The open hours that hold most: as few as make up half of all samples.
    pub(crate) fn largest_hours(&self) -> Vec<BucketStart> {
        let mut hours: Vec<(u64, BucketStart)> = {
            let sequencer = self.sequencer.lock();
            let open = sequencer.open_hours.iter();
            open.map(|(hour, open)| (open.samples, *hour)).collect()
        };
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

    /// `overdue` is of epochs that began before `epochs_before_ms`, by monotonic time.
    pub(crate) fn open_units(&self, now_ms: i64, epochs_before_ms: i64) -> OpenUnits {
        let sequencer = self.sequencer.lock();
        OpenUnits {
            hours: sequencer.open_hours.clone(),
            catalog: sequencer.open_catalog,
            overdue: sequencer.units_of_old_epochs(epochs_before_ms).collect(),
            distant: sequencer.distant_hours(now_ms).collect(),
        }
    }

    /// Metadata is about to be written: from when on it was open, and the last sequence number
    /// whose metadata is in memory. `None` when all of it is in the store.
    pub(crate) fn take_open_catalog(&self) -> Option<(OpenHour, u64)> {
        let mut sequencer = self.sequencer.lock();
        let open = sequencer.open_catalog.take()?;
        Some((open, sequencer.next_seq - 1))
    }

    /// Metadata could not be written.
    pub(crate) fn reopen_catalog(&self, open: OpenHour) {
        self.sequencer.lock().open_catalog.get_or_insert(open);
    }

    /// A unit is in the store up to `cursor`: epochs no longer wait for it.
    pub(crate) fn flushed(&self, unit: FlushUnit, cursor: u64) {
        let mut sequencer = self.sequencer.lock();
        sequencer.flushed(unit, cursor);
        if let FlushUnit::Hour(hour) = unit {
            sequencer.frozen_hours.remove(&hour);
        }
    }

    /// Whether an epoch waits for a unit to be flushed.
    pub(crate) fn is_waited_for(&self, unit: FlushUnit) -> bool {
        self.sequencer.lock().is_waited_for(unit)
    }

    /// The last sequence numbers up to which nothing of each range of hours is open, and the last
    /// one that was given out.
    pub(crate) fn closed_through(&self, ranges: &[Range<BucketStart>]) -> (Vec<u64>, u64) {
        let sequencer = self.sequencer.lock();
        let closed = ranges.iter();
        let closed = closed.map(|hours| sequencer.closed_through(hours.clone()));
        (closed.collect(), sequencer.next_seq - 1)
    }

    /// Gives a block of events its place in the order of writes, as a sequence number and an epoch.
    /// The head keeps nothing of it.
    pub(crate) fn append_events(&self, elapsed_ms: i64) -> (u64, u32) {
        let touched = Touched {
            events: true,
            ..Touched::default()
        };
        let mut sequencer = self.sequencer.lock();
        let epoch = sequencer.epoch;
        (sequencer.advance(&touched, elapsed_ms), epoch)
    }

    /// Begins a new epoch, if `is_due` says so of the begin of the present one. Returns its number.
    pub(crate) fn roll_epoch(&self, now_ms: i64, is_due: impl FnOnce(i64) -> bool) -> Option<u32> {
        let mut sequencer = self.sequencer.lock();
        let due = is_due(sequencer.epoch_started_ms);
        due.then(|| {
            sequencer.roll_epoch(now_ms);
            sequencer.epoch
        })
    }

    /// Epochs that can be drained, and those that are being drained.
    pub(crate) fn drainable(&self, durable_below: u64) -> (Vec<u32>, Vec<u32>) {
        self.sequencer.lock().drainable(durable_below)
    }

    /// The compactor has been told to drop these epochs.
    pub(crate) fn draining(&self, epochs: &[u32]) {
        self.sequencer.lock().draining(epochs);
    }

    pub(crate) fn drained(&self, epoch: u32) {
        self.sequencer.lock().epochs.remove(&epoch);
    }

    pub(crate) fn has_epoch(&self, epoch: u32) -> bool {
        self.sequencer.lock().epochs.contains_key(&epoch)
    }

    /// Summaries of the epochs that are finished, durable, and have none yet.
    pub(crate) fn unsummarized(&self, durable_below: u64) -> Vec<(u32, EpochSummary)> {
        self.sequencer.lock().unsummarized(durable_below)
    }

    /// The store has summaries of these epochs.
    pub(crate) fn summarized(&self, epochs: impl Iterator<Item = u32>) {
        let mut sequencer = self.sequencer.lock();
        epochs.for_each(|epoch| sequencer.summarized(epoch));
    }

    /// Epochs of which something could not be read.
    pub(crate) fn unreadable_epochs(&self) -> Vec<u32> {
        self.sequencer.lock().unreadable_epochs()
    }

    /// An epoch that was not read, because the store has all of it.
    pub(crate) fn skipped_epoch(&self, epoch: u32, summary: &EpochSummary, elapsed_ms: i64) {
        self.sequencer
            .lock()
            .passed_over(epoch, summary, elapsed_ms);
    }

    /// Something of an epoch could not be read: it is never drained.
    pub(crate) fn unreadable(&self, epoch: u32, seq: u64, elapsed_ms: i64) {
        let mut sequencer = self.sequencer.lock();
        sequencer.note(epoch, seq, &Touched::default(), elapsed_ms);
        if let Some(epoch) = sequencer.epochs.get_mut(&epoch) {
            epoch.unreadable = true;
        }
    }

    #[cfg(test)]
    pub(crate) fn touch(&self, hour: BucketStart, seq: u64, elapsed_ms: i64) {
        let mut sequencer = self.sequencer.lock();
        let epoch = sequencer.epoch;
        sequencer.note(epoch, seq, &Touched::hour(hour), elapsed_ms);
    }
}
