//! Columns of windows: one bucket after the other, without some of them.

use super::{WindowColumns, WindowFields};
use crate::TimeColumn;

impl WindowColumns {
    /// Windows of parts that follow each other in time. What only some of the parts have is left
    /// out. Starts that equal `like` share its memory: series are mostly kept alike.
    pub fn concat(parts: Vec<Self>, like: &TimeColumn) -> Self {
        let mut parts = parts.into_iter().filter(|part| !part.is_empty());
        let Some(mut all) = parts.next() else {
            return Self::default();
        };
        let rest: Vec<Self> = parts.collect();
        if rest.is_empty() {
            return all;
        }
        let common =
            |fields: WindowFields, part: &Self| fields.without(fields.without(part.fields));
        all.fields = rest.iter().fold(all.fields, common);
        let windows = all.len() + rest.iter().map(Self::len).sum::<usize>();
        let mut starts = Vec::with_capacity(windows);
        starts.extend_from_slice(&all.starts);
        for part in rest {
            starts.extend_from_slice(&part.starts);
            all.extend(part, windows);
        }
        all.starts = if starts[..] == like[..] {
            like.clone()
        } else {
            starts.into()
        };
        all
    }

    /// Appends all columns but the starts. There will be so many windows.
    fn extend(&mut self, after: Self, windows: usize) {
        let join = Join {
            fields: self.fields,
            windows,
        };
        self.edges.extend(after.edges);
        self.ends_stale.extend(after.ends_stale);
        join.columns(WindowFields::COUNTS, &mut self.numbers, after.numbers);
        join.columns(WindowFields::COUNTS, &mut self.nans, after.nans);
        join.columns(WindowFields::FIRST, &mut self.first_ms, after.first_ms);
        join.columns(WindowFields::FIRST, &mut self.first, after.first);
        join.columns(WindowFields::LAST, &mut self.last_ms, after.last_ms);
        join.columns(WindowFields::LAST, &mut self.last, after.last);
        join.columns(WindowFields::SUM, &mut self.sum, after.sum);
        join.columns(WindowFields::MIN, &mut self.min, after.min);
        join.columns(WindowFields::MAX, &mut self.max, after.max);
        join.columns(WindowFields::M2, &mut self.m2, after.m2);
        join.columns(
            WindowFields::CORRECTION,
            &mut self.correction,
            after.correction,
        );
        join.columns(WindowFields::RESETS, &mut self.resets, after.resets);
        join.columns(WindowFields::CHANGES, &mut self.changes, after.changes);
    }
}

impl WindowColumns {
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
        for column in [
            &mut self.numbers,
            &mut self.nans,
            &mut self.resets,
            &mut self.changes,
        ] {
            retain(column, &kept);
        }
        for column in [&mut self.first_ms, &mut self.last_ms] {
            retain(column, &kept);
        }
        for column in [
            &mut self.first,
            &mut self.last,
            &mut self.sum,
            &mut self.min,
            &mut self.max,
            &mut self.m2,
            &mut self.correction,
        ] {
            retain(column, &kept);
        }
    }
}

fn retain<T>(column: &mut Vec<T>, kept: &[bool]) {
    let mut kept = kept.iter();
    column.retain(|_| kept.next() == Some(&true));
}

/// How columns are joined: which all parts have, and how long they become.
struct Join {
    fields: WindowFields,
    windows: usize,
}

impl Join {
    fn columns<T>(&self, field: WindowFields, column: &mut Vec<T>, after: Vec<T>) {
        if self.fields.contains(field) {
            column.reserve_exact(self.windows.saturating_sub(column.len()));
            column.extend(after);
        } else {
            column.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Resolution, roll_up};
    use super::*;
    use crate::HOUR_MS;

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
            let joined = WindowColumns::concat(parts(first, last), &TimeColumn::default());
            assert_eq!(joined, WindowColumns::from_windows(&windows, right));
            assert_eq!(joined.starts[6], 6 * HOUR_MS);
            let again = WindowColumns::concat(parts(first, last), &joined.starts);
            assert_eq!(again, joined);
            assert_eq!(again.starts.identity(), joined.starts.identity());
            let fewer = WindowColumns::concat(parts(&first[1..], last), &joined.starts);
            assert_eq!(fewer, WindowColumns::from_windows(&windows[1..], right));
        }
        let all = WindowColumns::from_windows(&windows, lean);
        let parts = vec![all.clone(), WindowColumns::default()];
        assert_eq!(WindowColumns::concat(parts, &TimeColumn::default()), all);
        let nothing = WindowColumns::concat(Vec::new(), &all.starts);
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
