use std::slice;
use std::sync::Arc;

use icecore_model::retention::{ColumnSet, LateData, Level, Override, Retention, RetentionPolicy};
use icecore_model::rollup::{RollupChoice, WindowFields};
use icecore_model::{Labels, MatchOp, Matcher};
use proptest::prelude::*;

use super::super::snapshot::rules;
use super::*;
use crate::buckets::kept_since::{KeptClasses, KeptSince};
use crate::buckets::ladder;
use crate::buckets::levels::RolledBucket;
use crate::ingest::head::TimeFloor;
use crate::read::levels::{self, LevelPlan};

mod left_out;
mod remnants;

const DAY_MS: i64 = 24 * HOUR_MS;
const RAW: Resolution = Resolution::RAW;
const FIVE: Resolution = Resolution::FIVE_MINUTES;
const HOURLY: Resolution = Resolution::HOUR;

fn bucket(exponent: u8, hour: i64) -> Bucket {
    let size = BucketSize::from_exponent(exponent).unwrap();
    let start = size.bucket_of(hour * HOUR_MS).unwrap();
    Bucket { size, start }
}

fn policy(levels: &[(Resolution, i64, ColumnSet)]) -> RetentionPolicy {
    let level = |(resolution, days, columns): &(Resolution, i64, ColumnSet)| Level {
        resolution: *resolution,
        retain: Retention::For(days * DAY_MS),
        columns: *columns,
    };
    let levels = levels.iter().map(level).collect();
    RetentionPolicy::new(levels, 2 * HOUR_MS, LateData::Reject, Vec::new()).unwrap()
}

/// The same policy, which merges late samples.
fn merging(policy: &RetentionPolicy) -> RetentionPolicy {
    let levels = policy.levels().to_vec();
    let delay_ms = policy.rollup_delay_ms();
    let overrides = policy.overrides().to_vec();
    RetentionPolicy::new(levels, delay_ms, LateData::Merge, overrides).unwrap()
}

/// The same policy, with other times for some series.
fn with_override(
    policy: &RetentionPolicy,
    series: &str,
    retain: &[(Resolution, Retention)],
) -> RetentionPolicy {
    let levels = policy.levels().to_vec();
    let delay_ms = policy.rollup_delay_ms();
    let mut overrides = policy.overrides().to_vec();
    overrides.push(Override {
        matchers: vec![Matcher::new(MatchOp::Regex, "series", series).unwrap()],
        retain: retain.to_vec(),
    });
    RetentionPolicy::new(levels, delay_ms, policy.late_data(), overrides).unwrap()
}

fn three_levels(days: [i64; 3]) -> RetentionPolicy {
    let [raw, five, hourly] = days;
    policy(&[
        (RAW, raw, ColumnSet::Full),
        (FIVE, five, ColumnSet::Lean),
        (HOURLY, hourly, ColumnSet::Full),
    ])
}

/// A sample, known by its hour and a number.
type Sample = (i64, usize);

/// At which levels a sample may still be.
#[derive(Clone, Copy, Debug)]
struct Promise {
    /// The finest.
    from: Resolution,
    /// Of one that came late: the finest windows that there were.
    late: Option<Resolution>,
}

/// How many series there are.
const SERIES: usize = 4;

/// The series that a sample is of.
fn series_of(sample: &Sample) -> usize {
    sample.1 % SERIES
}

/// A database whose jobs do what is planned, and that knows where each sample lies.
#[derive(Clone, Debug)]
struct World {
    policy: RetentionPolicy,
    rules: Vec<LevelRule>,
    listed: Listed,
    retired: Retired,
    written_ms: BTreeMap<Bucket, i64>,
    busy_hours: BTreeSet<BucketStart>,
    now_ms: i64,
    /// What lies in buckets, deleted or not.
    content: BTreeMap<Bucket, BTreeSet<Sample>>,
    /// What must be seen, and what must not.
    kept: BTreeMap<Sample, Promise>,
    deleted: BTreeSet<Sample>,
    /// What must be seen as it came.
    raw: BTreeSet<Sample>,
    next: usize,
}

impl World {
    fn new(policy: RetentionPolicy) -> Self {
        Self {
            policy,
            rules: Vec::new(),
            listed: Listed::default(),
            retired: Retired::default(),
            written_ms: BTreeMap::new(),
            busy_hours: BTreeSet::new(),
            now_ms: 0,
            content: BTreeMap::new(),
            kept: BTreeMap::new(),
            deleted: BTreeSet::new(),
            raw: BTreeSet::new(),
            next: 0,
        }
    }

