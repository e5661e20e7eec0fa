//! A selection: series resolved once, samples streamed in batches.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use icecore_model::{
    BoxFuture, Labels, Matcher, SelectHints, Selection, SeriesSamples, SeriesStream, SourceError,
};
use icecore_records::bucket_meta::{self, BucketMeta};
use icecore_records::{Bucket, SeriesId, forward_index, key};
use rayon::prelude::*;

use super::fetch::{Fetched, fetch};
use super::postings::{corrupt, resolve};
use super::samples::{SeriesParts, StoredHour, decode_series};
use super::{buckets_in, join_bounded};
use crate::error::{Error, Result};
use crate::head::HourPart;
use crate::inner::Inner;
use crate::slate::read_view::View;

/// Buckets that are resolved at once.
const CONCURRENT_BUCKETS: usize = 8;

/// A stream begins with few series, because a long range may have many samples of each.
const FIRST_BATCH_SERIES: usize = 64;

/// Samples that a batch should have, about: the memory of a stream does not depend on its range.
const BATCH_SAMPLES: usize = 1 << 20;

/// The suffix of a series' key under which its start timestamps lie.
const STARTS_SUFFIX: u8 = 1;

/// A consistent view with the series that match.
pub(crate) struct Resolved {
    view: View,
    buckets: Vec<(Bucket, BucketMeta)>,
    /// In label order.
    pub(crate) series: Vec<ResolvedSeries>,
}

pub(crate) struct ResolvedSeries {
    pub(crate) labels: Labels,
    head: Vec<HourPart>,
    /// `(index of the bucket, id in it)`, oldest bucket first.
    stored: Vec<(u32, SeriesId)>,
}

/// Resolves matchers over head and buckets.
pub(crate) async fn resolve_series(
    inner: &Arc<Inner>,
    matchers: &[Matcher],
    start_ms: i64,
    end_ms: i64,
    hints: &SelectHints,
) -> Result<Resolved> {
    let (head, wanted, labels_only) = (
        Arc::clone(&inner.head),
        matchers.to_vec(),
        hints.labels_only,
    );
    let in_head = inner
        .pool
        .run(move || head.select(&wanted, start_ms, end_ms, labels_only))
        .await?;
    let buckets = buckets_in(inner, start_ms, end_ms);
    let view = inner.engine.snapshot()?;
    let gets = inner.options.read.concurrent_gets;
    let mut searches = Vec::with_capacity(buckets.len());
    for bucket in buckets {
        searches.push(resolve_bucket(&view, bucket, matchers, gets));
    }
    let found = join_bounded(searches, CONCURRENT_BUCKETS).await?;
    let series_max = inner.options.read.series_max;
    let limit = hints.series_limit;
    let unite = move || unite(in_head, found, series_max, limit);
    let (buckets, series) = inner.pool.run(unite).await??;
    Ok(Resolved {
        view,
        buckets,
        series,
    })
}

/// The matching ids of one bucket with the bytes of their labels.
async fn resolve_bucket(
    view: &View,
    bucket: Bucket,
    matchers: &[Matcher],
    gets: usize,
) -> Result<(Bucket, BucketMeta, Vec<(SeriesId, Bytes)>)> {
    let meta = read_bucket_meta(view, bucket).await?;
    let ids = resolve(view, bucket, matchers, meta.next_series_id, gets).await?;
    let ids: Vec<u32> = ids.iter().collect();
    let records = fetch(view, &ids, |id| key::forward_index(bucket, id), false, gets).await?;
    let mut found = Vec::with_capacity(records.len());
    for Fetched { id, value, .. } in records {
        let bindings = forward_index::label_bindings(&value)
            .map_err(|cause| corrupt(&key::forward_index(bucket, id), cause))?;
        found.push((id, value.slice_ref(bindings)));
    }
    Ok((bucket, meta, found))
}

pub(crate) async fn read_bucket_meta(view: &View, bucket: Bucket) -> Result<BucketMeta> {
    let key = key::bucket_meta(bucket);
    match view.get(&key).await? {
        Some(value) => bucket_meta::decode(&value).map_err(|cause| corrupt(&key, cause)),
        None => Err(Error::Corrupt(format!(
            "bucket {} is listed but has no BucketMeta",
            bucket.start
        ))),
    }
}

