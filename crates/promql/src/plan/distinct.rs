//! By which labels the rows of a vector are told apart.
//!
//! A join fails where several rows of a side have the same join labels. Where the plan shows that this
//! cannot be, rows that find no partner need not be read: they could not have made the query fail.

use icecore_model::METRIC_NAME;

use super::{Plan, RangeInput, Vector, VectorKind};
use crate::parse::{AggregateOp, BinaryOp, Cardinality, VectorMatching};

/// Labels, without the metric name, no two rows of a vector agree in all of.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Telling {
    /// These, and rows have no others.
    Only(Vec<String>),
    /// All but these.
    AllBut(Vec<String>),
    Unknown,
}

impl Plan {
    /// Whether no two rows of a vector can have the same join labels.
    pub(super) fn is_distinct(&self, node: &Vector, matching: &VectorMatching) -> bool {
        let is_listed = |label: &String| matching.labels.contains(label);
        match (self.telling(node), matching.on) {
            (Telling::Only(labels), true) => labels.iter().all(is_listed),
            (Telling::Only(labels), false) => !labels.iter().any(is_listed),
            (Telling::AllBut(labels), false) => matching.labels.iter().all(|l| labels.contains(l)),
            (Telling::AllBut(_), true) | (Telling::Unknown, _) => false,
        }
    }

    /// Whether no two rows have the same labels when those that a join takes from the other side are
    /// not looked at.
    fn is_distinct_without(&self, node: &Vector, included: &[String]) -> bool {
        match self.telling(node) {
            Telling::Only(labels) => !labels.iter().any(|label| included.contains(label)),
            Telling::AllBut(labels) => included.iter().all(|label| labels.contains(label)),
            Telling::Unknown => false,
        }
    }

    /// Whether leaving out rows below a node can keep the query from failing at this node.
    pub(super) fn can_fail_by_rows(&self, node: &Vector) -> bool {
        if !self.delayed_names
            && let Some(removal) = self.removal(node)
            && removal.meeting == super::Meeting::OfAny
        {
            return true;
        }
        match &node.kind {
            // Its factors are looked at when there is a sample.
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

    fn telling(&self, node: &Vector) -> Telling {
        let told = match &node.kind {
            VectorKind::Select { .. } => self.telling_by_name(node),
            VectorKind::Window { input, .. } => match input {
                RangeInput::Scan(_) => self.telling_by_name(node),
                RangeInput::Subquery(inner) => self.telling(inner),
            },
            VectorKind::Map { input, .. }
            | VectorKind::WithScalar { vector: input, .. }
            | VectorKind::Negate(input)
            | VectorKind::Repeat(input) => self.telling(input),
            VectorKind::Shared { id, .. } => match self.shared.get(*id) {
                Some(shared) => self.telling(&shared.input),
                None => Telling::Unknown,
            },
            VectorKind::Aggregate {
                op,
                grouping,
                input,
                ..
            } => match op {
                _ if op.chooses() => self.telling(input),
                AggregateOp::CountValues => Telling::Unknown,
                _ if grouping.without => Telling::AllBut(grouping.labels.clone()),
                _ => telling_labels(&grouping.labels),
            },
            VectorKind::Join {
                op,
                matching,
                lhs,
                rhs,
                ..
            } => self.telling_of_join(*op, matching, lhs, rhs),
            VectorKind::FromScalar(_) => Telling::Only(Vec::new()),
            VectorKind::Rows { .. } | VectorKind::Info { .. } => Telling::Unknown,
        };
        // Where names are removed at once, rows that agree in everything else are an error.
        let removes = !self.delayed_names && self.removal(node).is_some();
        match told {
            Telling::Unknown if removes => Telling::AllBut(Vec::new()),
            told => told,
        }
    }

    fn telling_by_name(&self, node: &Vector) -> Telling {
        if self.has_one_name(node) {
            Telling::AllBut(Vec::new())
        } else {
            Telling::Unknown
        }
    }

    fn telling_of_join(
        &self,
        op: BinaryOp,
        matching: &VectorMatching,
        lhs: &Vector,
        rhs: &Vector,
    ) -> Telling {
        let (is_grouped, many) = match matching.cardinality {
            Cardinality::ManyToOne => (true, lhs),
            Cardinality::OneToMany => (true, rhs),
            Cardinality::OneToOne | Cardinality::ManyToMany => (false, lhs),
        };
        match op {
            BinaryOp::And | BinaryOp::Unless => self.telling(lhs),
            BinaryOp::Or => Telling::Unknown,
            _ if is_grouped && matching.include.is_empty() => self.telling(many),
            _ if is_grouped => Telling::Unknown,
            _ if matching.on => telling_labels(&matching.labels),
            _ => Telling::AllBut(matching.labels.clone()),
        }
    }
}

/// Labels that are all that rows have, unless the metric name is among them.
fn telling_labels(labels: &[String]) -> Telling {
    if labels.iter().any(|label| label == METRIC_NAME) {
        Telling::Unknown
    } else {
        Telling::Only(labels.to_vec())
    }
}
