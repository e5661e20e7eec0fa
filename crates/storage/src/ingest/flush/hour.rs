//! The flush of hours into their bucket, and what follows when they are durable.
//!
//! Holds always:
//! - What a flush or a job that was cut off has left of a coarse bucket is deleted before the
//!   bucket is written anew: it was never listed, and nobody knows which part of it is there. In an
//!   hour it is written over (`super::ids`).

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use icecore_model::{BucketStart, CUSTOM_BUCKETS_SCHEMA, METRIC_NAME, Metadata, MetricType};
use icecore_records::{
    Bucket, MetricMeta, SeriesId, bucket_list, bucket_meta, flush_cursor, forward_index,
    inverted_index, key, series_dictionary, watermark,
};
use roaring::RoaringBitmap;
use slatedb::WriteHandle;
use tracing::debug;
use xxhash_rust::xxh3::xxh3_128;

use super::FrozenHour;
use super::assemble::{SeriesValues, assemble};
use super::batch_writer::{BatchWriter, Mode, make_durable};
use super::columns::ColumnsWriter;
use super::ids::{assign_ids, has_dictionary};
use super::log::FlushedHours;
use super::place::FlushTarget;
use crate::buckets::strip::strip_before_flush;
use crate::error::{Error, Result};
use crate::failpoint;
use crate::ingest::Ingest;
use crate::ingest::head::{Head, LabelOrder, MetadataMap, SeriesRef, families_of};

/// Series that are prepared in one go on the CPU pool.
pub(super) const SLICE_SERIES: usize = 1024;

/// Hours whose flush is written and not yet known to be durable.
pub(super) struct WrittenHours {
    /// Ascending.
    pub(super) hours: Arc<[BucketStart]>,
    target: FlushTarget,
    order: Arc<LabelOrder>,
    /// The commit.
    handle: WriteHandle,
    /// Buckets of windows that it makes out of date.
    outdated: Vec<OutdatedWindows>,
    /// How many samples the series of the bucket have, on average.
    samples_per_series: u64,
    records: u64,
    pub(super) bytes: u64,
    started: Instant,
}

/// A bucket of windows, and its hours that were written to after it was made.
type OutdatedWindows = (Bucket, BTreeSet<BucketStart>);

/// Writes what the head has frozen of some hours, which ascend, to their bucket. The caller holds
/// the flush lock.
pub(super) async fn write_hours(
    ingest: &Arc<Ingest>,
    target: FlushTarget,
    frozen: &[(BucketStart, &FrozenHour)],
) -> Result<WrittenHours> {
    let started = Instant::now();
    let bucket = target.bucket;
    let head = Arc::clone(&ingest.head);
    let series = frozen.iter().flat_map(|(_, frozen)| &frozen.series);
    let mut series: Vec<SeriesRef> = series.copied().collect();
    let in_order = move || {
        series.sort_unstable();
        series.dedup();
        LabelOrder::new(&head.index(), &series)
    };
    let order = ingest.context.pool.run(in_order).await?;
    let mut flush = BucketFlush {
        ingest,
        target,
        hours: frozen.iter().map(|(hour, _)| *hour).collect(),
        writer: BatchWriter::new(
            ingest,
            if target.listed {
                Mode::Merge
            } else {
                Mode::Put
            },
        ),
        meta: read_meta(ingest, bucket).await?,
        order: Arc::new(order),
    };
    // From the first write on. When a flush fails, the bucket stays as it is called here until one
    // succeeds: what the failed one has written is not known.
    ingest.buckets.cache().begin_change(bucket);
    flush.meta.is_overlay = target.is_overlay;
    if target.is_columns() {
        flush.writer.delete_bucket(bucket).await?;
    }
    let ids = flush.write_series().await?;
    let removed = strip_before_flush(&ingest.buckets, bucket, &flush.meta, &ids).await?;
    removed.take_from(&mut flush.meta);
    if target.is_columns() {
        let samples = frozen.iter().map(|(_, frozen)| frozen.samples).sum();
        flush.write_columns(&ids, samples).await?;
    } else {
        flush.write_samples(&ids).await?;
    }
    let outdated = flush.outdate_windows().await?;
    let handle = flush.commit(frozen).await?;
    let series = u64::from(flush.meta.next_series_id).max(1);
    Ok(WrittenHours {
        hours: flush.hours,
        target,
        order: flush.order,
        handle,
        outdated,
        samples_per_series: flush.meta.float_samples / series,
        records: flush.writer.records_written,
        bytes: flush.writer.bytes_written,
        started,
    })
}

