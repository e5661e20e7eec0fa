//! Series that levels leave out, under policies that come and go.

use super::*;

const NOT_KEPT: Retention = Retention::NOT_KEPT;

/// Raw samples of some series are kept as those of others are, and no windows.
fn raw_alone(policy: &RetentionPolicy, series: &str) -> RetentionPolicy {
    let levels = policy.levels().iter().skip(1);
    let retain: Vec<_> = levels.map(|level| (level.resolution, NOT_KEPT)).collect();
    with_override(policy, series, &retain)
}

/// The same, and they are kept for longer.
fn raw_for_longer(policy: &RetentionPolicy, series: &str) -> RetentionPolicy {
    let levels = policy.levels().iter().map(|level| match level.resolution {
        RAW => (RAW, Retention::For(35 * DAY_MS)),
        resolution => (resolution, NOT_KEPT),
    });
    let retain: Vec<_> = levels.collect();
    with_override(policy, series, &retain)
}

/// All series, now and then, for so many hours; then nothing for as long as windows wait.
fn written(policy: RetentionPolicy, hours: i64) -> World {
    let mut world = World::new(policy);
    for hour in (0..hours).step_by(20) {
        world.now_ms = (hour + 1) * HOUR_MS;
        for _ in 0..SERIES {
            world.flush(hour);
        }
    }
    world.now_ms = (hours + 3) * HOUR_MS;
    world.written_ms.clear();
    world
}

fn series_in(world: &World, bucket: Bucket) -> BTreeSet<usize> {
    world.content[&bucket].iter().map(series_of).collect()
}

#[test]
fn what_was_left_out_is_rolled_up_before_it_is_culled() {
    let three = three_levels([6, 40, 60]);
    let mut world = written(raw_alone(&three, "0"), 128);
    world.maintain(99);
    let (five, hourly) = (bucket(6, 0), bucket(8, 0));
    assert_eq!(series_in(&world, five), BTreeSet::from([1, 2, 3]));
    assert_eq!(outdated(&world.input()), []);
    world.policy = three.clone();
    world.check();
    let all: Vec<Bucket> = world
        .listed
        .all_rolled()
        .map(|(bucket, _)| bucket)
        .collect();
    assert_eq!(outdated(&world.input()), all, "all of them lack series");
    // Nothing goes before they are made again.
    world.now_ms = 30 * DAY_MS;
    let (plans, kept_back) = culls(&world.input());
    assert_eq!(plans, []);
    assert_eq!(kept_back[0].reason, "its windows are out of date");
    world.maintain(99);
    world.maintain(99);
    assert!(world.listed.raw().is_empty());
    for bucket in [five, hourly] {
        assert_eq!(series_in(&world, bucket), BTreeSet::from([0, 1, 2, 3]));
        assert!(world.listed.facts(bucket).unwrap().sources_gone);
    }
    // And back: what is there is not made again.
    world.policy = raw_alone(&three, "0");
    world.check();
    assert_eq!(outdated(&world.input()), []);
}

#[test]
fn other_overrides_are_no_reason_to_make_windows_again() {
    let three = three_levels([6, 40, 60]);
    let mut world = written(raw_alone(&three, "0"), 128);
    world.maintain(99);
    let long = [(HOURLY, Retention::Forever)];
    world.policy = with_override(&raw_alone(&raw_alone(&three, "0"), "2"), "3", &long);
    assert_eq!(outdated(&world.input()), []);
    // One that keeps some of the series which were left out is.
    world.policy = raw_alone(&with_override(&three, "0", &long), "0");
    assert!(!outdated(&world.input()).is_empty());
}

#[test]
fn a_finer_level_stays_where_the_coarser_one_cannot_be_made_again() {
    let three = three_levels([6, 40, 60]);
    let mut world = written(with_override(&three, "0", &[(HOURLY, NOT_KEPT)]), 128);
    world.now_ms = 20 * DAY_MS;
    world.maintain(99);
    assert!(world.listed.raw().is_empty());
    let (five, hourly) = (bucket(6, 0), bucket(8, 0));
    assert_eq!(series_in(&world, five), BTreeSet::from([0, 1, 2, 3]));
    assert_eq!(series_in(&world, hourly), BTreeSet::from([1, 2, 3]));
    world.policy = three;
    world.check();
    assert_eq!(
        outdated(&world.input()),
        [],
        "the windows of an hour are full"
    );
    world.now_ms = 50 * DAY_MS;
    let (plans, kept_back) = culls(&world.input());
    assert_eq!(plans, []);
    assert_eq!(kept_back[0].bucket, five);
    assert_eq!(kept_back[0].reason, "its windows lack series that it has");
    world.maintain(99);
    world.now_ms = 70 * DAY_MS;
    world.maintain(99);
    assert_eq!(world.listed.all().count(), 0);
}