    fn input(&mut self) -> RetentionInput<'_> {
        self.listed.set_policy(Some(&self.policy));
        self.rules = rules(&self.policy, &self.listed);
        RetentionInput {
            rules: &self.rules,
            listed: &self.listed,
            retired: &self.retired,
            written_ms: &self.written_ms,
            busy_hours: &self.busy_hours,
            now_ms: self.now_ms,
            retention_now_ms: self.now_ms,
            delay_ms: 2 * HOUR_MS,
        }
    }

    fn kept_since(&self) -> KeptClasses {
        let policy = Arc::new(self.policy.clone());
        KeptClasses::new(Some(&policy), self.now_ms)
    }

    /// Whether raw samples of a series are kept for longer than those of others.
    fn outlives(&self, series: usize) -> bool {
        let class = self.policy.class_of(&labels(series));
        self.policy.outlives(class, RAW)
    }

    /// Whether a level gets a series.
    fn reaches(&self, series: usize, resolution: Resolution) -> bool {
        let class = self.policy.class_of(&labels(series));
        let is_named = self.policy.level(resolution).is_some();
        !is_named || self.policy.reaches(class, resolution)
    }

    /// As ingest does.
    fn floor(&self) -> TimeFloor {
        let policy = Arc::new(self.policy.clone());
        TimeFloor::new(Some(&policy), &self.kept_since(), &self.listed, &[])
    }

    fn refuses_of(&self, hour: i64, series: usize) -> bool {
        let floor = self.floor();
        floor.refuses(bucket(1, hour).start, floor.class_of(&labels(series)))
    }

    /// Of all series.
    fn refuses(&self, hour: i64) -> bool {
        (0..SERIES).all(|series| self.refuses_of(hour, series))
    }

    /// Whether the policy keeps an hour of a series at a level. One that it does not name is kept
    /// as the next finer one is.
    fn keeps(&self, hour: i64, series: usize, resolution: Resolution) -> bool {
        let class = self.policy.class_of(&labels(series));
        let mut named = self.policy.levels().iter().rev();
        let named = named.find(|level| level.resolution <= resolution);
        let retain = self.policy.retain(class, named.unwrap().resolution);
        let this_hour_ms = self.now_ms.div_euclid(HOUR_MS) * HOUR_MS;
        let since_ms = retain.ms().map(|ms| this_hour_ms - ms);
        !retain.is_not_kept() && since_ms.is_none_or(|since_ms| hour * HOUR_MS >= since_ms)
    }

    /// Whether the policy keeps a series at a level, or at one that is made of it.
    fn has_level(&self, series: usize, resolution: Resolution) -> bool {
        let class = self.policy.class_of(&labels(series));
        let levels = self.policy.levels().iter().map(|level| level.resolution);
        let mut levels = levels.filter(|level| *level >= resolution);
        levels.any(|level| !self.policy.retain(class, level).is_not_kept())
    }

    /// What is left of a promise under the policy.
    fn promised(&self, sample: &Sample, mut promise: Promise) -> Option<Promise> {
        let series = series_of(sample);
        let windows = promise.late.filter(|late| self.has_level(series, *late));
        promise.from = promise.from.max(windows.unwrap_or(RAW));
        let mut levels = Resolution::all().filter(|level| *level >= promise.from);
        promise.from = levels.find(|level| self.keeps(sample.0, series, *level))?;
        Some(promise)
    }

    /// Whether the samples of an hour are gone.
    fn is_gone(&self, window: Bucket) -> bool {
        self.listed.gone().any(|gone| gone.overlaps(window))
    }

    /// An hour is flushed, into the raw bucket that holds it or into one of its own.
    fn flush(&mut self, hour: i64) {
        let own = bucket(1, hour);
        if !self.is_gone(own) {
            self.raw.insert((hour, self.next));
        }
        let place = if self.is_gone(own) {
            let place = list::covering(self.listed.overlays(), own).unwrap_or(own);
            self.listed.insert_overlay(place);
            place
        } else {
            let place = list::covering(self.listed.raw(), own).unwrap_or(own);
            self.listed.insert(place);
            place
        };
        self.written_ms.insert(place, self.now_ms);
        self.content
            .entry(place)
            .or_default()
            .insert((hour, self.next));
        let gone = self.listed.gone().filter(|b| b.overlaps(own));
        let gone = gone.map(|bucket| self.listed.facts(bucket).unwrap().resolution);
        let promise = Promise {
            from: RAW,
            late: gone.min(),
        };
        self.kept.insert((hour, self.next), promise);
        self.next += 1;
        self.outdate(own.start);
    }

    fn outdate(&mut self, hour: BucketStart) {
        for rolled in self.listed.rolled_around(hour).collect::<Vec<_>>() {
            let facts = self.listed.facts_mut(rolled).unwrap();
            if !facts.sources_gone {
                facts.dirty.insert(hour);
            }
        }
    }

    /// An hour is deleted: from raw samples, and from windows that are all that is left.
    fn delete(&mut self, hour: i64) {
        self.outdate(bucket(1, hour).start);
        for (bucket, content) in &mut self.content {
            let facts = self.listed.facts(*bucket);
            if facts.is_none_or(|facts| facts.sources_gone) {
                content.retain(|sample| sample.0 != hour);
            }
        }
        self.deleted
            .extend((0..self.next).map(|number| (hour, number)));
        self.kept.retain(|sample, _| sample.0 != hour);
        self.raw.retain(|sample| sample.0 != hour);
    }

    /// Raw hours of a window become one bucket.
    fn coarsen(&mut self, exponent: u8, hour: i64) {
        let target = bucket(exponent, hour);
        let sources = list::inside(self.listed.raw(), target);
        let covered = list::covering(self.listed.raw(), target).is_some();
        let is_ready = !covered && !sources.is_empty() && target.end_ms() < self.now_ms;
        if is_ready && !self.is_gone(target) {
            let content = self.take(&sources);
            self.listed.insert(target);
            self.content.insert(target, content);
        }
    }

    /// Takes buckets off the list, with what is in them.
    fn take(&mut self, buckets: &[Bucket]) -> BTreeSet<Sample> {
        let mut content = BTreeSet::new();
        for bucket in buckets {
            self.listed.remove(*bucket);
            self.written_ms.remove(bucket);
            content.extend(self.content.remove(bucket).unwrap());
        }
        content
    }

    fn roll_up(&mut self, plan: &RollUpPlan) {
        let target = plan.target;
        assert!(!self.listed.contains(target) && !self.retired.contains_key(&target));
        assert!(target.end_ms() <= self.now_ms);
        let mut content = BTreeSet::new();
        for source in &plan.sources {
            let samples = self.content[source].iter();
            let within = samples.filter(|sample| target.contains(sample.0 * HOUR_MS));
            let has_all = self.listed.pass_all_on(&plan.sources);
            content
                .extend(within.filter(|s| has_all || self.reaches(series_of(s), plan.resolution)));
        }
        let source = self
            .listed
            .sizes()
            .resolution(plan.sources[0].size)
            .unwrap();
        let facts = RolledBucket {
            resolution: plan.resolution,
            source,
            sources_gone: false,
            is_lean: plan.lean,
            dirty: BTreeSet::new(),
            left_out: Some(self.listed.made_without(plan.resolution, &plan.sources)),
            stands_in: self.listed.stand_in(&plan.sources),
        };
        self.listed.insert_rolled(target, facts);
        self.content.insert(target, content);
    }

    /// Late samples join the windows of all levels that cannot be made again.
    fn merge(&mut self, plan: &MergePlan) {
        let content = self.take(&plan.overlays);
        let is_without_place = |sample: &Sample| {
            let (time_ms, series) = (sample.0 * HOUR_MS, series_of(sample));
            let mut remnants = plan.remnants.iter().filter(|r| r.contains(time_ms));
            let mut windows = plan.targets.iter().filter(|t| t.contains(time_ms));
            let has_windows = windows.any(|target| {
                let resolution = self.listed.facts(*target).unwrap().resolution;
                self.has_level(series, resolution)
            });
            let has_remnant = remnants.any(|remnant| self.has_series(*remnant, series));
            !has_windows && !has_remnant && self.reaches(series, RAW)
        };
        let without_place = content.iter().filter(|sample| is_without_place(sample));
        let without_place: BTreeSet<Sample> = without_place.copied().collect();
        for target in &plan.targets {
            let within = content.iter().filter(|s| target.contains(s.0 * HOUR_MS));
            let within: Vec<Sample> = within.copied().collect();
            let facts = self.listed.facts_mut(*target).unwrap();
            facts.stands_in |= within.iter().any(|sample| without_place.contains(sample));
            self.content.get_mut(target).unwrap().extend(within);
        }
        for remnant in &plan.remnants {
            let within = content.iter().filter(|s| remnant.contains(s.0 * HOUR_MS));
            let within = within.filter(|s| self.has_series(*remnant, series_of(s)));
            let within: Vec<Sample> = within.copied().collect();
            self.content.get_mut(remnant).unwrap().extend(within);
        }
    }

    fn has_series(&self, bucket: Bucket, series: usize) -> bool {
        let mut content = self.content[&bucket].iter();
        content.any(|sample| series_of(sample) == series)
    }

    /// Series that are kept for longer move to a bucket of their own, and the rest goes.
    fn build_remnant(&mut self, plan: &RemnantPlan) {
        let target = plan.target;
        assert!(!self.listed.contains(target) && !self.retired.contains_key(&target));
        let listed = list::in_range(self.listed.raw(), target.start_ms(), target.end_ms() - 1);
        assert_eq!(listed, plan.sources, "all that is raw goes");
        let content = plan.sources.iter().flat_map(|source| &self.content[source]);
        let content = content.filter(|sample| self.outlives(series_of(sample)));
        let content: BTreeSet<Sample> = content.copied().collect();
        let alone = self.listed.hours_without_windows(&plan.sources);
        self.cull(&plan.cull());
        if !content.is_empty() {
            self.listed.insert(target);
            self.listed.set_alone(target, alone);
            self.content.insert(target, content);
        }
    }

    /// Buckets of windows become a larger one.
    fn coarsen_windows(&mut self, plan: &LargerPlan) {
        let target = plan.target;
        assert!(!self.listed.contains(target) && !self.retired.contains_key(&target));
        let refused = |world: &Self| -> Vec<bool> {
            let floor = world.floor();
            let classes = (0..SERIES).map(|series| floor.class_of(&labels(series)));
            let of_class = |class| target.each_hour().map(move |hour| (hour, class));
            let all = classes.flat_map(of_class);
            all.map(|(hour, class)| floor.refuses(hour, class))
                .collect()
        };
        let before = refused(self);
        let facts = self.listed.coarsened(target, &plan.sources).unwrap();
        let now_ms = self.now_ms;
        let retired = plan.sources.iter().map(|source| (*source, now_ms));
        self.retired.extend(retired);
        let content = self.take(&plan.sources);
        self.listed.insert_rolled(target, facts);
        self.content.insert(target, content);
        assert_eq!(refused(self), before, "what is taken in does not change");
    }

    fn cull(&mut self, plan: &CullPlan) {
        for (remnant, hours) in self.listed.left_alone(&plan.buckets) {
            self.listed.set_alone(remnant, hours);
        }
        for outliving in outliving(&self.listed, plan) {
            let facts = self.listed.facts_mut(outliving.bucket).unwrap();
            facts.source = outliving.source;
            facts.sources_gone = outliving.sources_gone;
        }
        self.take(&plan.buckets);
        let level = self.listed.level(plan.resolution);
        let oldest = level.and_then(|level| level.iter().map(|b| b.start_ms()).min());
        assert!(oldest.is_none_or(|oldest| plan.watermark_ms <= oldest));
    }

    /// Does all that is planned, up to `jobs` times.
    fn maintain(&mut self, mut jobs: usize) {
        self.retired.clear();
        for plan in merges(&self.input()).into_iter().take(jobs) {
            self.merge(&plan);
            self.check();
        }
        for outdated in outdated(&self.input()) {
            self.take(&[outdated]);
            self.retired.insert(outdated, self.now_ms);
            self.check();
        }
        while let Some(plan) = roll_ups(&self.input()).first().cloned() {
            if jobs == 0 {
                break;
            }
            jobs -= 1;
            self.roll_up(&plan);
            self.check();
        }
        while let Some(plan) = remnants(&self.input()).0.first().cloned() {
            self.build_remnant(&plan);
            self.check();
        }
        while let Some(plan) = culls(&self.input()).0.first().cloned() {
            self.cull(&plan);
            self.check();
        }
        while let Some(plan) = larger_buckets(&self.input()).first().cloned() {
            self.coarsen_windows(&plan);
            self.check();
        }
    }

    /// Does all that is left to do. In the end there is nothing.
    fn settle(&mut self) {
        for _ in 0..8 {
            self.maintain(usize::MAX);
        }
        self.retired.clear();
        let input = self.input();
        assert_eq!((roll_ups(&input), outdated(&input)), (vec![], vec![]));
        assert_eq!((merges(&input), remnants(&input).0), (vec![], vec![]));
        assert_eq!((culls(&input).0, larger_buckets(&input)), (vec![], vec![]));
    }

    fn apply(&mut self, step: Step, policies: &[RetentionPolicy]) {
        let ago = |hours: i64| (self.now_ms / HOUR_MS - hours).max(0);
        match step {
            Step::Wait(hours) => self.now_ms += hours * HOUR_MS,
            Step::Flush(hours) => {
                let hour = ago(hours);
                if !self.refuses_of(hour, self.next % SERIES) {
                    self.flush(hour);
                }
            }
            Step::Delete(hours) => self.delete(ago(hours)),
            Step::Coarsen(exponent, hours) => self.coarsen(exponent, ago(hours)),
            Step::Maintain(jobs) => self.maintain(jobs),
            Step::SetClock(hours) => {
                self.now_ms = (self.now_ms + hours * HOUR_MS).max(HOUR_MS);
            }
            Step::SetPolicy(at, merges) => {
                let policy = &policies[at % policies.len()];
                self.policy = if merges {
                    merging(policy)
                } else {
                    policy.clone()
                };
            }
        }
        self.check();
    }

    /// What a reader finds of a series in an hour, each sample as often as it does, and the level
    /// that it reads.
    fn read(&self, plan: &LevelPlan, (hour, series): (i64, usize)) -> (Vec<Sample>, Resolution) {
        let start_ms = hour * HOUR_MS;
        let has = |bucket: Bucket| self.has_series(bucket, series);
        let of_series = plan.of_series(has);
        let mut segments = of_series.levels.segments.iter();
        let segment = segments.find(|s| (s.start_ms..s.end_ms).contains(&start_ms));
        let level = segment.map_or(RAW, |segment| segment.resolution);
        let is_in = |ranges: &[std::ops::Range<i64>]| ranges.iter().any(|r| r.contains(&start_ms));
        let is_remnant = |bucket: Bucket| ladder::is_remnant(bucket.size);
        let is_read = |bucket: &&Bucket| match self.listed.facts(**bucket) {
            Some(facts) => facts.resolution == level,
            None if is_in(&of_series.late.gone) => {
                !is_remnant(**bucket) && is_in(&of_series.late.merged)
            }
            None => level.is_raw(),
        };
        let read = plan.buckets.iter().filter(is_read);
        let read = read.flat_map(|bucket| &self.content[bucket]);
        let read = read.filter(|s| s.0 == hour && series_of(s) == series);
        (read.copied().collect(), level)
    }

    /// Every sample that is kept is seen once by every query, and nothing that was deleted is. What
    /// the policy keeps as it came is seen as it came.
    ///
    /// A sample is kept while the policy keeps it at a level that it may still be at. That is any
    /// at first; once a level is too old for it, or not for it, only coarser ones: what one policy
    /// has let go of no later one has to bring back. One that came late, after what the windows
    /// of its time were made of had gone, is in those windows, from the first policy on that keeps
    /// its series there; until then they stand in for the finer levels.
    fn check(&mut self) {
        self.listed.set_policy(Some(&self.policy));
        let kept_since = self.kept_since();
        for gone in self.listed.gone() {
            let raw = list::in_range(self.listed.raw(), gone.start_ms(), gone.end_ms() - 1);
            let samples = raw.iter().flat_map(|bucket| &self.content[bucket]);
            let mut left = samples.filter(|sample| gone.contains(sample.0 * HOUR_MS));
            assert_eq!(left.next(), None, "what is gone is gone");
        }
        let classes: Vec<&KeptSince> = (0..SERIES)
            .map(|series| &kept_since.all()[kept_since.class_of(&labels(series))])
            .collect();
        let is_kept = |sample: &Sample| {
            let class = classes[series_of(sample)];
            sample.0 * HOUR_MS >= class.all_ms
        };
        // Gone for good; a clock that goes back or another policy does not bring it back.
        let kept = std::mem::take(&mut self.kept).into_iter();
        let kept =
            kept.filter_map(|(sample, promise)| Some((sample, self.promised(&sample, promise)?)));
        self.kept = kept.collect();
        self.raw.retain(|sample| {
            let class = classes[series_of(sample)];
            is_kept(sample) && !class.is_older(RAW, (sample.0 + 1) * HOUR_MS)
        });
        let found = self.content.values().flatten().filter(|s| is_kept(s));
        let found = found.map(|sample| (sample.0, series_of(sample)));
        let kept = self.kept.keys();
        let kept = kept.map(|sample| (sample.0, series_of(sample)));
        let places: BTreeSet<(i64, usize)> = found.chain(kept).collect();
        for (hour, series) in places {
            for step_ms in [0, 300_000, HOUR_MS] {
                let choice = RollupChoice {
                    step_ms,
                    range_ms: step_ms,
                    is_exact: true,
                    ..RollupChoice::default()
                };
                let range = (hour * HOUR_MS, (hour + 1) * HOUR_MS - 1);
                let wanted = (&choice, WindowFields::SUM);
                let head = BTreeSet::new();
                let plan = levels::plan(&self.listed, classes[series], &head, range, wanted);
                let (read, level) = self.read(&plan, (hour, series));
                let seen: BTreeSet<Sample> = read.iter().copied().collect();
                assert_eq!(read.len(), seen.len(), "twice: {read:?}: {plan:?}");
                let expected = self.kept.range((hour, 0)..(hour + 1, 0));
                let expected = expected
                    .map(|(sample, _)| sample)
                    .filter(|s| series_of(s) == series);
                let missing: Vec<&Sample> = expected.filter(|s| !seen.contains(s)).collect();
                assert!(missing.is_empty(), "{missing:?}, step {step_ms}: {plan:?}");
                let back: Vec<&Sample> = seen.intersection(&self.deleted).collect();
                assert!(back.is_empty(), "{back:?}, step {step_ms}: {plan:?}");
                let raw = self.raw.range((hour, 0)..(hour + 1, 0));
                let mut raw = raw.filter(|s| series_of(s) == series);
                assert!(
                    step_ms > 0 || level.is_raw() || raw.next().is_none(),
                    "{hour} of {series} is kept as it came: {plan:?}"
                );
            }
        }
    }
}

