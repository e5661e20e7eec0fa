//! The time of the data of a vector, at which `info` looks for info series.
//!
//! A vector has one if all its selectors read at the same time and all its parts have selectors.
//! Scalars do not count: they have no rows to which labels could be added.

use super::Builder;
use crate::error::Result;
use crate::parse::{Expr, TimeModifiers, ValueType};

/// When all selectors of a vector read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DataTime {
    /// At this time, whatever the step.
    Fixed(i64),
    /// So long before each step.
    Before(i64),
}

impl Builder<'_> {
    /// The time of the data of a vector or range vector; `None` if there is no common one.
    pub(super) fn data_time(&self, expr: &Expr) -> Result<Option<DataTime>> {
        match expr {
            Expr::Vector(selector) => self.shifted(&selector.time, 0).map(Some),
            Expr::Matrix(matrix) => self.shifted(&matrix.selector.time, 0).map(Some),
            Expr::Subquery(subquery) => match self.data_time(&subquery.expr)? {
                // The steps of a subquery do not matter to what reads at a fixed time.
                Some(DataTime::Before(inner_ms)) => {
                    self.shifted(&subquery.time, inner_ms).map(Some)
                }
                inner => Ok(inner),
            },
            Expr::Paren(paren) => self.data_time(&paren.expr),
            Expr::Unary(unary) => self.data_time(&unary.expr),
            Expr::Aggregate(aggregate) => self.data_time(&aggregate.expr),
            Expr::Binary(binary) => self.common_data_time([&*binary.lhs, &*binary.rhs]),
            // The second argument only selects labels.
            Expr::Call(call) if call.function.name == "info" => {
                self.common_data_time(call.args.first())
            }
            Expr::Call(call) => self.common_data_time(&call.args),
            Expr::Number(_) | Expr::String(_) => Ok(None),
        }
    }

    /// The time that the vectors among some expressions share.
    fn common_data_time<'e>(
        &self,
        parts: impl IntoIterator<Item = &'e Expr>,
    ) -> Result<Option<DataTime>> {
        let is_vector =
            |expr: &&Expr| matches!(expr.value_type(), ValueType::Vector | ValueType::Matrix);
        let mut common = None;
        for part in parts.into_iter().filter(is_vector) {
            let time = self.data_time(part)?;
            if time.is_none() || common.is_some_and(|common| Some(common) != time) {
                return Ok(None);
            }
            common = time;
        }
        Ok(common)
    }

    /// The time that modifiers say, moved back.
    fn shifted(&self, time: &TimeModifiers, before_ms: i64) -> Result<DataTime> {
        let offset_ms = self.duration(&time.offset)?.saturating_add(before_ms);
        Ok(match self.at(time) {
            Some(at_ms) => DataTime::Fixed(at_ms.saturating_sub(offset_ms)),
            None => DataTime::Before(offset_ms),
        })
    }
}
