//! Columns of windows: one bucket after the other, without some of them.

use std::convert::Infallible;

use super::{Edge, WindowColumns, WindowFields};
use crate::TimeColumn;

/// Windows of parts that follow each other in time, put together. What only some of the parts have
/// is left out.
#[derive(Debug, Default)]
pub struct JoinedWindows {
    /// All but the starts.
    columns: WindowColumns,
    starts: Vec<i64>,
}

impl JoinedWindows {
    /// For about so many windows.
    pub fn with_capacity(windows: usize) -> Self {
        Self::within(WindowColumns::default(), Vec::with_capacity(windows))
    }

    /// In the memory of other windows and starts, whose contents do not matter.
    pub fn within(mut columns: WindowColumns, mut starts: Vec<i64>) -> Self {
        columns.clear();
        starts.clear();
        Self { columns, starts }
    }

    /// Appends windows that have these fields. `push_starts` appends when they begin, `push` their
    /// columns: those of the fields that it finds there, as many as there are starts. It is told
    /// how many windows lie before them, for columns that have left out these windows
    /// ([`make_whole`]). When it fails, nothing more can be done with the windows.
    pub fn append_with<E>(
        &mut self,
        fields: WindowFields,
        push_starts: impl FnOnce(&mut Vec<i64>),
        push: impl FnOnce(&[i64], usize, &mut WindowColumns) -> Result<(), E>,
    ) -> Result<(), E> {
        let from = self.starts.len();
        push_starts(&mut self.starts);
        if self.starts.len() == from {
            return Ok(());
        }
        let columns = &mut self.columns;
        if from == 0 {
            columns.fields = fields;
            columns.reserve(self.starts.capacity());
        } else {
            let common = columns.fields.without(columns.fields.without(fields));
            columns.keep_fields(common);
        }
        push(&self.starts[from..], from, columns)
    }

    /// Appends windows that are columns already.
    pub fn append(&mut self, part: WindowColumns) {
        let (fields, starts) = (part.fields, part.starts.clone());
        let push_starts = |all: &mut Vec<i64>| all.extend_from_slice(&starts);
        let Ok(()) = self.append_with(fields, push_starts, |_, before, columns| {
            columns.extend_from(before, part);
            Ok::<(), Infallible>(())
        });
    }

    /// When the windows begin.
    pub fn starts(&self) -> &[i64] {
        &self.starts
    }

    /// The windows. Starts that equal `like` share its memory: series are mostly kept alike.
    pub fn finish(self, like: &TimeColumn) -> WindowColumns {
        self.finish_beside(like).0
    }

    /// Also returns the memory of the starts where it is not needed.
    pub fn finish_beside(mut self, like: &TimeColumn) -> (WindowColumns, Vec<i64>) {
        self.columns.fill_up(self.starts.len());
        // A part may have a column for the sake of windows that were not wanted of it.
        self.columns.leave_out_defaults();
        if self.starts[..] == like[..] {
            self.columns.starts = like.clone();
        } else {
            self.columns.starts = std::mem::take(&mut self.starts).into();
        }
        (self.columns, self.starts)
    }
}

/// Gives a column that was left out so far the windows that it lacks: so many, without anything,
/// and room for as many as there may be. Nothing changes where it has them.
pub fn make_whole<T: Clone + Default>(
    column: &mut Vec<T>,
    windows: usize,
    capacity: usize,
) -> &mut Vec<T> {
    if column.is_empty() {
        column.reserve_exact(capacity);
    }
    if column.len() < windows {
        column.resize(windows, T::default());
    }
    column
}

/// Appends a column that may be left out in both.
fn append_optional<T: Clone + Default>(column: &mut Vec<T>, before: usize, more: &mut Vec<T>) {
    if !more.is_empty() {
        make_whole(column, before, before + more.len()).append(more);
    }
}

fn leave_out<T: Default + PartialEq>(column: &mut Vec<T>) {
    if column.iter().all(|entry| *entry == T::default()) {
        column.clear();
    }
}

impl WindowColumns {
    /// Makes room for so many windows in the columns of its fields that are always there.
    fn reserve(&mut self, windows: usize) {
        if self.fields.contains(WindowFields::COUNTS) {
            self.numbers.reserve_exact(windows);
        }
        let fields = self.fields;
        let of_fields =
            |field: &WindowFields| fields.contains(*field) && *field != WindowFields::CORRECTION;
        for (_, column) in self.times().into_iter().filter(|(of, _)| of_fields(of)) {
            column.reserve_exact(windows);
        }
        for (_, column) in self.values().into_iter().filter(|(of, _)| of_fields(of)) {
            column.reserve_exact(windows);
        }
    }

