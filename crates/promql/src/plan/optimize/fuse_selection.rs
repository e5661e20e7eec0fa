//! `topk(k, …)` keeps only rows that may still be selected.

use crate::parse::AggregateOp;
use crate::plan::visit::{NodeMut, each_node};
use crate::plan::{Plan, VectorKind};

/// Marks the aggregations that may drop rows early, and names them.
pub(super) fn apply(plan: &mut Plan) -> Option<String> {
    let mut names: Vec<&str> = Vec::new();
    each_node(plan, &mut |node| {
        if let NodeMut::Vector(vector) = node
            && let VectorKind::Aggregate { op, fused, .. } = &mut vector.kind
        {
            *fused = matches!(op, AggregateOp::TopK | AggregateOp::BottomK);
            if *fused && !names.contains(&op.name()) {
                names.push(op.name());
            }
        }
    });
    (!names.is_empty()).then(|| format!("rows are dropped early by {}", names.join(" and ")))
}
