//! EXPLAIN: a plan as text.
//!
//! ```text
//! range query: 61 steps every 1m from 2023-11-14 22:13:20 to 2023-11-14 23:13:20
//! └─ sum by (job)
//!    └─ rate over 5m
//!       └─ scan 0
//!
//! reads
//!   scan 0: requests_total after 2023-11-14 22:08:20 to 2023-11-14 23:13:20 (1h5m)
//! ```
//!
//! A read says up to which width it takes windows of rolled-up samples where finer ones are still
//! there. First the operations, then reads and shared vectors, then the rules that changed the
//! plan. If the query has run, each operation and read says what it took by itself, what is below
//! it not counted, and how much it yielded or read; below a read is which level answered which part
//! of its time, if any is rolled up.

use std::ops::Deref;

mod text;
mod tree;

use super::{
    Arg, Grouping, Parameter, Plan, RangeInput, Root, Scalar, ScalarKind, SelectorOutput, Vector,
    VectorKind,
};
use crate::exec::{Cost, Part, Profile};
use crate::parse::{AggregateOp, BinaryOp, format_duration, go_float};
use text::{
    CostText, GridText, LevelsText, MatchingText, OffsetText, ScanText, SegmentsText, SelectorText,
    TimeText, WindowText,
};
use tree::Tree;

/// A plan and what is known of its parts.
#[derive(Clone, Copy)]
struct Explained<'p> {
    plan: &'p Plan,
    profile: Option<&'p Profile>,
}

impl Explained<'_> {
    /// What a part took, if it has run.
    fn cost(self, part: Part) -> Option<Cost> {
        self.profile.and_then(|profile| profile.cost(part))
    }
}

impl Deref for Explained<'_> {
    type Target = Plan;

    fn deref(&self) -> &Plan {
        self.plan
    }
}

/// The plan, and what its parts took if it has run.
pub(crate) fn explain(plan: &Plan, profile: Option<&Profile>) -> String {
    let plan = Explained { plan, profile };
    let kind = if plan.is_range { "range" } else { "instant" };
    let mut out = format!("{kind} query: {}\n", GridText(plan.grid));
    root(plan).render(&mut out);
    if !plan.scans.is_empty() {
        out.push_str("\nreads\n");
    }
    for (id, scan) in plan.scans.iter().enumerate() {
        let after_ms = scan.start_ms.saturating_sub(1);
        let cost = plan.cost(Part::Scan(id));
        let uses = match scan.consumers {
            1 => String::new(),
            uses => format!(", for {uses} selectors"),
        };
        out.push_str(&format!(
            "  scan {id}: {} after {} to {} ({}){uses}{}{}\n",
            SelectorText(&scan.matchers),
            TimeText(after_ms),
            TimeText(scan.end_ms),
            format_duration(scan.end_ms.saturating_sub(after_ms)),
            LevelsText(&scan.choice),
            CostText(&cost),
        ));
        for levels in cost.iter().flat_map(|cost| &cost.levels) {
            let segments = SegmentsText::new(levels, after_ms, scan.end_ms);
            out.extend(segments.map(|text| format!("    {text}\n")));
        }
    }
    for (id, shared) in plan.shared.iter().enumerate() {
        if shared.consumers > 1 {
            let uses = shared.consumers;
            out.push_str(&format!(
                "\nvector {id}, computed once for {uses} uses, {}\n",
                GridText(shared.input.grid)
            ));
            vector(plan, &shared.input).render(&mut out);
        }
    }
    if !plan.applied.is_empty() {
        out.push_str("\nrules applied\n");
    }
    for applied in &plan.applied {
        out.push_str(&format!("  {}: {}\n", applied.rule, applied.effect));
    }
    out
}

fn root(plan: Explained<'_>) -> Tree {
    match &plan.root {
        Root::Scalar(node) => scalar(plan, node),
        Root::Text(text) => Tree::leaf(format!("string {text:?}")),
        Root::Vector(node) => vector(plan, node),
        Root::Matrix(input, windows) => {
            let text = format!("samples{}", WindowText(windows));
            Tree::new(text, vec![range_input(plan, input)])
        }
    }
}

fn vector(plan: Explained<'_>, node: &Vector) -> Tree {
    match &node.kind {
        // Occurs twice but on different grids: shown in place.
        VectorKind::Shared { id, .. } if plan.shared[*id].consumers == 1 => {
            vector(plan, &plan.shared[*id].input)
        }
        kind => {
            let cost = plan.cost(Part::node(node));
            vector_kind(plan, kind).with_note(&CostText(&cost).to_string())
        }
    }
}

