//! What to coarsen next: a pure function of the list of buckets, the head and the time.
//!
//! ```text
//! by itself     closed and quiet for a while:  16 h windows, else 4 h windows
//! asked for     closed at all:                 16 h, 8 h, 4 h, 2 h windows, the largest first
//! either        closed long ago:               256 h windows, else 64 h windows
//! ```
//!
//! Holds always:
//! - A target is built once: it is never planned while it, or a bucket that covers it, is listed.
//! - Its sources are all listed raw buckets in its window, each smaller than it, so that buckets
//!   never overlap and every hour stays covered. Where they do overlap the window has to be
//!   repaired first.
//! - A window that has not ended is left alone; asked for, the smaller windows in it that have
//!   ended are not.
//! - No target lies in time whose samples are gone, where late ones are kept apart.
//! - Records stay narrow: where series have many samples, a window of more than 16 h is left alone.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use icecore_model::BucketStart;
use icecore_records::Bucket;

use crate::buckets::ladder::{self, Windows};
use crate::buckets::list;

/// What a plan is made from.
pub(crate) struct PlanInput<'s> {
    pub(crate) buckets: &'s BTreeSet<Bucket>,
    /// Buckets of windows whose sources are gone.
    pub(crate) gone: &'s [Bucket],
    /// When buckets were last written to, as far as that is known, by monotonic time.
    pub(crate) written_ms: &'s BTreeMap<Bucket, i64>,
    /// Samples per series of coarse buckets, as far as that is known.
    pub(crate) samples: &'s BTreeMap<Bucket, u64>,
    /// Hours that the head holds something of and that must be flushed before they are copied.
    pub(crate) busy_hours: &'s BTreeSet<BucketStart>,
    /// The time of day, and monotonic time.
    pub(crate) now_ms: i64,
    pub(crate) elapsed_ms: i64,
    /// How long a window must have been closed, and quiet. Asked for, no time.
    pub(crate) delay_ms: i64,
    /// Somebody asked for everything that is closed to be coarse.
    pub(crate) everything: bool,
}

/// A bucket to be built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CoarsenPlan {
    pub(crate) target: Bucket,
    pub(crate) sources: Vec<Bucket>,
}

/// Everything that could be done now, without what a larger window takes along: the largest windows
/// first, of those the oldest.
///
/// The list may have the hours of ten years: it is sorted by time once, and walked once for each
/// size of windows.
pub(crate) fn waiting(situation: &PlanInput<'_>) -> Vec<CoarsenPlan> {
    let windows: Vec<Windows> = ladder::windows(situation.everything).collect();
    let largest = windows.iter().map(|windows| windows.size).max();
    let small = situation.buckets.iter().copied();
    let mut small: Vec<Bucket> = small.take_while(|b| Some(b.size) < largest).collect();
    // Of one start the largest first, so that of buckets that overlap two are neighbours.
    small.sort_by_key(|bucket| (bucket.start, Reverse(bucket.size)));
    let mut taken = vec![false; small.len()];
    let mut all = Vec::new();
    for windows in windows {
        let size = windows.size;
        let mut next = 0;
        while let Some(first) = small.get(next) {
            let from = next;
            next += 1;
            let Some(start) = size.bucket_of(first.start_ms()) else {
                continue;
            };
            let target = Bucket { size, start };
            while small
                .get(next)
                .is_some_and(|b| b.start_ms() < target.end_ms())
            {
                next += 1;
            }
            if taken[from..next].contains(&true) {
                continue;
            }
            let sources = situation.sources(target, &small[from..next]);
            if situation.is_ready(windows, target, &sources) {
                taken[from..next].fill(true);
                all.push(CoarsenPlan { target, sources });
            }
        }
    }
    all
}

impl PlanInput<'_> {
    /// What a target would be made from, out of all that begins in its window.
    fn sources(&self, target: Bucket, found: &[Bucket]) -> Vec<Bucket> {
        let smaller = found.iter().filter(|bucket| bucket.size < target.size);
        smaller.copied().collect()
    }

    fn is_ready(&self, windows: Windows, target: Bucket, sources: &[Bucket]) -> bool {
        let overlap = |pair: &[Bucket]| pair[0].end_ms() > pair[1].start_ms();
        sources.len() >= windows.sources_min
            && target.end_ms() <= self.now_ms.saturating_sub(windows.closed_ms)
            && self.is_narrow(target, sources)
            && self.is_quiet(target, sources)
            && !sources.windows(2).any(overlap)
            && !self.gone.iter().any(|gone| gone.overlaps(target))
            && list::covering(self.buckets, target).is_none()
    }

    /// Whether records of the target can be read in one go.
    fn is_narrow(&self, target: Bucket, sources: &[Bucket]) -> bool {
        let samples = sources.iter().filter_map(|source| self.samples.get(source));
        target.size <= ladder::lasting() || samples.sum::<u64>() <= ladder::RECORD_SAMPLES_MAX
    }

    fn is_quiet(&self, target: Bucket, sources: &[Bucket]) -> bool {
        let delay_ms = if self.everything { 0 } else { self.delay_ms };
        let quiet_since_ms = self.elapsed_ms.saturating_sub(delay_ms);
        let written = |source: &Bucket| self.written_ms.get(source).copied();
        target.end_ms() <= self.now_ms.saturating_sub(delay_ms)
            && hours_in(self.busy_hours, target).next().is_none()
            && (self.everything
                || sources
                    .iter()
                    .filter_map(written)
                    .all(|at| at <= quiet_since_ms))
    }
}

/// The hours that lie in a window.
pub(crate) fn hours_in(
    hours: &BTreeSet<BucketStart>,
    window: Bucket,
) -> impl Iterator<Item = BucketStart> {
    hours.range(window.hours()).copied()
}

#[cfg(test)]
mod tests;
