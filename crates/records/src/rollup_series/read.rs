//! Reading one segment: only the columns that are asked for, and those that they refer to.

use icecore_model::rollup::WindowFields;

use super::RECORD;
use super::column::{COLUMNS, Column, flags, references};
use super::floats::{FloatReader, read_integers};
use super::segment::Payloads;
use super::squares;
use super::write::expected_sum;
use crate::DecodeError;
use crate::columns::decimal;
use crate::reader::Reader;

/// Reads segments; keeps its room from one to the next.
#[derive(Debug, Default)]
pub(super) struct SegmentReader {
    /// Per window.
    pub(super) flags: Vec<u8>,
    /// Columns that are stored; the others follow from these, or are 0 everywhere.
    stored: u16,
    /// Windows that have an interior.
    pub(super) interiors: usize,
    integers: [Vec<i64>; COLUMNS],
    floats: [Vec<f64>; COLUMNS],
    /// Columns that were read.
    pub(super) done: u16,
    numbers: Vec<i64>,
    /// Of the first values; the last ones may refer to them.
    first_numbers: Vec<i64>,
}

/// A segment whose directory is read.
pub(super) struct Segment<'a> {
    payloads: Payloads<'a, COLUMNS>,
    /// What the record keeps.
    fields: WindowFields,
}

impl<'a> Segment<'a> {
    pub(super) fn parse(segment: &'a [u8], fields: WindowFields) -> Result<Self, DecodeError> {
        let payloads = Payloads::parse(RECORD, segment)?;
        let segment = Self { payloads, fields };
        let mut columns = Column::ALL.into_iter();
        if columns.any(|column| segment.payload(column).is_some() && !column.is_in(fields)) {
            return Err(broken("column of a field that is not kept"));
        }
        Ok(segment)
    }

    fn payload(&self, column: Column) -> Option<&'a [u8]> {
        self.payloads.get(column as u8)
    }

    fn open(&self, column: Column) -> Result<Option<FloatReader<'a>>, DecodeError> {
        let payload = self.payload(column);
        payload
            .map(|payload| FloatReader::open(RECORD, payload))
            .transpose()
    }
}

impl SegmentReader {
    /// Reads the columns of `fields`, all of which the record keeps, of a segment of so many
    /// windows that are `width_ms` wide.
    pub(super) fn read(
        &mut self,
        segment: &Segment<'_>,
        windows: usize,
        width_ms: i64,
        fields: WindowFields,
    ) -> Result<(), DecodeError> {
        self.done = 0;
        let stored = Column::ALL.into_iter();
        let stored = stored.filter(|column| segment.payload(*column).is_some());
        self.stored = stored.fold(0, |stored, column| stored | column.bit());
        self.read_flags(segment, windows)?;
        for column in Column::ALL {
            if column != Column::Flags && column.is_in(fields) {
                self.need(segment, column)?;
            }
        }
        self.check(fields, width_ms)
    }

    pub(super) fn integers(&self, column: Column) -> &[i64] {
        &self.integers[column as usize]
    }

    pub(super) fn floats(&self, column: Column) -> &[f64] {
        &self.floats[column as usize]
    }

    pub(super) fn is_stored(&self, column: Column) -> bool {
        self.stored & column.bit() != 0
    }

    fn read_flags(&mut self, segment: &Segment<'_>, windows: usize) -> Result<(), DecodeError> {
        self.flags.clear();
        self.interiors = windows;
        let Some(payload) = segment.payload(Column::Flags) else {
            self.flags.resize(windows, 0);
            return Ok(());
        };
        let mut reader = Reader::new(RECORD, payload);
        read_integers(&mut reader, windows, &mut self.numbers)?;
        if !flags::are_known(&self.numbers) {
            return Err(reader.error("unknown flags of a window"));
        }
        self.flags
            .extend(self.numbers.iter().map(|number| *number as u8));
        let without = self.flags.iter();
        let without = without.filter(|flags| **flags & flags::NO_INTERIOR != 0);
        self.interiors -= without.count();
        reader.finish()
    }