/// Waits until hours are durable in their buckets; then the head lets go of them. They are given in
/// the order in which they were written. The caller holds the flush lock.
pub(super) async fn finish_hours(ingest: &Arc<Ingest>, written: &[WrittenHours]) -> Result<()> {
    let Some(last) = written.last() else {
        return Ok(());
    };
    make_durable(ingest, last.handle.clone()).await?;
    let elapsed_ms = ingest.context.clock.elapsed_ms();
    for written in written {
        ingest.buckets.cache().end_change(written.target.bucket);
    }
    failpoint::pass("flush.committed");
    for written in written {
        let bucket = written.target.bucket;
        let is_overlay = written.target.is_overlay;
        ingest.buckets.insert(bucket, is_overlay, &written.outdated);
        let recent = ingest.buckets.recent();
        recent.note(bucket, elapsed_ms, written.target.is_late());
        recent.note_samples(bucket, written.samples_per_series);
    }
    let head = Arc::clone(&ingest.head);
    let frozen: Vec<(Arc<[BucketStart]>, Arc<LabelOrder>)> = written
        .iter()
        .map(|written| (Arc::clone(&written.hours), Arc::clone(&written.order)))
        .collect();
    let drop_all = move || {
        for (hours, order) in frozen {
            head.drop_frozen(&hours, order.series());
        }
    };
    let dropped = ingest.context.pool.run(drop_all).await;
    // Some are dropped and some are not: a repeat would not know which.
    dropped.inspect_err(|_| {
        ingest
            .journal
            .fail("dropping flushed hours from the head ended abnormally")
    })?;
    for hour in written.iter().flat_map(|written| written.hours.iter()) {
        ingest.buckets.cache().forget_head_hour(*hour);
    }
    failpoint::pass("flush.dropped");
    report(ingest, written);
    Ok(())
}

fn report(ingest: &Ingest, written: &[WrittenHours]) {
    let metrics = &ingest.context.metrics;
    for written in written {
        let seconds = written.started.elapsed().as_secs_f64();
        let (bucket, hours) = (written.target.bucket, written.hours.len() as u64);
        metrics.flush_seconds.observe(seconds);
        metrics.flush_bytes.add(written.bytes);
        metrics.flush_records.add(written.records);
        metrics.flushed_hours.add(hours);
        debug!(
            %bucket,
            hours,
            series = written.order.series().len(),
            records = written.records,
            bytes = written.bytes,
            seconds,
            "hours flushed"
        );
        ingest.flush_log.note(FlushedHours {
            hours,
            first: bucket,
            last: bucket,
            records: written.records,
            bytes: written.bytes,
            seconds,
        });
    }
}

async fn read_meta(ingest: &Ingest, bucket: Bucket) -> Result<bucket_meta::BucketMeta> {
    let value = ingest
        .context
        .engine
        .live_view()
        .get(&key::bucket_meta(bucket))
        .await?;
    match value {
        Some(value) => {
            bucket_meta::decode(&value).map_err(Error::corrupt(format!("bucket {bucket}")))
        }
        None => Ok(bucket_meta::BucketMeta {
            min_timestamp_ms: i64::MAX,
            max_timestamp_ms: i64::MIN,
            ..Default::default()
        }),
    }
}

/// The flush of hours into one bucket.
struct BucketFlush<'i> {
    ingest: &'i Arc<Ingest>,
    target: FlushTarget,
    /// Ascending.
    hours: Arc<[BucketStart]>,
    writer: BatchWriter<'i>,
    meta: bucket_meta::BucketMeta,
    order: Arc<LabelOrder>,
}

