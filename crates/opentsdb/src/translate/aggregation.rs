//! Aggregators over the series of a group.

use super::condition::{Condition, Counted};
use super::downsampling::maximum_up_to;
use super::promql::{Vector, label_name};
use super::refusal::Refusal;
use crate::query::{Aggregator, Function, Interpolation};

/// An aggregator in PromQL.
#[derive(Clone, Copy, Debug)]
pub(super) struct Aggregation {
    pub(super) aggregator: Aggregator,
    operator: Operator,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Call(&'static str),
    Median,
    SquareSum,
    /// Every series is a result of its own.
    None,
}

impl Aggregation {
    /// The error says why there is no such operator.
    pub(super) fn new(aggregator: Aggregator) -> Result<(Self, Option<Condition>), Refusal> {
        let mut condition = None;
        let operator = match aggregator.function {
            Function::None => Operator::None,
            Function::Sum => Operator::Call("sum"),
            Function::Min => Operator::Call("min"),
            Function::Max => Operator::Call("max"),
            Function::Avg => Operator::Call("avg"),
            Function::Dev => Operator::Call("stddev"),
            Function::Count => Operator::Call("count"),
            Function::SquareSum => Operator::SquareSum,
            Function::Median => {
                condition = Some(Condition::OddCount(Counted::Series));
                Operator::Median
            }
            Function::Percentile(50.0, _) => Operator::Median,
            Function::Percentile(p, _) => {
                condition = Some(Condition::AtMost(maximum_up_to(p), Counted::Series));
                Operator::Call("max")
            }
            Function::Mult => {
                return Err(Refusal::new(
                    "PromQL has no product over the series of a group",
                ));
            }
            Function::First | Function::Last | Function::Diff => {
                return Err(Refusal::new(format!(
                    "{} depends on the order of series by their UIDs, and series have no order in \
                     PromQL",
                    aggregator.name
                )));
            }
        };
        let aggregation = Self {
            aggregator,
            operator,
        };
        Ok((aggregation, condition))
    }

    /// Groups by the keys.
    pub(super) fn apply(&self, vector: &Vector, keys: &[String]) -> Vector {
        let by = by(keys);
        let text = &vector.text;
        Vector::atom(match self.operator {
            Operator::None => return vector.clone(),
            Operator::Call(name) => format!("{name}{by}({text})"),
            Operator::Median => format!("quantile{by}(0.5, {text})"),
            Operator::SquareSum => format!("sum{by}({} ^ 2)", vector.operand()),
        })
    }

    /// Whether a series without a point changes nothing, whatever it is taken for between its
    /// points.
    pub(super) fn ignores_gaps(&self) -> bool {
        let Aggregator {
            function,
            interpolation,
            ..
        } = self.aggregator;
        matches!(
            (function, interpolation),
            (Function::None, _)
                | (Function::Sum | Function::SquareSum, Interpolation::Zero)
                | (Function::Min, Interpolation::Max)
                | (Function::Max, Interpolation::Min)
        )
    }

    /// Whether integers give other results than floats.
    pub(super) fn cuts_integers(&self) -> bool {
        use Function::{Avg, Dev, Percentile};
        matches!(self.aggregator.function, Avg | Dev | Percentile(..))
    }
}

/// ` by (host) `, or nothing.
pub(super) fn by(keys: &[String]) -> String {
    if keys.is_empty() {
        return String::new();
    }
    format!(" by ({}) ", labels(keys))
}

pub(super) fn labels(keys: &[String]) -> String {
    let keys: Vec<String> = keys.iter().map(|key| label_name(key)).collect();
    keys.join(", ")
}
