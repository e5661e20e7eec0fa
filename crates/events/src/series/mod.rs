//! Series as views on cells: what PromQL sees of events. Nothing of events is written as samples.
//!
//! ```text
//! selection ─► resolve: names, weeks, dimension values ─► load: cells of one name ─► samples
//!                                                     ordinary series, in label order ─┴─► stream
//! ```
//!
//! Holds always:
//! - A cumulative view adds up from Monday to Monday, UTC. It is absent before its first interval
//!   of 5 s, 0 at the start of it, and 0 on a Monday that follows a week in which it had events.
//! - The last sample of a cumulative view is that of now, so that what was accepted is seen.
//! - A view hides an ordinary series with the same labels.

mod cumulative;
mod exemplars;
mod labels;
mod load;
mod merge;
mod metadata;
mod resolution;
mod resolve;
mod stream;
#[cfg(test)]
mod tests;
mod views;

use std::sync::Arc;

use icecore_model::{
    BoxFuture, MemoryBudget, Reservation, Selection, SeriesSource, SeriesStream, SourceError,
};

pub use exemplars::series_exemplars;
pub use labels::{ViewQuery, view_label_names, view_label_values, view_series};
pub use metadata::view_metadata;

use crate::Problem;
use crate::query::CellSource;
use merge::MergedStream;
use stream::ViewStream;

/// The series of events, and the ordinary ones besides.
pub struct EventSeries {
    cells: Arc<dyn CellSource>,
    ordinary: Arc<dyn SeriesSource>,
}

impl EventSeries {
    pub fn new(cells: Arc<dyn CellSource>, ordinary: Arc<dyn SeriesSource>) -> Self {
        Self { cells, ordinary }
    }
}

impl SeriesSource for EventSeries {
    fn select(
        &self,
        selection: Selection,
    ) -> BoxFuture<'_, Result<Box<dyn SeriesStream>, SourceError>> {
        Box::pin(async move {
            let views = ViewStream::open(Arc::clone(&self.cells), &selection).await?;
            if views.is_empty() {
                return self.ordinary.select(selection).await;
            }
            let hints = selection.hints.clone();
            let ordinary = self.ordinary.select(selection).await?;
            Ok(Box::new(MergedStream::new(views, ordinary, &hints)) as Box<dyn SeriesStream>)
        })
    }
}

/// What a selection of views holds at a time where no budget says so.
const BYTES_MAX: usize = 512 << 20;

/// The memory of one selection.
struct ViewMemory {
    budget: Option<Reservation>,
    bytes: usize,
}

impl ViewMemory {
    fn new(budget: Option<&Arc<MemoryBudget>>) -> Result<Self, SourceError> {
        let budget = budget.map(|budget| budget.reserve(0)).transpose()?;
        Ok(Self { budget, bytes: 0 })
    }

    fn hold(&mut self, bytes: usize) -> Result<(), Problem> {
        self.bytes = self.bytes.saturating_add(bytes);
        let too_much = |reason: String| Problem::new(422, TOO_MUCH_MEMORY, reason);
        match &mut self.budget {
            Some(budget) => budget
                .grow(bytes)
                .map_err(|cause| too_much(cause.to_string())),
            None if self.bytes > BYTES_MAX => Err(too_much(format!(
                "the selection needs more than {BYTES_MAX} bytes of memory"
            ))),
            None => Ok(()),
        }
    }

    fn release(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes);
        if let Some(budget) = &mut self.budget {
            budget.shrink(bytes);
        }
    }
}

const TOO_MUCH_MEMORY: &str = "query.memory";

fn source_error(problem: Problem) -> SourceError {
    match (problem.status, problem.code) {
        (_, TOO_MUCH_MEMORY) => SourceError::LimitReached(problem.detail),
        (503, _) => SourceError::Unavailable(problem.detail),
        (_, "store.corrupt") => SourceError::Corrupt(problem.detail),
        _ => SourceError::Internal(problem.to_string()),
    }
}