    /// Room for so many windows is there.
    pub fn capacity(&self) -> usize {
        let columns = [&self.first, &self.last, &self.sum, &self.min, &self.max];
        let values = columns.iter().map(|column| column.capacity()).max();
        self.numbers.capacity().max(values.unwrap_or_default())
    }

    /// Forgets all windows, and keeps the memory.
    fn clear(&mut self) {
        self.starts = TimeColumn::default();
        self.keep_fields(WindowFields::NONE);
        self.edges.clear();
        self.ends_stale.clear();
    }

    /// Leaves out the columns that are not of these fields.
    fn keep_fields(&mut self, fields: WindowFields) {
        if self.fields == fields {
            return;
        }
        self.fields = fields;
        let is_gone = |field: &WindowFields| !fields.contains(*field);
        for (_, column) in self.counts().into_iter().filter(|(of, _)| is_gone(of)) {
            column.clear();
        }
        for (_, column) in self.times().into_iter().filter(|(of, _)| is_gone(of)) {
            column.clear();
        }
        for (_, column) in self.values().into_iter().filter(|(of, _)| is_gone(of)) {
            column.clear();
        }
    }

    /// Appends the columns of its fields, which `part` has, but not the starts. So many windows lie
    /// before.
    fn extend_from(&mut self, before: usize, mut part: Self) {
        part.keep_fields(self.fields);
        append_optional(&mut self.edges, before, &mut part.edges);
        append_optional(&mut self.ends_stale, before, &mut part.ends_stale);
        for ((_, column), (_, more)) in self.counts().into_iter().zip(part.counts()) {
            append_optional(column, before, more);
        }
        for ((_, column), (_, more)) in self.times().into_iter().zip(part.times()) {
            column.append(more);
        }
        for ((_, column), (_, more)) in self.values().into_iter().zip(part.values()) {
            append_optional(column, before, more);
        }
    }

    /// Makes the columns whole that the last of so many windows were left out of.
    fn fill_up(&mut self, windows: usize) {
        fn fill_up<T: Clone + Default>(column: &mut Vec<T>, windows: usize) {
            if !column.is_empty() {
                make_whole(column, windows, windows);
            }
        }
        fill_up(&mut self.edges, windows);
        fill_up(&mut self.ends_stale, windows);
        for column in [&mut self.nans, &mut self.resets, &mut self.changes] {
            fill_up(column, windows);
        }
        fill_up(&mut self.correction, windows);
    }

    /// Leaves out the columns in which no window has anything.
    pub(super) fn leave_out_defaults(&mut self) {
        // `Edge` has a float, and NaN is something.
        if self.edges.iter().all(|edge| matches!(edge, Edge::None)) {
            self.edges.clear();
        }
        leave_out(&mut self.ends_stale);
        for column in [&mut self.nans, &mut self.resets, &mut self.changes] {
            leave_out(column);
        }
        // −0 is a correction like any other, because all bits of it come back.
        if self.correction.iter().all(|lost| lost.to_bits() == 0) {
            self.correction.clear();
        }
    }

    /// Leaves out the windows whose start is not to be kept.
    pub fn retain(&mut self, keep: impl Fn(i64) -> bool) {
        let kept: Vec<bool> = self.starts.iter().map(|start| keep(*start)).collect();
        if !kept.contains(&false) {
            return;
        }
        let starts = self.starts.iter().zip(&kept).filter(|(_, kept)| **kept);
        self.starts = starts.map(|(start, _)| *start).collect();
        retain(&mut self.edges, &kept);
        retain(&mut self.ends_stale, &kept);
        for (_, column) in self.counts() {
            retain(column, &kept);
        }
        for (_, column) in self.times() {
            retain(column, &kept);
        }
        for (_, column) in self.values() {
            retain(column, &kept);
        }
        self.leave_out_defaults();
    }

    /// Columns of numbers of something, with what they belong to.
    fn counts(&mut self) -> [(WindowFields, &mut Vec<u64>); 4] {
        [
            (WindowFields::COUNTS, &mut self.numbers),
            (WindowFields::COUNTS, &mut self.nans),
            (WindowFields::RESETS, &mut self.resets),
            (WindowFields::CHANGES, &mut self.changes),
        ]
    }

    fn times(&mut self) -> [(WindowFields, &mut Vec<i64>); 2] {
        [
            (WindowFields::FIRST, &mut self.first_ms),
            (WindowFields::LAST, &mut self.last_ms),
        ]
    }

    fn values(&mut self) -> [(WindowFields, &mut Vec<f64>); 7] {
        [
            (WindowFields::FIRST, &mut self.first),
            (WindowFields::LAST, &mut self.last),
            (WindowFields::SUM, &mut self.sum),
            (WindowFields::MIN, &mut self.min),
            (WindowFields::MAX, &mut self.max),
            (WindowFields::M2, &mut self.m2),
            (WindowFields::CORRECTION, &mut self.correction),
        ]
    }
}

