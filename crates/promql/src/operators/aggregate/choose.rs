//! Aggregations that let some rows through, step by step: `topk`, `bottomk`, `limitk`, `limit_ratio`.

use std::cmp::Ordering;

use icecore_model::Labels;
use xxhash_rust::xxh64::xxh64;

use super::groups::Groups;
use super::{Fold, Say};
use crate::annotations::Note;
use crate::error::Result;
use crate::exec::{Row, Values, is_absent};

/// `topk` and `bottomk`.
pub(super) struct Extremes<'a> {
    groups: Groups,
    /// How many rows each step wants.
    counts: Vec<usize>,
    largest: bool,
    /// Rows that no step has chosen so far are dropped at once, not at the end.
    drops_early: bool,
    name: &'static str,
    say: Say<'a>,
    /// Rows by number, with the count of steps that have them chosen.
    rows: Vec<Option<(Row, usize)>>,
    /// For each group and step what is chosen.
    chosen: Vec<Vec<Chosen>>,
    /// For each group and step the value that another one must beat; NaN while any will do.
    to_beat: Vec<Vec<f64>>,
    held: usize,
}

/// The best values of a step with the numbers of their rows, the worst of them first.
type Chosen = Vec<(f64, usize)>;

impl<'a> Extremes<'a> {
    pub(super) fn new(
        groups: Groups,
        counts: Vec<usize>,
        largest: bool,
        drops_early: bool,
        name: &'static str,
        say: Say<'a>,
    ) -> Self {
        Self {
            groups,
            counts,
            largest,
            drops_early,
            name,
            say,
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
            (self.say)(Note::HistogramIgnoredInAggregation(self.name));
        }
        let number = self.rows.len();
        let mut uses = 0;
        let (chosen, to_beat) = (&mut self.chosen[group], &mut self.to_beat[group]);
        for (step, (value, to_beat)) in row.values.floats.iter().zip(to_beat).enumerate() {
            // Most values are not good enough, so this is asked first. Comparing with NaN says no.
            let is_beaten = match self.largest {
                true => *value <= *to_beat,
                false => *value >= *to_beat,
            };
            if is_beaten || is_absent(*value) || self.counts[step] == 0 {
                continue;
            }
            let chosen = &mut chosen[step];
            if chosen.len() >= self.counts[step] {
                match chosen.first() {
                    Some((worst, _)) if is_better(*value, *worst, self.largest) => {}
                    _ => continue,
                }
                let (_, loser) = chosen.remove(0);
                release(&mut self.rows, loser, self.drops_early, &mut self.held);
            }
            // Behind those that are as good: the first one seen stays longest.
            let place = chosen.partition_point(|(v, _)| is_better(*value, *v, self.largest));
            chosen.insert(place, (*value, number));
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

/// A step no longer wants a row.
fn release(rows: &mut [Option<(Row, usize)>], number: usize, drops_early: bool, held: &mut usize) {
    if let Some(Some((row, uses))) = rows.get_mut(number) {
        *uses = uses.saturating_sub(1);
        if *uses == 0 && drops_early {
            *held = held.saturating_sub(row.heap_bytes());
            rows[number] = None;
        }
    }
}

/// Whether a value takes the place of another. NaN is worse than everything.
fn is_better(value: f64, than: f64, largest: bool) -> bool {
    match (value.is_nan(), than.is_nan()) {
        (true, _) => false,
        (false, true) => true,
        (false, false) if largest => value > than,
        (false, false) => value < than,
    }
}

impl Fold for Extremes<'_> {
    fn add(&mut self, rows: Vec<Row>) -> Result<()> {
        rows.into_iter().for_each(|row| self.add_row(row));
        Ok(())
    }

    fn finish(self: Box<Self>) -> Vec<Row> {
        let steps = self.counts.len();
        let mut picked: Vec<Option<Values>> = self.rows.iter().map(|_| None).collect();
        let mut order = Vec::new();
        for group in &self.chosen {
            for (step, chosen) in group.iter().enumerate() {
                // Best first, which is the order of an instant query's answer.
                for (value, number) in chosen.iter().rev() {
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
        // A step of a group has a list with a few numbers, and the number to beat.
        let per_group = (24 + 64 + 8) * self.counts.len();
        self.held + self.groups.heap_bytes() + per_group * self.chosen.len()
    }
}

/// `limitk`: the first rows of each group that have a value.
pub(super) struct First {
    groups: Groups,
    counts: Vec<usize>,
    /// For each group how many rows each step has.
    taken: Vec<Vec<usize>>,
    rows: Vec<Row>,
    held: usize,
}

impl First {
    pub(super) fn new(groups: Groups, counts: Vec<usize>) -> Self {
        Self {
            groups,
            counts,
            taken: Vec::new(),
            rows: Vec::new(),
            held: 0,
        }
    }
}

impl Fold for First {
    fn add(&mut self, rows: Vec<Row>) -> Result<()> {
        for mut row in rows {
            let group = self.groups.of(&row);
            let steps = self.counts.len();
            self.taken.resize_with(self.groups.len(), || vec![0; steps]);
            let taken = &mut self.taken[group];
            for (step, (taken, count)) in taken.iter_mut().zip(&self.counts).enumerate() {
                match row.values.is_present(step) && *taken < *count {
                    true => *taken += 1,
                    false => row.values.clear(step),
                }
            }
            if !row.values.is_empty() {
                self.held += row.heap_bytes();
                self.rows.push(row);
            }
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Vec<Row> {
        self.rows
    }

    fn heap_bytes(&self) -> usize {
        self.held
    }
}

/// `limit_ratio`: about that part of the rows, the same ones every time; a negative ratio chooses
/// the complement of what its positive counterpart does.
pub(super) struct Ratio {
    ratios: Vec<f64>,
    rows: Vec<Row>,
    held: usize,
}

impl Ratio {
    pub(super) fn new(ratios: Vec<f64>) -> Self {
        Self {
            ratios,
            rows: Vec::new(),
            held: 0,
        }
    }
}

impl Fold for Ratio {
    fn add(&mut self, rows: Vec<Row>) -> Result<()> {
        for mut row in rows {
            let place = prometheus_hash(&row.labels) as f64 / u64::MAX as f64;
            for (step, ratio) in self.ratios.iter().enumerate() {
                let chosen = match ratio.partial_cmp(&0.0) {
                    Some(Ordering::Less) => place >= 1.0 + ratio,
                    _ => place < *ratio || *ratio == 1.0,
                };
                if !chosen {
                    row.values.clear(step);
                }
            }
            if !row.values.is_empty() {
                self.held += row.heap_bytes();
                self.rows.push(row);
            }
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Vec<Row> {
        self.rows
    }

    fn heap_bytes(&self) -> usize {
        self.held
    }
}

/// The hash that Prometheus computes of a label set, so that the same series are chosen: XXH64 over
/// names and values, each behind its length.
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
