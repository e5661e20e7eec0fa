//! The timestamps of chunks: each list once, whatever number of series has it.
//!
//! Holds always:
//! - Lists of one identity are equal, so whoever holds one may compare addresses instead of times.
//! - A list is accounted for as long as a chunk uses it, and forgotten by the next sweep
//!   afterwards.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Weak};

use icecore_records::columns::TimeList;
use parking_lot::RwLock;
use xxhash_rust::xxh3::xxh3_64;

use super::budget::Budget;

/// When the samples of a chunk were taken.
#[derive(Clone)]
pub(crate) enum ChunkTimes {
    /// Of an hour.
    Plain(Arc<[i64]>),
    /// Of a larger bucket: `len` timestamps of a list, from number `first` on.
    Compact {
        list: Arc<TimeList>,
        first: u32,
        len: u32,
    },
}

/// Tells lists apart for as long as one of them is held.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct TimesIdentity {
    address: usize,
    first: u32,
    len: u32,
}

impl ChunkTimes {
    /// A part of a list; `None` where the list does not reach that far.
    pub(crate) fn part(list: Arc<TimeList>, first: u32, len: usize) -> Option<Self> {
        let len = u32::try_from(len).ok()?;
        let end = first.checked_add(len)?;
        (end as usize <= list.len()).then_some(Self::Compact { list, first, len })
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Plain(list) => list.len(),
            Self::Compact { len, .. } => *len as usize,
        }
    }

    pub(crate) fn first(&self) -> Option<i64> {
        self.at(0)
    }

    pub(crate) fn last(&self) -> Option<i64> {
        self.at(self.len().checked_sub(1)?)
    }

    fn at(&self, index: usize) -> Option<i64> {
        match self {
            Self::Plain(list) => list.get(index).copied(),
            Self::Compact { list, first, len } => {
                let within = index < *len as usize;
                within.then(|| list.at(*first as usize + index)).flatten()
            }
        }
    }

    /// Where the samples from `start_ms` to `end_ms`, both included, lie.
    pub(crate) fn range(&self, start_ms: i64, end_ms: i64) -> Range<usize> {
        match self {
            Self::Plain(list) => {
                let start = list.partition_point(|time| *time < start_ms);
                let end = list.partition_point(|time| *time <= end_ms);
                start..end.max(start)
            }
            Self::Compact { list, first, len } => {
                let (first, len) = (*first as usize, *len as usize);
                let range = list.range(start_ms, end_ms);
                let within = |index: usize| index.saturating_sub(first).min(len);
                within(range.start)..within(range.end)
            }
        }
    }

    /// Appends the timestamps of a range, which lies within the chunk.
    pub(crate) fn copy_into(&self, range: Range<usize>, timestamps: &mut Vec<i64>) {
        match self {
            Self::Plain(list) => timestamps.extend_from_slice(&list[range]),
            Self::Compact { list, first, .. } => {
                let first = *first as usize;
                list.copy_into(first + range.start..first + range.end, timestamps);
            }
        }
    }

    pub(super) fn empty() -> Self {
        Self::Plain(Arc::new([]))
    }

    pub(crate) fn identity(&self) -> TimesIdentity {
        let (address, first, len) = match self {
            Self::Plain(list) => (list.as_ptr() as usize, 0, 0),
            Self::Compact { list, first, len } => (Arc::as_ptr(list) as usize, *first, *len),
        };
        TimesIdentity {
            address,
            first,
            len,
        }
    }
}

/// The lists of timestamps of one hour or bucket: the series of a scrape target share theirs.
pub(crate) struct Times {
    known: RwLock<TimeLists>,
    budget: Arc<Budget>,
}

#[derive(Default)]
struct TimeLists {
    /// By hash.
    plain: HashMap<u64, Arc<[i64]>>,
    /// By hash.
    compact: HashMap<u64, Arc<TimeList>>,
    /// The shared columns of the bucket, by number: they are among the lists of `compact`.
    columns: HashMap<u32, Weak<TimeList>>,
}

