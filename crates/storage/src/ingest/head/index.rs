//! Labels and postings of the series in the head.
//!
//! Holds always:
//! - A label pair is stored once and named by a number; a series is a short list of these numbers,
//!   which is why a million series fit in little memory.
//! - Every live series is in the postings of each of its pairs, and nothing else is.
//! - Pair numbers of a series are in label order with the metric name moved to the front: the order
//!   in which ids are given out at flush.

use std::collections::BTreeSet;
use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};
use icecore_model::varint::{push_varint, take_varint};
use icecore_model::{Labels, METRIC_NAME, Matcher, ValueLookup};
use roaring::RoaringBitmap;

use super::label_table::name_in_place;
use super::postings::Postings;
use super::registry::{PAGE_SERIES, SeriesRef};

#[derive(Default)]
pub(crate) struct Index {
    names: Vec<Name>,
    by_name: HashTable<u32>,
    pairs: Vec<Pair>,
    by_pair: HashTable<u32>,
    free_pairs: Vec<u32>,
    pages: Vec<LabelPage>,
    all: RoaringBitmap,
    hasher: DefaultHashBuilder,
    text_bytes: usize,
    removals: u64,
}

struct Name {
    text: Box<str>,
    /// The pairs with this name, in order of creation.
    pairs: Vec<u32>,
}

struct Pair {
    name: u32,
    value: Box<str>,
    postings: Postings,
}

/// The pair lists of `PAGE_SERIES` neighbouring series.
struct LabelPage {
    /// Where the list of each series begins in `lists`, plus one; 0: no such series.
    starts: Box<[u32]>,
    /// Per series: number of pairs, then pair numbers, all as varints.
    lists: Vec<u8>,
    garbage: usize,
}

/// Bytes of pair list and postings per series, about: ten labels.
const SERIES_LABEL_BYTES: usize = 44;

impl Index {
    /// Enters a series. `pairs` are sorted by name, unique and without empty values.
    pub(crate) fn insert(&mut self, series: SeriesRef, pairs: &[(&str, &str)]) {
        let mut numbers: Vec<u32> = Vec::with_capacity(pairs.len());
        for (name, value) in pairs {
            let pair = self.pair_number(name, value);
            self.pairs[pair as usize].postings.insert(series.0);
            if *name == METRIC_NAME {
                numbers.insert(0, pair);
            } else {
                numbers.push(pair);
            }
        }
        self.all.insert(series.0);
        let page = series.0 as usize / PAGE_SERIES;
        while self.pages.len() <= page {
            self.pages.push(LabelPage::new());
        }
        self.pages[page].insert(series.0 as usize % PAGE_SERIES, &numbers);
    }

    /// Forgets series and the pairs that only they had.
    pub(crate) fn remove(&mut self, removed: &RoaringBitmap) {
        self.removals += 1;
        self.all -= removed;
        // Only what they have: some are removed at a time, while requests wait.
        let pairs = removed.iter();
        let pairs = pairs.flat_map(|series| self.pairs_of(SeriesRef(series)));
        let pairs: RoaringBitmap = pairs.collect();
        let emptied = pairs.iter();
        let emptied: RoaringBitmap = emptied
            .filter(|number| !self.pairs[*number as usize].postings.remove(removed))
            .collect();
        let names = emptied.iter();
        let names: BTreeSet<u32> = names.map(|pair| self.pairs[pair as usize].name).collect();
        for name in names {
            let pairs = &mut self.names[name as usize].pairs;
            pairs.retain(|pair| !emptied.contains(*pair));
        }
        for number in emptied {
            let hash = self.pair_hash(number);
            if let Ok(entry) = self.by_pair.find_entry(hash, |p| *p == number) {
                entry.remove();
            }
            let pair = &mut self.pairs[number as usize];
            self.text_bytes -= pair.value.len();
            pair.value = Box::default();
            pair.postings = Postings::None;
            self.free_pairs.push(number);
        }
        for series in removed {
            self.pages[series as usize / PAGE_SERIES].remove(series as usize % PAGE_SERIES);
        }
    }

    pub(crate) fn series_count(&self) -> u64 {
        self.all.len()
    }

    /// How often series were removed: while this stays the same, a reference means the same series.
    pub(crate) fn removals(&self) -> u64 {
        self.removals
    }

