//! The read cache: what was decoded once is not decoded again, nor looked up in SlateDB.
//!
//! ```text
//! bucket ─► postings, value lists │ labels by id │ chunks, or windows, by id
//!           all of one state of the bucket
//! head hour ─► chunks by reference, with the name of the stream that they were decoded from
//! head ─► labels by reference                 all label sets ─► each once
//! events ─► cells, by metric, window and span of time
//! ```
//!
//! Holds always:
//! - The answer is the same with and without it. What it knows of a bucket is of one state of it: a
//!   flush into the bucket retires that part before its first write, and nothing of the bucket is
//!   kept until the flush has committed. A reader takes its snapshot and its parts of the cache
//!   under one lock, so both are of the same state. Cells of events: see [`event_cells`].
//! - All of it together stays within `read.chunk_cache_bytes`, apart from what is being read right
//!   now.
//! - Only reading fills it: a process that only receives samples holds nothing here.

mod bucket;
mod budget;
mod chunk;
mod event_cells;
mod labels;
mod packed;
mod part;
mod record;
mod shelf;
mod span_cells;
mod times;

use std::collections::BTreeMap;
use std::sync::Arc;

use icecore_model::BucketStart;
use icecore_records::Bucket;
use parking_lot::{Mutex, RwLock};

pub(crate) use bucket::{BucketCache, ValueList, WindowRecords};
pub(crate) use chunk::{Chunk, HeadChunk, Scratch, SideRecords};
pub(crate) use event_cells::{CellChange, EventCells, KnownSpan, PinnedCells};
pub(crate) use labels::{HeadLabels, LabelSets};
pub(crate) use part::{OpenStamp, PartCopy, SideLists};
pub(crate) use record::RecordValues;
pub(crate) use span_cells::{CellPlace, CellSpan, SpanCells};
pub(crate) use times::{ChunkTimes, Times, TimesIdentity};

use budget::Budget;
use shelf::Shelf;

use crate::metrics::Metrics;

/// Rounds of the sweep: the first one takes second chances away, the second one uses that.
const SWEEPS_MAX: usize = 2;

pub(crate) struct ReadCache {
    budget: Arc<Budget>,
    buckets: Mutex<BTreeMap<Bucket, State>>,
    head_hours: RwLock<BTreeMap<BucketStart, Arc<HeadHour>>>,
    pub(crate) head_labels: HeadLabels,
    pub(crate) label_sets: LabelSets,
    pub(crate) event_cells: EventCells,
    /// Where the last sweep stopped.
    hand: Mutex<Hand>,
    metrics: Arc<Metrics>,
}

enum State {
    Stable(Arc<BucketCache>),
    /// Somebody is writing into it, or a flush failed to.
    Changing,
}

/// Streams of the head in one hour, by reference of the series.
pub(crate) struct HeadHour {
    pub(crate) chunks: Shelf<HeadChunk>,
    pub(crate) times: Times,
}

