//! `4 * 3600` is 14400 before anything is read.

use crate::operators::arithmetic::{extreme, scalar_op};
use crate::plan::visit::{Place, each_place};
use crate::plan::{Plan, Scalar, ScalarKind};

pub(super) fn apply(plan: &mut Plan) {
    each_place(plan, &mut |place| {
        if let Place::Scalar(scalar) = place
            && let Some(value) = value_of(scalar)
        {
            scalar.kind = ScalarKind::Constant(value);
        }
    });
}

/// The value of a node whose parts are constants. Parts come before wholes, so one level is enough.
fn value_of(scalar: &Scalar) -> Option<f64> {
    let constant = |scalar: &Scalar| match scalar.kind {
        ScalarKind::Constant(value) => Some(value),
        _ => None,
    };
    match &scalar.kind {
        ScalarKind::Negate(inner) => Some(-constant(inner)?),
        ScalarKind::Binary { op, lhs, rhs } => Some(scalar_op(*op, constant(lhs)?, constant(rhs)?)),
        ScalarKind::Extreme { largest, of } => {
            let values: Option<Vec<f64>> = of.iter().map(constant).collect();
            Some(extreme(*largest, values?.into_iter()))
        }
        ScalarKind::Constant(_) | ScalarKind::Time | ScalarKind::FromVector(_) => None,
    }
}
