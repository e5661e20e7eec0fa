//! Binary operators between a vector and a scalar, and unary minus.

use std::sync::Arc;

use futures::future::BoxFuture;

use super::scan::map_rows;
use super::{Operator, Run, build, scalar};
use crate::arithmetic::{Outcome, Value, float_op, value_op};
use crate::error::Result;
use crate::exec::{ABSENT, Row, ScalarColumn, Values, is_absent};
use crate::parse::BinaryOp;
use crate::plan::{Vector, VectorKind};

pub(super) struct WithScalar<'q> {
    run: &'q Run<'q>,
    node: &'q Vector,
    input: Box<dyn Operator + 'q>,
    scalar: Option<ScalarColumn>,
}

impl<'q> WithScalar<'q> {
    pub(super) fn new(run: &'q Run<'q>, node: &'q Vector) -> Self {
        let VectorKind::WithScalar { vector, .. } = &node.kind else {
            unreachable!("built for operators with a scalar only");
        };
        Self {
            run,
            node,
            input: build(run, vector),
            scalar: None,
        }
    }
}

impl Operator for WithScalar<'_> {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Vec<Row>>>> {
        Box::pin(async {
            let VectorKind::WithScalar {
                op,
                return_bool,
                scalar: node,
                scalar_is_left,
                span,
                ..
            } = &self.node.kind
            else {
                return Ok(None);
            };
            if self.scalar.is_none() {
                self.scalar = Some(scalar(self.run, node).await?);
            }
            let (Some(rows), Some(scalar)) = (self.input.next().await?, &self.scalar) else {
                return Ok(None);
            };
            let annotations = &self.run.context.annotations;
            let annotate = |annotation| annotations.add(*span, annotation);
            let operation = Operation {
                op: *op,
                return_bool: *return_bool,
                scalar,
                scalar_is_left: *scalar_is_left,
                annotate: &annotate,
            };
            Ok(Some(map_rows(rows, |row| operation.apply(row))))
        })
    }

    fn hand_over(&mut self) {
        self.input.hand_over();
    }
}

struct Operation<'a> {
    op: BinaryOp,
    return_bool: bool,
    scalar: &'a ScalarColumn,
    scalar_is_left: bool,
    annotate: &'a (dyn Fn(crate::annotations::Annotation) + Sync),
}

