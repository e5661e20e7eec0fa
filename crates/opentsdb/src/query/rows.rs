//! Aggregation of series whose points are all known: at every time that one of them has, the values
//! of all that take part there.

use http::StatusCode;
use icecore_wire::opentsdb::number::Number;
use rayon::prelude::*;

use super::aggregator::{Function, Interpolation};
use super::fold::{Fold, WithFold, with_fold};
use super::group::Aggregation;
use super::interpolate::{Column, contribute};
use super::points::SeriesPoints;
use super::window::Window;
use crate::allowance::Allowance;
use crate::error::Error;

/// Rows that one thread computes at a time.
const CHUNK_ROWS: usize = 1 << 14;

/// Values that are kept for rows at a time, where a function needs all values of a row.
const VALUES_MAX: usize = 1 << 22;

/// Most values of all series at all rows: some minutes of work. Series without common times have
/// rows for each of their points.
const CONTRIBUTIONS_MAX: u64 = 20_000_000_000;

/// Points of an answer, in time order.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ResultPoints {
    pub(crate) times: Vec<i64>,
    pub(crate) values: Vec<Number>,
}

/// The aggregate of series, which are in the order of their UIDs, within `output`.
pub(crate) fn aggregate(
    series: &[SeriesPoints],
    aggregation: &Aggregation<'_>,
) -> Result<ResultPoints, Error> {
    let rows = union(series, aggregation.output);
    check_work(series.len(), rows.len())?;
    let values = match float_rows(series, &rows) {
        RowKinds::Integers => numbers::<i64>(series, &rows, aggregation),
        RowKinds::Floats => numbers::<f64>(series, &rows, aggregation),
        RowKinds::Mixed(is_float) => {
            let integers = numbers::<i64>(series, &rows, aggregation);
            let floats = numbers::<f64>(series, &rows, aggregation);
            let both = integers.into_iter().zip(floats).zip(is_float);
            both.map(|((integer, float), is_float)| if is_float { float } else { integer })
                .collect()
        }
    };
    // What was cut short is no result.
    aggregation.allowance.check()?;
    Ok(ResultPoints {
        times: rows,
        values,
    })
}

fn check_work(series: usize, rows: usize) -> Result<(), Error> {
    if series as u64 * rows as u64 <= CONTRIBUTIONS_MAX {
        return Ok(());
    }
    let message = format!(
        "Sorry, {series} series at {rows} times are too many to be aggregated. Please use a \
         downsampler, filter using more tags or decrease your time range."
    );
    Err(Error::new(StatusCode::PAYLOAD_TOO_LARGE, message))
}

/// The times that any of the series has.
fn union(series: &[SeriesPoints], output: Window) -> Vec<i64> {
    let within = |points: &SeriesPoints| {
        let times = &points.times;
        let start = times.partition_point(|time| *time < output.start_ms);
        let end = times.partition_point(|time| *time <= output.end_ms);
        times.slice(start..end.max(start))
    };
    let mut columns: Vec<_> = series.iter().map(within).collect();
    columns.dedup();
    // Merged two by two, so that each time is copied once in each round.
    while columns.len() > 1 {
        let merge_pair = |pair: &[icecore_model::TimeColumn]| match pair {
            [a, b] if a != b => merge(a, b).into(),
            _ => pair[0].clone(),
        };
        columns = columns.chunks(2).map(merge_pair).collect();
    }
    columns
        .pop()
        .map(|column| column.to_vec())
        .unwrap_or_default()
}

fn merge(mut a: &[i64], mut b: &[i64]) -> Vec<i64> {
    let mut merged = Vec::with_capacity(a.len().max(b.len()));
    while let (Some(x), Some(y)) = (a.first(), b.first()) {
        merged.push(*x.min(y));
        let (is_x, is_y) = (x <= y, y <= x);
        a = &a[usize::from(is_x)..];
        b = &b[usize::from(is_y)..];
    }
    merged.extend_from_slice(a);
    merged.extend_from_slice(b);
    merged
}

/// How rows are computed.
enum RowKinds {
    Integers,
    Floats,
    /// Which rows are floats.
    Mixed(Vec<bool>),
}

