//! The delta points of a request become samples behind its others, with their running totals as
//! values.

use std::ops::Range;

use icecore_records::delta_totals::{DeltaTotal, SeriesKey, TotalValue};

use super::Head;
use super::batch::{BatchBuffers, Column, TOTAL_BYTES_MAX, journal_bytes};
use super::registry::SeriesRef;
use super::totals::{DeltaCounts, NotAdded, Point, unix_seconds};

impl Head {
    /// Turns the delta points of a request into samples behind its others. The caller holds the
    /// sequencer.
    pub(super) fn accumulate(&self, batch: &mut BatchBuffers, guarded_ms: i64) -> DeltaCounts {
        let mut accumulated = DeltaCounts::default();
        if batch.deltas.is_empty() && batch.delta_histograms.is_empty() {
            return accumulated;
        }
        let now_s = unix_seconds(guarded_ms);
        let mut totals = self.totals.lock();
        let index = self.index();
        let (mut pairs, mut bytes) = (Vec::new(), Vec::new());
        let mut key_of = |series: u32| {
            index.sorted_pairs(SeriesRef(series), &mut pairs);
            SeriesKey::of(pairs.iter().copied(), &mut bytes)
        };
        let (floats, histograms) = (batch.refs.len(), batch.histograms.len());
        let deltas = std::mem::take(&mut batch.deltas);
        let mut told = None;
        for (at, delta) in deltas.iter().enumerate() {
            let point = Point {
                series: delta.series,
                end_ms: delta.timestamp_ms,
                start_ms: delta.start_ms,
                change: TotalValue::Float(delta.value),
                now_s,
            };
            match totals.add(point, || key_of(delta.series), &mut accumulated) {
                Ok((start_ms, TotalValue::Float(total))) => {
                    if start_ms != 0 {
                        batch.starts.push((batch.refs.len() as u32, start_ms));
                    }
                    batch.refs.push(delta.series);
                    batch.timestamps.push(delta.timestamp_ms);
                    batch.values.push(total);
                }
                Ok((_, TotalValue::Histogram(_))) => {}
                Err(reason) => not_added(
                    batch,
                    (Column::Deltas, at),
                    reason,
                    &mut told,
                    &mut accumulated,
                ),
            }
        }
        batch.deltas = deltas;
        batch.deltas.clear();
        let (mut told, mut journalled) = (None, 0);
        for (at, mut delta) in std::mem::take(&mut batch.delta_histograms)
            .into_iter()
            .enumerate()
        {
            if journalled > TOTAL_BYTES_MAX {
                // Before it is added: whoever sends it again finds the others to be duplicates.
                let reason = "the running totals of one request take more than the journal holds in a block: send the rest again";
                batch.reject_entry(Column::DeltaHistograms, at, reason, true);
                continue;
            }
            let point = Point {
                series: delta.series,
                end_ms: delta.timestamp_ms,
                start_ms: delta.start_ms,
                change: TotalValue::Histogram(Box::new(delta.histogram)),
                now_s,
            };
            match totals.add(point, || key_of(delta.series), &mut accumulated) {
                Ok((start_ms, TotalValue::Histogram(total))) => {
                    journalled += journal_bytes(&total);
                    delta.histogram = *total;
                    delta.start_ms = start_ms;
                    batch.histograms.push(delta);
                }
                Ok((_, TotalValue::Float(_))) => {}
                Err(reason) => {
                    let entry = (Column::DeltaHistograms, at);
                    not_added(batch, entry, reason, &mut told, &mut accumulated);
                }
            }
        }
        batch.total_floats = batch.refs.len() - floats;
        batch.total_histograms = batch.histograms.len() - histograms;
        accumulated
    }

    /// Copies parts of the totals that have changed, and says up to which sequence number they are.
    pub(crate) fn take_changed_totals(
        &self,
        parts: Range<u16>,
        now_s: u32,
    ) -> (u64, Vec<(u16, Vec<DeltaTotal>)>) {
        let sequencer = self.sequencer.lock();
        let taken = self.totals.lock().take_changed(parts, now_s);
        (sequencer.next_seq - 1, taken)
    }
}

/// Counts a point that was not added; parts of one point count once.
fn not_added(
    batch: &mut BatchBuffers,
    (column, at): (Column, usize),
    reason: NotAdded,
    told: &mut Option<u32>,
    accumulated: &mut DeltaCounts,
) {
    match reason {
        NotAdded::Duplicate => {
            let point = batch.point_of(column, at);
            if point.is_none() || point != *told {
                accumulated.duplicates += 1;
            }
            *told = point;
        }
        NotAdded::Refused(reason, retryable) => {
            batch.reject_entry(column, at, reason, retryable);
        }
    }
}