fn labels(series: usize) -> Labels {
    Labels::from_pairs([("series", series.to_string())])
}

/// A level for which no size of buckets is left cannot be made, and is waited for.
#[test]
fn samples_stay_where_a_level_has_no_size() {
    let windows: Vec<Resolution> = Resolution::all().filter(|r| !r.is_raw()).collect();
    let [others @ .., finer, coarser] = windows.as_slice() else {
        panic!("there are more levels");
    };
    let full = ColumnSet::Full;
    let mut world = World::new(policy(&[
        (RAW, 43, full),
        (*finer, 86, full),
        (*coarser, 200, full),
    ]));
    world.now_ms = 8240 * HOUR_MS;
    for resolution in [finer].into_iter().chain(others) {
        if let Some(size) = world.listed.sizes().target(*resolution) {
            let start = size.bucket_of(world.now_ms).unwrap();
            let facts = RolledBucket {
                resolution: *resolution,
                source: RAW,
                sources_gone: false,
                is_lean: false,
                dirty: BTreeSet::new(),
                left_out: Some(BTreeSet::new()),
                stands_in: false,
            };
            world.listed.insert_rolled(Bucket { size, start }, facts);
            world
                .content
                .insert(Bucket { size, start }, BTreeSet::new());
        }
    }
    assert_eq!(world.listed.sizes().target(*coarser), None);
    world.flush(5840);
    world.now_ms += 3 * HOUR_MS;
    world.settle();
    assert!(world.kept.contains_key(&(5840, 0)), "and it is seen");
}

