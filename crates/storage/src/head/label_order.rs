//! Label order: metric name first, then pair by pair.
//!
//! Comparing strings for every pair of series would be slow: the pairs in use are ranked once, and
//! series are compared by their lists of ranks.

use std::ops::Range;

use icecore_model::METRIC_NAME;

use super::index::Index;
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
        let key = |at: &u32| {
            let list = list_at(&self.ranks, &self.ends, *at as usize);
            // Series without a metric name come first, as if their name were empty.
            let named = list.first().is_some_and(|rank| self.names.contains(rank));
            (named, list)
        };
        let mut sorted: Vec<u32> = (0..self.ends.len() as u32).collect();
        sorted.sort_unstable_by(|a, b| key(a).cmp(&key(b)));
        sorted
    }
}

fn list_at<'l>(lists: &'l [u32], ends: &[u32], at: usize) -> &'l [u32] {
    let start = if at == 0 { 0 } else { ends[at - 1] as usize };
    &lists[start..ends[at] as usize]
}
