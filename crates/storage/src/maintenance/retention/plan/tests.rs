use proptest::prelude::*;

use super::*;

const DAY_MS: i64 = 24 * HOUR_MS;
const RAW: Resolution = Resolution::RAW;
const FIVE: Resolution = Resolution::FIVE_MINUTES;
const HOURLY: Resolution = Resolution::HOUR;

fn bucket(exponent: u8, hour: i64) -> Bucket {
    let size = BucketSize::from_exponent(exponent).unwrap();
    let start = size.bucket_of(hour * HOUR_MS).unwrap();
    Bucket { size, start }
}

fn rules(days: [Option<i64>; 3]) -> Vec<LevelRule> {
    let levels = [RAW, FIVE, HOURLY].into_iter().zip(days);
    let rule = |(resolution, days): (Resolution, Option<i64>)| LevelRule {
        resolution,
        retain_ms: days.map(|days| days * DAY_MS),
        lean: resolution == FIVE,
    };
    levels.map(rule).collect()
}

/// A database whose jobs do what is planned.
#[derive(Clone, Debug, Default)]
struct World {
    rules: Vec<LevelRule>,
    listed: Listed,
    retired: Retired,
    watermarks_ms: BTreeMap<Resolution, i64>,
    written_ms: BTreeMap<Bucket, i64>,
    busy_hours: BTreeSet<BucketStart>,
    now_ms: i64,
    /// Hours that have samples, wherever those lie.
    hours: BTreeSet<i64>,
}

impl World {
    fn new(days: [Option<i64>; 3]) -> Self {
        Self {
            rules: rules(days),
            ..Self::default()
        }
    }

    fn input(&self) -> RetentionInput<'_> {
        RetentionInput {
            rules: &self.rules,
            listed: &self.listed,
            retired: &self.retired,
            watermarks_ms: &self.watermarks_ms,
            written_ms: &self.written_ms,
            busy_hours: &self.busy_hours,
            now_ms: self.now_ms,
            delay_ms: 2 * HOUR_MS,
        }
    }

    /// An hour is flushed, into the raw bucket that holds it or into one of its own.
    fn flush(&mut self, hour: i64) {
        let own = bucket(1, hour);
        let place = list::covering(self.listed.raw(), own).unwrap_or(own);
        self.listed.insert(place);
        self.written_ms.insert(place, self.now_ms);
        self.hours.insert(hour);
        for rolled in self.listed.rolled_around(own.start).collect::<Vec<_>>() {
            let mut dirty = self
                .listed
                .dirty()
                .get(&rolled)
                .cloned()
                .unwrap_or_default();
            dirty.insert(own.start);
            self.listed.set_dirty(rolled, dirty);
        }
    }

    /// Raw hours of a window become one bucket.
    fn coarsen(&mut self, hour: i64) {
        let target = bucket(5, hour);
        let sources = list::inside(self.listed.raw(), target);
        if !sources.is_empty() && target.end_ms() < self.now_ms {
            sources
                .iter()
                .for_each(|source| self.listed.remove(*source));
            self.listed.insert(target);
        }
    }

    fn roll_up(&mut self, plan: &RollUpPlan) {
        self.listed.learn(plan.target, plan.resolution, plan.lean);
        assert!(!self.listed.contains(plan.target) && !self.retired.contains_key(&plan.target));
        assert!(plan.target.end_ms() <= self.now_ms);
        assert!(
            plan.sources
                .iter()
                .all(|source| self.listed.contains(*source))
        );
        self.listed.insert(plan.target);
    }

    fn cull(&mut self, plan: &CullPlan) {
        let known = self
            .watermarks_ms
            .insert(plan.resolution, plan.watermark_ms);
        assert!(known.unwrap_or(0) <= plan.watermark_ms);
        for bucket in &plan.buckets {
            assert!(bucket.end_ms() <= plan.watermark_ms);
            self.listed.remove(*bucket);
        }
    }

    /// Does all that is planned, up to `jobs` times.
    fn maintain(&mut self, mut jobs: usize) {
        self.retired.clear();
        for outdated in outdated(&self.input()) {
            self.listed.remove(outdated);
            self.retired.insert(outdated, self.now_ms);
        }
        while let Some(plan) = roll_ups(&self.input()).first().cloned() {
            if jobs == 0 {
                break;
            }
            jobs -= 1;
            self.roll_up(&plan);
            self.check();
        }
        for plan in culls(&self.input()).0 {
            self.cull(&plan);
            self.check();
        }
    }

    /// Every hour with samples that the policy keeps is in some level, up to date.
    fn check(&self) {
        let last = self.rules.last().unwrap();
        let kept_ms = last.retain_ms.map_or(0, |retain| self.now_ms - retain);
        for hour in &self.hours {
            let own = bucket(1, *hour);
            let raw = list::covering(self.listed.raw(), own).is_some();
            let clean = |rolled: Bucket| {
                let dirty = self.listed.dirty().get(&rolled);
                !dirty.is_some_and(|hours| hours.contains(&own.start))
            };
            let rolled = self.listed.rolled_around(own.start).any(clean);
            assert!(
                raw || rolled || own.end_ms() <= kept_ms,
                "hour {hour} is lost"
            );
        }
    }
}

