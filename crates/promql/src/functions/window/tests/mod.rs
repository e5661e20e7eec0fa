//! Helpers of the tests of window functions: calls without a parser.

mod cases;
mod floats;
mod histograms;
mod timing;

use icecore_model::{FloatColumns, Labels, SeriesSamples};

use crate::annotations::Annotations;
use crate::error::Result;
use crate::exec::{Grid, ScalarColumn, Values};
use crate::functions::{Argument, CallContext};
use crate::parse::{Call, Expr, NumberLiteral, Signature, Span, ValueType};

use super::{RangeSeries, ResetDetection, WindowEvaluator, WindowMode, Windows, window_function};

static SIGNATURE: Signature = Signature {
    name: "window",
    args: &[],
    variadic: 0,
    returns: ValueType::Vector,
    experimental: false,
};

/// Windows of `range_s` at each of the steps (in seconds).
fn windows(start_s: i64, step_s: i64, steps: usize, range_s: i64) -> Windows {
    Windows {
        grid: Grid {
            start_ms: 1000 * start_s,
            step_ms: 1000 * step_s,
            steps,
        },
        at_ms: None,
        range_ms: 1000 * range_s,
        offset_ms: 0,
        mode: WindowMode::Plain,
        lookback_ms: 300_000,
    }
}

fn at(time_s: f64, range_s: f64) -> Windows {
    Windows {
        grid: Grid::instant((1000.0 * time_s) as i64),
        range_ms: (1000.0 * range_s) as i64,
        ..windows(0, 1, 1, 0)
    }
}

fn samples(name: &str, floats: &[(i64, f64)]) -> SeriesSamples {
    SeriesSamples {
        labels: Labels::from_pairs([("__name__", name)]),
        floats: FloatColumns {
            timestamps: floats.iter().map(|(time, _)| *time).collect(),
            values: floats.iter().map(|(_, value)| *value).collect(),
        },
        histograms: Vec::new(),
        start_timestamps: Vec::new(),
        forms: Default::default(),
        rolled: None,
    }
}

fn range_series(samples: SeriesSamples) -> RangeSeries {
    RangeSeries::from_samples(samples, ResetDetection::Off)
}

/// Evaluates a function and renders the annotations.
fn run(
    name: &str,
    windows: Windows,
    parameters: &[f64],
    series: &RangeSeries,
) -> (Result<Values>, Vec<String>) {
    evaluator(name, windows, parameters, |evaluator| {
        let values = evaluator.evaluate(series);
        let (mut annotations, infos) = evaluator.ctx.annotations.render(&" ".repeat(100));
        annotations.extend(infos);
        (values, annotations)
    })
}

/// Calls `with` with an evaluator of a call whose first argument is at byte 5.
fn evaluator<T>(
    name: &str,
    windows: Windows,
    parameters: &[f64],
    with: impl FnOnce(&WindowEvaluator<'_>) -> T,
) -> T {
    let series_arg = usize::from(name == "quantile_over_time");
    let scalars = parameters.iter().copied().map(ScalarColumn::Constant);
    let mut args: Vec<_> = scalars.map(Argument::Scalar).collect();
    args.insert(series_arg, Argument::Series);
    let exprs = (0..args.len()).map(|i| {
        Expr::Number(NumberLiteral {
            value: 0.0,
            is_duration: false,
            span: Span {
                start: 10 * i + 5,
                end: 10 * i + 9,
            },
        })
    });
    let call = Call {
        function: &SIGNATURE,
        args: exprs.collect(),
        span: Span::default(),
    };
    let annotations = Annotations::default();
    let ctx = CallContext {
        grid: windows.grid,
        is_range_query: true,
        delayed_names: true,
        call: &call,
        args: args.into(),
        annotations: &annotations,
    };
    let function = window_function(name).expect("a window function");
    with(&WindowEvaluator::new(function, ctx, windows, series_arg))
}

fn floats(
    name: &str,
    windows: Windows,
    parameters: &[f64],
    series: &RangeSeries,
) -> Vec<Option<f64>> {
    let values = run(name, windows, parameters, series).0.expect("values");
    (0..windows.grid.steps)
        .map(|step| values.float(step))
        .collect()
}

/// Whether two results are equal up to rounding.
fn close(a: Option<f64>, b: Option<f64>) -> bool {
    close_within(1e-9, a, b)
}

fn close_within(tolerance: f64, a: Option<f64>, b: Option<f64>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => {
            a == b
                || (a.is_nan() && b.is_nan())
                || (a - b).abs() <= tolerance * a.abs().max(b.abs()).max(1e-3)
        }
        (a, b) => a.is_none() && b.is_none(),
    }
}
