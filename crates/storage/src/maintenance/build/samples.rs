//! Samples, histograms, starts and exemplars of the target, batch by batch.
//!
//! ```text
//! read a batch ─► unite (parallel) ─► choose columns (in order of ids)
//!              ─► encode, compare (parallel) ─► put
//! ```
//!
//! Holds always:
//! - CPU work is done on the pool, in slices that take bounded memory.
//! - After an interruption the decisions about columns are made once more over what is written, so
//!   that the rest comes out as if there had been none.

use std::sync::Arc;

use icecore_records::coarse_samples;
use icecore_records::maintenance_job::{Counts, Phase};
use icecore_records::{Bucket, ParsedKey, RecordType, SeriesId, key};
use rayon::prelude::*;

use super::super::pace::Watch;
use super::batches::{Batch, Batches, SeriesRecords};
use super::series::{EncodedSeries, unite, weight};
use super::writer::JobWriter;
use crate::buckets::time_columns::{ColumnTable, WrittenColumns};
use crate::buckets::united::encode_all;
use crate::error::{Error, Result};
use crate::maintenance::Maintenance;
use crate::slate::read_view::ScanKind;

/// Samples that are decoded at once: 32 MiB.
const SLICE_SAMPLES: usize = 1 << 21;

/// Records of the target that are looked at in one go when a job goes on.
const REPLAY_RECORDS: usize = 1024;

/// Writes what `build` makes of batches, one after the other. What it decides for one batch is
/// given to it with the next.
pub(super) async fn write_batches<S: Send + 'static>(
    maintenance: &Arc<Maintenance>,
    watch: &Watch,
    batches: &mut Batches<'_>,
    mut decided: S,
    build: impl Fn(Batch, S) -> Result<(Vec<EncodedSeries>, S)> + Clone + Send + 'static,
    writer: &mut JobWriter<'_>,
) -> Result<()> {
    let view = maintenance.context.engine.live_view();
    let mut next = batches.read(&view).await?;
    while let Some(batch) = next.take() {
        writer.job.counts.bytes_read += batch.bytes as u64;
        watch.read(batch.bytes).await?;
        let build = build.clone();
        let work = move || build(batch, decided);
        // The next batch is read while the pool works on this one.
        let (built, read) =
            tokio::join!(maintenance.context.job_pool.run(work), batches.read(&view));
        let (encoded, after) = built??;
        (decided, next) = (after, read?);
        let mut done = 0;
        for series in encoded {
            done = series.id + 1;
            put(writer, series);
            writer.reached(Phase::Samples { next_id: done }).await?;
        }
        watch.phase("samples", done.into(), batches.total().into());
    }
    Ok(())
}

fn put(writer: &mut JobWriter<'_>, series: EncodedSeries) {
    for (key, value) in series.records {
        writer.put(key, value);
    }
    let counts: &mut Counts = &mut writer.job.counts;
    counts.floats_read += series.floats_read;
    counts.floats += series.floats;
    counts.histograms += series.histograms;
    counts.exemplars += series.exemplars;
    counts.windows += series.windows;
    counts.histogram_windows += series.histogram_windows;
    counts.has_start_timestamps |= series.has_starts;
    if let Some((first, last)) = series.range_ms {
        counts.min_timestamp_ms = counts.min_timestamp_ms.min(first);
        counts.max_timestamp_ms = counts.max_timestamp_ms.max(last);
    }
}

/// The CPU part of a batch whose samples stay what they are.
pub(super) fn coarsen_batch(
    target: Bucket,
    sources: &[Bucket],
    batch: Batch,
    mut table: ColumnTable,
) -> Result<(Vec<EncodedSeries>, ColumnTable)> {
    let mut encoded = Vec::with_capacity(batch.series.len());
    let mut rest = &batch.series[..];
    while !rest.is_empty() {
        let (slice, behind) = rest.split_at(slice_len(sources, rest)?);
        rest = behind;
        let united = slice.par_iter().map(|s| unite(sources, &batch.columns, s));
        let united = united.collect::<Result<Vec<_>>>()?;
        encoded.extend(encode_all(target, &united, &mut table)?);
    }
    Ok((encoded, table))
}

/// How many of the series are decoded at once: at least one.
fn slice_len(sources: &[Bucket], series: &[SeriesRecords]) -> Result<usize> {
    let mut room = SLICE_SAMPLES;
    for (at, series) in series.iter().enumerate() {
        let weight = weight(sources, series)?;
        if at > 0 && weight > room {
            return Ok(at);
        }
        room = room.saturating_sub(weight);
    }
    Ok(series.len())
}

/// The decisions about columns as they stand before the series `first`. Fails with
/// [`Error::Corrupt`] where what is written contradicts them.
pub(super) async fn columns_before(
    maintenance: &Arc<Maintenance>,
    watch: &Watch,
    target: Bucket,
    first: u32,
) -> Result<ColumnTable> {
    let mut table = ColumnTable::new(target);
    if first == 0 {
        return Ok(table);
    }
    let view = maintenance.context.engine.live_view();
    let written = Arc::new(WrittenColumns::read(&view, target).await?);
    let prefix = key::record_prefix(RecordType::TimeSeries, target);
    let mut records = view.scan_prefix(&prefix, ScanKind::Once).await?;
    let reading = || Error::store("reading what a job has written");
    loop {
        let (mut page, mut bytes) = (Vec::new(), 0);
        while page.len() < REPLAY_RECORDS
            && let Some(record) = records.next().await.map_err(reading())?
        {
            bytes += record.key.len() + record.value.len();
            if let Ok(ParsedKey::TimeSeries { series, .. }) = ParsedKey::parse(&record.key) {
                page.push((series, record.value));
            }
        }
        if page.is_empty() {
            return Ok(table);
        }
        watch.read(bytes).await?;
        let written = Arc::clone(&written);
        let work = move || {
            for (SeriesId(id), value) in page {
                written.replay(&mut table, id, &value)?;
            }
            Ok::<_, Error>(table)
        };
        table = maintenance.context.job_pool.run(work).await??;
    }
}

/// How many floats a record of the target has.
pub(super) fn count_floats(value: &[u8]) -> Option<u64> {
    match coarse_samples::parse(value).ok()? {
        coarse_samples::Part::Columns(record) => Some(record.len() as u64),
        coarse_samples::Part::Stream(_) => None,
    }
}