#[test]
fn windows_are_rolled_up_when_they_are_closed_and_quiet() {
    let mut world = World::new([Some(21), Some(90), Some(365)]);
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
    // The next level waits until all of its window is in the finer one, if that is its source.
    world.rules[1].lean = false;
    world.now_ms = 140 * HOUR_MS;
    world.flush(100);
    world.written_ms.clear();
    let targets = |world: &World| -> Vec<Bucket> {
        let plans = roll_ups(&world.input());
        plans.iter().map(|plan| plan.target).collect()
    };
    assert_eq!(targets(&world), [bucket(6, 32), bucket(6, 96)]);
    world.maintain(2);
    assert_eq!(targets(&world), [bucket(8, 0)]);
    let plans = roll_ups(&world.input());
    assert_eq!(
        plans[0].sources,
        [bucket(6, 0), bucket(6, 32), bucket(6, 96)]
    );
    // Of a lean level no full one can be made.
    world.rules[1].lean = true;
    let plans = roll_ups(&world.input());
    let planned = (plans[0].target, plans[0].sources.len());
    assert_eq!(planned, (bucket(8, 0), 34));
}

#[test]
fn nothing_goes_before_it_is_rolled_up() {
    let mut world = World::new([Some(2), Some(10), Some(20)]);
    world.flush(5);
    world.now_ms = 30 * DAY_MS;
    world.written_ms.clear();
    let (plans, kept_back) = culls(&world.input());
    assert_eq!(kept_back.len(), 1);
    assert_eq!(kept_back[0].bucket, bucket(1, 5));
    assert_eq!(kept_back[0].reason, "it is not rolled up yet");
    assert!(plans.iter().all(|plan| plan.buckets.is_empty()));
    let raw = plans.iter().find(|plan| plan.resolution == RAW);
    assert_eq!(raw, None, "the watermark does not pass it");
    world.maintain(9);
    assert!(world.listed.raw().is_empty());
    world.maintain(9);
    assert_eq!(world.listed.all().count(), 0, "older than all levels keep");
    assert!(world.watermarks_ms[&RAW] >= world.watermarks_ms[&FIVE]);
}

#[test]
fn raw_alone_is_culled_by_age() {
    let mut world = World {
        rules: vec![rules([Some(1), None, None])[0]],
        ..World::default()
    };
    world.flush(3);
    world.flush(20);
    world.now_ms = 30 * HOUR_MS;
    let (plans, kept_back) = culls(&world.input());
    assert_eq!(plans[0].buckets, [bucket(1, 3)]);
    assert_eq!(plans[0].watermark_ms, 6 * HOUR_MS);
    assert!(kept_back.is_empty());
}

#[test]
fn what_is_out_of_date_is_made_again() {
    let mut world = World::new([Some(21), Some(90), Some(365)]);
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
    assert!(world.listed.dirty().is_empty());
}

#[derive(Clone, Debug)]
enum Step {
    Wait(i64),
    Flush(i64),
    Coarsen(i64),
    Maintain(usize),
    ClockJump(i64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (1i64..60).prop_map(Step::Wait),
        (0i64..80).prop_map(Step::Flush),
        (0i64..200).prop_map(Step::Coarsen),
        (0usize..4).prop_map(Step::Maintain),
        (-100i64..100).prop_map(Step::ClockJump),
    ]
}

proptest! {
    /// Whatever happens, nothing that is kept is out of reach. The world checks that itself.
    #[test]
    fn nothing_that_is_kept_is_lost(steps in prop::collection::vec(step(), 1..120)) {
        let mut world = World::new([Some(3), Some(8), Some(20)]);
        world.now_ms = 200 * HOUR_MS;
        for step in steps {
            match step {
                Step::Wait(hours) => world.now_ms += hours * HOUR_MS,
                Step::Flush(ago) => {
                    let hour = (world.now_ms / HOUR_MS - ago).max(0);
                    // What is older is refused.
                    let watermark = world.watermarks_ms.get(&RAW).copied().unwrap_or(0);
                    if hour * HOUR_MS >= watermark {
                        world.flush(hour);
                    }
                }
                Step::Coarsen(ago) => world.coarsen((world.now_ms / HOUR_MS - ago).max(0)),
                Step::Maintain(jobs) => world.maintain(jobs),
                Step::ClockJump(hours) => {
                    world.now_ms = (world.now_ms + hours * HOUR_MS).max(HOUR_MS);
                }
            }
            world.hours.retain(|hour| {
                // Gone for good; a clock that jumps back does not bring it back.
                let last = world.watermarks_ms.get(&HOURLY).copied().unwrap_or(0);
                (hour + 1) * HOUR_MS > last
            });
            world.check();
        }
    }
}