#[derive(Clone, Copy, Default)]
struct Hand {
    place: Option<Section>,
    page: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Section {
    HeadLabels,
    EventCells,
    HeadHour(BucketStart),
    Bucket(Bucket),
}

impl ReadCache {
    pub(crate) fn new(bytes_max: usize, metrics: Arc<Metrics>) -> Self {
        let budget = Arc::new(Budget::new(bytes_max));
        Self {
            buckets: Mutex::default(),
            head_hours: RwLock::default(),
            head_labels: HeadLabels::new(&budget),
            label_sets: LabelSets::new(&budget),
            event_cells: EventCells::new(&budget),
            hand: Mutex::default(),
            budget,
            metrics,
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.budget.bytes()
    }

    /// Whether there is room for what can be had again without it.
    pub(crate) fn is_roomy(&self) -> bool {
        self.budget.is_roomy()
    }

    /// Whether so much can be kept beside other things. What cannot is better not kept at all: it
    /// would push itself out before it is asked for again, and everything else before that.
    pub(crate) fn has_room_for(&self, bytes: usize) -> bool {
        bytes <= self.budget.max() / 2
    }

    /// The parts of the cache that belong to buckets, with a view that is taken at the same moment.
    pub(crate) fn pin<V, E>(
        &self,
        buckets: &[Bucket],
        view: impl FnOnce() -> Result<V, E>,
    ) -> Result<(V, Vec<Arc<BucketCache>>), E> {
        let mut states = self.buckets.lock();
        let view = view()?;
        let pinned = buckets.iter().map(|bucket| {
            let stable = || State::Stable(Arc::new(BucketCache::new(&self.budget, false)));
            match states.entry(*bucket).or_insert_with(stable) {
                State::Stable(cache) => Arc::clone(cache),
                State::Changing => Arc::new(BucketCache::new(&self.budget, true)),
            }
        });
        Ok((view, pinned.collect()))
    }

    /// A flush is about to write into a bucket: what is known of it will not hold any more.
    pub(crate) fn begin_change(&self, bucket: Bucket) {
        let before = self.buckets.lock().insert(bucket, State::Changing);
        if let Some(State::Stable(cache)) = before {
            cache.retire();
        }
    }

    /// The bucket is as it will be until the next flush into it.
    pub(crate) fn end_change(&self, bucket: Bucket) {
        self.buckets.lock().remove(&bucket);
    }

    /// One write into buckets. When it has ended, well or not, they are as they will be. If it is
    /// given up meanwhile nobody knows when it happens, and nothing of them is kept.
    pub(crate) async fn during_write<T>(
        &self,
        buckets: &[Bucket],
        write: impl Future<Output = T>,
    ) -> T {
        for bucket in buckets {
            self.begin_change(*bucket);
        }
        let written = write.await;
        for bucket in buckets {
            self.end_change(*bucket);
        }
        written
    }

    /// The part for an hour of the head, if something of it was read.
    pub(crate) fn known_head_hour(&self, hour: BucketStart) -> Option<Arc<HeadHour>> {
        self.head_hours.read().get(&hour).cloned()
    }

    /// The part for an hour of the head, made when there is none.
    pub(crate) fn head_hour(&self, hour: BucketStart) -> Arc<HeadHour> {
        if let Some(known) = self.known_head_hour(hour) {
            return known;
        }
        let mut hours = self.head_hours.write();
        let made = || {
            Arc::new(HeadHour {
                chunks: Shelf::new(&self.budget, false),
                times: Times::new(&self.budget),
            })
        };
        Arc::clone(hours.entry(hour).or_insert_with(made))
    }

    /// The head has given an hour away.
    pub(crate) fn forget_head_hour(&self, hour: BucketStart) {
        self.head_hours.write().remove(&hour);
    }

    /// Drops what was not used for longest until the limit holds again.
    pub(crate) fn make_room(&self) {
        if !self.budget.exceeded() {
            return;
        }
        // One sweep at a time; who comes second leaves the work to the first.
        let Some(mut hand) = self.hand.try_lock() else {
            return;
        };
        let before = self.budget.bytes();
        for _ in 0..=SWEEPS_MAX {
            if self.sweep_from(&mut hand) {
                break;
            }
            self.forget_empty();
            *hand = Hand::default();
            self.label_sets.sweep();
        }
        let evicted = before.saturating_sub(self.budget.bytes());
        self.metrics.chunk_cache_evicted_bytes.add(evicted as u64);
    }

    /// Sweeps from the hand to the end; true when there is room before that.
    fn sweep_from(&self, hand: &mut Hand) -> bool {
        for (place, part) in self.parts() {
            if hand.place.is_some_and(|stopped| place < stopped) {
                continue;
            }
            if !self.budget.exceeded() {
                return true;
            }
            let page = if hand.place == Some(place) {
                hand.page
            } else {
                0
            };
            if let Some(page) = part.sweep(page) {
                let place = Some(place);
                *hand = Hand { place, page };
                return true;
            }
        }
        !self.budget.exceeded()
    }

    /// Forgets buckets of which nothing is known any more and that nobody reads.
    fn forget_empty(&self) {
        self.buckets.lock().retain(|_, state| match state {
            State::Stable(part) => Arc::strong_count(part) > 1 || !part.is_empty(),
            State::Changing => true,
        });
    }

    fn parts(&self) -> Vec<(Section, SectionRef<'_>)> {
        let mut parts = vec![
            (
                Section::HeadLabels,
                SectionRef::HeadLabels(&self.head_labels),
            ),
            (
                Section::EventCells,
                SectionRef::EventCells(&self.event_cells),
            ),
        ];
        let hours = self.head_hours.read();
        parts.extend(hours.iter().map(|(hour, part)| {
            let part = SectionRef::HeadHour(Arc::clone(part));
            (Section::HeadHour(*hour), part)
        }));
        let buckets = self.buckets.lock();
        parts.extend(buckets.iter().filter_map(|(bucket, state)| match state {
            State::Stable(part) => {
                let part = SectionRef::Bucket(Arc::clone(part));
                Some((Section::Bucket(*bucket), part))
            }
            State::Changing => None,
        }));
        parts
    }
}

enum SectionRef<'c> {
    HeadLabels(&'c HeadLabels),
    EventCells(&'c EventCells),
    HeadHour(Arc<HeadHour>),
    Bucket(Arc<BucketCache>),
}

impl SectionRef<'_> {
    /// See [`Shelf::sweep`].
    fn sweep(&self, from: usize) -> Option<usize> {
        match self {
            Self::HeadLabels(labels) => labels.sets.sweep(from),
            // It knows by itself where it stopped.
            Self::EventCells(cells) => cells.sweep().then_some(0),
            Self::HeadHour(hour) => {
                let next = hour.chunks.sweep(from);
                hour.times.sweep();
                next
            }
            Self::Bucket(bucket) => bucket.sweep(from),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_write_that_fails_leaves_buckets_that_are_kept_again() {
        let cache = ReadCache::new(1 << 20, Arc::default());
        let bucket = Bucket::hour(BucketStart(60));
        let pin = || {
            let (_, pinned) = cache.pin(&[bucket], || Ok::<_, ()>(())).unwrap();
            Arc::clone(&pinned[0])
        };
        let before = pin();
        assert!(Arc::ptr_eq(&before, &pin()));
        let write = async {
            assert!(!Arc::ptr_eq(&pin(), &pin()), "nothing is kept meanwhile");
            Err::<(), _>("the store is gone")
        };
        let written = cache.during_write(&[bucket], write).await;
        assert_eq!(written, Err("the store is gone"));
        let after = pin();
        assert!(!Arc::ptr_eq(&before, &after) && Arc::ptr_eq(&after, &pin()));
    }
}
