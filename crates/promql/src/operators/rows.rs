//! Functions over instant vectors, row by row or over all rows.

use std::sync::Arc;

use futures::future::BoxFuture;

use super::once::CountedRows;
use super::scalar::arguments;
use super::scan::map_rows;
use super::{Operator, Run, build, collect};
use crate::error::Result;
use crate::exec::{LabelMaker, Row};
use crate::functions::{Argument, CallContext, MapFunction};
use crate::parse::Call;
use crate::plan::{Arg, Vector, VectorKind};

/// A function over each row.
pub(super) struct Map<'q> {
    run: &'q Run<'q>,
    node: &'q Vector,
    call: &'q Call,
    args: &'q [Arg],
    function: MapFunction,
    input: Box<dyn Operator + 'q>,
    evaluated: Option<Arc<[Argument]>>,
}

impl<'q> Map<'q> {
    pub(super) fn new(run: &'q Run<'q>, node: &'q Vector) -> Self {
        let VectorKind::Map {
            call,
            args,
            function,
            input,
        } = &node.kind
        else {
            unreachable!("built for functions over rows only");
        };
        Self {
            run,
            node,
            call,
            args,
            function: *function,
            input: build(run, input),
            evaluated: None,
        }
    }
}

impl Operator for Map<'_> {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Vec<Row>>>> {
        Box::pin(async {
            if self.evaluated.is_none() {
                self.evaluated = Some(arguments(self.run, self.args).await?.into());
            }
            let Some(rows) = self.input.next().await? else {
                return Ok(None);
            };
            let context = CallContext {
                grid: self.node.grid,
                is_range_query: self.run.plan.is_range && self.node.grid == self.run.plan.grid,
                delayed_names: self.run.plan.delayed_names,
                call: self.call,
                args: self.evaluated.clone().unwrap_or_default(),
                annotations: &self.run.context.annotations,
            };
            let function = self.function;
            let rows = map_rows(rows, |row| {
                let row = function(&context, row);
                (!row.values.is_empty()).then_some(row)
            });
            Ok(Some(rows))
        })
    }

    fn hand_over(&mut self) {
        self.input.hand_over();
    }
}

/// The rows of a function over all rows.
pub(super) async fn vector_call<'q>(run: &'q Run<'q>, node: &'q Vector) -> Result<CountedRows> {
    let VectorKind::Rows {
        call,
        args,
        function,
        input,
        spans_time,
    } = &node.kind
    else {
        return CountedRows::none(run.context);
    };
    let args = arguments(run, args).await?;
    let (rows, held) = collect(run.context, &mut *build(run, input)).await?;
    let labels = LabelMaker::new(run.context)?;
    let context = CallContext {
        grid: node.grid,
        is_range_query: *spans_time,
        delayed_names: run.plan.delayed_names,
        call,
        args: args.into(),
        annotations: &run.context.annotations,
    };
    let rows = function(&context, &labels, rows)?;
    drop(labels);
    CountedRows::new(rows, held)
}
