//! Reading the source: a scan is read once, however many leaves use it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures::lock::Mutex;
use icecore_model::{SelectHints, Selection, SeriesSamples, SeriesStream};
use rayon::prelude::*;

use super::Run;
use crate::error::Result;
use crate::exec::{Context, Row};
use crate::plan::{Scan, ScanUse};

/// Values (steps times series) from which work is split over threads: below, handing it over costs
/// more than it saves.
const PARALLEL_MIN: usize = 50_000;

/// A scan and the batches that some of its users have not seen.
pub(super) struct SharedScan {
    selection: Selection,
    consumers: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    stream: Option<Box<dyn SeriesStream>>,
    /// Each batch with the number of users who will still ask for it.
    batches: Vec<Option<(Arc<Vec<SeriesSamples>>, usize)>>,
    ended: bool,
}

impl SharedScan {
    pub(super) fn new(scan: &Scan) -> Self {
        Self {
            selection: Selection {
                matchers: scan.matchers.clone(),
                start_ms: scan.start_ms,
                end_ms: scan.end_ms,
                hints: SelectHints::default(),
            },
            consumers: scan.consumers,
            state: Mutex::new(State::default()),
        }
    }

    /// Batch number `number`, for one of the users.
    async fn batch(&self, context: &Context<'_>, number: usize) -> Result<Option<Series>> {
        let mut state = self.state.lock().await;
        if number >= state.batches.len() {
            let Some(batch) = state.pull(context, &self.selection).await? else {
                return Ok(None);
            };
            if self.consumers == 1 {
                state.batches.push(None);
                return Ok(Some(Series::Owned(batch)));
            }
            state.batches.push(Some((Arc::new(batch), self.consumers)));
        }
        let Some(place) = state.batches.get_mut(number) else {
            return Ok(None);
        };
        let Some((batch, users)) = place else {
            return Ok(Some(Series::Owned(Vec::new())));
        };
        *users -= 1;
        let batch = Arc::clone(batch);
        if *users == 0 {
            *place = None;
        }
        Ok(Some(match Arc::try_unwrap(batch) {
            Ok(owned) => Series::Owned(owned),
            Err(shared) => Series::Shared(shared),
        }))
    }
}

impl State {
    async fn pull(
        &mut self,
        context: &Context<'_>,
        selection: &Selection,
    ) -> Result<Option<Vec<SeriesSamples>>> {
        if self.ended {
            return Ok(None);
        }
        let stream = match &mut self.stream {
            Some(stream) => stream,
            None => {
                let stream = context.source.select(selection.clone()).await?;
                self.stream.insert(stream)
            }
        };
        let batch = stream.next_batch().await?;
        match &batch {
            Some(series) => {
                let samples: usize = series.iter().map(SeriesSamples::sample_count).sum();
                context
                    .samples_read
                    .fetch_add(samples as u64, Ordering::Relaxed);
                context
                    .series_read
                    .fetch_add(series.len() as u64, Ordering::Relaxed);
            }
            None => {
                self.ended = true;
                self.stream = None;
            }
        }
        Ok(batch)
    }
}

/// The series of a batch.
enum Series {
    Owned(Vec<SeriesSamples>),
    Shared(Arc<Vec<SeriesSamples>>),
}

/// One leaf's way through a scan.
pub(super) struct ScanReader<'q> {
    run: &'q Run<'q>,
    from: &'q ScanUse,
    next: usize,
}

impl<'q> ScanReader<'q> {
    pub(super) fn new(run: &'q Run<'q>, from: &'q ScanUse) -> Self {
        Self { run, from, next: 0 }
    }

    /// Makes something of each series of the next batch, in order; `None` at the end.
    pub(super) async fn next<T: Send>(
        &mut self,
        values_per_series: usize,
        make: impl Fn(SeriesSamples) -> Option<T> + Send + Sync,
    ) -> Result<Option<Vec<T>>> {
        self.run.context.check()?;
        let scan = &self.run.scans[self.from.scan];
        let Some(series) = scan.batch(self.run.context, self.next).await? else {
            return Ok(None);
        };
        self.next += 1;
        let is_wanted = |series: &SeriesSamples| {
            self.from
                .filter
                .iter()
                .all(|m| m.matches(series.labels.get(m.name()).unwrap_or_default()))
        };
        Ok(Some(match series {
            Series::Owned(mut series) => {
                if !self.from.filter.is_empty() {
                    series.retain(is_wanted);
                }
                match is_large(series.len(), values_per_series) {
                    true => series.into_par_iter().filter_map(make).collect(),
                    false => series.into_iter().filter_map(make).collect(),
                }
            }
            Series::Shared(series) => {
                let make = |series: &SeriesSamples| make(series.clone());
                match is_large(series.len(), values_per_series) {
                    true => series
                        .par_iter()
                        .filter(|s| is_wanted(s))
                        .filter_map(make)
                        .collect(),
                    false => series
                        .iter()
                        .filter(|s| is_wanted(s))
                        .filter_map(make)
                        .collect(),
                }
            }
        }))
    }
}

fn is_large(rows: usize, values_per_row: usize) -> bool {
    rows > 1 && rows.saturating_mul(values_per_row) >= PARALLEL_MIN
}

/// Changes rows, on several threads when there is much to do.
pub(super) fn map_rows(
    rows: Vec<Row>,
    change: impl Fn(Row) -> Option<Row> + Send + Sync,
) -> Vec<Row> {
    let steps = rows.first().map_or(0, |row| row.values.floats.len());
    match is_large(rows.len(), steps) {
        true => rows.into_par_iter().filter_map(change).collect(),
        false => rows.into_iter().filter_map(change).collect(),
    }
}
