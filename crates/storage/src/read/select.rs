//! A selection: series resolved once, samples streamed in batches.

use std::ops::Range;
use std::sync::Arc;

use icecore_model::{
    BoxFuture, Levels, NumberForm, RolledTime, Selection, SeriesSamples, SeriesStream, SourceError,
};

use super::assemble::{SeriesChunks, assemble};
use super::chunks::{StoredChunks, decode_missing, head_chunks, look_up_stored, read_missing};
use super::columns::Columns;
use super::remnants::leave_out_remnants;
use super::resolve::{Resolution, ResolvedSeries, resolve_series};
use super::windows::{self, WindowMemory};
use crate::cache::Chunk;
use crate::error::{Error, Result};
use crate::read::Reader;

/// A stream begins with few series, because a long range may have many samples of each.
const FIRST_BATCH_SERIES: usize = 64;

/// Samples that a batch should have, about: the memory of a stream does not depend on its range.
const BATCH_SAMPLES: usize = 1 << 20;

/// The samples of a selection, batch by batch.
pub(crate) struct SelectStream {
    reader: Arc<Reader>,
    resolved: Arc<Resolution>,
    /// The next series.
    next: usize,
    range_ms: (i64, i64),
    /// The time before which nothing is kept of any series.
    kept_since_ms: i64,
    /// Taken by the batch that is being made.
    columns: Option<Columns>,
    window_memory: WindowMemory,
    samples_left: usize,
    samples_limit: usize,
    labels_only: bool,
    forms: bool,
    rolled: RolledTime,
    /// Series of the next batch.
    batch_series: usize,
}

impl SelectStream {
    pub(crate) async fn open(reader: &Arc<Reader>, selection: Selection) -> Result<Self> {
        let Selection {
            matchers,
            start_ms,
            end_ms,
            hints,
        } = selection;
        let range_ms = reader.widened((start_ms, end_ms), hints.rolled);
        let kept_since_ms = reader.kept_since_ms();
        let range_ms = (range_ms.0.max(kept_since_ms), range_ms.1);
        let resolved = resolve_series(reader, &matchers, range_ms, &hints).await?;
        reader.context.metrics.selections.add(1);
        let samples_max = reader.context.options.read.samples_max;
        let samples_limit = hints
            .samples_limit
            .map_or(samples_max, |limit| limit.min(samples_max));
        Ok(Self {
            reader: Arc::clone(reader),
            resolved: Arc::new(resolved),
            next: 0,
            range_ms,
            kept_since_ms,
            columns: None,
            window_memory: WindowMemory::new(),
            samples_left: samples_limit,
            samples_limit,
            labels_only: hints.labels_only,
            forms: hints.forms,
            rolled: hints.rolled,
            batch_series: FIRST_BATCH_SERIES.min(reader.context.options.read.batch_series),
        })
    }

    pub(crate) async fn next(&mut self) -> Result<Option<Vec<SeriesSamples>>> {
        let end = (self.next + self.batch_series).min(self.resolved.series.len());
        let batch = self.next..end;
        if batch.is_empty() {
            return Ok(None);
        }
        self.next = end;
        let mut series = if self.labels_only {
            self.labels_of(batch).await?
        } else {
            self.read(batch).await?
        };
        if !self.forms {
            series.iter_mut().for_each(leave_out_forms);
        }
        let samples: usize = series.iter().map(SeriesSamples::sample_count).sum();
        self.reader.context.metrics.samples_read.add(samples as u64);
        if samples > self.samples_left {
            let limit = self.samples_limit;
            return Err(Error::LimitReached(format!(
                "the selection has more than {limit} samples (read.samples_max)"
            )));
        }
        self.samples_left -= samples;
        let rolled = series.iter().filter_map(|series| series.rolled.as_ref());
        // A sample is a time and a value; windows take as much memory as so many of them.
        let held = rolled.map(|rolled| rolled.heap_bytes() / 16).sum::<usize>();
        let per_series = ((samples + held) / series.len().max(1)).max(1);
        let wanted = (BATCH_SAMPLES / per_series).max(1);
        self.batch_series = wanted.min(self.reader.context.options.read.batch_series);
        Ok(Some(series))
    }

    async fn labels_of(&self, batch: Range<usize>) -> Result<Vec<SeriesSamples>> {
        let resolved = Arc::clone(&self.resolved);
        let without_samples = |labels| SeriesSamples {
            labels,
            floats: Default::default(),
            histograms: Vec::new(),
            start_timestamps: Vec::new(),
            forms: Default::default(),
            rolled: None,
        };
        let make = move || {
            let labels = resolved.labels.of(batch).into_iter();
            labels.map(without_samples).collect()
        };
        // A batch is bounded, so its work is small.
        self.reader.context.pool.run_small(true, make).await
    }

