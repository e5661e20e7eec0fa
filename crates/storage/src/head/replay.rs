//! The way of journal blocks back into the head, in the order in which they were written.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use icecore_model::{Exemplar, Histogram, Metadata};
use icecore_records::delta_totals::{DeltaTotal, SeriesKey, TotalValue};

use super::Head;
use super::cursor::{HourCounts, HourRange, PageCursor};
use super::registry::SeriesRef;
use super::sequencer::{CATALOG_HOUR, TOTALS_HOUR};
use super::totals::unix_seconds;

/// The content of one journal block, with this process' references.
#[derive(Default)]
pub(crate) struct ReplayedBlock {
    pub(crate) floats: Vec<(u32, i64, f64)>,
    pub(crate) histograms: Vec<(u32, i64, Histogram)>,
    /// Start timestamps by reference and timestamp.
    pub(crate) starts: HashMap<(u32, i64), i64>,
    pub(crate) exemplars: Vec<(u32, Exemplar)>,
    pub(crate) metadata: Vec<(String, Metadata)>,
    /// Which of the samples are running totals, by reference and timestamp, in the order of appends.
    pub(crate) totals: Vec<(u32, i64, TotalValue)>,
}

impl Head {
    /// Applies what `covered` does not say to be in buckets already. Returns the number of samples
    /// applied.
    pub(crate) fn replay(
        &self,
        epoch: u32,
        seq: u64,
        mut block: ReplayedBlock,
        covered: &dyn Fn(u32) -> bool,
        now_ms: i64,
    ) -> u64 {
        let mut touched = HourCounts::default();
        let mut pages = PageCursor::new(self);
        let mut heap = 0;
        let wanted = |timestamp: i64| {
            let hour = HourRange::of(timestamp)?.minutes;
            (!covered(hour)).then_some(hour)
        };
        for (series, timestamp, value) in std::mem::take(&mut block.floats) {
            let Some(hour) = wanted(timestamp) else {
                continue;
            };
            let slot = pages.slot(series);
            heap += slot.append(hour, timestamp, value);
            let start = block.starts.get(&(series, timestamp));
            heap += slot.append_start(hour, timestamp, start.copied().unwrap_or(0));
            touched.add(hour, 1);
        }
        for (series, timestamp, histogram) in block.histograms {
            let Some(hour) = wanted(timestamp) else {
                continue;
            };
            let slot = pages.slot(series);
            heap += slot.append_histogram(hour, timestamp, Arc::new(histogram));
            let start = block.starts.get(&(series, timestamp));
            heap += slot.append_start(hour, timestamp, start.copied().unwrap_or(0));
            touched.add(hour, 1);
        }
        for (series, exemplar) in block.exemplars {
            let Some(hour) = wanted(exemplar.timestamp_ms) else {
                continue;
            };
            // What was accepted once is not refused by a limit that has changed since.
            heap += pages
                .slot(series)
                .append_exemplar(hour, exemplar, usize::MAX)
                .unwrap_or(0);
            touched.add(hour, 1);
        }
        drop(pages);
        let totals = std::mem::take(&mut block.totals);
        self.sample_bytes.fetch_add(heap, Relaxed);
        if !block.metadata.is_empty() && !covered(CATALOG_HOUR) {
            touched.add(CATALOG_HOUR, block.metadata.len() as u64);
            self.metadata.write().extend(block.metadata);
        }
        let samples = touched.counts.iter().map(|(_, n)| n).sum();
        if !totals.is_empty() && !covered(TOTALS_HOUR) {
            touched.add(TOTALS_HOUR, totals.len() as u64);
            self.replay_totals(totals, &block.starts, now_ms);
        }
        self.sequencer
            .lock()
            .note(epoch, seq, &touched.counts, now_ms);
        samples
    }

    /// Sets totals to what they were after these points; nothing is added.
    fn replay_totals(
        &self,
        replayed: Vec<(u32, i64, TotalValue)>,
        starts: &HashMap<(u32, i64), i64>,
        now_ms: i64,
    ) {
        let index = self.index();
        let (mut pairs, mut bytes) = (Vec::new(), Vec::new());
        let mut totals = self.totals.lock();
        for (series, end_ms, value) in replayed {
            index.sorted_pairs(SeriesRef(series), &mut pairs);
            totals.set(DeltaTotal {
                series: SeriesKey::of(pairs.iter().copied(), &mut bytes),
                end_ms,
                start_ms: starts.get(&(series, end_ms)).copied().unwrap_or(0),
                written_s: unix_seconds(now_ms),
                value,
            });
        }
    }
}