impl Times {
    pub(crate) fn new(budget: &Arc<Budget>) -> Self {
        Self {
            known: RwLock::default(),
            budget: Arc::clone(budget),
        }
    }

    /// A list as it is, for an hour.
    pub(super) fn plain(&self, timestamps: &[i64]) -> ChunkTimes {
        let hash = hash_of(timestamps);
        let shared = |known: &TimeLists| match known.plain.get(&hash) {
            Some(times) if **times == *timestamps => Some(Arc::clone(times)),
            // Another list with this hash: both are right, and one of them is not shared.
            Some(_) => Some(timestamps.into()),
            None => None,
        };
        // Nearly all lists are known, and all threads of a query ask here for every series.
        if let Some(times) = shared(&self.known.read()) {
            return ChunkTimes::Plain(times);
        }
        let mut known = self.known.write();
        ChunkTimes::Plain(shared(&known).unwrap_or_else(|| {
            let times: Arc<[i64]> = timestamps.into();
            known.plain.insert(hash, Arc::clone(&times));
            self.budget.add(plain_bytes(&times));
            times
        }))
    }

    /// A compact list, for a larger bucket.
    pub(crate) fn compact(&self, list: Arc<TimeList>) -> Arc<TimeList> {
        let hash = hash_of_compact(&list);
        let mut known = self.known.write();
        match known.compact.get(&hash) {
            Some(same) if *same == list => Arc::clone(same),
            Some(_) => list,
            None => {
                known.compact.insert(hash, Arc::clone(&list));
                self.budget.add(compact_bytes(&list));
                list
            }
        }
    }

    /// A shared column of the bucket, if it is known.
    pub(crate) fn column(&self, column: u32) -> Option<Arc<TimeList>> {
        self.known.read().columns.get(&column)?.upgrade()
    }

    /// Keeps a shared column. A record that has the same timestamps for itself shares it, too.
    pub(crate) fn keep_column(&self, column: u32, list: Arc<TimeList>) -> Arc<TimeList> {
        let list = self.compact(list);
        let mut known = self.known.write();
        known.columns.insert(column, Arc::downgrade(&list));
        list
    }

    /// Forgets lists that no chunk has any more.
    pub(super) fn sweep(&self) {
        let mut known = self.known.write();
        let budget = &self.budget;
        known.plain.retain(|_, list| {
            let used = Arc::strong_count(list) > 1;
            if !used {
                budget.take(plain_bytes(list));
            }
            used
        });
        known.compact.retain(|_, list| {
            let used = Arc::strong_count(list) > 1;
            if !used {
                budget.take(compact_bytes(list));
            }
            used
        });
        known.columns.retain(|_, list| list.strong_count() > 0);
    }
}

impl Drop for Times {
    fn drop(&mut self) {
        let known = self.known.get_mut();
        let plain = known.plain.values().map(|list| plain_bytes(list));
        let compact = known.compact.values().map(|list| compact_bytes(list));
        self.budget
            .take(plain.sum::<usize>() + compact.sum::<usize>());
    }
}

/// What the counters of an `Arc` and a place in a table take.
const ENTRY_BYTES: usize = 48;

fn plain_bytes(list: &[i64]) -> usize {
    size_of_val(list) + ENTRY_BYTES
}

fn compact_bytes(list: &TimeList) -> usize {
    list.heap_bytes() + size_of::<TimeList>() + ENTRY_BYTES
}

/// Timestamps up to which a list is hashed one by one.
const SHORT_LIST: usize = 32;

/// An odd number with its bits spread evenly.
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

fn hash_of(timestamps: &[i64]) -> u64 {
    // A handful of differences tell lists apart about as well as all of them, but equal lists must
    // be compared in full anyway, so hashing all of it costs little more.
    if timestamps.len() <= SHORT_LIST {
        // Without a buffer: a query over a million series has as many lists.
        let mix = |hash: u64, time: &i64| (hash ^ *time as u64).wrapping_mul(MIX).rotate_left(29);
        return timestamps.iter().fold(timestamps.len() as u64, mix);
    }
    let mut bytes = Vec::with_capacity(size_of_val(timestamps));
    for timestamp in timestamps {
        bytes.extend_from_slice(&timestamp.to_ne_bytes());
    }
    xxh3_64(&bytes)
}

