//! The dictionary over the years: sets of dimension values that no cell refers to any more go.
//!
//! The record of a set names the last day on which it came, by the guarded clock or the machine's,
//! whichever is later, and all of its cells are of events that came by then. So nothing refers to
//! it once no window keeps cells that begin that late.
//!
//! Holds always:
//! - A record goes while nobody flushes, and only if it still names a day that is long over. A set
//!   that comes again is in the batch of its cells, which is written before or after: before, the
//!   record names a later day; after, it is put again.

use std::ops::Range;

use icecore_model::event::{EventBatch, Week};
use icecore_model::{CatalogChange, CatalogRecord, StoreError};

use super::Engine;
use super::cells::is_expired;
use super::file_list::all_records;
use super::guard::last_day;
use super::seal::FileWork;
use crate::{Metric, Registry, catalog_key};

const DAY_S: i64 = 86_400;

/// Records that are read and removed at once.
const PAGE: usize = 4096;

impl Engine {
    /// Removes sets without cells, once a day. Returns how many.
    pub(super) async fn cull_sets(
        &self,
        work: &mut FileWork,
        registry: &Registry,
        now_s: i64,
    ) -> Result<usize, StoreError> {
        let today = now_s.div_euclid(DAY_S);
        if work.culled_day == Some(today) {
            return Ok(0);
        }
        let mut culled = 0;
        for metric in registry.metrics() {
            culled += self.cull_sets_of(metric, now_s).await?;
        }
        work.culled_day = Some(today);
        Ok(culled)
    }

    async fn cull_sets_of(&self, metric: &Metric, now_s: i64) -> Result<usize, StoreError> {
        let ahead_s = self.options.max_future_ns() / 1_000_000_000;
        let is_due = |record: &CatalogRecord| {
            last_day(record).is_some_and(|day| has_no_cells(metric, day, ahead_s, now_s))
        };
        let mut keys = catalog_key::dimension_sets(metric.number);
        let mut culled = 0;
        loop {
            let snapshot = self.store.snapshot().await?;
            let page = snapshot.records(keys.clone(), PAGE).await?;
            let Some((last, _)) = page.last() else {
                return Ok(culled);
            };
            let next = catalog_key::only(last.clone()).end;
            if page.iter().any(is_due) {
                culled += self.cull_page(keys.start..next.clone(), is_due).await?;
            }
            if page.len() < PAGE {
                return Ok(culled);
            }
            keys.start = next;
        }
    }

    /// Removes the records of a range that are due, while nobody flushes.
    async fn cull_page(
        &self,
        keys: Range<Vec<u8>>,
        is_due: impl Fn(&CatalogRecord) -> bool,
    ) -> Result<usize, StoreError> {
        let flusher = self.undecided.or(self.flusher.lock()).await;
        let flusher = flusher.map_err(|problem| StoreError(problem.detail))?;
        // A flush that may have been written may have put one of them. There will be other days.
        if flusher.is_uncertain {
            return Ok(0);
        }
        let snapshot = self.store.snapshot().await?;
        let mut records = all_records(&*snapshot, keys).await?;
        records.retain(is_due);
        let removed = records
            .into_iter()
            .map(|(key, _)| CatalogChange { key, value: None });
        let batch = EventBatch {
            records: removed.collect(),
            ..EventBatch::default()
        };
        let culled = batch.records.len();
        self.store.write(batch).await?;
        Ok(culled)
    }
}

/// Whether no window keeps cells of events that came on a day or before.
fn has_no_cells(metric: &Metric, day: i64, ahead_s: i64, now_s: i64) -> bool {
    let end_s = day.saturating_add(1).saturating_mul(DAY_S);
    // A week more: clocks are set back, and limits of how far ahead events may be are changed.
    let last_week = Week::of(end_s.saturating_add(ahead_s)).next();
    let mut windows = metric.windows();
    windows.all(|window| is_expired(metric, window, last_week, now_s))
}
