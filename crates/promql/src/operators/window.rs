//! Functions over range vectors.

use futures::future::BoxFuture;

use super::range_input::RangeReader;
use super::scalar::arguments;
use super::{Operator, Run};
use crate::error::Result;
use crate::exec::Row;
use crate::functions::CallContext;
use crate::functions::window::{RangeSeries, WindowEvaluator};
use crate::plan::{RangeInput, Vector, VectorKind};

pub(super) struct Window<'q> {
    run: &'q Run<'q>,
    node: &'q Vector,
    /// Created with the first batch.
    started: Option<(WindowEvaluator<'q>, RangeReader<'q>)>,
}

impl<'q> Window<'q> {
    pub(super) fn new(run: &'q Run<'q>, node: &'q Vector) -> Self {
        Self {
            run,
            node,
            started: None,
        }
    }

    async fn start(
        run: &'q Run<'q>,
        node: &'q Vector,
    ) -> Result<(WindowEvaluator<'q>, RangeReader<'q>)> {
        let VectorKind::Window {
            call,
            args,
            function,
            series_arg,
            input,
            windows,
        } = &node.kind
        else {
            unreachable!("built for functions over windows only");
        };
        let context = CallContext {
            grid: node.grid,
            is_range_query: run.plan.is_range,
            delayed_names: run.plan.delayed_names,
            call,
            args: arguments(run, args).await?.into(),
            annotations: &run.context.annotations,
        };
        let evaluator =
            WindowEvaluator::new(function, context, *windows, *series_arg).of_query(run.context);
        Ok((evaluator, RangeReader::new(run, input, windows)))
    }

    async fn rows(&mut self) -> Result<Option<Vec<Row>>> {
        if self.started.is_none() {
            self.started = Some(Self::start(self.run, self.node).await?);
        }
        let Some((evaluator, reader)) = &mut self.started else {
            return Ok(None);
        };
        let evaluator = &*evaluator;
        let make = |series: RangeSeries| match evaluator.evaluate(&series) {
            Ok(values) if values.is_empty() => None,
            Ok(values) => Some(Ok(Row {
                drop_name: series.drop_name || !evaluator.keeps_name(),
                labels: series.labels,
                values,
            })),
            Err(error) => Some(Err(error)),
        };
        let rows = reader.next(self.node.grid.steps, make).await?;
        // Evaluations stop early when the query is over; this returns the error.
        self.run.context.check()?;
        match rows {
            Some(rows) => Ok(Some(rows.into_iter().collect::<Result<Vec<Row>>>()?)),
            None => {
                let of_subquery = matches!(
                    &self.node.kind,
                    VectorKind::Window {
                        input: RangeInput::Subquery(_),
                        ..
                    }
                );
                let counts = || {
                    let mut counts = evaluator.sample_counts();
                    if of_subquery {
                        // Its reads were counted by its own selectors.
                        counts.read.fill(0);
                    }
                    counts
                };
                self.run.context.touch(self.node.grid, counts);
                Ok(None)
            }
        }
    }
}

impl Operator for Window<'_> {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Vec<Row>>>> {
        Box::pin(self.rows())
    }
}
