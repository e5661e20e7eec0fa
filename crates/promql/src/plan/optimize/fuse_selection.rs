//! `topk(k, …)` keeps only the rows that may still be among the largest.

use crate::parse::AggregateOp;
use crate::plan::visit::{Place, each_place};
use crate::plan::{Plan, VectorKind};

pub(super) fn apply(plan: &mut Plan) {
    each_place(plan, &mut |place| {
        if let Place::Vector(vector) = place
            && let VectorKind::Aggregate { op, fused, .. } = &mut vector.kind
        {
            *fused = matches!(op, AggregateOp::TopK | AggregateOp::BottomK);
        }
    });
}