    /// Reads a column unless it was read before.
    fn need(&mut self, segment: &Segment<'_>, column: Column) -> Result<(), DecodeError> {
        if self.done & column.bit() != 0 {
            return Ok(());
        }
        self.done |= column.bit();
        if self.interiors == 0 && column != Column::Edges {
            self.integers[column as usize].clear();
            self.floats[column as usize].clear();
            return match segment.payload(column) {
                Some(_) => Err(broken("column of no windows")),
                None => Ok(()),
            };
        }
        match column {
            Column::Flags => Ok(()),
            Column::Edges => self.read_edges(segment),
            Column::First => self.read_first(segment),
            Column::Last => self.read_last(segment),
            Column::Min | Column::Max => self.read_extreme(segment, column),
            Column::Sum => self.read_sum(segment),
            Column::M2 => self.read_squares(segment),
            Column::Correction => self.read_apart(segment, column),
            _ => self.read_integers(segment, column),
        }
    }

    fn read_integers(&mut self, segment: &Segment<'_>, column: Column) -> Result<(), DecodeError> {
        let out = &mut self.integers[column as usize];
        match segment.payload(column) {
            Some(payload) => {
                let mut reader = Reader::new(RECORD, payload);
                read_integers(&mut reader, self.interiors, out)?;
                reader.finish()
            }
            None => {
                out.clear();
                out.resize(self.interiors, 0);
                Ok(())
            }
        }
    }

    fn read_edges(&mut self, segment: &Segment<'_>) -> Result<(), DecodeError> {
        let has_edge = |flags: &&u8| **flags & flags::EDGE_SAMPLE != 0;
        let count = self.flags.iter().filter(has_edge).count();
        let Some(mut reader) = segment.open(Column::Edges)? else {
            self.floats[Column::Edges as usize].clear();
            return if count == 0 {
                Ok(())
            } else {
                Err(broken("values of edges are missing"))
            };
        };
        if count == 0 {
            return Err(broken("column of no windows"));
        }
        reader.numbers(count, &mut self.numbers)?;
        match reader.reference {
            references::NONE => {}
            references::FIRST if segment.fields.contains(WindowFields::FIRST) => {
                let mut numbers = std::mem::take(&mut self.numbers);
                self.need(segment, Column::First)?;
                self.add_firsts(reader.exponent, &mut numbers);
                self.numbers = numbers;
            }
            _ => return Err(reader.error("unknown reference")),
        }
        reader.finish(&self.numbers, &mut self.floats[Column::Edges as usize])
    }

    /// Adds to the numbers of edges what their windows begin with.
    fn add_firsts(&self, exponent: u8, numbers: &mut [i64]) {
        if self.interiors == self.flags.len() && numbers.len() == self.flags.len() {
            for (number, first) in numbers.iter_mut().zip(self.floats(Column::First)) {
                *number = number.wrapping_add(decimal::nearest(exponent, *first));
            }
            return;
        }
        let mut numbers = numbers.iter_mut();
        let mut firsts = self.floats(Column::First).iter();
        let mut reference = 0.0;
        for flags in &self.flags {
            let mut first = None;
            if flags & flags::NO_INTERIOR == 0 {
                first = firsts.next();
            }
            if flags & flags::EDGE_SAMPLE != 0 {
                reference = first.copied().unwrap_or(reference);
                if let Some(number) = numbers.next() {
                    *number = number.wrapping_add(decimal::nearest(exponent, reference));
                }
            }
        }
    }

