//! Aggregations: rows are folded into groups as they arrive, or selected from them.
//!
//! ```text
//! row ─ group labels ─► group ─ fold, all steps at once ─► one row per group     sum, avg, …
//!                            └─ compare step by step ───► some rows, unchanged   topk, limitk, …
//! ```
//!
//! Holds always: rows are folded in the order in which they arrive, so sums are repeatable.

mod count_values;
mod fold;
mod groups;
mod histogram_sum;
mod parameter;
mod quantile;
mod selection;

use super::once::CountedRows;
use super::{Operator, Run, build, build_nameless, scalar};
use crate::error::Result;
use crate::exec::{Context, LabelMaker, Row, ScalarColumn};
use crate::parse::AggregateOp;
use crate::plan::{Parameter, Vector, VectorKind, is_blind_to_names};

use groups::Groups;

/// The rows of an aggregation.
pub(super) async fn rows<'q>(run: &'q Run<'q>, node: &'q Vector) -> Result<CountedRows> {
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
        return CountedRows::none(run.context);
    };
    let context = run.context;
    let steps = node.grid.steps;
    let annotations = &context.annotations;
    let annotate = |annotation| annotations.add(*input_span, annotation);
    let annotate_selection = |annotation| annotations.add(*span, annotation);
    let annotate_parameter = |annotation| annotations.add(*parameter_span, annotation);
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
    let mut accumulator: Box<dyn Accumulator> = match op {
        AggregateOp::TopK | AggregateOp::BottomK => {
            let Some(counts) = parameter::counts(&number, steps)? else {
                return drain(context, input).await;
            };
            let largest = *op == AggregateOp::TopK;
            Box::new(selection::TopK::new(
                groups,
                counts,
                largest,
                *fused,
                op.name(),
                &annotate_selection,
            ))
        }
        AggregateOp::LimitK => {
            let Some(counts) = parameter::counts(&number, steps)? else {
                return drain(context, input).await;
            };
            Box::new(selection::LimitK::new(groups, counts))
        }
        AggregateOp::LimitRatio => {
            let Some(ratios) = parameter::ratios(&number, steps, &annotate_parameter)? else {
                return drain(context, input).await;
            };
            Box::new(selection::LimitRatio::new(ratios))
        }
        AggregateOp::Quantile => {
            let quantiles = parameter::quantiles(number, steps, &annotate_parameter);
            Box::new(quantile::Quantile::new(groups, quantiles, &annotate))
        }
        AggregateOp::CountValues => Box::new(count_values::CountValues::new(
            groups,
            grouping,
            text,
            steps,
            LabelMaker::new(context)?,
        )),
        _ => {
            let delayed_names = run.plan.delayed_names;
            Box::new(fold::GroupFold::new(
                groups,
                *op,
                steps,
                delayed_names,
                &annotate,
            ))
        }
    };
    let mut held = context.reserve(0)?;
    while let Some(rows) = input.next().await? {
        context.check()?;
        for rows in in_parts(rows) {
            accumulator.add(rows)?;
            held.set(accumulator.heap_bytes())?;
        }
    }
    CountedRows::new(accumulator.finish(), held)
}

/// Bytes of rows that are folded before the memory of the groups is counted. Labels may become
/// those of a group, and its key; each value of `topk` an entry that is larger than the value.
const PART_BYTES: usize = 1 << 20;

/// The rows of a batch in parts that take little more than [`PART_BYTES`]: functions make labels of
/// any size, and some operators yield all rows in one batch.
fn in_parts(rows: Vec<Row>) -> impl Iterator<Item = Vec<Row>> {
    let all: usize = rows.iter().map(Row::heap_bytes).sum();
    let (whole, rest) = if all <= PART_BYTES {
        (Some(rows), Vec::new())
    } else {
        (None, rows)
    };
    let mut rest = rest.into_iter();
    let next = move || {
        let (mut part, mut bytes) = (Vec::new(), 0);
        while bytes <= PART_BYTES
            && let Some(row) = rest.next()
        {
            bytes += row.heap_bytes();
            part.push(row);
        }
        (!part.is_empty()).then_some(part)
    };
    whole.into_iter().chain(std::iter::from_fn(next))
}

/// Evaluates an input whose rows are not needed, for its errors and annotations.
async fn drain(context: &Context<'_>, mut input: Box<dyn Operator + '_>) -> Result<CountedRows> {
    while input.next().await?.is_some() {
        context.check()?;
    }
    CountedRows::none(context)
}

/// An aggregation in progress.
trait Accumulator: Send {
    fn add(&mut self, rows: Vec<Row>) -> Result<()>;
    fn finish(self: Box<Self>) -> Vec<Row>;
    /// Bytes held, approximately.
    fn heap_bytes(&self) -> usize;
}

/// Adds an annotation of an aggregation.
type Annotate<'a> = &'a (dyn Fn(crate::annotations::Annotation) + Sync);

#[cfg(test)]
mod tests {
    use icecore_model::Labels;

    use super::*;
    use crate::exec::Values;

    #[test]
    fn batches_are_folded_in_parts() {
        let row = |bytes: usize| Row {
            labels: Labels::from_pairs([("a", "x".repeat(bytes))]),
            drop_name: false,
            values: Values::absent(1),
        };
        let long_row = |_| Row {
            values: Values::absent(PART_BYTES / 16),
            ..row(1)
        };
        let sizes = |rows: &[usize]| -> Vec<usize> {
            let parts = in_parts(rows.iter().map(|bytes| row(*bytes)).collect());
            parts.map(|part| part.len()).collect()
        };
        assert_eq!(sizes(&[1; 1000]), [1000]);
        assert_eq!(sizes(&[PART_BYTES; 3]), [1, 1, 1]);
        assert_eq!(sizes(&[PART_BYTES / 4; 9]), [4, 4, 1]);
        assert_eq!(sizes(&[]).iter().sum::<usize>(), 0);
        let parts = in_parts((0..5).map(long_row).collect());
        assert_eq!(parts.map(|part| part.len()).collect::<Vec<_>>(), [2, 2, 1]);
    }
}
