//! Folding: late samples of a coarse bucket join its columns, record by record, in place.
//!
//! ```text
//! find records with late parts in the bucket ─► batches of them, each under the flush lock:
//!     read ─► unite, encode, compare (pool) ─► put        the last one: no hour is dirty any more
//! ```
//!
//! Holds always:
//! - A record means the same before and after. Everything is put; a repeat finds records that are
//!   already folded and leaves them alone, so it may be cut anywhere.
//! - No flush writes between the read of a record and its put. One that comes between two batches
//!   leaves the bucket dirty, and the next fold sees to what it wrote.
//! - Memory is bounded by a batch; what is remembered of the bucket is four bytes for each record
//!   that has late parts.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use icecore_model::BucketSize;
use icecore_records::coarse_samples::{self, Part};
use icecore_records::columns::{RecordTimes, Times};
use icecore_records::{
    Bucket, ParsedKey, RecordType, SeriesId, bucket_meta, histogram_series, key,
};
use slatedb::WriteBatch;
use tracing::info;

use super::super::pace::Watch;
use super::clean_bucket;
use super::in_place::InPlace;
use crate::buckets::contents::Rewrites;
use crate::buckets::strip::add_rewrites;
use crate::buckets::{decode_meta, encode, stored_meta};
use crate::error::{Error, Result};
use crate::failpoint;
use crate::maintenance::Maintenance;
use crate::slate::fetch::join_bounded;
use crate::slate::read_view::{ScanKind, View};
use crate::stored::{self, SharedColumns};

/// Bytes that are looked through between two yield points.
const SCAN_BYTES: usize = 1 << 20;

/// BucketMetas that are read at once. Each lies in a file of its own, so it is the latency of the
/// store that counts: ten years have 5 500 of them.
const CONCURRENT_METAS: usize = 64;

/// Records that are folded in one go: as long as it takes, flushes wait.
const BATCH_RECORDS: usize = 256;

/// What is said of a store that fails meanwhile.
const FOLDING: &str = "folding late samples in";

/// What a fold did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FoldOutcome {
    /// Records that had late parts.
    pub(crate) records: u64,
    /// Whether the bucket is without late samples now: no flush came in between.
    pub(crate) clean: bool,
}

/// A record with late parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LateRecord {
    Floats(SeriesId),
    Histograms(SeriesId),
}

/// Folds the late samples of a coarse bucket in.
pub(crate) async fn fold(
    maintenance: &Arc<Maintenance>,
    bucket: Bucket,
    watch: &Watch,
) -> Result<FoldOutcome> {
    clean_bucket(maintenance, bucket, watch).await?;
    let meta_before = {
        let _no_flush = maintenance.ingest.lock_flushes().await;
        stored_meta(&maintenance.context.engine.live_view(), bucket).await?
    };
    let late = find_late(maintenance, bucket, watch).await?;
    let total = late.len() as u64;
    let mut records = 0;
    for batch in late.chunks(BATCH_RECORDS) {
        let bytes = fold_batch(maintenance, bucket, batch).await?;
        records += batch.len() as u64;
        maintenance
            .context
            .metrics
            .folded_records
            .add(batch.len() as u64);
        watch.phase("fold", records, total);
        watch.wrote(bytes).await?;
    }
    let clean = clear_dirty(maintenance, bucket, &meta_before).await?;
    info!(%bucket, records, clean, "late samples folded in");
    Ok(FoldOutcome { records, clean })
}

/// Looks through a bucket for records that are not one column record.
async fn find_late(
    maintenance: &Arc<Maintenance>,
    bucket: Bucket,
    watch: &Watch,
) -> Result<Vec<LateRecord>> {
    let mut found = Vec::new();
    let view = maintenance.context.engine.live_view();
    for record_type in [RecordType::TimeSeries, RecordType::HistogramSeries] {
        let prefix = key::record_prefix(record_type, bucket);
        let mut next = Some(prefix.clone());
        // Page by page: a scan that is kept open for long may outlive the files it reads.
        while let Some(first) = next.take() {
            let end = [&prefix[..], &[u8::MAX; 6]].concat().into();
            let range = (Bound::Included(first), Bound::Included(end));
            let mut records = view.scan(range, ScanKind::Once).await?;
            let mut bytes = 0;
            while let Some(record) = records
                .next()
                .await
                .map_err(Error::store("reading samples"))?
            {
                if bytes >= SCAN_BYTES {
                    next = Some(record.key);
                    break;
                }
                bytes += record.key.len() + record.value.len();
                found.extend(late_of(&record.key, &record.value));
            }
            watch.read(bytes).await?;
        }
    }
    Ok(found)
}

fn late_of(key: &Bytes, value: &Bytes) -> Option<LateRecord> {
    match ParsedKey::parse(key).ok()? {
        ParsedKey::TimeSeries { series, .. } => {
            let parts = coarse_samples::parts(value);
            let folded = match &parts[..] {
                [only] => matches!(coarse_samples::parse(only), Ok(Part::Columns(_))),
                _ => false,
            };
            (!folded).then_some(LateRecord::Floats(series))
        }
        ParsedKey::HistogramSeries { series, .. } => {
            let parts = histogram_series::parts(value);
            let folded = matches!(&parts[..], [only] if histogram_series::is_columns(only));
            (!folded).then_some(LateRecord::Histograms(series))
        }
        _ => None,
    }
}

