//! Vectors that are written several times: computed by the first who asks, copied to the others.

use futures::future::BoxFuture;
use futures::lock::Mutex;

use super::{Operator, Run, build, collect};
use crate::error::Result;
use crate::exec::{Reservation, Row};
use crate::parse::Span;
use crate::plan::Shared;

/// The rows of a shared vector, once somebody asked.
pub(super) struct SharedRows<'q> {
    node: &'q Shared,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    rows: Option<(Vec<Row>, Reservation)>,
    uses: usize,
}

impl<'q> SharedRows<'q> {
    pub(super) fn new(node: &'q Shared) -> Self {
        Self {
            node,
            state: Mutex::new(State::default()),
        }
    }
}

/// One use of a shared vector.
pub(super) struct Reader<'q> {
    run: &'q Run<'q>,
    shared: &'q SharedRows<'q>,
    span: Span,
    /// The only use: rows pass through without being kept.
    alone: Option<Box<dyn Operator + 'q>>,
    done: bool,
}

impl<'q> Reader<'q> {
    pub(super) fn new(run: &'q Run<'q>, id: usize, span: Span) -> Self {
        let shared = &run.shared[id];
        let alone = (shared.node.consumers == 1).then(|| build(run, &shared.node.input));
        Self {
            run,
            shared,
            span,
            alone,
            done: false,
        }
    }

    async fn rows(&mut self) -> Result<Option<Vec<Row>>> {
        if std::mem::replace(&mut self.done, true) {
            return Ok(None);
        }
        let node = self.shared.node;
        let mut state = self.shared.state.lock().await;
        if state.rows.is_none() && state.uses == 0 {
            let mut input = build(self.run, &node.input);
            state.rows = Some(collect(self.run.context, &mut *input).await?);
        }
        state.uses += 1;
        let annotations = &self.run.context.annotations;
        annotations.repeat(node.span, self.span.start);
        if state.uses == node.consumers {
            return Ok(state.rows.take().map(|(rows, _)| rows));
        }
        Ok(state.rows.as_ref().map(|(rows, _)| rows.clone()))
    }
}

impl Operator for Reader<'_> {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Vec<Row>>>> {
        Box::pin(async {
            match &mut self.alone {
                Some(input) => input.next().await,
                None => self.rows().await,
            }
        })
    }
}
