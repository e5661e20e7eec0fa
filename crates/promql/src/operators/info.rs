//! `info(v, {…})`: labels of info metrics joined to the rows of a vector.

use futures::future::BoxFuture;

use super::{Operator, Run, build};
use crate::error::Result;
use crate::exec::Row;
use crate::plan::{Vector, VectorKind};

pub(super) struct Info<'q> {
    input: Box<dyn Operator + 'q>,
}

impl<'q> Info<'q> {
    pub(super) fn new(run: &'q Run<'q>, node: &'q Vector) -> Self {
        let VectorKind::Info { input, .. } = &node.kind else {
            unreachable!("built for info only");
        };
        Self {
            input: build(run, input),
        }
    }
}

impl Operator for Info<'_> {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Vec<Row>>>> {
        self.input.next()
    }
}