    fn read_first(&mut self, segment: &Segment<'_>) -> Result<(), DecodeError> {
        let Some(mut first) = segment.open(Column::First)? else {
            return self.fill(Column::First, 0.0);
        };
        first.numbers(self.interiors, &mut self.first_numbers)?;
        if first.reference == references::NONE {
            return first.finish(
                &self.first_numbers,
                &mut self.floats[Column::First as usize],
            );
        }
        // A chain: each first value follows the last value before, each last value the first one.
        let last = segment.open(Column::Last)?;
        let Some(mut last) = last.filter(|last| last.reference == references::FIRST) else {
            return Err(first.error("chain without its other half"));
        };
        if first.reference != references::FIRST || first.exponent != last.exponent {
            return Err(first.error("unknown reference"));
        }
        last.numbers(self.interiors, &mut self.numbers)?;
        let mut before = 0i64;
        for (first, last) in self.first_numbers.iter_mut().zip(&mut self.numbers) {
            *first = first.wrapping_add(before);
            *last = last.wrapping_add(*first);
            before = *last;
        }
        self.done |= Column::Last.bit();
        let [first_values, last_values] = self
            .floats
            .get_disjoint_mut([Column::First as usize, Column::Last as usize])
            .expect("two columns");
        first.finish(&self.first_numbers, first_values)?;
        last.finish(&self.numbers, last_values)
    }

    fn read_last(&mut self, segment: &Segment<'_>) -> Result<(), DecodeError> {
        let Some(mut last) = segment.open(Column::Last)? else {
            if segment.fields.contains(WindowFields::FIRST) {
                return self.copy(segment, Column::First, Column::Last);
            }
            return self.fill(Column::Last, 0.0);
        };
        if last.reference == references::NONE {
            return self.finish_apart(last, Column::Last);
        }
        let first = segment.open(Column::First)?;
        let Some(first) = first
            .filter(|first| last.reference == references::FIRST && first.exponent == last.exponent)
        else {
            return Err(last.error("unknown reference"));
        };
        if first.reference != references::NONE {
            // The chain has both.
            self.done |= Column::First.bit();
            return self.read_first(segment);
        }
        self.need(segment, Column::First)?;
        last.numbers(self.interiors, &mut self.numbers)?;
        // The numbers, not the values: these may be exceptions.
        for (last, first) in self.numbers.iter_mut().zip(&self.first_numbers) {
            *last = last.wrapping_add(*first);
        }
        last.finish(&self.numbers, &mut self.floats[Column::Last as usize])
    }

    fn read_extreme(&mut self, segment: &Segment<'_>, column: Column) -> Result<(), DecodeError> {
        let Some(reader) = segment.open(column)? else {
            let other = if column == Column::Min {
                Column::First
            } else {
                Column::Last
            };
            return self.copy(segment, other, column);
        };
        let other = match reader.reference {
            references::NONE => return self.finish_apart(reader, column),
            references::FIRST => Column::First,
            references::LAST => Column::Last,
            _ => return Err(reader.error("unknown reference")),
        };
        self.need_kept(segment, other)?;
        let values = std::mem::take(&mut self.floats[other as usize]);
        let read = self.finish_after(reader, column, values.iter().copied());
        self.floats[other as usize] = values;
        read
    }

    fn read_sum(&mut self, segment: &Segment<'_>) -> Result<(), DecodeError> {
        let reader = match segment.open(Column::Sum)? {
            Some(reader) if reader.reference == references::NONE => {
                return self.finish_apart(reader, Column::Sum);
            }
            Some(reader) if reader.reference != references::ENDS => {
                return Err(reader.error("unknown reference"));
            }
            reader => reader,
        };
        for column in [Column::Numbers, Column::First, Column::Last] {
            self.need_kept(segment, column)?;
        }
        let mut sums = std::mem::take(self.floats_mut(Column::Sum));
        let counts = self.integers(Column::Numbers).iter();
        let ends = self
            .floats(Column::First)
            .iter()
            .zip(self.floats(Column::Last));
        let expected = counts.zip(ends);
        let expected = expected.map(|(count, (first, last))| expected_sum(*count, *first, *last));
        sums.clear();
        sums.extend(expected);
        if let Some(mut reader) = reader {
            reader.numbers(self.interiors, &mut self.numbers)?;
            let exponent = reader.exponent;
            for (number, sum) in self.numbers.iter_mut().zip(&sums) {
                *number = number.wrapping_add(decimal::nearest(exponent, *sum));
            }
            reader.finish(&self.numbers, &mut sums)?;
        }
        *self.floats_mut(Column::Sum) = sums;
        Ok(())
    }

