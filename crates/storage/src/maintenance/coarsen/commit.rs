//! The commit: in one write the target is listed, its sources are retired and the job is over.
//!
//! Holds always:
//! - No flush is under way. Those of the target's hours were held back since the job began, so the
//!   sources still are what was read; this is looked at once more.
//! - The list is read from the store: a flush that failed in its last step may have listed a bucket
//!   that this process does not know of. What it lists in the window is what the target was made from,
//!   or there is no commit.
//! - What this process takes for listed is what SlateDB would answer, whatever becomes of the write.
//!   The WAL is in order: nothing that is written because of the commit outlives it.

use std::collections::BTreeSet;

use icecore_records::bucket_meta::{self, BucketMeta, BucketState};
use icecore_records::maintenance_job::{Counts, Job};
use icecore_records::{Bucket, SeriesId, bucket_list, key, retired_bucket};
use slatedb::WriteBatch;
use tracing::warn;

use super::super::pace::Watch;
use super::super::retire::{follow_store, load_retired, take_place};
use super::sources::read_meta;
use super::writer::JobWriter;
use crate::error::{Error, Result};
use crate::failpoint;
use crate::inner::Inner;
use crate::listed;
use crate::slate::read_view::View;

pub(super) async fn commit(inner: &Inner, watch: &Watch, writer: &mut JobWriter<'_>) -> Result<()> {
    let _no_flush = inner.flushing.lock().await;
    let view = inner.engine.live_view();
    let job = &writer.job;
    let target = job.target;
    for source in &job.sources {
        let (_, hash) = read_meta(&view, source.bucket).await?;
        if hash != source.meta_hash {
            return Err(watch.stale(format!(
                "{} was written to while {target} was built from it",
                source.bucket
            )));
        }
    }
    let mut listed = stored_list(&view).await?;
    let sources: Vec<Bucket> = job.sources.iter().map(|source| source.bucket).collect();
    check_window(&listed, target, &sources).map_err(|reason| watch.stale(reason))?;
    for source in &sources {
        listed.remove(source);
    }
    listed.insert(target);
    let mut batch = WriteBatch::new();
    batch.put_bytes(
        key::bucket_meta(target),
        bucket_meta::encode(&meta_of(job)).into(),
    );
    batch.delete(key::maintenance_job());
    let now_ms = inner.clock.now_ms();
    put_list(&mut batch, &listed, &sources, now_ms);
    let written = writer.write(batch).await;
    took_place(inner, written, target, &sources, now_ms).await?;
    writer.settle().await?;
    failpoint::pass("coarsen.committed");
    Ok(())
}

/// The list of buckets as the store has it.
pub(crate) async fn stored_list(view: &View) -> Result<BTreeSet<Bucket>> {
    let list = view.get(&key::bucket_list()).await?;
    bucket_list::decode(&list.unwrap_or_default())
        .map_err(|cause| Error::Corrupt(format!("list of buckets: {cause}")))
}

/// Whether the sources are all that is listed in the window of a target, which is not listed itself.
/// Says why not.
pub(super) fn check_window(
    listed: &BTreeSet<Bucket>,
    target: Bucket,
    sources: &[Bucket],
) -> Result<(), String> {
    if let Some(around) = listed::covering(listed, target) {
        return Err(format!(
            "{around} is listed and holds the hours of {target}"
        ));
    }
    let found: BTreeSet<Bucket> = listed::inside(listed, target).into_iter().collect();
    let wanted: BTreeSet<Bucket> = sources.iter().copied().collect();
    if let Some(source) = wanted.difference(&found).next() {
        return Err(format!(
            "{source}, a source of {target}, is no longer listed"
        ));
    }
    match found.difference(&wanted).next() {
        Some(other) => Err(format!("{other} was listed since {target} was planned")),
        None => Ok(()),
    }
}

/// Adds to a batch that these buckets are listed and those retired.
pub(super) fn put_list(
    batch: &mut WriteBatch,
    listed: &BTreeSet<Bucket>,
    retired: &[Bucket],
    now_ms: i64,
) {
    batch.put_bytes(key::bucket_list(), bucket_list::encode(listed));
    for bucket in retired {
        let value = retired_bucket::encode(now_ms);
        batch.put_bytes(key::retired_bucket(*bucket), value);
    }
}

/// Lets the process follow what a commit has written. When the write failed it is not known whether
/// SlateDB has it: then it is asked, and if it does not answer nothing is acknowledged any more, because
/// flushes would go to buckets that may be retired.
pub(super) async fn took_place(
    inner: &Inner,
    written: Result<()>,
    target: Bucket,
    sources: &[Bucket],
    now_ms: i64,
) -> Result<()> {
    let Err(cause) = written else {
        take_place(inner, target, sources, now_ms);
        return Ok(());
    };
    let view = inner.engine.live_view();
    let known = async { Ok::<_, Error>((stored_list(&view).await?, load_retired(&view).await?)) };
    match known.await {
        Ok((listed, retired)) => {
            warn!(%cause, "a list of buckets may have been written: going on with what is stored");
            follow_store(inner, listed, retired);
        }
        Err(unknown) => {
            let reason = format!(
                "the list of buckets could not be written ({cause}) nor read again ({unknown}): \
                 which buckets are listed is not known"
            );
            inner.journal.fail(&reason);
        }
    }
    Err(cause)
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
