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
use super::once::CountedRows;
use super::{Run, build, collect};
use crate::error::Result;
use crate::exec::{LabelMaker, Row, merge_steps};
use crate::parse::BinaryOp;
use crate::plan::{Vector, VectorKind};

/// The rows of a join.
pub(super) async fn rows<'q>(run: &'q Run<'q>, node: &'q Vector) -> Result<CountedRows> {
    let VectorKind::Join {
        op,
        return_bool,
        matching,
        lhs,
        rhs,
        span,
    } = &node.kind
    else {
        return CountedRows::none(run.context);
    };
    let context = run.context;
    let (lhs, held) = collect(context, &mut *build(run, lhs)).await?;
    let (rhs, _rhs_held) = collect(context, &mut *build(run, rhs)).await?;
    let keys = LabelKey::new(&matching.labels, !matching.on);
    let delayed_names = run.plan.delayed_names;
    let maker = LabelMaker::new(context)?;
    let rows = if op.is_set() {
        let rows = set::join(*op, &keys, lhs, rhs, &maker)?;
        // Both sides may have a series, at different steps.
        if *op == BinaryOp::Or && node.grid.steps > 1 {
            merge_steps(rows)?
        } else {
            rows
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
            maker: &maker,
        };
        let rows = join.rows(lhs, rhs)?;
        // Prometheus looks for equal series at each node of a range query, and of an instant query
        // unless names are removed at its end.
        if delayed_names && node.grid.steps == 1 {
            rows
        } else {
            merge_steps(rows)?
        }
    };
    drop(maker);
    CountedRows::new(rows, held)
}

/// Bytes of join labels besides their text: entries in the map, and in lists of rows.
const KEY_BYTES: usize = 100;

/// Rows with the ids of their join labels; equal labels have equal ids.
struct KeyedRows {
    rows: Vec<Row>,
    key_ids: Vec<usize>,
}

impl KeyedRows {
    fn new(
        rows: Vec<Row>,
        keys: &LabelKey,
        interner: &mut KeyInterner,
        maker: &LabelMaker<'_>,
    ) -> Result<Self> {
        let mut key = Vec::new();
        let mut key_ids = Vec::with_capacity(rows.len());
        for row in &rows {
            keys.write(&row.labels, &mut key);
            let (key_id, is_new) = interner.intern(&key);
            if is_new {
                maker.grow(KEY_BYTES + key.len())?;
            }
            key_ids.push(key_id);
        }
        Ok(Self { rows, key_ids })
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
