//! The plan of an expression, node by node.

mod calls;
mod data_time;
mod invariant;
mod share;
mod times;

use std::collections::HashMap;
use std::sync::Arc;

use icecore_model::rollup::{OffGrid, RollupChoice, WindowFields};
use icecore_model::{Evaluations, ImpliedMatchers};

use super::{
    Grouping, Parameter, Plan, Root, Rules, Scalar, ScalarKind, Scan, ScanUse, SelectorOutput,
    SharedVector, Vector, VectorKind,
};
use crate::error::{Error, Result};
use crate::exec::Grid;
use crate::functions::window::WindowNeed;
use crate::parse::{Aggregate, Binary, BinaryOp, Expr, Span, ValueType, VectorSelector};
use crate::rollup::RollupOptions;
use calls::wrong_arguments;
use share::is_worth_sharing;

/// The times and settings of a query.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlanContext<'q> {
    pub(crate) query: &'q str,
    pub(crate) grid: Grid,
    /// The requested end, which lies after the last step if the range is not a multiple of the
    /// step. It is what `end()` and `range()` refer to in Prometheus.
    pub(crate) end_ms: i64,
    pub(crate) is_range: bool,
    pub(crate) lookback_ms: i64,
    pub(crate) default_step_ms: i64,
    pub(crate) delayed_names: bool,
    pub(crate) implied: &'q ImpliedMatchers,
    pub(crate) rollup: RollupOptions,
}

pub(crate) fn build(context: PlanContext<'_>, expr: &Expr, rules: Rules) -> Result<Plan> {
    let mut builder = Builder {
        context,
        scans: Vec::new(),
        shared: Vec::new(),
        shared_by_text: HashMap::new(),
        requested_end_ms: context.end_ms,
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
        delayed_names: context.delayed_names,
        rollup: context.rollup,
        applied: Vec::new(),
    })
}

struct Builder<'q> {
    context: PlanContext<'q>,
    scans: Vec<Scan>,
    shared: Vec<SharedVector>,
    /// The use of histograms decides how they are read, so it must be equal, too.
    shared_by_text: HashMap<(&'q str, Grid, HistogramUse), usize>,
    /// The requested end of the query or of the enclosing subquery, which may lie after the last
    /// step.
    requested_end_ms: i64,
    /// The use of the histograms of the selectors below.
    histogram_use: HistogramUse,
    /// How often each expression that is worth sharing occurs.
    occurrences: HashMap<&'q str, usize>,
}

/// What the functions above a selector need of its histograms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum HistogramUse {
    Unknown,
    CountsAndSums,
    /// Buckets are needed, whatever functions further down use.
    Buckets,
}