type FoundInBucket = (Bucket, BucketMeta, Vec<(SeriesId, Bytes)>);

/// Buckets, and series that refer to them by index.
type UnitedSeries = (Vec<(Bucket, BucketMeta)>, Vec<ResolvedSeries>);

/// One entry per label set, sorted.
fn unite(
    in_head: Vec<crate::head::HeadSeries>,
    in_buckets: Vec<FoundInBucket>,
    series_max: usize,
    limit: Option<usize>,
) -> Result<UnitedSeries> {
    let mut series: Vec<ResolvedSeries> = Vec::with_capacity(in_head.len());
    let mut by_labels: HashMap<Labels, usize> = HashMap::with_capacity(in_head.len());
    // Most series are in many buckets under the same bytes: those are decoded once.
    let mut by_bytes: HashMap<Bytes, usize> = HashMap::new();
    let too_many = || {
        Error::LimitReached(format!(
            "the selection matches more than {series_max} series (read.series_max)"
        ))
    };
    for found in in_head {
        by_labels.insert(found.labels.clone(), series.len());
        series.push(ResolvedSeries {
            labels: found.labels,
            head: found.parts,
            stored: Vec::new(),
        });
    }
    let mut buckets = Vec::with_capacity(in_buckets.len());
    for (at, (bucket, meta, found)) in in_buckets.into_iter().enumerate() {
        for (id, bindings) in found {
            let place = match by_bytes.get(&bindings) {
                Some(place) => *place,
                None => {
                    let labels = forward_index::decode_bindings(&bindings)
                        .map_err(|cause| corrupt(&key::forward_index(bucket, id), cause))?;
                    let place = *by_labels.entry(labels.clone()).or_insert(series.len());
                    if place == series.len() {
                        series.push(ResolvedSeries {
                            labels,
                            head: Vec::new(),
                            stored: Vec::new(),
                        });
                    }
                    // A copy: the slice would keep a whole block in memory.
                    by_bytes.insert(Bytes::copy_from_slice(&bindings), place);
                    place
                }
            };
            series[place].stored.push((at as u32, id));
        }
        if series.len() > series_max {
            return Err(too_many());
        }
        buckets.push((bucket, meta));
    }
    if series.len() > series_max {
        return Err(too_many());
    }
    series.par_sort_unstable_by(|a, b| a.labels.cmp(&b.labels));
    series.truncate(limit.unwrap_or(usize::MAX));
    Ok((buckets, series))
}

/// The samples of a selection, batch by batch.
pub(crate) struct SelectStream {
    inner: Arc<Inner>,
    view: View,
    buckets: Vec<(Bucket, BucketMeta)>,
    series: std::vec::IntoIter<ResolvedSeries>,
    start_ms: i64,
    end_ms: i64,
    samples_left: usize,
    samples_limit: usize,
    labels_only: bool,
    /// Series of the next batch.
    batch_series: usize,
}

impl SelectStream {
    pub(crate) async fn open(inner: &Arc<Inner>, selection: Selection) -> Result<Self> {
        let Selection {
            matchers,
            start_ms,
            end_ms,
            hints,
        } = selection;
        let resolved = resolve_series(inner, &matchers, start_ms, end_ms, &hints).await?;
        inner.metrics.selections.add(1);
        let samples_max = inner.options.read.samples_max;
        let samples_limit = hints
            .samples_limit
            .map_or(samples_max, |limit| limit.min(samples_max));
        Ok(Self {
            inner: Arc::clone(inner),
            view: resolved.view,
            buckets: resolved.buckets,
            series: resolved.series.into_iter(),
            start_ms,
            end_ms,
            samples_left: samples_limit,
            samples_limit,
            labels_only: hints.labels_only,
            batch_series: FIRST_BATCH_SERIES.min(inner.options.read.batch_series),
        })
    }