    fn read_squares(&mut self, segment: &Segment<'_>) -> Result<(), DecodeError> {
        let reader = segment.open(Column::M2)?;
        let Some(mut reader) = reader.filter(|reader| reader.reference != references::NONE) else {
            return self.read_apart(segment, Column::M2);
        };
        let exponent = reader.exponent;
        if reader.reference != references::SQUARES || exponent > 12 || exponent % 2 != 0 {
            return Err(reader.error("unknown reference"));
        }
        for column in [Column::Numbers, Column::Sum] {
            self.need_kept(segment, column)?;
        }
        reader.numbers(self.interiors, &mut self.numbers)?;
        let mut squares = std::mem::take(self.floats_mut(Column::M2));
        squares.clear();
        let counts = self.integers(Column::Numbers).iter();
        let known = counts.zip(self.floats(Column::Sum));
        let numbers = self.numbers.iter().zip(known);
        squares.extend(
            numbers.map(|(number, (count, sum))| squares::value(*number, *count, *sum, exponent)),
        );
        reader.amend(&mut squares)?;
        *self.floats_mut(Column::M2) = squares;
        Ok(())
    }

    fn floats_mut(&mut self, column: Column) -> &mut Vec<f64> {
        &mut self.floats[column as usize]
    }

    fn read_apart(&mut self, segment: &Segment<'_>, column: Column) -> Result<(), DecodeError> {
        match segment.open(column)? {
            None => self.fill(column, 0.0),
            Some(reader) if reader.reference == references::NONE => {
                self.finish_apart(reader, column)
            }
            Some(reader) => Err(reader.error("unknown reference")),
        }
    }

    fn finish_apart(
        &mut self,
        mut reader: FloatReader<'_>,
        column: Column,
    ) -> Result<(), DecodeError> {
        reader.numbers(self.interiors, &mut self.numbers)?;
        reader.finish(&self.numbers, &mut self.floats[column as usize])
    }

    fn finish_after(
        &mut self,
        mut reader: FloatReader<'_>,
        column: Column,
        references: impl Iterator<Item = f64>,
    ) -> Result<(), DecodeError> {
        reader.numbers(self.interiors, &mut self.numbers)?;
        let exponent = reader.exponent;
        for (number, reference) in self.numbers.iter_mut().zip(references) {
            *number = number.wrapping_add(decimal::nearest(exponent, reference));
        }
        reader.finish(&self.numbers, &mut self.floats[column as usize])
    }

    /// Reads a column that another one refers to.
    fn need_kept(&mut self, segment: &Segment<'_>, column: Column) -> Result<(), DecodeError> {
        if !column.is_in(segment.fields) {
            return Err(broken("reference to a field that is not kept"));
        }
        self.need(segment, column)
    }

    fn copy(&mut self, segment: &Segment<'_>, from: Column, to: Column) -> Result<(), DecodeError> {
        self.need_kept(segment, from)?;
        let mut out = std::mem::take(&mut self.floats[to as usize]);
        out.clear();
        out.extend_from_slice(self.floats(from));
        self.floats[to as usize] = out;
        Ok(())
    }

    fn fill(&mut self, column: Column, value: f64) -> Result<(), DecodeError> {
        let out = &mut self.floats[column as usize];
        out.clear();
        out.resize(self.interiors, value);
        Ok(())
    }
}

pub(super) fn broken(reason: &'static str) -> DecodeError {
    DecodeError::new(RECORD, 0, reason)
}
