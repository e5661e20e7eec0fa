//! Batches of new ids, and the records of the sources that belong to them.
//!
//! Holds always:
//! - Batches ascend and leave no id out. How large they are changes nothing of what is written.
//! - The records of a series come in the order of its sources, oldest first.

use std::collections::BTreeSet;
use std::ops::{Bound, Range};

use bytes::Bytes;
use icecore_records::{Bucket, ParsedKey, SeriesId};

use super::series_map::SeriesMap;
use super::sources::Source;
use crate::buckets::record_kind::RecordKind;
use crate::error::{Error, Result};
use crate::slate::fetch::join_bounded;
use crate::slate::read_view::{ScanKind, View};
use crate::stored::{self, SharedColumns};

/// Samples that are read at once, about: 8 MiB decoded, some ten milliseconds of work.
const BATCH_SAMPLES: u64 = 1 << 19;
const BATCH_SERIES: Range<u64> = 32..4096;

/// What a histogram, or a window of them, counts as, in samples; and a window of floats.
const HISTOGRAM_WEIGHT: u64 = 64;
const WINDOW_WEIGHT: u64 = 8;

/// Scans under way at once.
const CONCURRENT_SCANS: usize = 8;

/// Memory of columns of the sources that are kept for the next batches.
const COLUMNS_BYTES_MAX: usize = 64 << 20;

/// A record of a source.
#[derive(Clone)]
pub(super) struct SourceRecord {
    pub(super) source: usize,
    pub(super) id: SeriesId,
    pub(super) kind: RecordKind,
    pub(super) value: Bytes,
}

impl SourceRecord {
    pub(super) fn has_windows(&self) -> bool {
        matches!(
            self.kind,
            RecordKind::Windows | RecordKind::HistogramWindows
        )
    }
}

/// All records of one series of the target.
pub(super) struct SeriesRecords {
    pub(super) id: u32,
    pub(super) records: Vec<SourceRecord>,
}

/// The series of a batch.
pub(super) struct Batch {
    pub(super) series: Vec<SeriesRecords>,
    /// Per source: the shared columns that the records refer to.
    pub(super) columns: Vec<SharedColumns>,
    pub(super) bytes: usize,
}

/// Walks over the new ids.
pub(super) struct Batches<'s> {
    sources: &'s [Source],
    map: &'s SeriesMap,
    /// Per source and run: the old ids that are still to come.
    runs: Vec<(usize, Range<u32>)>,
    next: u32,
    len: u32,
    /// Per source: the columns that were read.
    columns: Vec<SharedColumns>,
}

impl<'s> Batches<'s> {
    /// All ids from `first` on.
    pub(super) fn new(sources: &'s [Source], map: &'s SeriesMap, first: u32) -> Self {
        let runs = sources.iter().enumerate().flat_map(|(at, source)| {
            let runs = source.runs.iter().cloned();
            runs.map(move |run| (at, run))
        });
        Self {
            sources,
            map,
            runs: runs.collect(),
            next: first,
            len: batch_len(sources, map.len()),
            columns: vec![SharedColumns::new(); sources.len()],
        }
    }

    /// How many ids there are.
    pub(super) fn total(&self) -> u32 {
        self.map.len()
    }

    /// Reads the next batch; `None` behind the last id.
    pub(super) async fn read(&mut self, view: &View) -> Result<Option<Batch>> {
        if self.next >= self.map.len() {
            return Ok(None);
        }
        let ids = self.next..self.next.saturating_add(self.len).min(self.map.len());
        let mut reads = Vec::new();
        for (source, old_ids) in self.old_ids(ids.end) {
            let meta = &self.sources[source].meta;
            let mut kinds = Vec::new();
            if meta.resolution_ms > 0 {
                // Those of histograms lie right behind.
                kinds.push(RecordKind::Windows);
            } else {
                kinds.push(RecordKind::Floats);
                kinds.extend(meta.has_histograms.then_some(RecordKind::Histograms));
                kinds.extend((meta.exemplars > 0).then_some(RecordKind::Exemplars));
            }
            let bucket = self.sources[source].bucket;
            for kind in kinds {
                reads.push(scan(view, source, bucket, kind, old_ids.clone()));
            }
        }
        let read = join_bounded(reads, CONCURRENT_SCANS).await?;
        let series = ids.clone().map(|id| SeriesRecords {
            id,
            records: Vec::new(),
        });
        let mut batch = Batch {
            series: series.collect(),
            columns: Vec::new(),
            bytes: 0,
        };
        for (bytes, records) in read {
            batch.bytes += bytes;
            for record in records {
                let new = self.map.new_id(record.source, record.id.0);
                let at = new.and_then(|new| new.checked_sub(ids.start));
                if let Some(series) = at.and_then(|at| batch.series.get_mut(at as usize)) {
                    series.records.push(record);
                }
            }
        }
        self.next = ids.end;
        batch.columns = self.read_columns(view, &batch.series).await?;
        Ok(Some(batch))
    }

    /// Per source and run the old ids of the new ones before `end`.
    fn old_ids(&mut self, end: u32) -> Vec<(usize, Range<u32>)> {
        let mut found = Vec::new();
        for (source, run) in &mut self.runs {
            let start = run.start;
            // Within a run new ids do not decrease; an old id without a new one belongs anywhere.
            while run.start < run.end
                && self
                    .map
                    .new_id(*source, run.start)
                    .is_none_or(|new| new < end)
            {
                run.start += 1;
            }
            if start < run.start {
                found.push((*source, start..run.start));
            }
        }
        found
    }

