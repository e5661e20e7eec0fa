//! Windows made once more from what they were made of, and compared with those that are stored.
//!
//! Holds always:
//! - They are made by the code that rolls up, out of one state of the database. The stored bucket
//!   is one more source of the series map, so that a series is found in all of them by its labels.
//! - Nothing is written. Memory is that of a job: ids of all series, and a batch of samples.

mod difference;

use std::collections::BTreeSet;
use std::sync::Arc;

use icecore_model::BucketStart;
use icecore_model::rollup::{Resolution, SeriesWindows};
use icecore_records::{Bucket, SeriesId};
use rayon::prelude::*;

use super::batches::{Batch, Batches, SeriesRecords};
use super::series_map::{Merge, SeriesMap, UnsortedRun};
use super::sources::{Source, read_sources};
use super::windows::RollUp;
use crate::buckets::record_kind::RecordKind;
use crate::error::{Error, Result};
use crate::slate::read_view::View;
use crate::stored::{self, SharedColumns};
use difference::{first_difference, histogram_difference, window_difference};

/// Series whose windows are wrong that are remembered one by one.
const SERIES_MAX: usize = 1000;

/// What became of comparing a bucket of windows with its sources.
#[derive(Debug, Default)]
pub(crate) struct WindowComparison {
    /// Windows that were compared.
    pub(crate) windows: u64,
    /// Series that the sources have and the bucket does not: a policy may leave them out.
    pub(crate) absent: u64,
    /// The first series whose windows are not what they should be, and how many there are.
    pub(crate) wrong: Vec<WrongWindows>,
    pub(crate) wrong_count: u64,
}

/// A series whose windows are not those of its samples.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct WrongWindows {
    pub(crate) series: SeriesId,
    pub(crate) kind: RecordKind,
    /// The first of them, and what is wrong with it.
    pub(crate) start_ms: i64,
    pub(crate) reason: String,
    pub(crate) count: u64,
}

/// Compares a bucket of windows with what its sources, all of one level, would become now. Hours
/// that are out of date are left out. `read` is told how many bytes were read.
pub(crate) async fn compare_windows(
    view: &View,
    target: Bucket,
    sources: &[Bucket],
    read: impl Fn(usize),
) -> Result<WindowComparison> {
    let all: Vec<Bucket> = sources.iter().copied().chain([target]).collect();
    let mut all = read_sources(view, &all).await?;
    let map = loop {
        match map_of(view, &all, &read).await? {
            Ok(map) => break map,
            Err(UnsortedRun { source, id }) => all[source].break_run(id),
        }
    };
    let comparer = Arc::new(Comparer::new(&all, &map)?);
    let mut batches = Batches::new(&all, &map, 0);
    let mut comparison = WindowComparison::default();
    while let Some(batch) = batches.read(view).await? {
        read(batch.bytes);
        let comparer = Arc::clone(&comparer);
        let compared = tokio::task::spawn_blocking(move || comparer.batch(batch));
        let compared = compared.await.map_err(Error::ended_abnormally("a check"))?;
        comparison.join(compared?);
    }
    Ok(comparison)
}

/// Which series there are.
async fn map_of(
    view: &View,
    sources: &[Source],
    read: impl Fn(usize),
) -> Result<Result<SeriesMap, UnsortedRun>> {
    let mut merge = Merge::new(sources);
    while !merge.is_done() {
        let mut pages = Vec::new();
        for page in merge.wanted() {
            let page = page.read(view).await?;
            read(page.bytes);
            pages.push(page);
        }
        let advance = move || {
            merge.accept(pages)?;
            let unsorted = merge.advance().err();
            Ok::<_, Error>((merge, unsorted))
        };
        let advanced = tokio::task::spawn_blocking(advance).await;
        let (after, unsorted) = advanced.map_err(Error::ended_abnormally("a check"))??;
        if let Some(unsorted) = unsorted {
            return Ok(Err(unsorted));
        }
        merge = after;
    }
    Ok(Ok(merge.map))
}

/// What is compared, and how.
struct Comparer {
    roll_up: RollUp,
    /// The sources, and last the bucket itself.
    buckets: Vec<Bucket>,
    /// The ids in the bucket by those of the map, for series that it has.
    stored_ids: Vec<Option<SeriesId>>,
    /// Starts of hours that are out of date.
    dirty_ms: BTreeSet<i64>,
}