    pub(crate) fn labels(&self, series: SeriesRef) -> Labels {
        let mut pairs = Vec::new();
        self.sorted_pairs(series, &mut pairs);
        Labels::from_sorted(pairs.into_iter())
    }

    /// The labels of a series in label order, into a buffer of the caller's.
    pub(crate) fn sorted_pairs<'i>(
        &'i self,
        series: SeriesRef,
        pairs: &mut Vec<(&'i str, &'i str)>,
    ) {
        pairs.clear();
        pairs.extend(self.pairs_of(series).map(|p| self.pair(p)));
        name_in_place(pairs);
    }

    /// The pair numbers of a series, metric name first.
    pub(crate) fn pairs_of(&self, series: SeriesRef) -> impl Iterator<Item = u32> {
        let page = &self.pages[series.0 as usize / PAGE_SERIES];
        page.list(series.0 as usize % PAGE_SERIES)
    }

    pub(crate) fn pair(&self, number: u32) -> (&str, &str) {
        let pair = &self.pairs[number as usize];
        (&self.names[pair.name as usize].text, &pair.value)
    }

    pub(crate) fn pair_numbers(&self) -> usize {
        self.pairs.len()
    }

    /// Whether a metric has series.
    pub(crate) fn has_metric(&self, name: &str) -> bool {
        self.find_pair(METRIC_NAME, name).is_some()
    }

    /// The series that satisfy all matchers.
    pub(crate) fn select(&self, matchers: &[Matcher]) -> RoaringBitmap {
        let mut found: Option<RoaringBitmap> = None;
        let mut excluded = RoaringBitmap::new();
        for matcher in matchers {
            if matcher.matches_empty() {
                // Accepts absence: what it refuses is taken away instead.
                self.collect(matcher, false, &mut excluded);
                continue;
            }
            let mut accepted = RoaringBitmap::new();
            self.collect(matcher, true, &mut accepted);
            found = Some(match found {
                Some(found) => found & accepted,
                None => accepted,
            });
        }
        found.unwrap_or_else(|| self.all.clone()) - excluded
    }

    /// Adds the series whose value of the matcher's label it accepts (or refuses).
    fn collect(&self, matcher: &Matcher, accepts: bool, set: &mut RoaringBitmap) {
        if let (ValueLookup::Literals(values), true) =
            (matcher.lookup(), accepts != matcher.is_negative())
        {
            for value in values {
                if let Some(pair) = self.find_pair(matcher.name(), value) {
                    self.pairs[pair as usize].postings.add_to(set);
                }
            }
            return;
        }
        let Some(name) = self.find_name(matcher.name()) else {
            return;
        };
        for pair in &self.names[name as usize].pairs {
            let pair = &self.pairs[*pair as usize];
            if matcher.matches(&pair.value) == accepts {
                pair.postings.add_to(set);
            }
        }
    }

    /// The values of a label, each with how many series have it.
    pub(crate) fn each_value(&self, name: &str, mut visit: impl FnMut(&str, u64)) {
        for pair in self.pairs_named(name) {
            visit(&pair.value, pair.postings.len());
        }
    }

    /// The values of a label, each with how many of some series have it.
    pub(crate) fn each_value_of(
        &self,
        series: &RoaringBitmap,
        name: &str,
        mut visit: impl FnMut(&str, u64),
    ) {
        for pair in self.pairs_named(name) {
            visit(&pair.value, pair.postings.count_in(series));
        }
    }

    fn pairs_named(&self, name: &str) -> impl Iterator<Item = &Pair> {
        let name = self.find_name(name);
        let pairs = name.map(|name| self.names[name as usize].pairs.iter());
        pairs
            .into_iter()
            .flatten()
            .map(|pair| &self.pairs[*pair as usize])
    }

    /// The series that have a label.
    pub(crate) fn with_label(&self, name: &str) -> RoaringBitmap {
        let mut series = RoaringBitmap::new();
        for pair in self.pairs_named(name) {
            pair.postings.add_to(&mut series);
        }
        series
    }

    /// Names in use, each with its values and how many series have them.
    pub(crate) fn each_pair(&self, mut visit: impl FnMut(&str, &str, u64)) {
        for pair in &self.pairs {
            if pair.postings.len() > 0 {
                visit(
                    &self.names[pair.name as usize].text,
                    &pair.value,
                    pair.postings.len(),
                );
            }
        }
    }

    /// Estimated from counts, because it is asked for at each new series: a pair list takes about
    /// two bytes a label, a posting as much.
    pub(crate) fn heap_bytes(&self) -> usize {
        let pairs = self.pairs.capacity() * (size_of::<Pair>() + 8);
        self.text_bytes + pairs + self.all.len() as usize * SERIES_LABEL_BYTES
    }

    fn pair_number(&mut self, name: &str, value: &str) -> u32 {
        if let Some(pair) = self.find_pair(name, value) {
            return pair;
        }
        let name_number = self.name_number(name);
        let pair = Pair {
            name: name_number,
            value: value.into(),
            postings: Postings::None,
        };
        self.text_bytes += value.len();
        let number = match self.free_pairs.pop() {
            Some(number) => {
                self.pairs[number as usize] = pair;
                number
            }
            None => {
                self.pairs.push(pair);
                self.pairs.len() as u32 - 1
            }
        };
        self.names[name_number as usize].pairs.push(number);
        let hash = self.pair_hash(number);
        let (pairs, names, hasher) = (&self.pairs, &self.names, &self.hasher);
        self.by_pair.insert_unique(hash, number, |p| {
            let pair = &pairs[*p as usize];
            hasher.hash_one((&*names[pair.name as usize].text, &*pair.value))
        });
        number
    }

    fn name_number(&mut self, name: &str) -> u32 {
        if let Some(number) = self.find_name(name) {
            return number;
        }
        let number = self.names.len() as u32;
        self.text_bytes += name.len();
        self.names.push(Name {
            text: name.into(),
            pairs: Vec::new(),
        });
        let (names, hasher) = (&self.names, &self.hasher);
        let hash = hasher.hash_one(name);
        self.by_name
            .insert_unique(hash, number, |n| hasher.hash_one(&*names[*n as usize].text));
        number
    }

    fn find_name(&self, name: &str) -> Option<u32> {
        let hash = self.hasher.hash_one(name);
        self.by_name
            .find(hash, |n| *self.names[*n as usize].text == *name)
            .copied()
    }

    fn find_pair(&self, name: &str, value: &str) -> Option<u32> {
        let hash = self.hasher.hash_one((name, value));
        self.by_pair
            .find(hash, |p| self.pair(*p) == (name, value))
            .copied()
    }

    fn pair_hash(&self, number: u32) -> u64 {
        self.hasher.hash_one(self.pair(number))
    }
}

