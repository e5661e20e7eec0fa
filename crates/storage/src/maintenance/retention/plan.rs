//! What to roll up, to roll up anew and to cull: pure functions of the list of buckets, the head,
//! the policy and the time.
//!
//! ```text
//! finer level ─ closed, quiet ─► roll up ─► coarser level
//! coarser level, out of date ──► retire ─► roll up again
//! finer level, past retention and all of it rolled up ─► cull
//! ```
//!
//! Holds always:
//! - A level is made of the next finer one that has all that it needs: a lean level has no
//!   deviations, so a full one behind it is made of what comes before. A window is rolled up once
//!   everything finer in it is in its source.
//! - A level is culled by whole buckets of those that are made of it: what a bucket was made from
//!   is there until all of it goes. So a bucket that is out of date can be made again.
//! - Nothing is culled whose coarser bucket is missing or out of date. Culling goes from old to new
//!   and stops there.

use std::collections::{BTreeMap, BTreeSet};

use icecore_model::rollup::Resolution;
use icecore_model::{BucketSize, BucketStart, HOUR_MS};
use icecore_records::Bucket;

use super::super::plan::hours_in;
use crate::buckets::Retired;
use crate::buckets::levels::Listed;
use crate::buckets::list;

/// How long a level is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LevelRule {
    pub(crate) resolution: Resolution,
    /// `None`: forever.
    pub(crate) retain_ms: Option<i64>,
    /// Without what only a few functions need.
    pub(crate) lean: bool,
}

/// What a plan is made from.
pub(crate) struct RetentionInput<'s> {
    /// Finest first; the first is raw.
    pub(crate) rules: &'s [LevelRule],
    pub(crate) listed: &'s Listed,
    pub(crate) retired: &'s Retired,
    /// Below these times nothing of a level is kept.
    pub(crate) watermarks_ms: &'s BTreeMap<Resolution, i64>,
    /// When buckets were last written to, as far as that is known.
    pub(crate) written_ms: &'s BTreeMap<Bucket, i64>,
    /// Hours that the head holds something of.
    pub(crate) busy_hours: &'s BTreeSet<BucketStart>,
    pub(crate) now_ms: i64,
    /// How long a window must have been closed, and quiet. Asked for, no time.
    pub(crate) delay_ms: i64,
}

/// A bucket of windows to be built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RollUpPlan {
    pub(crate) target: Bucket,
    pub(crate) resolution: Resolution,
    pub(crate) lean: bool,
    pub(crate) sources: Vec<Bucket>,
}

/// Buckets of a level to be retired, and the time before which it keeps nothing from then on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CullPlan {
    pub(crate) resolution: Resolution,
    pub(crate) watermark_ms: i64,
    pub(crate) buckets: Vec<Bucket>,
}

impl CullPlan {
    /// What it is known by when it fails: its first bucket, or the hour before its watermark.
    pub(crate) fn known_by(&self) -> Bucket {
        let last_ms = self.watermark_ms.saturating_sub(1);
        let hour = BucketSize::HOUR
            .bucket_of(last_ms.max(0))
            .unwrap_or_default();
        self.buckets.first().copied().unwrap_or(Bucket::hour(hour))
    }
}

/// Why a level is kept for longer than its policy says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeptBack {
    pub(crate) resolution: Resolution,
    /// The bucket that has to go first.
    pub(crate) bucket: Bucket,
    pub(crate) reason: &'static str,
}

/// Everything that could be rolled up now, finer levels first, of one level the oldest.
pub(crate) fn roll_ups(input: &RetentionInput<'_>) -> Vec<RollUpPlan> {
    let levels = input.rules.iter().enumerate();
    levels
        .flat_map(|(at, rule)| match input.source_of(at) {
            Some(source) => input.roll_ups_of(source, *rule),
            None => Vec::new(),
        })
        .collect()
}

/// Buckets of windows that are out of date and have been left alone for a while.
pub(crate) fn outdated(input: &RetentionInput<'_>) -> Vec<Bucket> {
    let quiet = |bucket: &Bucket, hours: &BTreeSet<BucketStart>| {
        hours_in(input.busy_hours, *bucket).next().is_none()
            && hours.iter().all(|hour| {
                let raw = list::in_range(
                    input.listed.raw(),
                    hour.start_ms(),
                    hour.start_ms() + HOUR_MS - 1,
                );
                input.is_quiet(&raw)
            })
    };
    let dirty = input.listed.dirty().iter();
    let dirty = dirty.filter(|(bucket, hours)| input.has_sources(**bucket) && quiet(bucket, hours));
    dirty.map(|(bucket, _)| *bucket).collect()
}

