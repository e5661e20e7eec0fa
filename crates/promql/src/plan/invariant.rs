//! Which expressions have the same value at every step.
//!
//! A selector with `@` reads the same time at every step, so an expression of such selectors and
//! constants is evaluated once. Functions of the evaluation time are never invariant.

use crate::parse::Expr;

/// Functions that depend on the time of the step for any arguments.
const DEPEND_ON_TIME: [&str; 10] = [
    "day_of_month",
    "day_of_week",
    "day_of_year",
    "days_in_month",
    "hour",
    "minute",
    "month",
    "predict_linear",
    "time",
    "year",
];

pub(super) fn is_invariant(expr: &Expr) -> bool {
    match expr {
        Expr::Number(_) | Expr::String(_) => true,
        Expr::Vector(selector) => selector.time.at.is_some(),
        Expr::Matrix(matrix) => matrix.selector.time.at.is_some(),
        Expr::Subquery(subquery) => subquery.time.at.is_some(),
        Expr::Paren(paren) => is_invariant(&paren.expr),
        Expr::Unary(unary) => is_invariant(&unary.expr),
        Expr::Binary(binary) => is_invariant(&binary.lhs) && is_invariant(&binary.rhs),
        Expr::Aggregate(aggregate) => {
            is_invariant(&aggregate.expr) && aggregate.parameter.iter().all(|p| is_invariant(p))
        }
        // The second argument only selects labels.
        Expr::Call(call) if call.function.name == "info" => {
            call.args.first().is_some_and(is_invariant)
        }
        // The time of a sample does not depend on the step; that of any other vector does.
        Expr::Call(call) if call.function.name == "timestamp" => {
            let argument = call.args.first().map(Expr::unwrapped);
            matches!(argument, Some(Expr::Vector(selector)) if selector.time.at.is_some())
        }
        Expr::Call(call) => {
            !DEPEND_ON_TIME.contains(&call.function.name) && call.args.iter().all(is_invariant)
        }
    }
}
