//! Cleaning: what was deleted from a bucket leaves its records, and then the tombstones go.
//!
//! ```text
//! samples of series that lost ranges ─► samples of erased series ─► postings
//!     ─► forward records, dictionary ─► tombstones without all these
//! ```
//!
//! Holds always:
//! - Each batch is read and written under the flush lock, so nothing comes in between; flushes and
//!   deletions go on between batches, and what they add to the tombstones is left to the next
//!   cleaning.
//! - Erased series stay hidden until the last trace of them is gone, so a repeat after a crash goes
//!   over the same ids and finds less to do.
//! - Memory is bounded by a batch, and four bytes for each series that lost something.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use icecore_model::BucketSize;
use icecore_records::{
    Bucket, RecordType, SeriesId, forward_index, inverted_index, key, series_dictionary,
};
use roaring::RoaringBitmap;
use slatedb::WriteBatch;
use tracing::{info, warn};

use super::super::pace::Watch;
use super::in_place::InPlace;
use crate::buckets::contents;
use crate::buckets::strip::{BATCH_SERIES, add_rewrites, put_meta, strip};
use crate::buckets::tombstones::put;
use crate::error::{Error, Reason, Result};
use crate::failpoint;
use crate::maintenance::Maintenance;
use crate::slate::fetch::{fetch, join_bounded};
use crate::slate::read_view::{ScanKind, View};

/// What is said of a store that fails meanwhile.
const CLEANING: &str = "removing what was deleted";

/// Postings that are looked through in one go, and their bytes.
const PAGE_RECORDS: usize = 2048;
const PAGE_BYTES: usize = 1 << 20;

/// Cleans all buckets that have tombstones now. One that cannot be cleaned does not keep the others
/// from it; its failure is returned.
pub(crate) async fn clean_all(maintenance: &Arc<Maintenance>, watch: &Watch) -> Result<()> {
    let mut result = Ok(());
    for bucket in maintenance.buckets.tombstones().buckets() {
        match clean_bucket(maintenance, bucket, watch).await {
            Ok(()) => {}
            Err(cause @ (Error::Closed(_) | Error::Store { .. })) => return Err(cause),
            Err(cause) => {
                warn!(%bucket, %cause, "cannot clean deleted samples from a bucket");
                result = result.and(Err(cause));
            }
        }
    }
    result
}

/// Cleans a bucket, if it has tombstones.
pub(crate) async fn clean_bucket(
    maintenance: &Arc<Maintenance>,
    bucket: Bucket,
    watch: &Watch,
) -> Result<()> {
    let Some(tombstones) = maintenance.buckets.tombstones().of(bucket) else {
        return Ok(());
    };
    let started = std::time::Instant::now();
    let cleaning = Cleaning {
        maintenance,
        bucket,
        watch,
        erased: Arc::new(tombstones.erased.clone()),
    };
    let shortened: Vec<u32> = tombstones.in_ranges().iter().collect();
    for ids in shortened.chunks(BATCH_SERIES) {
        cleaning.shorten(ids).await?;
    }
    let erased: Vec<u32> = tombstones.erased.iter().collect();
    for ids in erased.chunks(BATCH_SERIES) {
        cleaning.remove_samples(ids).await?;
    }
    if !erased.is_empty() {
        cleaning.remove_postings().await?;
    }
    for ids in erased.chunks(BATCH_SERIES) {
        cleaning.remove_series(ids).await?;
    }
    cleaning.finish().await?;
    info!(
        %bucket,
        shortened = shortened.len(),
        erased = erased.len(),
        seconds = started.elapsed().as_secs_f64(),
        "deleted samples cleaned from bucket"
    );
    maintenance.context.metrics.cleaned_buckets.add(1);
    Ok(())
}

struct Cleaning<'i> {
    maintenance: &'i Arc<Maintenance>,
    bucket: Bucket,
    watch: &'i Watch,
    /// The series that are erased, as they were known at the begin.
    erased: Arc<RoaringBitmap>,
}