fn hash_of_compact(list: &TimeList) -> u64 {
    let ends = || {
        let ends = [list.first(), list.at(1), list.last()];
        ends.map(|end| end.unwrap_or(list.len() as i64))
    };
    if list.heap_bytes() == 0 {
        // A regular list: start, interval and end say all.
        return hash_of(&ends());
    }
    let mut timestamps = Vec::with_capacity(list.len());
    list.copy_into(0..list.len(), &mut timestamps);
    hash_of(&timestamps)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn times() -> (Times, Arc<Budget>) {
        let budget = Arc::new(Budget::new(usize::MAX));
        (Times::new(&budget), budget)
    }

    #[test]
    fn lists_are_kept_once_while_they_are_used() {
        let (times, budget) = times();
        let list = || Arc::new(TimeList::from(vec![10, 20, 31]));
        let (a, b) = (times.compact(list()), times.compact(list()));
        assert!(Arc::ptr_eq(&a, &b));
        let regular = |start: i64| TimeList::from(vec![start, start + 15, start + 30]).into();
        let c = times.compact(regular(0));
        assert!(Arc::ptr_eq(&c, &times.compact(regular(0))));
        assert!(!Arc::ptr_eq(&c, &times.compact(regular(15))));
        let column = times.keep_column(7, list());
        assert!(Arc::ptr_eq(&column, &a), "a record's own list is the same");
        assert!(times.column(7).is_some() && times.column(8).is_none());
        drop((a, b, column));
        times.sweep();
        assert!(times.column(7).is_none());
        assert_eq!(budget.bytes(), compact_bytes(&c), "the one that is in use");
        let plain = times.plain(&[1, 2]);
        assert!(times.plain(&[1, 2]).identity() == plain.identity());
        drop(times);
        assert_eq!(budget.bytes(), 0);
    }

    #[test]
    fn a_part_must_lie_within_its_list() {
        let list = Arc::new(TimeList::from(vec![10, 20, 30]));
        let part = |first, len| ChunkTimes::part(Arc::clone(&list), first, len);
        assert!(part(1, 2).is_some() && part(3, 0).is_some());
        assert!(part(2, 2).is_none() && part(4, 0).is_none());
        assert!(part(u32::MAX, 1).is_none() && part(0, usize::MAX).is_none());
        assert!(part(0, 2).unwrap().identity() != part(1, 2).unwrap().identity());
    }

    proptest! {
        #[test]
        fn both_forms_say_the_same(
            steps in prop::collection::vec(1i64..50, 1..40),
            (from, to) in (0usize..40, 0usize..40),
            (start_ms, end_ms) in (-60i64..1_200, -60i64..1_200),
        ) {
            let mut time = 0;
            let all: Vec<i64> = steps.iter().map(|step| { time += step; time }).collect();
            let (from, to) = (from.min(all.len()), to.min(all.len()));
            let (from, to) = (from.min(to), from.max(to));
            let (times, _) = times();
            let plain = times.plain(&all[from..to]);
            let list = times.compact(TimeList::from(all).into());
            let compact = ChunkTimes::part(list, from as u32, to - from).unwrap();
            prop_assert_eq!(plain.len(), compact.len());
            prop_assert_eq!((plain.first(), plain.last()), (compact.first(), compact.last()));
            let range = plain.range(start_ms, end_ms);
            prop_assert_eq!(compact.range(start_ms, end_ms), range.clone());
            let (mut a, mut b) = (vec![-1], vec![-1]);
            plain.copy_into(range.clone(), &mut a);
            compact.copy_into(range, &mut b);
            prop_assert_eq!(a, b);
        }
    }
}
