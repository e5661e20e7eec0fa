//! The plan of an expression, node by node.

use std::collections::HashMap;
use std::sync::Arc;

use super::invariant::is_invariant;
use super::{
    Arg, Grouping, Parameter, Picked, Plan, RangeInput, Root, Rules, Scalar, ScalarKind, Scan,
    ScanUse, Shared, Vector, VectorKind,
};
use crate::error::{Error, Result};
use crate::exec::Grid;
use crate::functions::window::{WindowMode, Windows, check_mode, window_function};
use crate::functions::{map_function, vector_function};
use crate::parse::{
    Aggregate, At, Binary, BinaryOp, Call, Duration, DurationError, Expr, Span, Subquery,
    TimeModifiers, ValueType, VectorSelector,
};

/// Most steps of a subquery: one per second over eleven days. Each holds a value per series.
const SUBQUERY_STEPS_MAX: usize = 1_000_000;

/// What a query assumes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlanContext<'q> {
    pub(crate) query: &'q str,
    pub(crate) grid: Grid,
    /// The end that was asked for, which lies behind the last step where the range is no multiple of
    /// the step. Prometheus means it by `end()` and `range()`.
    pub(crate) end_ms: i64,
    pub(crate) is_range: bool,
    pub(crate) lookback_ms: i64,
    pub(crate) default_step_ms: i64,
}

pub(crate) fn build(context: PlanContext<'_>, expr: &Expr, rules: Rules) -> Result<Plan> {
    let mut builder = Builder {
        context,
        scans: Vec::new(),
        shared: Vec::new(),
        shared_by_text: HashMap::new(),
        histogram_use: HistogramUse::Unknown,
        occurrences: HashMap::new(),
    };
    if rules.share_expressions {
        builder.count_occurrences(expr);
    }
    let root = builder.root(expr)?;
    Ok(Plan {
        root,
        scans: builder.scans,
        shared: builder.shared,
        grid: context.grid,
        is_range: context.is_range,
        applied: Vec::new(),
    })
}

struct Builder<'q> {
    context: PlanContext<'q>,
    scans: Vec<Scan>,
    shared: Vec<Shared>,
    /// What is wanted of histograms decides how they are read, so it must be the same, too.
    shared_by_text: HashMap<(&'q str, Grid, HistogramUse), usize>,
    /// What is wanted of the histograms of the selectors below.
    histogram_use: HistogramUse,
    /// How often each expression that is worth sharing is written.
    occurrences: HashMap<&'q str, usize>,
}

/// What the functions above a selector need of its histograms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum HistogramUse {
    Unknown,
    CountsAndSums,
    /// Whatever the functions further down need.
    Buckets,
}

impl HistogramUse {
    /// What is needed below a call.
    fn below(self, function: &str) -> Self {
        match (self, function) {
            (Self::Buckets, _)
            | (_, "histogram_quantile" | "histogram_quantiles" | "histogram_fraction") => {
                Self::Buckets
            }
            (_, "histogram_count" | "histogram_sum" | "histogram_avg") => Self::CountsAndSums,
            (other, _) => other,
        }
    }
}

impl<'q> Builder<'q> {
    fn root(&mut self, expr: &Expr) -> Result<Root> {
        let grid = self.context.grid;
        match expr.value_type() {
            ValueType::Scalar => Ok(Root::Scalar(self.scalar(expr, grid)?)),
            ValueType::Vector => Ok(Root::Vector(self.vector(expr, grid)?)),
            kind if self.context.is_range => Err(Error::Invalid(format!(
                "invalid expression type {:?} for range query, must be Scalar or instant Vector",
                match kind {
                    ValueType::String => "string",
                    _ => "range vector",
                }
            ))),
            ValueType::String => Ok(Root::Text(text_of(expr))),
            ValueType::Matrix => {
                let (input, windows) = self.range(expr, grid)?;
                Ok(Root::Matrix(input, windows))
            }
        }
    }

