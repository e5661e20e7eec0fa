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
    let (times, values) = (&*points.times, V::of(points));
    let (Some(first), Some(last)) = (times.first(), times.last()) else {
        return;
    };
    if values.is_empty() {
        return;
    }
    let mut row = rows.partition_point(|time| time < first);
    // A rate is not interpolated: it holds until the next one.
    let between = match V::before(points) {
        None => interpolation,
        Some(before) => {
            (0..row).for_each(|row| add(row, before));
            Interpolation::Previous
        }
    };
    let mut next = rows
        .get(row)
        .map_or(0, |time| times.partition_point(|t| t <= time));
    while let Some(time) = rows.get(row).filter(|time| *time <= last) {
        while next < times.len() && times[next] <= *time {
            next += 1;
        }
        let at = next - 1;
        let value = if times[at] == *time {
            values[at]
        } else {
            match between {
                Interpolation::Linear => {
                    V::linear(*time, (times[at], values[at]), (times[next], values[next]))
                }
                Interpolation::Zero => V::ZERO,
                Interpolation::Max => V::HIGHEST,
                Interpolation::Min => V::LOWEST,
                Interpolation::Previous => values[at],
            }
        };
        add(row, value);
        row += 1;
    }
}
