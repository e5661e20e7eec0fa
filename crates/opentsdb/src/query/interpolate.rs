//! What a series counts as at times that other series of its group have.

use super::aggregator::Interpolation;
use super::number::Arithmetic;
use super::points::SeriesPoints;

/// The values of a kind that a series has.
pub(crate) trait Column: Arithmetic + 'static {
    /// One for each point; none at all where the series has no values of this kind.
    fn of(points: &SeriesPoints) -> &[Self];

    fn before(points: &SeriesPoints) -> Option<Self>;
}

impl Column for f64 {
    fn of(points: &SeriesPoints) -> &[Self] {
        &points.values
    }

    fn before(points: &SeriesPoints) -> Option<Self> {
        points.before
    }
}

impl Column for i64 {
    fn of(points: &SeriesPoints) -> &[Self] {
        points.integers.as_ref().map_or(&[], |i| &i.values)
    }

    fn before(_: &SeriesPoints) -> Option<Self> {
        None
    }
}

/// Calls `add` with the index and the value of each of the rows (times in ascending order) at which
/// the series takes part: from its first to its last point, or to its last where it is a rate.
pub(crate) fn contribute<V: Column>(
    points: &SeriesPoints,
    rows: &[i64],
    interpolation: Interpolation,
    mut add: impl FnMut(usize, V),
) {
    if V::of(points).is_empty() {
        return;
    }
    // A rate is not interpolated: it holds until the next one.
    let between = match V::before(points) {
        None => interpolation,
        Some(before) => {
            let first = points.times.first();
            let rows_before = first.map_or(0, |first| rows.partition_point(|row| row < first));
            (0..rows_before).for_each(|row| add(row, before));
            Interpolation::Previous
        }
    };
    match between {
        Interpolation::Linear => walk(points, rows, V::linear, add),
        Interpolation::Zero => walk(points, rows, |_, _, _| V::ZERO, add),
        Interpolation::Max => walk(points, rows, |_, _, _| V::HIGHEST, add),
        Interpolation::Min => walk(points, rows, |_, _, _| V::LOWEST, add),
        Interpolation::Previous => walk(points, rows, |_, (_, value), _| value, add),
    }
}

/// Goes from point to point, and through the rows between two of them.
fn walk<V: Column>(
    points: &SeriesPoints,
    rows: &[i64],
    between: impl Fn(i64, (i64, V), (i64, V)) -> V,
    mut add: impl FnMut(usize, V),
) {
    let (times, values) = (&*points.times, V::of(points));
    let first_row = times
        .first()
        .map(|first| rows.partition_point(|row| row < first));
    let mut row = first_row.unwrap_or(rows.len());
    let Some(time) = rows.get(row) else {
        return;
    };
    let mut at = times.partition_point(|t| t <= time) - 1;
    while let Some(time) = rows.get(row) {
        let from = (times[at], values[at]);
        if *time == from.0 {
            add(row, from.1);
            row += 1;
        }
        at += 1;
        let (Some(next), Some(value)) = (times.get(at), values.get(at)) else {
            return;
        };
        while let Some(time) = rows.get(row).filter(|time| *time < next) {
            add(row, between(*time, from, (*next, *value)));
            row += 1;
        }
    }
}
