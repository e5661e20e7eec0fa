//! `4 * 3600` becomes 14400.

use crate::arithmetic::{extreme, scalar_op};
use crate::plan::visit::{NodeMut, each_node};
use crate::plan::{Plan, Scalar, ScalarKind, VectorKind};

/// Evaluates constant operations and reports how many there were.
pub(super) fn apply(plan: &mut Plan) -> Option<String> {
    let mut folded = 0;
    each_node(plan, &mut |node| {
        if let NodeMut::Scalar(scalar) = node
            && let Some(value) = value_of(scalar)
        {
            scalar.kind = ScalarKind::Constant(value);
            folded += 1;
        }
    });
    (folded > 0).then(|| match folded {
        1 => "1 constant operation evaluated".to_string(),
        _ => format!("{folded} constant operations evaluated"),
    })
}

/// The value of a node with constant operands. Inner nodes are visited first, so one level is
/// enough.
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
