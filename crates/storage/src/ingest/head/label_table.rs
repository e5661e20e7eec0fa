//! Label sets of many series, made when somebody asks for them.
//!
//! A million label sets take 350 MB and most of a second to make and to free; as lists of numbers
//! of their pairs they take 40 MB, and each batch of an answer makes its own.

use std::collections::HashMap;
use std::hash::Hash;
use std::ops::Range;

use icecore_model::{Labels, METRIC_NAME};

/// The label sets of a selection, in its order.
pub(crate) enum SeriesLabels {
    Made(Vec<Labels>),
    /// Of more series than the cache has room for.
    Table(LabelTable),
}

impl Default for SeriesLabels {
    fn default() -> Self {
        Self::Made(Vec::new())
    }
}

impl SeriesLabels {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Made(labels) => labels.len(),
            Self::Table(table) => table.len(),
        }
    }

    /// The label sets of neighbouring series.
    pub(crate) fn of(&self, series: Range<usize>) -> Vec<Labels> {
        match self {
            Self::Made(labels) => labels[series].to_vec(),
            Self::Table(table) => table.labels(series),
        }
    }

    /// Visits the pairs of all of them, some more than once.
    pub(crate) fn each_pair(&self, mut visit: impl FnMut(&str, &str)) {
        match self {
            Self::Made(labels) => {
                let pairs = labels.iter().flat_map(Labels::iter);
                pairs.for_each(|(name, value)| visit(name, value));
            }
            Self::Table(table) => {
                let pairs = (0..table.pair_ends.len()).map(|pair| table.pair(pair));
                pairs.for_each(|(name, value)| visit(name, value));
            }
        }
    }

    /// Every pair with the number of series that have it, in no order.
    pub(crate) fn count_pairs(&self) -> Vec<((&str, &str), u64)> {
        match self {
            Self::Made(labels) => counted(labels.iter().flat_map(Labels::iter)),
            Self::Table(table) => {
                let counts = table.counts((0..table.len()).flat_map(|at| table.list(at)));
                let counts = counts.into_iter().enumerate();
                let counts = counts.filter(|(_, count)| *count > 0);
                counts.map(|(pair, n)| (table.pair(pair), n)).collect()
            }
        }
    }

    /// The metrics of series that have a label, each with the number of these, in no order.
    pub(crate) fn count_metrics_with(&self, label: &str) -> Vec<(&str, u64)> {
        match self {
            Self::Made(labels) => {
                let having = labels.iter().filter(|it| it.get(label).is_some());
                counted(having.map(Labels::metric_name))
            }
            Self::Table(table) => table.count_metrics_with(label),
        }
    }

    /// Bytes held, label sets that others hold, too, included.
    pub(crate) fn heap_bytes(&self) -> usize {
        match self {
            Self::Made(labels) => labels
                .iter()
                .map(|l| size_of::<Labels>() + l.heap_bytes())
                .sum(),
            Self::Table(table) => table.heap_bytes(),
        }
    }

    /// Forgets those behind the first `len`.
    pub(crate) fn truncate(&mut self, len: usize) {
        match self {
            Self::Made(labels) => labels.truncate(len),
            Self::Table(table) => table.list_ends.truncate(len),
        }
    }

    /// All of them, made.
    pub(crate) fn into_made(self) -> Vec<Labels> {
        match self {
            Self::Made(labels) => labels,
            Self::Table(table) => table.labels(0..table.len()),
        }
    }
}

#[derive(Default)]
pub(crate) struct LabelTable {
    /// Names and values of the pairs in use, one after the other.
    text: String,
    /// Where name and value of each pair end in `text`.
    pair_ends: Vec<(usize, usize)>,
    /// Per series the numbers of its pairs, metric name first, then in label order.
    lists: Vec<u32>,
    list_ends: Vec<u32>,
}

