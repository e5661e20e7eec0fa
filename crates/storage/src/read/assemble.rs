//! A batch of series out of chunks: which columns they share, then their values.
//!
//! Holds always:
//! - Parts that follow one another in time and hold only floats are copied value by value and
//!   nothing else; everything less usual goes through `super::samples`.
//! - Columns are found one series after the other, values are unpacked in parallel: the answer does
//!   not depend on the number of threads.

use std::sync::Arc;

use icecore_model::{FloatColumns, Labels, SeriesSamples};
use icecore_records::{Bucket, DecodeError};
use rayon::prelude::*;

use super::columns::Columns;
use super::resolve::{Resolution, ResolvedSeries};
use super::samples::{HeadPart, Samples, Span, StoredPart, gather};
use crate::cache::Chunk;
use crate::cache::PartCopy;
use crate::error::{Error, Result};

/// Samples from which a batch is worth the trouble of several threads.
const PARALLEL_SAMPLES_MIN: usize = 500_000;

/// A series with its chunks.
pub(super) struct SeriesChunks<'r> {
    pub(super) series: &'r ResolvedSeries,
    pub(super) labels: Labels,
    /// In the order of its places in [`Resolution::stored`].
    pub(super) stored: &'r [Arc<Chunk>],
    /// In the order of its parts of the head; `None` where a part has no stream.
    pub(super) head: &'r [Option<Arc<Chunk>>],
}

/// How a series is put together.
enum Plan {
    Plain {
        column: u32,
        chunks: Vec<Arc<Chunk>>,
    },
    Overlapping,
}

/// Puts the series of a batch together. Also returns how many samples came from buckets.
pub(super) fn assemble(
    resolved: &Resolution,
    batch: Vec<SeriesChunks<'_>>,
    columns: &mut Columns,
    (start_ms, end_ms): (i64, i64),
) -> Result<(Vec<SeriesSamples>, u64)> {
    columns.begin_batch();
    let mut samples = 0;
    let mut planned = Vec::with_capacity(batch.len());
    for chunked in batch {
        let plan = match in_order(resolved, &chunked) {
            Some(chunks) => {
                let column = columns.of_chunks(&chunks);
                samples += columns.get(column).times.len();
                Plan::Plain { column, chunks }
            }
            None => Plan::Overlapping,
        };
        planned.push((chunked, plan));
    }
    let found = &*columns;
    let make = |(chunked, plan): (SeriesChunks<'_>, Plan)| {
        let made = match plan {
            Plan::Plain { column, chunks } => plain(resolved, &chunked, found, column, &chunks),
            Plan::Overlapping => overlapping(resolved, &chunked, start_ms, end_ms),
        };
        made.map_err(|cause| corrupt(&chunked.labels, cause))
    };
    let made: Vec<(SeriesSamples, Samples)> = if samples >= PARALLEL_SAMPLES_MIN {
        planned.into_par_iter().map(make).collect::<Result<_>>()?
    } else {
        planned.into_iter().map(make).collect::<Result<_>>()?
    };
    let mut from_buckets = 0;
    let finish = made.into_iter().map(|(mut series, gathered)| {
        from_buckets += gathered.from_buckets as u64;
        if !gathered.timestamps.is_empty() {
            series.floats.timestamps = columns.of_times(gathered.timestamps);
        }
        series
    });
    let series = finish.collect();
    Ok((series, from_buckets))
}

fn corrupt(series: &Labels, cause: DecodeError) -> Error {
    Error::corrupt(format!("samples of {series}"))(cause)
}

/// The chunks of a series in time order, if they hold only floats and no two overlap.
fn in_order(resolved: &Resolution, chunked: &SeriesChunks<'_>) -> Option<Vec<Arc<Chunk>>> {
    let mut found = InOrder {
        chunks: Vec::with_capacity(chunked.stored.len() + chunked.head.len()),
        last_ms: i64::MIN,
    };
    let mut parts = parts_of(resolved, chunked).zip(chunked.head).peekable();
    for (bucket, chunk) in stored_of(resolved, chunked) {
        // Parts of hours within the bucket come behind it, which is where late samples seldom are.
        while let Some((head, chunk)) = parts.next_if(|(h, _)| h.part.hour < bucket.start) {
            found.add_part(head.part, chunk.as_ref())?;
        }
        let side = chunk.side.as_ref();
        if side.is_some_and(|side| !side.histograms.is_empty()) {
            return None;
        }
        found.add(chunk)?;
    }
    for (head, chunk) in parts {
        found.add_part(head.part, chunk.as_ref())?;
    }
    Some(found.chunks)
}

/// Chunks that follow one another.
struct InOrder {
    chunks: Vec<Arc<Chunk>>,
    last_ms: i64,
}

