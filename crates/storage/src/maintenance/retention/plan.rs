//! What to roll up, to roll up anew and to cull: pure functions of the list of buckets, the head,
//! the policy and the time.
//!
//! ```text
//! finer level ─ closed, quiet ─► roll up ─► coarser level
//! coarser level, out of date ──► retire ─► roll up again
//! coarser level without series that the policy wants in it ─► the same
//! finer level, past retention and all of it rolled up ─► cull
//! overlay, quiet ──────────────► merge ─► all windows whose sources are gone
//! windows, all that is left of their time ─► one larger bucket
//! raw level, past the retention of most series ─► remnant with the others, and cull
//! ```
//!
//! Holds always:
//! - A bucket of windows is made of one level that is whole in its time, and of everything that is
//!   finer there because that is in its source: the next finer level of the policy, or one before
//!   it that has the deviations which a lean level has not.
//! - A level is culled by units: windows that hold every bucket that was made of it. So what a
//!   bucket was made of is all there, or all gone.
//! - Nothing is culled whose coarser bucket is missing or out of date, or of whose unit the head
//!   has something. Other units do not wait for it.
//! - Nothing is culled that has series which a coarser bucket lacks: those are made again of it,
//!   and where that is not possible any more it stays for as long as the coarser level is kept.
//! - Windows that stand in for finer levels stay for as long as those are kept.
//! - Nothing is made only to be culled: where a level and all that would be made of it are too old,
//!   or there, it is not made, and nothing waits for it.
//! - Overlays are merged before anything is made of the windows that they belong to, or culled.
//! - Where some series keep raw samples for longer than the others, those move to a remnant in the
//!   write that culls the rest. There nothing is made of raw samples any more.
//! - A level that the policy no longer names is kept for as long as the finer ones, because time of
//!   which those have nothing left may be in it alone.

mod larger;
mod remnants;

use std::collections::{BTreeMap, BTreeSet};

use icecore_model::rollup::{Resolution, WindowFields};
use icecore_model::{BucketSize, BucketStart, HOUR_MS};
use icecore_records::Bucket;

use super::super::plan::hours_in;
use crate::buckets::Retired;
use crate::buckets::levels::Listed;
use crate::buckets::{ladder, list};

pub(crate) use larger::{LargerPlan, larger_buckets};
pub(crate) use remnants::{RemnantPlan, remnants};

/// Buckets that are culled by one write at most.
const CULL_MAX: usize = 512;

/// How long a level is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LevelRule {
    pub(crate) resolution: Resolution,
    /// `None`: forever.
    pub(crate) retain_ms: Option<i64>,
    /// When most series can do without it, if others cannot. Only of raw samples.
    pub(crate) general_ms: Option<i64>,
    /// Without what only a few functions need.
    pub(crate) lean: bool,
    /// The policy names it.
    pub(crate) is_wanted: bool,
}

/// What a plan is made from.
pub(crate) struct RetentionInput<'s> {
    /// Finest first; the first is raw. All levels of which there are buckets.
    pub(crate) rules: &'s [LevelRule],
    pub(crate) listed: &'s Listed,
    pub(crate) retired: &'s Retired,
    /// When buckets were last written to, as far as that is known, by monotonic time.
    pub(crate) written_ms: &'s BTreeMap<Bucket, i64>,
    /// Hours that the head holds something of.
    pub(crate) busy_hours: &'s BTreeSet<BucketStart>,
    /// The time of day, monotonic time, and what retention takes for the time of day.
    pub(crate) now_ms: i64,
    pub(crate) elapsed_ms: i64,
    pub(crate) retention_now_ms: i64,
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

/// Overlays to be merged into windows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MergePlan {
    /// The largest bucket of windows that holds all of them.
    pub(crate) around: Bucket,
    /// Never empty.
    pub(crate) overlays: Vec<Bucket>,
    /// All buckets of windows of their time that cannot be made again.
    pub(crate) targets: Vec<Bucket>,
    /// Those of their time, which get what came late of the series that they have.
    pub(crate) remnants: Vec<Bucket>,
}

