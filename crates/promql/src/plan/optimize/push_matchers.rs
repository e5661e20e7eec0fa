//! A side of a join reads only what can match the other side.
//!
//! `a{host="x"} * on (host) b` reads `b{host="x"}`: rows of `b` with another host find no partner.
//!
//! Holds always:
//! - A matcher travels only where its label is a join label and passes unchanged from the selector to
//!   the join: not through functions that make labels (`label_replace`, `absent`, `count_values`, …),
//!   not to a side that `fill` or `or` keeps, not from the right side of `unless`.
//! - Narrowing only takes rows away. Where rows of one input keep out those of another (`unless`, `or`)
//!   the keeping side stays as it is, because what it kept out could come back.
//! - A query that fails goes on failing: a side is narrowed only where the rows left out cannot be what
//!   it fails by, be it for several partners or for names that are removed (`plan/distinct.rs`).
//!
//! One difference to evaluating everything remains: warnings and infos about rows that match nothing
//! are not given.

use icecore_model::{METRIC_NAME, Matcher};

use crate::parse::{AggregateOp, BinaryOp, Cardinality, VectorMatching};
use crate::plan::visit::each_join;
use crate::plan::{Grouping, Parameter, Plan, RangeInput, Scan, Vector, VectorKind};

/// Narrows scans and says by which matchers.
pub(super) fn apply(plan: &mut Plan) -> Option<String> {
    let mut narrowing = Narrowing {
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
            && narrowing.is_safe(*op, matching, lhs, rhs)
        {
            let from_left = joined(provided(lhs, &narrowing.scans), matching);
            let from_right = match op {
                BinaryOp::Unless => Vec::new(),
                _ => joined(provided(rhs, &narrowing.scans), matching),
            };
            from_left.iter().for_each(|m| narrowing.restrict(rhs, m));
            from_right.iter().for_each(|m| narrowing.restrict(lhs, m));
        }
    });
    let Narrowing { scans, pushed, .. } = narrowing;
    plan.scans = scans;
    (!pushed.is_empty()).then(|| {
        let pushed: Vec<String> = pushed.iter().map(Matcher::to_string).collect();
        format!("{} narrows the other side of a join", pushed.join(", "))
    })
}

fn fills(matching: &VectorMatching) -> bool {
    matching.fill_left.is_some() || matching.fill_right.is_some()
}

/// Whether rows meet only if they have the same value of a label.
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
            if !op.chooses() {
                matchers.retain(|m| keeps(grouping, m.name()));
            }
            // `count_values` writes a label, maybe over one of the group's.
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
            // Join labels are those of both sides. With grouping the "many" side keeps the others, too,
            // except where labels of the "one" side take their place.
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

/// Scans while they are narrowed.
struct Narrowing<'p> {
    plan: &'p Plan,
    scans: Vec<Scan>,
    pushed: Vec<Matcher>,
}

impl Narrowing<'_> {
    /// Whether a join cannot fail by rows without partners. It fails by several rows of the "one" side
    /// with the same join labels, at steps where the other side has any row.
    fn is_safe(&self, op: BinaryOp, matching: &VectorMatching, lhs: &Vector, rhs: &Vector) -> bool {
        let one = match matching.cardinality {
            Cardinality::OneToMany => lhs,
            _ => rhs,
        };
        op.is_set() || self.plan.is_distinct(one, matching)
    }

    /// Lets a vector read only rows that satisfy a matcher, where that changes nothing but to leave out
    /// the others.
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
                // Whole groups are left out, the others stay as they are.
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

/// Whether a label tells groups apart.
fn keeps(grouping: &Grouping, label: &str) -> bool {
    grouping.without != grouping.labels.iter().any(|name| name == label)
}