impl BucketFlush<'_> {
    /// Writes forward index, dictionary (of an hour) and inverted index of new series; returns the
    /// id of each series in label order.
    async fn write_series(&mut self) -> Result<Arc<Vec<SeriesId>>> {
        let tombstones = self.ingest.buckets.tombstones().of(self.target.bucket);
        let erased = tombstones.as_ref().map(|tombstones| &tombstones.erased);
        let (bucket, order) = (self.target.bucket, &self.order);
        let assigned = assign_ids(self.ingest, bucket, &self.meta, erased, order).await?;
        self.meta.run_starts.extend(&assigned.run_starts);
        self.meta.next_series_id = assigned.next_id;
        let (ids, fresh) = (Arc::new(assigned.ids), Arc::new(assigned.unindexed));
        let left_over = assigned.left_over;
        let mut fingerprints: Vec<(u128, SeriesId)> = Vec::with_capacity(fresh.len());
        for slice in slices(fresh.len()) {
            let (head, order) = (Arc::clone(&self.ingest.head), Arc::clone(&self.order));
            let (ids, fresh) = (Arc::clone(&ids), Arc::clone(&fresh));
            let hours = Arc::clone(&self.hours);
            let prepare = move || forward_records(&head, &hours, &order, &ids, &fresh[slice]);
            for (id, fingerprint, value) in self.ingest.context.pool.run(prepare).await? {
                if has_dictionary(bucket) {
                    fingerprints.push((fingerprint, id));
                }
                self.writer.put(key::forward_index(bucket, id), value);
                if self.writer.write_if_full().await? {
                    failpoint::pass("flush.series");
                }
            }
        }
        fingerprints.sort_unstable();
        for same in fingerprints.chunk_by(|a, b| a.0 == b.0) {
            let found: Vec<SeriesId> = same.iter().map(|(_, id)| *id).collect();
            let key = key::series_dictionary(bucket, same[0].0);
            self.writer.add(key, series_dictionary::encode(&found));
            if self.writer.write_if_full().await? {
                failpoint::pass("flush.series");
            }
        }
        drop(fingerprints);
        self.writer.write_out().await?;
        failpoint::pass("flush.series");
        let (head, order) = (Arc::clone(&self.ingest.head), Arc::clone(&self.order));
        let (ids_of_new, fresh) = (Arc::clone(&ids), Arc::clone(&fresh));
        let prepare = move || postings(&head, &order, bucket, &ids_of_new, &fresh);
        for (key, value) in self.ingest.context.pool.run(prepare).await? {
            self.writer.add(key, value);
            if self.writer.write_if_full().await? {
                failpoint::pass("flush.index");
            }
        }
        self.writer.write_out().await?;
        let prepare = move || left_over_postings(bucket, &left_over);
        for (key, value) in self.ingest.context.pool.run(prepare).await? {
            // Also in a fresh bucket: what was put above stays.
            self.writer.merge(key, value);
            if self.writer.write_if_full().await? {
                failpoint::pass("flush.index");
            }
        }
        self.writer.write_out().await?;
        failpoint::pass("flush.index");
        Ok(ids)
    }

    /// Writes streams, starts, histograms and exemplars in key order.
    async fn write_samples(&mut self, ids: &Arc<Vec<SeriesId>>) -> Result<()> {
        let bucket = self.target.bucket;
        let mut by_id: Vec<usize> = (0..ids.len()).collect();
        by_id.sort_unstable_by_key(|at| ids[*at]);
        let mut side_records = Vec::new();
        for slice in by_id.chunks(SLICE_SERIES) {
            for (at, mut assembled) in self.assemble(slice.to_vec()).await? {
                let id = ids[at];
                self.override_stored(id, &mut assembled).await?;
                self.count(&assembled);
                if !assembled.stream.is_empty() {
                    let stream = std::mem::take(&mut assembled.stream);
                    let value = self.target.samples_value(stream);
                    self.writer.add(key::time_series(bucket, id), value);
                }
                if let Some(starts) = assembled.starts_value() {
                    self.writer.add(key::time_series_starts(bucket, id), starts);
                }
                if self.writer.write_if_full().await? {
                    failpoint::pass("flush.samples");
                }
                if let Some(value) = assembled.histograms_value() {
                    side_records.push((key::histogram_series(bucket, id), value));
                }
                if let Some(value) = assembled.exemplars_value() {
                    side_records.push((key::exemplar_series(bucket, id), value));
                }
            }
        }
        side_records.sort_unstable();
        for (key, value) in side_records {
            self.writer.add(key, value);
            if self.writer.write_if_full().await? {
                failpoint::pass("flush.samples");
            }
        }
        self.writer.write_out().await?;
        failpoint::pass("flush.samples");
        Ok(())
    }

    /// Writes the same as columns, of a bucket in which nothing is yet.
    async fn write_columns(&mut self, ids: &Arc<Vec<SeriesId>>, samples: u64) -> Result<()> {
        let mut columns = ColumnsWriter {
            ingest: self.ingest,
            bucket: self.target.bucket,
            hours: &self.hours,
            order: &self.order,
            ids,
        };
        columns
            .write(&mut self.writer, &mut self.meta, samples)
            .await?;
        failpoint::pass("flush.samples");
        Ok(())
    }

    async fn assemble(&self, slice: Vec<usize>) -> Result<Vec<(usize, SeriesValues)>> {
        let (head, order) = (Arc::clone(&self.ingest.head), Arc::clone(&self.order));
        let hours = Arc::clone(&self.hours);
        let work = move || {
            let series = slice.iter().map(|at| order.series()[*at]);
            let mut frozen = head.frozen(&hours, series).into_iter().peekable();
            // Series without a frozen part are left out, so each is matched by what it is.
            let of_place = |at: usize| {
                let (_, parts) = frozen.next_if(|(series, _)| *series == order.series()[at])?;
                Some((at, assemble(&parts)?))
            };
            slice.iter().copied().filter_map(of_place).collect()
        };
        self.ingest.context.pool.run(work).await
    }

    /// What is written now beats what the bucket holds at the same times: where a float takes the
    /// place of a stored histogram, or a sample without start that of one with, this must be said.
    async fn override_stored(&self, id: SeriesId, assembled: &mut SeriesValues) -> Result<()> {
        let view = self.ingest.context.engine.live_view();
        if self.meta.has_histograms
            && let Some(stored) = view
                .get(&key::histogram_series(self.target.bucket, id))
                .await?
        {
            assembled.beat_stored_histograms(&self.target.stored_histograms(&stored));
        }
        if self.meta.has_start_timestamps
            && let Some(stored) = view
                .get(&key::time_series_starts(self.target.bucket, id))
                .await?
        {
            assembled.beat_stored_starts(&stored);
        }
        Ok(())
    }

    fn count(&mut self, assembled: &SeriesValues) {
        let meta = &mut self.meta;
        meta.float_samples += assembled.float_count();
        meta.histogram_samples += assembled.histogram_count();
        meta.exemplars += assembled.exemplars.len() as u64;
        meta.min_timestamp_ms = meta.min_timestamp_ms.min(assembled.first_ms);
        meta.max_timestamp_ms = meta.max_timestamp_ms.max(assembled.last_ms);
    }

    /// Says, in the batch of the commit, that windows of the hours are out of date.
    async fn outdate_windows(&mut self) -> Result<Vec<OutdatedWindows>> {
        let mut around: BTreeMap<Bucket, Vec<BucketStart>> = BTreeMap::new();
        {
            let levels = self.ingest.buckets.levels();
            // What is all that is left is not out of date: samples of its time are refused, or an
            // overlay that readers merge with it.
            let is_remade =
                |bucket: &Bucket| levels.facts(*bucket).is_some_and(|f| !f.sources_gone);
            for hour in self.hours.iter() {
                for bucket in levels.rolled_around(*hour).filter(is_remade) {
                    around.entry(bucket).or_default().push(*hour);
                }
            }
        }
        let mut outdated = Vec::with_capacity(around.len());
        for (bucket, hours) in around {
            let mut meta = read_meta(self.ingest, bucket).await?;
            let mut dirty: BTreeSet<BucketStart> =
                meta.dirty_hours.iter().copied().map(BucketStart).collect();
            dirty.extend(hours);
            meta.dirty_hours = dirty.iter().map(|hour| hour.minutes()).collect();
            let value = bucket_meta::encode(&meta).into();
            self.writer.put(key::bucket_meta(bucket), value);
            outdated.push((bucket, dirty));
        }
        Ok(outdated)
    }

    /// The last batch: once it is durable the bucket is listed and holds everything up to the
    /// cursors.
    async fn commit(&mut self, frozen: &[(BucketStart, &FrozenHour)]) -> Result<WriteHandle> {
        failpoint::pass("flush.before_commit");
        // These flags steer what the next flush looks up, so they count what this one wrote.
        self.meta.has_histograms = self.meta.histogram_samples > 0;
        self.meta.has_start_timestamps |= self.writer.wrote_starts;
        self.target.note_late(&self.hours, &mut self.meta);
        let mark = self.ingest.head.watermark();
        let (writer, target) = (&mut self.writer, self.target);
        let meta = bucket_meta::encode(&self.meta).into();
        if !target.listed {
            let listed = bucket_list::encode(&BTreeSet::from([target.bucket]));
            writer.merge(key::bucket_list(), listed);
        }
        writer.put(key::bucket_meta(target.bucket), meta);
        // By hour, wherever its samples lie: a replay knows hours only.
        for (hour, frozen) in frozen {
            let cursor = flush_cursor::encode(frozen.cursor);
            writer.put(key::flush_cursor(Bucket::hour(*hour)), cursor);
        }
        writer.put(key::journal_watermark(), watermark::encode(mark));
        let written = writer.write().await?;
        Ok(written.expect("the batch holds a cursor at least"))
    }
}

