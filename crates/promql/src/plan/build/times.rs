//! The times of data: `offset`, `@`, ranges and subqueries become absolute times.

use icecore_model::rollup::{OffGrid, RollupChoice};

use super::{Builder, HistogramUse};
use crate::error::{Error, Result};
use crate::exec::Grid;
use crate::functions::window::{WindowMode, WindowNeed, Windows};
use crate::parse::{At, Duration, DurationError, Expr, Subquery, TimeModifiers};
use crate::plan::RangeInput;

/// Most steps of a subquery: one per second over eleven days. Each holds a value per series.
const SUBQUERY_STEPS_MAX: usize = 1_000_000;

impl Builder<'_> {
    /// How far before the steps of `grid` the data lies. With `@` that holds for the first step
    /// only; such nodes have one step (or fixed windows).
    pub(super) fn offset(&self, time: &TimeModifiers, grid: Grid) -> Result<i64> {
        let offset_ms = self.duration(&time.offset)?;
        Ok(match self.at(time) {
            Some(at_ms) => grid
                .start_ms
                .saturating_sub(at_ms)
                .saturating_add(offset_ms),
            None => offset_ms,
        })
    }

    pub(super) fn at(&self, time: &TimeModifiers) -> Option<i64> {
        Some(match time.at? {
            At::Timestamp(time_ms) => time_ms,
            At::Start => self.context.grid.start_ms,
            At::End => self.context.end_ms,
        })
    }

    /// A duration of either sign.
    pub(super) fn duration(&self, duration: &Duration) -> Result<i64> {
        let (step_ms, range_ms) = self.step_and_range();
        duration.resolve(step_ms, range_ms).map_err(invalid)
    }

    /// A duration greater than 0.
    pub(super) fn positive_duration(&self, duration: &Duration) -> Result<i64> {
        let (step_ms, range_ms) = self.step_and_range();
        duration
            .resolve_positive(step_ms, range_ms)
            .map_err(invalid)
    }

    /// The values of `step()` and `range()`: those of the query, 0 for instant queries.
    pub(super) fn step_and_range(&self) -> (i64, i64) {
        let grid = self.context.grid;
        if self.context.is_range {
            (
                grid.step_ms,
                self.context.end_ms.saturating_sub(grid.start_ms),
            )
        } else {
            (0, 0)
        }
    }

    /// The input of a function over ranges, and its windows.
    pub(super) fn range(
        &mut self,
        expr: &Expr,
        grid: Grid,
        need: WindowNeed,
    ) -> Result<(RangeInput, Windows)> {
        match expr.unwrapped() {
            Expr::Matrix(matrix) => {
                let mode = match (matrix.selector.anchored, matrix.selector.smoothed) {
                    (true, _) => WindowMode::Anchored,
                    (_, true) => WindowMode::Smoothed,
                    _ => WindowMode::Plain,
                };
                let range_ms = self.positive_duration(&matrix.range)?;
                let windows = self.windows(range_ms, &matrix.selector.time, grid, mode)?;
                let repeats = grid.steps > 1 && windows.at_ms.is_none();
                let choice = RollupChoice {
                    start_ms: windows.ends().0,
                    step_ms: if repeats { grid.step_ms } else { 0 },
                    range_ms,
                    is_exact: need.is_exact,
                    max_ms: self.context.rollup.max_ms,
                    off_grid: OffGrid::Short,
                };
                let read = windows.read_range();
                let from = self.scan(&matrix.selector, read, choice, need.fields);
                Ok((RangeInput::Scan(from), windows))
            }
            Expr::Subquery(subquery) => self.subquery(subquery, grid),
            other => Err(Error::Execution(format!(
                "expected a range vector, got {:?}",
                self.text(other.span())
            ))),
        }
    }

    pub(super) fn windows(
        &self,
        range_ms: i64,
        time: &TimeModifiers,
        grid: Grid,
        mode: WindowMode,
    ) -> Result<Windows> {
        Ok(Windows {
            grid,
            range_ms,
            offset_ms: self.duration(&time.offset)?,
            at_ms: self.at(time),
            mode,
            lookback_ms: self.context.lookback_ms,
        })
    }

    pub(super) fn subquery(
        &mut self,
        subquery: &Subquery,
        grid: Grid,
    ) -> Result<(RangeInput, Windows)> {
        let range_ms = self.positive_duration(&subquery.range)?;
        let windows = self.windows(range_ms, &subquery.time, grid, WindowMode::Plain)?;
        let step_ms = match &subquery.step {
            Some(step) => self.positive_duration(step)?,
            None => 0,
        };
        let step_ms = if step_ms > 0 {
            step_ms
        } else {
            self.context.default_step_ms
        };
        let inner = subquery_grid(&windows, step_ms.max(1));
        if inner.steps > SUBQUERY_STEPS_MAX {
            return Err(Error::LimitReached(format!(
                "subquery has {} steps, the maximum is {SUBQUERY_STEPS_MAX}: use a larger step or a shorter range",
                inner.steps
            )));
        }
        let above = std::mem::replace(&mut self.histogram_use, HistogramUse::Buckets);
        let enclosing = std::mem::replace(&mut self.requested_end_ms, windows.ends().1);
        let input = self.vector(&subquery.expr, inner);
        self.requested_end_ms = enclosing;
        self.histogram_use = above;
        Ok((RangeInput::Subquery(Box::new(input?)), windows))
    }
}

/// The steps of a subquery: multiples of its step, from the first one after the start of the first
/// window to the end of the last window.
fn subquery_grid(windows: &Windows, step_ms: i64) -> Grid {
    let (first_end, last_end) = windows.ends();
    let before_first = first_end.saturating_sub(windows.range_ms);
    let mut start_ms = step_ms.saturating_mul(before_first / step_ms);
    if start_ms <= before_first {
        start_ms = start_ms.saturating_add(step_ms);
    }
    Grid::range(start_ms, last_end, step_ms)
}

fn invalid(error: DurationError) -> Error {
    Error::Execution(error.to_string())
}
