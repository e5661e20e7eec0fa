//! Which expressions have the same value at every step.
//!
//! A selector with `@` reads the same time at every step, so an expression of such selectors and
//! constants is evaluated once. Functions of the evaluation time are never invariant.

use super::Builder;
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

impl Builder<'_> {
    pub(super) fn is_invariant(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Number(_) | Expr::String(_) => true,
            Expr::Vector(selector) => selector.time.at.is_some(),
            Expr::Matrix(matrix) => matrix.selector.time.at.is_some(),
            Expr::Subquery(subquery) => subquery.time.at.is_some(),
            Expr::Paren(paren) => self.is_invariant(&paren.expr),
            Expr::Unary(unary) => self.is_invariant(&unary.expr),
            Expr::Binary(binary) => {
                self.is_invariant(&binary.lhs) && self.is_invariant(&binary.rhs)
            }
            Expr::Aggregate(aggregate) => {
                let mut parameter = aggregate.parameter.iter();
                self.is_invariant(&aggregate.expr) && parameter.all(|p| self.is_invariant(p))
            }
            // The second argument only selects labels. Without a common time of the data of the
            // first one, info series are looked up at the step. What is wrong with a duration is
            // reported where its selector is built.
            Expr::Call(call) if call.function.name == "info" => {
                let has_one_time = |base| matches!(self.data_time(base), Ok(Some(_)));
                let base = call.args.first();
                base.is_some_and(|base| self.is_invariant(base) && has_one_time(base))
            }
            // The time of a sample does not depend on the step; that of any other vector does.
            Expr::Call(call) if call.function.name == "timestamp" => {
                let argument = call.args.first().map(Expr::unwrapped);
                matches!(argument, Some(Expr::Vector(selector)) if selector.time.at.is_some())
            }
            Expr::Call(call) => {
                !DEPEND_ON_TIME.contains(&call.function.name)
                    && call.args.iter().all(|arg| self.is_invariant(arg))
            }
        }
    }
}
