//! Lists of series become one, with one entry per label set.
//!
//! Buckets that follow one another have nearly the same series in the same order, so the next one
//! of a list is usually the next one of the union; only where that fails is it looked up by
//! fingerprint.

use std::ops::Range;

use hashbrown::HashTable;
use icecore_model::Labels;
use rayon::prelude::*;

/// Bytes of an entry, as it was added and as it is sorted.
pub(super) const UNION_ENTRY_BYTES: usize = size_of::<(u32, u32, u32)>() + size_of::<(u32, u32)>();

pub(super) struct Union {
    series: Vec<Labels>,
    /// How many of `series` the first list has.
    first: usize,
    /// Series, list, and number in that list.
    entries: Vec<(u32, u32, u32)>,
    /// Made when a guess fails.
    by_labels: Option<HashTable<u32>>,
}

/// A series of the union.
pub(super) struct UnionSeries {
    pub(super) labels: Labels,
    /// Its place in the first list.
    pub(super) first: Option<u32>,
    /// Its entries of the other lists.
    pub(super) others: Range<u32>,
}

impl Union {
    /// Begins with a list of different series.
    pub(super) fn new(first: Vec<Labels>) -> Self {
        Self {
            first: first.len(),
            series: first,
            entries: Vec::new(),
            by_labels: None,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.series.len()
    }

    /// Adds a list of different series, each with its number there.
    pub(super) fn add(&mut self, list: u32, found: impl Iterator<Item = (Labels, u32)>) {
        let known = self.series.len();
        let mut guess = 0;
        for (labels, number) in found {
            let place = match self.series.get(guess) {
                Some(next) if guess < known && *next == labels => guess,
                _ if known == 0 => {
                    self.series.push(labels);
                    self.series.len() - 1
                }
                _ => self.find_or_add(labels),
            };
            if place < known {
                guess = place + 1;
            }
            self.entries.push((place as u32, list, number));
        }
    }

    fn find_or_add(&mut self, labels: Labels) -> usize {
        let series = &mut self.series;
        let hash_of = |labels: &Labels| labels.fingerprint() as u64;
        let table = self.by_labels.get_or_insert_with(|| {
            let mut table = HashTable::with_capacity(series.len());
            for (place, labels) in series.iter().enumerate() {
                let hash = |place: &u32| hash_of(&series[*place as usize]);
                table.insert_unique(hash_of(labels), place as u32, hash);
            }
            table
        });
        let hash = hash_of(&labels);
        if let Some(place) = table.find(hash, |place| series[*place as usize] == labels) {
            return *place as usize;
        }
        let place = series.len();
        series.push(labels);
        table.insert_unique(hash, place as u32, |p| hash_of(&series[*p as usize]));
        place
    }

    /// At most `limit` series in label order, and the entries that they refer to as (list, number):
    /// one series after the other, in the order of the lists.
    pub(super) fn into_series(self, limit: usize) -> (Vec<UnionSeries>, Vec<(u32, u32)>) {
        let Self {
            series,
            first,
            entries,
            ..
        } = self;
        let mut order: Vec<u32> = (0..series.len() as u32).collect();
        if !series.is_sorted() {
            // Stable, because that makes use of the sorted stretches that each list has brought.
            order.par_sort_by(|a, b| series[*a as usize].cmp(&series[*b as usize]));
        }
        let mut rank_of = vec![0u32; series.len()];
        for (rank, place) in order.iter().enumerate() {
            rank_of[*place as usize] = rank as u32;
        }
        let rank = |place: u32| rank_of[place as usize] as usize;
        let mut starts = vec![0u32; series.len() + 1];
        for (place, ..) in &entries {
            starts[rank(*place) + 1] += 1;
        }
        for rank in 0..series.len() {
            starts[rank + 1] += starts[rank];
        }
        let mut next = starts.clone();
        let mut sorted = vec![(0, 0); entries.len()];
        for (place, list, number) in entries {
            let at = &mut next[rank(place)];
            sorted[*at as usize] = (list, number);
            *at += 1;
        }
        let united = order.iter().take(limit).enumerate();
        let united = united.map(|(rank, place)| UnionSeries {
            labels: series[*place as usize].clone(),
            first: ((*place as usize) < first).then_some(*place),
            others: starts[rank]..starts[rank + 1],
        });
        (united.collect(), sorted)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn labels(number: u32) -> Labels {
        Labels::from_pairs([("n", format!("{number:03}"))])
    }

    proptest! {
        #[test]
        fn a_union_is_what_a_map_would_hold(
            lists in prop::collection::vec(prop::collection::btree_set(0u32..20, 0..20), 1..5),
            backwards in any::<bool>(),
        ) {
            let mut union = Union::new(lists[0].iter().map(|n| labels(*n)).collect());
            let mut expected: BTreeMap<u32, Vec<(u32, u32)>> = BTreeMap::new();
            lists[0].iter().for_each(|n| { expected.entry(*n).or_default(); });
            for (at, list) in lists.iter().enumerate().skip(1) {
                let mut numbers: Vec<u32> = list.iter().copied().collect();
                if backwards {
                    numbers.reverse();
                }
                union.add(at as u32, numbers.iter().map(|n| (labels(*n), n + 100)));
                for n in list {
                    expected.entry(*n).or_default().push((at as u32, n + 100));
                }
            }
            let (series, entries) = union.into_series(usize::MAX);
            prop_assert_eq!(series.len(), expected.len());
            for (united, (n, places)) in series.iter().zip(&expected) {
                prop_assert_eq!(&united.labels, &labels(*n));
                let range = united.others.start as usize..united.others.end as usize;
                prop_assert_eq!(&entries[range], places.as_slice());
                let first = lists[0].iter().position(|m| m == n).map(|at| at as u32);
                prop_assert_eq!(united.first, first);
            }
        }
    }
}