#[test]
fn windows_are_rolled_up_when_they_are_closed_and_quiet() {
    let mut world = World::new(three_levels([21, 90, 365]));
    world.now_ms = 33 * HOUR_MS;
    for hour in 0..33 {
        world.flush(hour);
    }
    world.written_ms.clear();
    assert_eq!(roll_ups(&world.input()), [], "closed for an hour");
    world.now_ms = 34 * HOUR_MS;
    let plans = roll_ups(&world.input());
    assert_eq!(plans.len(), 1);
    assert_eq!(plans[0].target, bucket(6, 0));
    assert_eq!((plans[0].resolution, plans[0].lean), (FIVE, true));
    assert_eq!(plans[0].sources.len(), 32);
    world
        .written_ms
        .insert(bucket(1, 3), world.now_ms - HOUR_MS);
    assert_eq!(roll_ups(&world.input()), [], "written an hour ago");
    world.written_ms.clear();
    world.busy_hours.insert(bucket(1, 31).start);
    assert_eq!(roll_ups(&world.input()), [], "not flushed");
    world.busy_hours.clear();
    world.roll_up(&plans[0]);
    assert_eq!(roll_ups(&world.input()), []);
}

#[test]
fn a_full_level_is_made_of_the_next_full_one() {
    let full = |five| {
        let raw = (RAW, 21, ColumnSet::Full);
        policy(&[raw, (FIVE, 90, five), (HOURLY, 365, ColumnSet::Full)])
    };
    let mut world = World::new(full(ColumnSet::Full));
    for hour in [5, 40, 100] {
        world.flush(hour);
    }
    world.written_ms.clear();
    world.now_ms = 140 * HOUR_MS;
    let targets = |world: &mut World| -> Vec<Bucket> {
        let plans = roll_ups(&world.input());
        plans.iter().map(|plan| plan.target).collect()
    };
    let fives = [bucket(6, 0), bucket(6, 32), bucket(6, 96)];
    assert_eq!(targets(&mut world), fives, "an hour waits for 5m");
    world.maintain(3);
    let plans = roll_ups(&world.input());
    assert_eq!(plans.len(), 1);
    assert_eq!((plans[0].target, plans[0].lean), (bucket(8, 0), false));
    assert_eq!(plans[0].sources, fives);
    // Of a lean level no full one can be made.
    for five in fives {
        world.listed.facts_mut(five).unwrap().is_lean = true;
    }
    let plans = roll_ups(&world.input());
    assert_eq!(plans[0].sources, [5, 40, 100].map(|hour| bucket(1, hour)));
    // Unless it is all that is left.
    world.listed.facts_mut(fives[0]).unwrap().sources_gone = true;
    let plans = roll_ups(&world.input());
    assert_eq!(plans[0].sources, fives);
    assert!(plans[0].lean);
}