fn slices(len: usize) -> impl Iterator<Item = std::ops::Range<usize>> {
    (0..len)
        .step_by(SLICE_SERIES)
        .map(move |at| at..(at + SLICE_SERIES).min(len))
}

/// Forward records of new series (given by their place in label order), with their fingerprints.
fn forward_records(
    head: &Head,
    hours: &[BucketStart],
    order: &LabelOrder,
    ids: &[SeriesId],
    fresh: &[usize],
) -> Vec<(SeriesId, u128, Bytes)> {
    let index = head.index();
    let metadata = head.metadata.read();
    let mut pairs = Vec::new();
    let records = fresh.iter().map(|at| {
        index.sorted_pairs(order.series()[*at], &mut pairs);
        let name = pairs
            .iter()
            .find(|(name, _)| *name == METRIC_NAME)
            .map_or("", |pair| pair.1);
        let known = metadata_of(&metadata, name);
        let unit = known.map_or("", |m| m.unit.as_str());
        let meta = known.map(|known| {
            let histogram = known.metric_type == MetricType::Histogram;
            let exponential = histogram && has_exponential(head, hours, order.series()[*at]);
            MetricMeta::of(known, exponential)
        });
        let meta = meta.unwrap_or_default();
        let mut value = Vec::with_capacity(256);
        forward_index::encode_into(&mut value, unit, meta, pairs.iter().copied());
        let bindings = forward_index::label_bindings(&value).expect("the record was just encoded");
        (ids[*at], bindings_fingerprint(bindings), Bytes::from(value))
    });
    records.collect()
}

