//! Reading the source: a scan is read once, however many leaves use it.
//!
//! ```text
//! source ─ batch ─► first leaf to read it
//!            └ kept ─► the others, later
//! ```
//!
//! Holds always:
//! - Batches kept for other leaves count towards the memory of the query and take at most a
//!   fraction of its limit. Beyond that nothing more is kept, and the other leaves read the rest
//!   themselves.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures::lock::Mutex;
use icecore_model::{Labels, RolledSamples, RolledTime, Selection, SeriesSamples, SeriesStream};
use rayon::prelude::*;

use super::Run;
use crate::error::Result;
use crate::exec::{Context, Part, Reservation, Row};
use crate::plan::{Scan, ScanUse};
use crate::rollup::windows;

/// Values (made, and of series also read) from which work is split over threads: below that it does
/// not pay off.
const PARALLEL_MIN: usize = 50_000;

/// The fraction of a query's memory (one in so many) that a scan may keep for leaves that are
/// behind.
const KEPT_FRACTION: usize = 4;

/// Approximate bytes of a histogram sample.
const HISTOGRAM_BYTES: usize = 512;

/// A scan and the batches that some of its consumers have not read.
pub(super) struct SharedScan {
    selection: Selection,
    consumers: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    stream: Option<Box<dyn SeriesStream>>,
    ended: bool,
    /// Number of batches read.
    read: usize,
    /// The first of them, each with the number of consumers that have not read it.
    kept: Vec<Option<(Arc<Vec<SeriesSamples>>, usize)>>,
    /// No more batches are kept.
    is_full: bool,
    held: Option<Reservation>,
}

/// The batch that a consumer reads.
enum Batch {
    Owned(Vec<SeriesSamples>),
    Shared(Arc<Vec<SeriesSamples>>),
    /// It was read by another consumer and not kept.
    Missed,
    End,
}

impl SharedScan {
    pub(super) fn new(context: &Context<'_>, scan: &Scan) -> Self {
        let mut hints = context.hints(RolledTime::Windows(scan.choice, scan.fields));
        hints.evaluations = Some(scan.evaluations);
        Self {
            selection: Selection {
                matchers: scan.matchers.clone(),
                start_ms: scan.start_ms.saturating_sub(i64::from(scan.reads_edge)),
                end_ms: scan.end_ms,
                hints,
            },
            consumers: scan.consumers,
            state: Mutex::new(State::default()),
        }
    }

    /// Batch number `number`, for one of the consumers.
    async fn batch(&self, context: &Context<'_>, number: usize) -> Result<Batch> {
        let mut state = self.state.lock().await;
        if number >= state.read {
            let Some(batch) = state.pull(context, &self.selection).await? else {
                return Ok(Batch::End);
            };
            if !state.keeps(context, &batch, self.consumers)? {
                return Ok(Batch::Owned(batch));
            }
            state.kept.push(Some((Arc::new(batch), self.consumers)));
        }
        Ok(state.take_kept(number))
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
                let stream = open(context, selection).await?;
                self.stream.insert(stream)
            }
        };
        let batch = read(context, &mut **stream).await?;
        match &batch {
            Some(_) => self.read += 1,
            None => {
                self.ended = true;
                self.stream = None;
            }
        }
        Ok(batch)
    }

    /// Whether a batch is to be kept; if so, its memory is reserved.
    fn keeps(
        &mut self,
        context: &Context<'_>,
        batch: &[SeriesSamples],
        consumers: usize,
    ) -> Result<bool> {
        if consumers == 1 || self.is_full {
            return Ok(false);
        }
        let held = match &mut self.held {
            Some(held) => held,
            None => self.held.insert(context.reserve(0)?),
        };
        let bytes = heap_bytes(batch);
        if held.bytes().saturating_add(bytes) > context.limits.memory_bytes / KEPT_FRACTION {
            self.is_full = true;
            return Ok(false);
        }
        context.grow(held, bytes)?;
        Ok(true)
    }

    fn take_kept(&mut self, number: usize) -> Batch {
        let Some(slot) = self.kept.get_mut(number) else {
            return Batch::Missed;
        };
        let Some((batch, consumers)) = slot else {
            return Batch::Missed;
        };
        *consumers -= 1;
        let batch = Arc::clone(batch);
        if *consumers == 0 {
            *slot = None;
            if let Some(held) = &mut self.held {
                held.shrink(heap_bytes(&batch));
            }
        }
        match Arc::try_unwrap(batch) {
            Ok(owned) => Batch::Owned(owned),
            Err(shared) => Batch::Shared(shared),
        }
    }
}

/// A series that was read.
pub(super) enum ScannedSeries<'s> {
    Owned(SeriesSamples),
    /// One of a shared batch.
    Shared(&'s Arc<Vec<SeriesSamples>>, usize),
}

impl Deref for ScannedSeries<'_> {
    type Target = SeriesSamples;

    fn deref(&self) -> &SeriesSamples {
        match self {
            Self::Owned(series) => series,
            Self::Shared(batch, index) => &batch[*index],
        }
    }
}

/// Opens a selection.
pub(super) async fn open(
    context: &Context<'_>,
    selection: &Selection,
) -> Result<Box<dyn SeriesStream>> {
    let stream = context.source.select(selection.clone()).await?;
    if let Some(since_ms) = stream.kept_since_ms() {
        context.rollup.kept_since(since_ms, selection.start_ms);
    }
    let levels = stream.levels();
    for levels in &levels {
        context.rollup.levels(levels);
    }
    if let Some(profile) = &context.profile {
        profile.opened(levels);
    }
    Ok(stream)
}

