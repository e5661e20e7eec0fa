//! Binary operators between two vectors: rows meet by their labels.
//!
//! ```text
//! "one" side ─ grouped by join labels ─┐
//! "many" side ─────────────────────────┴─► pairs ─► all steps of a pair at once
//! ```
//!
//! Prometheus matches step by step. Here whole rows are paired, and what it checks at each step
//! (no series matches twice) is checked for the steps at which both of two rows have a value.

mod arithmetic;
mod pair;
mod set;

use super::label_key::{KeyNumbers, LabelKey};
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
        let note = |note| context.annotations.add(*span, note);
        let join = arithmetic::Join {
            op: *op,
            return_bool: *return_bool,
            matching,
            keys: &keys,
            steps: node.grid.steps,
            removes_names: op.is_arithmetic() || (*return_bool && !delayed_names),
            note: &note,
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

/// Rows with the numbers of their join labels; equal labels, equal numbers.
struct Numbered {
    rows: Vec<Row>,
    numbers: Vec<usize>,
}

impl Numbered {
    fn new(rows: Vec<Row>, keys: &LabelKey, known: &mut KeyNumbers) -> Self {
        let mut key = Vec::new();
        let number = |row: &Row| {
            keys.write(&row.labels, &mut key);
            known.number(&key).0
        };
        let numbers = rows.iter().map(number).collect();
        Self { rows, numbers }
    }

    /// For each number below `count` the rows that have it, in order.
    fn by_number(&self, count: usize) -> Vec<Vec<usize>> {
        let mut places = vec![Vec::new(); count];
        for (place, number) in self.numbers.iter().enumerate() {
            places[*number].push(place);
        }
        places
    }
}
