//! Which labels identify the rows of a vector.
//!
//! A join fails if several rows of a side have the same join labels. If the plan rules that out,
//! rows without a partner need not be read: they could not have made the query fail.

use icecore_model::METRIC_NAME;

use super::{Plan, RangeInput, Vector, VectorKind};
use crate::parse::{AggregateOp, BinaryOp, Cardinality, VectorMatching};

/// Labels, besides the metric name, that identify a row: no two rows have equal values of all of
/// them.
#[derive(Clone, Debug, PartialEq, Eq)]
enum UniqueKey {
    /// These, and rows have no other labels.
    Only(Vec<String>),
    /// All but these.
    AllBut(Vec<String>),
    Unknown,
}

impl Plan {
    /// Whether no two rows of a vector can have the same join labels.
    pub(super) fn is_distinct(&self, node: &Vector, matching: &VectorMatching) -> bool {
        let is_listed = |label: &String| matching.labels.contains(label);
        match (self.unique_key(node), matching.on) {
            (UniqueKey::Only(labels), true) => labels.iter().all(is_listed),
            (UniqueKey::Only(labels), false) => !labels.iter().any(is_listed),
            (UniqueKey::AllBut(labels), false) => {
                matching.labels.iter().all(|l| labels.contains(l))
            }
            (UniqueKey::AllBut(_), true) | (UniqueKey::Unknown, _) => false,
        }
    }

    /// Whether no two rows have the same labels without those that a join includes from the other
    /// side.
    fn is_distinct_without(&self, node: &Vector, included: &[String]) -> bool {
        match self.unique_key(node) {
            UniqueKey::Only(labels) => !labels.iter().any(|label| included.contains(label)),
            UniqueKey::AllBut(labels) => included.iter().all(|label| labels.contains(label)),
            UniqueKey::Unknown => false,
        }
    }

    /// Whether omitting input rows of a node can keep the query from failing at this node.
    pub(super) fn can_fail_by_rows(&self, node: &Vector) -> bool {
        if !self.delayed_names
            && let Some(removal) = self.removal(node)
            && removal.duplicates == super::Duplicates::Possible
        {
            return true;
        }
        match &node.kind {
            // Its factors are checked only if there is a sample.
            VectorKind::Window { call, .. } => call.function.name == "double_exponential_smoothing",
            VectorKind::Join {
                op,
                matching,
                lhs,
                rhs,
                ..
            } if !op.is_set() => !self.is_sound(matching, lhs, rhs),
            _ => false,
        }
    }

    /// Whether a join cannot fail, whatever the rows.
    fn is_sound(&self, matching: &VectorMatching, lhs: &Vector, rhs: &Vector) -> bool {
        let (many, one) = match matching.cardinality {
            Cardinality::OneToMany => (rhs, lhs),
            _ => (lhs, rhs),
        };
        let by_name = matching.on && matching.labels.iter().any(|label| label == METRIC_NAME);
        let many_is_distinct = match matching.cardinality {
            Cardinality::OneToOne => self.is_distinct(many, matching),
            _ => self.is_distinct_without(many, &matching.include),
        };
        !by_name && many_is_distinct && self.is_distinct(one, matching)
    }

    fn unique_key(&self, node: &Vector) -> UniqueKey {
        let key = match &node.kind {
            VectorKind::Select { .. } => self.unique_key_by_name(node),
            VectorKind::Window { input, .. } => match input {
                RangeInput::Scan(_) => self.unique_key_by_name(node),
                RangeInput::Subquery(inner) => self.unique_key(inner),
            },
            VectorKind::Map { input, .. }
            | VectorKind::WithScalar { vector: input, .. }
            | VectorKind::Negate(input)
            | VectorKind::Repeat(input) => self.unique_key(input),
            VectorKind::Shared { id, .. } => match self.shared.get(*id) {
                Some(shared) => self.unique_key(&shared.input),
                None => UniqueKey::Unknown,
            },
            VectorKind::Aggregate {
                op,
                grouping,
                input,
                ..
            } => match op {
                _ if op.selects_rows() => self.unique_key(input),
                AggregateOp::CountValues => UniqueKey::Unknown,
                _ if grouping.without => UniqueKey::AllBut(grouping.labels.clone()),
                _ => key_of_labels(&grouping.labels),
            },
            VectorKind::Join {
                op,
                matching,
                lhs,
                rhs,
                ..
            } => self.unique_key_of_join(*op, matching, lhs, rhs),
            VectorKind::FromScalar(_) => UniqueKey::Only(Vec::new()),
            VectorKind::Rows { .. } | VectorKind::Info { .. } => UniqueKey::Unknown,
        };
        // If names are removed at once, rows that differ in nothing else are an error.
        let removes = !self.delayed_names && self.removal(node).is_some();
        match key {
            UniqueKey::Unknown if removes => UniqueKey::AllBut(Vec::new()),
            key => key,
        }
    }

    fn unique_key_by_name(&self, node: &Vector) -> UniqueKey {
        if self.has_one_name(node) {
            UniqueKey::AllBut(Vec::new())
        } else {
            UniqueKey::Unknown
        }
    }

    fn unique_key_of_join(
        &self,
        op: BinaryOp,
        matching: &VectorMatching,
        lhs: &Vector,
        rhs: &Vector,
    ) -> UniqueKey {
        let (is_grouped, many) = match matching.cardinality {
            Cardinality::ManyToOne => (true, lhs),
            Cardinality::OneToMany => (true, rhs),
            Cardinality::OneToOne | Cardinality::ManyToMany => (false, lhs),
        };
        match op {
            BinaryOp::And | BinaryOp::Unless => self.unique_key(lhs),
            BinaryOp::Or => UniqueKey::Unknown,
            _ if is_grouped && matching.include.is_empty() => self.unique_key(many),
            _ if is_grouped => UniqueKey::Unknown,
            _ if matching.on => key_of_labels(&matching.labels),
            _ => UniqueKey::AllBut(matching.labels.clone()),
        }
    }
}

/// The key of rows that have only these labels; unknown if the metric name is among them.
fn key_of_labels(labels: &[String]) -> UniqueKey {
    if labels.iter().any(|label| label == METRIC_NAME) {
        UniqueKey::Unknown
    } else {
        UniqueKey::Only(labels.to_vec())
    }
}