/// The next batch of a stream, with its samples counted.
async fn read(
    context: &Context<'_>,
    stream: &mut dyn SeriesStream,
) -> Result<Option<Vec<SeriesSamples>>> {
    let batch = stream.next_batch().await?;
    if let Some(series) = &batch {
        let samples: usize = series.iter().map(SeriesSamples::sample_count).sum();
        let count = |counter: &std::sync::atomic::AtomicU64, by: usize| {
            counter.fetch_add(by as u64, Ordering::Relaxed);
        };
        context.rollup.read(series);
        if let Some(profile) = &context.profile {
            profile.read(series);
        }
        count(&context.samples_read, samples);
        count(&context.series_read, series.len());
    }
    Ok(batch)
}

/// Approximate bytes of a batch; times are mostly shared and not counted.
fn heap_bytes(batch: &[SeriesSamples]) -> usize {
    let of_series = |series: &SeriesSamples| {
        size_of::<SeriesSamples>()
            + 8 * series.floats.values.capacity()
            + HISTOGRAM_BYTES * series.histograms.len()
            + 16 * series.start_timestamps.capacity()
            + series.rolled.as_ref().map_or(0, RolledSamples::heap_bytes)
    };
    batch.iter().map(of_series).sum()
}

/// A leaf's position in a scan.
pub(super) struct ScanReader<'q> {
    run: &'q Run<'q>,
    from: &'q ScanUse,
    next: usize,
    /// The last series read from shared batches.
    last: Option<Labels>,
    /// A stream of its own, because the next batch was not kept.
    own: Option<Box<dyn SeriesStream>>,
}

impl<'q> ScanReader<'q> {
    pub(super) fn new(run: &'q Run<'q>, from: &'q ScanUse) -> Self {
        Self {
            run,
            from,
            next: 0,
            last: None,
            own: None,
        }
    }

    /// Maps each series of the next batch, in order; `None` at the end.
    pub(super) async fn next<T: Send>(
        &mut self,
        values_per_series: usize,
        make: impl Fn(ScannedSeries<'_>) -> Option<T> + Send + Sync,
    ) -> Result<Option<Vec<T>>> {
        self.run.context.check()?;
        let batch = self.batch().await?;
        let filter = &self.from.filter;
        let is_wanted = |series: &SeriesSamples| {
            let value = |name| series.labels.get(name).unwrap_or_default();
            filter.iter().all(|m| m.matches(value(m.name())))
        };
        let context = self.run.context;
        Ok(match batch {
            Batch::End | Batch::Missed => None,
            Batch::Owned(mut series) => {
                if !filter.is_empty() {
                    series.retain(is_wanted);
                }
                let _made = context.reserve_rows(series.len(), values_per_series)?;
                let make = |series| make(ScannedSeries::Owned(series));
                Some(if is_much(&series, values_per_series) {
                    series.into_par_iter().filter_map(make).collect()
                } else {
                    series.into_iter().filter_map(make).collect()
                })
            }
            Batch::Shared(series) => {
                let wanted = series.iter().filter(|s| is_wanted(s)).count();
                let _made = context.reserve_rows(wanted, values_per_series)?;
                let make = |index: usize| {
                    if is_wanted(&series[index]) {
                        make(ScannedSeries::Shared(&series, index))
                    } else {
                        None
                    }
                };
                let all = 0..series.len();
                Some(if is_much(&series, values_per_series) {
                    all.into_par_iter().filter_map(make).collect()
                } else {
                    all.filter_map(make).collect()
                })
            }
        })
    }

    async fn batch(&mut self) -> Result<Batch> {
        let context = self.run.context;
        let scan = &self.run.scans[self.from.scan];
        let part = Part::Scan(self.from.scan);
        let _running = context.profile.as_ref().map(|profile| profile.run(part));
        if self.own.is_none() {
            let batch = scan.batch(context, self.next).await?;
            self.next += 1;
            let last = match &batch {
                Batch::Owned(batch) => batch.last(),
                Batch::Shared(batch) => batch.last(),
                Batch::End => return Ok(batch),
                Batch::Missed => None,
            };
            if let Some(last) = last.filter(|_| scan.consumers > 1) {
                self.last = Some(last.labels.clone());
            }
            if !matches!(batch, Batch::Missed) {
                return Ok(batch);
            }
        }
        let own = match &mut self.own {
            Some(own) => own,
            None => {
                let stream = open(context, &scan.selection).await?;
                self.own.insert(stream)
            }
        };
        let Some(mut batch) = read(context, &mut **own).await? else {
            return Ok(Batch::End);
        };
        // Series come in the order of their labels: skip those already read.
        if let Some(last) = &self.last {
            batch.retain(|series| series.labels > *last);
        }
        Ok(Batch::Owned(batch))
    }
}

/// Whether the work on series is split over threads: it grows with what is read, too.
fn is_much(batch: &[SeriesSamples], values_per_series: usize) -> bool {
    let samples: usize = batch.iter().map(SeriesSamples::sample_count).sum();
    let windows: u64 = windows(batch).map(|(_, count)| count).sum();
    let made = batch.len().saturating_mul(values_per_series);
    batch.len() > 1
        && made
            .saturating_add(samples)
            .saturating_add(windows as usize)
            >= PARALLEL_MIN
}

/// Whether work is split over threads.
pub(super) fn is_large(rows: usize, values_per_row: usize) -> bool {
    rows > 1 && rows.saturating_mul(values_per_row) >= PARALLEL_MIN
}

/// Maps rows, on several threads if there are many values.
pub(super) fn map_rows(
    rows: Vec<Row>,
    change: impl Fn(Row) -> Option<Row> + Send + Sync,
) -> Vec<Row> {
    let steps = rows.first().map_or(0, |row| row.values.floats.len());
    if is_large(rows.len(), steps) {
        rows.into_par_iter().filter_map(change).collect()
    } else {
        rows.into_iter().filter_map(change).collect()
    }
}
