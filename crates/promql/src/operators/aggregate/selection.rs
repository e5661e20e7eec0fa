//! Aggregations that select rows step by step: `topk`, `bottomk`, `limitk`, `limit_ratio`.

use std::cmp::Ordering;

use icecore_model::Labels;
use xxhash_rust::xxh64::xxh64;

use super::groups::Groups;
use super::{Accumulator, Annotate};
use crate::annotations::Annotation;
use crate::error::Result;
use crate::exec::{Row, Values, is_absent};

/// `topk` and `bottomk`.
pub(super) struct TopK<'a> {
    groups: Groups,
    /// `k` of each step.
    counts: Vec<usize>,
    largest: bool,
    /// Rows that no step selects are dropped at once, not at the end.
    drops_early: bool,
    name: &'static str,
    annotate: Annotate<'a>,
    /// Rows by number, with the count of steps that select them.
    rows: Vec<Option<(Row, usize)>>,
    /// For each group and step the selected rows.
    chosen: Vec<Vec<StepHeap>>,
    /// For each group and step the value that another one must beat; NaN while fewer than `k` are
    /// selected.
    to_beat: Vec<Vec<f64>>,
    held: usize,
}

/// The best values of a step with the numbers of their rows: a binary heap with the worst on top.
/// Which of several equal values is dropped first depends on the heap's moves. They are those of
/// Go's `container/heap`, so that the same rows are selected as in Prometheus.
type StepHeap = Vec<(f64, usize)>;

impl<'a> TopK<'a> {
    pub(super) fn new(
        groups: Groups,
        counts: Vec<usize>,
        largest: bool,
        drops_early: bool,
        name: &'static str,
        annotate: Annotate<'a>,
    ) -> Self {
        Self {
            groups,
            counts,
            largest,
            drops_early,
            name,
            annotate,
            rows: Vec::new(),
            chosen: Vec::new(),
            to_beat: Vec::new(),
            held: 0,
        }
    }

    fn add_row(&mut self, row: Row) {
        let group = self.groups.of(&row);
        let steps = self.counts.len();
        if group == self.chosen.len() {
            self.chosen.push(vec![Vec::new(); steps]);
            self.to_beat.push(vec![f64::NAN; steps]);
        }
        let ignored =
            |(step, count): (usize, &usize)| *count > 0 && row.values.histogram(step).is_some();
        if row.values.has_histograms() && self.counts.iter().enumerate().any(ignored) {
            (self.annotate)(Annotation::HistogramIgnoredInAggregation(self.name));
        }
        let number = self.rows.len();
        let mut uses = 0;
        let (chosen, to_beat) = (&mut self.chosen[group], &mut self.to_beat[group]);
        for (step, (value, to_beat)) in row.values.floats.iter().zip(to_beat).enumerate() {
            // Most values are not good enough, so this is checked first. Comparisons with NaN are
            // false.
            let is_beaten = if self.largest {
                *value <= *to_beat
            } else {
                *value >= *to_beat
            };
            if is_beaten || is_absent(*value) || self.counts[step] == 0 {
                continue;
            }
            let chosen = &mut chosen[step];
            if chosen.len() < self.counts[step] {
                chosen.push((*value, number));
                sift_up(chosen, self.largest);
            } else {
                let Some(worst) = chosen.first_mut() else {
                    continue;
                };
                if !is_better(*value, worst.0, self.largest) {
                    continue;
                }
                let (_, loser) = std::mem::replace(worst, (*value, number));
                sift_down(chosen, self.largest);
                drop_use(&mut self.rows, loser, self.drops_early, &mut self.held);
            }
            if chosen.len() >= self.counts[step] {
                *to_beat = chosen.first().map_or(f64::NAN, |(worst, _)| *worst);
            }
            uses += 1;
        }
        let keep = uses > 0 || !self.drops_early;
        if keep {
            self.held += row.heap_bytes();
        }
        self.rows.push(keep.then_some((row, uses)));
    }
}

/// Whether an entry of the heap belongs above another: NaN always does, even above NaN.
fn is_worse(heap: &StepHeap, place: usize, than: usize, largest: bool) -> bool {
    heap[place].0.is_nan() || is_better(heap[than].0, heap[place].0, largest)
}

/// Moves the last entry of the heap up.
fn sift_up(heap: &mut StepHeap, largest: bool) {
    let mut place = heap.len() - 1;
    while place > 0 {
        let parent = (place - 1) / 2;
        if !is_worse(heap, place, parent, largest) {
            break;
        }
        heap.swap(parent, place);
        place = parent;
    }
}

/// Moves the first entry of the heap down.
fn sift_down(heap: &mut StepHeap, largest: bool) {
    let mut place = 0;
    loop {
        let (left, right) = (2 * place + 1, 2 * place + 2);
        if left >= heap.len() {
            break;
        }
        let child = if right < heap.len() && is_worse(heap, right, left, largest) {
            right
        } else {
            left
        };
        if !is_worse(heap, child, place, largest) {
            break;
        }
        heap.swap(place, child);
        place = child;
    }
}

/// A step no longer selects a row.
fn drop_use(rows: &mut [Option<(Row, usize)>], number: usize, drops_early: bool, held: &mut usize) {
    if let Some(Some((row, uses))) = rows.get_mut(number) {
        *uses = uses.saturating_sub(1);
        if *uses == 0 && drops_early {
            *held = held.saturating_sub(row.heap_bytes());
            rows[number] = None;
        }
    }
}

