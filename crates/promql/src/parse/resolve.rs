//! Resolution of durations with the step and range of the query.

use thiserror::Error;

use super::ast::{Duration, DurationExpr, DurationExprKind as Kind, DurationOp, Span};
use crate::go_math;

/// Errors of durations. The numbers are the span of the expression in bytes.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum DurationError {
    #[error("{}:{}: division by zero", .0.start, .0.end)]
    DivisionByZero(Span),
    #[error("{}:{}: modulo by zero", .0.start, .0.end)]
    ModuloByZero(Span),
    #[error("{}:{}: duration must be greater than 0", .0.start, .0.end)]
    NotPositive(Span),
    #[error("{}:{}: duration is out of range", .0.start, .0.end)]
    OutOfRange(Span),
}

impl Duration {
    /// The duration in milliseconds, for an offset: of either sign.
    pub fn resolve(&self, step_ms: i64, range_ms: i64) -> Result<i64, DurationError> {
        match self {
            Self::Millis(millis) => Ok(*millis),
            Self::Expr(expr) => to_millis(expr.seconds(step_ms, range_ms)?, expr.span),
        }
    }

    /// The duration in milliseconds, for a range or a step: greater than 0.
    pub fn resolve_positive(&self, step_ms: i64, range_ms: i64) -> Result<i64, DurationError> {
        match self {
            Self::Millis(millis) => Ok(*millis),
            Self::Expr(expr) => match expr.seconds(step_ms, range_ms)? {
                seconds if seconds <= 0.0 => Err(DurationError::NotPositive(expr.span)),
                seconds => to_millis(seconds, expr.span),
            },
        }
    }
}

fn to_millis(seconds: f64, span: Span) -> Result<i64, DurationError> {
    if super::literal::is_out_of_range(seconds) {
        Err(DurationError::OutOfRange(span))
    } else {
        Ok((seconds * 1000.0) as i64)
    }
}

impl DurationExpr {
    fn seconds(&self, step_ms: i64, range_ms: i64) -> Result<f64, DurationError> {
        let value = |expr: &DurationExpr| expr.seconds(step_ms, range_ms);
        Ok(match &self.kind {
            Kind::Number(number) => number.value,
            Kind::Step => step_ms as f64 / 1000.0,
            Kind::Range => range_ms as f64 / 1000.0,
            Kind::Plus(expr) => value(expr)?,
            Kind::Negate(expr) => -value(expr)?,
            Kind::MinOf(a, b) => go_math::min(value(a)?, value(b)?),
            Kind::MaxOf(a, b) => go_math::max(value(a)?, value(b)?),
            Kind::Binary(op, a, b) => self.apply(*op, value(a)?, value(b)?)?,
        })
    }

    fn apply(&self, op: DurationOp, a: f64, b: f64) -> Result<f64, DurationError> {
        Ok(match op {
            DurationOp::Add => a + b,
            DurationOp::Subtract => a - b,
            DurationOp::Multiply => a * b,
            DurationOp::Divide if b == 0.0 => return Err(DurationError::DivisionByZero(self.span)),
            DurationOp::Divide => a / b,
            DurationOp::Modulo if b == 0.0 => return Err(DurationError::ModuloByZero(self.span)),
            DurationOp::Modulo => a % b,
            DurationOp::Power => go_math::pow(a, b),
        })
    }
}
