//! A database whose jobs do what is planned, in memory, and that knows where each sample lies.
//!
//! Holds always:
//! - After every step, every sample that is promised is seen once by every query: [`World::check`].

use super::*;

/// A sample, known by its hour and a number.
pub(super) type Sample = (i64, usize);

/// At which levels a sample may still be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Promise {
    /// The finest.
    pub(super) from: Resolution,
    /// Of one that came late: the finest windows that there were.
    pub(super) late: Option<Resolution>,
}

/// How many series there are.
pub(super) const SERIES: usize = 4;

/// The series that a sample is of.
pub(super) fn series_of(sample: &Sample) -> usize {
    sample.1 % SERIES
}

/// A database whose jobs do what is planned, and that knows where each sample lies.
#[derive(Clone, Debug)]
pub(super) struct World {
    pub(super) policy: RetentionPolicy,
    pub(super) rules: Vec<LevelRule>,
    pub(super) listed: Listed,
    pub(super) retired: Retired,
    pub(super) written_ms: BTreeMap<Bucket, i64>,
    pub(super) busy_hours: BTreeSet<BucketStart>,
    pub(super) now_ms: i64,
    /// What lies in buckets, deleted or not.
    pub(super) content: BTreeMap<Bucket, BTreeSet<Sample>>,
    /// What must be seen, and what must not.
    pub(super) kept: BTreeMap<Sample, Promise>,
    pub(super) deleted: BTreeSet<Sample>,
    /// What must be seen as it came.
    pub(super) raw: BTreeSet<Sample>,
    pub(super) next: usize,
}

impl World {
    pub(super) fn new(policy: RetentionPolicy) -> Self {
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

    pub(super) fn input(&mut self) -> RetentionInput<'_> {
        self.listed.set_policy(Some(&self.policy));
        self.rules = rules(&self.policy, &self.listed);
        RetentionInput {
            rules: &self.rules,
            listed: &self.listed,
            retired: &self.retired,
            written_ms: &self.written_ms,
            busy_hours: &self.busy_hours,
            now_ms: self.now_ms,
            elapsed_ms: self.now_ms,
            retention_now_ms: self.now_ms,
            delay_ms: 2 * HOUR_MS,
        }
    }

    pub(super) fn kept_since(&self) -> KeptClasses {
        let policy = Arc::new(self.policy.clone());
        KeptClasses::new(Some(&policy), self.now_ms)
    }

    /// Whether raw samples of a series are kept for longer than those of others.
    pub(super) fn outlives(&self, series: usize) -> bool {
        let class = self.policy.class_of(&labels(series));
        self.policy.outlives(class, RAW)
    }

    /// Whether a level gets a series.
    pub(super) fn reaches(&self, series: usize, resolution: Resolution) -> bool {
        let class = self.policy.class_of(&labels(series));
        let is_named = self.policy.level(resolution).is_some();
        !is_named || self.policy.reaches(class, resolution)
    }

    /// As ingest does.
    pub(super) fn floor(&self) -> TimeFloor {
        let policy = Arc::new(self.policy.clone());
        TimeFloor::new(Some(&policy), &self.kept_since(), &self.listed, &[])
    }

    pub(super) fn refuses_of(&self, hour: i64, series: usize) -> bool {
        let floor = self.floor();
        floor.refuses(bucket(1, hour).start, floor.class_of(&labels(series)))
    }

    /// Of all series.
    pub(super) fn refuses(&self, hour: i64) -> bool {
        (0..SERIES).all(|series| self.refuses_of(hour, series))
    }

    /// Whether the policy keeps an hour of a series at a level. One that it does not name is kept
    /// as the next finer one is.
    pub(super) fn keeps(&self, hour: i64, series: usize, resolution: Resolution) -> bool {
        let class = self.policy.class_of(&labels(series));
        let mut named = self.policy.levels().iter().rev();
        let named = named.find(|level| level.resolution <= resolution);
        let retain = self.policy.retain(class, named.unwrap().resolution);
        let this_hour_ms = self.now_ms.div_euclid(HOUR_MS) * HOUR_MS;
        let since_ms = retain.ms().map(|ms| this_hour_ms - ms);
        !retain.is_not_kept() && since_ms.is_none_or(|since_ms| hour * HOUR_MS >= since_ms)
    }