#[test]
fn nothing_goes_before_it_is_rolled_up() {
    let mut world = World::new(three_levels([6, 10, 20]));
    world.flush(5);
    world.flush(140);
    world.now_ms = 17 * DAY_MS;
    world.written_ms.clear();
    let (plans, kept_back) = culls(&world.input());
    assert_eq!(plans, []);
    let expected = [5, 140].map(|hour| KeptBack {
        resolution: RAW,
        bucket: bucket(1, hour),
        reason: "it is not rolled up yet",
    });
    assert_eq!(kept_back, expected);
    // One unit does not wait for another.
    let plans = roll_ups(&world.input());
    for plan in plans
        .iter()
        .filter(|plan| plan.target.contains(5 * HOUR_MS))
    {
        world.roll_up(plan);
    }
    let (plans, kept_back) = culls(&world.input());
    assert_eq!(plans[0].resolution, RAW);
    assert_eq!(plans[0].buckets, [bucket(1, 5)]);
    assert_eq!((plans[0].watermark_ms, kept_back.len()), (128 * HOUR_MS, 1));
    world.maintain(9);
    assert!(world.listed.raw().is_empty());
    world.now_ms = 60 * DAY_MS;
    world.maintain(9);
    assert_eq!(world.listed.all().count(), 0, "older than all levels keep");
}

