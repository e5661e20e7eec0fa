//! The commit: in one write the target is listed, what it replaces is retired and the job is over.
//!
//! Holds always:
//! - No flush is under way. Those of the target's hours were held back since the job began, so the
//!   sources still are what was read; this is looked at once more.
//! - The list is read from the store: a flush that failed in its last step may have listed a bucket
//!   that this process does not know of. What it lists in the window is what the target was made
//!   from, or there is no commit.
//! - What this process takes for listed is what SlateDB would answer, whatever becomes of the
//!   write. The WAL is in order: nothing that is written because of the commit outlives it.

use std::collections::BTreeSet;

use icecore_records::bucket_meta::{self, BucketMeta, BucketState, RollupMeta};
use icecore_records::maintenance_job::{Counts, Job};
use icecore_records::{Bucket, SeriesId, key};
use slatedb::WriteBatch;

use super::super::pace::Watch;
use super::job::Product;
use super::sources::{check_complete, check_tombstones, read_meta};
use super::windows::{RollUp, left_out};
use super::writer::JobWriter;
use crate::buckets::levels::RolledBucket;
use crate::buckets::{NewBucket, list, put_list, raw_of, stored_list};
use crate::error::Result;
use crate::failpoint;
use crate::maintenance::Maintenance;

pub(super) async fn commit(
    maintenance: &Maintenance,
    watch: &Watch,
    product: Product<'_>,
    writer: &mut JobWriter<'_>,
) -> Result<()> {
    maintenance.context.pauses.pass("job.built").await;
    let frozen = maintenance.ingest.lock_flushes().await;
    let view = maintenance.context.engine.live_view();
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
    let roll_up = match product {
        Product::Samples => None,
        Product::Windows(roll_up) => Some(roll_up),
        Product::Remnant(remnant) => {
            return remnant
                .commit(maintenance, watch, &frozen, &listed, writer)
                .await;
        }
    };
    let sources: Vec<Bucket> = job.sources.iter().map(|source| source.bucket).collect();
    let checked = match roll_up {
        Some(roll_up) => check_rolled(maintenance, &listed, roll_up, &sources),
        None => check_window(&raw_of(&listed), target, &sources).map(|()| None),
    };
    let facts = checked.map_err(|reason| watch.stale(reason))?;
    let replaced = match roll_up {
        Some(roll_up) if !roll_up.coarsens => Vec::new(),
        _ => sources,
    };
    for source in &replaced {
        listed.remove(source);
    }
    listed.insert(target);
    let meta = meta_of(job, roll_up, facts);
    let target = (target, RolledBucket::of(&meta));
    let mut batch = WriteBatch::new();
    batch.put_bytes(
        key::bucket_meta(target.0),
        bucket_meta::encode(&meta).into(),
    );
    batch.delete(key::maintenance_job());
    let now_ms = maintenance.context.clock.now_ms();
    put_list(&mut batch, &listed, &replaced, now_ms);
    let written = writer.write(batch).await;
    committed(maintenance, written, target, &replaced, now_ms).await?;
    let counts = &writer.job.counts;
    let samples_per_series = counts.floats / counts.series.max(1);
    maintenance
        .buckets
        .recent()
        .note_samples(writer.job.target, samples_per_series);
    writer.make_durable().await?;
    failpoint::pass("coarsen.committed");
    Ok(())
}

/// The same for a bucket of windows, against the list as it is stored. Returns what is known of it.
fn check_rolled(
    maintenance: &Maintenance,
    stored: &BTreeSet<Bucket>,
    roll_up: RollUp,
    sources: &[Bucket],
) -> Result<Option<RolledBucket>, String> {
    let target = roll_up.target;
    let mut listed = maintenance.buckets.levels().with_raw(raw_of(stored));
    if let Some(unknown) = listed.all().find(|bucket| !stored.contains(bucket)) {
        return Err(format!("{unknown} is no longer listed"));
    }
    check_tombstones(maintenance.buckets.tombstones(), sources)?;
    if roll_up.coarsens {
        return listed.coarsened(target, sources).map(Some);
    }
    check_complete(&listed, target, sources)?;
    let policy = maintenance.retention.policy();
    // What is noted is what was left out, not what others have been told meanwhile.
    listed.set_policy(policy.as_deref());
    let leaving_out = policy.filter(|_| !listed.pass_all_on(sources));
    let left_out = left_out(leaving_out, roll_up.resolution);
    if !roll_up.is_empty() && roll_up.left_out != left_out {
        return Err(format!("the policy has changed since {target} was begun"));
    }
    let source = sources.first().map(|source| source.size);
    let source = source.and_then(|size| listed.sizes().resolution(size));
    Ok(Some(RolledBucket {
        resolution: roll_up.resolution,
        source: source.unwrap_or_default(),
        sources_gone: false,
        is_lean: roll_up.lean,
        dirty: BTreeSet::new(),
        left_out: Some(listed.made_without(roll_up.resolution, sources)),
        stands_in: listed.stand_in(sources),
    }))
}

/// Whether the sources are all that is listed in the window of a target, which is not listed
/// itself. Says why not.
pub(super) fn check_window(
    listed: &BTreeSet<Bucket>,
    target: Bucket,
    sources: &[Bucket],
) -> Result<(), String> {
    if let Some(around) = list::covering(listed, target) {
        return Err(format!(
            "{around} is listed and holds the hours of {target}"
        ));
    }
    let found: BTreeSet<Bucket> = list::inside(listed, target).into_iter().collect();
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

/// Lets the process follow a commit.
pub(super) async fn committed(
    maintenance: &Maintenance,
    written: Result<()>,
    target: NewBucket,
    sources: &[Bucket],
    now_ms: i64,
) -> Result<()> {
    let fail = |reason: &str| maintenance.ingest.journal().fail(reason);
    let buckets = &maintenance.buckets;
    buckets
        .committed(written, Some(target), sources, now_ms, fail)
        .await
}

pub(super) fn meta_of(
    job: &Job,
    roll_up: Option<RollUp>,
    facts: Option<RolledBucket>,
) -> BucketMeta {
    let counts: &Counts = &job.counts;
    let (first, last) = if counts.min_timestamp_ms <= counts.max_timestamp_ms {
        (counts.min_timestamp_ms, counts.max_timestamp_ms)
    } else {
        (job.target.start_ms(), job.target.end_ms() - 1)
    };
    BucketMeta {
        resolution_ms: roll_up.map_or(0, |roll_up| roll_up.resolution.ms() as u32),
        state: match roll_up {
            Some(_) => BucketState::RolledUp,
            None => BucketState::Raw,
        },
        next_series_id: counts.series as u32,
        run_starts: match counts.series {
            0 => Vec::new(),
            _ => vec![SeriesId(0)],
        },
        dirty_hours: Vec::new(),
        float_samples: counts.floats,
        histogram_samples: counts.histograms,
        exemplars: counts.exemplars,
        has_histograms: counts.histograms + counts.histogram_windows > 0,
        has_start_timestamps: counts.has_start_timestamps,
        min_timestamp_ms: first,
        max_timestamp_ms: last,
        is_overlay: false,
        rollup: RollupMeta {
            windows: counts.windows,
            histogram_windows: counts.histogram_windows,
            is_lean: roll_up.is_some_and(|roll_up| roll_up.lean),
            source: facts.as_ref().map(|facts| facts.source).unwrap_or_default(),
            sources_gone: facts.as_ref().is_some_and(|facts| facts.sources_gone),
            stands_in: facts.as_ref().is_some_and(|facts| facts.stands_in),
            left_out: facts.and_then(|facts| facts.left_out),
        },
    }
}
