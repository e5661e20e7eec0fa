//! Operators: pull rows from their inputs and pass rows on, batch by batch.
//!
//! ```text
//! SeriesSource ─ scan ─► select, window ─► map, with_scalar ─► aggregate, join, rows ─► engine
//! ```
//!
//! Holds always:
//! - A row has a value slot for each step of its node's grid.
//! - Rows that are kept longer than a batch count towards the memory of the query, and so do those
//!   of operators that yield one batch, until the next call or until their consumer counts them.
//! - Cancellation and deadline are checked once per batch.

mod aggregate;
mod answer_labels;
pub(crate) mod info;
mod join;
mod label_key;
mod once;
mod profiled;
mod range_input;
mod range_samples;
mod remove_names;
mod repeat;
mod rolled_select;
mod rows;
mod scalar;
mod scan;
mod select;
mod shared;
mod window;
mod with_scalar;

use futures::future::BoxFuture;

use crate::error::Result;
use crate::exec::{Context, Reservation, Row};
use crate::plan::{Plan, Vector, VectorKind};

pub(crate) use answer_labels::{answer_order, drop_names};
pub(crate) use range_samples::range_samples;
pub(crate) use scalar::scalar;

use once::Once;

/// Rows in batches.
pub(crate) trait Operator: Send {
    /// The next rows, or `None` at the end. A batch may be empty.
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Vec<Row>>>>;

    /// Called by a consumer that keeps the last batch and counts its memory: the operator, which
    /// may have made large rows, counts them no longer.
    fn hand_over(&mut self) {}
}

/// A running plan.
pub(crate) struct Run<'q> {
    pub(crate) context: &'q Context<'q>,
    pub(crate) plan: &'q Plan,
    scans: Vec<scan::SharedScan>,
    shared: Vec<shared::SharedRows<'q>>,
}

impl<'q> Run<'q> {
    pub(crate) fn new(context: &'q Context<'q>, plan: &'q Plan) -> Self {
        Self {
            context,
            plan,
            scans: (plan.scans.iter())
                .map(|scan| scan::SharedScan::new(context, scan))
                .collect(),
            shared: plan.shared.iter().map(shared::SharedRows::new).collect(),
        }
    }
}

/// The operator of a node.
pub(crate) fn build<'q>(run: &'q Run<'q>, node: &'q Vector) -> Box<dyn Operator + 'q> {
    profiled::profiled(
        run,
        node,
        remove_names::with_removal(run, node, of_kind(run, node), true),
    )
}

/// The operator of a node whose consumer ignores metric names.
fn build_nameless<'q>(run: &'q Run<'q>, node: &'q Vector) -> Box<dyn Operator + 'q> {
    profiled::profiled(
        run,
        node,
        remove_names::with_removal(run, node, of_kind(run, node), false),
    )
}

fn of_kind<'q>(run: &'q Run<'q>, node: &'q Vector) -> Box<dyn Operator + 'q> {
    match &node.kind {
        VectorKind::Select { .. } => Box::new(select::Select::new(run, node)),
        VectorKind::Window { .. } => Box::new(window::Window::new(run, node)),
        VectorKind::Map { .. } => Box::new(rows::Map::new(run, node)),
        VectorKind::Rows { .. } => Box::new(Once::new(rows::vector_call(run, node))),
        VectorKind::Aggregate { .. } => Box::new(Once::new(aggregate::rows(run, node))),
        VectorKind::WithScalar { .. } => Box::new(with_scalar::WithScalar::new(run, node)),
        VectorKind::Join { .. } => Box::new(Once::new(join::rows(run, node))),
        VectorKind::Negate(input) => Box::new(with_scalar::Negate::new(build(run, input))),
        VectorKind::FromScalar(input) => Box::new(Once::new(scalar::vector_of(run, input))),
        VectorKind::Repeat(input) => {
            let input = build(run, input);
            Box::new(repeat::Repeat::new(run.context, input, node.grid))
        }
        VectorKind::Info { .. } => Box::new(Once::new(info::rows(run, node))),
        VectorKind::Shared { id, span } => Box::new(shared::SharedReader::new(run, *id, *span)),
    }
}

/// All rows of an operator.
pub(crate) async fn collect(
    context: &Context<'_>,
    operator: &mut (dyn Operator + '_),
) -> Result<(Vec<Row>, Reservation)> {
    let mut held = context.reserve(0)?;
    let mut all = Vec::new();
    while let Some(rows) = operator.next().await? {
        context.check()?;
        operator.hand_over();
        context.hold(&mut held, &rows)?;
        all.extend(rows);
    }
    Ok((all, held))
}