/// Whether a value replaces another. NaN is worse than everything.
fn is_better(value: f64, than: f64, largest: bool) -> bool {
    match (value.is_nan(), than.is_nan()) {
        (true, _) => false,
        (false, true) => true,
        (false, false) if largest => value > than,
        (false, false) => value < than,
    }
}

impl Accumulator for TopK<'_> {
    fn add(&mut self, rows: Vec<Row>) -> Result<()> {
        rows.into_iter().for_each(|row| self.add_row(row));
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Vec<Row> {
        let steps = self.counts.len();
        let mut picked: Vec<Option<Values>> = self.rows.iter().map(|_| None).collect();
        let mut order = Vec::new();
        for group in &mut self.chosen {
            for (step, chosen) in group.iter_mut().enumerate() {
                // Best first, which is the order of an instant query's answer.
                chosen.sort_by(|(a, _), (b, _)| {
                    let better = is_better(*a, *b, self.largest);
                    let worse = is_better(*b, *a, self.largest);
                    worse.cmp(&better)
                });
                for (value, number) in chosen.iter() {
                    let values = picked[*number].get_or_insert_with(|| {
                        order.push(*number);
                        Values::absent(steps)
                    });
                    values.floats[step] = *value;
                }
            }
        }
        let mut rows = self.rows;
        order
            .into_iter()
            .filter_map(|number| {
                let (row, _) = rows[number].take()?;
                let values = picked[number].take()?;
                Some(Row { values, ..row })
            })
            .collect()
    }

    fn heap_bytes(&self) -> usize {
        // A step of a group has a heap with a few entries, and the value to beat.
        let per_group = (24 + 64 + 8) * self.counts.len();
        self.held + self.groups.heap_bytes() + per_group * self.chosen.len()
    }
}

/// Rows that have a value left, and their memory.
#[derive(Default)]
struct KeptRows {
    rows: Vec<Row>,
    bytes: usize,
}

impl KeptRows {
    fn add(&mut self, row: Row) {
        if !row.values.is_empty() {
            self.bytes += row.heap_bytes();
            self.rows.push(row);
        }
    }
}

/// `limitk`: the first rows of each group that have a value.
pub(super) struct LimitK {
    groups: Groups,
    counts: Vec<usize>,
    /// For each group the number of rows selected at each step.
    taken: Vec<Vec<usize>>,
    kept: KeptRows,
}

impl LimitK {
    pub(super) fn new(groups: Groups, counts: Vec<usize>) -> Self {
        Self {
            groups,
            counts,
            taken: Vec::new(),
            kept: KeptRows::default(),
        }
    }
}

impl Accumulator for LimitK {
    fn add(&mut self, rows: Vec<Row>) -> Result<()> {
        for mut row in rows {
            let group = self.groups.of(&row);
            let steps = self.counts.len();
            self.taken.resize_with(self.groups.len(), || vec![0; steps]);
            let taken = &mut self.taken[group];
            for (step, (taken, count)) in taken.iter_mut().zip(&self.counts).enumerate() {
                if row.values.is_present(step) && *taken < *count {
                    *taken += 1;
                } else {
                    row.values.clear(step);
                }
            }
            self.kept.add(row);
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Vec<Row> {
        self.kept.rows
    }

    fn heap_bytes(&self) -> usize {
        let counts = 8 * self.counts.len() * self.taken.len();
        self.kept.bytes + self.groups.heap_bytes() + counts
    }
}

/// `limit_ratio`: about that fraction of the rows, the same ones every time; a negative ratio −r
/// selects the complement of 1 − r.
pub(super) struct LimitRatio {
    ratios: Vec<f64>,
    kept: KeptRows,
}

impl LimitRatio {
    pub(super) fn new(ratios: Vec<f64>) -> Self {
        Self {
            ratios,
            kept: KeptRows::default(),
        }
    }
}

impl Accumulator for LimitRatio {
    fn add(&mut self, rows: Vec<Row>) -> Result<()> {
        for mut row in rows {
            let hash = prometheus_hash(&row.labels) as f64 / u64::MAX as f64;
            for (step, ratio) in self.ratios.iter().enumerate() {
                let chosen = match ratio.partial_cmp(&0.0) {
                    Some(Ordering::Less) => hash >= 1.0 + ratio,
                    _ => hash < *ratio || *ratio == 1.0,
                };
                if !chosen {
                    row.values.clear(step);
                }
            }
            self.kept.add(row);
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Vec<Row> {
        self.kept.rows
    }

    fn heap_bytes(&self) -> usize {
        self.kept.bytes
    }
}

/// Prometheus' hash of a label set, so that the same series are selected: XXH64 over names and
/// values, each after its length.
fn prometheus_hash(labels: &Labels) -> u64 {
    let mut bytes = Vec::with_capacity(labels.heap_bytes());
    for (name, value) in labels.iter() {
        for text in [name, value] {
            match u8::try_from(text.len()) {
                Ok(length) if length < 255 => bytes.push(length),
                _ => {
                    bytes.push(255);
                    bytes.extend_from_slice(&(text.len() as u32).to_le_bytes()[..3]);
                }
            }
            bytes.extend_from_slice(text.as_bytes());
        }
    }
    xxh64(&bytes, 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::ABSENT;

    #[test]
    fn nan_is_never_better() {
        assert!(!is_better(f64::NAN, 1.0, true) && !is_better(f64::NAN, f64::NAN, false));
        assert!(is_better(1.0, f64::NAN, true) && is_better(1.0, f64::NAN, false));
        assert!(is_better(2.0, 1.0, true) && is_better(1.0, 2.0, false));
        assert!(!is_better(ABSENT, ABSENT, true));
    }
}
