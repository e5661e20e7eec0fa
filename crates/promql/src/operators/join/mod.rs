//! Binary operators between two vectors: rows are matched by labels.
//!
//! ```text
//! "one" side ─ grouped by join labels ─┐
//! "many" side ─────────────────────────┴─► pairs ─► all steps of a pair at once
//! ```
//!
//! Prometheus matches step by step. Here whole rows are paired, and its check at each step (no
//! series matches twice) is done for the steps at which both of two rows have a value.

mod arithmetic;
mod pair;
mod set;

use super::label_key::{KeyInterner, LabelKey};
use super::{Run, build, collect};
use crate::error::Result;
use crate::exec::{Row, merge_steps};
use crate::parse::BinaryOp;
use crate::plan::{Vector, VectorKind};

/// The rows of a join.
pub(super) async fn rows<'q>(run: &'q Run<'q>, node: &'q Vector) -> Result<Vec<Row>> {
    let VectorKind::Join {
        op,
        return_bool,
        matching,
        lhs,
        rhs,
        span,
    } = &node.kind
    else {
        return Ok(Vec::new());
    };
    let context = run.context;
    let (lhs, _lhs_held) = collect(context, &mut *build(run, lhs)).await?;
    let (rhs, _rhs_held) = collect(context, &mut *build(run, rhs)).await?;
    let keys = LabelKey::new(&matching.labels, !matching.on);
    let delayed_names = run.plan.delayed_names;
    if op.is_set() {
        let rows = set::join(*op, &keys, lhs, rhs);
        // Both sides may have a series, at different steps.
        if *op == BinaryOp::Or && node.grid.steps > 1 {
            merge_steps(rows)
        } else {
            Ok(rows)
        }
    } else {
        let annotate = |annotation| context.annotations.add(*span, annotation);
        let join = arithmetic::Join {
            op: *op,
            return_bool: *return_bool,
            matching,
            keys: &keys,
            steps: node.grid.steps,
            removes_names: op.is_arithmetic() || (*return_bool && !delayed_names),
            annotate: &annotate,
        };
        let rows = join.rows(lhs, rhs)?;
        // Prometheus looks for equal series at each node of a range query, and of an instant query
        // unless names are removed at its end.
        if delayed_names && node.grid.steps == 1 {
            Ok(rows)
        } else {
            merge_steps(rows)
        }
    }
}

/// Rows with the ids of their join labels; equal labels have equal ids.
struct KeyedRows {
    rows: Vec<Row>,
    key_ids: Vec<usize>,
}

impl KeyedRows {
    fn new(rows: Vec<Row>, keys: &LabelKey, interner: &mut KeyInterner) -> Self {
        let mut key = Vec::new();
        let key_id = |row: &Row| {
            keys.write(&row.labels, &mut key);
            interner.intern(&key).0
        };
        let key_ids = rows.iter().map(key_id).collect();
        Self { rows, key_ids }
    }

    /// For each key id below `count` its rows, in order.
    fn by_key(&self, count: usize) -> Vec<Vec<usize>> {
        let mut indexes = vec![Vec::new(); count];
        for (index, key_id) in self.key_ids.iter().enumerate() {
            indexes[*key_id].push(index);
        }
        indexes
    }
}
