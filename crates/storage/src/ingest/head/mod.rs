//! The head: samples accepted but not yet flushed to SlateDB.
//!
//! ```text
//! request ─► batch (labels → references) ─► append, in sequence ─► slots, per series
//!                                               └► journal block, same sequence number
//! slots ─ snapshot ─► query          slots ─ freeze ─► flush ─ drop_frozen
//! ```
//!
//! Holds always:
//! - Requests are appended one at a time, under the sequencer, and the journal keeps that order:
//!   what wins here wins after a replay.
//! - Everything here is in the journal before its request is acknowledged.
//! - Readers copy what they need page by page and hold no lock while they decode.
//! - Series ids exist only in buckets; here a series is a reference.
//!
//! Elsewhere: byte layout (`records`), writing buckets (`crate::ingest::flush`), order on disk of
//! the journal (`crate::ingest::journal`).

mod accumulate;
mod append;
mod batch;
mod catalog;
mod cursor;
mod floor;
mod freeze;
mod index;
mod label_order;
mod label_table;
mod metadata;
mod order;
mod postings;
mod registry;
mod replay;
mod sequencer;
mod slot;
mod totals;

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use icecore_model::{BucketStart, Exemplar, Labels, Matcher};
use parking_lot::{Mutex, RwLock, RwLockReadGuard};
use roaring::RoaringBitmap;

pub(crate) use append::AppendTime;
pub use batch::WriteBatch;
pub(crate) use batch::{BatchBuffers, TOO_OLD};
pub(crate) use catalog::{CatalogChanges, PendingRecord};
pub(crate) use floor::TimeFloor;
pub(crate) use index::Index;
pub(crate) use label_order::LabelOrder;
use label_order::Ranked;
pub(crate) use label_table::SeriesLabels;
pub(crate) use metadata::{FamilyMetadata, MetadataMap, families_of};
pub(crate) use order::OpenUnits;
pub(crate) use registry::{PAGE_SERIES, SERIES_REFS_MAX, SeriesRef};
pub(crate) use replay::{ReplayedBlock, ReplayedSeries, UNDEFINED};
pub(crate) use sequencer::{LiveHours, NotAdmitted, Sequencer};
pub(crate) use slot::{HourPart, Slot, overlay};
pub(crate) use totals::{Totals, unix_seconds};

use crate::cache::{HeadChunk, PartCopy, ReadCache};
use crate::options::Limits;
use cursor::PageCursor;
use freeze::PageSlots;
use registry::Registry;

/// `PAGE_SERIES` neighbouring series.
type Page = Mutex<PageSlots>;

/// Samples not yet in buckets. See the module's header.
pub(crate) struct Head {
    pub(crate) limits: Limits,
    /// Memory of series from which on there are no new ones.
    series_bytes_max: usize,
    /// Held for reading by whoever carries references, for writing by [`Head::forget`].
    gate: RwLock<()>,
    registry: Registry,
    index: RwLock<Index>,
    pages: Box<[OnceLock<Page>]>,
    sequencer: Mutex<Sequencer>,
    /// Which hours take no samples.
    floor: RwLock<Arc<TimeFloor>>,
    pub(crate) metadata: RwLock<MetadataMap>,
    pub(crate) catalog: RwLock<CatalogChanges>,
    /// Running totals of deltas. Locked behind the sequencer.
    pub(crate) totals: Mutex<Totals>,
    /// Heap of samples, which flushes give back.
    sample_bytes: AtomicIsize,
    index_bytes: AtomicUsize,
    pub(crate) series: AtomicUsize,
    /// Hours that take no more samples, and whether there are any.
    closed_hours: RwLock<BTreeSet<BucketStart>>,
    has_closed_hours: AtomicBool,
}

/// Series of the head that a reader asked for, copied out, in label order.
#[derive(Default)]
pub(crate) struct HeadSelection {
    pub(crate) series: Vec<HeadSeries>,
    pub(crate) labels: SeriesLabels,
    /// What they have in the time range, each series' parts together and sorted by hour.
    pub(crate) parts: Vec<PartCopy>,
}

impl HeadSelection {
    /// Bytes held, about.
    pub(crate) fn heap_bytes(&self) -> usize {
        let parts: usize = self.parts.iter().map(PartCopy::held_bytes).sum();
        parts + size_of::<HeadSeries>() * self.series.len() + self.labels.heap_bytes()
    }
}

