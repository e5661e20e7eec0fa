//! Aggregations: rows fold into groups as they arrive, or are chosen from them.
//!
//! ```text
//! row ─ group labels ─► group ─ fold, all steps at once ─► one row per group      sum, avg, …
//!                            └─ compare step by step ───► some rows as they are   topk, limitk, …
//! ```
//!
//! Holds always: rows are folded in the order in which they arrive, so sums are repeatable.

mod choose;
mod count_values;
mod fold;
mod groups;
mod histogram_sum;
mod parameter;
mod quantile;

use std::sync::Arc;

use super::{Operator, Run, build, build_nameless, scalar};
use crate::error::Result;
use crate::exec::{Context, Row, ScalarColumn};
use crate::parse::AggregateOp;
use crate::plan::{Parameter, Vector, VectorKind, is_blind_to_names};

use groups::Groups;

/// The rows of an aggregation.
pub(super) async fn rows<'q>(run: &'q Run<'q>, node: &'q Vector) -> Result<Vec<Row>> {
    let VectorKind::Aggregate {
        op,
        grouping,
        parameter,
        input,
        parameter_span,
        input_span,
        span,
        fused,
    } = &node.kind
    else {
        return Ok(Vec::new());
    };
    let context = run.context;
    let steps = node.grid.steps;
    let annotations = &context.annotations;
    let note = |note| annotations.add(*input_span, note);
    let choice_note = |note| annotations.add(*span, note);
    let parameter_note = |note| annotations.add(*parameter_span, note);
    let (number, text) = match parameter {
        Some(Parameter::Scalar(node)) => (scalar(run, node).await?, ""),
        Some(Parameter::Text(text)) => (ScalarColumn::Constant(f64::NAN), text.as_str()),
        None => (ScalarColumn::Constant(f64::NAN), ""),
    };
    let mut input = if is_blind_to_names(*op, grouping) {
        build_nameless(run, input)
    } else {
        build(run, input)
    };
    let groups = Groups::new(grouping);
    let mut fold: Box<dyn Fold> = match op {
        AggregateOp::TopK | AggregateOp::BottomK => {
            let Some(counts) = parameter::counts(&number, steps)? else {
                return only_failures(context, input).await;
            };
            let largest = *op == AggregateOp::TopK;
            Box::new(choose::Extremes::new(
                groups,
                counts,
                largest,
                *fused,
                op.name(),
                &choice_note,
            ))
        }
        AggregateOp::LimitK => {
            let Some(counts) = parameter::counts(&number, steps)? else {
                return only_failures(context, input).await;
            };
            Box::new(choose::First::new(groups, counts))
        }
        AggregateOp::LimitRatio => {
            let Some(ratios) = parameter::ratios(&number, steps, &parameter_note)? else {
                return only_failures(context, input).await;
            };
            Box::new(choose::Ratio::new(ratios))
        }
        AggregateOp::Quantile => {
            let quantiles = parameter::quantiles(number, steps, &parameter_note);
            Box::new(quantile::Quantile::new(groups, quantiles, &note))
        }
        AggregateOp::CountValues => Box::new(count_values::CountValues::new(
            groups,
            grouping,
            text,
            steps,
            Arc::clone(&context.memory),
        )),
        _ => {
            let delayed_names = run.plan.delayed_names;
            Box::new(fold::Folds::new(groups, *op, steps, delayed_names, &note))
        }
    };
    let mut held = context.reserve(0)?;
    while let Some(rows) = input.next().await? {
        context.check()?;
        let before = fold.heap_bytes();
        fold.add(rows)?;
        let after = fold.heap_bytes();
        context.grow(&mut held, after.saturating_sub(before))?;
    }
    Ok(fold.finish())
}

/// Evaluates an input whose rows nobody wants: what is wrong with it must be said all the same.
async fn only_failures(
    context: &Context<'_>,
    mut input: Box<dyn Operator + '_>,
) -> Result<Vec<Row>> {
    while input.next().await?.is_some() {
        context.check()?;
    }
    Ok(Vec::new())
}

/// An aggregation in progress.
trait Fold: Send {
    fn add(&mut self, rows: Vec<Row>) -> Result<()>;
    fn finish(self: Box<Self>) -> Vec<Row>;
    /// Bytes held, about.
    fn heap_bytes(&self) -> usize;
}

/// Takes what should be said about an aggregation.
type Say<'a> = &'a (dyn Fn(crate::annotations::Note) + Sync);