    /// A vector; what is the same at every step is evaluated once, and what is written twice, too.
    fn vector(&mut self, expr: &Expr, grid: Grid) -> Result<Vector> {
        if grid.steps > 1 && is_invariant(expr) {
            // Any moment will do; with the same one everywhere, subqueries can share it, too.
            let once = self.vector(expr, Grid::instant(self.context.grid.start_ms))?;
            let kind = VectorKind::Repeat(Box::new(once));
            return Ok(Vector { grid, kind });
        }
        let text = self.text(expr.span());
        if is_worth_sharing(expr) && self.occurrences.get(text).is_some_and(|count| *count > 1) {
            return self.shared_vector(expr, text, grid);
        }
        let kind = self.vector_kind(expr, grid)?;
        Ok(Vector { grid, kind })
    }

    fn shared_vector(&mut self, expr: &Expr, text: &'q str, grid: Grid) -> Result<Vector> {
        // Most expressions do not ask what is wanted of histograms further up.
        let asks = self.histogram_use == HistogramUse::CountsAndSums || text.contains("histogram_");
        let histogram_use = match asks {
            true => self.histogram_use,
            false => HistogramUse::Unknown,
        };
        let key = (text, grid, histogram_use);
        let id = match self.shared_by_text.get(&key) {
            Some(id) => *id,
            None => {
                let kind = self.vector_kind(expr, grid)?;
                let id = self.shared.len();
                self.shared.push(Shared {
                    input: Vector { grid, kind },
                    consumers: 0,
                    span: expr.span(),
                });
                self.shared_by_text.insert(key, id);
                id
            }
        };
        self.shared[id].consumers += 1;
        let span = expr.span();
        let kind = VectorKind::Shared { id, span };
        Ok(Vector { grid, kind })
    }

    fn vector_kind(&mut self, expr: &Expr, grid: Grid) -> Result<VectorKind> {
        match expr {
            Expr::Vector(selector) => self.select(selector, grid, Picked::Value),
            Expr::Paren(paren) => Ok(self.vector(&paren.expr, grid)?.kind),
            Expr::Unary(unary) => {
                let input = self.vector(&unary.expr, grid)?;
                match unary.negative {
                    true => Ok(VectorKind::Negate(Box::new(input))),
                    false => Ok(input.kind),
                }
            }
            Expr::Aggregate(aggregate) => self.aggregate(aggregate, grid),
            Expr::Binary(binary) => self.binary(binary, grid),
            Expr::Call(call) => self.call(call, grid),
            Expr::Number(_) | Expr::String(_) | Expr::Matrix(_) | Expr::Subquery(_) => Err(
                Error::Execution("an expression of another type stands for a vector".to_string()),
            ),
        }
    }

    fn select(
        &mut self,
        selector: &VectorSelector,
        grid: Grid,
        what: Picked,
    ) -> Result<VectorKind> {
        if selector.anchored {
            return Err(Error::Execution(
                "anchored modifier can only be used with range vectors".to_string(),
            ));
        }
        let offset_ms = self.offset(&selector.time, grid)?;
        let lookback_ms = self.context.lookback_ms;
        let start_ms = grid
            .start_ms
            .saturating_sub(offset_ms)
            .saturating_sub(lookback_ms)
            .saturating_add(1);
        let mut end_ms = grid.end_ms().saturating_sub(offset_ms);
        let mut what = what;
        if selector.smoothed && what == Picked::Value {
            what = Picked::Smoothed;
            end_ms = end_ms.saturating_add(lookback_ms);
        }
        let from = self.scan(selector, start_ms, end_ms);
        Ok(VectorKind::Select {
            from,
            offset_ms,
            lookback_ms,
            what,
            span: selector.span,
        })
    }