pub(crate) struct HeadSeries {
    pub(crate) series: SeriesRef,
    /// Its parts among all of them.
    pub(crate) parts: Range<u32>,
}

/// Bytes that a series takes beside its labels and samples: slot, identity, table entries.
const SERIES_BYTES: usize = size_of::<Slot>() + 24 + 8 + 4;

/// Bytes that a label set takes in the cache, about: ten labels.
const LABELS_BYTES: usize = 400;

impl Head {
    pub(crate) fn new(
        limits: Limits,
        series_bytes_max: usize,
        seed: u64,
        sequencer: Sequencer,
    ) -> Self {
        Self {
            totals: Mutex::new(Totals::new(&limits)),
            limits,
            series_bytes_max,
            gate: RwLock::new(()),
            registry: Registry::new(seed),
            index: RwLock::default(),
            pages: (0..SERIES_REFS_MAX / PAGE_SERIES)
                .map(|_| OnceLock::new())
                .collect(),
            sequencer: Mutex::new(sequencer),
            floor: RwLock::default(),
            metadata: RwLock::default(),
            catalog: RwLock::default(),
            sample_bytes: AtomicIsize::new(0),
            index_bytes: AtomicUsize::new(0),
            series: AtomicUsize::new(0),
            closed_hours: RwLock::default(),
            has_closed_hours: AtomicBool::new(false),
        }
    }

    /// Says which hours take no more samples.
    pub(crate) fn close_hours(&self, hours: BTreeSet<BucketStart>) {
        if hours.is_empty() && !self.has_closed_hours.load(Relaxed) {
            return;
        }
        self.has_closed_hours.store(!hours.is_empty(), Relaxed);
        *self.closed_hours.write() = hours;
    }

    #[inline]
    fn is_closed(&self, hour: BucketStart) -> bool {
        self.has_closed_hours.load(Relaxed) && self.closed_hours.read().contains(&hour)
    }

