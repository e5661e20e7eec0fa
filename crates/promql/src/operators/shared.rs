//! Vectors with several consumers: computed for the first one, copied for the others.

use futures::future::BoxFuture;
use futures::lock::Mutex;

use super::{Operator, Run, build, collect};
use crate::error::Result;
use crate::exec::{Reservation, Row};
use crate::parse::Span;
use crate::plan::SharedVector;

/// The rows of a shared vector, once computed.
pub(super) struct SharedRows<'q> {
    node: &'q SharedVector,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    rows: Option<(Vec<Row>, Reservation)>,
    uses: usize,
}

impl<'q> SharedRows<'q> {
    pub(super) fn new(node: &'q SharedVector) -> Self {
        Self {
            node,
            state: Mutex::new(State::default()),
        }
    }
}

/// One use of a shared vector.
pub(super) struct SharedReader<'q> {
    run: &'q Run<'q>,
    shared: &'q SharedRows<'q>,
    span: Span,
    /// The input of the only use: rows pass through without being kept.
    sole_input: Option<Box<dyn Operator + 'q>>,
    done: bool,
    /// Memory of the rows while the consumer works on them.
    held: Option<Reservation>,
}

impl<'q> SharedReader<'q> {
    pub(super) fn new(run: &'q Run<'q>, id: usize, span: Span) -> Self {
        let shared = &run.shared[id];
        let sole_input = (shared.node.consumers == 1).then(|| build(run, &shared.node.input));
        Self {
            run,
            shared,
            span,
            sole_input,
            done: false,
            held: None,
        }
    }

    async fn rows(&mut self) -> Result<Option<Vec<Row>>> {
        self.held = None;
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
            return Ok(state.rows.take().map(|(rows, held)| {
                self.held = Some(held);
                rows
            }));
        }
        let Some((rows, held)) = &state.rows else {
            return Ok(None);
        };
        self.held = Some(self.run.context.reserve(held.bytes())?);
        Ok(Some(rows.clone()))
    }
}

impl Operator for SharedReader<'_> {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Vec<Row>>>> {
        Box::pin(async {
            match &mut self.sole_input {
                Some(input) => input.next().await,
                None => self.rows().await,
            }
        })
    }

    fn hand_over(&mut self) {
        self.held = None;
        if let Some(input) = &mut self.sole_input {
            input.hand_over();
        }
    }
}