/// What each level can do without now, and what stands in the way of the rest.
pub(crate) fn culls(input: &RetentionInput<'_>) -> (Vec<CullPlan>, Vec<KeptBack>) {
    let (mut plans, mut kept_back) = (Vec::new(), Vec::new());
    for (at, rule) in input.rules.iter().enumerate() {
        let Some(retain_ms) = rule.retain_ms else {
            continue;
        };
        let (plan, kept) = input.cull_of(rule.resolution, retain_ms, &input.needed_by(at));
        plans.extend(plan);
        kept_back.extend(kept);
    }
    (plans, kept_back)
}

impl RetentionInput<'_> {
    fn level(&self, resolution: Resolution) -> Option<&BTreeSet<Bucket>> {
        if resolution.is_raw() {
            Some(self.listed.raw())
        } else {
            self.listed.rolled().get(&resolution)
        }
    }

    /// The size of the buckets that a level is rolled up into.
    fn target_size(&self, resolution: Resolution) -> Option<BucketSize> {
        self.listed.sizes().target(resolution)
    }

    /// The level that a level is made of; `None` for raw.
    fn source_of(&self, level: usize) -> Option<usize> {
        source_of(self.rules, level)
    }

    /// The levels that must be there before a level goes: those that are made of it, and the next.
    fn needed_by(&self, level: usize) -> Vec<Resolution> {
        let coarser = level + 1..self.rules.len();
        coarser
            .filter(|at| *at == level + 1 || self.source_of(*at) == Some(level))
            .map(|at| self.rules[at].resolution)
            .collect()
    }

    fn roll_ups_of(&self, source: usize, rule: LevelRule) -> Vec<RollUpPlan> {
        let (finer, source) = (&self.rules[..source], self.rules[source].resolution);
        let (Some(size), Some(sources)) = (self.target_size(rule.resolution), self.level(source))
        else {
            return Vec::new();
        };
        let targets: BTreeSet<Bucket> = sources
            .iter()
            .flat_map(|source| windows_of(*source, size))
            .collect();
        let mut plans = Vec::new();
        for target in targets {
            if self.is_built(target, rule.resolution) || !self.is_closed(target) {
                continue;
            }
            let sources = list::in_range(sources, target.start_ms(), target.end_ms() - 1);
            let complete = finer.iter().all(|level| {
                self.is_rolled_up(target, level.resolution, source) && self.is_clean(target, source)
            });
            if complete && self.is_quiet(&sources) {
                plans.push(RollUpPlan {
                    target,
                    resolution: rule.resolution,
                    lean: rule.lean,
                    sources,
                });
            }
        }
        plans
    }

    /// Whether a bucket is there, or was and has not gone yet.
    fn is_built(&self, target: Bucket, resolution: Resolution) -> bool {
        let listed = self.level(resolution);
        listed.is_some_and(|listed| list::covering(listed, target).is_some())
            || self.retired.contains_key(&target)
    }

    fn is_closed(&self, target: Bucket) -> bool {
        target.end_ms().saturating_add(self.delay_ms) <= self.now_ms
            && hours_in(self.busy_hours, target).next().is_none()
    }

    fn is_quiet(&self, sources: &[Bucket]) -> bool {
        let quiet_since_ms = self.now_ms.saturating_sub(self.delay_ms);
        let written = sources.iter().filter_map(|b| self.written_ms.get(b));
        self.delay_ms == 0 || written.into_iter().all(|at_ms| *at_ms <= quiet_since_ms)
    }

    /// Whether all that a level has in a window is in a coarser level.
    fn is_rolled_up(&self, window: Bucket, finer: Resolution, coarser: Resolution) -> bool {
        let (Some(finer), Some(size)) = (self.level(finer), self.target_size(coarser)) else {
            return true;
        };
        let found = list::in_range(finer, window.start_ms(), window.end_ms() - 1);
        found
            .into_iter()
            .flat_map(|bucket| windows_of(bucket, size))
            .filter(|part| window.contains(part.start_ms()))
            .all(|part| self.covering(part, coarser).is_some())
    }

    fn covering(&self, bucket: Bucket, resolution: Resolution) -> Option<Bucket> {
        list::covering(self.level(resolution)?, bucket)
    }

    /// Whether nothing of a level in a window is out of date.
    fn is_clean(&self, window: Bucket, resolution: Resolution) -> bool {
        let Some(level) = self.level(resolution) else {
            return true;
        };
        let dirty = self.listed.dirty();
        let found = list::in_range(level, window.start_ms(), window.end_ms() - 1);
        resolution.is_raw() || found.iter().all(|bucket| !dirty.contains_key(bucket))
    }

    /// Whether what a bucket of windows was made from is still there.
    fn has_sources(&self, bucket: Bucket) -> bool {
        let Some(resolution) = self.listed.sizes().resolution(bucket.size) else {
            return false;
        };
        let at = self.rules.iter().position(|r| r.resolution == resolution);
        let source = at.and_then(|at| self.source_of(at));
        source.is_some_and(|source| {
            let watermark = self.watermarks_ms.get(&self.rules[source].resolution);
            watermark.is_none_or(|watermark| *watermark <= bucket.start_ms())
        })
    }

    fn cull_of(
        &self,
        resolution: Resolution,
        retain_ms: i64,
        needed_by: &[Resolution],
    ) -> (Option<CullPlan>, Option<KeptBack>) {
        let sizes = needed_by
            .iter()
            .filter_map(|level| self.target_size(*level));
        let unit_ms = sizes.max().map_or(HOUR_MS, BucketSize::duration_ms);
        let floor = |ms: i64| ms.div_euclid(unit_ms) * unit_ms;
        let this_hour_ms = self.now_ms.div_euclid(HOUR_MS) * HOUR_MS;
        let mut watermark_ms = floor(this_hour_ms.saturating_sub(retain_ms));
        let mut kept_back = None;
        let level = self.level(resolution).cloned().unwrap_or_default();
        let mut expired = list::in_range(&level, i64::MIN, watermark_ms.saturating_sub(1));
        for bucket in &expired {
            let mut reasons = needed_by.iter();
            if let Some(reason) = reasons.find_map(|level| self.reason_to_keep(*bucket, *level)) {
                watermark_ms = watermark_ms.min(floor(bucket.start_ms()));
                kept_back = Some(KeptBack {
                    resolution,
                    bucket: *bucket,
                    reason,
                });
                break;
            }
        }
        expired.retain(|bucket| bucket.end_ms() <= watermark_ms);
        let known = self.watermarks_ms.get(&resolution).copied().unwrap_or(0);
        let raises = watermark_ms > known;
        // The clock may have gone back.
        let watermark_ms = watermark_ms.max(known);
        let plan = (raises || !expired.is_empty()).then_some(CullPlan {
            resolution,
            watermark_ms,
            buckets: expired,
        });
        (plan, kept_back)
    }

    fn reason_to_keep(&self, bucket: Bucket, coarser: Resolution) -> Option<&'static str> {
        if hours_in(self.busy_hours, bucket).next().is_some() {
            return Some("samples of its time are not flushed yet");
        }
        let Some(size) = self.target_size(coarser) else {
            return Some("there is no bucket size for the next level");
        };
        for window in windows_of(bucket, size) {
            match self.covering(window, coarser) {
                None => return Some("it is not rolled up yet"),
                Some(rolled) if self.listed.dirty().contains_key(&rolled) => {
                    return Some("its windows are out of date");
                }
                Some(_) => {}
            }
        }
        None
    }
}

/// The level that a level is made of; `None` for raw.
pub(super) fn source_of(rules: &[LevelRule], level: usize) -> Option<usize> {
    let lean = rules[level].lean;
    (0..level).rev().find(|finer| lean || !rules[*finer].lean)
}

/// The windows of a size that a bucket has something of.
fn windows_of(bucket: Bucket, size: BucketSize) -> impl Iterator<Item = Bucket> {
    let first = size.bucket_of(bucket.start_ms());
    let end_ms = bucket.end_ms();
    std::iter::successors(first, move |start| size.bucket_of(start.end_ms(size)))
        .take_while(move |start| start.start_ms() < end_ms)
        .map(move |start| Bucket { size, start })
}

#[cfg(test)]
mod tests;