    /// Whether the policy keeps a series at a level, or at one that is made of it.
    pub(super) fn has_level(&self, series: usize, resolution: Resolution) -> bool {
        let class = self.policy.class_of(&labels(series));
        let levels = self.policy.levels().iter().map(|level| level.resolution);
        let mut levels = levels.filter(|level| *level >= resolution);
        levels.any(|level| !self.policy.retain(class, level).is_not_kept())
    }

    /// What is left of a promise under the policy.
    pub(super) fn promised(&self, sample: &Sample, mut promise: Promise) -> Option<Promise> {
        let series = series_of(sample);
        let windows = promise.late.filter(|late| self.has_level(series, *late));
        promise.from = promise.from.max(windows.unwrap_or(RAW));
        let mut levels = Resolution::all().filter(|level| *level >= promise.from);
        promise.from = levels.find(|level| self.keeps(sample.0, series, *level))?;
        Some(promise)
    }

    /// Whether the samples of an hour are gone.
    pub(super) fn is_gone(&self, window: Bucket) -> bool {
        self.listed.gone().any(|gone| gone.overlaps(window))
    }

    /// An hour is flushed, into the raw bucket that holds it or into one of its own.
    pub(super) fn flush(&mut self, hour: i64) {
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

    pub(super) fn outdate(&mut self, hour: BucketStart) {
        for rolled in self.listed.rolled_around(hour).collect::<Vec<_>>() {
            let facts = self.listed.facts_mut(rolled).unwrap();
            if !facts.sources_gone {
                facts.dirty.insert(hour);
            }
        }
    }

    /// An hour is deleted: from raw samples, and from windows that are all that is left.
    pub(super) fn delete(&mut self, hour: i64) {
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
    pub(super) fn coarsen(&mut self, exponent: u8, hour: i64) {
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
    pub(super) fn take(&mut self, buckets: &[Bucket]) -> BTreeSet<Sample> {
        let mut content = BTreeSet::new();
        for bucket in buckets {
            self.listed.remove(*bucket);
            self.written_ms.remove(bucket);
            content.extend(self.content.remove(bucket).unwrap());
        }
        content
    }

    pub(super) fn roll_up(&mut self, plan: &RollUpPlan) {
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
    pub(super) fn merge(&mut self, plan: &MergePlan) {
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

    pub(super) fn has_series(&self, bucket: Bucket, series: usize) -> bool {
        let mut content = self.content[&bucket].iter();
        content.any(|sample| series_of(sample) == series)
    }

    /// Series that are kept for longer move to a bucket of their own, and the rest goes.
    pub(super) fn build_remnant(&mut self, plan: &RemnantPlan) {
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
    pub(super) fn coarsen_windows(&mut self, plan: &LargerPlan) {
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

    pub(super) fn cull(&mut self, plan: &CullPlan) {
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
    pub(super) fn maintain(&mut self, mut jobs: usize) {
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
    pub(super) fn settle(&mut self) {
        for _ in 0..8 {
            self.maintain(usize::MAX);
        }
        self.retired.clear();
        let input = self.input();
        assert_eq!((roll_ups(&input), outdated(&input)), (vec![], vec![]));
        assert_eq!((merges(&input), remnants(&input).0), (vec![], vec![]));
        assert_eq!((culls(&input).0, larger_buckets(&input)), (vec![], vec![]));
    }

    pub(super) fn apply(&mut self, step: Step, policies: &[RetentionPolicy]) {
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
    pub(super) fn read(
        &self,
        plan: &LevelPlan,
        (hour, series): (i64, usize),
    ) -> (Vec<Sample>, Resolution) {
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
    pub(super) fn check(&mut self) {
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

pub(super) fn labels(series: usize) -> Labels {
    Labels::from_pairs([("series", series.to_string())])
}