    fn scan(&mut self, selector: &VectorSelector, start_ms: i64, end_ms: i64) -> ScanUse {
        let scan = self.scans.len();
        self.scans.push(Scan {
            matchers: selector.matchers.clone(),
            start_ms,
            end_ms,
            consumers: 1,
        });
        ScanUse {
            scan,
            filter: Vec::new(),
            detects_resets: self.histogram_use == HistogramUse::CountsAndSums,
        }
    }

    /// How far before the steps of `grid` the data lies. With `@` that is right for the first step
    /// only; such nodes have one step (or fixed windows).
    fn offset(&self, time: &TimeModifiers, grid: Grid) -> Result<i64> {
        let offset_ms = self.duration(&time.offset)?;
        Ok(match self.at(time) {
            Some(at_ms) => grid
                .start_ms
                .saturating_sub(at_ms)
                .saturating_add(offset_ms),
            None => offset_ms,
        })
    }

    fn at(&self, time: &TimeModifiers) -> Option<i64> {
        Some(match time.at? {
            At::Timestamp(time_ms) => time_ms,
            At::Start => self.context.grid.start_ms,
            At::End => self.context.end_ms,
        })
    }

    /// A duration of either sign.
    fn duration(&self, duration: &Duration) -> Result<i64> {
        let (step_ms, range_ms) = self.step_and_range();
        duration.resolve(step_ms, range_ms).map_err(invalid)
    }

    /// A duration greater than 0.
    fn positive_duration(&self, duration: &Duration) -> Result<i64> {
        let (step_ms, range_ms) = self.step_and_range();
        duration
            .resolve_positive(step_ms, range_ms)
            .map_err(invalid)
    }

    /// What `step()` and `range()` mean: those of the query, 0 for instant queries.
    fn step_and_range(&self) -> (i64, i64) {
        let grid = self.context.grid;
        match self.context.is_range {
            true => (
                grid.step_ms,
                self.context.end_ms.saturating_sub(grid.start_ms),
            ),
            false => (0, 0),
        }
    }

    /// The input of a function over ranges, and its windows.
    fn range(&mut self, expr: &Expr, grid: Grid) -> Result<(RangeInput, Windows)> {
        match expr.unwrapped() {
            Expr::Matrix(matrix) => {
                let mode = match (matrix.selector.anchored, matrix.selector.smoothed) {
                    (true, _) => WindowMode::Anchored,
                    (_, true) => WindowMode::Smoothed,
                    _ => WindowMode::Plain,
                };
                let range_ms = self.positive_duration(&matrix.range)?;
                let windows = self.windows(range_ms, &matrix.selector.time, grid, mode)?;
                let (start_ms, end_ms) = windows.read_range();
                let from = self.scan(&matrix.selector, start_ms, end_ms);
                Ok((RangeInput::Scan(from), windows))
            }
            Expr::Subquery(subquery) => self.subquery(subquery, grid),
            other => Err(Error::Execution(format!(
                "a range vector was expected in place of {:?}",
                self.text(other.span())
            ))),
        }
    }