    /// Keeps references valid while the guard lives. No thread holds two guards: the second would
    /// wait for who waits for the first.
    pub(crate) fn hold_references(&self) -> RwLockReadGuard<'_, ()> {
        self.gate.read()
    }

    pub(crate) fn index(&self) -> RwLockReadGuard<'_, Index> {
        self.index.read_recursive()
    }

    /// Memory of samples.
    pub(crate) fn sample_bytes(&self) -> usize {
        self.sample_bytes.load(Relaxed).max(0) as usize
    }

    /// Memory of series: labels, index and tables, which stays as long as they are written to.
    pub(crate) fn series_bytes(&self) -> usize {
        self.index_bytes.load(Relaxed) + self.series.load(Relaxed) * SERIES_BYTES
    }

    pub(crate) fn page(&self, number: usize) -> &Page {
        self.pages[number].get_or_init(Page::default)
    }

    fn pages(&self) -> impl Iterator<Item = (u32, &Page)> {
        let pages = self.pages.iter().map_while(OnceLock::get).enumerate();
        pages.map(|(number, page)| ((number * PAGE_SERIES) as u32, page))
    }

    /// Copies the series that match, with what they have in the time range (nothing of it when only
    /// labels are wanted). Series without anything in the range are left out.
    pub(crate) fn select(
        &self,
        matchers: &[Matcher],
        range_ms: (i64, i64),
        labels_only: bool,
        cache: &ReadCache,
    ) -> HeadSelection {
        let _references = self.hold_references();
        let matching: Vec<u32> = self.index().select(matchers).iter().collect();
        let (mut found, mut parts) = (Vec::with_capacity(matching.len()), Vec::new());
        let mut ranges: Vec<Range<u32>> = Vec::with_capacity(matching.len());
        for page in matching.chunk_by(|a, b| a / PAGE_SERIES as u32 == b / PAGE_SERIES as u32) {
            // Locks are taken page by page, so that writers never wait for a whole selection.
            let slots = self.page(page[0] as usize / PAGE_SERIES).lock();
            let slot_of = |series: u32| &slots[series as usize % PAGE_SERIES];
            // Neighbours have the same open hour nearly always.
            let hour = slot_of(page[0]).open_hour();
            let mut page_series = page.iter().copied();
            let mut visit = |known: Option<&HeadChunk>| {
                let Some(series) = page_series.next() else {
                    return;
                };
                let first = parts.len() as u32;
                match labels_only {
                    true if !slot_of(series).touches(range_ms.0, range_ms.1) => return,
                    true => {}
                    false => slot_of(series).snapshot(range_ms, known, hour, &mut parts),
                }
                let range = first..parts.len() as u32;
                if labels_only || !range.is_empty() {
                    found.push(SeriesRef(series));
                    ranges.push(range);
                }
            };
            let known = hour.filter(|_| !labels_only);
            match known.and_then(|hour| cache.known_head_hour(hour)) {
                Some(known) => known.chunks.get_many(page.iter().copied(), visit),
                None => page.iter().for_each(|_| visit(None)),
            }
        }
        let (places, labels) = self.in_label_order(&found, cache);
        let series = places.into_iter().map(|at| HeadSeries {
            series: found[at as usize],
            parts: ranges[at as usize].clone(),
        });
        HeadSelection {
            series: series.collect(),
            labels,
            parts,
        }
    }

    /// Where each series stands, in label order, and their labels in that order. The caller holds
    /// the references.
    fn in_label_order(&self, series: &[SeriesRef], cache: &ReadCache) -> (Vec<u32>, SeriesLabels) {
        // What cannot stay in the cache would only push everything else out of it.
        if !cache.has_room_for(series.len() * LABELS_BYTES) {
            let ranked = Ranked::new(&self.index(), series);
            // New series are entered meanwhile; the pairs of the old ones stay what they are.
            let places = ranked.sorted();
            let table = ranked.table(&self.index(), &places);
            return (places, SeriesLabels::Table(table));
        }
        let labels = self.labels_of(series, cache);
        let places = self.label_places(series, &labels);
        let sorted = places.iter().map(|at| labels[*at as usize].clone());
        let sorted = SeriesLabels::Made(sorted.collect());
        (places, sorted)
    }

    /// The labels of series, from the cache where it has them. The caller holds the references.
    fn labels_of(&self, series: &[SeriesRef], cache: &ReadCache) -> Vec<Labels> {
        let mut labels = Vec::with_capacity(series.len());
        for some in series.chunks(PAGE_SERIES) {
            let numbers: Vec<u32> = some.iter().map(|series| series.0).collect();
            let index = self.index();
            let make = |series| index.labels(SeriesRef(series));
            let removals = index.removals();
            let known = &cache.head_labels;
            labels.extend(known.of(&numbers, removals, &cache.label_sets, make));
        }
        labels
    }

    /// Where each series stands, in label order.
    fn label_places(&self, series: &[SeriesRef], labels: &[Labels]) -> Vec<u32> {
        let index = self.index();
        // Ranking walks over all pairs of the head, which a few series are not worth.
        if series.len() < index.pair_numbers() / 64 {
            drop(index);
            let mut places: Vec<u32> = (0..series.len() as u32).collect();
            places.sort_unstable_by(|a, b| labels[*a as usize].cmp(&labels[*b as usize]));
            return places;
        }
        let ranked = Ranked::new(&index, series);
        // New series are entered meanwhile.
        drop(index);
        ranked.sorted()
    }

    /// Copies the exemplars that `keep` accepts of the series that match any of the selectors;
    /// `None` when there are more than `max`.
    pub(crate) fn exemplars(
        &self,
        selectors: &[Vec<Matcher>],
        keep: impl Fn(&Exemplar) -> bool,
        max: usize,
    ) -> Option<Vec<(Labels, Vec<Exemplar>)>> {
        let _references = self.hold_references();
        let mut matching = RoaringBitmap::new();
        for matchers in selectors {
            matching |= self.index().select(matchers);
        }
        let (mut found, mut count) = (Vec::new(), 0);
        for series in &matching {
            let exemplars: Vec<Exemplar> = {
                let slots = self.page(series as usize / PAGE_SERIES).lock();
                let slot = &slots[series as usize % PAGE_SERIES];
                slot.exemplars().filter(|e| keep(e)).cloned().collect()
            };
            count += exemplars.len();
            if count > max {
                return None;
            }
            if !exemplars.is_empty() {
                found.push((self.index().labels(SeriesRef(series)), exemplars));
            }
        }
        Some(found)
    }

    /// Visits the label pairs of the series that have something in a time range, each pair once.
    pub(crate) fn each_pair_in(
        &self,
        start_ms: i64,
        end_ms: i64,
        mut visit: impl FnMut(&str, &str),
    ) {
        let _references = self.hold_references();
        let mut seen = vec![false; self.index().pair_numbers()];
        for (first, page) in self.pages() {
            let mut present = Vec::with_capacity(PAGE_SERIES);
            {
                let slots = page.lock();
                let found = slots
                    .iter()
                    .enumerate()
                    .filter(|(_, slot)| slot.touches(start_ms, end_ms));
                present.extend(found.map(|(i, _)| SeriesRef(first + i as u32)));
            }
            let index = self.index();
            // Series may have been added since; their pairs may be new.
            seen.resize(index.pair_numbers(), false);
            for pair in present
                .into_iter()
                .flat_map(|series| index.pairs_of(series))
            {
                if !std::mem::replace(&mut seen[pair as usize], true) {
                    let (name, value) = index.pair(pair);
                    visit(name, value);
                }
            }
        }
    }

    /// Copies the frozen parts of some hours, which are given in order, series by series in the
    /// given order. Series without any are left out.
    pub(crate) fn frozen(
        &self,
        hours: &[BucketStart],
        series: impl Iterator<Item = SeriesRef>,
    ) -> Vec<(SeriesRef, Vec<HourPart>)> {
        let parts_of = |series: SeriesRef| {
            let slots = self.page(series.0 as usize / PAGE_SERIES).lock();
            let parts = slots[series.0 as usize % PAGE_SERIES].frozen(hours);
            (!parts.is_empty()).then_some((series, parts))
        };
        series.filter_map(parts_of).collect()
    }

    /// Forgets hours that are now in their bucket.
    pub(crate) fn drop_frozen(&self, hours: &[BucketStart], series: &[SeriesRef]) {
        let mut change = 0;
        for r in series {
            let mut slots = self.page(r.0 as usize / PAGE_SERIES).lock();
            let slot = &mut slots[r.0 as usize % PAGE_SERIES];
            change += hours
                .iter()
                .map(|hour| slot.drop_frozen(*hour))
                .sum::<isize>();
        }
        self.sample_bytes.fetch_add(change, Relaxed);
    }

    /// Series that hold nothing and were last written before `idle_before_s` (of the process
    /// clock), as they are found; some may be written to by the time they are looked at again.
    pub(crate) fn idle_series(&self, idle_before_s: u32) -> Vec<SeriesRef> {
        let mut idle = Vec::new();
        for (first, page) in self.pages() {
            let slots = page.lock();
            let found = slots.iter().enumerate();
            let found = found.filter(|(_, slot)| slot.is_idle(idle_before_s));
            idle.extend(found.map(|(i, _)| SeriesRef(first + i as u32)));
        }
        idle
    }

    /// Forgets those of the given series that are still idle, and returns them. `None` when
    /// somebody carried references for all of `patience`, for which new requests wait, too.
    ///
    /// Their references are not given out again before [`Head::reuse`].
    pub(crate) fn forget(
        &self,
        series: &[SeriesRef],
        idle_before_s: u32,
        patience: Duration,
    ) -> Option<Vec<SeriesRef>> {
        let _exclusive = self.gate.try_write_for(patience)?;
        let mut pages = PageCursor::new(self, None);
        let mut forgotten = Vec::with_capacity(series.len());
        for series in series {
            let slot = pages.slot(series.0);
            if slot.is_idle(idle_before_s) {
                slot.reset();
                forgotten.push(*series);
            }
        }
        drop(pages);
        if forgotten.is_empty() {
            return Some(forgotten);
        }
        self.registry.remove(&forgotten);
        self.totals.lock().unlink(&forgotten);
        let mut index = self.index.write();
        index.remove(&forgotten.iter().map(|series| series.0).collect());
        self.index_bytes.store(index.heap_bytes(), Relaxed);
        self.series.store(index.series_count() as usize, Relaxed);
        Some(forgotten)
    }

    /// Lets the references of forgotten series be given out again.
    pub(crate) fn reuse(&self, forgotten: &[SeriesRef]) {
        // Nothing must lead to a reference any more when another series gets it.
        self.registry.remove_aliases(forgotten);
        let mut sequencer = self.sequencer.lock();
        sequencer.free_refs.extend(forgotten.iter().rev());
    }
}

#[cfg(test)]
mod tests;