impl MergePlan {
    /// All that is read and written: overlays, windows, remnants.
    pub(crate) fn all(&self) -> impl Iterator<Item = Bucket> {
        let windows = self.overlays.iter().chain(&self.targets);
        windows.chain(&self.remnants).copied()
    }

    /// The bucket that all that is written lies in.
    pub(crate) fn outermost(&self) -> Bucket {
        let larger = |all: Bucket, bucket: &Bucket| {
            if bucket.size > all.size { *bucket } else { all }
        };
        self.remnants.iter().fold(self.around, larger)
    }
}

/// Buckets of a level to be retired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CullPlan {
    pub(crate) resolution: Resolution,
    /// Never empty.
    pub(crate) buckets: Vec<Bucket>,
    /// Time that takes no samples while they go. What was made of them lies inside.
    pub(crate) units: Vec<Bucket>,
    /// Nothing older is left of the level then.
    pub(crate) watermark_ms: i64,
}

/// Why a bucket is kept for longer than its policy says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeptBack {
    pub(crate) resolution: Resolution,
    pub(crate) bucket: Bucket,
    pub(crate) reason: &'static str,
}

/// Everything that could be rolled up now, finer levels first, of one level the oldest.
pub(crate) fn roll_ups(input: &RetentionInput<'_>) -> Vec<RollUpPlan> {
    let mut plans = Vec::new();
    for (at, rule) in input.rules.iter().enumerate().skip(1) {
        let Some(size) = input.target_size(rule.resolution) else {
            continue;
        };
        let finer = input.rules[..at].iter();
        let finer = finer.filter_map(|finer| input.listed.level(finer.resolution));
        let targets: BTreeSet<Bucket> = finer
            .flatten()
            .flat_map(|bucket| windows_of(*bucket, size))
            .collect();
        let wanted = targets.into_iter().filter(|target| {
            let is_wanted = rule.is_wanted || input.completes_a_window(at, *target);
            is_wanted && !input.is_built(*target, rule.resolution) && !input.is_past(at, *target)
        });
        plans.extend(wanted.filter_map(|target| input.plan_of(at, target)));
    }
    plans
}

/// Buckets of windows that are out of date and can be made again now.
pub(crate) fn outdated(input: &RetentionInput<'_>) -> Vec<Bucket> {
    let all = input.listed.all_rolled();
    let dirty = all.filter(|(bucket, facts)| input.listed.is_dirty(*bucket) && !facts.sources_gone);
    let ready = dirty.filter(|(bucket, facts)| {
        let mut rules = input.rules.iter();
        let at = rules.position(|rule| rule.resolution == facts.resolution);
        at.is_some_and(|at| input.plan_of(at, *bucket).is_some())
    });
    ready.map(|(bucket, _)| bucket).collect()
}

/// Overlays that can be merged now, those of one bucket of windows together: the series of that one
/// are looked through once.
pub(crate) fn merges(input: &RetentionInput<'_>) -> Vec<MergePlan> {
    let gone: Vec<Bucket> = input.listed.gone().collect();
    let mut groups: BTreeMap<Bucket, Vec<Bucket>> = BTreeMap::new();
    for overlay in input.listed.overlays() {
        let around = gone.iter().filter(|gone| gone.overlaps(*overlay));
        let around = around.max_by_key(|gone| gone.size);
        let is_ready = hours_in(input.busy_hours, *overlay).next().is_none();
        if let Some(around) = around.filter(|_| is_ready && input.is_unwritten(*overlay)) {
            groups.entry(*around).or_default().push(*overlay);
        }
    }
    let plan = |(around, overlays): (Bucket, Vec<Bucket>)| MergePlan {
        around,
        targets: targets_of(&gone, &overlays),
        remnants: remnants_of(input.listed, &overlays),
        overlays,
    };
    groups.into_iter().map(plan).collect()
}

/// The buckets of windows among these that have time of overlays.
pub(crate) fn targets_of(gone: &[Bucket], overlays: &[Bucket]) -> Vec<Bucket> {
    let has_some = |gone: &&Bucket| overlays.iter().any(|overlay| overlay.overlaps(**gone));
    gone.iter().filter(has_some).copied().collect()
}

