//! Scalar expressions: one float per step.

use futures::future::BoxFuture;

use super::once::CountedRows;
use super::{Run, build, collect};
use crate::arithmetic::{extreme, scalar_op};
use crate::error::Result;
use crate::exec::{Row, ScalarColumn, Values};
use crate::functions::{Argument, scalar_of};
use crate::plan::{Arg, Scalar, ScalarKind};
use icecore_model::Labels;

/// The values of a scalar expression.
pub(crate) fn scalar<'q>(
    run: &'q Run<'q>,
    node: &'q Scalar,
) -> BoxFuture<'q, Result<ScalarColumn>> {
    Box::pin(async move {
        let steps = match &node.kind {
            ScalarKind::Constant(_) => 0,
            _ => node.grid.steps,
        };
        let _made = run.context.reserve_rows(1, steps)?;
        Ok(match &node.kind {
            ScalarKind::Constant(value) => ScalarColumn::Constant(*value),
            ScalarKind::Time => {
                let seconds = node.grid.times().map(|time| time as f64 / 1000.0);
                ScalarColumn::PerStep(seconds.collect())
            }
            ScalarKind::Negate(inner) => match scalar(run, inner).await? {
                ScalarColumn::Constant(value) => ScalarColumn::Constant(-value),
                ScalarColumn::PerStep(values) => {
                    ScalarColumn::PerStep(values.into_iter().map(|v| -v).collect())
                }
            },
            ScalarKind::Binary { op, lhs, rhs } => {
                let (lhs, rhs) = (scalar(run, lhs).await?, scalar(run, rhs).await?);
                let values = (0..node.grid.steps).map(|i| scalar_op(*op, lhs.at(i), rhs.at(i)));
                ScalarColumn::PerStep(values.collect())
            }
            ScalarKind::Extreme { largest, of } => {
                let mut columns = Vec::with_capacity(of.len());
                for inner in of {
                    columns.push(scalar(run, inner).await?);
                }
                let value = |step| extreme(*largest, columns.iter().map(|c| c.at(step)));
                ScalarColumn::PerStep((0..node.grid.steps).map(value).collect())
            }
            ScalarKind::FromVector(inner) => {
                let mut input = build(run, inner);
                let (rows, _held) = collect(run.context, &mut *input).await?;
                ScalarColumn::PerStep(scalar_of(&rows, node.grid.steps))
            }
        })
    })
}

/// The arguments of a call, evaluated.
pub(super) async fn arguments<'q>(run: &'q Run<'q>, args: &'q [Arg]) -> Result<Vec<Argument>> {
    let mut evaluated = Vec::with_capacity(args.len());
    for arg in args {
        evaluated.push(match arg {
            Arg::Series => Argument::Series,
            Arg::Scalar(node) => Argument::Scalar(scalar(run, node).await?),
            Arg::Text(text) => Argument::Text(text.clone()),
        });
    }
    Ok(evaluated)
}

/// `vector(s)`: one row without labels.
pub(super) async fn vector_of<'q>(run: &'q Run<'q>, node: &'q Scalar) -> Result<CountedRows> {
    let column = scalar(run, node).await?;
    let held = run.context.reserve_rows(1, node.grid.steps)?;
    let floats = (0..node.grid.steps).map(|step| column.at(step));
    let row = Row {
        labels: Labels::empty(),
        drop_name: false,
        values: Values {
            floats: floats.collect(),
            histograms: Vec::new(),
        },
    };
    CountedRows::new(vec![row], held)
}