#[test]
fn a_remnant_stays_where_windows_lack_its_series() {
    let three = three_levels([6, 40, 60]);
    let mut world = written(raw_for_longer(&three, "0"), 600);
    world.maintain(99);
    world.now_ms = 33 * DAY_MS;
    world.maintain(99);
    let remnant = bucket(10, 0);
    assert!(world.listed.contains(remnant));
    let mut same = world.clone();
    same.now_ms = (512 + 35 * 24) * HOUR_MS;
    same.maintain(99);
    assert!(!same.listed.contains(remnant), "as the policy says");
    world.policy = three;
    world.check();
    world.maintain(99);
    world.now_ms = (512 + 59 * 24) * HOUR_MS;
    world.maintain(99);
    assert!(world.listed.contains(remnant), "it is all there is of them");
    world.now_ms = (512 + 60 * 24) * HOUR_MS;
    world.maintain(99);
    assert!(!world.listed.contains(remnant));
}

/// Windows whose own level has gone for a moment, because it is made again, when the policy does
/// not want it any more.
#[test]
fn windows_without_their_sources_say_so_when_the_finer_ones_go() {
    let full = ColumnSet::Full;
    let levels = [(RAW, 6, full), (FIVE, 40, full), (HOURLY, 60, full)];
    let mut world = written(raw_alone(&policy(&levels), "0"), 128);
    world.maintain(99);
    let hourly = bucket(8, 0);
    assert_eq!(world.listed.facts(hourly).unwrap().source, FIVE);
    world.policy = with_override(&policy(&levels), "0", &[(HOURLY, NOT_KEPT)]);
    let fives: Vec<Bucket> = world.listed.level(FIVE).unwrap().iter().copied().collect();
    assert_eq!(outdated(&world.input()), fives);
    world.take(&fives[1..2]);
    world.policy = policy(&[(RAW, 6, full), (HOURLY, 60, full)]);
    world.policy = with_override(&world.policy.clone(), "0", &[(HOURLY, NOT_KEPT)]);
    world.now_ms = 30 * DAY_MS;
    world.maintain(99);
    assert!(world.listed.raw().is_empty());
    let facts = world.listed.facts(hourly).unwrap();
    assert!(facts.sources_gone, "nobody makes it of the rest: {facts:?}");
}

/// An override may keep raw samples for longer than windows of 5 minutes are kept, if it keeps
/// none of those.
#[test]
fn windows_stay_while_raw_samples_of_a_part_of_their_unit_do() {
    let full = ColumnSet::Full;
    let three = policy(&[(RAW, 6, full), (FIVE, 20, full), (HOURLY, 60, full)]);
    let mut world = World::new(three.clone());
    world.flush(5);
    world.flush(40);
    world.now_ms = 12 * DAY_MS;
    world.written_ms.clear();
    world.maintain(1);
    assert_eq!(*world.listed.raw(), BTreeSet::from([bucket(1, 40)]));
    world.policy = raw_for_longer(&three, "1");
    world.now_ms = 30 * DAY_MS;
    world.maintain(99);
    assert!(
        world.listed.raw().contains(&bucket(1, 40)),
        "kept for 35 days"
    );
    let (_, kept_back) = culls(&world.input());
    let reason = "something finer of its time is still kept";
    assert!(
        kept_back
            .iter()
            .any(|kept| (kept.resolution, kept.reason) == (FIVE, reason))
    );
    world.now_ms = 40 * DAY_MS;
    world.maintain(99);
    assert!(world.listed.raw().is_empty() && world.listed.level(FIVE).is_none());
}