/// The remnants that have time of overlays.
pub(crate) fn remnants_of(listed: &Listed, overlays: &[Bucket]) -> Vec<Bucket> {
    let has_some = |remnant: &Bucket| overlays.iter().any(|overlay| overlay.overlaps(*remnant));
    listed.remnants().filter(has_some).collect()
}

/// What each level can do without now, and what stands in the way of the rest.
pub(crate) fn culls(input: &RetentionInput<'_>) -> (Vec<CullPlan>, Vec<KeptBack>) {
    let (mut plans, mut kept_back) = (Vec::new(), Vec::new());
    for (at, rule) in input.rules.iter().enumerate() {
        let (plan, kept) = input.cull_of(at, rule);
        plans.extend(plan);
        kept_back.extend(kept);
    }
    (plans, kept_back)
}

/// What is known of a bucket of windows after something finer has gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outliving {
    pub(crate) bucket: Bucket,
    pub(crate) source: Resolution,
    pub(crate) sources_gone: bool,
}

/// The buckets of windows for which it matters that something is culled. What was made of it could
/// be made from then on of what that was made of itself, if it is still there.
pub(crate) fn outliving(listed: &Listed, plan: &CullPlan) -> Vec<Outliving> {
    let mut outliving = Vec::new();
    for (bucket, facts) in listed.all_rolled() {
        let culled = plan.buckets.iter().filter(|culled| culled.overlaps(bucket));
        let culled: Vec<_> = culled.map(|culled| listed.facts(*culled)).collect();
        if culled.is_empty() || facts.resolution <= plan.resolution {
            continue;
        }
        // Of a level between that has not all of it any more nothing could be made again.
        let is_between = |level: &BTreeSet<Bucket>| {
            let mut culled = plan.buckets.iter().filter(|culled| culled.overlaps(bucket));
            culled.all(|culled| is_covered(level, *culled, bucket))
        };
        let between = listed.level(facts.source).filter(|l| is_between(l));
        let is_made_of_it = !facts.sources_gone
            && (facts.source == plan.resolution
                || (facts.source > plan.resolution && between.is_none()));
        let is_next_to_go = facts.source < plan.resolution && facts.sources_gone;
        if !is_made_of_it && !is_next_to_go {
            continue;
        }
        let sources = culled.into_iter().map(|culled| match culled {
            Some(culled) if !culled.sources_gone => Some(culled.source),
            _ => None,
        });
        let sources: Option<Vec<Resolution>> = sources.collect();
        // The finest: it is the first to go.
        let finer = sources.and_then(|sources| sources.into_iter().min());
        let finer = finer.filter(|_| is_made_of_it);
        outliving.push(Outliving {
            bucket,
            source: finer.unwrap_or(plan.resolution),
            sources_gone: finer.is_none(),
        });
    }
    outliving
}

/// Whether a level has buckets for all hours that a bucket has in a window.
fn is_covered(level: &BTreeSet<Bucket>, bucket: Bucket, window: Bucket) -> bool {
    let mut hours = bucket
        .each_hour()
        .filter(|hour| window.contains(hour.start_ms()));
    hours.all(|hour| list::covering(level, Bucket::hour(hour)).is_some())
}

