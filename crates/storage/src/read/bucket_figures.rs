//! What is stored where: every bucket with what its meta and the sizes of files say of it.
//!
//! Holds always: no record of a bucket but its meta is read, and of those at most [`METAS_MAX`].

use std::ops::Range;
use std::sync::Arc;

use icecore_model::BucketSize;
use icecore_model::rollup::Resolution;
use icecore_records::bucket_meta::BucketMeta;
use icecore_records::{Bucket, RecordType, key};

use super::{Reader, bucket_meta_of, views_of};
use crate::buckets::ladder;
use crate::buckets::levels::{LevelSizes, Listed};
use crate::error::{Error, Result};
use crate::slate::fetch::join_bounded;

/// Metas that are read for one answer, of the newest buckets: years of them, and on an object store
/// a few seconds the first time. Afterwards they are in memory.
const METAS_MAX: usize = 1024;

/// What a bucket is to readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BucketRole {
    /// One of its level.
    Live,
    /// Samples that came after those of their time were culled.
    Overlay,
    /// Series that are kept for longer than the others of its time.
    Remnant,
    /// Replaced, and waiting to be dropped.
    Retired,
    /// Being made of others.
    Building,
}

impl BucketRole {
    pub fn word(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Overlay => "overlay",
            Self::Remnant => "remnant",
            Self::Retired => "retired",
            Self::Building => "building",
        }
    }
}

/// One bucket. Figures are `None` where they are not known without reading more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketFigures {
    pub start_ms: i64,
    pub end_ms: i64,
    pub resolution: &'static str,
    pub role: BucketRole,
    pub series: Option<u64>,
    /// Those that windows stand for, where there are windows. A sample that was written twice
    /// counts twice.
    pub samples: Option<u64>,
    /// Of files; what is only in the write-ahead log is not in them.
    pub bytes: Option<u64>,
}

impl BucketFigures {
    fn time(&self) -> Range<i64> {
        self.start_ms..self.end_ms
    }
}

/// Every bucket, oldest first, of one start the smallest first; with the one that a job is about to
/// make of this time, unless the job rewrites one that there is.
pub(crate) async fn bucket_figures(
    reader: &Arc<Reader>,
    building: Option<Range<i64>>,
) -> Result<Vec<BucketFigures>> {
    // One after the other: others lock the retired ones before the list.
    let retired: Vec<Bucket> = reader.buckets.retired().keys().copied().collect();
    let choose = |listed: &Listed| {
        let mut newest: Vec<Bucket> = listed.all().collect();
        newest.sort_by_key(|bucket| std::cmp::Reverse((bucket.start, bucket.size)));
        let roles: Vec<(Bucket, BucketRole)> = newest
            .iter()
            .map(|bucket| (*bucket, role_of(listed, *bucket)))
            .collect();
        newest.truncate(METAS_MAX);
        (newest, (roles, listed.sizes().clone()))
    };
    let (leased, (roles, sizes)) = reader.buckets.lease_chosen(choose);
    let views = views_of(reader, &leased)?;
    let read = views.iter().map(|view| async move {
        match bucket_meta_of(view).await {
            Ok(meta) => Ok(Some(meta)),
            // Whoever reads the bucket says so; the others are shown nevertheless.
            Err(Error::Corrupt(_)) => Ok(None),
            Err(cause) => Err(cause),
        }
    });
    let gets = reader.context.options.read.concurrent_gets;
    let metas = join_bounded(read.collect(), gets).await?;
    let metas = metas.into_iter().chain(std::iter::repeat(None));
    let listed = roles.into_iter().zip(metas);
    let retired = retired
        .into_iter()
        .map(|it| ((it, BucketRole::Retired), None));
    let mut figures: Vec<BucketFigures> = listed
        .chain(retired)
        .map(|((bucket, role), meta)| BucketFigures {
            start_ms: bucket.start_ms(),
            end_ms: bucket.end_ms(),
            resolution: sizes
                .resolution(bucket.size)
                .unwrap_or(Resolution::RAW)
                .name(),
            role,
            series: meta.as_ref().map(|meta| meta.next_series_id.into()),
            samples: meta.as_ref().map(samples_of),
            bytes: Some(reader.context.engine.file_bytes(prefixes_of(bucket))),
        })
        .collect();
    let is_there = |time: &Range<i64>| figures.iter().any(|it| it.time() == *time);
    if let Some(time) = building.filter(|time| !is_there(time)) {
        figures.push(BucketFigures {
            resolution: resolution_of(&sizes, &time).name(),
            start_ms: time.start,
            end_ms: time.end,
            role: BucketRole::Building,
            series: None,
            samples: None,
            bytes: None,
        });
    }
    figures.sort_by_key(|bucket| (bucket.start_ms, bucket.end_ms));
    Ok(figures)
}

/// What a bucket of a time would hold: its size says so.
fn resolution_of(sizes: &LevelSizes, time: &Range<i64>) -> Resolution {
    let all = (1..=u8::MAX).map_while(BucketSize::from_exponent);
    let mut fitting = all.filter(|size| size.duration_ms() == time.end - time.start);
    let size = fitting.next().and_then(|size| sizes.resolution(size));
    size.unwrap_or(Resolution::RAW)
}

fn role_of(listed: &Listed, bucket: Bucket) -> BucketRole {
    if listed.overlays().contains(&bucket) {
        BucketRole::Overlay
    } else if ladder::is_remnant(bucket.size) {
        BucketRole::Remnant
    } else {
        BucketRole::Live
    }
}

fn samples_of(meta: &BucketMeta) -> u64 {
    meta.float_samples.saturating_add(meta.histogram_samples)
}

/// The segments that a bucket may have.
fn prefixes_of(bucket: Bucket) -> impl Iterator<Item = bytes::Bytes> {
    let scoped = RecordType::ALL.into_iter().filter(|t| t.is_bucket_scoped());
    scoped.map(move |record_type| key::record_prefix(record_type, bucket))
}