impl LabelTable {
    pub(super) fn new<'p>(
        pairs: impl Iterator<Item = (&'p str, &'p str)>,
        lists: impl Iterator<Item = &'p [u32]>,
    ) -> Self {
        let mut table = Self::default();
        for (name, value) in pairs {
            table.text.push_str(name);
            let name_end = table.text.len();
            table.text.push_str(value);
            table.pair_ends.push((name_end, table.text.len()));
        }
        for list in lists {
            table.lists.extend_from_slice(list);
            table.list_ends.push(table.lists.len() as u32);
        }
        table
    }

    pub(crate) fn len(&self) -> usize {
        self.list_ends.len()
    }

    /// Makes the label sets of neighbouring series.
    pub(crate) fn labels(&self, series: Range<usize>) -> Vec<Labels> {
        let mut pairs = Vec::new();
        let make = |at: usize| {
            pairs.clear();
            pairs.extend(self.list(at).iter().map(|pair| self.pair(*pair as usize)));
            name_in_place(&mut pairs);
            Labels::from_sorted(pairs.iter().copied())
        };
        series.map(make).collect()
    }

    /// How often each pair is among these.
    fn counts<'p>(&self, pairs: impl Iterator<Item = &'p u32>) -> Vec<u64> {
        let mut counts = vec![0; self.pair_ends.len()];
        pairs.for_each(|pair| counts[*pair as usize] += 1);
        counts
    }

    fn count_metrics_with(&self, label: &str) -> Vec<(&str, u64)> {
        let pairs = (0..self.pair_ends.len()).map(|pair| self.pair(pair).0);
        let of_label: Vec<bool> = pairs.map(|name| name == label).collect();
        let having = || {
            let lists = (0..self.len()).map(|at| self.list(at));
            lists.filter(|list| list.iter().any(|pair| of_label[*pair as usize]))
        };
        // The metric name is first, where there is one.
        let counts = self.counts(having().filter_map(|list| list.first()));
        let counts = counts.into_iter().enumerate();
        let named = counts.filter(|(pair, n)| *n > 0 && self.pair(*pair).0 == METRIC_NAME);
        let mut metrics: Vec<(&str, u64)> = named.map(|(pair, n)| (self.pair(pair).1, n)).collect();
        let of_metrics: u64 = metrics.iter().map(|(_, n)| n).sum();
        let without = having().count() as u64 - of_metrics;
        if without > 0 {
            metrics.push(("", without));
        }
        metrics
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.text.capacity()
            + self.pair_ends.capacity() * size_of::<(usize, usize)>()
            + (self.lists.capacity() + self.list_ends.capacity()) * size_of::<u32>()
    }

    fn list(&self, at: usize) -> &[u32] {
        let start = match at {
            0 => 0,
            _ => self.list_ends[at - 1] as usize,
        };
        &self.lists[start..self.list_ends[at] as usize]
    }

    fn pair(&self, pair: usize) -> (&str, &str) {
        let start = match pair {
            0 => 0,
            _ => self.pair_ends[pair - 1].1,
        };
        let (name_end, end) = self.pair_ends[pair];
        (&self.text[start..name_end], &self.text[name_end..end])
    }
}

/// Puts a metric name that was moved to the front back where the order of names has it.
pub(super) fn name_in_place(pairs: &mut [(&str, &str)]) {
    if pairs.len() > 1 && pairs[0].0 == METRIC_NAME {
        let at = pairs[1..].partition_point(|(name, _)| *name < METRIC_NAME);
        pairs[..=at].rotate_left(1);
    }
}

fn counted<T: Eq + Hash>(items: impl Iterator<Item = T>) -> Vec<(T, u64)> {
    let mut counts: HashMap<T, u64> = HashMap::new();
    items.for_each(|item| *counts.entry(item).or_default() += 1);
    counts.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Metric, zone and another label; one series has no metric, one no zone.
    fn table() -> LabelTable {
        let pairs = [
            (METRIC_NAME, "up"),
            (METRIC_NAME, "down"),
            ("zone", "a"),
            ("zone", "b"),
            ("A", "first"),
            ("unused", "x"),
        ];
        let lists: [&[u32]; 5] = [&[0, 4, 2], &[0, 2], &[1, 3], &[0], &[2]];
        LabelTable::new(pairs.into_iter(), lists.into_iter())
    }

    fn sorted<T: Ord>(mut items: Vec<T>) -> Vec<T> {
        items.sort_unstable();
        items
    }

    #[test]
    fn pairs_are_counted_alike_in_both_forms() {
        let made = SeriesLabels::Made(table().labels(0..5));
        let table = SeriesLabels::Table(table());
        let expected = [
            (("A", "first"), 1),
            ((METRIC_NAME, "down"), 1),
            ((METRIC_NAME, "up"), 3),
            (("zone", "a"), 3),
            (("zone", "b"), 1),
        ];
        for labels in [&made, &table] {
            assert_eq!(sorted(labels.count_pairs()), expected);
            let with_zone = sorted(labels.count_metrics_with("zone"));
            assert_eq!(with_zone, [("", 1), ("down", 1), ("up", 2)]);
            assert_eq!(labels.count_metrics_with("A"), [("up", 1)]);
            assert_eq!(labels.count_metrics_with("none"), []);
            let with_name = sorted(labels.count_metrics_with(METRIC_NAME));
            assert_eq!(with_name, [("down", 1), ("up", 3)]);
        }
    }

    #[test]
    fn what_is_cut_off_does_not_count() {
        let mut labels = SeriesLabels::Table(table());
        labels.truncate(1);
        let counts = sorted(labels.count_pairs());
        assert_eq!(
            counts,
            [
                (("A", "first"), 1),
                ((METRIC_NAME, "up"), 1),
                (("zone", "a"), 1)
            ]
        );
        assert_eq!(labels.count_metrics_with("zone"), [("up", 1)]);
    }
}
