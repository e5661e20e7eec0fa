//! Aggregations that select rows step by step: `topk`, `bottomk`, `limitk`, `limit_ratio`.

use std::cmp::Ordering;

use icecore_model::Labels;
use xxhash_rust::xxh64::xxh64;

use super::groups::Groups;
use super::{Accumulator, Annotate};
use crate::annotations::Annotation;
use crate::error::Result;
use crate::exec::{ABSENT, Row, is_absent};

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
    /// Numbers of rows that were dropped, for the next ones.
    free: Vec<usize>,
    /// For each group and step the selected rows.
    chosen: Vec<Vec<StepHeap>>,
    /// For each group and step the value that another one must beat; NaN while fewer than `k` are
    /// selected.
    to_beat: Vec<Vec<f64>>,
    /// Bytes of labels and values of the rows, and of the entries of the heaps.
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
            free: Vec::new(),
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
        let number = self.free.pop().unwrap_or_else(|| {
            self.rows.push(None);
            self.rows.len() - 1
        });
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
                self.held += make_room(chosen, self.counts[step]);
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
                if self.drops_early
                    && let Some(bytes) = drop_use(&mut self.rows, loser)
                {
                    self.held = self.held.saturating_sub(bytes);
                    self.free.push(loser);
                }
            }
            if chosen.len() >= self.counts[step] {
                *to_beat = chosen.first().map_or(f64::NAN, |(worst, _)| *worst);
            }
            uses += 1;
        }
        if uses > 0 || !self.drops_early {
            self.held += bytes_beside_slot(&row);
            self.rows[number] = Some((row, uses));
        } else {
            self.free.push(number);
        }
    }
}

/// Makes room for one more entry of at most `count`, and returns the bytes added.
fn make_room(heap: &mut StepHeap, count: usize) -> usize {
    let before = heap.capacity();
    if heap.len() == before {
        let more = before.max(4).min(count - heap.len());
        heap.reserve_exact(more);
    }
    size_of::<(f64, usize)>() * (heap.capacity() - before)
}