/// Rewrites records. Returns how many bytes were written.
async fn fold_batch(
    maintenance: &Arc<Maintenance>,
    bucket: Bucket,
    batch: &[LateRecord],
) -> Result<usize> {
    let step = InPlace::begin(maintenance, bucket).await;
    let gets = batch
        .iter()
        .map(|late| read_value(&step.view, bucket, *late));
    let concurrent = maintenance.context.options.read.concurrent_gets;
    let values = join_bounded(gets.collect(), concurrent).await?;
    let mut wanted = BTreeSet::new();
    for (late, value) in batch.iter().zip(&values) {
        if let (LateRecord::Floats(series), Some(value)) = (late, value) {
            stored::add_referenced_columns(bucket, *series, value, &mut wanted)?;
        }
    }
    let mut columns = SharedColumns::new();
    stored::read_columns(&step.view, bucket, &wanted, &mut columns).await?;
    let records: Vec<(LateRecord, Bytes)> = batch
        .iter()
        .zip(values)
        .filter_map(|(late, value)| Some((*late, value?)))
        .collect();
    let work = move || {
        let folded = records.iter().map(|(late, value)| match late {
            LateRecord::Floats(series) => folded_floats(bucket, *series, value, &columns),
            LateRecord::Histograms(series) => folded_histograms(bucket, *series, value),
        });
        folded.collect::<Result<Rewrites>>()
    };
    let folded = maintenance.context.job_pool.run(work).await??;
    let mut writes = WriteBatch::new();
    let bytes = add_rewrites(&mut writes, folded);
    failpoint::pass("fold.write");
    step.write(FOLDING, writes).await?;
    Ok(bytes)
}

async fn read_value(view: &View, bucket: Bucket, late: LateRecord) -> Result<Option<Bytes>> {
    match late {
        LateRecord::Floats(series) => view.get(&key::time_series(bucket, series)).await,
        LateRecord::Histograms(series) => view.get(&key::histogram_series(bucket, series)).await,
    }
}

/// A key and what is to lie there; `None`: nothing.
type Rewritten = (Bytes, Option<Bytes>);

fn folded_floats(
    bucket: Bucket,
    series: SeriesId,
    value: &Bytes,
    columns: &SharedColumns,
) -> Result<Rewritten> {
    let floats = stored::floats(bucket, series, value, columns)?;
    let times = match shared_times(value, &floats.timestamps, columns) {
        Some(shared) => shared,
        None => Times::Own(&floats.timestamps),
    };
    let folded = encode::floats(bucket, series, &floats, times, columns)?;
    Ok((key::time_series(bucket, series), Some(folded)))
}

/// The shared column of the base, if the late samples only replaced values.
fn shared_times(
    value: &Bytes,
    timestamps: &[i64],
    columns: &SharedColumns,
) -> Option<Times<'static>> {
    let parts = coarse_samples::parts(value);
    let Ok(Part::Columns(base)) = coarse_samples::parse(parts.first()?) else {
        return None;
    };
    let RecordTimes::Shared { column, first } = base.times() else {
        return None;
    };
    let list = columns.get(&column)?;
    let (start, len) = (first as usize, timestamps.len());
    let same = base.len() == len
        && start.checked_add(len).is_some_and(|end| end <= list.len())
        && timestamps
            .iter()
            .enumerate()
            .all(|(i, time)| list.at(start + i) == Some(*time));
    let len = u32::try_from(len).ok()?;
    same.then_some(Times::Shared { column, first, len })
}

fn folded_histograms(bucket: Bucket, series: SeriesId, value: &Bytes) -> Result<Rewritten> {
    let mut entries = stored::histograms(bucket, series, value)?;
    // "None here" was said to older parts, and there are none any more.
    entries.retain(|entry| entry.value.is_some());
    let key = key::histogram_series(bucket, series);
    if entries.is_empty() {
        return Ok((key, None));
    }
    let folded = encode::histograms(bucket, series, &entries)?;
    Ok((key, Some(folded)))
}

/// Notes that no hour of the bucket is dirty, unless a flush came in between.
async fn clear_dirty(
    maintenance: &Arc<Maintenance>,
    bucket: Bucket,
    before: &Bytes,
) -> Result<bool> {
    let step = InPlace::begin(maintenance, bucket).await;
    let now = stored_meta(&step.view, bucket).await?;
    if now != *before {
        return Ok(false);
    }
    let mut meta = decode_meta(bucket, &now)?;
    meta.dirty_hours.clear();
    failpoint::pass("fold.write");
    let mut batch = WriteBatch::new();
    batch.put_bytes(key::bucket_meta(bucket), bucket_meta::encode(&meta).into());
    let handle = step.write(FOLDING, batch).await?;
    handle
        .await_durable()
        .await
        .map_err(Error::store(FOLDING))?;
    maintenance.buckets.recent().folded(bucket);
    Ok(true)
}

/// Finds out which coarse buckets hold late samples, and how many their series have, as their metas
/// say.
pub(crate) async fn load_dirty(maintenance: &Maintenance) -> Result<()> {
    let listed = maintenance.buckets.listed().clone();
    let view = maintenance.context.engine.live_view();
    let coarse = listed
        .iter()
        .filter(|bucket| bucket.size > BucketSize::HOUR);
    let reads = coarse.map(|bucket| note_meta(maintenance, &view, *bucket));
    join_bounded(reads.collect(), CONCURRENT_METAS)
        .await
        .map(drop)
}

async fn note_meta(maintenance: &Maintenance, view: &View, bucket: Bucket) -> Result<()> {
    // One that cannot be read is left alone: flushes into it, and `icecore check`, say so.
    if let Some(value) = view.get(&key::bucket_meta(bucket)).await?
        && let Ok(meta) = bucket_meta::decode(&value)
    {
        let recent = maintenance.buckets.recent();
        if !meta.dirty_hours.is_empty() {
            recent.note_dirty(bucket);
        }
        let series = u64::from(meta.next_series_id).max(1);
        recent.note_samples(bucket, meta.float_samples / series);
    }
    Ok(())
}
