//! `4 * 3600` is 14400 before anything is read.

use crate::arithmetic::{extreme, scalar_op};
use crate::plan::visit::{Place, each_place};
use crate::plan::{Plan, Scalar, ScalarKind, VectorKind};

/// Computes what is constant and says how much of it there was.
pub(super) fn apply(plan: &mut Plan) -> Option<String> {
    let mut folded = 0;
    each_place(plan, &mut |place| {
        if let Place::Scalar(scalar) = place
            && let Some(value) = value_of(scalar)
        {
            scalar.kind = ScalarKind::Constant(value);
            folded += 1;
        }
    });
    (folded > 0).then(|| match folded {
        1 => "1 operation on numbers is already done".to_string(),
        _ => format!("{folded} operations on numbers are already done"),
    })
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
        // `scalar(vector(s))` is `s`.
        ScalarKind::FromVector(inner) => match &inner.kind {
            VectorKind::FromScalar(inner) => constant(inner),
            _ => None,
        },
        ScalarKind::Constant(_) | ScalarKind::Time => None,
    }
}