#[test]
fn what_the_head_has_keeps_its_unit() {
    let mut world = World::new(three_levels([6, 10, 20]));
    world.flush(5);
    world.now_ms = 15 * DAY_MS;
    world.written_ms.clear();
    while let Some(plan) = roll_ups(&world.input()).first().cloned() {
        world.roll_up(&plan);
    }
    // Of an hour without a bucket.
    world.busy_hours.insert(bucket(1, 100).start);
    let (plans, kept_back) = culls(&world.input());
    assert_eq!(plans, []);
    assert_eq!(
        kept_back[0].reason,
        "samples of its time are not flushed yet"
    );
}

#[test]
fn raw_alone_is_culled_by_age() {
    let mut world = World::new(RetentionPolicy::raw_for(DAY_MS).unwrap());
    world.flush(3);
    world.flush(20);
    world.now_ms = 30 * HOUR_MS;
    let (plans, kept_back) = culls(&world.input());
    assert_eq!(plans[0].buckets, [bucket(1, 3)]);
    assert_eq!(plans[0].watermark_ms, 4 * HOUR_MS);
    assert!(kept_back.is_empty());
}

#[test]
fn what_is_out_of_date_is_made_again() {
    let mut world = World::new(three_levels([21, 90, 365]));
    world.flush(5);
    world.now_ms = 130 * HOUR_MS;
    world.written_ms.clear();
    world.maintain(9);
    assert_eq!(world.listed.rolled().len(), 2);
    world.flush(7);
    assert_eq!(outdated(&world.input()), [], "not quiet");
    world.now_ms += 2 * HOUR_MS;
    assert_eq!(outdated(&world.input()), [bucket(6, 0), bucket(8, 0)]);
    world.maintain(9);
    assert!(
        world.listed.rolled().is_empty(),
        "they have to be dropped first"
    );
    world.maintain(9);
    assert_eq!(world.listed.rolled().len(), 2);
    assert!(
        world
            .listed
            .all_rolled()
            .all(|(_, facts)| facts.dirty.is_empty())
    );
}

