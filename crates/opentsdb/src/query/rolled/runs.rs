//! Points and windows of a series in one order of time.

use icecore_model::TimeColumn;

/// Entries that follow each other in one column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) column: Column,
    /// The first of them in its column.
    pub(super) first: usize,
    /// Where it begins among all.
    pub(super) start: usize,
    pub(super) end: usize,
}

/// Where entries come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Column {
    Points,
    /// A list of windows.
    Windows(usize),
}

/// The times of all entries, and what they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Runs {
    pub(super) times: Vec<i64>,
    pub(super) runs: Vec<Run>,
}

impl Runs {
    /// Merges columns of times. At one time windows come first.
    pub(super) fn new(points: &TimeColumn, windows: &[&TimeColumn]) -> Self {
        let windows = windows.iter().enumerate();
        let mut columns: Vec<(Column, &[i64])> = windows
            .map(|(at, starts)| (Column::Windows(at), &starts[..]))
            .collect();
        columns.push((Column::Points, points));
        let mut next = vec![0; columns.len()];
        let mut merged = Self::default();
        loop {
            let heads = columns.iter().zip(&next).enumerate();
            let mut heads = heads
                .filter_map(|(at, ((_, times), next))| Some((*times.get(*next)?, at)))
                .collect::<Vec<_>>();
            heads.sort_unstable();
            let Some((_, at)) = heads.first().copied() else {
                return merged;
            };
            let (column, times) = columns[at];
            let first = next[at];
            let end = match heads.get(1) {
                None => times.len(),
                Some((until, other)) => {
                    let is_before = |time: &i64| (*time, at) < (*until, *other);
                    first + times[first..].partition_point(is_before)
                }
            };
            merged.push(column, first, &times[first..end]);
            next[at] = end;
        }
    }

    fn push(&mut self, column: Column, first: usize, times: &[i64]) {
        let start = self.times.len();
        self.times.extend_from_slice(times);
        self.runs.push(Run {
            column,
            first,
            start,
            end: self.times.len(),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(times: &[i64]) -> TimeColumn {
        times.to_vec().into()
    }

    #[test]
    fn columns_alternate() {
        let points = column(&[20, 21, 40]);
        let (old, new) = (column(&[0, 10]), column(&[30, 40]));
        let runs = Runs::new(&points, &[&old, &new]);
        assert_eq!(runs.times, [0, 10, 20, 21, 30, 40, 40]);
        let found: Vec<_> = runs
            .runs
            .iter()
            .map(|r| (r.column, r.first, r.start..r.end))
            .collect();
        let expected = [
            (Column::Windows(0), 0, 0..2),
            (Column::Points, 0, 2..4),
            (Column::Windows(1), 0, 4..6),
            (Column::Points, 2, 6..7),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn lists_of_two_names_may_overlap() {
        let nothing = column(&[]);
        let (old, new) = (column(&[0, 10]), column(&[10, 20]));
        let runs = Runs::new(&nothing, &[&old, &new]);
        assert_eq!(runs.times, [0, 10, 10, 20]);
        assert_eq!(runs.runs.len(), 2);
        assert_eq!(Runs::new(&nothing, &[]), Runs::default());
    }
}