impl Cleaning<'_> {
    /// Takes what series lost out of their records.
    async fn shorten(&self, ids: &[u32]) -> Result<()> {
        let step = InPlace::begin(self.maintenance, self.bucket).await;
        let (buckets, meta) = (&self.maintenance.buckets, step.meta().await?);
        buckets.cache().begin_change(self.bucket);
        strip(buckets, self.bucket, &meta, ids, true).await?;
        buckets.cache().end_change(self.bucket);
        failpoint::pass("clean.samples");
        drop(step);
        self.watch.wrote(ids.len()).await
    }

    /// Deletes the samples of erased series.
    async fn remove_samples(&self, ids: &[u32]) -> Result<()> {
        let (maintenance, bucket) = (self.maintenance, self.bucket);
        let step = InPlace::begin(maintenance, bucket).await;
        let meta = step.meta().await?;
        let buckets = &maintenance.buckets;
        let contents = contents::read(buckets, &step.view, bucket, &meta, ids).await?;
        let work = move || contents.nothing();
        let (rewrites, removed) = maintenance.context.job_pool.run(work).await?;
        if !rewrites.is_empty() {
            let mut batch = WriteBatch::new();
            add_rewrites(&mut batch, rewrites);
            put_meta(&mut batch, bucket, &meta, removed);
            step.write(CLEANING, batch).await?;
        }
        failpoint::pass("clean.samples");
        drop(step);
        self.watch.wrote(ids.len()).await
    }

    /// Takes erased series out of all postings.
    async fn remove_postings(&self) -> Result<()> {
        let mut next = Some(key::record_prefix(RecordType::InvertedIndex, self.bucket));
        while let Some(first) = next.take() {
            let step = InPlace::begin(self.maintenance, self.bucket).await;
            let (page, after) = self.postings(&step.view, first).await?;
            next = after;
            let bytes: usize = page.iter().map(|(k, v)| k.len() + v.len()).sum();
            let erased = Arc::clone(&self.erased);
            let work = move || without_erased(page, &erased);
            let rewrites = self.maintenance.context.job_pool.run(work).await??;
            if !rewrites.is_empty() {
                let mut batch = WriteBatch::new();
                add_rewrites(&mut batch, rewrites);
                step.write(CLEANING, batch).await?;
            }
            failpoint::pass("clean.index");
            drop(step);
            self.watch.read(bytes).await?;
        }
        Ok(())
    }

    /// A page of postings, and where the next one begins.
    async fn postings(
        &self,
        view: &View,
        first: Bytes,
    ) -> Result<(Vec<(Bytes, Bytes)>, Option<Bytes>)> {
        let prefix = key::record_prefix(RecordType::InvertedIndex, self.bucket);
        let end = crate::slate::fetch::successor(&prefix);
        let range = (
            Bound::Included(first),
            end.map_or(Bound::Unbounded, Bound::Excluded),
        );
        let mut records = view.scan(range, ScanKind::Once).await?;
        let (mut page, mut bytes) = (Vec::new(), 0);
        let reading = || Error::store("reading postings");
        while let Some(record) = records.next().await.map_err(reading())? {
            if page.len() >= PAGE_RECORDS || bytes >= PAGE_BYTES {
                return Ok((page, Some(record.key)));
            }
            bytes += record.key.len() + record.value.len();
            page.push((record.key, record.value));
        }
        Ok((page, None))
    }

    /// Deletes the forward records of erased series, and their places in the dictionary.
    async fn remove_series(&self, ids: &[u32]) -> Result<()> {
        let (maintenance, bucket) = (self.maintenance, self.bucket);
        let step = InPlace::begin(maintenance, bucket).await;
        let view = &step.view;
        let gets = maintenance.context.options.read.concurrent_gets;
        let key_of = |id| key::forward_index(bucket, id);
        let records = fetch(view, ids, key_of, false, gets).await?;
        let mut batch = WriteBatch::new();
        if bucket.size == BucketSize::HOUR {
            let mut wanted: BTreeMap<u128, Bytes> = BTreeMap::new();
            for record in &records {
                // Who cannot be read cannot be looked up either; the dictionary may name nobody.
                if let Ok(record) = forward_index::decode(&record.value) {
                    let fingerprint = record.labels.fingerprint();
                    let key = key::series_dictionary(bucket, fingerprint);
                    wanted.insert(fingerprint, key);
                }
            }
            let reads = wanted.values().map(|key| view.get(key)).collect();
            let values = join_bounded(reads, gets).await?;
            for (key, value) in wanted.into_values().zip(values) {
                let Some(Ok(known)) = value.map(|value| series_dictionary::decode(&value)) else {
                    continue;
                };
                let left = known.iter().filter(|id| !self.erased.contains(id.0));
                let left: Vec<SeriesId> = left.copied().collect();
                if left.is_empty() {
                    batch.delete(key)
                } else {
                    batch.put_bytes(key, series_dictionary::encode(&left))
                }
            }
        }
        for record in &records {
            batch.delete(key_of(record.id));
        }
        if !records.is_empty() {
            step.write(CLEANING, batch).await?;
        }
        failpoint::pass("clean.series");
        drop(step);
        self.watch.wrote(ids.len()).await
    }

    /// Nothing of the series that were erased at the begin is left.
    async fn finish(&self) -> Result<()> {
        let (maintenance, bucket) = (self.maintenance, self.bucket);
        let _no_flush = maintenance.ingest.lock_flushes().await;
        let Some(before) = maintenance.buckets.tombstones().of(bucket) else {
            return Ok(());
        };
        let mut after = (*before).clone();
        after.erased -= &*self.erased;
        let mut batch = WriteBatch::new();
        put(&mut batch, bucket, &after);
        let failed = || Error::store(CLEANING);
        maintenance.buckets.cache().begin_change(bucket);
        let handle = maintenance
            .context
            .engine
            .db()
            .write(batch)
            .await
            .map_err(failed())?;
        maintenance.buckets.tombstones().set(bucket, after);
        maintenance.buckets.cache().end_change(bucket);
        handle.await_durable().await.map_err(failed())?;
        failpoint::pass("clean.done");
        Ok(())
    }
}

/// The postings that have erased series, without them.
fn without_erased(page: Vec<(Bytes, Bytes)>, erased: &RoaringBitmap) -> Result<contents::Rewrites> {
    let mut rewrites = Vec::new();
    for (key, value) in page {
        let mut ids = inverted_index::decode(&value).map_err(|cause| {
            let name = icecore_records::ParsedKey::parse(&key);
            let name = name.map_or_else(|_| format!("{key:?}"), |key| key.to_string());
            Error::Corrupt(Reason::caused(name, cause))
        })?;
        if ids.is_disjoint(erased) {
            continue;
        }
        ids -= erased;
        let value = (!ids.is_empty()).then(|| inverted_index::encode(&mut ids));
        rewrites.push((key, value));
    }
    Ok(rewrites)
}
