//! Aggregation of series one after the other, where the times of all are known before: those of a
//! downsampler's intervals. Nothing is kept of a series but what it adds.

use std::sync::Arc;

use icecore_wire::opentsdb::number::Number;

use super::aggregator::{Aggregator, Function, Interpolation};
use super::buckets::floor;
use super::fold::{Fold, WithFold, with_fold};
use super::interpolate::contribute;
use super::points::SeriesPoints;
use super::rows::ResultPoints;
use super::window::Window;

/// Most rows for which states are kept; beyond, series are kept instead.
const ROWS_MAX: i64 = 1 << 20;

/// The starts of all intervals within the window.
#[derive(Clone, Debug)]
pub(crate) struct Grid {
    pub(crate) rows: Arc<[i64]>,
    length: i64,
}

impl Grid {
    /// `None` where that would be too many.
    pub(crate) fn new(length: i64, output: Window) -> Option<Self> {
        let start = floor(output.start_ms.saturating_add(length - 1), length);
        if output.end_ms < start || (output.end_ms - start) / length >= ROWS_MAX {
            return None;
        }
        let rows = (0..=(output.end_ms - start) / length).map(|i| start + i * length);
        Some(Self {
            rows: rows.collect(),
            length,
        })
    }

    fn row(&self, time: i64) -> Option<usize> {
        let since = time.checked_sub(*self.rows.first()?)?;
        let row = usize::try_from(since / self.length).ok()?;
        (since >= 0 && row < self.rows.len()).then_some(row)
    }
}

/// The aggregate of the series that were added so far.
pub(crate) trait RunningAggregate: Send {
    fn add(&mut self, points: &SeriesPoints);
    fn finish(&mut self) -> ResultPoints;
}

/// Bytes that an aggregate holds for each row.
pub(crate) const ROW_BYTES: usize = 32;

pub(crate) fn running_aggregate(grid: &Grid, aggregator: Aggregator) -> Box<dyn RunningAggregate> {
    with_fold(aggregator.function, Start { grid, aggregator })
}

struct Start<'a> {
    grid: &'a Grid,
    aggregator: Aggregator,
}

impl WithFold<f64> for Start<'_> {
    type Output = Box<dyn RunningAggregate>;

    fn run<F: Fold<f64> + 'static>(self) -> Self::Output {
        let function: Function = self.aggregator.function;
        let rows = self.grid.rows.len();
        Box::new(Dense {
            grid: self.grid.clone(),
            interpolation: self.aggregator.interpolation,
            states: vec![F::new(function); rows],
            has_point: vec![false; rows],
        })
    }
}

struct Dense<F> {
    grid: Grid,
    interpolation: Interpolation,
    states: Vec<F>,
    /// Rows at which some series has a point: only these are part of the answer.
    has_point: Vec<bool>,
}

impl<F: Fold<f64>> RunningAggregate for Dense<F> {
    fn add(&mut self, points: &SeriesPoints) {
        for time in points.times.iter() {
            if let Some(row) = self.grid.row(*time) {
                self.has_point[row] = true;
            }
        }
        let states = &mut self.states;
        contribute::<f64>(points, &self.grid.rows, self.interpolation, |row, value| {
            states[row].add(value);
        });
    }

    fn finish(&mut self) -> ResultPoints {
        let mut result = ResultPoints::default();
        let rows = self.grid.rows.iter().zip(&mut self.states);
        for ((time, state), _) in rows.zip(&self.has_point).filter(|(_, has)| **has) {
            result.times.push(*time);
            result.values.push(Number::Float(state.finish()));
        }
        result
    }
}
