//! Vectors that are the same at every step, evaluated once.

use futures::future::BoxFuture;

use super::Operator;
use crate::error::Result;
use crate::exec::{Context, Grid, Row, Values};

pub(super) struct Repeat<'q> {
    context: &'q Context<'q>,
    input: Box<dyn Operator + 'q>,
    grid: Grid,
}

impl<'q> Repeat<'q> {
    pub(super) fn new(context: &'q Context<'q>, input: Box<dyn Operator + 'q>, grid: Grid) -> Self {
        Self {
            context,
            input,
            grid,
        }
    }
}

impl Operator for Repeat<'_> {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Vec<Row>>>> {
        Box::pin(async {
            let Some(mut rows) = self.input.next().await? else {
                return Ok(None);
            };
            let _made = self.context.reserve_rows(rows.len(), self.grid.steps)?;
            for row in &mut rows {
                row.values = repeated(&row.values, self.grid.steps);
            }
            Ok(Some(rows))
        })
    }

    fn hand_over(&mut self) {
        self.input.hand_over();
    }
}

fn repeated(values: &Values, steps: usize) -> Values {
    Values {
        floats: values
            .floats
            .first()
            .map_or(Vec::new(), |v| vec![*v; steps]),
        histograms: match values.histogram(0) {
            Some(histogram) => vec![Some(histogram.clone()); steps],
            None => Vec::new(),
        },
    }
}
