//! Writing one segment: the windows become columns, and every column takes its shortest form.

use icecore_model::is_stale_nan;
use icecore_model::rollup::{Aggregate, Edge, Resolution, Window, WindowFields};
use icecore_model::varint::{push_varint, varint_length};

use super::column::{Column, flags, references};
use super::floats::{FloatWriter, Scaled};
use super::squares;
use crate::columns::decimal;

/// Numbers that are counts stay below this, so that sums of a few do not overflow.
pub(super) const COUNT_LIMIT: u64 = 1 << 62;

/// Writes segments; keeps its room from one to the next.
#[derive(Debug, Default)]
pub(super) struct SegmentWriter {
    columns: Columns,
    floats: FloatWriter,
    scaled: Scaled,
    other: Scaled,
    candidate: Vec<u8>,
    payloads: Vec<u8>,
    lengths: Vec<u8>,
    stored: u16,
}

/// Windows as columns.
#[derive(Debug, Default)]
struct Columns {
    numbers: Vec<i64>,
    nans: Vec<i64>,
    first_time: Vec<i64>,
    last_time: Vec<i64>,
    first: Vec<f64>,
    last: Vec<f64>,
    min: Vec<f64>,
    max: Vec<f64>,
    sum: Vec<f64>,
    m2: Vec<f64>,
    correction: Vec<f64>,
    resets: Vec<i64>,
    changes: Vec<i64>,
    flags: Vec<i64>,
    edges: Vec<f64>,
    /// What the window of an edge begins with; the same as before where it has no interior.
    after_edges: Vec<f64>,
}

impl Columns {
    fn set(&mut self, resolution: Resolution, fields: WindowFields, windows: &[Window]) {
        *self = Self {
            numbers: cleared(&mut self.numbers),
            nans: cleared(&mut self.nans),
            first_time: cleared(&mut self.first_time),
            last_time: cleared(&mut self.last_time),
            first: cleared(&mut self.first),
            last: cleared(&mut self.last),
            min: cleared(&mut self.min),
            max: cleared(&mut self.max),
            sum: cleared(&mut self.sum),
            m2: cleared(&mut self.m2),
            correction: cleared(&mut self.correction),
            resets: cleared(&mut self.resets),
            changes: cleared(&mut self.changes),
            flags: cleared(&mut self.flags),
            edges: cleared(&mut self.edges),
            after_edges: cleared(&mut self.after_edges),
        };
        for window in windows {
            self.flags.push(window_flags(window).into());
            if let Edge::Sample(value) = window.edge {
                assert!(!is_stale_nan(value), "a stale marker is no sample");
                self.edges.push(value);
                let before = self.after_edges.last().copied().unwrap_or(0.0);
                let first = window.interior.map(|interior| interior.first);
                self.after_edges.push(first.unwrap_or(before));
            }
            if let Some(interior) = &window.interior {
                self.push(resolution, fields, window.start_ms, interior);
            }
        }
    }

