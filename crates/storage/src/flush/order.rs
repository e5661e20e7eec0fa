//! Label order: metric name first, then pair by pair.
//!
//! Comparing strings for every pair of series would be slow: the pairs in use are ranked once, and
//! series are compared by their lists of ranks.

use crate::head::{Index, SeriesRef};

/// Series in label order, with their pairs as ranks.
pub(super) struct LabelOrder {
    series: Vec<SeriesRef>,
    /// Pair numbers by rank.
    pairs: Vec<u32>,
    /// Ranks of all series, one list after the other; where each list ends.
    ranks: Vec<u32>,
    ends: Vec<u32>,
}

impl LabelOrder {
    pub(super) fn new(index: &Index, series: &[SeriesRef]) -> Self {
        let mut numbers = Vec::with_capacity(series.len() * 8);
        let mut ends = Vec::with_capacity(series.len());
        for r in series {
            numbers.extend(index.pairs_of(*r));
            ends.push(numbers.len() as u32);
        }
        let mut used = vec![false; index.pair_numbers()];
        numbers.iter().for_each(|pair| used[*pair as usize] = true);
        let mut pairs: Vec<u32> = (0..used.len() as u32)
            .filter(|p| used[*p as usize])
            .collect();
        pairs.sort_unstable_by_key(|pair| index.pair(*pair));
        let mut rank_of = vec![0; used.len()];
        for (rank, pair) in pairs.iter().enumerate() {
            rank_of[*pair as usize] = rank as u32;
        }
        numbers
            .iter_mut()
            .for_each(|number| *number = rank_of[*number as usize]);
        let list = |at: usize| list_at(&numbers, &ends, at);
        let mut sorted: Vec<u32> = (0..series.len() as u32).collect();
        sorted.sort_unstable_by(|a, b| list(*a as usize).cmp(list(*b as usize)));
        let mut ranks = Vec::with_capacity(numbers.len());
        let mut sorted_ends = Vec::with_capacity(ends.len());
        for at in &sorted {
            ranks.extend_from_slice(list(*at as usize));
            sorted_ends.push(ranks.len() as u32);
        }
        let series = sorted.iter().map(|at| series[*at as usize]).collect();
        Self {
            series,
            pairs,
            ranks,
            ends: sorted_ends,
        }
    }

    /// The series in label order.
    pub(super) fn series(&self) -> &[SeriesRef] {
        &self.series
    }

    /// Pair numbers in the order of (name, value), each pair in use once.
    pub(super) fn pairs(&self) -> &[u32] {
        &self.pairs
    }

    /// The pairs of the series at a place of the order, as indexes into [`LabelOrder::pairs`].
    pub(super) fn ranks(&self, at: usize) -> &[u32] {
        list_at(&self.ranks, &self.ends, at)
    }
}

fn list_at<'l>(lists: &'l [u32], ends: &[u32], at: usize) -> &'l [u32] {
    let start = if at == 0 { 0 } else { ends[at - 1] as usize };
    &lists[start..ends[at] as usize]
}
