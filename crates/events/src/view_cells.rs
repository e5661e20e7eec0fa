//! The engine's view as a source of cells.

use std::sync::Arc;

use icecore_model::BoxFuture;
use icecore_model::event::{CellScan, DimensionHash, StoredCell};

use crate::engine::EventsView;
use crate::query::{CellSource, DimensionValues};
use crate::{Problem, Registry};

impl CellSource for EventsView {
    fn registry(&self) -> &Arc<Registry> {
        EventsView::registry(self)
    }

    fn now_ms(&self) -> i64 {
        EventsView::now_ms(self)
    }

    fn guarded_ms(&self) -> i64 {
        EventsView::guarded_ms(self)
    }

    fn cells(&self, scan: CellScan) -> BoxFuture<'_, Result<Vec<StoredCell>, Problem>> {
        Box::pin(EventsView::cells(self, scan))
    }

    fn dimension_sets<'a>(
        &'a self,
        metric: u32,
        hashes: &'a [DimensionHash],
    ) -> BoxFuture<'a, Result<Vec<Option<DimensionValues>>, Problem>> {
        Box::pin(async move {
            let sets = EventsView::dimension_sets(self, metric, hashes).await?;
            let values = sets.into_iter().map(|set| set.map(|set| set.values));
            Ok(values.collect())
        })
    }

    fn state_counts<'a>(
        &'a self,
        service: u32,
        object_type: &'a str,
        attribute: &'a str,
    ) -> BoxFuture<'a, Result<Vec<(String, i64)>, Problem>> {
        Box::pin(async move {
            let counts = EventsView::state_counts(self, service, object_type, attribute).await?;
            Ok(counts
                .into_iter()
                .map(|count| (count.state, count.count))
                .collect())
        })
    }
}

#[cfg(test)]
mod tests;
