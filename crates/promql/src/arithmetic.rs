//! Binary operators on two values.

use std::sync::Arc;

use icecore_model::CounterResetHint;

use crate::annotations::{Annotation, HistogramOperation};
use crate::exec::is_absent;
use crate::go_math;
use crate::histogram::{FloatHistogram, Trim};
use crate::parse::BinaryOp;

/// An operator on two floats. Comparisons give 1 or 0.
pub(crate) fn scalar_op(op: BinaryOp, lhs: f64, rhs: f64) -> f64 {
    match float_op(op, lhs, rhs) {
        Some(value) if op.is_comparison() => {
            debug_assert!(!is_absent(value));
            1.0
        }
        Some(value) => value,
        None => 0.0,
    }
}

/// The largest or smallest of some floats as Go computes it: NaN if one is, unless another is the
/// infinity that always wins.
pub(crate) fn extreme(largest: bool, values: impl Iterator<Item = f64>) -> f64 {
    let choose = if largest { go_math::max } else { go_math::min };
    values.reduce(choose).unwrap_or(f64::NAN)
}

/// An operator on two floats; `None` if a comparison is false or the operator does not take floats.
/// A comparison that is true gives its left side.
#[inline]
pub(crate) fn float_op(op: BinaryOp, lhs: f64, rhs: f64) -> Option<f64> {
    let keep_if = |condition: bool| condition.then_some(lhs);
    match op {
        BinaryOp::Add => Some(lhs + rhs),
        BinaryOp::Subtract => Some(lhs - rhs),
        BinaryOp::Multiply => Some(lhs * rhs),
        BinaryOp::Divide => Some(lhs / rhs),
        BinaryOp::Modulo => Some(lhs % rhs),
        BinaryOp::Power => Some(go_math::pow(lhs, rhs)),
        BinaryOp::Atan2 => Some(lhs.atan2(rhs)),
        BinaryOp::Equal => keep_if(lhs == rhs),
        BinaryOp::NotEqual => keep_if(lhs != rhs),
        BinaryOp::Greater => keep_if(lhs > rhs),
        BinaryOp::Less => keep_if(lhs < rhs),
        BinaryOp::GreaterOrEqual => keep_if(lhs >= rhs),
        BinaryOp::LessOrEqual => keep_if(lhs <= rhs),
        BinaryOp::And
        | BinaryOp::Or
        | BinaryOp::Unless
        | BinaryOp::TrimUpper
        | BinaryOp::TrimLower => None,
    }
}

/// A float or a histogram.
#[derive(Clone, Debug)]
pub(crate) enum Value<'v> {
    Float(f64),
    Histogram(&'v Arc<FloatHistogram>),
}

/// The result of an operator on two values.
pub(crate) enum Outcome {
    Float(f64),
    Histogram(Arc<FloatHistogram>),
    /// A comparison that is false.
    False,
    /// The types do not fit: no value, not even with `bool`.
    Incompatible,
}

/// An operator on values of any type. `annotate` takes the annotations.
pub(crate) fn value_op(
    op: BinaryOp,
    lhs: &Value<'_>,
    rhs: &Value<'_>,
    annotate: &dyn Fn(Annotation),
) -> Outcome {
    let incompatible = |lhs, rhs| {
        let op = op.symbol();
        annotate(Annotation::IncompatibleTypes { op, lhs, rhs });
        Outcome::Incompatible
    };
    match (lhs, rhs) {
        (Value::Float(_), Value::Float(_))
            if matches!(op, BinaryOp::TrimUpper | BinaryOp::TrimLower) =>
        {
            incompatible("float", "float")
        }
        (Value::Float(lhs), Value::Float(rhs)) => match float_op(op, *lhs, *rhs) {
            Some(value) => Outcome::Float(value),
            None => Outcome::False,
        },
        (Value::Float(lhs), Value::Histogram(rhs)) => match op {
            BinaryOp::Multiply => scaled(rhs, |h| h.mul(*lhs)),
            _ => incompatible("float", "histogram"),
        },
        (Value::Histogram(lhs), Value::Float(rhs)) => match op {
            BinaryOp::Multiply => scaled(lhs, |h| h.mul(*rhs)),
            BinaryOp::Divide => scaled(lhs, |h| h.div(*rhs)),
            BinaryOp::TrimUpper => Outcome::Histogram(Arc::new(lhs.trim_upper(*rhs))),
            BinaryOp::TrimLower => Outcome::Histogram(Arc::new(lhs.trim_lower(*rhs))),
            _ => incompatible("histogram", "float"),
        },
        (Value::Histogram(lhs), Value::Histogram(rhs)) => match op {
            BinaryOp::Add | BinaryOp::Subtract => combined(op, lhs, rhs, annotate),
            BinaryOp::Equal => {
                if lhs.equals(rhs) {
                    Outcome::Histogram(Arc::clone(lhs))
                } else {
                    Outcome::False
                }
            }
            BinaryOp::NotEqual => {
                if lhs.equals(rhs) {
                    Outcome::False
                } else {
                    Outcome::Histogram(Arc::clone(lhs))
                }
            }
            _ => incompatible("histogram", "histogram"),
        },
    }
}

/// Whether an operator takes values of these types: [`value_op`] has a result.
pub(crate) fn types_fit(op: BinaryOp, lhs: &Value<'_>, rhs: &Value<'_>) -> bool {
    let trims = matches!(op, BinaryOp::TrimUpper | BinaryOp::TrimLower);
    match (lhs, rhs) {
        (Value::Float(_), Value::Float(_)) => !trims,
        (Value::Float(_), Value::Histogram(_)) => op == BinaryOp::Multiply,
        (Value::Histogram(_), Value::Float(_)) => {
            trims || matches!(op, BinaryOp::Multiply | BinaryOp::Divide)
        }
        (Value::Histogram(lhs), Value::Histogram(rhs)) => match op {
            BinaryOp::Add | BinaryOp::Subtract => {
                lhs.uses_custom_buckets() == rhs.uses_custom_buckets()
            }
            _ => matches!(op, BinaryOp::Equal | BinaryOp::NotEqual),
        },
    }
}

fn scaled(histogram: &FloatHistogram, change: impl FnOnce(&mut FloatHistogram)) -> Outcome {
    let mut histogram = histogram.clone();
    change(&mut histogram);
    histogram.compact(0);
    Outcome::Histogram(Arc::new(histogram))
}

/// The sum or difference of two histograms.
fn combined(
    op: BinaryOp,
    lhs: &FloatHistogram,
    rhs: &FloatHistogram,
    annotate: &dyn Fn(Annotation),
) -> Outcome {
    let mut histogram = lhs.clone();
    let (added, operation) = match op {
        BinaryOp::Subtract => (histogram.sub(rhs), HistogramOperation::Subtraction),
        _ => (histogram.add(rhs), HistogramOperation::Addition),
    };
    match added {
        Ok(outcome) => {
            if outcome.counter_reset_collision {
                annotate(Annotation::CounterResetCollision(operation));
            }
            if outcome.bounds_reconciled {
                annotate(Annotation::MismatchedCustomBuckets(operation));
            }
            // A difference is not a counter.
            if op == BinaryOp::Subtract {
                histogram.reset_hint = CounterResetHint::Gauge;
            }
            histogram.compact(0);
            Outcome::Histogram(Arc::new(histogram))
        }
        Err(_) => {
            annotate(Annotation::IncompatibleBucketLayout(op.symbol()));
            Outcome::Incompatible
        }
    }
}