/// Whether a series has native histograms with exponential buckets in what is being flushed.
fn has_exponential(head: &Head, hours: &[BucketStart], series: SeriesRef) -> bool {
    let found = head.frozen(hours, std::iter::once(series));
    let parts = found.iter().flat_map(|(_, parts)| parts);
    let mut entries = parts.flat_map(|part| &part.histograms);
    entries.any(|entry| {
        let histogram = entry.value.as_ref();
        histogram.is_some_and(|histogram| histogram.schema != CUSTOM_BUCKETS_SCHEMA)
    })
}

/// `Labels::fingerprint` of stored labels: they are hashed as they are stored, without the count.
pub(super) fn bindings_fingerprint(bindings: &[u8]) -> u128 {
    xxh3_128(bindings.get(2..).unwrap_or_default())
}

/// Inverted index records of new series, in key order.
fn postings(
    head: &Head,
    order: &LabelOrder,
    bucket: Bucket,
    ids: &[SeriesId],
    fresh: &[usize],
) -> Vec<(Bytes, Bytes)> {
    let mut lists: Vec<RoaringBitmap> = vec![RoaringBitmap::new(); order.pairs().len()];
    for at in fresh {
        for rank in order.ranks(*at) {
            lists[*rank as usize].insert(ids[*at].0);
        }
    }
    let index = head.index();
    let named = order
        .pairs()
        .iter()
        .zip(lists)
        .filter(|(_, list)| !list.is_empty());
    let records = named.map(|(pair, mut list)| {
        let (name, value) = index.pair(*pair);
        (
            key::inverted_index(bucket, name, value),
            inverted_index::encode(&mut list),
        )
    });
    records.collect()
}

/// The posting lists of series that a flush which was cut off has left, by their forward records.
fn left_over_postings(bucket: Bucket, left_over: &[(SeriesId, Bytes)]) -> Vec<(Bytes, Bytes)> {
    let mut lists: BTreeMap<Bytes, RoaringBitmap> = BTreeMap::new();
    for (id, forward) in left_over {
        let labels =
            forward_index::label_bindings(forward).and_then(forward_index::decode_bindings);
        // What cannot be read has no samples either: its own flush gives it a new id.
        let Ok(labels) = labels else { continue };
        for (name, value) in labels.iter() {
            let key = key::inverted_index(bucket, name, value);
            lists.entry(key).or_default().insert(id.0);
        }
    }
    let records = lists.into_iter();
    records
        .map(|(key, mut list)| (key, inverted_index::encode(&mut list)))
        .collect()
}

/// What is known of a metric.
fn metadata_of<'m>(metadata: &'m MetadataMap, name: &str) -> Option<&'m Metadata> {
    let known = families_of(name).find_map(|family| metadata.get(family));
    known.map(|known| &known.metadata)
}