    fn windows(
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

    fn subquery(&mut self, subquery: &Subquery, grid: Grid) -> Result<(RangeInput, Windows)> {
        let range_ms = self.positive_duration(&subquery.range)?;
        let windows = self.windows(range_ms, &subquery.time, grid, WindowMode::Plain)?;
        let step_ms = match &subquery.step {
            Some(step) => self.positive_duration(step)?,
            None => 0,
        };
        let step_ms = match step_ms > 0 {
            true => step_ms,
            false => self.context.default_step_ms,
        };
        let inner = subquery_grid(&windows, step_ms.max(1));
        if inner.steps > SUBQUERY_STEPS_MAX {
            return Err(Error::LimitReached(format!(
                "a subquery has {} steps, more than {SUBQUERY_STEPS_MAX}: use a larger step or a shorter range",
                inner.steps
            )));
        }
        let above = std::mem::replace(&mut self.histogram_use, HistogramUse::Buckets);
        let input = self.vector(&subquery.expr, inner);
        self.histogram_use = above;
        Ok((RangeInput::Subquery(Box::new(input?)), windows))
    }

    fn aggregate(&mut self, aggregate: &Aggregate, grid: Grid) -> Result<VectorKind> {
        let parameter = match &aggregate.parameter {
            None => None,
            Some(expr) => Some(match expr.value_type() {
                ValueType::String => Parameter::Text(label_name(expr)?),
                _ => Parameter::Scalar(self.scalar(expr, grid)?),
            }),
        };
        Ok(VectorKind::Aggregate {
            op: aggregate.op,
            grouping: Arc::new(Grouping {
                labels: aggregate.grouping.clone(),
                without: aggregate.without,
            }),
            parameter,
            input: Box::new(self.vector(&aggregate.expr, grid)?),
            parameter_span: aggregate
                .parameter
                .as_ref()
                .map_or(aggregate.span, |parameter| parameter.span()),
            input_span: aggregate.expr.span(),
            span: aggregate.span,
            fused: false,
        })
    }

    fn binary(&mut self, binary: &Binary, grid: Grid) -> Result<VectorKind> {
        let is_scalar = |expr: &Expr| expr.value_type() == ValueType::Scalar;
        let (op, return_bool, span) = (binary.op, binary.return_bool, binary.span);
        match (is_scalar(&binary.lhs), is_scalar(&binary.rhs)) {
            (false, false) => Ok(VectorKind::Join {
                op,
                return_bool,
                matching: Arc::new(binary.matching.clone().unwrap_or_default()),
                lhs: Box::new(self.vector(&binary.lhs, grid)?),
                rhs: Box::new(self.vector(&binary.rhs, grid)?),
                span,
            }),
            (scalar_is_left, _) => {
                let (scalar, vector) = match scalar_is_left {
                    true => (&binary.lhs, &binary.rhs),
                    false => (&binary.rhs, &binary.lhs),
                };
                Ok(VectorKind::WithScalar {
                    op,
                    return_bool,
                    scalar: self.scalar(scalar, grid)?,
                    vector: Box::new(self.vector(vector, grid)?),
                    scalar_is_left,
                    span,
                })
            }
        }
    }

    fn call(&mut self, call: &Call, grid: Grid) -> Result<VectorKind> {
        let above = self.histogram_use;
        self.histogram_use = above.below(call.function.name);
        let kind = self.call_kind(call, grid);
        self.histogram_use = above;
        kind
    }

    fn call_kind(&mut self, call: &Call, grid: Grid) -> Result<VectorKind> {
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

    /// `timestamp(selector)` is the time of the sample; of other vectors it is that of the step.
    fn timestamp(&mut self, call: &Call, grid: Grid) -> Result<VectorKind> {
        let what = match call.function.name {
            "timestamp" => Picked::Timestamp,
            _ => Picked::StartTimestamp,
        };
        match call.args.first().map(Expr::unwrapped) {
            Some(Expr::Vector(selector)) if selector.time.at.is_some() && grid.steps > 1 => {
                let once = Grid::instant(grid.start_ms);
                let kind = self.select(selector, once, what)?;
                Ok(VectorKind::Repeat(Box::new(Vector { grid: once, kind })))
            }
            Some(Expr::Vector(selector)) => self.select(selector, grid, what),
            _ => self.instant_call(call, grid),
        }
    }

    fn window(&mut self, call: &Call, name: &str, grid: Grid) -> Result<VectorKind> {
        let function = window_function(name).ok_or_else(|| wrong_arguments(call))?;
        let series_arg = call
            .args
            .iter()
            .position(|arg| arg.value_type() == ValueType::Matrix)
            .ok_or_else(|| wrong_arguments(call))?;
        let (input, windows) = self.range(&call.args[series_arg], grid)?;
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

    /// One where no series has a sample in the window.
    fn absent_over_time(&mut self, call: &Call, grid: Grid) -> Result<VectorKind> {
        let kind = self.window(call, "present_over_time", grid)?;
        let function = vector_function("absent").ok_or_else(|| wrong_arguments(call))?;
        Ok(VectorKind::Rows {
            call: Arc::new(call.clone()),
            args: vec![Arg::Series],
            function,
            input: Box::new(Vector { grid, kind }),
        })
    }

    fn instant_call(&mut self, call: &Call, grid: Grid) -> Result<VectorKind> {
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
            }),
            None => Err(Error::Execution(format!(
                "unknown function with name {name:?}"
            ))),
        }
    }

