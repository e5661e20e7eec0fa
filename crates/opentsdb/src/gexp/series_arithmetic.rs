//! Sets of series, added, subtracted, multiplied and divided.

use icecore_wire::opentsdb::number::Number;

use super::function::refused;
use crate::error::Error;
use crate::exp::{
    Cells, Columns, Expression, Identity, Join, Variable, column, compute, union_of_times,
};
use crate::query::{ResultPoints, ResultSeries, RolledReport};
use crate::uid::Uids;

/// Sets that a function takes, one for each letter.
const SETS: std::ops::RangeInclusive<usize> = 2..=26;

/// Series that have equal tags, from the left to the right. A series or a point that one set lacks
/// is 0 there, and so is what cannot be divided.
pub(super) fn combine(
    uids: &Uids,
    sets: &[Vec<ResultSeries>],
    operator: char,
    cells: &mut Cells,
) -> Result<Vec<ResultSeries>, Error> {
    if !SETS.contains(&sets.len()) {
        let count = sets.len();
        return Err(refused(format!(
            "Must have 2 to 26 series, got {count} instead"
        )));
    }
    let letters = ('a'..='z').take(sets.len()).map(String::from);
    let text = letters.collect::<Vec<_>>().join(&operator.to_string());
    let expression = Expression::parse(&text).map_err(refused)?;
    let identities = sets
        .iter()
        .map(|set| set.iter().map(Identity::of).collect());
    let identities: Vec<Vec<Identity>> = identities.collect();
    let variables = identities.iter().map(|series| Variable {
        series,
        query_tagks: &[],
    });
    let joined = Join::default()
        .join(uids, &variables.collect::<Vec<_>>())
        .all;
    let times = union_of_times(sets.iter().flatten().map(|series| &series.points));
    let series_count = sets.iter().map(Vec::len).sum::<usize>() + joined.len();
    cells.add(series_count, times.len())?;
    let columns = sets.iter().map(|set| {
        let series = set.iter().map(|s| column(&s.points, &times, f64::NAN));
        series.collect()
    });
    let columns: Vec<Columns> = columns.collect();
    let inputs: Vec<(&Columns, f64)> = columns.iter().map(|columns| (columns, 0.0)).collect();
    let values = compute(&expression, &joined, &inputs, times.len());
    let results = joined.into_iter().zip(values).map(|(joined, values)| {
        // Only times that one of these series has.
        let present = joined.inputs.iter().zip(sets);
        let present = present.filter_map(|(input, set)| input.and_then(|s| set.get(s)));
        let present: Vec<&ResultSeries> = present.collect();
        let own = union_of_times(present.iter().map(|series| &series.points));
        let all = times.iter().zip(values);
        let kept = all.filter(|(time, _)| own.binary_search(time).is_ok());
        let (times, values) = kept
            .map(|(time, value)| (*time, Number::Float(value)))
            .unzip();
        ResultSeries {
            metric: present
                .first()
                .map_or_else(String::new, |s| s.metric.clone()),
            tags: joined.identity.tags,
            aggregate_tags: joined.identity.aggregate_tags,
            members: joined.identity.members,
            points: ResultPoints { times, values },
            annotations: Some(Vec::new()),
            rollup: None,
            levels: RolledReport::of_all(present.iter().copied()),
        }
    });
    Ok(results.collect())
}

#[cfg(test)]
mod tests {
    use super::super::function::tests::series;
    use super::*;

    fn set(host: &str, points: &[(i64, i64)]) -> Vec<ResultSeries> {
        let points = points.iter().map(|(t, v)| (*t, Number::Integer(*v)));
        vec![series("m", host, &points.collect::<Vec<_>>())]
    }

    fn combined(sets: &[Vec<ResultSeries>], operator: char) -> Vec<Vec<(i64, f64)>> {
        let uids = Uids::new([3, 3, 3], false);
        let found = combine(&uids, sets, operator, &mut Cells::default()).unwrap();
        let points = found.into_iter().map(|series| {
            let values = series.points.values.into_iter().map(|value| match value {
                Number::Float(value) => value,
                Number::Integer(_) => panic!("results are floats"),
            });
            series.points.times.into_iter().zip(values).collect()
        });
        points.collect()
    }

    #[test]
    fn points_are_paired_by_time() {
        let sets = [
            set("web01", &[(1, 10), (2, 12), (4, 14)]),
            set("web01", &[(2, 4), (3, 5), (4, 0)]),
        ];
        assert_eq!(
            combined(&sets, '+'),
            [[(1, 10.0), (2, 16.0), (3, 5.0), (4, 14.0)]]
        );
        assert_eq!(
            combined(&sets, '-'),
            [[(1, 10.0), (2, 8.0), (3, -5.0), (4, 14.0)]]
        );
        assert_eq!(
            combined(&sets, '*'),
            [[(1, 0.0), (2, 48.0), (3, 0.0), (4, 0.0)]]
        );
        assert_eq!(
            combined(&sets, '/'),
            [[(1, 0.0), (2, 3.0), (3, 0.0), (4, 0.0)]]
        );
    }

    #[test]
    fn series_are_paired_by_tags() {
        let sets = [set("web01", &[(1, 10)]), set("web02", &[(2, 2)])];
        assert_eq!(combined(&sets, '-'), [[(1, 10.0)], [(2, -2.0)]]);
        let uids = Uids::new([3, 3, 3], false);
        let error = combine(&uids, &sets[..1], '+', &mut Cells::default()).unwrap_err();
        assert_eq!(error.message, "Must have 2 to 26 series, got 1 instead");
    }

    #[test]
    fn three_sets_from_the_left_to_the_right() {
        let sets = [10, 5, 2].map(|value| set("web01", &[(1, value)]));
        assert_eq!(combined(&sets, '-'), [[(1, 3.0)]]);
        assert_eq!(combined(&sets, '/'), [[(1, 1.0)]]);
    }
}
