//! A side of a join reads only rows that can match the other side.
//!
//! `a{host="x"} * on (host) b` reads `b{host="x"}`: rows of `b` with another host find no partner.
//!
//! Holds always:
//! - A matcher is pushed only if its label is a join label and passes unchanged from the selector
//!   to the join: not through functions that set labels (`label_replace`, `absent`, `count_values`,
//!   …), not to a side that `fill` or `or` keeps, not from the right side of `unless`.
//! - Pushdown only removes rows. Where rows of one input suppress those of another (`unless`, `or`)
//!   the suppressing side is not narrowed, because suppressed rows could come back.
//! - A query that fails still fails: a side is narrowed only if the omitted rows cannot cause the
//!   failure, by several partners or by duplicates after names are removed (`plan/distinct.rs`).
//!
//! One difference to evaluating everything remains: no warnings and infos about rows that match
//! nothing.

use icecore_model::{METRIC_NAME, Matcher};

use crate::parse::{AggregateOp, BinaryOp, Cardinality, VectorMatching};
use crate::plan::visit::each_join;
use crate::plan::{Grouping, Parameter, Plan, RangeInput, Scan, Vector, VectorKind};

/// Pushes matchers to scans and reports which.
pub(super) fn apply(plan: &mut Plan) -> Option<String> {
    let mut pushdown = Pushdown {
        scans: plan.scans.clone(),
        pushed: Vec::new(),
        plan: &*plan,
    };
    each_join(plan, &mut |vector| {
        if let VectorKind::Join {
            op,
            matching,
            lhs,
            rhs,
            ..
        } = &vector.kind
            && !fills(matching)
            && *op != BinaryOp::Or
            && pushdown.is_safe(*op, matching, lhs, rhs)
        {
            let from_left = joined(provided(lhs, &pushdown.scans), matching);
            let from_right = match op {
                BinaryOp::Unless => Vec::new(),
                _ => joined(provided(rhs, &pushdown.scans), matching),
            };
            from_left.iter().for_each(|m| pushdown.restrict(rhs, m));
            from_right.iter().for_each(|m| pushdown.restrict(lhs, m));
        }
    });
    let Pushdown { scans, pushed, .. } = pushdown;
    plan.scans = scans;
    (!pushed.is_empty()).then(|| {
        let pushed: Vec<String> = pushed.iter().map(Matcher::to_string).collect();
        format!("{} pushed to the other side of a join", pushed.join(", "))
    })
}

fn fills(matching: &VectorMatching) -> bool {
    matching.fill_left.is_some() || matching.fill_right.is_some()
}

/// Whether rows match only if they have the same value of a label.
fn is_joined(label: &str, matching: &VectorMatching) -> bool {
    label != METRIC_NAME && matching.on == matching.labels.iter().any(|name| name == label)
}

/// The matchers on labels by which the sides are joined.
fn joined(mut matchers: Vec<Matcher>, matching: &VectorMatching) -> Vec<Matcher> {
    matchers.retain(|m| is_joined(m.name(), matching));
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
            parameter,
            input,
            ..
        } => {
            let mut matchers = provided(input, scans);
            if !op.selects_rows() {
                matchers.retain(|m| keeps(grouping, m.name()));
            }
            // `count_values` sets a label, which may replace one of the group.
            if let Some(Parameter::Text(label)) = parameter {
                matchers.retain(|m| m.name() != label);
            }
            matchers
        }
        VectorKind::Join {
            op,
            matching,
            lhs,
            rhs,
            ..
        } => provided_by_join(*op, matching, lhs, rhs, scans),
        VectorKind::Rows { .. }
        | VectorKind::FromScalar(_)
        | VectorKind::Info { .. }
        | VectorKind::Shared { .. } => Vec::new(),
    }
}

