//! A side of a join reads only what can match the other side.
//!
//! `a{host="x"} * on (host) b` reads `b{host="x"}`: rows of `b` with another host find no partner.
//! A matcher travels only where its label is a join label and passes unchanged from the selector to
//! the join. One difference to evaluating everything remains: duplicates on one side are an error
//! only if they could match something (rfcs/0002).

use icecore_model::{METRIC_NAME, Matcher};

use crate::parse::{AggregateOp, BinaryOp, VectorMatching};
use crate::plan::visit::{Place, each_place};
use crate::plan::{Grouping, Plan, RangeInput, Scan, Vector, VectorKind};

pub(super) fn apply(plan: &mut Plan) {
    let mut scans = std::mem::take(&mut plan.scans);
    each_place(plan, &mut |place| {
        if let Place::Vector(vector) = place
            && let VectorKind::Join {
                op,
                matching,
                lhs,
                rhs,
                ..
            } = &mut vector.kind
            && matching.fill_left.is_none()
            && matching.fill_right.is_none()
            && *op != BinaryOp::Or
        {
            let from_left = joined(provided(lhs, &scans), matching);
            let from_right = match op {
                BinaryOp::Unless => Vec::new(),
                _ => joined(provided(rhs, &scans), matching),
            };
            from_left.iter().for_each(|m| restrict(rhs, m, &mut scans));
            from_right.iter().for_each(|m| restrict(lhs, m, &mut scans));
        }
    });
    plan.scans = scans;
}

/// The matchers on labels by which the sides are joined.
fn joined(matchers: Vec<Matcher>, matching: &VectorMatching) -> Vec<Matcher> {
    let is_joined = |name: &str| {
        name != METRIC_NAME && matching.on == matching.labels.iter().any(|label| label == name)
    };
    let mut matchers = matchers;
    matchers.retain(|m| is_joined(m.name()));
    matchers
}

/// Matchers that every row of a vector satisfies.
fn provided(vector: &Vector, scans: &[Scan]) -> Vec<Matcher> {
    let of_scan = |scan: usize| scans.get(scan).map_or(Vec::new(), |s| s.matchers.clone());
    match &vector.kind {
        VectorKind::Select { from, .. } => of_scan(from.scan),
        VectorKind::Window { input, .. } => match input {
            RangeInput::Scan(from) => of_scan(from.scan),
            RangeInput::Subquery(inner) => provided(inner, scans),
        },
        VectorKind::Map { input, .. }
        | VectorKind::WithScalar { vector: input, .. }
        | VectorKind::Negate(input)
        | VectorKind::Repeat(input) => provided(input, scans),
        VectorKind::Aggregate {
            op,
            grouping,
            input,
            ..
        } => {
            if *op == AggregateOp::CountValues {
                // Its own label may have taken the place of a selected one.
                return Vec::new();
            }
            let mut matchers = provided(input, scans);
            if !chooses(*op) {
                matchers.retain(|m| keeps(grouping, m.name()));
            }
            matchers
        }
        VectorKind::Rows { .. }
        | VectorKind::Join { .. }
        | VectorKind::FromScalar(_)
        | VectorKind::Info { .. }
        | VectorKind::Shared { .. } => Vec::new(),
    }
}

/// Lets a vector read only rows that satisfy a matcher, where that changes nothing but to leave out
/// the others.
fn restrict(vector: &mut Vector, matcher: &Matcher, scans: &mut Vec<Scan>) {
    let mut scan = |index: usize| {
        if let Some(scan) = scans.get_mut(index)
            && !scan.matchers.contains(matcher)
        {
            scan.matchers.push(matcher.clone());
        }
    };
    match &mut vector.kind {
        VectorKind::Select { from, .. } => scan(from.scan),
        VectorKind::Window { input, .. } => match input {
            RangeInput::Scan(from) => scan(from.scan),
            RangeInput::Subquery(inner) => restrict(inner, matcher, scans),
        },
        VectorKind::Map { input, .. }
        | VectorKind::WithScalar { vector: input, .. }
        | VectorKind::Negate(input)
        | VectorKind::Repeat(input) => restrict(input, matcher, scans),
        VectorKind::Aggregate {
            op,
            grouping,
            input,
            ..
        } => {
            let counts_values = *op == AggregateOp::CountValues;
            if keeps(grouping, matcher.name()) && !counts_values {
                restrict(input, matcher, scans);
            }
        }
        VectorKind::Rows { .. }
        | VectorKind::Join { .. }
        | VectorKind::FromScalar(_)
        | VectorKind::Info { .. }
        | VectorKind::Shared { .. } => {}
    }
}

/// Whether rows come out with all their labels.
fn chooses(op: AggregateOp) -> bool {
    matches!(
        op,
        AggregateOp::TopK | AggregateOp::BottomK | AggregateOp::LimitK | AggregateOp::LimitRatio
    )
}

/// Whether a label tells groups apart.
fn keeps(grouping: &Grouping, label: &str) -> bool {
    grouping.without != grouping.labels.iter().any(|name| name == label)
}