#[test]
fn a_level_that_is_added_has_only_what_can_be_made() {
    let two = policy(&[(RAW, 6, ColumnSet::Full), (HOURLY, 60, ColumnSet::Full)]);
    let mut world = World::new(two);
    world.flush(5);
    world.flush(500);
    world.now_ms = 22 * DAY_MS;
    world.written_ms.clear();
    world.maintain(9);
    assert_eq!(*world.listed.raw(), BTreeSet::from([bucket(1, 500)]));
    world.policy = three_levels([6, 30, 60]);
    world.maintain(9);
    let five = world.listed.level(FIVE).cloned().unwrap_or_default();
    assert_eq!(
        five,
        BTreeSet::from([bucket(6, 500)]),
        "nothing is left of the other"
    );
    // A deletion of what is left alone takes windows, and does not want them made again.
    world.delete(5);
    assert_eq!(outdated(&world.input()), []);
    world.check();
}

#[test]
fn a_level_that_is_dropped_goes_with_the_finer_ones() {
    let mut world = World::new(three_levels([6, 30, 60]));
    for hour in [5, 200, 250, 500] {
        world.flush(hour);
    }
    world.now_ms = 16 * DAY_MS;
    world.written_ms.clear();
    world.maintain(4);
    assert!(world.listed.level(FIVE).is_some());
    world.policy = policy(&[(RAW, 6, ColumnSet::Full), (HOURLY, 60, ColumnSet::Full)]);
    world.now_ms = 40 * DAY_MS;
    world.maintain(20);
    world.maintain(20);
    assert_eq!(world.listed.level(FIVE), None);
    assert_eq!(world.listed.level(HOURLY).unwrap().len(), 3);
    world.check();
}

#[test]
fn late_samples_of_gone_time_are_merged_into_every_level_that_is_left() {
    // The level of an hour is made of raw samples, because that of 5 minutes is lean.
    let mut world = World::new(merging(&three_levels([6, 30, 60])));
    for hour in [5, 70] {
        world.flush(hour);
    }
    world.now_ms = 16 * DAY_MS;
    world.written_ms.clear();
    world.maintain(9);
    assert!(world.listed.raw().is_empty());
    for hour in [6, 33, 70] {
        assert!(!world.refuses(hour));
        world.flush(hour);
        world.check();
    }
    assert_eq!(merges(&world.input()), [], "not quiet");
    let (plans, kept_back) = culls(&world.input());
    assert_eq!((plans.len(), kept_back.len()), (0, 0));
    world.now_ms += 2 * HOUR_MS;
    let overlays = [6, 33, 70].map(|hour| bucket(1, hour));
    let plan = MergePlan {
        around: bucket(8, 0),
        overlays: overlays.to_vec(),
        targets: vec![bucket(6, 0), bucket(6, 64), bucket(8, 0)],
        remnants: Vec::new(),
    };
    assert_eq!(merges(&world.input()), slice::from_ref(&plan));
    world.busy_hours.insert(overlays[1].start);
    let fewer = merges(&world.input());
    assert_eq!(fewer[0].overlays, [overlays[0], overlays[2]]);
    world.busy_hours.clear();
    // Nothing goes before they are merged.
    world.now_ms = 40 * DAY_MS;
    let (plans, kept_back) = culls(&world.input());
    assert_eq!(plans, []);
    let reason = "late samples of its time are not merged yet";
    assert!(!kept_back.is_empty() && kept_back.iter().all(|kept| kept.reason == reason));
    world.merge(&plan);
    world.check();
    assert_eq!(outdated(&world.input()), []);
    world.maintain(9);
    assert_eq!(world.listed.level(FIVE), None);
}

#[test]
fn a_level_that_can_be_made_again_is_made_of_merged_windows() {
    let full = |level, days| (level, days, ColumnSet::Full);
    let three = policy(&[full(RAW, 6), full(FIVE, 30), full(HOURLY, 60)]);
    let mut world = World::new(merging(&three));
    world.flush(5);
    world.now_ms = 16 * DAY_MS;
    world.written_ms.clear();
    world.maintain(9);
    assert!(world.listed.raw().is_empty());
    world.flush(6);
    world.check();
    world.now_ms += 2 * HOUR_MS;
    assert!(world.listed.is_dirty(bucket(8, 0)));
    assert_eq!(outdated(&world.input()), [], "the overlay comes first");
    let plans = merges(&world.input());
    assert_eq!(plans[0].targets, [bucket(6, 0)]);
    world.merge(&plans[0]);
    world.check();
    assert_eq!(outdated(&world.input()), [bucket(8, 0)]);
    world.maintain(9);
    world.maintain(9);
    assert!(!world.listed.is_dirty(bucket(8, 0)) && world.listed.contains(bucket(8, 0)));
}