/// A row is computed with floats if any series has a float as its latest or as its next point.
fn float_rows(series: &[SeriesPoints], rows: &[i64]) -> RowKinds {
    let has_integers = |points: &SeriesPoints| points.integers.is_some();
    if !series.iter().any(has_integers) {
        return RowKinds::Floats;
    }
    // At each row, how many float points begin to count there, minus those that no longer do.
    let mut changes = vec![0i64; rows.len() + 1];
    let row_of = |time: i64| rows.partition_point(|row| *row < time);
    let mut mark = |points: &SeriesPoints, first: usize, last: usize| {
        let start = first.checked_sub(1).map_or(0, |i| row_of(points.times[i]));
        let end = match points.times.get(last + 1) {
            Some(next) => row_of(*next),
            None => row_of(points.times[last].saturating_add(1)),
        };
        changes[start] += 1;
        changes[end] -= 1;
    };
    for points in series.iter().filter(|points| !points.is_empty()) {
        match &points.integers {
            None => mark(points, 0, points.len() - 1),
            Some(integers) => {
                for index in &integers.floats {
                    mark(points, *index as usize, *index as usize);
                }
            }
        }
    }
    let mut counting = 0;
    let is_float = changes[..rows.len()].iter().map(|change| {
        counting += change;
        counting > 0
    });
    let is_float: Vec<bool> = is_float.collect();
    if !is_float.contains(&true) {
        return RowKinds::Integers;
    }
    if !is_float.contains(&false) {
        return RowKinds::Floats;
    }
    RowKinds::Mixed(is_float)
}

fn numbers<V: Column>(
    series: &[SeriesPoints],
    rows: &[i64],
    aggregation: &Aggregation<'_>,
) -> Vec<Number> {
    let aggregator = aggregation.aggregator;
    let needs_all = matches!(
        aggregator.function,
        Function::Median | Function::Percentile(..)
    );
    let chunk_len = if needs_all {
        (VALUES_MAX / series.len().max(1)).clamp(16, CHUNK_ROWS)
    } else {
        CHUNK_ROWS
    };
    let of_chunk = |rows| {
        let work = Rows::<V> {
            series,
            rows,
            function: aggregator.function,
            interpolation: aggregator.interpolation,
            allowance: aggregation.allowance,
            kind: std::marker::PhantomData,
        };
        with_fold(aggregator.function, work)
    };
    if rows.len() <= chunk_len {
        return of_chunk(rows);
    }
    let chunks: Vec<_> = rows.par_chunks(chunk_len).map(of_chunk).collect();
    chunks.concat()
}

struct Rows<'a, V> {
    series: &'a [SeriesPoints],
    rows: &'a [i64],
    function: Function,
    interpolation: Interpolation,
    allowance: &'a Allowance,
    kind: std::marker::PhantomData<V>,
}

impl<V: Column> WithFold<V> for Rows<'_, V> {
    type Output = Vec<Number>;

    fn run<F: Fold<V>>(self) -> Vec<Number> {
        let mut states = vec![F::new(self.function); self.rows.len()];
        for points in self.series {
            if self.allowance.is_canceled() {
                break;
            }
            contribute::<V>(points, self.rows, self.interpolation, |row, value| {
                states[row].add(value);
            });
        }
        states
            .into_iter()
            .map(|mut state| state.finish().to_number())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::aggregator::Aggregator;
    use super::*;

    fn aggregation<'a>(name: &str, output: Window, allowance: &'a Allowance) -> Aggregation<'a> {
        Aggregation {
            aggregator: Aggregator::find(name).unwrap(),
            grid: None,
            output,
            allowance,
        }
    }

    fn series(times: std::ops::Range<i64>) -> SeriesPoints {
        let values = times.clone().map(|time| time as f64).collect();
        SeriesPoints::floats(times.collect(), values)
    }

    /// More rows than one chunk has.
    #[test]
    fn chunks_are_seamless() {
        let rows = 3 * CHUNK_ROWS as i64;
        let all = Window {
            start_ms: 0,
            end_ms: rows,
        };
        let series = [series(0..rows), series(rows / 3..rows / 2)];
        for name in ["sum", "median"] {
            let allowance = Allowance::default();
            let aggregation = aggregation(name, all, &allowance);
            let result = aggregate(&series, &aggregation).unwrap();
            assert_eq!(result.times, (0..rows).collect::<Vec<_>>());
            for (time, value) in result.times.iter().zip(&result.values) {
                let is_both = name == "sum" && (rows / 3..rows / 2).contains(time);
                let expected = *time as f64 * if is_both { 2.0 } else { 1.0 };
                assert_eq!(*value, Number::Float(expected), "{name} {time}");
            }
        }
    }

    #[test]
    fn what_nobody_waits_for_is_not_computed() {
        let all = Window {
            start_ms: 0,
            end_ms: 1_000,
        };
        let allowance = Allowance::default();
        let series = [series(0..1_000)];
        let aggregation = aggregation("sum", all, &allowance);
        assert!(aggregate(&series, &aggregation).is_ok());
        let canceled = &allowance.canceled;
        canceled.store(true, std::sync::atomic::Ordering::Relaxed);
        let error = aggregate(&series, &aggregation).unwrap_err();
        assert_eq!(error.status, StatusCode::REQUEST_TIMEOUT);
    }

    #[test]
    fn too_much_work_is_refused() {
        assert!(check_work(1_000, 1_000_000).is_ok());
        let error = check_work(100_000, 1_000_000).unwrap_err();
        assert_eq!(error.status, StatusCode::PAYLOAD_TOO_LARGE);
    }
}