impl Operation<'_> {
    fn apply(&self, mut row: Row) -> Option<Row> {
        let trims = matches!(self.op, BinaryOp::TrimUpper | BinaryOp::TrimLower);
        if trims || row.values.has_histograms() {
            self.apply_mixed(&mut row.values);
        } else {
            self.apply_floats(&mut row.values.floats);
        }
        row.drop_name |= self.return_bool || self.op.is_arithmetic();
        (!row.values.is_empty()).then_some(row)
    }

    fn apply_floats(&self, floats: &mut [f64]) {
        if !self.return_bool && self.apply_common(floats) {
            return;
        }
        for (step, value) in floats.iter_mut().enumerate() {
            if is_absent(*value) {
                continue;
            }
            let kept = *value;
            let (lhs, rhs) = if self.scalar_is_left {
                (self.scalar.at(step), kept)
            } else {
                (kept, self.scalar.at(step))
            };
            let outcome = float_op(self.op, lhs, rhs);
            *value = match outcome {
                _ if self.return_bool => f64::from(outcome.is_some()),
                // A comparison keeps the vector's value, whichever side it is on.
                Some(_) if self.op.is_comparison() => kept,
                Some(value) => value,
                None => ABSENT,
            };
        }
    }

    /// The operators of most queries: each has a loop of its own, without a match at every step.
    /// False if it is another one.
    fn apply_common(&self, floats: &mut [f64]) -> bool {
        let keep_if = |holds: bool, value: f64| if holds { value } else { ABSENT };
        match (self.op, self.scalar_is_left) {
            (BinaryOp::Add, _) => self.each(floats, |v, s| v + s),
            (BinaryOp::Multiply, _) => self.each(floats, |v, s| v * s),
            (BinaryOp::Subtract, false) => self.each(floats, |v, s| v - s),
            (BinaryOp::Subtract, true) => self.each(floats, |v, s| s - v),
            (BinaryOp::Divide, false) => self.each(floats, |v, s| v / s),
            (BinaryOp::Divide, true) => self.each(floats, |v, s| s / v),
            (BinaryOp::Equal, _) => self.each(floats, |v, s| keep_if(v == s, v)),
            (BinaryOp::NotEqual, _) => self.each(floats, |v, s| keep_if(v != s, v)),
            (BinaryOp::Greater, false) | (BinaryOp::Less, true) => {
                self.each(floats, |v, s| keep_if(v > s, v));
            }
            (BinaryOp::Less, false) | (BinaryOp::Greater, true) => {
                self.each(floats, |v, s| keep_if(v < s, v));
            }
            (BinaryOp::GreaterOrEqual, false) | (BinaryOp::LessOrEqual, true) => {
                self.each(floats, |v, s| keep_if(v >= s, v));
            }
            (BinaryOp::LessOrEqual, false) | (BinaryOp::GreaterOrEqual, true) => {
                self.each(floats, |v, s| keep_if(v <= s, v));
            }
            _ => return false,
        }
        true
    }

    /// Replaces each value that is present.
    fn each(&self, floats: &mut [f64], value: impl Fn(f64, f64) -> f64) {
        let replace = |v: &mut f64, s: f64| *v = if is_absent(*v) { *v } else { value(*v, s) };
        match self.scalar {
            ScalarColumn::Constant(scalar) => floats.iter_mut().for_each(|v| replace(v, *scalar)),
            ScalarColumn::PerStep(column) => {
                let steps = floats.iter_mut().zip(column);
                steps.for_each(|(v, s)| replace(v, *s));
            }
        }
    }

    fn apply_mixed(&self, values: &mut Values) {
        for step in 0..values.floats.len() {
            let histogram = values.histogram(step).cloned();
            let kept = match (&histogram, values.float(step)) {
                (Some(histogram), _) => Value::Histogram(histogram),
                (None, Some(float)) => Value::Float(float),
                (None, None) => continue,
            };
            let scalar = Value::Float(self.scalar.at(step));
            let outcome = if self.scalar_is_left {
                value_op(self.op, &scalar, &kept, self.annotate)
            } else {
                value_op(self.op, &kept, &scalar, self.annotate)
            };
            let holds = matches!(outcome, Outcome::Float(_) | Outcome::Histogram(_));
            match outcome {
                Outcome::Incompatible => values.clear(step),
                _ if self.return_bool => values.set_float(step, f64::from(holds)),
                Outcome::False => values.clear(step),
                _ if self.op.is_comparison() => {}
                Outcome::Float(value) => values.set_float(step, value),
                Outcome::Histogram(value) => values.set_histogram(step, value),
            }
        }
    }
}

/// Unary minus.
pub(super) struct Negate<'q> {
    input: Box<dyn Operator + 'q>,
}

impl<'q> Negate<'q> {
    pub(super) fn new(input: Box<dyn Operator + 'q>) -> Self {
        Self { input }
    }
}

impl Operator for Negate<'_> {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Vec<Row>>>> {
        Box::pin(async {
            let Some(mut rows) = self.input.next().await? else {
                return Ok(None);
            };
            for row in &mut rows {
                for value in row.values.floats.iter_mut().filter(|v| !is_absent(**v)) {
                    *value = -*value;
                }
                for histogram in row.values.histograms.iter_mut().flatten() {
                    Arc::make_mut(histogram).mul(-1.0);
                }
                row.drop_name = true;
            }
            Ok(Some(rows))
        })
    }

    fn hand_over(&mut self) {
        self.input.hand_over();
    }
}
