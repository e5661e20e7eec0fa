//! An operator on two rows, all steps at once.

use crate::annotations::Annotation;
use crate::arithmetic::{Outcome, Value, float_op, types_fit, value_op};
use crate::exec::{ABSENT, Values, is_absent};
use crate::parse::BinaryOp;

/// The right or left side of a pair: a row's values, or a number that fills in for a missing row.
#[derive(Clone, Copy)]
pub(super) enum Side<'v> {
    Values(&'v Values),
    Fill(f64),
}

impl<'v> Side<'v> {
    fn at(self, step: usize) -> Option<Value<'v>> {
        match self {
            Self::Fill(value) => Some(Value::Float(value)),
            Self::Values(values) => match values.histogram(step) {
                Some(histogram) => Some(Value::Histogram(histogram)),
                None => values.float(step).map(Value::Float),
            },
        }
    }

    fn has_histograms(self) -> bool {
        matches!(self, Self::Values(values) if values.has_histograms())
    }

    #[inline]
    fn float(self, step: usize) -> f64 {
        match self {
            Self::Fill(value) => value,
            Self::Values(values) => values.floats[step],
        }
    }
}

/// Whether both sides have a value at a step, and the operator takes their types.
pub(super) fn fits(op: BinaryOp, lhs: Side<'_>, rhs: Side<'_>, step: usize) -> bool {
    match (lhs.at(step), rhs.at(step)) {
        (Some(lhs), Some(rhs)) => types_fit(op, &lhs, &rhs),
        _ => false,
    }
}

/// The values of `lhs op rhs`.
pub(super) fn values(
    op: BinaryOp,
    return_bool: bool,
    lhs: Side<'_>,
    rhs: Side<'_>,
    steps: usize,
    annotate: &dyn Fn(Annotation),
) -> Values {
    let trims = matches!(op, BinaryOp::TrimUpper | BinaryOp::TrimLower);
    if trims || lhs.has_histograms() || rhs.has_histograms() {
        return mixed(op, return_bool, lhs, rhs, steps, annotate);
    }
    Values {
        floats: floats(op, return_bool, lhs, rhs, steps),
        histograms: Vec::new(),
    }
}

/// Matches the operator once, not at each step: each loop below is compiled by itself.
fn floats(op: BinaryOp, return_bool: bool, lhs: Side<'_>, rhs: Side<'_>, steps: usize) -> Vec<f64> {
    if let (false, Side::Values(lhs), Side::Values(rhs)) = (return_bool, lhs, rhs) {
        let (lhs, rhs) = (&lhs.floats, &rhs.floats);
        match op {
            BinaryOp::Add => return each_pair(lhs, rhs, |a, b| a + b),
            BinaryOp::Subtract => return each_pair(lhs, rhs, |a, b| a - b),
            BinaryOp::Multiply => return each_pair(lhs, rhs, |a, b| a * b),
            BinaryOp::Divide => return each_pair(lhs, rhs, |a, b| a / b),
            _ => {}
        }
    }
    let value = |step| {
        let (lhs, rhs) = (lhs.float(step), rhs.float(step));
        if is_absent(lhs) || is_absent(rhs) {
            return ABSENT;
        }
        let outcome = float_op(op, lhs, rhs);
        if return_bool {
            f64::from(outcome.is_some())
        } else {
            outcome.unwrap_or(ABSENT)
        }
    };
    (0..steps).map(value).collect()
}

fn each_pair(lhs: &[f64], rhs: &[f64], op: impl Fn(f64, f64) -> f64) -> Vec<f64> {
    let value = |(lhs, rhs): (&f64, &f64)| {
        if is_absent(*lhs) | is_absent(*rhs) {
            ABSENT
        } else {
            op(*lhs, *rhs)
        }
    };
    lhs.iter().zip(rhs).map(value).collect()
}

fn mixed(
    op: BinaryOp,
    return_bool: bool,
    lhs: Side<'_>,
    rhs: Side<'_>,
    steps: usize,
    annotate: &dyn Fn(Annotation),
) -> Values {
    let mut values = Values::absent(steps);
    for step in 0..steps {
        let (Some(lhs), Some(rhs)) = (lhs.at(step), rhs.at(step)) else {
            continue;
        };
        match value_op(op, &lhs, &rhs, annotate) {
            Outcome::Incompatible => {}
            Outcome::False if return_bool => values.floats[step] = 0.0,
            Outcome::False => {}
            _ if return_bool => values.floats[step] = 1.0,
            Outcome::Float(value) => values.floats[step] = value,
            Outcome::Histogram(value) => values.set_histogram(step, value),
        }
    }
    values
}