    fn args(&mut self, call: &Call, series_arg: usize, grid: Grid) -> Result<Vec<Arg>> {
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

    fn info(&mut self, call: &Call, grid: Grid) -> Result<VectorKind> {
        let Some(base) = call.args.first() else {
            return Err(wrong_arguments(call));
        };
        let input = Box::new(self.vector(base, grid)?);
        let matchers = match call.args.get(1).map(Expr::unwrapped) {
            Some(Expr::Vector(selector)) => selector.matchers.clone(),
            _ => Vec::new(),
        };
        let offset_ms = match self.data_time(base)? {
            Some((Some(at_ms), offset_ms)) => grid
                .start_ms
                .saturating_sub(at_ms)
                .saturating_add(offset_ms),
            Some((None, offset_ms)) => offset_ms,
            None => 0,
        };
        Ok(VectorKind::Info {
            input,
            matchers,
            lookback_ms: self.context.lookback_ms,
            offset_ms,
        })
    }

    /// When the data of an expression is from: the moment of `@`, if there is one, and how long before
    /// it or the step. The first selector decides.
    fn data_time(&self, expr: &Expr) -> Result<Option<(Option<i64>, i64)>> {
        let of_modifiers = |time: &TimeModifiers| {
            let offset_ms = self.duration(&time.offset)?;
            Ok::<_, Error>((self.at(time), offset_ms))
        };
        match expr {
            Expr::Vector(selector) => of_modifiers(&selector.time).map(Some),
            Expr::Matrix(matrix) => of_modifiers(&matrix.selector.time).map(Some),
            Expr::Subquery(subquery) => {
                let (at_ms, offset_ms) = of_modifiers(&subquery.time)?;
                Ok(match self.data_time(&subquery.expr)? {
                    Some((None, inner_ms)) => Some((at_ms, offset_ms.saturating_add(inner_ms))),
                    inner => inner,
                })
            }
            Expr::Paren(paren) => self.data_time(&paren.expr),
            Expr::Unary(unary) => self.data_time(&unary.expr),
            Expr::Aggregate(aggregate) => self.data_time(&aggregate.expr),
            Expr::Binary(binary) => match self.data_time(&binary.lhs)? {
                None => self.data_time(&binary.rhs),
                found => Ok(found),
            },
            Expr::Call(call) => {
                for arg in &call.args {
                    if let Some(found) = self.data_time(arg)? {
                        return Ok(Some(found));
                    }
                }
                Ok(None)
            }
            Expr::Number(_) | Expr::String(_) => Ok(None),
        }
    }

    fn scalar(&mut self, expr: &Expr, grid: Grid) -> Result<Scalar> {
        let kind = match expr {
            Expr::Number(number) => ScalarKind::Constant(number.value),
            Expr::Paren(paren) => return self.scalar(&paren.expr, grid),
            Expr::Unary(unary) => {
                let inner = self.scalar(&unary.expr, grid)?;
                match unary.negative {
                    true => ScalarKind::Negate(Box::new(inner)),
                    false => return Ok(inner),
                }
            }
            Expr::Binary(binary) => ScalarKind::Binary {
                op: binary.op,
                lhs: Box::new(self.scalar(&binary.lhs, grid)?),
                rhs: Box::new(self.scalar(&binary.rhs, grid)?),
            },
            Expr::Call(call) => match (call.function.name, call.args.first()) {
                ("time", _) => ScalarKind::Time,
                ("pi", _) => ScalarKind::Constant(std::f64::consts::PI),
                ("start", _) => ScalarKind::Constant(seconds(self.context.grid.start_ms)),
                ("end", _) => ScalarKind::Constant(seconds(self.context.end_ms)),
                ("step", _) => ScalarKind::Constant(seconds(self.step_and_range().0)),
                ("range", _) => ScalarKind::Constant(seconds(self.step_and_range().1)),
                ("min_of" | "max_of", Some(first)) => ScalarKind::Extreme {
                    largest: call.function.name == "max_of",
                    of: match call.args.get(1) {
                        Some(second) => vec![self.scalar(first, grid)?, self.scalar(second, grid)?],
                        None => return Err(wrong_arguments(call)),
                    },
                },
                ("scalar", Some(arg)) => ScalarKind::FromVector(Box::new(self.vector(arg, grid)?)),
                _ => return Err(wrong_arguments(call)),
            },
            other => {
                return Err(Error::Execution(format!(
                    "a scalar was expected in place of {:?}",
                    self.text(other.span())
                )));
            }
        };
        Ok(Scalar { grid, kind })
    }

    fn count_occurrences(&mut self, expr: &Expr) {
        if is_worth_sharing(expr) {
            *self.occurrences.entry(self.text(expr.span())).or_default() += 1;
        }
        match expr {
            Expr::Paren(paren) => self.count_occurrences(&paren.expr),
            Expr::Unary(unary) => self.count_occurrences(&unary.expr),
            Expr::Subquery(subquery) => self.count_occurrences(&subquery.expr),
            Expr::Binary(binary) => {
                self.count_occurrences(&binary.lhs);
                self.count_occurrences(&binary.rhs);
            }
            Expr::Aggregate(aggregate) => {
                if let Some(parameter) = &aggregate.parameter {
                    self.count_occurrences(parameter);
                }
                self.count_occurrences(&aggregate.expr);
            }
            Expr::Call(call) => {
                for arg in &call.args {
                    self.count_occurrences(arg);
                }
            }
            Expr::Number(_) | Expr::String(_) | Expr::Vector(_) | Expr::Matrix(_) => {}
        }
    }

    fn text(&self, span: Span) -> &'q str {
        self.context
            .query
            .get(span.start..span.end)
            .unwrap_or_default()
    }
}