    pub(crate) async fn next(&mut self) -> Result<Option<Vec<SeriesSamples>>> {
        let batch: Vec<ResolvedSeries> = self.series.by_ref().take(self.batch_series).collect();
        if batch.is_empty() {
            return Ok(None);
        }
        let stored = if self.labels_only {
            Vec::new()
        } else {
            self.read_stored(&batch).await?
        };
        let (start_ms, end_ms) = (self.start_ms, self.end_ms);
        let decode = move || decode_batch(batch, stored, start_ms, end_ms);
        let (series, from_buckets) = self.inner.pool.run(decode).await??;
        let samples: usize = series.iter().map(SeriesSamples::sample_count).sum();
        self.inner.metrics.samples_read.add(samples as u64);
        self.inner.metrics.bucket_samples_read.add(from_buckets);
        if samples > self.samples_left {
            let limit = self.samples_limit;
            return Err(Error::LimitReached(format!(
                "the selection has more than {limit} samples (read.samples_max)"
            )));
        }
        self.samples_left -= samples;
        let per_series = (samples / series.len().max(1)).max(1);
        let wanted = (BATCH_SAMPLES / per_series).max(1);
        self.batch_series = wanted.min(self.inner.options.read.batch_series);
        Ok(Some(series))
    }

    /// What buckets hold of a batch: per series, oldest first.
    async fn read_stored(&self, batch: &[ResolvedSeries]) -> Result<Vec<Vec<StoredHour>>> {
        let mut ids: Vec<Vec<(SeriesId, usize)>> = vec![Vec::new(); self.buckets.len()];
        for (at, series) in batch.iter().enumerate() {
            for (bucket, id) in &series.stored {
                ids[*bucket as usize].push((*id, at));
            }
        }
        let mut stored: Vec<Vec<StoredHour>> = batch.iter().map(|_| Vec::new()).collect();
        let mut reads = Vec::with_capacity(ids.len());
        for ((bucket, meta), ids) in self.buckets.iter().zip(ids) {
            reads.push(self.read_bucket(*bucket, meta, ids));
        }
        let read = join_bounded(reads, CONCURRENT_BUCKETS).await?;
        for (at, hour) in read.into_iter().flatten() {
            stored[at].push(hour);
        }
        Ok(stored)
    }

    async fn read_bucket(
        &self,
        bucket: Bucket,
        meta: &BucketMeta,
        mut wanted: Vec<(SeriesId, usize)>,
    ) -> Result<Vec<(usize, StoredHour)>> {
        wanted.sort_unstable();
        let ids: Vec<u32> = wanted.iter().map(|(id, _)| id.0).collect();
        let place = |id: SeriesId| {
            let at = wanted.partition_point(|(wanted, _)| *wanted < id);
            wanted[at].1
        };
        let gets = self.inner.options.read.concurrent_gets;
        let mut hours: HashMap<usize, StoredHour> = HashMap::with_capacity(ids.len());
        let starts = meta.has_start_timestamps;
        let key_of = |id| key::time_series(bucket, id);
        for record in fetch(&self.view, &ids, key_of, starts, gets).await? {
            let hour = hours
                .entry(place(record.id))
                .or_insert_with(|| StoredHour::new(bucket));
            match record.suffix {
                0 => hour.stream = record.value,
                STARTS_SUFFIX => hour.starts = record.value,
                // Written by a newer version; nothing that this one needs.
                _ => {}
            }
        }
        if meta.has_histograms {
            let key_of = |id| key::histogram_series(bucket, id);
            for record in fetch(&self.view, &ids, key_of, false, gets).await? {
                let hour = hours
                    .entry(place(record.id))
                    .or_insert_with(|| StoredHour::new(bucket));
                hour.histograms = record.value;
            }
        }
        Ok(hours.into_iter().collect())
    }
}

fn decode_batch(
    batch: Vec<ResolvedSeries>,
    mut stored: Vec<Vec<StoredHour>>,
    start_ms: i64,
    end_ms: i64,
) -> Result<(Vec<SeriesSamples>, u64)> {
    stored.resize_with(batch.len(), Vec::new);
    let decoded: Result<Vec<(SeriesSamples, u64)>> = batch
        .into_par_iter()
        .zip(stored)
        .map(|(series, stored)| {
            let parts = SeriesParts {
                labels: series.labels,
                head: series.head,
                stored,
            };
            decode_series(parts, start_ms, end_ms)
        })
        .collect();
    let (series, counts): (Vec<_>, Vec<u64>) = decoded?.into_iter().unzip();
    Ok((series, counts.iter().sum()))
}

impl SeriesStream for SelectStream {
    fn next_batch(&mut self) -> BoxFuture<'_, Result<Option<Vec<SeriesSamples>>, SourceError>> {
        Box::pin(async move { self.next().await.map_err(SourceError::from) })
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
