//! Retention: what is too old goes, week by week.
//!
//! - Events: the files of a service, week and type, once the week's end lies further back than the
//!   type's retention. Events of such a week that are in no file yet get none.
//! - Cells: those of a metric, window and week, by the metric's retention for that window.
//! - Identities: those of a week, once no type keeps events of it.
//! - Sets of dimension values: those that no cell refers to (`cull_sets.rs`).
//! - Entries of the quarantine and of the dead letters.
//!
//! What is due and not gone yet is not shown: views leave it out.

use icecore_model::StoreError;
use icecore_model::event::{EventBatch, EventWindow, Week};

use super::accept::unavailable;
use super::cells::is_expired;
use super::file_list::{self, EventFile};
use super::seal::FileWork;
use super::{Engine, Events};
use crate::{Problem, Registry};

/// What has been dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RetentionReport {
    pub files: usize,
    /// Events of these files, and events that were in no file yet.
    pub events: u64,
    /// Weeks of cells, each with its window and metric.
    pub cell_weeks: usize,
    pub identity_weeks: usize,
    /// Sets of dimension values that had no cells any more.
    pub dimension_sets: usize,
    /// Entries of the quarantine and of the dead letters.
    pub quarantined: usize,
}

impl Events {
    /// Drops what is too old at a moment, which is none that has not come yet.
    pub async fn run_retention(&self, now_ms: i64) -> Result<RetentionReport, Problem> {
        self.to_its_end(move |engine| async move { engine.run_retention(now_ms).await })
            .await
    }
}

impl Engine {
    pub(super) async fn run_retention(&self, now_ms: i64) -> Result<RetentionReport, Problem> {
        let _merging = self.merging.lock().await;
        let mut work = self.files.lock().await;
        let registry = self.memory.lock().registry.clone();
        // Whatever time somebody wants it to be: what is dropped too early is lost, and repeats
        // must be recognised for as long as events are accepted.
        let now_ms = now_ms.min(self.store.guarded_ms());
        let now_s = now_ms.div_euclid(1000);
        let mut report = RetentionReport::default();
        if self.has_expired_tail(&registry, now_s) {
            let sealed = self.seal_flushed(&mut work).await;
            report.events = sealed.map_err(unavailable)?;
        }
        self.retire_files(&mut work, &registry, now_s, &mut report)
            .await
            .map_err(unavailable)?;
        self.drop_cells(&mut work, &registry, now_s, &mut report)
            .await
            .map_err(unavailable)?;
        self.drop_identities(&registry, now_s, &mut report)
            .await
            .map_err(unavailable)?;
        let culled = self.cull_sets(&mut work, &registry, now_s).await;
        report.dimension_sets = culled.map_err(unavailable)?;
        report.quarantined = self.expire_lists(now_ms).await?;
        Ok(report)
    }

    /// Returns `true` if the journal may have events of a week that is over.
    fn has_expired_tail(&self, registry: &Registry, now_s: i64) -> bool {
        let blocks = self.memory.lock().tail.all();
        blocks.iter().any(|block| {
            let summary = block.summary();
            let week = Week::of(summary.min_started_ns.div_euclid(1_000_000_000));
            let mut types = summary.types.iter();
            types.any(|(service, event_type)| {
                let known = registry.event_type(service, event_type);
                known.is_some_and(|known| is_over(week, known.retention, now_s))
            })
        })
    }

    async fn retire_files(
        &self,
        work: &mut FileWork,
        registry: &Registry,
        now_s: i64,
        report: &mut RetentionReport,
    ) -> Result<(), StoreError> {
        let snapshot = self.store.snapshot().await?;
        let mut files = file_list::all_files(&*snapshot).await?;
        files.retain(|file| {
            let mut types = registry.event_types();
            let event_type = types.find(|known| known.number == file.event_type);
            let kept = event_type.map(|known| known.retention);
            kept.is_some_and(|kept| is_over(file.week, kept, now_s))
        });
        if files.is_empty() {
            return Ok(());
        }
        let batch = EventBatch {
            records: files.iter().map(EventFile::retired).collect(),
            ..EventBatch::default()
        };
        // Removing a record once more changes nothing, so an error needs no second look: files that
        // are not listed any more are found by those who drop them.
        self.store.write(batch).await?;
        report.files = files.len();
        report.events += files.iter().map(|file| file.events).sum::<u64>();
        work.retire(&files, self.clock.elapsed_ms());
        Ok(())
    }

    async fn drop_cells(
        &self,
        work: &mut FileWork,
        registry: &Registry,
        now_s: i64,
        report: &mut RetentionReport,
    ) -> Result<(), StoreError> {
        for window in EventWindow::ALL {
            for week in self.store.cell_weeks(window).await? {
                let all = || registry.metrics();
                // The guarded time may have gone back since they were dropped, and more have come.
                for kept in all().filter(|metric| !is_expired(metric, window, week, now_s)) {
                    work.dropped_cells.remove(&(window, week, kept.number));
                }
                let expired: Vec<u32> = all()
                    .filter(|metric| is_expired(metric, window, week, now_s))
                    .map(|metric| metric.number)
                    .collect();
                // A week without any metric that keeps it goes as a whole, which is cheaper.
                let is_whole = expired.len() == all().count();
                let due: Vec<u32> = expired
                    .into_iter()
                    .filter(|metric| !work.dropped_cells.contains(&(window, week, *metric)))
                    .collect();
                if due.is_empty() {
                    continue;
                }
                let named = (!is_whole).then(|| due.clone());
                self.store.drop_cells(window, week, named).await?;
                report.cell_weeks += due.len();
                let dropped = due.into_iter().map(|metric| (window, week, metric));
                work.dropped_cells.extend(dropped);
            }
        }
        Ok(())
    }

    async fn drop_identities(
        &self,
        registry: &Registry,
        now_s: i64,
        report: &mut RetentionReport,
    ) -> Result<(), StoreError> {
        let kept = registry.event_types().map(|known| known.retention).max();
        let Some(kept) = kept else {
            return Ok(());
        };
        for week in self.store.identity_weeks().await? {
            if is_over(week, kept, now_s) {
                self.store.drop_identities(week).await?;
                report.identity_weeks += 1;
            }
        }
        Ok(())
    }
}

/// Whether a week lies further back than something is kept.
pub(super) fn is_over(week: Week, kept: std::time::Duration, now_s: i64) -> bool {
    let kept_s = i64::try_from(kept.as_secs()).unwrap_or(i64::MAX);
    week.end_s().saturating_add(kept_s) <= now_s
}
