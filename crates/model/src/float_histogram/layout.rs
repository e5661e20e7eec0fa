//! One side of a histogram as a list of buckets, which is easier to change than spans and counts.
//!
//! Holds always: the list is sorted by index if the spans it came from were. Inconsistent spans
//! give some list, never a panic.

use crate::Span;

use super::bounds::index_in_coarser;
use crate::kahan_add;

/// Longest run of empty buckets that is made explicit, so that two distant buckets cannot require
/// gigabytes of zeros between them.
const FILLED_GAP_MAX: i64 = 1 << 16;

/// A count that can be added up: a plain float, or one with a compensation.
pub(super) trait Count: Copy {
    const ZERO: Self;
    fn of(value: f64) -> Self;
    fn value(self) -> f64;
    fn plus(self, other: Self) -> Self;
    /// Zero, and so is the compensation.
    fn is_empty(self) -> bool;
}

impl Count for f64 {
    const ZERO: Self = 0.0;

    fn of(value: f64) -> Self {
        value
    }

    fn value(self) -> f64 {
        self
    }

    fn plus(self, other: Self) -> Self {
        self + other
    }

    fn is_empty(self) -> bool {
        self == 0.0
    }
}

/// A sum with its Kahan compensation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Compensated {
    pub(super) value: f64,
    pub(super) lost: f64,
}

impl Count for Compensated {
    const ZERO: Self = Self {
        value: 0.0,
        lost: 0.0,
    };

    fn of(value: f64) -> Self {
        Self { value, lost: 0.0 }
    }

    fn value(self) -> f64 {
        self.value
    }

    fn plus(self, other: Self) -> Self {
        let (value, lost) = kahan_add(other.value, self.value, self.lost);
        let (value, lost) = kahan_add(other.lost, value, lost);
        Self { value, lost }
    }

    fn is_empty(self) -> bool {
        self.value == 0.0 && self.lost == 0.0
    }
}

pub(super) type Entry<C> = (i64, C);

/// Merges neighbours that fall into one bucket of a coarser schema.
pub(super) fn coarsen<C: Count>(
    buckets: impl Iterator<Item = Entry<C>>,
    schema: i8,
    coarser: i8,
) -> Vec<Entry<C>> {
    let mut merged: Vec<Entry<C>> = Vec::with_capacity(buckets.size_hint().0);
    for (index, count) in buckets {
        let index = index_in_coarser(index, schema, coarser);
        match merged.last_mut() {
            Some((last, sum)) if *last == index => *sum = sum.plus(count),
            _ => merged.push((index, count)),
        }
    }
    merged
}

/// Adds buckets to others of the same schema, and inserts missing ones.
pub(super) fn add_entries<C: Count>(
    sums: &mut Vec<Entry<C>>,
    added: impl Iterator<Item = Entry<C>>,
) {
    let mut missing = Vec::new();
    let mut at = 0;
    for (index, count) in added {
        while sums.get(at).is_some_and(|(present, _)| *present < index) {
            at += 1;
        }
        match sums.get_mut(at) {
            Some((present, sum)) if *present == index => *sum = sum.plus(count),
            _ => missing.push((index, count)),
        }
    }
    if !missing.is_empty() {
        *sums = merged(std::mem::take(sums), missing);
    }
}

/// Merges two lists without a common index.
fn merged<C: Count>(one: Vec<Entry<C>>, other: Vec<Entry<C>>) -> Vec<Entry<C>> {
    let mut both = Vec::with_capacity(one.len() + other.len());
    let mut other = other.into_iter().peekable();
    for entry in one {
        while let Some(earlier) = other.next_if(|(index, _)| *index < entry.0) {
            both.push(earlier);
        }
        both.push(entry);
    }
    both.extend(other);
    both
}

/// Spans and counts of a list of buckets.
pub(super) fn to_spans(entries: impl Iterator<Item = Entry<f64>>) -> (Vec<Span>, Vec<f64>) {
    let mut spans: Vec<Span> = Vec::new();
    let mut counts = Vec::with_capacity(entries.size_hint().0);
    // The index after the last span.
    let mut end = 0i64;
    for (index, count) in entries {
        match spans.last_mut() {
            Some(span) if index == end && span.length < u32::MAX => span.length += 1,
            _ => spans.push(Span {
                offset: saturated(index - end),
                length: 1,
            }),
        }
        counts.push(count);
        end = index + 1;
    }
    (spans, counts)
}

fn saturated(offset: i64) -> i32 {
    offset.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32
}

/// Removes empty buckets, except runs of at most `empty_max` between two others, which become
/// explicit.
pub(super) fn compacted(
    entries: impl Iterator<Item = Entry<f64>>,
    empty_max: usize,
) -> (Vec<Span>, Vec<f64>) {
    let empty_max = i64::try_from(empty_max)
        .unwrap_or(i64::MAX)
        .min(FILLED_GAP_MAX);
    let mut end: Option<i64> = None;
    let filled = entries
        .filter(|(_, count)| !count.is_empty())
        .flat_map(move |(index, count)| {
            let start = end.filter(|end| (0..=empty_max).contains(&(index - end)));
            end = Some(index + 1);
            let zeros = (start.unwrap_or(index)..index).map(|empty| (empty, 0.0));
            zeros.chain(std::iter::once((index, count)))
        });
    to_spans(filled)
}
