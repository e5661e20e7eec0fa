//! Aggregators: a function over the values at one timestamp, and what a series counts as between
//! its points.

use super::percentile::Estimation;

/// A named aggregator.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Aggregator {
    pub(crate) name: &'static str,
    pub(crate) function: Function,
    pub(crate) interpolation: Interpolation,
}

/// What is computed over values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Function {
    Sum,
    Min,
    Max,
    Avg,
    /// Nothing: every series is a result of its own.
    None,
    Median,
    Mult,
    Dev,
    Diff,
    Count,
    First,
    Last,
    SquareSum,
    /// The percentile, and how it is estimated for integers.
    Percentile(f64, Estimation),
}

/// What a series counts as at a time between two of its points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interpolation {
    Linear,
    Zero,
    /// The greatest number, so that it never is the minimum.
    Max,
    /// The least number, so that it never is the maximum.
    Min,
    Previous,
}

use Estimation::{Legacy, R3, R7};
use Interpolation as Between;

const fn aggregator(name: &'static str, function: Function, between: Between) -> Aggregator {
    Aggregator {
        name,
        function,
        interpolation: between,
    }
}

const fn percentile(name: &'static str, p: f64, estimation: Estimation) -> Aggregator {
    aggregator(name, Function::Percentile(p, estimation), Between::Linear)
}

/// All aggregators.
pub(crate) const AGGREGATORS: [Aggregator; 35] = [
    aggregator("sum", Function::Sum, Between::Linear),
    aggregator("min", Function::Min, Between::Linear),
    aggregator("max", Function::Max, Between::Linear),
    aggregator("avg", Function::Avg, Between::Linear),
    aggregator("none", Function::None, Between::Zero),
    aggregator("median", Function::Median, Between::Linear),
    aggregator("mult", Function::Mult, Between::Linear),
    aggregator("dev", Function::Dev, Between::Linear),
    aggregator("diff", Function::Diff, Between::Linear),
    aggregator("count", Function::Count, Between::Zero),
    aggregator("zimsum", Function::Sum, Between::Zero),
    aggregator("mimmin", Function::Min, Between::Max),
    aggregator("mimmax", Function::Max, Between::Min),
    aggregator("first", Function::First, Between::Zero),
    aggregator("last", Function::Last, Between::Zero),
    aggregator("pfsum", Function::Sum, Between::Previous),
    aggregator("squareSum", Function::SquareSum, Between::Zero),
    percentile("p50", 50.0, Legacy),
    percentile("p75", 75.0, Legacy),
    percentile("p90", 90.0, Legacy),
    percentile("p95", 95.0, Legacy),
    percentile("p99", 99.0, Legacy),
    percentile("p999", 99.9, Legacy),
    percentile("ep50r3", 50.0, R3),
    percentile("ep75r3", 75.0, R3),
    percentile("ep90r3", 90.0, R3),
    percentile("ep95r3", 95.0, R3),
    percentile("ep99r3", 99.0, R3),
    percentile("ep999r3", 99.9, R3),
    percentile("ep50r7", 50.0, R7),
    percentile("ep75r7", 75.0, R7),
    percentile("ep90r7", 90.0, R7),
    percentile("ep95r7", 95.0, R7),
    percentile("ep99r7", 99.0, R7),
    percentile("ep999r7", 99.9, R7),
];

impl Aggregator {
    pub(crate) fn find(name: &str) -> Option<Self> {
        AGGREGATORS.iter().find(|a| a.name == name).copied()
    }

    pub(crate) fn is_none(self) -> bool {
        self.function == Function::None
    }

    /// Whether values may come in any order, one at a time, into a state of fixed size.
    pub(crate) fn is_commutative(self) -> bool {
        use Function::{Avg, Count, Dev, Max, Min, Mult, SquareSum, Sum};
        matches!(
            self.function,
            Sum | Min | Max | Avg | Mult | Dev | Count | SquareSum
        )
    }
}
