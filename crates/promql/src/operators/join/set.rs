//! `and`, `or`, `unless`: keep the steps of a row at which its partners have a value, or have none.

use super::super::label_key::{KeyInterner, LabelKey};
use super::KeyedRows;
use crate::error::Result;
use crate::exec::{ABSENT, LabelMaker, Row, Values};
use crate::parse::BinaryOp;

pub(super) fn join(
    op: BinaryOp,
    keys: &LabelKey,
    lhs: Vec<Row>,
    rhs: Vec<Row>,
    maker: &LabelMaker<'_>,
) -> Result<Vec<Row>> {
    let mut interner = KeyInterner::default();
    let lhs = KeyedRows::new(lhs, keys, &mut interner, maker)?;
    let rhs = KeyedRows::new(rhs, keys, &mut interner, maker)?;
    let rows = match op {
        BinaryOp::Or => {
            let present = presence(&lhs);
            let mut rows = lhs.rows;
            rows.extend(filtered(rhs, &present, false));
            rows
        }
        BinaryOp::Unless => filtered(lhs, &presence(&rhs), false),
        _ => filtered(lhs, &presence(&rhs), true),
    };
    Ok(rows)
}

/// For each key id whether any of its rows has a value, step by step; empty without rows.
fn presence(rows: &KeyedRows) -> Vec<Vec<bool>> {
    let mut present: Vec<Vec<bool>> = Vec::new();
    for (row, key_id) in rows.rows.iter().zip(&rows.key_ids) {
        if present.len() <= *key_id {
            present.resize(*key_id + 1, Vec::new());
        }
        let steps = &mut present[*key_id];
        steps.resize(row.values.floats.len(), false);
        for (step, is_present) in steps.iter_mut().enumerate() {
            *is_present |= row.values.is_present(step);
        }
    }
    present
}

/// Keeps of each row the steps at which partners are present, or absent.
fn filtered(rows: KeyedRows, present: &[Vec<bool>], wanted: bool) -> Vec<Row> {
    let mut kept = Vec::with_capacity(rows.rows.len());
    for (mut row, key_id) in rows.rows.into_iter().zip(rows.key_ids) {
        match present.get(key_id).filter(|steps| !steps.is_empty()) {
            None if wanted => continue,
            None => {}
            Some(steps) => {
                mask(&mut row.values, |step| steps[step] == wanted);
                if row.values.is_empty() {
                    continue;
                }
            }
        }
        kept.push(row);
    }
    kept
}

fn mask(values: &mut Values, keep: impl Fn(usize) -> bool) {
    for (step, value) in values.floats.iter_mut().enumerate() {
        if !keep(step) {
            *value = ABSENT;
        }
    }
    for (step, histogram) in values.histograms.iter_mut().enumerate() {
        if !keep(step) {
            *histogram = None;
        }
    }
}
