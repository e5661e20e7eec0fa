//! What was read of one bucket: postings, labels, samples or windows.
//!
//! Holds always:
//! - Everything in it is of one state of the bucket. A flush into the bucket retires it; readers
//!   that still hold it find nothing there any more and read from their snapshot.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use bytes::Bytes;
use icecore_model::Labels;
use icecore_records::bucket_meta::BucketMeta;
use parking_lot::RwLock;
use roaring::RoaringBitmap;

use super::budget::Budget;
use super::chunk::Chunk;
use super::shelf::{Cached, Shelf};
use super::times::Times;

/// The values of a label that begin with some prefix, sorted, each with its ids.
pub(crate) type ValueList = Vec<(Box<str>, Arc<RoaringBitmap>)>;

pub(crate) struct BucketCache {
    pub(crate) meta: OnceLock<BucketMeta>,
    pub(crate) labels: Shelf<Labels>,
    pub(crate) chunks: Shelf<Arc<Chunk>>,
    pub(crate) windows: Shelf<WindowRecords>,
    pub(crate) times: Times,
    index: RwLock<Index>,
    index_hit: AtomicBool,
    budget: Arc<Budget>,
}

/// The records of a series of windows as they are stored, with nothing where there is none. They
/// take a small part of the memory of windows, and a query seldom wants more than a few of their
/// columns.
#[derive(Clone, Default)]
pub(crate) struct WindowRecords {
    pub(crate) floats: Bytes,
    pub(crate) histograms: Bytes,
}

impl Cached for WindowRecords {
    fn heap_bytes(&self) -> usize {
        self.floats.len() + self.histograms.len()
    }
}

#[derive(Default)]
struct Index {
    /// By name, then value. An empty set says that there is no such pair.
    pairs: HashMap<String, HashMap<String, Arc<RoaringBitmap>>>,
    /// By name, then prefix.
    lists: HashMap<String, HashMap<String, Arc<ValueList>>>,
    bytes: usize,
    retired: bool,
}

/// Bytes of a table entry beside its text and its set, about.
const ENTRY_BYTES: usize = 64;

/// Bytes of a part without anything in it: itself, counters, its place among the buckets.
const PART_BYTES: usize = size_of::<BucketCache>() + 64;

impl BucketCache {
    /// One that keeps what is read, or (of a bucket that is changing) one that keeps nothing.
    pub(super) fn new(budget: &Arc<Budget>, retired: bool) -> Self {
        budget.add(PART_BYTES);
        Self {
            meta: OnceLock::new(),
            labels: Shelf::new(budget, retired),
            chunks: Shelf::new(budget, retired),
            windows: Shelf::new(budget, retired),
            times: Times::new(budget),
            index: RwLock::new(Index {
                retired,
                ..Index::default()
            }),
            index_hit: AtomicBool::new(false),
            budget: Arc::clone(budget),
        }
    }

    /// The ids with a label pair, if that is known.
    pub(crate) fn pair(&self, name: &str, value: &str) -> Option<Arc<RoaringBitmap>> {
        let index = self.index.read();
        let known = index.pairs.get(name).and_then(|values| values.get(value));
        let found = known.cloned().or_else(|| {
            let list = index.lists.get(name)?.get("")?;
            let at = list.binary_search_by(|(known, _)| (**known).cmp(value));
            Some(at.map_or_else(|_| Arc::default(), |at| Arc::clone(&list[at].1)))
        });
        self.note_hit(found.is_some());
        found
    }

    pub(crate) fn keep_pair(&self, name: &str, value: &str, ids: &Arc<RoaringBitmap>) {
        let mut index = self.index.write();
        if index.retired {
            return;
        }
        let values = index.pairs.entry(name.to_string()).or_default();
        if values.insert(value.to_string(), Arc::clone(ids)).is_none() {
            let bytes = value.len() + ENTRY_BYTES + ids.serialized_size();
            index.bytes += bytes;
            self.budget.add(bytes);
        }
    }

    /// The values of a label that begin with a prefix, if they are known.
    pub(crate) fn list(&self, name: &str, prefix: &str) -> Option<Arc<ValueList>> {
        let index = self.index.read();
        let lists = index.lists.get(name);
        let found = lists.and_then(|lists| lists.get(prefix).or_else(|| lists.get("")));
        self.note_hit(found.is_some());
        found.cloned()
    }

    pub(crate) fn keep_list(&self, name: &str, prefix: &str, list: &Arc<ValueList>) {
        let mut index = self.index.write();
        if index.retired {
            return;
        }
        let lists = index.lists.entry(name.to_string()).or_default();
        if lists.insert(prefix.to_string(), Arc::clone(list)).is_none() {
            let entries = list
                .iter()
                .map(|(value, ids)| value.len() + ENTRY_BYTES + ids.serialized_size());
            let bytes = ENTRY_BYTES + entries.sum::<usize>();
            index.bytes += bytes;
            self.budget.add(bytes);
        }
    }

    fn note_hit(&self, hit: bool) {
        if hit && !self.index_hit.load(Relaxed) {
            self.index_hit.store(true, Relaxed);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        let has_samples = !self.chunks.is_empty() || !self.windows.is_empty();
        self.labels.is_empty() && !has_samples && self.index.read().bytes == 0
    }

    pub(super) fn retire(&self) {
        self.labels.retire();
        self.chunks.retire();
        self.windows.retire();
        let mut index = self.index.write();
        index.give_back(&self.budget);
        index.retired = true;
    }

    /// See [`Shelf::sweep`]; the index and the labels come before the first page of chunks, or of
    /// windows: a bucket has the one or the other.
    pub(super) fn sweep(&self, from: usize) -> Option<usize> {
        if from == 0 {
            if !self.index_hit.swap(false, Relaxed) {
                self.index.write().give_back(&self.budget);
            }
            if self.labels.sweep(0).is_some() {
                return Some(0);
            }
        }
        let next = self.chunks.sweep(from);
        let next = next.or_else(|| self.windows.sweep(from));
        self.times.sweep();
        next
    }
}

impl Index {
    fn give_back(&mut self, budget: &Budget) {
        budget.take(self.bytes);
        self.bytes = 0;
        self.pairs = HashMap::new();
        self.lists = HashMap::new();
    }
}

impl Drop for BucketCache {
    fn drop(&mut self) {
        self.index.get_mut().give_back(&self.budget);
        self.budget.take(PART_BYTES);
    }
}
