//! Columns of windows: one bucket after the other, without some of them.

use std::convert::Infallible;

use super::{WindowColumns, WindowFields};
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
        Self {
            columns: WindowColumns::default(),
            starts: Vec::with_capacity(windows),
        }
    }

    /// Appends windows that have these fields. `push_starts` appends when they begin, `push` their
    /// columns: those of the fields that it finds there, as many as there are starts. When it
    /// fails, nothing more can be done with the windows.
    pub fn append_with<E>(
        &mut self,
        fields: WindowFields,
        push_starts: impl FnOnce(&mut Vec<i64>),
        push: impl FnOnce(&[i64], &mut WindowColumns) -> Result<(), E>,
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
        push(&self.starts[from..], columns)
    }

    /// Appends windows that are columns already.
    pub fn append(&mut self, part: WindowColumns) {
        let (fields, starts) = (part.fields, part.starts.clone());
        let push_starts = |all: &mut Vec<i64>| all.extend_from_slice(&starts);
        let Ok(()) = self.append_with(fields, push_starts, |_, columns| {
            columns.extend_from(part);
            Ok::<(), Infallible>(())
        });
    }

    /// When the windows begin.
    pub fn starts(&self) -> &[i64] {
        &self.starts
    }

    /// The windows. Starts that equal `like` share its memory: series are mostly kept alike.
    pub fn finish(mut self, like: &TimeColumn) -> WindowColumns {
        self.columns.starts = if self.starts[..] == like[..] {
            like.clone()
        } else {
            self.starts.into()
        };
        self.columns
    }
}

impl WindowColumns {
    /// Makes room for so many windows in the columns of its fields.
    fn reserve(&mut self, windows: usize) {
        self.edges.reserve_exact(windows);
        self.ends_stale.reserve_exact(windows);
        let fields = self.fields;
        let of_fields = |field: &WindowFields| fields.contains(*field);
        for (_, column) in self.counts().into_iter().filter(|(of, _)| of_fields(of)) {
            column.reserve_exact(windows);
        }
        for (_, column) in self.times().into_iter().filter(|(of, _)| of_fields(of)) {
            column.reserve_exact(windows);
        }
        for (_, column) in self.values().into_iter().filter(|(of, _)| of_fields(of)) {
            column.reserve_exact(windows);
        }
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

    /// Appends the columns of its fields, which `part` has, but not the starts.
    fn extend_from(&mut self, mut part: Self) {
        part.keep_fields(self.fields);
        self.edges.append(&mut part.edges);
        self.ends_stale.append(&mut part.ends_stale);
        for ((_, column), (_, more)) in self.counts().into_iter().zip(part.counts()) {
            column.append(more);
        }
        for ((_, column), (_, more)) in self.times().into_iter().zip(part.times()) {
            column.append(more);
        }
        for ((_, column), (_, more)) in self.values().into_iter().zip(part.values()) {
            column.append(more);
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
