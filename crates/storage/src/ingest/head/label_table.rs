//! Label sets of many series, made when somebody asks for them.
//!
//! A million label sets take 350 MB and most of a second to make and to free; as lists of numbers
//! of their pairs they take 40 MB, and each batch of an answer makes its own.

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
