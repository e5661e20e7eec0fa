//! `and`, `or`, `unless`: which steps of a row stay depends on whether its partners have a value.

use super::super::label_key::{KeyNumbers, LabelKey};
use super::Numbered;
use crate::exec::{ABSENT, Row, Values};
use crate::parse::BinaryOp;

pub(super) fn join(op: BinaryOp, keys: &LabelKey, lhs: Vec<Row>, rhs: Vec<Row>) -> Vec<Row> {
    let mut known = KeyNumbers::default();
    let lhs = Numbered::new(lhs, keys, &mut known);
    let rhs = Numbered::new(rhs, keys, &mut known);
    match op {
        BinaryOp::Or => {
            let present = presence(&lhs);
            let mut rows = lhs.rows;
            rows.extend(filtered(rhs, &present, false));
            rows
        }
        BinaryOp::Unless => filtered(lhs, &presence(&rhs), false),
        _ => filtered(lhs, &presence(&rhs), true),
    }
}

/// For each number whether any of its rows has a value, step by step; empty where there is no row.
fn presence(rows: &Numbered) -> Vec<Vec<bool>> {
    let mut present: Vec<Vec<bool>> = Vec::new();
    for (row, number) in rows.rows.iter().zip(&rows.numbers) {
        if present.len() <= *number {
            present.resize(*number + 1, Vec::new());
        }
        let steps = &mut present[*number];
        steps.resize(row.values.floats.len(), false);
        for (step, is_present) in steps.iter_mut().enumerate() {
            *is_present |= row.values.is_present(step);
        }
    }
    present
}

/// Leaves of each row the steps at which partners are present, or absent.
fn filtered(rows: Numbered, present: &[Vec<bool>], wanted: bool) -> Vec<Row> {
    let mut kept = Vec::with_capacity(rows.rows.len());
    for (mut row, number) in rows.rows.into_iter().zip(rows.numbers) {
        match present.get(number).filter(|steps| !steps.is_empty()) {
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
