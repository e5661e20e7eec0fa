//! The plans of function calls.

use std::sync::Arc;

use icecore_model::{METRIC_NAME, Matcher};

use super::data_time::DataTime;
use super::{Builder, text_of};
use crate::error::{Error, Result};
use crate::exec::Grid;
use crate::functions::window::{check_mode, window_function};
use crate::functions::{map_function, vector_function};
use crate::parse::{Call, Expr, ValueType};
use crate::plan::{Arg, INFO_METRIC, Scalar, ScalarKind, SelectorOutput, Vector, VectorKind};

impl Builder<'_> {
    pub(super) fn call(&mut self, call: &Call, grid: Grid) -> Result<VectorKind> {
        let above = self.histogram_use;
        self.histogram_use = above.below(call.function.name);
        let kind = self.call_kind(call, grid);
        self.histogram_use = above;
        kind
    }

    pub(super) fn call_kind(&mut self, call: &Call, grid: Grid) -> Result<VectorKind> {
        let name = call.function.name;
        match name {
            "vector" => match call.args.first() {
                Some(arg) => Ok(VectorKind::FromScalar(self.scalar(arg, grid)?)),
                None => Err(wrong_arguments(call)),
            },
            "timestamp" | "start_timestamp" => self.timestamp(call, grid),
            "absent_over_time" => self.absent_over_time(call, grid),
            "info" => self.info(call, grid),
            _ if window_function(name).is_some() => self.window(call, name, grid),
            _ => self.instant_call(call, grid),
        }
    }

    /// `timestamp(selector)` is the time of the sample; for other vectors it is that of the step.
    pub(super) fn timestamp(&mut self, call: &Call, grid: Grid) -> Result<VectorKind> {
        let output = match call.function.name {
            "timestamp" => SelectorOutput::Timestamp,
            _ => SelectorOutput::StartTimestamp,
        };
        match call.args.first().map(Expr::unwrapped) {
            Some(Expr::Vector(selector)) if selector.time.at.is_some() && grid.steps > 1 => {
                let once = Grid::instant(grid.start_ms);
                let kind = self.select(selector, once, output)?;
                Ok(VectorKind::Repeat(Box::new(Vector { grid: once, kind })))
            }
            Some(Expr::Vector(selector)) => self.select(selector, grid, output),
            _ => self.instant_call(call, grid),
        }
    }

    pub(super) fn window(&mut self, call: &Call, name: &str, grid: Grid) -> Result<VectorKind> {
        let function = window_function(name).ok_or_else(|| wrong_arguments(call))?;
        let series_arg = call
            .args
            .iter()
            .position(|arg| arg.value_type() == ValueType::Matrix)
            .ok_or_else(|| wrong_arguments(call))?;
        let need = match call.args.first().map(Expr::unwrapped) {
            Some(Expr::Number(number)) => function.need(Some(number.value)),
            _ => function.need(None),
        };
        let (input, windows) = self.range(&call.args[series_arg], grid, need)?;
        check_mode(call.function.name, windows.mode)?;
        Ok(VectorKind::Window {
            call: Arc::new(call.clone()),
            args: self.args(call, series_arg, grid)?,
            function,
            series_arg,
            input,
            windows,
        })
    }

    /// 1 at steps without a sample of any series in the window.
    pub(super) fn absent_over_time(&mut self, call: &Call, grid: Grid) -> Result<VectorKind> {
        let kind = self.window(call, "present_over_time", grid)?;
        let function = vector_function("absent").ok_or_else(|| wrong_arguments(call))?;
        Ok(VectorKind::Rows {
            call: Arc::new(call.clone()),
            args: vec![Arg::Series],
            function,
            input: Box::new(Vector { grid, kind }),
            spans_time: self.spans_time(grid),
        })
    }

    pub(super) fn instant_call(&mut self, call: &Call, grid: Grid) -> Result<VectorKind> {
        let name = call.function.name;
        let series_arg = call
            .args
            .iter()
            .position(|arg| arg.value_type() == ValueType::Vector);
        let input = match series_arg {
            Some(index) => self.vector(&call.args[index], grid)?,
            // `hour()` is `hour(vector(time()))`.
            None => Vector {
                grid,
                kind: VectorKind::FromScalar(Scalar {
                    grid,
                    kind: ScalarKind::Time,
                }),
            },
        };
        let args = self.args(call, series_arg.unwrap_or(usize::MAX), grid)?;
        let (call, input) = (Arc::new(call.clone()), Box::new(input));
        if let Some(function) = map_function(name) {
            return Ok(VectorKind::Map {
                call,
                args,
                function,
                input,
            });
        }
        match vector_function(name) {
            Some(function) => Ok(VectorKind::Rows {
                call,
                args,
                function,
                input,
                spans_time: self.spans_time(grid),
            }),
            None => Err(Error::Execution(format!(
                "unknown function with name {name:?}"
            ))),
        }
    }

    fn spans_time(&self, grid: Grid) -> bool {
        grid.start_ms != self.requested_end_ms
    }

    pub(super) fn args(&mut self, call: &Call, series_arg: usize, grid: Grid) -> Result<Vec<Arg>> {
        let mut args = Vec::with_capacity(call.args.len());
        for (index, arg) in call.args.iter().enumerate() {
            args.push(match arg.value_type() {
                _ if index == series_arg => Arg::Series,
                ValueType::String => Arg::Text(text_of(arg)),
                ValueType::Scalar => Arg::Scalar(self.scalar(arg, grid)?),
                ValueType::Vector | ValueType::Matrix => return Err(wrong_arguments(call)),
            });
        }
        Ok(args)
    }

    pub(super) fn info(&mut self, call: &Call, grid: Grid) -> Result<VectorKind> {
        let Some(base) = call.args.first() else {
            return Err(wrong_arguments(call));
        };
        let input = Box::new(self.vector(base, grid)?);
        let matchers = match call.args.get(1).map(Expr::unwrapped) {
            Some(Expr::Vector(selector)) => selector.matchers.clone(),
            _ => Vec::new(),
        };
        let mut named = matchers.clone();
        if !named.iter().any(|m| m.name() == METRIC_NAME) {
            named.push(Matcher::equal(METRIC_NAME, INFO_METRIC));
        }
        let implied = self.context.implied.of(&named).cloned().collect();
        let (lookup, offset_ms) = match self.data_time(base)? {
            Some(DataTime::Fixed(time_ms)) => (Grid::instant(time_ms), 0),
            Some(DataTime::Before(offset_ms)) => (grid, offset_ms),
            None => (grid, 0),
        };
        Ok(VectorKind::Info {
            input,
            matchers,
            implied,
            lookback_ms: self.context.lookback_ms,
            lookup,
            offset_ms,
            choice: self.instant_choice(lookup, offset_ms),
        })
    }
}

pub(super) fn wrong_arguments(call: &Call) -> Error {
    Error::Execution(format!("invalid arguments for {}", call.function.name))
}
