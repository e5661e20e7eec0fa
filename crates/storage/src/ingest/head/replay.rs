//! The way of journal blocks back into the head, in the order in which they were written.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use bytes::Bytes;
use hashbrown::HashMap;
use icecore_model::{BucketStart, CatalogChange, Exemplar, Histogram, Metadata, push_raw_label};
use icecore_records::delta_totals::{DeltaTotal, SeriesKey, TotalValue};
use icecore_records::epoch_summary::FlushUnit;

use super::Head;
use super::append::AppendTime;
use super::cursor::{HourRange, PageCursor, Touched};
use super::metadata::FamilyMetadata;
use super::registry::{LabelHash, SeriesRef};
use super::totals::unix_seconds;

/// Stands for a series that the journal refers to and has not defined.
pub(crate) const UNDEFINED: u32 = u32::MAX;

/// The content of one journal block. References are those of the journal until they are translated,
/// then those of this process, or [`UNDEFINED`].
#[derive(Default)]
pub(crate) struct ReplayedBlock {
    /// Floats as columns of equal length.
    pub(crate) refs: Vec<u32>,
    pub(crate) timestamps: Vec<i64>,
    pub(crate) values: Vec<f64>,
    pub(crate) histograms: Vec<(u32, i64, Histogram)>,
    /// Reference, timestamp of the sample, start timestamp.
    pub(crate) starts: Vec<(u32, i64, i64)>,
    pub(crate) exemplars: Vec<(u32, Exemplar)>,
    pub(crate) metadata: Vec<(String, Metadata)>,
    pub(crate) catalog: Vec<CatalogChange>,
    /// How many of the last floats and histograms are running totals.
    pub(crate) totals: (usize, usize),
    /// Empty where the request had none. They are handed on, the head has no use for them.
    pub(crate) events: Bytes,
}

/// Series that a journal block defines, ready to be looked up.
#[derive(Default)]
pub(crate) struct ReplayedSeries {
    /// Number in the journal, hash of the canonical label bytes, and where these are in `bytes`.
    pub(super) entries: Vec<(u32, LabelHash, Range<usize>)>,
    pub(super) bytes: Vec<u8>,
}

impl ReplayedSeries {
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Adds a series. `pairs` are sorted by name, unique and without empty values.
    pub(crate) fn push(&mut self, head: &Head, number: u32, pairs: &[(&str, &str)]) {
        let first = self.bytes.len();
        for (name, value) in pairs {
            push_raw_label(&mut self.bytes, name, value);
        }
        let hash = head.registry.hash(&self.bytes[first..]);
        self.entries.push((number, hash, first..self.bytes.len()));
    }
}

/// Start timestamps by reference and timestamp.
type Starts = HashMap<(u32, i64), i64>;

/// Which hours are replayed. Samples come hour by hour nearly always, so most of them cost a
/// comparison.
struct WantedHour<'c> {
    covered: &'c dyn Fn(FlushUnit) -> bool,
    hour: HourRange,
    wanted: bool,
}

impl WantedHour<'_> {
    /// The hour of a timestamp, unless buckets hold it already.
    #[inline]
    fn of(&mut self, timestamp_ms: i64) -> Option<BucketStart> {
        if !self.hour.contains(timestamp_ms) {
            let hour = HourRange::of(timestamp_ms);
            self.wanted = hour.is_some_and(|hour| !(self.covered)(FlushUnit::Hour(hour.hour)));
            self.hour = hour.unwrap_or_default();
        }
        self.wanted.then_some(self.hour.hour)
    }
}

impl Head {
    /// Applies what `covered` does not say to be in buckets already. Returns the number of samples
    /// applied.
    pub(crate) fn replay(
        &self,
        epoch: u32,
        seq: u64,
        mut block: ReplayedBlock,
        covered: &dyn Fn(FlushUnit) -> bool,
        time: AppendTime,
    ) -> u64 {
        let mut touched = Touched::default();
        let starts: Starts = std::mem::take(&mut block.starts)
            .into_iter()
            .map(|(series, timestamp, start)| ((series, timestamp), start))
            .collect();
        let totals = totals_of(&block);
        let mut wanted = WantedHour {
            covered,
            hour: HourRange::default(),
            wanted: false,
        };
        let mut heap = self.replay_floats(&block, &starts, &mut wanted, &mut touched);
        heap += self.replay_histograms(block.histograms, &starts, &mut wanted, &mut touched);
        heap += self.replay_exemplars(block.exemplars, &mut wanted, &mut touched);
        self.sample_bytes.fetch_add(heap, Relaxed);
        let samples = touched.hours.samples();
        let changes = block.metadata.len() + block.catalog.len();
        if changes > 0 && !covered(FlushUnit::Catalog) {
            touched.catalog = changes as u64;
            self.catalog.write().append(&block.catalog, seq);
            if !block.metadata.is_empty() {
                self.catalog.write().metadata_changed();
                let said = block.metadata.into_iter().map(|(family, metadata)| {
                    // Not long ago: the catalog does not have it yet.
                    let seen_ms = time.now_ms;
                    (family, FamilyMetadata { metadata, seen_ms })
                });
                self.metadata.write().extend(said);
            }
        }
        if !totals.is_empty() && !covered(FlushUnit::Totals) {
            touched.totals = totals.len() as u64;
            self.replay_totals(totals, &starts, time.guarded_ms);
        }
        touched.events = !block.events.is_empty() && !covered(FlushUnit::Events);
        self.sequencer
            .lock()
            .note(epoch, seq, &touched, time.elapsed_ms);
        samples
    }