impl InOrder {
    /// `None` when the chunk does not begin after the last one.
    fn add(&mut self, chunk: &Arc<Chunk>) -> Option<()> {
        if let (Some(first), Some(last)) = (chunk.times.first(), chunk.times.last()) {
            if first <= self.last_ms {
                return None;
            }
            self.last_ms = last;
            self.chunks.push(Arc::clone(chunk));
        }
        Some(())
    }

    /// The same for a part of the head; also `None` when it holds more than its stream.
    fn add_part(&mut self, part: &PartCopy, chunk: Option<&Arc<Chunk>>) -> Option<()> {
        if !part.late().is_empty() || !part.histograms().is_empty() {
            return None;
        }
        chunk.map_or(Some(()), |chunk| self.add(chunk))
    }
}

fn stored_of<'r>(
    resolved: &'r Resolution,
    chunked: &SeriesChunks<'r>,
) -> impl Iterator<Item = (Bucket, &'r Arc<Chunk>)> {
    let range = &chunked.series.stored;
    let places = &resolved.stored[range.start as usize..range.end as usize];
    let buckets = places
        .iter()
        .map(|place| resolved.buckets[place.bucket as usize].0.bucket);
    buckets.zip(chunked.stored)
}

fn parts_of<'r>(
    resolved: &'r Resolution,
    chunked: &SeriesChunks<'r>,
) -> impl Iterator<Item = HeadPart<'r>> {
    let head = chunked.series.head.as_ref();
    let range = head.map_or(0..0, |(_, range)| range.clone());
    let parts = &resolved.head_parts[range.start as usize..range.end as usize];
    parts
        .iter()
        .zip(chunked.head)
        .map(|(part, chunk)| HeadPart {
            part,
            chunk: chunk.as_deref(),
        })
}

fn plain(
    resolved: &Resolution,
    chunked: &SeriesChunks<'_>,
    columns: &Columns,
    column: u32,
    chunks: &[Arc<Chunk>],
) -> Result<(SeriesSamples, Samples), DecodeError> {
    let column = columns.get(column);
    let mut values = Vec::with_capacity(column.times.len());
    let mut gathered = Samples::default();
    for (chunk, (start, end)) in chunks.iter().zip(&column.parts) {
        chunk.values_into(*start as usize..*end as usize, &mut values)?;
    }
    let range_ms = columns.range_ms();
    let stored_len: usize = if chunked.head.is_empty() {
        values.len()
    } else {
        stored_of(resolved, chunked)
            .map(|(_, chunk)| chunk.times.range(range_ms.0, range_ms.1).len())
            .sum()
    };
    gathered.from_buckets = stored_len.min(values.len());
    let mut starts = Vec::new();
    for (_, chunk) in stored_of(resolved, chunked).filter(|(_, chunk)| chunk.side.is_some()) {
        add_starts(Some(chunk), Vec::new(), range_ms, &mut starts)?;
    }
    for head in parts_of(resolved, chunked).filter(|h| !h.part.starts().is_empty()) {
        add_starts(None, vec![head], range_ms, &mut starts)?;
    }
    starts.sort_unstable();
    let series = SeriesSamples {
        labels: chunked.labels.clone(),
        floats: FloatColumns {
            timestamps: column.times.clone(),
            values,
        },
        histograms: Vec::new(),
        start_timestamps: starts,
        forms: Default::default(),
        rolled: None,
    };
    Ok((series, gathered))
}

fn add_starts(
    stored: Option<&Chunk>,
    head: Vec<HeadPart<'_>>,
    (start_ms, end_ms): (i64, i64),
    starts: &mut Vec<(i64, i64)>,
) -> Result<(), DecodeError> {
    let span = Span {
        stored: stored.into_iter().collect(),
        head,
        start_ms,
        end_ms,
    };
    span.add_starts(starts)
}

fn overlapping(
    resolved: &Resolution,
    chunked: &SeriesChunks<'_>,
    start_ms: i64,
    end_ms: i64,
) -> Result<(SeriesSamples, Samples), DecodeError> {
    let stored = stored_of(resolved, chunked)
        .map(|(bucket, chunk)| StoredPart { bucket, chunk })
        .collect();
    let head = parts_of(resolved, chunked).collect();
    let mut gathered = gather(stored, head, start_ms, end_ms)?;
    let series = SeriesSamples {
        labels: chunked.labels.clone(),
        floats: FloatColumns {
            values: std::mem::take(&mut gathered.values),
            ..FloatColumns::default()
        },
        histograms: std::mem::take(&mut gathered.histograms),
        start_timestamps: std::mem::take(&mut gathered.starts),
        forms: Default::default(),
        rolled: None,
    };
    Ok((series, gathered))
}