/// What comes late of a series that only raw samples are kept of, of time from which no remnant
/// has it, is in windows for as long as it would be kept.
#[test]
fn windows_stand_in_for_raw_samples_that_come_late() {
    let full = ColumnSet::Full;
    let levels = policy(&[(RAW, 6, full), (FIVE, 20, full), (HOURLY, 30, full)]);
    let mut world = written(merging(&raw_for_longer(&levels, "0")), 128);
    world.policy = merging(&levels);
    world.maintain(99);
    world.now_ms = 15 * DAY_MS;
    world.maintain(99);
    assert!(world.listed.raw().is_empty() && world.listed.remnants().next().is_none());
    world.policy = merging(&raw_for_longer(&levels, "0"));
    world.next = 4000;
    assert!(!world.refuses_of(50, 0));
    world.flush(50);
    world.check();
    world.now_ms += 2 * HOUR_MS;
    world.maintain(99);
    world.maintain(99);
    assert!(world.listed.overlays().is_empty());
    let (five, hourly) = (bucket(6, 50), bucket(8, 0));
    for bucket in [five, hourly] {
        assert!(world.listed.facts(bucket).unwrap().stands_in, "{bucket}");
        assert!(world.content[&bucket].contains(&(50, 4000)));
    }
    assert!(!world.listed.facts(bucket(6, 0)).unwrap().stands_in);
    // They outlive their levels, and the sample is seen in them.
    world.now_ms = (64 + 35 * 24) * HOUR_MS - 1;
    world.maintain(99);
    assert!(world.listed.contains(five) && world.listed.contains(hourly));
    let (_, kept_back) = culls(&world.input());
    let reason = "late samples in it are kept by finer levels, which are gone";
    assert!(kept_back.iter().any(|kept| kept.reason == reason));
    world.now_ms = (128 + 35 * 24) * HOUR_MS;
    world.maintain(99);
    assert_eq!(world.listed.all().count(), 0);
}

/// Windows in which a series has samples alone are not kept for its raw samples' time: those are
/// gone, and a policy that keeps them for longer does not bring them back.
#[test]
fn windows_that_a_policy_leaves_out_go_with_their_level() {
    let full = ColumnSet::Full;
    let two = policy(&[(RAW, 6, full), (FIVE, 20, full)]);
    let mut world = written(two.clone(), 128);
    world.now_ms = 15 * DAY_MS;
    world.maintain(99);
    assert!(world.listed.raw().is_empty());
    assert!(world.kept.keys().any(|sample| series_of(sample) == 0));
    world.policy = raw_for_longer(&two, "0");
    world.check();
    assert!(!world.kept.keys().any(|sample| series_of(sample) == 0));
    // Until then they are seen.
    let five = bucket(6, 0);
    assert_eq!(series_in(&world, five), BTreeSet::from([0, 1, 2, 3]));
    world.now_ms = 30 * DAY_MS;
    world.maintain(99);
    assert!(!world.listed.contains(five));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Whatever policies leave out, and for however long, and whatever comes late meanwhile: what
    /// is kept is seen. [`World::check`] says what that is.
    #[test]
    fn nothing_that_was_left_out_is_lost(steps in prop::collection::vec(step(), 1..120)) {
        let three = three_levels([6, 40, 60]);
        let full = ColumnSet::Full;
        let all_full = policy(&[(RAW, 6, full), (FIVE, 20, full), (HOURLY, 60, full)]);
        let two = policy(&[(RAW, 6, full), (FIVE, 20, full)]);
        let not_hourly = [(HOURLY, NOT_KEPT)];
        let hourly_alone = [(FIVE, NOT_KEPT), (HOURLY, Retention::For(70 * DAY_MS))];
        let fives_for_longer = [(FIVE, Retention::For(50 * DAY_MS)), (HOURLY, NOT_KEPT)];
        let policies = [
            three.clone(),
            raw_alone(&three, "0|1"),
            with_override(&all_full, "0|3", &not_hourly),
            with_override(&three, "2", &not_hourly),
            all_full.clone(),
            // Raw samples that outlive windows of others.
            raw_for_longer(&all_full, "1"),
            raw_for_longer(&raw_alone(&three, "3"), "0|1"),
            raw_for_longer(&two, "0|2"),
            with_override(&raw_for_longer(&all_full, "2"), "0", &hourly_alone),
            with_override(&three, "0|1", &fives_for_longer),
        ];
        let mut world = World::new(merging(&policies[1]));
        world.now_ms = 2500 * HOUR_MS;
        for step in steps {
            let step = match step {
                Step::Wait(hours) => Step::Wait(3 * hours),
                step => step,
            };
            world.apply(step, &policies);
        }
        world.settle();
    }
}
