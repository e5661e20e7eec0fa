//! Before a flush adds to series that lost a range: their records lose it for good.

use std::sync::Arc;

use bytes::Bytes;
use icecore_records::bucket_meta::{self, BucketMeta};
use icecore_records::{Bucket, SeriesId, key};
use roaring::RoaringBitmap;
use slatedb::WriteBatch;

use super::Buckets;
use super::contents::{self, RemovedCounts, Rewrites};
use super::tombstones::put;
use crate::error::{Error, Result};
use crate::failpoint;

/// Series whose records are written anew in one go.
pub(crate) const BATCH_SERIES: usize = 256;

/// Takes what series of a bucket lost out of their records and the series out of its tombstones, so
/// that what is written to them from now on is not hidden. The caller holds the flush lock and has
/// told the cache that the bucket changes. Returns what has left the bucket.
pub(crate) async fn strip_before_flush(
    buckets: &Buckets,
    bucket: Bucket,
    meta: &BucketMeta,
    ids: &[SeriesId],
) -> Result<RemovedCounts> {
    let mut removed = RemovedCounts::default();
    let Some(tombstones) = buckets.tombstones.of(bucket) else {
        return Ok(removed);
    };
    let written: RoaringBitmap = ids.iter().map(|id| id.0).collect();
    let shortened: Vec<u32> = (tombstones.in_ranges() & written).iter().collect();
    for ids in shortened.chunks(BATCH_SERIES) {
        removed.add(strip(buckets, bucket, meta, ids, false).await?);
        failpoint::pass("clean.samples");
    }
    Ok(removed)
}

/// Writes the records of series (ascending) without what they lost, and their tombstones without
/// these series, in one write; if asked for, also what the bucket counts then. The caller holds the
/// flush lock.
pub(crate) async fn strip(
    buckets: &Buckets,
    bucket: Bucket,
    meta: &BucketMeta,
    ids: &[u32],
    count: bool,
) -> Result<RemovedCounts> {
    let Some(before) = buckets.tombstones.of(bucket) else {
        return Ok(RemovedCounts::default());
    };
    let view = buckets.context.engine.live_view();
    let mut contents = contents::read(buckets, &view, bucket, meta, ids).await?;
    contents.read_columns(&view).await?;
    let lost = Arc::clone(&before);
    let work = move || contents.without(|id| lost.ranges_of(id));
    let (rewrites, removed) = buckets.context.job_pool.run(work).await??;
    let mut after = (*before).clone();
    after.forget_ranges(&ids.iter().copied().collect());
    let mut batch = WriteBatch::new();
    add_rewrites(&mut batch, rewrites);
    put(&mut batch, bucket, &after);
    if count {
        put_meta(&mut batch, bucket, meta, removed);
    }
    write(buckets, batch).await?;
    buckets.tombstones.set(bucket, after);
    Ok(removed)
}

/// What a bucket counts when something has left it.
pub(crate) fn put_meta(
    batch: &mut WriteBatch,
    bucket: Bucket,
    before: &BucketMeta,
    removed: RemovedCounts,
) {
    let mut meta = before.clone();
    removed.take_from(&mut meta);
    batch.put_bytes(key::bucket_meta(bucket), bucket_meta::encode(&meta).into());
}

/// Adds rewrites to a batch. Returns how many bytes they are.
pub(crate) fn add_rewrites(batch: &mut WriteBatch, rewrites: Rewrites) -> usize {
    let mut bytes = 0;
    for (key, value) in rewrites {
        bytes += key.len() + value.as_ref().map_or(0, Bytes::len);
        match value {
            Some(value) => batch.put_bytes(key, value),
            None => batch.delete(key),
        }
    }
    bytes
}

pub(crate) async fn write(buckets: &Buckets, batch: WriteBatch) -> Result<()> {
    let written = buckets.context.engine.db().write(batch).await;
    written
        .map(drop)
        .map_err(Error::store("removing what was deleted"))
}
