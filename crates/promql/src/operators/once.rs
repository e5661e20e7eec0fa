//! Operators that need all rows of their inputs before they yield any: one batch.

use futures::future::BoxFuture;

use super::Operator;
use crate::error::Result;
use crate::exec::Row;

/// Yields the rows of a computation in one batch.
pub(super) struct Once<'q>(Option<BoxFuture<'q, Result<Vec<Row>>>>);

impl<'q> Once<'q> {
    pub(super) fn new(rows: impl Future<Output = Result<Vec<Row>>> + Send + 'q) -> Self {
        Self(Some(Box::pin(rows)))
    }
}

impl Operator for Once<'_> {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Vec<Row>>>> {
        Box::pin(async {
            match self.0.take() {
                Some(rows) => Ok(Some(rows.await?)),
                None => Ok(None),
            }
        })
    }
}