    /// Reads the columns that records refer to; returns those of each source.
    async fn read_columns(
        &mut self,
        view: &View,
        series: &[SeriesRecords],
    ) -> Result<Vec<SharedColumns>> {
        let mut wanted = vec![BTreeSet::new(); self.sources.len()];
        let records = series.iter().flat_map(|series| &series.records);
        for record in records.filter(|record| record.kind == RecordKind::Floats) {
            let bucket = self.sources[record.source].bucket;
            let wanted = &mut wanted[record.source];
            stored::add_referenced_columns(bucket, record.id, &record.value, wanted)?;
        }
        let held = self.columns.iter().flat_map(SharedColumns::values);
        let held: usize = held.map(|list| list.heap_bytes()).sum();
        if held > COLUMNS_BYTES_MAX {
            self.columns.iter_mut().for_each(SharedColumns::clear);
        }
        for ((source, wanted), known) in self.sources.iter().zip(&wanted).zip(&mut self.columns) {
            stored::read_columns(view, source.bucket, wanted, known).await?;
        }
        let of_batch = wanted.iter().zip(&self.columns).map(|(wanted, known)| {
            let columns = wanted
                .iter()
                .filter_map(|id| Some((*id, known.get(id)?.clone())));
            columns.collect()
        });
        Ok(of_batch.collect())
    }
}

/// Series per batch, by what a series has on average.
fn batch_len(sources: &[Source], series: u32) -> u32 {
    let metas = sources.iter().map(|source| &source.meta);
    let samples: u64 = metas
        .map(|meta| {
            let (floats, histograms) = if meta.resolution_ms > 0 {
                let windows = meta.rollup.windows.saturating_mul(WINDOW_WEIGHT);
                (windows, meta.rollup.histogram_windows)
            } else {
                (meta.float_samples, meta.histogram_samples)
            };
            floats.saturating_add(histograms.saturating_mul(HISTOGRAM_WEIGHT))
        })
        .fold(0, u64::saturating_add);
    let per_series = samples / u64::from(series.max(1));
    let len = BATCH_SAMPLES / per_series.max(1);
    len.clamp(BATCH_SERIES.start, BATCH_SERIES.end) as u32
}

/// The records of a range of old ids, with the bytes that were read.
async fn scan(
    view: &View,
    source: usize,
    bucket: Bucket,
    kind: RecordKind,
    ids: Range<u32>,
) -> Result<(usize, Vec<SourceRecord>)> {
    let key_of = |id| kind.key(bucket, SeriesId(id));
    // Up to the next id, so that what lies behind the last one's key is included.
    let range = (
        Bound::Included(key_of(ids.start)),
        Bound::Excluded(key_of(ids.end)),
    );
    let mut records = view.scan(range, ScanKind::Once).await?;
    let mut found = Vec::with_capacity(ids.len());
    let mut bytes = 0;
    let reading = || Error::store("reading samples");
    while let Some(record) = records.next().await.map_err(reading())? {
        bytes += record.key.len() + record.value.len();
        let parsed = ParsedKey::parse(&record.key)
            .map_err(Error::corrupt(format!("a key in bucket {bucket}")))?;
        // Written by a newer version, which would have to be asked what it means.
        let (id, kind) = RecordKind::of(&parsed).ok_or_else(|| {
            Error::Corrupt(
                format!("bucket {bucket} has records that this version does not know").into(),
            )
        })?;
        found.push(SourceRecord {
            source,
            id,
            kind,
            value: record.value,
        });
    }
    Ok((bytes, found))
}

#[cfg(test)]
mod tests {
    use icecore_model::BucketStart;
    use icecore_records::bucket_meta::BucketMeta;

    use super::*;

    #[test]
    fn old_ids_of_a_batch_are_ranges_of_runs() {
        let bucket = Bucket::hour(BucketStart(60));
        let sources = [
            Source::of(bucket, BucketMeta::default(), vec![0..4, 4..6]),
            Source::of(bucket, BucketMeta::default(), Vec::from([0..1, 1..1])),
        ];
        let map = SeriesMap::of(
            vec![
                vec![Some(0), None, Some(2), Some(5), Some(1), Some(2)],
                vec![Some(4)],
            ],
            6,
        );
        let mut batches = Batches::new(&sources, &map, 0);
        assert_eq!(batches.old_ids(2), [(0, 0..2), (0, 4..5)]);
        assert_eq!(batches.old_ids(4), [(0, 2..3), (0, 5..6)]);
        assert_eq!(batches.old_ids(6), [(0, 3..4), (1, 0..1)]);
        assert_eq!(batches.old_ids(6), []);
    }

    #[test]
    fn batches_are_as_large_as_series_are_small() {
        let source = |float_samples| {
            let meta = BucketMeta {
                float_samples,
                ..BucketMeta::default()
            };
            Source::of(Bucket::hour(BucketStart(60)), meta, Vec::new())
        };
        assert_eq!(batch_len(&[source(0)], 0), 4096);
        assert_eq!(batch_len(&[source(384_000), source(0)], 100), 136);
        assert_eq!(batch_len(&[source(u64::MAX), source(9)], 100), 32);
    }
}