impl HistogramUse {
    /// The use below a call.
    fn below(self, function: &str) -> Self {
        match (self, function) {
            (Self::Buckets, _)
            | (
                _,
                "histogram_quantile"
                | "histogram_quantiles"
                | "histogram_fraction"
                | "histogram_stddev"
                | "histogram_stdvar",
            ) => Self::Buckets,
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
                let (input, windows) = self.range(expr, grid, WindowNeed::SAMPLES)?;
                Ok(Root::Matrix(input, windows))
            }
        }
    }

    /// A vector. Invariant expressions are evaluated once, and expressions that occur twice are
    /// shared.
    fn vector(&mut self, expr: &Expr, grid: Grid) -> Result<Vector> {
        if grid.steps > 1 && self.is_invariant(expr) {
            // Any time will do; with the same one everywhere, subqueries can share it, too.
            let time_ms = self.context.grid.start_ms;
            let enclosing = std::mem::replace(&mut self.requested_end_ms, time_ms);
            let once = self.vector(expr, Grid::instant(time_ms));
            self.requested_end_ms = enclosing;
            let kind = VectorKind::Repeat(Box::new(once?));
            return Ok(Vector { grid, kind });
        }
        if self.requested_end_ms != grid.start_ms && self.is_invariant(expr) {
            let enclosing = std::mem::replace(&mut self.requested_end_ms, grid.start_ms);
            let once = self.vector(expr, grid);
            self.requested_end_ms = enclosing;
            return once;
        }
        let text = self.text(expr.span());
        if is_worth_sharing(expr) && self.occurrences.get(text).is_some_and(|count| *count > 1) {
            return self.shared_vector(expr, text, grid);
        }
        let kind = self.vector_kind(expr, grid)?;
        Ok(Vector { grid, kind })
    }

    fn vector_kind(&mut self, expr: &Expr, grid: Grid) -> Result<VectorKind> {
        match expr {
            Expr::Vector(selector) => self.select(selector, grid, SelectorOutput::Value),
            Expr::Paren(paren) => Ok(self.vector(&paren.expr, grid)?.kind),
            Expr::Unary(unary) => {
                let input = self.vector(&unary.expr, grid)?;
                if unary.negative {
                    Ok(VectorKind::Negate(Box::new(input)))
                } else {
                    Ok(input.kind)
                }
            }
            Expr::Aggregate(aggregate) => self.aggregate(aggregate, grid),
            Expr::Binary(binary) => self.binary(binary, grid),
            Expr::Call(call) => self.call(call, grid),
            Expr::Number(_) | Expr::String(_) | Expr::Matrix(_) | Expr::Subquery(_) => {
                Err(Error::Execution("expected an instant vector".to_string()))
            }
        }
    }

    fn select(
        &mut self,
        selector: &VectorSelector,
        grid: Grid,
        output: SelectorOutput,
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
        let mut output = output;
        if selector.smoothed && output == SelectorOutput::Value {
            output = SelectorOutput::Smoothed;
            end_ms = end_ms.saturating_add(lookback_ms);
        }
        let need = match output {
            SelectorOutput::Smoothed => WindowNeed::AROUND,
            _ => WindowNeed::LATEST,
        };
        let choice = self.instant_choice(grid, offset_ms);
        let from = self.scan(selector, (start_ms, end_ms), choice, need.fields);
        Ok(VectorKind::Select {
            from,
            offset_ms,
            lookback_ms,
            output,
            span: selector.span,
        })
    }

    /// The levels of an instant selector.
    fn instant_choice(&self, grid: Grid, offset_ms: i64) -> RollupChoice {
        RollupChoice {
            start_ms: grid.start_ms.saturating_sub(offset_ms),
            step_ms: if grid.steps > 1 { grid.step_ms } else { 0 },
            range_ms: 0,
            is_exact: true,
            max_ms: self.context.rollup.max_ms,
            off_grid: OffGrid::Short,
        }
    }

    fn scan(
        &mut self,
        selector: &VectorSelector,
        (start_ms, end_ms): (i64, i64),
        choice: RollupChoice,
        fields: WindowFields,
    ) -> ScanUse {
        let scan = self.scans.len();
        let detects_resets = self.histogram_use == HistogramUse::CountsAndSums;
        let mut matchers = selector.matchers.clone();
        matchers.extend(self.context.implied.of(&selector.matchers).cloned());
        self.scans.push(Scan {
            matchers,
            start_ms,
            reads_edge: detects_resets,
            end_ms,
            consumers: 1,
            choice,
            fields,
            evaluations: Evaluations::new(choice.start_ms, choice.step_ms, choice.range_ms),
        });
        ScanUse {
            scan,
            filter: Vec::new(),
            detects_resets,
        }
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
            // Checked after everything inside has been evaluated.
            parameter_span: Span {
                start: aggregate
                    .parameter
                    .as_ref()
                    .map_or(aggregate.span, |parameter| parameter.unwrapped().span())
                    .start,
                end: aggregate.span.end,
            },
            input_span: aggregate.expr.unwrapped().span(),
            span: aggregate.span,
            fused: false,
        })
    }

    fn binary(&mut self, binary: &Binary, grid: Grid) -> Result<VectorKind> {
        let above = self.histogram_use;
        if matches!(binary.op, BinaryOp::TrimUpper | BinaryOp::TrimLower) {
            self.histogram_use = HistogramUse::Buckets;
        }
        let kind = self.binary_kind(binary, grid);
        self.histogram_use = above;
        kind
    }

    fn binary_kind(&mut self, binary: &Binary, grid: Grid) -> Result<VectorKind> {
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
                let (scalar, vector) = if scalar_is_left {
                    (&binary.lhs, &binary.rhs)
                } else {
                    (&binary.rhs, &binary.lhs)
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

    fn scalar(&mut self, expr: &Expr, grid: Grid) -> Result<Scalar> {
        let kind = match expr {
            Expr::Number(number) => ScalarKind::Constant(number.value),
            Expr::Paren(paren) => return self.scalar(&paren.expr, grid),
            Expr::Unary(unary) => {
                let inner = self.scalar(&unary.expr, grid)?;
                if unary.negative {
                    ScalarKind::Negate(Box::new(inner))
                } else {
                    return Ok(inner);
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
                // Prometheus treats a range query whose start is its end as an instant query here.
                ("step", _) if self.context.end_ms == self.context.grid.start_ms => {
                    ScalarKind::Constant(0.0)
                }
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
                    "expected a scalar, got {:?}",
                    self.text(other.span())
                )));
            }
        };
        Ok(Scalar { grid, kind })
    }

    fn text(&self, span: Span) -> &'q str {
        self.context
            .query
            .get(span.start..span.end)
            .unwrap_or_default()
    }
}

/// A string argument that names a label.
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
