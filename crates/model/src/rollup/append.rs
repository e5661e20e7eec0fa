//! Columns of windows: one bucket after the other, without some of them.

use super::{WindowColumns, WindowFields};

impl WindowColumns {
    /// Appends windows that lie after these. What only one of both has is left out.
    pub fn append(&mut self, after: Self) {
        if self.is_empty() {
            *self = after;
            return;
        }
        if after.is_empty() {
            return;
        }
        let fields = self.fields.without(self.fields.without(after.fields));
        self.fields = fields;
        self.starts = self
            .starts
            .iter()
            .chain(after.starts.iter())
            .copied()
            .collect();
        self.edges.extend(after.edges);
        self.ends_stale.extend(after.ends_stale);
        let join = Join(fields);
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

/// The fields that both have.
struct Join(WindowFields);

impl Join {
    fn columns<T>(&self, field: WindowFields, column: &mut Vec<T>, after: Vec<T>) {
        if self.0.contains(field) {
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
    fn appended_columns_are_those_of_all_windows() {
        let samples = (0..400).map(|i| (i * 60_000, (i % 7) as f64));
        let windows = roll_up(Resolution::HOUR, samples);
        let lean = WindowFields::ALL.without(WindowFields::M2 | WindowFields::CHANGES);
        for (left, right) in [
            (WindowFields::ALL, WindowFields::ALL),
            (WindowFields::ALL, lean),
        ] {
            let (first, rest) = windows.split_at(3);
            let mut joined = WindowColumns::from_windows(first, left);
            joined.append(WindowColumns::from_windows(rest, right));
            assert_eq!(joined, WindowColumns::from_windows(&windows, right));
            assert_eq!(joined.starts[6], 6 * HOUR_MS);
        }
        let all = WindowColumns::from_windows(&windows, lean);
        let mut joined = WindowColumns::default();
        joined.append(all.clone());
        joined.append(WindowColumns::default());
        assert_eq!(joined, all);
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
