//! The commit: in one write the target is listed, its sources are retired and the job is over.
//!
//! Holds always:
//! - No flush is under way. Those of the target's hours were held back since the job began, so the
//!   sources still are what was read; this is looked at once more.
//! - The list is read from the store: a flush that failed in its last step may have listed a bucket
//!   that this process does not know of.

use icecore_records::bucket_meta::{self, BucketMeta, BucketState};
use icecore_records::maintenance_job::{Counts, Job};
use icecore_records::{Bucket, SeriesId, bucket_list, key, retired_bucket};
use slatedb::WriteBatch;

use super::super::retire::take_place;
use super::sources::read_meta;
use super::writer::JobWriter;
use crate::error::{Error, Result};
use crate::failpoint;
use crate::inner::Inner;

pub(super) async fn commit(inner: &Inner, writer: &mut JobWriter<'_>) -> Result<()> {
    let _no_flush = inner.flushing.lock().await;
    let view = inner.engine.live_view();
    let job = &writer.job;
    let target = job.target;
    for source in &job.sources {
        let (_, hash) = read_meta(&view, source.bucket).await?;
        if hash != source.meta_hash {
            return Err(Error::Unavailable(format!(
                "{} was written to while {target} was built from it",
                source.bucket
            )));
        }
    }
    let list = view.get(&key::bucket_list()).await?;
    let mut listed = bucket_list::decode(&list.unwrap_or_default())
        .map_err(|cause| Error::Corrupt(format!("list of buckets: {cause}")))?;
    let sources: Vec<Bucket> = job.sources.iter().map(|source| source.bucket).collect();
    for source in &sources {
        if !listed.remove(source) {
            return Err(Error::Unavailable(format!("{source} is not listed")));
        }
    }
    listed.insert(target);
    let now_ms = inner.clock.now_ms();
    let mut batch = WriteBatch::new();
    batch.put_bytes(key::bucket_list(), bucket_list::encode(&listed));
    batch.put_bytes(
        key::bucket_meta(target),
        bucket_meta::encode(&meta_of(job)).into(),
    );
    for source in &sources {
        let retired = retired_bucket::encode(now_ms);
        batch.put_bytes(key::retired_bucket(*source), retired);
    }
    batch.delete(key::maintenance_job());
    writer.write(batch).await?;
    writer.settle().await?;
    failpoint::pass("coarsen.committed");
    take_place(inner, target, &sources, now_ms);
    Ok(())
}

fn meta_of(job: &Job) -> BucketMeta {
    let counts: &Counts = &job.counts;
    let (first, last) = match counts.min_timestamp_ms <= counts.max_timestamp_ms {
        true => (counts.min_timestamp_ms, counts.max_timestamp_ms),
        false => (job.target.start_ms(), job.target.end_ms() - 1),
    };
    BucketMeta {
        resolution_ms: 0,
        state: BucketState::Raw,
        next_series_id: counts.series as u32,
        run_starts: match counts.series {
            0 => Vec::new(),
            _ => vec![SeriesId(0)],
        },
        dirty_hours: Vec::new(),
        float_samples: counts.floats,
        histogram_samples: counts.histograms,
        exemplars: counts.exemplars,
        has_histograms: counts.histograms > 0,
        has_start_timestamps: counts.has_start_timestamps,
        min_timestamp_ms: first,
        max_timestamp_ms: last,
    }
}