#[derive(Clone, Debug)]
enum Step {
    Wait(i64),
    Flush(i64),
    Delete(i64),
    Coarsen(u8, i64),
    Maintain(usize),
    SetClock(i64),
    SetPolicy(usize, bool),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (1i64..60).prop_map(Step::Wait),
        3 => (0i64..400).prop_map(Step::Flush),
        1 => (0i64..400).prop_map(Step::Delete),
        1 => (prop::sample::select(vec![5u8, 7, 9]), 0i64..400)
            .prop_map(|(exponent, ago)| Step::Coarsen(exponent, ago)),
        3 => (0usize..4).prop_map(Step::Maintain),
        1 => (-100i64..100).prop_map(Step::SetClock),
        1 => (0usize..40, any::<bool>()).prop_map(|(at, merges)| Step::SetPolicy(at, merges)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Whatever happens, what is kept is seen. The world checks that itself.
    #[test]
    fn nothing_that_is_kept_is_lost(steps in prop::collection::vec(step(), 1..120)) {
        let one_minute = Resolution::from_name("1m").unwrap();
        let (full, lean) = (ColumnSet::Full, ColumnSet::Lean);
        let policies = [
            three_levels([6, 10, 30]),
            policy(&[(RAW, 6, full), (HOURLY, 30, full)]),
            policy(&[(RAW, 3, full), (FIVE, 20, full)]),
            policy(&[(RAW, 6, full), (one_minute, 8, lean), (FIVE, 50, full), (HOURLY, 60, full)]),
            RetentionPolicy::raw_for(8 * DAY_MS).unwrap(),
        ];
        let mut world = World::new(merging(&policies[0]));
        world.now_ms = 2500 * HOUR_MS;
        for step in steps {
            world.apply(step, &policies);
        }
        world.settle();
    }

}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The same where windows are old enough for larger buckets.
    #[test]
    fn nothing_is_lost_in_larger_buckets(steps in prop::collection::vec(step(), 1..60)) {
        let four = Resolution::from_name("4h").unwrap();
        let (full, lean) = (ColumnSet::Full, ColumnSet::Lean);
        let policies = [
            three_levels([6, 10, 400]),
            policy(&[(RAW, 6, full), (HOURLY, 200, full)]),
            policy(&[(RAW, 6, full), (FIVE, 50, full), (HOURLY, 300, lean)]),
            policy(&[(RAW, 50, full), (HOURLY, 200, full), (four, 400, full)]),
            policy(&[(RAW, 6, full), (HOURLY, 80, full)]),
        ];
        let mut world = aged_world().clone();
        for step in steps {
            let step = match step {
                Step::Wait(hours) => Step::Wait(10 * hours),
                Step::Flush(hours) => Step::Flush(6 * hours),
                Step::Delete(hours) => Step::Delete(6 * hours),
                step => step,
            };
            world.apply(step, &policies);
        }
        world.settle();
    }
}

/// A world of four months with larger buckets of windows, and some to come.
fn aged_world() -> &'static World {
    static AGED: std::sync::OnceLock<World> = std::sync::OnceLock::new();
    AGED.get_or_init(|| {
        let mut world = World::new(three_levels([6, 10, 400]));
        for hour in (0..2700).step_by(50) {
            world.now_ms = (hour + 1) * HOUR_MS;
            world.flush(hour);
            if hour % 200 == 0 {
                world.maintain(9);
            }
        }
        world.maintain(9);
        let hourly = world.listed.level(HOURLY).unwrap();
        assert!(hourly.contains(&bucket(11, 0)), "{hourly:?}");
        assert!(hourly.len() > 5, "{hourly:?}");
        world
    })
}

#[test]
fn windows_become_larger_buckets_when_nothing_finer_is_left() {
    let mut world = aged_world().clone();
    let large = bucket(11, 0);
    let facts = world.listed.facts(large).unwrap();
    assert!(facts.sources_gone && facts.source == FIVE, "{facts:?}");
    assert_eq!(world.listed.level_in(HOURLY, large), [large]);
    // The next ones are too young.
    let next = bucket(11, 1024);
    assert!(world.listed.level_in(HOURLY, next).len() > 1);
    world.now_ms = 2048 * HOUR_MS + 29 * DAY_MS;
    world.maintain(9);
    assert_eq!(larger_buckets(&world.input()), []);
    world.now_ms += DAY_MS;
    assert_eq!(larger_buckets(&world.input())[0].target, next);
    // A level that is kept for less than a few of them goes by smaller buckets.
    world.policy = three_levels([6, 10, 170]);
    assert_eq!(larger_buckets(&world.input()), []);
    world.policy = three_levels([6, 10, 171]);
    world.maintain(9);
    assert_eq!(world.listed.level_in(HOURLY, next), [next]);
    // They go with their level.
    world.now_ms = 1024 * HOUR_MS + 171 * DAY_MS;
    world.maintain(9);
    let hourly = world.listed.level(HOURLY).unwrap();
    assert!(!hourly.contains(&large) && hourly.contains(&next));
}

#[test]
fn time_without_windows_stays_open_to_imports() {
    let mut world = World::new(three_levels([6, 10, 400]));
    let written = (0..1024).step_by(50).filter(|hour| hour / 128 != 3);
    for hour in written {
        world.now_ms = (hour + 1) * HOUR_MS;
        world.flush(hour);
    }
    world.now_ms = 100 * DAY_MS;
    world.written_ms.clear();
    world.maintain(99);
    let target = bucket(11, 0);
    assert_eq!(world.listed.level_in(HOURLY, target).len(), 7);
    assert!(!world.refuses(400) && world.refuses(200));
    // Once it has some, it is like the others.
    world.flush(400);
    world.written_ms.clear();
    world.maintain(99);
    assert_eq!(world.listed.level_in(HOURLY, target), [target]);
    assert!(world.refuses(400));
}