/// Vectors that cost more than reading them again. Plain selectors share their scan instead.
fn is_worth_sharing(expr: &Expr) -> bool {
    match expr {
        Expr::Aggregate(_) => true,
        Expr::Binary(binary) => expr.value_type() == ValueType::Vector && binary.op != BinaryOp::Or,
        Expr::Call(call) => {
            call.function.returns == ValueType::Vector
                && call
                    .args
                    .iter()
                    .any(|arg| matches!(arg.value_type(), ValueType::Vector | ValueType::Matrix))
        }
        _ => false,
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

/// A string that is to be the name of a label.
fn label_name(expr: &Expr) -> Result<String> {
    let refused = |name: String| Err(Error::Execution(format!("invalid label name {name}")));
    match expr.unwrapped() {
        Expr::String(literal) => match &literal.not_utf8 {
            Some(bytes) => refused(format!("\"{}\"", bytes.escape_ascii())),
            None if literal.value.is_empty() => refused("\"\"".to_string()),
            None => Ok(literal.value.clone()),
        },
        _ => refused("\"\"".to_string()),
    }
}

fn text_of(expr: &Expr) -> String {
    match expr.unwrapped() {
        Expr::String(literal) => literal.value.clone(),
        _ => String::new(),
    }
}

fn seconds(millis: i64) -> f64 {
    millis as f64 / 1000.0
}

fn invalid(error: DurationError) -> Error {
    Error::Execution(error.to_string())
}

fn wrong_arguments(call: &Call) -> Error {
    Error::Execution(format!(
        "the arguments of {} are not what it takes",
        call.function.name
    ))
}