    fn replay_floats(
        &self,
        block: &ReplayedBlock,
        starts: &Starts,
        wanted: &mut WantedHour<'_>,
        touched: &mut Touched,
    ) -> isize {
        let mut pages = PageCursor::new(self, None);
        let (mut heap, mut hour_before, mut in_hour) = (0, BucketStart(0), 0);
        let columns = block.refs.iter().zip(&block.timestamps).zip(&block.values);
        for ((series, timestamp), value) in columns {
            if *series == UNDEFINED {
                continue;
            }
            let Some(hour) = wanted.of(*timestamp) else {
                continue;
            };
            if hour != hour_before {
                touched.hours.add(hour_before, in_hour);
                (hour_before, in_hour) = (hour, 0);
            }
            in_hour += 1;
            let slot = pages.slot(*series);
            heap += slot.append(hour, *timestamp, *value);
            if !starts.is_empty() || slot.has_starts() {
                let start = starts.get(&(*series, *timestamp)).copied();
                heap += slot.append_start(hour, *timestamp, start.unwrap_or(0));
            }
        }
        touched.hours.add(hour_before, in_hour);
        heap
    }

    fn replay_histograms(
        &self,
        histograms: Vec<(u32, i64, Histogram)>,
        starts: &Starts,
        wanted: &mut WantedHour<'_>,
        touched: &mut Touched,
    ) -> isize {
        let (mut pages, mut heap) = (PageCursor::new(self, None), 0);
        for (series, timestamp, histogram) in histograms {
            let Some(hour) = wanted.of(timestamp).filter(|_| series != UNDEFINED) else {
                continue;
            };
            let slot = pages.slot(series);
            heap += slot.append_histogram(hour, timestamp, Arc::new(histogram));
            let start = starts.get(&(series, timestamp));
            heap += slot.append_start(hour, timestamp, start.copied().unwrap_or(0));
            touched.hours.add(hour, 1);
        }
        heap
    }

    fn replay_exemplars(
        &self,
        exemplars: Vec<(u32, Exemplar)>,
        wanted: &mut WantedHour<'_>,
        touched: &mut Touched,
    ) -> isize {
        let (mut pages, mut heap) = (PageCursor::new(self, None), 0);
        for (series, exemplar) in exemplars {
            let hour = wanted.of(exemplar.timestamp_ms);
            let Some(hour) = hour.filter(|_| series != UNDEFINED) else {
                continue;
            };
            // What was accepted once is not refused by a limit that has changed since.
            heap += pages
                .slot(series)
                .append_exemplar(hour, exemplar, usize::MAX)
                .unwrap_or(0);
            touched.hours.add(hour, 1);
        }
        heap
    }

    /// Sets totals to what they were after these points; nothing is added.
    fn replay_totals(
        &self,
        replayed: Vec<(u32, i64, TotalValue)>,
        starts: &Starts,
        guarded_ms: i64,
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
                written_s: unix_seconds(guarded_ms),
                value,
            });
        }
    }
}

/// The running totals of a block, by reference and timestamp, in the order of appends.
fn totals_of(block: &ReplayedBlock) -> Vec<(u32, i64, TotalValue)> {
    let (floats, histograms) = block.totals;
    let first_float = block.refs.len().saturating_sub(floats);
    let first_histogram = block.histograms.len().saturating_sub(histograms);
    let floats = (first_float..block.refs.len()).map(|at| {
        let value = TotalValue::Float(block.values[at]);
        (block.refs[at], block.timestamps[at], value)
    });
    let histograms =
        block.histograms[first_histogram..]
            .iter()
            .map(|(series, timestamp, histogram)| {
                let value = TotalValue::Histogram(Box::new(histogram.clone()));
                (*series, *timestamp, value)
            });
    let totals = floats.chain(histograms);
    totals.filter(|(series, ..)| *series != UNDEFINED).collect()
}
