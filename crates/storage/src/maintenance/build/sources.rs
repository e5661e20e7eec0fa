//! The buckets that go into a target.
//!
//! Holds always:
//! - They lie inside the target's window, are smaller than it and do not overlap; they are sorted
//!   by time.
//! - Only ids below `next_series_id` count: what a flush that did not reach its commit left is
//!   still in the head.

use std::collections::BTreeSet;
use std::ops::Range;

use icecore_records::Bucket;
use icecore_records::bucket_meta::BucketMeta;
use icecore_records::maintenance_job::JobSource;
use xxhash_rust::xxh3::xxh3_128;

use crate::buckets::levels::Listed;
use crate::buckets::tombstones::AllTombstones;
use crate::buckets::{decode_meta, ladder, stored_meta};
use crate::error::{Error, Result};
use crate::slate::read_view::View;

/// A bucket that goes into the target.
pub(super) struct Source {
    pub(super) bucket: Bucket,
    pub(super) meta: BucketMeta,
    meta_hash: u128,
    /// Ranges of ids within which ids are in label order.
    pub(super) runs: Vec<Range<u32>>,
}

impl Source {
    #[cfg(test)]
    pub(super) fn of(bucket: Bucket, meta: BucketMeta, runs: Vec<Range<u32>>) -> Self {
        Self {
            bucket,
            meta,
            meta_hash: 0,
            runs,
        }
    }

    pub(super) fn job_source(&self) -> JobSource {
        JobSource {
            bucket: self.bucket,
            meta_hash: self.meta_hash,
        }
    }

    /// Lets a run end before an id that turned out not to be in label order.
    pub(super) fn break_run(&mut self, id: u32) {
        if let Some(at) = self
            .runs
            .iter()
            .position(|run| run.start < id && id < run.end)
        {
            let end = std::mem::replace(&mut self.runs[at].end, id);
            self.runs.insert(at + 1, id..end);
        }
    }
}

/// Refuses buckets that cannot become the target; returns them sorted by time.
pub(super) fn check(target: Bucket, sources: &[Bucket]) -> Result<Vec<Bucket>> {
    if !ladder::is_target(target.size) || !is_aligned(target) {
        return refuse(target, "it is not a window of 2, 4, 8, 16, 64 or 256 hours");
    }
    check_inside(target, sources)
}

/// The same for a remnant.
pub(super) fn check_remnant(target: Bucket, sources: &[Bucket]) -> Result<Vec<Bucket>> {
    if !ladder::is_remnant(target.size) || !is_aligned(target) {
        return refuse(target, "it has not the size of remnants");
    }
    check_inside(target, sources)
}

fn refuse<T>(target: Bucket, why: &str) -> Result<T> {
    let reason = format!("{target} cannot be built: {why}");
    Err(Error::Invalid(reason.into()))
}

fn is_aligned(target: Bucket) -> bool {
    target.size.bucket_of(target.start_ms()) == Some(target.start)
}

/// Refuses sources that do not lie in a target, or overlap.
fn check_inside(target: Bucket, sources: &[Bucket]) -> Result<Vec<Bucket>> {
    let mut sorted = sources.to_vec();
    sorted.sort_unstable_by_key(|source| (source.start, source.size));
    if sorted.is_empty() {
        return refuse(target, "there is nothing to build it from");
    }
    let inside = |source: &Bucket| {
        source.size < target.size
            && source.start_ms() >= target.start_ms()
            && source.end_ms() <= target.end_ms()
    };
    if !sorted.iter().all(inside) {
        return refuse(target, "a source is not inside its window");
    }
    if sorted.windows(2).any(|w| w[0].end_ms() > w[1].start_ms()) {
        return refuse(target, "its sources overlap");
    }
    Ok(sorted)
}

/// The same for a bucket of windows, whose sources may be larger than it.
pub(super) fn check_windows(target: Bucket, sources: &[Bucket]) -> Result<Vec<Bucket>> {
    let mut sorted = sources.to_vec();
    sorted.sort_unstable_by_key(|source| (source.start, source.size));
    let overlap = |pair: &[Bucket]| pair[0].end_ms() > pair[1].start_ms();
    let apart = |source: &Bucket| {
        source.end_ms() <= target.start_ms() || source.start_ms() >= target.end_ms()
    };
    let wrong = if ladder::is_raw(target.size) {
        Some("its size is that of raw samples")
    } else if sorted.is_empty() {
        Some("there is nothing to build it from")
    } else if sorted.iter().any(apart) {
        Some("a source has nothing of its time")
    } else if sorted.windows(2).any(overlap) {
        Some("its sources overlap")
    } else {
        None
    };
    match wrong {
        Some(why) => refuse(target, why),
        None => Ok(sorted),
    }
}

/// Whether a bucket of windows made of these sources has all that is listed in its time. Says why
/// not.
pub(super) fn check_complete(
    listed: &Listed,
    target: Bucket,
    sources: &[Bucket],
) -> Result<(), String> {
    let level = sources
        .first()
        .and_then(|source| listed.sizes().resolution(source.size));
    let level = level.ok_or_else(|| format!("{target} has no sources"))?;
    if !listed.is_whole(level, target) {
        return Err(format!("{level} has lost something of {target}"));
    }
    let wanted: BTreeSet<Bucket> = sources.iter().copied().collect();
    let found: BTreeSet<Bucket> = listed.level_in(level, target).into_iter().collect();
    if let Some(source) = wanted.difference(&found).next() {
        return Err(format!(
            "{source}, a source of {target}, is no longer listed"
        ));
    }
    if let Some(other) = found.difference(&wanted).next() {
        return Err(format!("{other} was listed since {target} was planned"));
    }
    if let Some(source) = sources.iter().find(|source| listed.is_dirty(**source)) {
        return Err(format!("{source}, a source of {target}, is out of date"));
    }
    if let Some(overlay) = listed.overlays_in(target).first() {
        return Err(format!(
            "{overlay} is not merged into the sources of {target} yet"
        ));
    }
    let finer = listed.resolutions().filter(|finer| *finer < level);
    for bucket in finer.flat_map(|finer| listed.level_in(finer, target)) {
        if !is_covered(bucket, target, sources) {
            return Err(format!("{bucket} is not in the sources of {target}"));
        }
    }
    Ok(())
}