    fn push(
        &mut self,
        resolution: Resolution,
        fields: WindowFields,
        start_ms: i64,
        interior: &Aggregate,
    ) {
        let last_moment_ms = start_ms + resolution.ms() - 1;
        let (mut first, mut last) = (0, 0);
        if fields.contains(WindowFields::FIRST) {
            first = interior.first_ms.wrapping_sub(start_ms + 1);
        }
        if fields.contains(WindowFields::LAST) {
            last = last_moment_ms.wrapping_sub(interior.last_ms);
        }
        let most = resolution.ms() - 2;
        assert!(
            (0..=most).contains(&first) && (0..=most - first).contains(&last),
            "first and last sample lie in their window"
        );
        if fields.contains(WindowFields::COUNTS) {
            assert_ne!(interior.samples(), 0, "an interior has samples");
        }
        self.first_time.push(first);
        self.last_time.push(last);
        for (column, count) in [
            (&mut self.numbers, interior.numbers),
            (&mut self.nans, interior.nans),
            (&mut self.resets, interior.resets),
            (&mut self.changes, interior.changes),
        ] {
            assert!(count < COUNT_LIMIT, "counts are below 2^62");
            column.push(count as i64);
        }
        for (field, column, value) in [
            (WindowFields::FIRST, &mut self.first, interior.first),
            (WindowFields::LAST, &mut self.last, interior.last),
            (WindowFields::MIN, &mut self.min, interior.min),
            (WindowFields::MAX, &mut self.max, interior.max),
            (WindowFields::SUM, &mut self.sum, interior.sum),
            (WindowFields::M2, &mut self.m2, interior.m2),
            (
                WindowFields::CORRECTION,
                &mut self.correction,
                interior.correction,
            ),
        ] {
            let is_stale = fields.contains(field) && is_stale_nan(value);
            assert!(!is_stale, "a stale marker is no sample");
            column.push(value);
        }
    }
}

fn cleared<T>(column: &mut Vec<T>) -> Vec<T> {
    column.clear();
    std::mem::take(column)
}

fn window_flags(window: &Window) -> u8 {
    let bit = |is_set, flag| if is_set { flag } else { 0 };
    bit(matches!(window.edge, Edge::Sample(_)), flags::EDGE_SAMPLE)
        | bit(window.edge == Edge::Stale, flags::EDGE_STALE)
        | bit(window.ends_stale, flags::ENDS_STALE)
        | bit(window.interior.is_none(), flags::NO_INTERIOR)
        | bit(window.has_late, flags::HAS_LATE)
}

impl SegmentWriter {
    /// Appends a segment of at least one window.
    pub(super) fn push(
        &mut self,
        resolution: Resolution,
        fields: WindowFields,
        windows: &[Window],
        out: &mut Vec<u8>,
    ) {
        self.columns.set(resolution, fields, windows);
        self.payloads.clear();
        self.lengths.clear();
        self.stored = 0;
        let columns = std::mem::take(&mut self.columns);
        self.integers(Column::Flags, &columns.flags);
        self.edges(fields, &columns);
        if fields.contains(WindowFields::COUNTS) {
            self.integers(Column::Numbers, &columns.numbers);
            self.integers(Column::Nans, &columns.nans);
        }
        let exponent = self.ends(fields, &columns);
        self.extremes(fields, &columns);
        if fields.contains(WindowFields::SUM) {
            self.sum(fields, &columns, exponent);
        }
        if fields.contains(WindowFields::M2) {
            self.squares(fields, &columns, exponent);
        }
        if fields.contains(WindowFields::CORRECTION) {
            self.apart(Column::Correction, &columns.correction, exponent);
        }
        if fields.contains(WindowFields::RESETS) {
            self.integers(Column::Resets, &columns.resets);
        }
        if fields.contains(WindowFields::CHANGES) {
            self.integers(Column::Changes, &columns.changes);
        }
        self.columns = columns;
        out.extend_from_slice(&self.stored.to_le_bytes());
        out.extend_from_slice(&self.lengths);
        out.extend_from_slice(&self.payloads);
    }

    /// Stores a column whose payload was appended from `start` on.
    fn close(&mut self, column: Column, start: usize) {
        self.stored |= column.bit();
        push_varint(&mut self.lengths, (self.payloads.len() - start) as u64);
    }

    /// A column that is left out where all is 0.
    fn integers(&mut self, column: Column, integers: &[i64]) {
        if integers.iter().all(|number| *number == 0) {
            return;
        }
        let start = self.payloads.len();
        self.floats.push_integers(integers, &mut self.payloads);
        self.close(column, start);
    }

    fn edges(&mut self, fields: WindowFields, columns: &Columns) {
        if columns.edges.is_empty() {
            return;
        }
        self.scaled.set(&columns.edges);
        let mut refer: Vec<(u8, &[f64])> = vec![];
        if fields.contains(WindowFields::FIRST) {
            refer.push((references::FIRST, &columns.after_edges));
        }
        self.shortest(Column::Edges, &refer);
    }

