//! Vectors that occur several times are planned once.

use super::{Builder, HistogramUse};
use crate::error::Result;
use crate::exec::Grid;
use crate::parse::{BinaryOp, Expr, ValueType};
use crate::plan::{SharedVector, Vector, VectorKind};

impl<'q> Builder<'q> {
    pub(super) fn shared_vector(
        &mut self,
        expr: &Expr,
        text: &'q str,
        grid: Grid,
    ) -> Result<Vector> {
        // For most expressions the use of histograms further up does not matter.
        let matters =
            self.histogram_use == HistogramUse::CountsAndSums || text.contains("histogram_");
        let histogram_use = if matters {
            self.histogram_use
        } else {
            HistogramUse::Unknown
        };
        let key = (text, grid, histogram_use);
        let id = match self.shared_by_text.get(&key) {
            Some(id) => *id,
            None => {
                let kind = self.vector_kind(expr, grid)?;
                let id = self.shared.len();
                self.shared.push(SharedVector {
                    input: Vector { grid, kind },
                    consumers: 0,
                    span: expr.span(),
                });
                self.shared_by_text.insert(key, id);
                id
            }
        };
        self.shared[id].consumers += 1;
        let span = expr.span();
        let kind = VectorKind::Shared { id, span };
        Ok(Vector { grid, kind })
    }

    pub(super) fn count_occurrences(&mut self, expr: &Expr) {
        if is_worth_sharing(expr) {
            *self.occurrences.entry(self.text(expr.span())).or_default() += 1;
        }
        match expr {
            Expr::Paren(paren) => self.count_occurrences(&paren.expr),
            Expr::Unary(unary) => self.count_occurrences(&unary.expr),
            Expr::Subquery(subquery) => self.count_occurrences(&subquery.expr),
            Expr::Binary(binary) => {
                self.count_occurrences(&binary.lhs);
                self.count_occurrences(&binary.rhs);
            }
            Expr::Aggregate(aggregate) => {
                if let Some(parameter) = &aggregate.parameter {
                    self.count_occurrences(parameter);
                }
                self.count_occurrences(&aggregate.expr);
            }
            Expr::Call(call) => {
                for arg in &call.args {
                    self.count_occurrences(arg);
                }
            }
            Expr::Number(_) | Expr::String(_) | Expr::Vector(_) | Expr::Matrix(_) => {}
        }
    }
}

/// Whether computing a vector again costs more than keeping it. Plain selectors share their scan
/// instead.
pub(super) fn is_worth_sharing(expr: &Expr) -> bool {
    match expr {
        Expr::Aggregate(_) => true,
        Expr::Binary(binary) => expr.value_type() == ValueType::Vector && binary.op != BinaryOp::Or,
        Expr::Call(call) => {
            call.function.returns == ValueType::Vector
                && call
                    .args
                    .iter()
                    .any(|arg| matches!(arg.value_type(), ValueType::Vector | ValueType::Matrix))
        }
        _ => false,
    }
}