/// Bytes of a row besides those of the list that has it.
fn bytes_beside_slot(row: &Row) -> usize {
    row.labels.heap_bytes() + row.values.heap_bytes()
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

/// Takes one step from those that select a row. If there are none left, drops the row and returns
/// the bytes that it had.
fn drop_use(rows: &mut [Option<(Row, usize)>], number: usize) -> Option<usize> {
    let slot = rows.get_mut(number)?;
    let (row, uses) = slot.as_mut()?;
    *uses = uses.saturating_sub(1);
    if *uses > 0 {
        return None;
    }
    let bytes = bytes_beside_slot(row);
    *slot = None;
    Some(bytes)
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

    fn finish(self: Box<Self>) -> Vec<Row> {
        let Self {
            mut rows,
            chosen,
            largest,
            ..
        } = *self;
        // The heaps have the values that are selected, so that the rows can be cleared for them: a
        // copy would take as much memory again.
        for (row, uses) in rows.iter_mut().flatten() {
            row.values.floats.fill(ABSENT);
            row.values.histograms = Vec::new();
            *uses = 0;
        }
        let mut order = Vec::new();
        for group in chosen {
            for (step, mut chosen) in group.into_iter().enumerate() {
                // Best first, which is the order of an instant query's answer.
                chosen.sort_by(|(a, _), (b, _)| {
                    let better = is_better(*a, *b, largest);
                    let worse = is_better(*b, *a, largest);
                    worse.cmp(&better)
                });
                for (value, number) in chosen {
                    if let Some((row, uses)) = &mut rows[number] {
                        row.values.floats[step] = value;
                        if *uses == 0 {
                            order.push(number);
                        }
                        *uses += 1;
                    }
                }
            }
        }
        let ordered = order.into_iter();
        ordered
            .filter_map(|number| rows[number].take().map(|(row, _)| row))
            .collect()
    }

    fn heap_bytes(&self) -> usize {
        // A step of a group has a heap, and the value to beat.
        let per_group = (size_of::<StepHeap>() + 8) * self.counts.len();
        self.held
            + self.groups.heap_bytes()
            + per_group * self.chosen.len()
            + size_of::<Option<(Row, usize)>>() * self.rows.capacity()
            + 8 * self.free.capacity()
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
    use crate::exec::Values;
    use crate::plan::Grouping;

    const UNHEARD: Annotate<'static> = &|_| {};

    fn top_k(counts: Vec<usize>, drops_early: bool) -> TopK<'static> {
        let everything = Grouping {
            labels: Vec::new(),
            without: false,
        };
        let groups = Groups::new(&everything);
        TopK::new(groups, counts, true, drops_early, "topk", UNHEARD)
    }

    fn row(number: usize, floats: Vec<f64>) -> Row {
        Row {
            labels: Labels::from_pairs([("i", number.to_string())]),
            drop_name: false,
            values: Values {
                floats,
                histograms: Vec::new(),
            },
        }
    }

    #[test]
    fn entries_of_all_values_are_counted() {
        let (count, steps) = (100, 50);
        let rows = || (0..count).map(move |number| row(number, vec![number as f64; steps]));
        let values: usize = rows().map(|row| row.heap_bytes()).sum();
        for k in [count, usize::MAX] {
            let mut top = top_k(vec![k; steps], true);
            top.add(rows().collect()).unwrap();
            let entries = top.chosen[0].iter().map(|heap| 16 * heap.capacity());
            let entries: usize = entries.sum();
            assert!(entries >= 16 * count * steps);
            assert!(top.heap_bytes() >= values + entries);
            assert!(top.heap_bytes() <= 2 * (values + entries));
        }
        // The usual case: few rows are kept, and only they are held.
        let mut top = top_k(vec![10; steps], true);
        let after: Vec<usize> = rows()
            .map(|row| {
                top.add(vec![row]).unwrap();
                top.heap_bytes()
            })
            .collect();
        assert_eq!(after[20], after[count - 1]);
        assert!(top.chosen[0].iter().all(|heap| heap.capacity() < 16));
        assert_eq!(top.rows.len(), 11);
    }

    #[test]
    fn selected_rows_are_not_copied() {
        let input = [
            row(0, vec![1.0, ABSENT, 7.0]),
            row(1, vec![2.0, 5.0, 3.0]),
            row(2, vec![0.0, 4.0, 1.0]),
            row(3, vec![3.0, 6.0, 2.0]),
        ];
        for drops_early in [true, false] {
            let input = input.to_vec();
            let mut top = top_k(vec![1, 2, 1], drops_early);
            let places: Vec<*const f64> = input.iter().map(|r| r.values.floats.as_ptr()).collect();
            top.add(input).unwrap();
            let found = Box::new(top).finish();
            let bits = |floats: &[f64]| floats.iter().map(|f| f.to_bits()).collect::<Vec<_>>();
            let expected = [
                (3, [3.0, 6.0, ABSENT]),
                (1, [ABSENT, 5.0, ABSENT]),
                (0, [ABSENT, ABSENT, 7.0]),
            ];
            assert_eq!(found.len(), expected.len());
            for (row, (number, floats)) in found.iter().zip(expected) {
                assert_eq!(row.labels.get("i"), Some(number.to_string().as_str()));
                assert_eq!(bits(&row.values.floats), bits(&floats));
                assert_eq!(row.values.floats.as_ptr(), places[number]);
            }
        }
    }

    #[test]
    fn nan_is_never_better() {
        assert!(!is_better(f64::NAN, 1.0, true) && !is_better(f64::NAN, f64::NAN, false));
        assert!(is_better(1.0, f64::NAN, true) && is_better(1.0, f64::NAN, false));
        assert!(is_better(2.0, 1.0, true) && is_better(1.0, 2.0, false));
        assert!(!is_better(ABSENT, ABSENT, true));
    }
}