impl Comparer {
    fn new(all: &[Source], map: &SeriesMap) -> Result<Self> {
        let nothing = || Error::Invalid("there is nothing to compare".into());
        let (target, sources) = all.split_last().ok_or_else(nothing)?;
        let resolution = target.meta.resolution().filter(|r| !r.is_raw());
        let rolled = sources
            .iter()
            .filter(|source| source.meta.resolution_ms > 0);
        let dirty = rolled.chain([target]).flat_map(|s| &s.meta.dirty_hours);
        let mut stored_ids = vec![None; map.len() as usize];
        for id in 0..target.meta.next_series_id {
            if let Some(new) = map.new_id(sources.len(), id) {
                stored_ids[new as usize] = Some(SeriesId(id));
            }
        }
        Ok(Self {
            roll_up: RollUp {
                target: target.bucket,
                resolution: resolution.ok_or_else(nothing)?,
                lean: target.meta.rollup.is_lean,
                left_out: 0,
                coarsens: false,
            },
            buckets: all.iter().map(|source| source.bucket).collect(),
            stored_ids,
            dirty_ms: dirty.map(|hour| BucketStart(*hour).start_ms()).collect(),
        })
    }

    fn batch(&self, batch: Batch) -> Result<WindowComparison> {
        let Batch {
            series, columns, ..
        } = batch;
        let compared = series.into_par_iter();
        let compared: Vec<WindowComparison> = compared
            .map(|series| self.series(&columns, series))
            .collect::<Result<_>>()?;
        let mut all = WindowComparison::default();
        compared.into_iter().for_each(|one| all.join(one));
        Ok(all)
    }

    fn series(
        &self,
        columns: &[SharedColumns],
        mut series: SeriesRecords,
    ) -> Result<WindowComparison> {
        let mut comparison = WindowComparison::default();
        let Some(id) = self.stored_ids[series.id as usize] else {
            let made = self.roll_up.windows(&self.buckets, columns, &series)?;
            comparison.absent = u64::from(!made.windows.is_empty());
            return Ok(comparison);
        };
        let target = self.roll_up.target;
        let is_stored = |source: usize| source + 1 == self.buckets.len();
        let (stored, records): (Vec<_>, Vec<_>) = series
            .records
            .into_iter()
            .partition(|record| is_stored(record.source));
        series.records = records;
        let made = self
            .roll_up
            .windows(&self.buckets, columns, &series)?
            .windows;
        let mut found = SeriesWindows::default();
        for record in stored {
            match record.kind {
                RecordKind::Windows => {
                    found.floats = stored::windows(target, id, &record.value)?;
                }
                RecordKind::HistogramWindows => {
                    found.histograms = stored::histogram_windows(target, id, &record.value)?;
                }
                _ => {}
            }
        }
        let fields = self.roll_up.fields();
        comparison.add(
            id,
            RecordKind::Windows,
            first_difference(
                (&found.floats, &made.floats),
                |window| self.is_compared(window.start_ms, window.has_late),
                |window| window.start_ms,
                |found, made| window_difference(found, made, fields),
            ),
        );
        comparison.add(
            id,
            RecordKind::HistogramWindows,
            first_difference(
                (&found.histograms, &made.histograms),
                |window| self.is_compared(window.start_ms, window.has_late),
                |window| window.start_ms,
                histogram_difference,
            ),
        );
        Ok(comparison)
    }

    /// Whether a window must be what its samples say.
    fn is_compared(&self, start_ms: i64, has_late: bool) -> bool {
        let resolution: Resolution = self.roll_up.resolution;
        let hour_ms = icecore_model::HOUR_MS;
        let first_ms = start_ms.div_euclid(hour_ms) * hour_ms;
        let end_ms = start_ms.saturating_add(resolution.ms());
        !has_late && self.dirty_ms.range(first_ms..end_ms).next().is_none()
    }
}

impl WindowComparison {
    fn add(&mut self, series: SeriesId, kind: RecordKind, found: difference::Compared) {
        self.windows += found.windows;
        let Some((start_ms, reason)) = found.first else {
            return;
        };
        self.wrong_count += 1;
        self.wrong.push(WrongWindows {
            series,
            kind,
            start_ms,
            reason,
            count: found.wrong,
        });
    }

    fn join(&mut self, other: Self) {
        self.windows += other.windows;
        self.absent += other.absent;
        self.wrong_count += other.wrong_count;
        let room = SERIES_MAX.saturating_sub(self.wrong.len());
        self.wrong.extend(other.wrong.into_iter().take(room));
    }
}
