//! Writing one segment: the windows become columns, and every column takes its shortest form.

use icecore_model::rollup::{Resolution, Window, WindowFields};

use super::column::{Column, references};
use super::floats::{FloatWriter, Scaled};
use super::segment::SegmentBuffer;
use super::squares;
use super::windows::Columns;
use crate::columns::decimal;

/// Writes segments; keeps its room from one to the next.
#[derive(Debug, Default)]
pub(super) struct SegmentWriter {
    columns: Columns,
    floats: FloatWriter,
    scaled: Scaled,
    other: Scaled,
    candidate: Vec<u8>,
    segment: SegmentBuffer,
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
        self.segment.clear();
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
        self.segment.append_to(out);
    }

    /// A column that is left out where all is 0.
    fn integers(&mut self, column: Column, integers: &[i64]) {
        if integers.iter().all(|number| *number == 0) {
            return;
        }
        self.floats.push_integers(integers, self.segment.payload());
        self.segment.close(column as u8);
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
            self.segment.payload().extend_from_slice(payload);
            self.segment.close(column as u8);
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
        if is_zero(&columns.m2) {
            return;
        }
        self.scaled.set(&columns.m2);
        self.append_shortest(&[]);
        let exponent = exponent.and_then(squares::exponent_of);
        let exponent =
            exponent.filter(|_| fields.contains(WindowFields::COUNTS | WindowFields::SUM));
        if let Some(exponent) = exponent {
            let is_near = self.scaled.set_computed(exponent, &columns.m2, |i, m2| {
                let (count, sum) = (columns.numbers[i], columns.sum[i]);
                let number = squares::number(m2, count, sum, exponent);
                (number, squares::value(number, count, sum, exponent))
            });
            if is_near {
                let nothing = std::iter::repeat(0);
                self.candidate.clear();
                let (floats, out) = (&mut self.floats, &mut self.candidate);
                floats.push(&self.scaled, references::SQUARES, nothing, out);
                self.segment.take_shorter(&self.candidate);
            }
        }
        self.segment.close(Column::M2 as u8);
    }

    /// A column that no other helps with, left out where all is 0.
    fn apart(&mut self, column: Column, values: &[f64], exponent: Option<u8>) {
        self.near(values, exponent);
        if !is_zero(values) {
            self.shortest(column, &[]);
        }
    }

    fn near(&mut self, values: &[f64], exponent: Option<u8>) {
        match exponent {
            Some(exponent) => self.scaled.set_near(values, exponent),
            None => self.scaled.set(values),
        }
    }

    /// Stores what was scaled, by itself or after one of the references: whatever is shortest.
    fn shortest(&mut self, column: Column, references: &[(u8, &[f64])]) {
        self.append_shortest(references);
        self.segment.close(column as u8);
    }

    fn append_shortest(&mut self, references: &[(u8, &[f64])]) {
        let (floats, scaled) = (&mut self.floats, &self.scaled);
        let nothing = std::iter::repeat(0);
        floats.push(scaled, references::NONE, nothing, self.segment.payload());
        for (reference, values) in references {
            self.candidate.clear();
            let from = values
                .iter()
                .map(|value| decimal::nearest(scaled.exponent, *value));
            floats.push(scaled, *reference, from, &mut self.candidate);
            self.segment.take_shorter(&self.candidate);
        }
    }
}

fn is_zero(values: &[f64]) -> bool {
    values.iter().all(|value| value.to_bits() == 0)
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
