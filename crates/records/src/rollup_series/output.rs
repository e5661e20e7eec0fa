//! What was read of a segment as columns, or as windows.

use std::ops::Range;

use icecore_model::rollup::{Aggregate, Edge, Window, WindowColumns, WindowFields, make_whole};

use super::column::{Column, flags};
use super::read::SegmentReader;

/// Windows of a segment: their indexes in it, their starts, and how wide they are.
pub(super) struct Slice<'a> {
    pub(super) indexes: Range<usize>,
    pub(super) starts: &'a [i64],
    pub(super) width_ms: i64,
}

impl SegmentReader {
    /// Appends windows to the columns of `out.fields`, all of which were read. So many windows lie
    /// before them; columns in which there is nothing yet stay as they are where these windows have
    /// nothing, either.
    pub(super) fn append_to(&self, slice: &Slice<'_>, before: usize, out: &mut WindowColumns) {
        let fields = out.fields;
        let has = |field| fields.contains(field);
        let room = out.capacity();
        let any = self.flags[slice.indexes.clone()]
            .iter()
            .fold(0, |any, flags| any | flags);
        if any & (flags::EDGE_SAMPLE | flags::EDGE_STALE) != 0 {
            self.append_edges(slice, make_whole(&mut out.edges, before, room));
        }
        if any & flags::ENDS_STALE != 0 {
            let flags = self.flags[slice.indexes.clone()].iter();
            let stale = flags.map(|flags| flags & flags::ENDS_STALE != 0);
            make_whole(&mut out.ends_stale, before, room).extend(stale);
        }
        let count = |column, out: &mut Vec<u64>| {
            self.spread(slice, self.integers(column), out, |count, _| count as u64);
        };
        let rare_count = |column: Column, out: &mut Vec<u64>| {
            if self.is_stored(column) {
                count(column, make_whole(out, before, room));
            }
        };
        let float = |column, out: &mut Vec<f64>| {
            self.spread(slice, self.floats(column), out, |value, _| value);
        };
        if has(WindowFields::COUNTS) {
            count(Column::Numbers, &mut out.numbers);
            rare_count(Column::Nans, &mut out.nans);
        }
        if has(WindowFields::FIRST) {
            let offsets = self.integers(Column::FirstTime);
            self.spread(slice, offsets, &mut out.first_ms, first_ms);
            float(Column::First, &mut out.first);
        }
        if has(WindowFields::LAST) {
            let (offsets, width_ms) = (self.integers(Column::LastTime), slice.width_ms);
            self.spread(slice, offsets, &mut out.last_ms, |offset, start_ms| {
                last_ms(offset, start_ms, width_ms)
            });
            float(Column::Last, &mut out.last);
        }
        for (field, column, out) in [
            (WindowFields::SUM, Column::Sum, &mut out.sum),
            (WindowFields::MIN, Column::Min, &mut out.min),
            (WindowFields::MAX, Column::Max, &mut out.max),
            (WindowFields::M2, Column::M2, &mut out.m2),
        ] {
            if has(field) {
                float(column, out);
            }
        }
        if has(WindowFields::CORRECTION) && self.is_stored(Column::Correction) {
            float(
                Column::Correction,
                make_whole(&mut out.correction, before, room),
            );
        }
        if has(WindowFields::RESETS) {
            rare_count(Column::Resets, &mut out.resets);
        }
        if has(WindowFields::CHANGES) {
            rare_count(Column::Changes, &mut out.changes);
        }
    }

    fn append_edges(&self, slice: &Slice<'_>, out: &mut Vec<Edge>) {
        let values = self.floats(Column::Edges);
        if values.len() == self.flags.len() {
            let values = values[slice.indexes.clone()].iter();
            out.extend(values.map(|value| Edge::Sample(*value)));
            return;
        }
        let (before, rest) = self.flags.split_at(slice.indexes.start);
        let is_sample = |flags: &&u8| **flags & flags::EDGE_SAMPLE != 0;
        let mut values = values[before.iter().filter(is_sample).count()..].iter();
        let flags = rest[..slice.indexes.len()].iter();
        out.extend(flags.map(|flags| edge(*flags, &mut values)));
    }