fn vector_kind(plan: Explained<'_>, kind: &VectorKind) -> Tree {
    match kind {
        VectorKind::Select {
            from,
            offset_ms,
            lookback_ms,
            output,
            ..
        } => Tree::leaf(format!(
            "{} within {} in {}{}",
            output_text(*output),
            format_duration(*lookback_ms),
            ScanText(from),
            OffsetText(*offset_ms)
        )),
        VectorKind::Window {
            call,
            args,
            input,
            windows,
            ..
        } => {
            let name = match call.function.name {
                // The node above turns it into `absent`.
                "absent_over_time" => "present_over_time",
                name => name,
            };
            let text = format!("{name}{}", WindowText(windows));
            let mut children = vec![range_input(plan, input)];
            children.extend(arguments(plan, args));
            Tree::new(text, children)
        }
        VectorKind::Map {
            call, args, input, ..
        }
        | VectorKind::Rows {
            call, args, input, ..
        } => {
            let mut children = vec![vector(plan, input)];
            children.extend(arguments(plan, args));
            Tree::new(call.function.name.to_string(), children)
        }
        VectorKind::Aggregate {
            op,
            grouping,
            parameter,
            input,
            fused,
            ..
        } => {
            let mut children: Vec<Tree> = parameter.iter().map(|p| parameter_of(plan, p)).collect();
            children.push(vector(plan, input));
            Tree::new(aggregation(*op, grouping, *fused), children)
        }
        VectorKind::WithScalar {
            op,
            return_bool,
            vector: input,
            scalar: other,
            scalar_is_left,
            ..
        } => {
            let mut children = vec![vector(plan, input), scalar(plan, other)];
            if *scalar_is_left {
                children.reverse();
            }
            Tree::new(operator(*op, *return_bool), children)
        }
        VectorKind::Join {
            op,
            return_bool,
            matching,
            lhs,
            rhs,
            ..
        } => {
            let text = format!("{}{}", operator(*op, *return_bool), MatchingText(matching));
            Tree::new(text, vec![vector(plan, lhs), vector(plan, rhs)])
        }
        VectorKind::Negate(input) => Tree::new("-".to_string(), vec![vector(plan, input)]),
        VectorKind::FromScalar(input) => Tree::new("vector".to_string(), vec![scalar(plan, input)]),
        VectorKind::Repeat(input) => {
            let text = "repeat at every step".to_string();
            Tree::new(text, vec![vector(plan, input)])
        }
        VectorKind::Info {
            input, matchers, ..
        } => {
            let text = format!("info {}", SelectorText(matchers));
            Tree::new(text, vec![vector(plan, input)])
        }
        VectorKind::Shared { id, .. } => Tree::leaf(format!("vector {id}")),
    }
}

fn output_text(output: SelectorOutput) -> &'static str {
    match output {
        SelectorOutput::Value => "latest sample",
        SelectorOutput::Smoothed => "smoothed value",
        SelectorOutput::Timestamp => "time of the latest sample",
        SelectorOutput::StartTimestamp => "start time of the latest sample",
    }
}

fn operator(op: BinaryOp, return_bool: bool) -> String {
    let modifier = if return_bool { " bool" } else { "" };
    format!("{}{modifier}", op.symbol())
}

fn aggregation(op: AggregateOp, grouping: &Grouping, fused: bool) -> String {
    let labels = grouping.labels.join(", ");
    let grouped = match (grouping.without, grouping.labels.is_empty()) {
        (true, _) => format!(" without ({labels})"),
        (false, false) => format!(" by ({labels})"),
        (false, true) => String::new(),
    };
    let fused = if fused { ", dropping rows early" } else { "" };
    format!("{}{grouped}{fused}", op.name())
}

fn parameter_of(plan: Explained<'_>, parameter: &Parameter) -> Tree {
    match parameter {
        Parameter::Scalar(node) => scalar(plan, node),
        Parameter::Text(text) => Tree::leaf(format!("{text:?}")),
    }
}

fn range_input(plan: Explained<'_>, input: &RangeInput) -> Tree {
    match input {
        RangeInput::Scan(from) => Tree::leaf(ScanText(from).to_string()),
        RangeInput::Subquery(inner) => {
            let text = format!("subquery: {}", GridText(inner.grid));
            Tree::new(text, vec![vector(plan, inner)])
        }
    }
}

fn arguments(plan: Explained<'_>, args: &[Arg]) -> Vec<Tree> {
    let argument = |arg: &Arg| match arg {
        Arg::Series => None,
        Arg::Scalar(node) => Some(scalar(plan, node)),
        Arg::Text(text) => Some(Tree::leaf(format!("{text:?}"))),
    };
    args.iter().filter_map(argument).collect()
}

fn scalar(plan: Explained<'_>, node: &Scalar) -> Tree {
    match &node.kind {
        ScalarKind::Constant(value) => Tree::leaf(go_float(*value)),
        ScalarKind::Time => Tree::leaf("time".to_string()),
        ScalarKind::Negate(inner) => Tree::new("-".to_string(), vec![scalar(plan, inner)]),
        ScalarKind::Binary { op, lhs, rhs } => {
            let sides = vec![scalar(plan, lhs), scalar(plan, rhs)];
            Tree::new(op.symbol().to_string(), sides)
        }
        ScalarKind::Extreme { largest, of } => {
            let name = if *largest { "max_of" } else { "min_of" };
            let of = of.iter().map(|inner| scalar(plan, inner));
            Tree::new(name.to_string(), of.collect())
        }
        ScalarKind::FromVector(inner) => Tree::new("scalar".to_string(), vec![vector(plan, inner)]),
    }
}