fn provided_by_join(
    op: BinaryOp,
    matching: &VectorMatching,
    lhs: &Vector,
    rhs: &Vector,
    scans: &[Scan],
) -> Vec<Matcher> {
    match op {
        _ if fills(matching) => Vec::new(),
        BinaryOp::Or => Vec::new(),
        BinaryOp::And | BinaryOp::Unless => provided(lhs, scans),
        _ => {
            // Join labels are those of both sides. With a group modifier the "many" side keeps the
            // others, too, except those replaced by labels of the "one" side.
            let (lhs, rhs) = (provided(lhs, scans), provided(rhs, scans));
            let many = match matching.cardinality {
                Cardinality::ManyToOne => lhs.clone(),
                Cardinality::OneToMany => rhs.clone(),
                Cardinality::OneToOne | Cardinality::ManyToMany => Vec::new(),
            };
            let is_included = |m: &Matcher| matching.include.iter().any(|name| name == m.name());
            let others = many.into_iter().filter(|m| !is_included(m));
            let mut matchers = joined(lhs, matching);
            matchers.extend(joined(rhs, matching));
            matchers.extend(others);
            matchers
        }
    }
}

/// Scans while matchers are pushed.
struct Pushdown<'p> {
    plan: &'p Plan,
    scans: Vec<Scan>,
    pushed: Vec<Matcher>,
}

impl Pushdown<'_> {
    /// Whether rows without partners cannot make a join fail. It fails for several rows of the
    /// "one" side with the same join labels, at steps where the other side has any row.
    fn is_safe(&self, op: BinaryOp, matching: &VectorMatching, lhs: &Vector, rhs: &Vector) -> bool {
        let one = match matching.cardinality {
            Cardinality::OneToMany => lhs,
            _ => rhs,
        };
        op.is_set() || self.plan.is_distinct(one, matching)
    }

    /// Makes a vector read only rows that satisfy a matcher, if that has no effect but to omit the
    /// others.
    fn restrict(&mut self, vector: &Vector, matcher: &Matcher) {
        if self.plan.can_fail_by_rows(vector) {
            return;
        }
        let label = matcher.name();
        match &vector.kind {
            VectorKind::Select { from, .. } => self.restrict_scan(from.scan, matcher),
            VectorKind::Window { input, .. } => match input {
                RangeInput::Scan(from) => self.restrict_scan(from.scan, matcher),
                RangeInput::Subquery(inner) => self.restrict(inner, matcher),
            },
            VectorKind::Map { input, .. }
            | VectorKind::WithScalar { vector: input, .. }
            | VectorKind::Negate(input)
            | VectorKind::Repeat(input) => self.restrict(input, matcher),
            VectorKind::Aggregate {
                op,
                grouping,
                input,
                ..
            } => {
                // Whole groups are omitted, the others are unchanged.
                if keeps(grouping, label) && *op != AggregateOp::CountValues {
                    self.restrict(input, matcher);
                }
            }
            VectorKind::Join {
                op,
                matching,
                lhs,
                rhs,
                ..
            } => {
                let joins = is_joined(label, matching);
                let [left, right] = match (op, matching.cardinality) {
                    _ if fills(matching) => [false, false],
                    (BinaryOp::Or, _) => [false, false],
                    (BinaryOp::Unless, _) => [true, false],
                    (BinaryOp::And, _) => [true, joins],
                    _ if matching.include.iter().any(|name| name == label) => [false, false],
                    (_, Cardinality::ManyToOne) => [true, joins],
                    (_, Cardinality::OneToMany) => [joins, true],
                    _ => [joins, joins],
                };
                if left {
                    self.restrict(lhs, matcher);
                }
                if right {
                    self.restrict(rhs, matcher);
                }
            }
            VectorKind::Rows { .. }
            | VectorKind::FromScalar(_)
            | VectorKind::Info { .. }
            | VectorKind::Shared { .. } => {}
        }
    }

    fn restrict_scan(&mut self, scan: usize, matcher: &Matcher) {
        let Some(scan) = self.scans.get_mut(scan) else {
            return;
        };
        if scan.matchers.contains(matcher) {
            return;
        }
        scan.matchers.push(matcher.clone());
        if !self.pushed.contains(matcher) {
            self.pushed.push(matcher.clone());
        }
    }
}

/// Whether a label distinguishes groups.
fn keeps(grouping: &Grouping, label: &str) -> bool {
    grouping.without != grouping.labels.iter().any(|name| name == label)
}