/// Whether nothing was deleted from sources since they were cleaned. Says what was.
pub(super) fn check_tombstones(
    tombstones: &AllTombstones,
    sources: &[Bucket],
) -> Result<(), String> {
    let lost = sources
        .iter()
        .find(|source| tombstones.of(**source).is_some());
    match lost {
        Some(source) => Err(format!("something was deleted from {source} just now")),
        None => Ok(()),
    }
}

/// Whether sources, sorted by time, hold all that a bucket has of the time of a target.
fn is_covered(bucket: Bucket, target: Bucket, sources: &[Bucket]) -> bool {
    let end_ms = bucket.end_ms().min(target.end_ms());
    let mut covered_ms = bucket.start_ms().max(target.start_ms());
    for source in sources {
        if source.start_ms() <= covered_ms {
            covered_ms = covered_ms.max(source.end_ms());
        }
    }
    covered_ms >= end_ms
}

pub(super) async fn read_sources(view: &View, buckets: &[Bucket]) -> Result<Vec<Source>> {
    let mut sources = Vec::with_capacity(buckets.len());
    for bucket in buckets {
        let (meta, meta_hash) = read_meta(view, *bucket).await?;
        sources.push(Source {
            bucket: *bucket,
            runs: runs(&meta),
            meta,
            meta_hash,
        });
    }
    Ok(sources)
}

/// What is known of a bucket, with the hash of the record.
pub(super) async fn read_meta(view: &View, bucket: Bucket) -> Result<(BucketMeta, u128)> {
    let value = stored_meta(view, bucket).await?;
    Ok((decode_meta(bucket, &value)?, xxh3_128(&value)))
}

fn runs(meta: &BucketMeta) -> Vec<Range<u32>> {
    let end = meta.next_series_id;
    let mut starts: Vec<u32> = meta.run_starts.iter().map(|id| id.0).collect();
    starts.push(0);
    starts.retain(|start| *start < end);
    starts.sort_unstable();
    starts.dedup();
    let ends = starts.iter().skip(1).copied().chain([end]);
    starts
        .iter()
        .copied()
        .zip(ends)
        .map(|(s, e)| s..e)
        .collect()
}

#[cfg(test)]
mod tests {
    use icecore_model::{BucketSize, BucketStart};
    use icecore_records::SeriesId;

    use super::*;

    fn bucket(exponent: u8, start: u32) -> Bucket {
        let size = BucketSize::from_exponent(exponent).unwrap();
        let start = BucketStart(start);
        Bucket { size, start }
    }

    #[test]
    fn runs_cover_all_ids_and_can_be_broken() {
        let meta = |starts: &[u32], next_series_id| BucketMeta {
            run_starts: starts.iter().map(|id| SeriesId(*id)).collect(),
            next_series_id,
            ..BucketMeta::default()
        };
        assert_eq!(runs(&meta(&[0, 5], 9)), [0..5, 5..9]);
        assert_eq!(runs(&meta(&[], 9)).first(), Some(&(0..9)));
        assert_eq!(runs(&meta(&[0, 4, 9], 9)), [0..4, 4..9]);
        assert!(runs(&meta(&[], 0)).is_empty());
        let meta = meta(&[0, 5], 9);
        let ranges = runs(&meta);
        let mut source = Source::of(bucket(1, 60), meta, ranges);
        source.break_run(5);
        assert_eq!(source.runs, [0..5, 5..9], "a run begins there already");
        source.break_run(7);
        assert_eq!(source.runs, [0..5, 5..7, 7..9]);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let target = bucket(3, 480);
        let sorted = check(target, &[bucket(2, 600), bucket(1, 480)]).unwrap();
        assert_eq!(sorted, [bucket(1, 480), bucket(2, 600)]);
        for (target, sources) in [
            (target, &[][..]),
            (target, &[bucket(1, 720)]),
            (target, &[bucket(3, 480)]),
            (target, &[bucket(2, 480), bucket(1, 540)]),
            (bucket(3, 540), &[bucket(1, 540)]),
            (bucket(1, 480), &[bucket(1, 480)]),
            (bucket(6, 0), &[bucket(1, 0)]),
        ] {
            assert!(check(target, sources).is_err(), "{target} {sources:?}");
        }
        let remnant = bucket(10, 30_720);
        let sources = [bucket(9, 46_080), bucket(1, 30_720)];
        let sorted = check_remnant(remnant, &sources).unwrap();
        assert_eq!(sorted, [sources[1], sources[0]]);
        assert!(check(remnant, &sources).is_err());
        for (target, sources) in [
            (remnant, &[][..]),
            (remnant, &[bucket(1, 0)]),
            (bucket(10, 60), &[bucket(1, 60)]),
            (bucket(9, 46_080), &[bucket(1, 46_080)]),
        ] {
            assert!(check_remnant(target, sources).is_err(), "{target}");
        }
    }
}
