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
mod world;

use world::{SERIES, World, series_of};

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