fn retain<T>(column: &mut Vec<T>, kept: &[bool]) {
    let mut kept = kept.iter();
    column.retain(|_| kept.next() == Some(&true));
}

#[cfg(test)]
mod tests {
    use super::super::{Resolution, roll_up};
    use super::*;
    use crate::HOUR_MS;

    fn concat(parts: Vec<WindowColumns>, like: &TimeColumn) -> WindowColumns {
        let mut joined = JoinedWindows::with_capacity(like.len());
        parts.into_iter().for_each(|part| joined.append(part));
        joined.finish(like)
    }

    #[test]
    fn joined_columns_are_those_of_all_windows() {
        let samples = (0..400).map(|i| (i * 60_000, (i % 7) as f64));
        let windows = roll_up(Resolution::HOUR, samples);
        let lean = WindowFields::ALL.without(WindowFields::M2 | WindowFields::CHANGES);
        for (left, right) in [
            (WindowFields::ALL, WindowFields::ALL),
            (WindowFields::ALL, lean),
        ] {
            let (first, rest) = windows.split_at(3);
            let (middle, last) = rest.split_at(1);
            let parts = |first, rest| {
                vec![
                    WindowColumns::from_windows(first, left),
                    WindowColumns::default(),
                    WindowColumns::from_windows(middle, left),
                    WindowColumns::from_windows(rest, right),
                ]
            };
            let joined = concat(parts(first, last), &TimeColumn::default());
            assert_eq!(joined, WindowColumns::from_windows(&windows, right));
            assert_eq!(joined.starts[6], 6 * HOUR_MS);
            let again = concat(parts(first, last), &joined.starts);
            assert_eq!(again, joined);
            assert_eq!(again.starts.identity(), joined.starts.identity());
            let fewer = concat(parts(&first[1..], last), &joined.starts);
            assert_eq!(fewer, WindowColumns::from_windows(&windows[1..], right));
        }
        let all = WindowColumns::from_windows(&windows, lean);
        let parts = vec![all.clone(), WindowColumns::default()];
        assert_eq!(concat(parts, &TimeColumn::default()), all);
        let nothing = concat(Vec::new(), &all.starts);
        assert!(nothing.is_empty());
    }

    #[test]
    fn what_only_some_parts_have_takes_its_place() {
        let samples = (0..600).map(|i| (i * 60_000 + 1, i as f64));
        let plain = roll_up(Resolution::HOUR, samples);
        let columns = WindowColumns::from_windows(&plain, WindowFields::ALL);
        assert!(columns.edges.is_empty() && columns.ends_stale.is_empty());
        assert!(columns.nans.is_empty() && columns.correction.is_empty());
        assert_eq!(columns.windows(), plain);
        for changed in 0..plain.len() {
            let mut windows = plain.clone();
            windows[changed].edge = Edge::Sample(f64::NAN);
            windows[changed].ends_stale = true;
            let inside = windows[changed].interior.as_mut().unwrap();
            (inside.nans, inside.resets, inside.correction) = (1, 2, -0.0);
            let parts = windows.chunks(3).map(|part| {
                let part = WindowColumns::from_windows(part, WindowFields::ALL);
                let rare = [part.edges.len(), part.nans.len(), part.correction.len()];
                assert!(rare.iter().all(|len| *len == 0 || *len == part.len()));
                part
            });
            let joined = concat(parts.collect(), &TimeColumn::default());
            let expected = WindowColumns::from_windows(&windows, WindowFields::ALL);
            // NaN is not equal to itself.
            assert_eq!(format!("{joined:?}"), format!("{expected:?}"));
            assert_eq!(joined.edges.len(), windows.len());
            // In the memory of these windows others are not disturbed by them.
            let mut again = JoinedWindows::within(joined.clone(), vec![1, 2]);
            again.append(columns.clone());
            assert_eq!(again.finish(&TimeColumn::default()), columns);
            let mut left = joined;
            left.retain(|start_ms| start_ms != windows[changed].start_ms);
            assert!(left.edges.is_empty() && left.nans.is_empty() && left.resets.is_empty());
        }
    }

    #[test]
    fn windows_can_be_left_out() {
        let samples = (0..400).map(|i| (i * 60_000, (i % 7) as f64));
        let mut windows = roll_up(Resolution::HOUR, samples);
        let mut columns = WindowColumns::from_windows(&windows, WindowFields::ALL);
        assert_eq!(columns.windows(), windows);
        let keep = |start_ms: i64| start_ms % (2 * HOUR_MS) == 0;
        columns.retain(keep);
        windows.retain(|window| keep(window.start_ms));
        assert_eq!(
            columns,
            WindowColumns::from_windows(&windows, WindowFields::ALL)
        );
    }
}
