//! Operators whose time and rows are counted, for EXPLAIN.

use futures::future::BoxFuture;

use super::{Operator, Run};
use crate::error::Result;
use crate::exec::{Part, Profile, Row};
use crate::plan::Vector;

/// The operator, counted if the request asks for it.
pub(super) fn profiled<'q>(
    run: &'q Run<'q>,
    node: &Vector,
    input: Box<dyn Operator + 'q>,
) -> Box<dyn Operator + 'q> {
    match &run.context.profile {
        Some(profile) => Box::new(Profiled {
            profile,
            part: Part::node(node),
            input,
        }),
        None => input,
    }
}

struct Profiled<'q> {
    profile: &'q Profile,
    part: Part,
    input: Box<dyn Operator + 'q>,
}

impl Operator for Profiled<'_> {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Vec<Row>>>> {
        Box::pin(async {
            let _running = self.profile.run(self.part);
            let rows = self.input.next().await?;
            if let Some(rows) = &rows {
                self.profile.yielded(self.part, rows.len());
            }
            Ok(rows)
        })
    }

    fn hand_over(&mut self) {
        self.input.hand_over();
    }
}
