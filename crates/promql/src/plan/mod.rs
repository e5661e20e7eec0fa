//! Plans: from a syntax tree to a tree of operations.
//!
//! ```text
//! Expr ─ build ─► Plan ─ optimize ─► Plan ─ operators::build ─► operators
//!                                     └─ explain ─► text
//! ```
//!
//! Holds always:
//! - Every node has the grid on which it is evaluated: subqueries, `offset` and `@` are resolved
//!   into absolute times when the plan is built.
//! - A plan is only a description: it can be printed and rewritten, and holds no state.

mod build;
mod distinct;
mod explain;
mod names;
mod optimize;
mod visit;

use std::sync::Arc;

use icecore_model::rollup::{RollupChoice, WindowFields};
use icecore_model::{Evaluations, Matcher};

use crate::exec::Grid;
use crate::functions::window::{WindowFunction, Windows};
use crate::functions::{MapFunction, VectorFunction};
use crate::parse::{AggregateOp, BinaryOp, Call, Span, VectorMatching};
use crate::rollup::RollupOptions;

pub(crate) use build::{PlanContext, build};
pub(crate) use explain::explain;
pub(crate) use names::{DuplicateCheck, Duplicates, Removal, RemovedLabels, is_blind_to_names};
pub use optimize::Rules;
pub(crate) use optimize::{AppliedRule, optimize};

/// The info metric of `info` when none is named.
pub(crate) const INFO_METRIC: &str = "target_info";

/// A query, ready to be executed.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) root: Root,
    /// Reads of the source; leaves refer to these by index.
    pub(crate) scans: Vec<Scan>,
    /// Vectors with several consumers, which refer to these by index.
    pub(crate) shared: Vec<SharedVector>,
    pub(crate) grid: Grid,
    pub(crate) is_range: bool,
    /// Metric names are removed at the end of the evaluation, not by each function.
    pub(crate) delayed_names: bool,
    pub(crate) rollup: RollupOptions,
    /// The rules that changed the plan, in order.
    pub(crate) applied: Vec<AppliedRule>,
}

/// The value of the whole query.
#[derive(Debug)]
pub(crate) enum Root {
    Scalar(Scalar),
    Text(String),
    Vector(Vector),
    /// The samples of a range selector or subquery, of instant queries only.
    Matrix(RangeInput, Windows),
}

/// One read of the source.
#[derive(Clone, Debug)]
pub(crate) struct Scan {
    pub(crate) matchers: Vec<Matcher>,
    /// Both included.
    pub(crate) start_ms: i64,
    pub(crate) end_ms: i64,
    /// Also reads the sample at the edge of a window, with which the next one is compared.
    pub(crate) reads_edge: bool,
    /// Number of leaves that use it.
    pub(crate) consumers: usize,
    /// The level that it takes where time was rolled up and there is a choice.
    pub(crate) choice: RollupChoice,
    /// What it needs of windows.
    pub(crate) fields: WindowFields,
    /// When its leaves look at the series.
    pub(crate) evaluations: Evaluations,
}

/// A leaf's use of a scan.
#[derive(Clone, Debug)]
pub(crate) struct ScanUse {
    pub(crate) scan: usize,
    /// Matchers to check besides those of the scan.
    pub(crate) filter: Vec<Matcher>,
    /// Only counts and sums of histograms are used. Prometheus then compares each histogram with an
    /// unknown reset hint with the one before.
    pub(crate) detects_resets: bool,
}

/// A vector that is computed once and read several times.
#[derive(Debug)]
pub(crate) struct SharedVector {
    pub(crate) input: Vector,
    pub(crate) consumers: usize,
    /// Its first occurrence in the query: its annotations are copied to the others.
    pub(crate) span: Span,
}

/// A node whose value is a set of rows on a grid.
#[derive(Debug)]
pub(crate) struct Vector {
    pub(crate) grid: Grid,
    pub(crate) kind: VectorKind,
}