impl RetentionInput<'_> {
    /// The size of the buckets that a level is rolled up into.
    fn target_size(&self, resolution: Resolution) -> Option<BucketSize> {
        self.listed.sizes().target(resolution)
    }

    /// Whether a coarser window of the policy is partly in a level alone, so that the rest of it
    /// has to come there, too.
    fn completes_a_window(&self, level: usize, target: Bucket) -> bool {
        let resolution = self.rules[level].resolution;
        let mut coarser = self.rules[level + 1..].iter().filter(|rule| rule.is_wanted);
        coarser.any(|rule| {
            let size = self.target_size(rule.resolution);
            let around = size.and_then(|size| windows_of(target, size).next());
            around.is_some_and(|around| {
                !self.is_built(around, rule.resolution) && self.is_alone_in(resolution, around)
            })
        })
    }

    /// Whether some of a window is in a level alone.
    fn is_alone_in(&self, resolution: Resolution, window: Bucket) -> bool {
        let found = self.listed.level_in(resolution, window);
        let facts = found.into_iter().filter_map(|b| self.listed.facts(b));
        facts.into_iter().any(|facts| facts.sources_gone)
    }

    /// Whether a bucket would go as soon as it is made: it is too old for its level, of which
    /// nothing else is left in the unit that goes at once, and nothing has to be made of it.
    fn is_past(&self, level: usize, target: Bucket) -> bool {
        let rule = &self.rules[level];
        if self.keeps(rule, target) {
            return false;
        }
        let is_done = |at: usize| {
            let resolution = self.rules[at].resolution;
            let is_done = |window: Bucket| {
                let made = self.covering(window, resolution);
                let is_clean = made.is_some_and(|made| !self.listed.is_dirty(made));
                is_clean || self.is_past(at, window)
            };
            // Without a size of its own a level is not made, and waited for.
            let size = self.target_size(resolution);
            size.is_some_and(|size| windows_of(target, size).all(is_done))
        };
        self.needed_by(level).into_iter().all(is_done) && {
            let unit = self.cull_unit(level).max(target.size);
            let mut units = windows_of(target, unit);
            units.all(|unit| self.listed.level_in(rule.resolution, unit).is_empty())
        }
    }

    /// Whether a level keeps something of a bucket.
    fn keeps(&self, rule: &LevelRule, bucket: Bucket) -> bool {
        let since_ms = rule
            .retain_ms
            .map(|ms| self.this_hour_ms().saturating_sub(ms));
        since_ms.is_none_or(|since_ms| since_ms < bucket.end_ms())
    }

    /// Whether a bucket is there, or was and has not gone yet.
    fn is_built(&self, target: Bucket, resolution: Resolution) -> bool {
        let listed = self.listed.level(resolution);
        listed.is_some_and(|listed| list::covering(listed, target).is_some())
            || self.retired.contains_key(&target)
    }

    /// How to make a bucket of windows, if all that it takes is there.
    fn plan_of(&self, level: usize, target: Bucket) -> Option<RollUpPlan> {
        let rule = self.rules[level];
        let (source, lean) = self.source_of(level, target)?;
        let sources = self.listed.level_in(source, target);
        let finer = self
            .rules
            .iter()
            .take_while(|rule| rule.resolution < source);
        let is_complete = |finer: &LevelRule| self.is_rolled_up(target, finer.resolution, source);
        let is_ready = !sources.is_empty()
            && self.is_closed(target)
            && sources.iter().all(|bucket| !self.listed.is_dirty(*bucket))
            && finer.into_iter().all(is_complete)
            && self.listed.overlays_in(target).is_empty()
            && self.is_quiet(target);
        is_ready.then_some(RollUpPlan {
            target,
            resolution: rule.resolution,
            lean,
            sources,
        })
    }

    /// The level that a bucket of windows is made of, and whether the windows are lean then.
    fn source_of(&self, level: usize, target: Bucket) -> Option<(Resolution, bool)> {
        let rule = self.rules[level];
        let finer = self.rules[..level].iter().rev();
        let candidates: Vec<&LevelRule> = finer
            .filter(|finer| finer.is_wanted || self.is_alone_in(finer.resolution, target))
            .filter(|finer| self.listed.is_whole(finer.resolution, target))
            .collect();
        let full = candidates.iter().find(|finer| self.is_full(finer, target));
        match full {
            Some(full) if !rule.lean => Some((full.resolution, false)),
            _ => Some((candidates.first()?.resolution, true)),
        }
    }

    /// Whether a level has all fields in a window.
    fn is_full(&self, rule: &LevelRule, window: Bucket) -> bool {
        let found = self.listed.level_in(rule.resolution, window);
        let mut facts = found.into_iter().filter_map(|b| self.listed.facts(b));
        rule.resolution.is_raw() || (!rule.lean && facts.all(|f| f.has_fields(WindowFields::ALL)))
    }

    fn is_closed(&self, target: Bucket) -> bool {
        target.end_ms().saturating_add(self.delay_ms) <= self.now_ms
            && hours_in(self.busy_hours, target).next().is_none()
    }

    /// Whether nothing was written to a window for a while.
    fn is_quiet(&self, window: Bucket) -> bool {
        let raw = self.listed.level_in(Resolution::RAW, window);
        raw.into_iter().all(|bucket| self.is_unwritten(bucket))
    }

    /// Whether nothing was written to a bucket for a while.
    fn is_unwritten(&self, bucket: Bucket) -> bool {
        let quiet_since_ms = self.elapsed_ms.saturating_sub(self.delay_ms);
        let written_ms = self.written_ms.get(&bucket);
        self.delay_ms == 0 || written_ms.is_none_or(|at_ms| *at_ms <= quiet_since_ms)
    }

    /// Whether all that a level has in a window is in a coarser level.
    fn is_rolled_up(&self, window: Bucket, finer: Resolution, coarser: Resolution) -> bool {
        let Some(size) = self.target_size(coarser) else {
            return false;
        };
        let found = self.listed.level_in(finer, window);
        let mut parts = found
            .into_iter()
            .flat_map(|bucket| windows_of(bucket, size))
            .filter(|part| window.contains(part.start_ms()));
        parts.all(|part| self.covering(part, coarser).is_some())
    }

    fn covering(&self, bucket: Bucket, resolution: Resolution) -> Option<Bucket> {
        list::covering(self.listed.level(resolution)?, bucket)
    }

    /// The levels that must be there before a level goes: the next one of the policy, and full ones
    /// that are made of it because what lies between is lean.
    fn needed_by(&self, level: usize) -> Vec<usize> {
        let is_full = |at: usize| self.rules[at].resolution.is_raw() || !self.rules[at].lean;
        let mut between_is_full = !is_full(level);
        let mut needed = Vec::new();
        for at in level + 1..self.rules.len() {
            if !self.rules[at].is_wanted {
                continue;
            }
            if needed.is_empty() || (is_full(at) && !between_is_full) {
                needed.push(at);
            }
            between_is_full |= is_full(at);
        }
        needed
    }

    fn cull_of(&self, level: usize, rule: &LevelRule) -> (Option<CullPlan>, Vec<KeptBack>) {
        let resolution = rule.resolution;
        let (Some(retain_ms), Some(all)) = (rule.retain_ms, self.listed.level(resolution)) else {
            return (None, Vec::new());
        };
        let expired_ms = self.this_hour_ms().saturating_sub(retain_ms);
        let unit = self.cull_unit(level);
        let mut units: BTreeMap<Bucket, Vec<Bucket>> = BTreeMap::new();
        for bucket in list::in_range(all, i64::MIN, expired_ms.saturating_sub(1)) {
            let window = windows_of(bucket, unit.max(bucket.size)).next();
            let window = window.filter(|window| window.end_ms() <= expired_ms);
            if let Some(window) = window {
                units.entry(window).or_default().push(bucket);
            }
        }
        if resolution.is_raw() {
            let remnants = self.listed.remnants();
            let expired = remnants.filter(|remnant| remnant.end_ms() <= expired_ms);
            units.extend(expired.map(|remnant| (remnant, vec![remnant])));
        }
        let mut kept_back = Vec::new();
        let mut plan = CullPlan {
            resolution,
            buckets: Vec::new(),
            units: Vec::new(),
            watermark_ms: 0,
        };
        for (window, buckets) in units {
            // Of a remnant only what no windows hold has to be made into some.
            let alone = buckets.iter().copied();
            let alone = alone.filter(|b| !ladder::is_remnant(b.size) || self.listed.is_alone(*b));
            let alone: Vec<Bucket> = alone.collect();
            let reason = self.reason_to_keep(level, window, &alone);
            let reason = reason
                .or_else(|| self.lacking_above(level, &buckets))
                .or_else(|| self.left_below(level, window, &buckets))
                .or_else(|| self.stands_in(level, &buckets));
            if let Some(reason) = reason {
                kept_back.push(KeptBack {
                    resolution,
                    bucket: buckets[0],
                    reason,
                });
            } else if plan.buckets.len() < CULL_MAX {
                plan.buckets.extend(buckets);
                plan.units.push(window);
            }
        }
        plan.watermark_ms = self.watermark_ms(resolution, &plan.buckets, &plan.units);
        let plan = (!plan.buckets.is_empty()).then_some(plan);
        (plan, kept_back)
    }

    fn this_hour_ms(&self) -> i64 {
        self.retention_now_ms.div_euclid(HOUR_MS) * HOUR_MS
    }

    /// Up to where nothing is left of a level when these buckets, which are all of these units, go.
    fn watermark_ms(&self, resolution: Resolution, buckets: &[Bucket], units: &[Bucket]) -> i64 {
        let going: BTreeSet<Bucket> = buckets.iter().copied().collect();
        let all = self.listed.level(resolution).into_iter().flatten();
        let left = all.filter(|bucket| !going.contains(bucket));
        let left = left.map(|bucket| bucket.start_ms()).min();
        let gone = units.iter().map(|unit| unit.end_ms()).max();
        gone.unwrap_or(0).min(left.unwrap_or(i64::MAX))
    }

    /// A level goes by windows of this size: those of all that is made of it.
    fn cull_unit(&self, level: usize) -> BucketSize {
        let resolution = self.rules[level].resolution;
        let needed = self.needed_by(level).into_iter();
        let needed = needed.filter_map(|at| self.target_size(self.rules[at].resolution));
        let affected = self.listed.all_rolled().filter(|(bucket, facts)| {
            // What it was made of itself may be out of date and gone, and too old to be made again.
            let made_of_it = !facts.sources_gone
                && (facts.source == resolution
                    || (facts.source > resolution
                        && self.listed.level_in(facts.source, *bucket).is_empty()));
            let next_to_go = facts.source < resolution && facts.sources_gone;
            facts.resolution > resolution
                && (made_of_it || next_to_go)
                && !self.listed.level_in(resolution, *bucket).is_empty()
        });
        let sizes = needed.chain(affected.map(|(bucket, _)| bucket.size));
        sizes.max().unwrap_or(BucketSize::HOUR)
    }

    fn reason_to_keep(
        &self,
        level: usize,
        unit: Bucket,
        buckets: &[Bucket],
    ) -> Option<&'static str> {
        if hours_in(self.busy_hours, unit).next().is_some() {
            return Some("samples of its time are not flushed yet");
        }
        if !self.listed.overlays_in(unit).is_empty() {
            return Some("late samples of its time are not merged yet");
        }
        let needed_by = self.needed_by(level);
        let state_of = |at: &usize| self.state_of(*at, buckets);
        // Where a needed level cannot be made, the coarser ones must be there without it.
        let stands_in = needed_by
            .iter()
            .any(|at| state_of(at) == RolledState::Impossible);
        let levels = if stands_in {
            (level + 1..self.rules.len()).collect()
        } else {
            needed_by
        };
        for at in levels {
            match self.state_of(at, buckets) {
                RolledState::Built => {}
                RolledState::Waiting => return Some("it is not rolled up yet"),
                RolledState::Impossible if self.keeps(&self.rules[at], unit) => {
                    return Some("a coarser level cannot be made of its time any more");
                }
                RolledState::Impossible => {}
            }
        }
        let resolution = self.rules[level].resolution;
        let coarser = self
            .listed
            .resolutions()
            .filter(|other| *other > resolution);
        let mut made = coarser.flat_map(|level| self.listed.level_in(level, unit));
        let is_dirty = |bucket: Bucket| self.listed.is_dirty(bucket);
        made.any(is_dirty).then_some("its windows are out of date")
    }

    /// Whether a coarser level that is kept for longer has no windows of some series that buckets
    /// have, or would have none if it were made of those that there are.
    fn lacking_above(&self, level: usize, buckets: &[Bucket]) -> Option<&'static str> {
        let resolution = self.rules[level].resolution;
        let wanted = self.rules[level + 1..].iter().filter(|rule| rule.is_wanted);
        let is_lacking = |finer: Bucket| {
            let has = |made: &Bucket| self.listed.has_series_of(*made, finer);
            let coarser = self.listed.resolutions().filter(|r| *r > resolution);
            let made = coarser.flat_map(|level| self.listed.level_in(level, finer));
            let lacking: Vec<Bucket> = made.filter(|made| !has(made)).collect();
            wanted.clone().any(|rule| {
                let is_there = |made: &Bucket| {
                    let found = self.listed.level_in(rule.resolution, *made);
                    !found.is_empty() && found.iter().all(has)
                };
                self.keeps(rule, finer)
                    && (!lacking.iter().all(is_there) || !self.is_served(rule, finer))
            })
        };
        let is_lacking = buckets.iter().any(|bucket| is_lacking(*bucket));
        is_lacking.then_some("its windows lack series that it has")
    }

    /// Whether what a level would have of a remnant is in windows of its time: in its own, or in
    /// coarser ones, if those leave nobody out that it has. Of other buckets it is made first.
    fn is_served(&self, rule: &LevelRule, finer: Bucket) -> bool {
        let left_out = |resolution| self.listed.left_out().of(resolution);
        let leaves_out_more = |coarser: Resolution| {
            let mut more = left_out(coarser).difference(left_out(rule.resolution));
            more.next().is_some()
        };
        let coarser = self.listed.resolutions();
        let coarser = coarser.filter(|r| *r > rule.resolution && leaves_out_more(*r));
        let mut alone = coarser.flat_map(|level| self.listed.level_in(level, finer));
        let is_alone = |made: Bucket| self.listed.level_in(rule.resolution, made).is_empty();
        !ladder::is_remnant(finer.size) || !alone.any(is_alone)
    }

    /// Whether something finer is left of a unit, and of another part of it nothing is. What was
    /// made of these buckets could not be made again when they are gone, and the finer samples
    /// would lie in time that is. They are kept for longer than these where an override keeps them
    /// at no other level.
    fn left_below(&self, level: usize, unit: Bucket, buckets: &[Bucket]) -> Option<&'static str> {
        let mut finer = self.rules[..level].iter();
        let has_finer = finer.any(|rule| !self.listed.level_in(rule.resolution, unit).is_empty());
        let facts = buckets.iter().filter_map(|b| self.listed.facts(*b));
        let has_gone = facts.into_iter().any(|facts| facts.sources_gone);
        (has_finer && has_gone).then_some("something finer of its time is still kept")
    }

    /// Whether buckets have late samples that finer levels would still keep.
    fn stands_in(&self, level: usize, buckets: &[Bucket]) -> Option<&'static str> {
        let is_kept = |bucket: &Bucket| {
            let stands_in = self.listed.facts(*bucket).is_some_and(|f| f.stands_in);
            let mut finer = self.rules[..level].iter();
            stands_in && finer.any(|rule| self.keeps(rule, *bucket))
        };
        let is_kept = buckets.iter().any(is_kept);
        is_kept.then_some("late samples in it are kept by finer levels, which are gone")
    }

    /// Whether buckets are rolled up to a level.
    fn state_of(&self, level: usize, buckets: &[Bucket]) -> RolledState {
        let rule = self.rules[level];
        let Some(size) = self.target_size(rule.resolution) else {
            return RolledState::Waiting;
        };
        let windows = buckets.iter().flat_map(|bucket| windows_of(*bucket, size));
        let missing = windows
            .filter(|w| self.covering(*w, rule.resolution).is_none() && !self.is_past(level, *w));
        let mut missing = missing.peekable();
        if !rule.is_wanted || missing.peek().is_none() {
            RolledState::Built
        } else if missing.all(|window| self.source_of(level, window).is_none()) {
            RolledState::Impossible
        } else {
            RolledState::Waiting
        }
    }
}

/// How far buckets are on their way to a coarser level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RolledState {
    Built,
    Waiting,
    /// Some of the time is in a coarser level alone, so that a window of this one would have holes.
    Impossible,
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