impl LabelPage {
    fn new() -> Self {
        Self {
            starts: vec![0; PAGE_SERIES].into(),
            lists: Vec::new(),
            garbage: 0,
        }
    }

    fn insert(&mut self, at: usize, pairs: &[u32]) {
        self.starts[at] = self.lists.len() as u32 + 1;
        push_varint(&mut self.lists, pairs.len() as u64);
        for pair in pairs {
            push_varint(&mut self.lists, (*pair).into());
        }
    }

    fn remove(&mut self, at: usize) {
        if self.starts[at] == 0 {
            return;
        }
        let list: Vec<u32> = self.list(at).collect();
        self.starts[at] = 0;
        self.garbage += 1 + 3 * list.len();
        if self.garbage > self.lists.len() / 2 {
            self.compact();
        }
    }

    fn compact(&mut self) {
        let old: Vec<(usize, Vec<u32>)> = (0..PAGE_SERIES)
            .filter(|at| self.starts[*at] != 0)
            .map(|at| (at, self.list(at).collect()))
            .collect();
        self.lists = Vec::new();
        self.garbage = 0;
        for (at, pairs) in old {
            self.insert(at, &pairs);
        }
    }

    fn list(&self, at: usize) -> impl Iterator<Item = u32> {
        let start = self.starts[at];
        let mut rest = match start {
            0 => &[][..],
            start => &self.lists[start as usize - 1..],
        };
        // A list is written here alone; one that is empty has no bytes and ends at once.
        let mut next = move || take_varint(&mut rest).map_or(0, |number| number as u32);
        (0..next()).map(move |_| next())
    }
}