    /// First and last values, which are scaled together; returns their exponent.
    fn ends(&mut self, fields: WindowFields, columns: &Columns) -> Option<u8> {
        let (has_first, has_last) = (
            fields.contains(WindowFields::FIRST),
            fields.contains(WindowFields::LAST),
        );
        if has_first {
            self.integers(Column::FirstTime, &columns.first_time);
        }
        if has_last {
            self.integers(Column::LastTime, &columns.last_time);
        }
        if columns.first.is_empty() || !(has_first || has_last) {
            return None;
        }
        if !has_first || !has_last || same_bits(&columns.first, &columns.last) {
            if has_first {
                self.apart(Column::First, &columns.first, None);
            } else {
                self.apart(Column::Last, &columns.last, None);
            }
            return Some(self.scaled.exponent);
        }
        let both = [&columns.first[..], &columns.last[..]].concat();
        self.scaled.set(&both);
        self.scaled.split_into(&mut self.other);
        self.linked_ends();
        Some(self.scaled.exponent)
    }

    /// The shortest of: both apart; the last ones after the first ones; a chain of all.
    fn linked_ends(&mut self) {
        let (firsts, lasts) = (&self.scaled.numbers, &self.other.numbers);
        let (mut plain, mut chained) = (vec![], vec![]);
        let (mut last_plain, mut last_linked) = (vec![], vec![]);
        let nothing = || std::iter::repeat(0);
        let before = || std::iter::once(0).chain(lasts.iter().copied());
        let floats = &mut self.floats;
        floats.push(&self.scaled, references::NONE, nothing(), &mut plain);
        floats.push(&self.scaled, references::FIRST, before(), &mut chained);
        floats.push(&self.other, references::NONE, nothing(), &mut last_plain);
        let linked = firsts.iter().copied();
        floats.push(&self.other, references::FIRST, linked, &mut last_linked);
        let ways = [
            (plain.len() + last_plain.len(), &plain, &last_plain),
            (plain.len() + last_linked.len(), &plain, &last_linked),
            (chained.len() + last_linked.len(), &chained, &last_linked),
        ];
        let [mut best, ..] = ways;
        for way in ways {
            if way.0 < best.0 {
                best = way;
            }
        }
        for (column, payload) in [(Column::First, best.1), (Column::Last, best.2)] {
            let start = self.payloads.len();
            self.payloads.extend_from_slice(payload);
            self.close(column, start);
        }
    }

    fn extremes(&mut self, fields: WindowFields, columns: &Columns) {
        let mut refer: Vec<(u8, &[f64])> = vec![];
        if fields.contains(WindowFields::FIRST) {
            refer.push((references::FIRST, &columns.first));
        }
        if fields.contains(WindowFields::LAST) {
            refer.push((references::LAST, &columns.last));
        }
        for (column, values, omitted, field) in [
            (
                Column::Min,
                &columns.min,
                references::FIRST,
                WindowFields::MIN,
            ),
            (
                Column::Max,
                &columns.max,
                references::LAST,
                WindowFields::MAX,
            ),
        ] {
            let is_omitted =
                |refer: &(u8, &[f64])| refer.0 == omitted && same_bits(refer.1, values);
            if values.is_empty() || !fields.contains(field) || refer.iter().any(is_omitted) {
                continue;
            }
            self.scaled.set(values);
            self.shortest(column, &refer);
        }
    }