    /// Appends what the windows have in one column; any value where they have no interior.
    fn spread<F: Copy, T: Copy + Default>(
        &self,
        slice: &Slice<'_>,
        column: &[F],
        out: &mut Vec<T>,
        convert: impl Fn(F, i64) -> T,
    ) {
        let Range { start, end } = slice.indexes;
        if self.interiors == self.flags.len() {
            let entries = column[start..end].iter().zip(slice.starts);
            out.extend(entries.map(|(entry, start_ms)| convert(*entry, *start_ms)));
            return;
        }
        let mut entries = column[self.interiors_before(start)..].iter();
        for (flags, start_ms) in self.flags[start..end].iter().zip(slice.starts) {
            let mut entry = None;
            if flags & flags::NO_INTERIOR == 0 {
                entry = entries.next();
            }
            out.push(entry.map_or(T::default(), |entry| convert(*entry, *start_ms)));
        }
    }

    fn interiors_before(&self, index: usize) -> usize {
        let flags = self.flags[..index].iter();
        flags
            .filter(|flags| **flags & flags::NO_INTERIOR == 0)
            .count()
    }

    /// Appends all windows; `fields` were read.
    pub(super) fn append_windows(
        &self,
        slice: &Slice<'_>,
        fields: WindowFields,
        out: &mut Vec<Window>,
    ) {
        let mut values = self.floats(Column::Edges).iter();
        let mut interiors = 0..self.interiors;
        for (flags, start_ms) in self.flags.iter().zip(slice.starts) {
            let mut interior = None;
            if flags & flags::NO_INTERIOR == 0 {
                interior = interiors.next();
            }
            out.push(Window {
                start_ms: *start_ms,
                edge: edge(*flags, &mut values),
                interior: interior.map(|i| self.interior(i, *start_ms, slice.width_ms, fields)),
                ends_stale: flags & flags::ENDS_STALE != 0,
                has_late: flags & flags::HAS_LATE != 0,
            });
        }
    }

    /// An interior; what is not kept of it is 0, or NaN where that is a value.
    fn interior(&self, i: usize, start_ms: i64, width_ms: i64, fields: WindowFields) -> Aggregate {
        let integer = |column: Column| {
            let kept = column.is_in(fields);
            kept.then(|| self.integers(column)[i])
        };
        let count = |column| integer(column).map_or(0, |count| count as u64);
        let float = |column: Column, absent| {
            if column.is_in(fields) {
                self.floats(column)[i]
            } else {
                absent
            }
        };
        Aggregate {
            numbers: count(Column::Numbers),
            nans: count(Column::Nans),
            first_ms: integer(Column::FirstTime).map_or(0, |offset| first_ms(offset, start_ms)),
            first: float(Column::First, f64::NAN),
            last_ms: integer(Column::LastTime)
                .map_or(0, |offset| last_ms(offset, start_ms, width_ms)),
            last: float(Column::Last, f64::NAN),
            sum: float(Column::Sum, 0.0),
            min: float(Column::Min, f64::NAN),
            max: float(Column::Max, f64::NAN),
            m2: float(Column::M2, 0.0),
            correction: float(Column::Correction, 0.0),
            resets: count(Column::Resets),
            changes: count(Column::Changes),
        }
    }
}

fn first_ms(offset: i64, start_ms: i64) -> i64 {
    start_ms + 1 + offset
}

fn last_ms(offset: i64, start_ms: i64, width_ms: i64) -> i64 {
    start_ms + width_ms - 1 - offset
}

fn edge<'a>(flags: u8, values: &mut impl Iterator<Item = &'a f64>) -> Edge {
    if flags & flags::EDGE_STALE != 0 {
        Edge::Stale
    } else if flags & flags::EDGE_SAMPLE != 0 {
        values
            .next()
            .map_or(Edge::None, |value| Edge::Sample(*value))
    } else {
        Edge::None
    }
}