    async fn read(&mut self, batch: Range<usize>) -> Result<Vec<SeriesSamples>> {
        let (start_ms, end_ms) = self.range_ms;
        let all = batch.clone();
        let columns = self.columns.take();
        let columns = columns.unwrap_or_else(|| Columns::new(start_ms, end_ms));
        let work = Batch {
            reader: Arc::clone(&self.reader),
            resolved: Arc::clone(&self.resolved),
            places: places_of(&self.resolved.series[batch.clone()]),
            series: batch,
            range_ms: self.range_ms,
        };
        let (work, mut chunks, made) = self
            .reader
            .context
            .pool
            .run_small(true, move || {
                let (cache, places) = (&work.reader.buckets.cache(), work.places.clone());
                let chunks = look_up_stored(cache, &work.resolved, places, work.range_ms);
                work.count_stored(&chunks);
                if chunks.iter().all(Option::is_some) {
                    let made = work.make(&chunks, columns);
                    (work, chunks, Attempt::Made(made))
                } else {
                    (work, chunks, Attempt::Missing(columns))
                }
            })
            .await?;
        let made = match made {
            Attempt::Made(made) => made,
            Attempt::Missing(columns) => {
                let places = work.places.clone();
                let read = read_missing(&self.reader, &self.resolved, places, &chunks).await?;
                let make = move || {
                    let first = work.places.start;
                    decode_missing(&work.resolved, first, read, &mut chunks, work.range_ms)?;
                    work.make(&chunks, columns)
                };
                self.reader.context.pool.run(make).await?
            }
        };
        let (series, columns) = made?;
        self.columns = Some(columns);
        let time = (self.rolled, self.range_ms);
        let memory = &mut self.window_memory;
        windows::complete(&self.reader, &self.resolved, all, series, time, memory).await
    }
}

/// Leaves start timestamps that are times.
fn leave_out_forms(series: &mut SeriesSamples) {
    let is_time = |start_ms| NumberForm::of_start(start_ms).is_none();
    series
        .start_timestamps
        .retain(|(_, start_ms)| is_time(*start_ms));
}

enum Attempt {
    Made(Result<(Vec<SeriesSamples>, Columns)>),
    Missing(Columns),
}

/// What the CPU pool needs to make a batch.
struct Batch {
    reader: Arc<Reader>,
    resolved: Arc<Resolution>,
    series: Range<usize>,
    /// Where they are stored.
    places: Range<usize>,
    range_ms: (i64, i64),
}

impl Batch {
    fn count_stored(&self, chunks: &StoredChunks) {
        let hits = chunks.iter().flatten().count();
        let metrics = &self.reader.context.metrics;
        metrics.chunk_cache_hits.add(hits as u64);
        metrics.chunk_cache_misses.add((chunks.len() - hits) as u64);
    }

    /// Makes the batch; of all its places the chunks are there.
    fn make(
        &self,
        stored: &StoredChunks,
        mut columns: Columns,
    ) -> Result<(Vec<SeriesSamples>, Columns)> {
        let (reader, resolved) = (&self.reader, &self.resolved);
        let series = &resolved.series[self.series.clone()];
        let stored: Vec<Arc<Chunk>> = stored.iter().flatten().cloned().collect();
        let mut parts = Vec::new();
        for (number, range) in series.iter().filter_map(|series| series.head.as_ref()) {
            parts.extend(range.clone().map(|part| (number.0, part)));
        }
        let (head, hits) = head_chunks(reader.buckets.cache(), resolved, &parts, self.range_ms)?;
        reader.context.metrics.chunk_cache_hits.add(hits.hits);
        reader.context.metrics.chunk_cache_misses.add(hits.misses);
        let labels = resolved.labels.of(self.series.clone());
        let mut stored = stored;
        leave_out_remnants(resolved, (series, &labels), &mut stored, self.range_ms)?;
        let (mut stored, mut head) = (stored.as_slice(), head.as_slice());
        let chunked = series.iter().zip(labels).map(|(series, labels)| {
            let parts = series.head.as_ref().map_or(0, |(_, range)| range.len());
            SeriesChunks {
                series,
                labels,
                stored: take(&mut stored, series.stored.len()),
                head: take(&mut head, parts),
            }
        });
        let chunked = chunked.collect();
        let (made, from_buckets) = assemble(resolved, chunked, &mut columns, self.range_ms)?;
        reader.context.metrics.bucket_samples_read.add(from_buckets);
        reader.buckets.cache().make_room();
        Ok((made, columns))
    }
}

fn take<'s, T>(slice: &mut &'s [T], len: usize) -> &'s [T] {
    let (taken, rest) = slice.split_at(len.min(slice.len()));
    *slice = rest;
    taken
}

/// The places of neighbouring series.
pub(super) fn places_of(series: &[ResolvedSeries]) -> Range<usize> {
    match (series.first(), series.last()) {
        (Some(first), Some(last)) => first.stored.start as usize..last.stored.end as usize,
        _ => 0..0,
    }
}

impl SeriesStream for SelectStream {
    fn next_batch(&mut self) -> BoxFuture<'_, Result<Option<Vec<SeriesSamples>>, SourceError>> {
        Box::pin(async move { self.next().await.map_err(SourceError::from) })
    }

    fn levels(&self) -> Vec<Arc<Levels>> {
        self.resolved.levels.all()
    }

    fn kept_since_ms(&self) -> Option<i64> {
        // Without a bound there is no time that is not kept; what keeps nothing has no such time.
        Some(self.kept_since_ms).filter(|since_ms| !matches!(*since_ms, i64::MIN | i64::MAX))
    }
}

impl From<Error> for SourceError {
    fn from(error: Error) -> Self {
        let text = error.to_string();
        match error {
            Error::LimitReached(_) | Error::Invalid(_) => Self::LimitReached(text),
            Error::Unavailable(_) | Error::Closed(_) | Error::Store { .. } => {
                Self::Unavailable(text)
            }
            Error::Corrupt(_) => Self::Corrupt(text),
        }
    }
}
