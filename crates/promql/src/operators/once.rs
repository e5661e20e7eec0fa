//! Operators that need all rows of their inputs before they yield any: one batch.

use futures::future::BoxFuture;

use super::Operator;
use crate::error::Result;
use crate::exec::{Context, Reservation, Row};

/// All rows of an operator, and their memory.
pub(super) struct CountedRows {
    pub(super) rows: Vec<Row>,
    pub(super) held: Reservation,
}

impl CountedRows {
    /// Counts rows with a reservation that was for them, or for what they were made of.
    pub(super) fn new(rows: Vec<Row>, mut held: Reservation) -> Result<Self> {
        held.set(rows.iter().map(Row::heap_bytes).sum())?;
        Ok(Self { rows, held })
    }

    pub(super) fn none(context: &Context<'_>) -> Result<Self> {
        Self::new(Vec::new(), context.reserve(0)?)
    }
}

/// Yields the rows of a computation in one batch.
pub(super) struct Once<'q> {
    rows: Option<BoxFuture<'q, Result<CountedRows>>>,
    /// Memory of the batch while its consumer works on it.
    held: Option<Reservation>,
}

impl<'q> Once<'q> {
    pub(super) fn new(rows: impl Future<Output = Result<CountedRows>> + Send + 'q) -> Self {
        Self {
            rows: Some(Box::pin(rows)),
            held: None,
        }
    }
}

impl Operator for Once<'_> {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Vec<Row>>>> {
        Box::pin(async {
            self.held = None;
            match self.rows.take() {
                Some(rows) => {
                    let CountedRows { rows, held } = rows.await?;
                    self.held = Some(held);
                    Ok(Some(rows))
                }
                None => Ok(None),
            }
        })
    }

    fn hand_over(&mut self) {
        self.held = None;
    }
}