#[derive(Debug)]
pub(crate) enum VectorKind {
    /// The latest sample of each series within the look-back.
    Select {
        from: ScanUse,
        offset_ms: i64,
        lookback_ms: i64,
        output: SelectorOutput,
        span: Span,
    },
    /// A function over a range vector.
    Window {
        call: Arc<Call>,
        args: Vec<Arg>,
        function: &'static WindowFunction,
        series_arg: usize,
        input: RangeInput,
        windows: Windows,
    },
    /// A function over each row.
    Map {
        call: Arc<Call>,
        args: Vec<Arg>,
        function: MapFunction,
        input: Box<Vector>,
    },
    /// A function over all rows.
    Rows {
        call: Arc<Call>,
        args: Vec<Arg>,
        function: VectorFunction,
        input: Box<Vector>,
        /// The requested end lies after the first step, even if there is only one step.
        spans_time: bool,
    },
    Aggregate {
        op: AggregateOp,
        grouping: Arc<Grouping>,
        parameter: Option<Parameter>,
        input: Box<Vector>,
        parameter_span: Span,
        input_span: Span,
        span: Span,
        /// Rows that can no longer be selected are dropped as others arrive.
        fused: bool,
    },
    /// A vector with a scalar.
    WithScalar {
        op: BinaryOp,
        return_bool: bool,
        vector: Box<Vector>,
        scalar: Scalar,
        scalar_is_left: bool,
        span: Span,
    },
    /// Two vectors, joined by labels.
    Join {
        op: BinaryOp,
        return_bool: bool,
        matching: Arc<VectorMatching>,
        lhs: Box<Vector>,
        rhs: Box<Vector>,
        span: Span,
    },
    Negate(Box<Vector>),
    /// `vector(s)`, and `time()` as the default argument of a function.
    FromScalar(Scalar),
    /// Evaluated once, the same at every step.
    Repeat(Box<Vector>),
    /// `info(v, {…})`: labels of info metrics joined to a vector.
    Info {
        input: Box<Vector>,
        /// The data label matchers, those of the metric name included.
        matchers: Vec<Matcher>,
        /// What they imply besides.
        implied: Vec<Matcher>,
        lookback_ms: i64,
        /// The steps before which info series are looked up: those of the node, or one for all of
        /// them.
        lookup: Grid,
        offset_ms: i64,
        choice: RollupChoice,
    },
    /// See [`Plan::shared`]. The span is that of this occurrence.
    Shared {
        id: usize,
        span: Span,
    },
}

/// What a selector yields of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SelectorOutput {
    Value,
    /// The value interpolated between the samples around the step.
    Smoothed,
    /// `timestamp(selector)`
    Timestamp,
    /// `start_timestamp(selector)`
    StartTimestamp,
}

/// Where a range vector comes from.
#[derive(Debug)]
pub(crate) enum RangeInput {
    Scan(ScanUse),
    /// Rows on the subquery's own grid.
    Subquery(Box<Vector>),
}

/// An argument of a call.
#[derive(Debug)]
pub(crate) enum Arg {
    /// The vector or range vector.
    Series,
    Scalar(Scalar),
    Text(String),
}

/// The parameter of an aggregation.
#[derive(Debug)]
pub(crate) enum Parameter {
    Scalar(Scalar),
    Text(String),
}

#[derive(Debug)]
pub(crate) struct Grouping {
    pub(crate) labels: Vec<String>,
    pub(crate) without: bool,
}

/// A node whose value is one float per step.
#[derive(Debug)]
pub(crate) struct Scalar {
    pub(crate) grid: Grid,
    pub(crate) kind: ScalarKind,
}

#[derive(Debug)]
pub(crate) enum ScalarKind {
    Constant(f64),
    /// The time of the step in seconds.
    Time,
    Negate(Box<Scalar>),
    Binary {
        op: BinaryOp,
        lhs: Box<Scalar>,
        rhs: Box<Scalar>,
    },
    /// `min_of(a, b)` and `max_of(a, b)`
    Extreme {
        largest: bool,
        of: Vec<Scalar>,
    },
    /// `scalar(v)`
    FromVector(Box<Vector>),
}
