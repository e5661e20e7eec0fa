//! Functions of downsamplers as functions over ranges.

use super::condition::{Condition, Counted};
use super::interval::Bucket;
use super::promql::Vector;
use super::refusal::Refusal;
use crate::query::Function;

/// A downsampling function in PromQL.
#[derive(Clone, Debug)]
pub(super) struct Downsampled {
    pub(super) selector: String,
    pub(super) bucket: Bucket,
    pub(super) shift_ms: i64,
    function: OverTime,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OverTime {
    Call(&'static str),
    Median,
    SquareSum,
    Difference,
}

impl Downsampled {
    /// The error says why there is no such function.
    pub(super) fn new(
        selector: String,
        bucket: Bucket,
        function: Function,
        shift_ms: i64,
    ) -> Result<(Self, Option<Condition>), Refusal> {
        let mut condition = None;
        let function = match function {
            Function::Sum => OverTime::Call("sum_over_time"),
            Function::Min => OverTime::Call("min_over_time"),
            Function::Max => OverTime::Call("max_over_time"),
            Function::Avg => OverTime::Call("avg_over_time"),
            Function::Dev => OverTime::Call("stddev_over_time"),
            Function::Count => OverTime::Call("count_over_time"),
            Function::First => OverTime::Call("first_over_time"),
            Function::Last => OverTime::Call("last_over_time"),
            Function::Diff => OverTime::Difference,
            Function::SquareSum => OverTime::SquareSum,
            Function::Median => {
                condition = Some(Condition::OddCount(Counted::Points));
                OverTime::Median
            }
            // Half of the values below and half above: all estimations agree.
            Function::Percentile(50.0, _) => OverTime::Median,
            Function::Percentile(p, _) => {
                condition = Some(Condition::AtMost(maximum_up_to(p), Counted::Points));
                OverTime::Call("max_over_time")
            }
            Function::Mult => {
                return Err(Refusal::new(
                    "PromQL has no product over the points of a range",
                ));
            }
            Function::None => return Err(Refusal::new("none is no downsampling function")),
        };
        let downsampled = Self {
            selector,
            bucket,
            shift_ms,
            function,
        };
        Ok((downsampled, condition))
    }

    /// The value of the interval that begins at the step, or of one so many before it.
    pub(super) fn vector(&self, back: i64) -> Vector {
        let at = (back, self.shift_ms);
        let call = |function| self.bucket.over(function, "", &self.selector, at);
        match self.function {
            OverTime::Call(function) => call(function),
            OverTime::Median => {
                let function = "quantile_over_time";
                self.bucket.over(function, "0.5, ", &self.selector, at)
            }
            OverTime::Difference => Vector::binary(format!(
                "{} - {}",
                call("last_over_time").text,
                call("first_over_time").text
            )),
            OverTime::SquareSum => Vector::binary(format!(
                "{} * ({} + {} ^ 2)",
                call("count_over_time").text,
                call("stdvar_over_time").text,
                call("avg_over_time").text
            )),
        }
    }

    /// Whether no points have a negative result.
    pub(super) fn is_never_negative(&self) -> bool {
        let functions = ["count_over_time", "stddev_over_time"];
        match self.function {
            OverTime::SquareSum => true,
            OverTime::Call(name) => functions.contains(&name),
            OverTime::Median | OverTime::Difference => false,
        }
    }

    /// Whether the result has the name of the metric still, unlike that of most functions.
    pub(super) fn keeps_name(&self) -> bool {
        let keeps = ["first_over_time", "last_over_time"];
        matches!(self.function, OverTime::Call(name) if keeps.contains(&name))
    }
}

/// Of how many values at most the percentile is the greatest: p/100·(n + 1) ≥ n.
pub(super) fn maximum_up_to(p: f64) -> u64 {
    (p / (100.0 - p)).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::Aggregator;

    #[test]
    fn percentiles_of_few_values_are_the_maximum() {
        for (name, count) in [
            ("p75", 3),
            ("p90", 9),
            ("p95", 19),
            ("p99", 99),
            ("p999", 999),
        ] {
            let Some(Function::Percentile(p, _)) = Aggregator::find(name).map(|a| a.function)
            else {
                panic!("a percentile")
            };
            assert_eq!(maximum_up_to(p), count);
        }
    }
}