    fn sum(&mut self, fields: WindowFields, columns: &Columns, exponent: Option<u8>) {
        if columns.sum.is_empty() {
            return;
        }
        let mut refer: Vec<(u8, &[f64])> = vec![];
        let expected: Vec<f64>;
        if fields.contains(WindowFields::COUNTS | WindowFields::FIRST | WindowFields::LAST) {
            expected = sums(&columns.numbers, &columns.first, &columns.last);
            if same_bits(&expected, &columns.sum) {
                return;
            }
            refer.push((references::ENDS, &expected));
        }
        self.near(&columns.sum, exponent);
        self.shortest(Column::Sum, &refer);
    }

    fn squares(&mut self, fields: WindowFields, columns: &Columns, exponent: Option<u8>) {
        let start = self.payloads.len();
        self.apart(Column::M2, &columns.m2, None);
        let needs = WindowFields::COUNTS | WindowFields::SUM;
        let exponent = exponent.and_then(squares::exponent_of);
        let (Some(exponent), true) = (exponent, fields.contains(needs)) else {
            return;
        };
        if self.stored & Column::M2.bit() == 0 {
            return;
        }
        let is_near = self.scaled.set_computed(exponent, &columns.m2, |i, m2| {
            let (count, sum) = (columns.numbers[i], columns.sum[i]);
            let number = squares::number(m2, count, sum, exponent);
            (number, squares::value(number, count, sum, exponent))
        });
        self.candidate.clear();
        let nothing = std::iter::repeat(0);
        let floats = &mut self.floats;
        floats.push(
            &self.scaled,
            references::SQUARES,
            nothing,
            &mut self.candidate,
        );
        if is_near && self.candidate.len() < self.payloads.len() - start {
            let length = varint_length((self.payloads.len() - start) as u64);
            self.lengths.truncate(self.lengths.len() - length);
            self.payloads.truncate(start);
            self.payloads.extend_from_slice(&self.candidate);
            self.close(Column::M2, start);
        }
    }

    /// A column that no other helps with, left out where all is 0.
    fn apart(&mut self, column: Column, values: &[f64], exponent: Option<u8>) {
        self.near(values, exponent);
        if values.iter().all(|value| value.to_bits() == 0) {
            return;
        }
        self.shortest(column, &[]);
    }

    fn near(&mut self, values: &[f64], exponent: Option<u8>) {
        match exponent {
            Some(exponent) => self.scaled.set_near(values, exponent),
            None => self.scaled.set(values),
        }
    }

    /// Stores what was scaled, by itself or after one of the references: whatever is shortest.
    fn shortest(&mut self, column: Column, references: &[(u8, &[f64])]) {
        let start = self.payloads.len();
        let nothing = std::iter::repeat(0);
        let floats = &mut self.floats;
        floats.push(&self.scaled, references::NONE, nothing, &mut self.payloads);
        for (reference, values) in references {
            self.candidate.clear();
            let exponent = self.scaled.exponent;
            let from = values
                .iter()
                .map(|value| decimal::nearest(exponent, *value));
            floats.push(&self.scaled, *reference, from, &mut self.candidate);
            if self.candidate.len() < self.payloads.len() - start {
                self.payloads.truncate(start);
                self.payloads.extend_from_slice(&self.candidate);
            }
        }
        self.close(column, start);
    }
}

fn same_bits(a: &[f64], b: &[f64]) -> bool {
    a.iter()
        .map(|value| value.to_bits())
        .eq(b.iter().map(|value| value.to_bits()))
}

/// What sums are expected to be: the middle of two values, as often as there are numbers.
fn sums(numbers: &[i64], low: &[f64], high: &[f64]) -> Vec<f64> {
    let ends = low.iter().zip(high);
    let sum = |(count, (low, high)): (&i64, (&f64, &f64))| expected_sum(*count, *low, *high);
    numbers.iter().zip(ends).map(sum).collect()
}

#[inline(always)]
pub(super) fn expected_sum(count: i64, low: f64, high: f64) -> f64 {
    let sum = count as f64 * ((low + high) * 0.5);
    // The bits of a NaN that was computed depend on the machine.
    if sum.is_nan() { 0.0 } else { sum }
}
