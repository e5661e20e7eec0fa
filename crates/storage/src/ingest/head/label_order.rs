//! Label order: metric name first, then pair by pair.
//!
//! Comparing strings for every pair of series would be slow: the pairs in use are ranked once, and
//! series are compared by their lists of ranks.

use std::ops::Range;

use icecore_model::METRIC_NAME;

use super::index::Index;
use super::label_table::LabelTable;
use super::registry::SeriesRef;

/// Series in label order, with their pairs as ranks.
pub(crate) struct LabelOrder {
    series: Vec<SeriesRef>,
    /// Pair numbers by rank.
    pairs: Vec<u32>,
    /// Ranks of all series, one list after the other; where each list ends.
    ranks: Vec<u32>,
    ends: Vec<u32>,
}

impl LabelOrder {
    pub(crate) fn new(index: &Index, series: &[SeriesRef]) -> Self {
        let ranked = Ranked::new(index, series);
        let sorted = ranked.sorted();
        let mut ranks = Vec::with_capacity(ranked.ranks.len());
        let mut sorted_ends = Vec::with_capacity(ranked.ends.len());
        for at in &sorted {
            ranks.extend_from_slice(list_at(&ranked.ranks, &ranked.ends, *at as usize));
            sorted_ends.push(ranks.len() as u32);
        }
        Self {
            series: sorted.iter().map(|at| series[*at as usize]).collect(),
            pairs: ranked.pairs,
            ranks,
            ends: sorted_ends,
        }
    }

    /// The series in label order.
    pub(crate) fn series(&self) -> &[SeriesRef] {
        &self.series
    }

    /// Pair numbers in the order of (name, value), each pair in use once.
    pub(crate) fn pairs(&self) -> &[u32] {
        &self.pairs
    }

    /// The pairs of the series at a place of the order, as indexes into [`LabelOrder::pairs`].
    pub(crate) fn ranks(&self, at: usize) -> &[u32] {
        list_at(&self.ranks, &self.ends, at)
    }
}

/// Series in the order in which they were given, with their pairs as ranks. Sorting them needs the
/// index no more.
pub(super) struct Ranked {
    pairs: Vec<u32>,
    ranks: Vec<u32>,
    ends: Vec<u32>,
    /// The ranks of metric names.
    names: Range<u32>,
}

impl Ranked {
    pub(super) fn new(index: &Index, series: &[SeriesRef]) -> Self {
        let mut ranks = Vec::with_capacity(series.len() * 8);
        let mut ends = Vec::with_capacity(series.len());
        for r in series {
            ranks.extend(index.pairs_of(*r));
            ends.push(ranks.len() as u32);
        }
        let mut used = vec![false; index.pair_numbers()];
        ranks.iter().for_each(|pair| used[*pair as usize] = true);
        let mut pairs: Vec<u32> = (0..used.len() as u32)
            .filter(|p| used[*p as usize])
            .collect();
        pairs.sort_unstable_by_key(|pair| index.pair(*pair));
        let mut rank_of = vec![0; used.len()];
        for (rank, pair) in pairs.iter().enumerate() {
            rank_of[*pair as usize] = rank as u32;
        }
        ranks
            .iter_mut()
            .for_each(|number| *number = rank_of[*number as usize]);
        let name_of = |pair: &u32| index.pair(*pair).0;
        let first = pairs.partition_point(|pair| name_of(pair) < METRIC_NAME) as u32;
        let end = pairs.partition_point(|pair| name_of(pair) <= METRIC_NAME) as u32;
        Self {
            pairs,
            ranks,
            ends,
            names: first..end,
        }
    }

    /// Where each series stood, in label order.
    pub(super) fn sorted(&self) -> Vec<u32> {
        // As many ranks as fit are compared as one number; following both lists costs a cache miss
        // each.
        let bits = usize::BITS - self.pairs.len().leading_zeros();
        let places = (u128::BITS - 1) / bits.max(1);
        let list = |at: u32| list_at(&self.ranks, &self.ends, at as usize);
        let key = |at: u32| {
            let mut key = 0u128;
            let mut ranks = list(at).iter();
            for _ in 0..places {
                // A list that ends here comes before all that go on.
                let rank = ranks.next().map_or(0, |rank| u128::from(*rank) + 1);
                key = key << bits | rank;
            }
            // Series without a metric name come first, as if their name were empty.
            let named = list(at).first().is_some_and(|r| self.names.contains(r));
            (key | u128::from(named) << (u128::BITS - 1), at)
        };
        let mut sorted: Vec<(u128, u32)> = (0..self.ends.len() as u32).map(key).collect();
        sorted.sort_unstable_by(|(a, a_at), (b, b_at)| {
            a.cmp(b).then_with(|| list(*a_at).cmp(list(*b_at)))
        });
        sorted.into_iter().map(|(_, at)| at).collect()
    }

    /// The label sets in the given order of places.
    pub(super) fn table(&self, index: &Index, order: &[u32]) -> LabelTable {
        let pairs = self.pairs.iter().map(|pair| index.pair(*pair));
        let lists = order.iter();
        let lists = lists.map(|at| list_at(&self.ranks, &self.ends, *at as usize));
        LabelTable::new(pairs, lists)
    }
}

fn list_at<'l>(lists: &'l [u32], ends: &[u32], at: usize) -> &'l [u32] {
    let start = if at == 0 { 0 } else { ends[at - 1] as usize };
    &lists[start..ends[at] as usize]
}

#[cfg(test)]
mod tests {
    use icecore_model::Labels;
    use proptest::prelude::*;

    use super::*;

    fn sets() -> impl Strategy<Value = Vec<Labels>> {
        // More labels than fit into one number, so that the end of the lists decides, too.
        let long = prop::collection::vec(0..3u8, 30);
        let long = long.prop_map(|values| {
            let pairs = values.iter().enumerate();
            Labels::from_pairs(
                pairs.map(|(i, value)| (format!("n{i:02}"), "v".repeat(*value as usize))),
            )
        });
        let short = prop::collection::vec(("(__name__|[A-c_]{1,2})", "[a-cé]{1,2}"), 0..6);
        let short = short.prop_map(Labels::from_pairs);
        prop::collection::vec(prop_oneof![long, short], 0..40)
    }

    proptest! {
        #[test]
        fn the_order_and_the_table_are_those_of_label_sets(mut sets in sets()) {
            let mut index = Index::default();
            sets.sort_by_key(Labels::fingerprint);
            sets.dedup();
            for (number, labels) in sets.iter().enumerate() {
                index.insert(SeriesRef(number as u32), &labels.iter().collect::<Vec<_>>());
            }
            let references: Vec<SeriesRef> = (0..sets.len() as u32).map(SeriesRef).collect();
            let ranked = Ranked::new(&index, &references);
            let order = ranked.sorted();
            let table = ranked.table(&index, &order);
            let found: Vec<Labels> = order.iter().map(|at| sets[*at as usize].clone()).collect();
            prop_assert_eq!(table.labels(0..table.len()), found.clone());
            sets.sort();
            prop_assert_eq!(found, sets);
        }
    }
}
