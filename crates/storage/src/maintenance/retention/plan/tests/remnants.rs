//! Series whose raw samples are kept for longer than those of others.

use super::*;

const LONG: Retention = Retention::For(35 * DAY_MS);

fn longer(policy: &RetentionPolicy, series: &str) -> RetentionPolicy {
    with_override(policy, series, &[(RAW, LONG)])
}

/// An hour of each series, now and then, up to an hour; then nothing for as long as windows wait.
fn written(policy: RetentionPolicy, hours: i64) -> World {
    let mut world = World::new(policy);
    for hour in (0..hours).step_by(40) {
        for _ in 0..SERIES {
            world.flush(hour);
        }
    }
    world.now_ms = (hours + 3) * HOUR_MS;
    world.written_ms.clear();
    world
}

#[test]
fn they_move_to_a_remnant_when_the_others_go() {
    let mut world = written(longer(&three_levels([6, 40, 60]), "0|2"), 600);
    world.maintain(99);
    // Of the first 512 hours nothing goes before all of them are old enough.
    world.now_ms = (512 + 6 * 24) * HOUR_MS - 1;
    world.maintain(99);
    assert_eq!(world.listed.remnants().next(), None);
    assert_eq!(world.listed.raw().len(), 15);
    world.now_ms += 1;
    let (plans, kept_back) = remnants(&world.input());
    let target = bucket(10, 0);
    assert_eq!(plans[0].target, target);
    assert_eq!(plans[0].sources.len(), 13);
    assert_eq!(plans[0].watermark_ms, 512 * HOUR_MS);
    assert_eq!((plans.len(), kept_back.len()), (1, 0));
    world.maintain(99);
    assert_eq!(world.listed.remnants().collect::<Vec<_>>(), [target]);
    assert_eq!(world.listed.raw().len(), 2);
    let series: BTreeSet<usize> = world.content[&target].iter().map(series_of).collect();
    assert_eq!(series, BTreeSet::from([0, 2]));
    assert!(world.refuses(80) && world.raw.iter().any(|s| s.0 == 80));
    // It goes when they are too old, too.
    world.now_ms = (512 + 35 * 24) * HOUR_MS - 1;
    world.maintain(99);
    assert!(world.listed.contains(target) && world.listed.raw().is_empty());
    world.now_ms += 1;
    world.maintain(99);
    assert!(!world.listed.contains(target) && world.listed.contains(bucket(10, 512)));
}

#[test]
fn what_is_not_rolled_up_is_kept_whole() {
    let mut world = written(longer(&three_levels([6, 40, 60]), "0"), 600);
    world.now_ms = 30 * DAY_MS;
    let (plans, kept_back) = remnants(&world.input());
    assert_eq!((plans.len(), kept_back.len()), (0, 1));
    assert_eq!(kept_back[0].reason, "it is not rolled up yet");
    world.maintain(99);
    world.busy_hours.insert(bucket(1, 530).start);
    assert_eq!(world.listed.remnants().count(), 1);
}

#[test]
fn where_something_has_gone_before_there_is_none() {
    // The first hours go with all series; then some of them are to be kept for longer.
    let mut world = written(three_levels([6, 40, 60]), 600);
    world.now_ms = (256 + 6 * 24) * HOUR_MS;
    world.maintain(99);
    assert_eq!(world.listed.raw().first(), Some(&bucket(1, 280)));
    world.policy = longer(&three_levels([6, 40, 60]), "0");
    world.now_ms = 30 * DAY_MS;
    world.maintain(99);
    assert_eq!(world.listed.remnants().count(), 0);
    assert!(
        !world.listed.raw().is_empty(),
        "kept whole, for as long as any series needs it"
    );
    world.now_ms = 70 * DAY_MS;
    world.maintain(99);
    assert!(world.listed.raw().is_empty());
}

#[test]
fn an_override_that_is_dropped_takes_its_remnants_along() {
    let mut world = written(longer(&three_levels([6, 40, 60]), "0"), 600);
    world.maintain(99);
    world.now_ms = 30 * DAY_MS;
    world.maintain(99);
    assert_eq!(world.listed.remnants().count(), 1);
    // One that is kept for longer still is, also as another override, and with others.
    let forever = [
        (RAW, Retention::Forever),
        (FIVE, Retention::Forever),
        (HOURLY, Retention::Forever),
    ];
    let mut lengthened = world.clone();
    lengthened.policy = with_override(&three_levels([6, 40, 60]), "1|0", &forever);
    lengthened.now_ms = 100 * DAY_MS;
    lengthened.maintain(99);
    assert!(lengthened.listed.remnants().next().is_some());
    assert!(lengthened.raw.iter().any(|sample| sample.0 == 80));
    world.policy = three_levels([6, 40, 60]);
    world.maintain(99);
    assert_eq!(world.listed.remnants().count(), 0);
}

#[test]
fn late_samples_join_the_remnants_of_their_series() {
    let mut world = written(merging(&longer(&three_levels([6, 40, 60]), "0")), 600);
    world.maintain(99);
    world.now_ms = 30 * DAY_MS;
    world.maintain(99);
    let target = bucket(10, 0);
    let before = world.content[&target].len();
    for _ in 0..SERIES {
        assert!(!world.refuses(81));
        world.flush(81);
        world.check();
    }
    world.now_ms += 2 * HOUR_MS;
    let plans = merges(&world.input());
    assert_eq!(plans[0].remnants, [target]);
    world.maintain(99);
    assert_eq!(world.content[&target].len(), before + 1);
    assert!(world.listed.overlays().is_empty());
}

/// Without a coarser level nothing says that raw samples are gone.
#[test]
fn imports_beside_a_remnant_stay_raw() {
    let alone = RetentionPolicy::raw_for(6 * DAY_MS).unwrap();
    let mut world = written(longer(&alone, "0"), 600);
    world.now_ms = 30 * DAY_MS;
    world.maintain(99);
    assert_eq!(world.listed.remnants().count(), 1);
    for _ in 0..SERIES {
        assert!(!world.refuses(81));
        world.flush(81);
    }
    world.written_ms.clear();
    world.policy = longer(&three_levels([6, 40, 60]), "0");
    world.maintain(99);
    assert!(world.listed.level_in(HOURLY, bucket(10, 0)).is_empty());
    assert!(world.listed.raw().contains(&bucket(1, 81)));
}

/// A remnant that no windows can be made of stands in for every level that the policy keeps, also
/// for one that would be made of another.
#[test]
fn a_remnant_without_windows_is_kept_for_the_longest_level() {
    let alone = RetentionPolicy::raw_for(6 * DAY_MS).unwrap();
    let mut world = written(longer(&alone, "0"), 600);
    world.now_ms = 30 * DAY_MS;
    world.maintain(99);
    let full = ColumnSet::Full;
    let levels = policy(&[(RAW, 6, full), (FIVE, 40, full), (HOURLY, 60, full)]);
    world.policy = longer(&levels, "0");
    world.now_ms = (512 + 59 * 24) * HOUR_MS;
    world.maintain(99);
    assert_eq!(world.listed.remnants().next(), Some(bucket(10, 0)));
    world.now_ms = (512 + 61 * 24) * HOUR_MS;
    world.maintain(99);
    assert!(!world.listed.contains(bucket(10, 0)));
}

/// A remnant whose windows have gone stands in for levels that a later policy wants of its series.
#[test]
fn a_remnant_that_was_left_alone_is_kept_for_the_levels_of_another_policy() {
    let full = ColumnSet::Full;
    let two = policy(&[(RAW, 6, full), (FIVE, 20, full)]);
    let none = (FIVE, Retention::NOT_KEPT);
    let mut world = written(with_override(&two, "0", &[(RAW, LONG), none]), 600);
    world.maintain(99);
    world.now_ms = 31 * DAY_MS;
    world.maintain(99);
    let remnant = bucket(10, 0);
    assert!(world.listed.contains(remnant));
    world.now_ms = 45 * DAY_MS;
    world.maintain(99);
    assert!(world.listed.level_in(FIVE, remnant).is_empty());
    assert!(world.listed.contains(remnant) && world.listed.is_alone(remnant));
    // No windows can be made of it.
    world.policy = three_levels([6, 40, 60]);
    world.maintain(99);
    assert!(world.listed.contains(remnant));
    world.now_ms = (512 + 60 * 24) * HOUR_MS;
    world.maintain(99);
    assert!(!world.listed.contains(remnant));
}

/// Where raw samples wait for others of their remnant for longer than windows are kept, those are
/// not made again.
#[test]
fn windows_that_are_too_old_are_not_made_again() {
    let full = ColumnSet::Full;
    let two = policy(&[(RAW, 6, full), (FIVE, 20, full)]);
    let none = (FIVE, Retention::NOT_KEPT);
    let mut world = written(with_override(&two, "0", &[(RAW, LONG), none]), 300);
    world.maintain(99);
    assert!(world.listed.contains(bucket(6, 0)));
    world.now_ms = 26 * DAY_MS;
    world.settle();
    assert!(!world.listed.contains(bucket(6, 0)));
    assert!(world.listed.raw().contains(&bucket(1, 0)));
    // Nothing waits for them either.
    world.now_ms = 50 * DAY_MS;
    world.settle();
    assert!(world.listed.raw().is_empty() && world.listed.contains(bucket(10, 0)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever happens, what is kept is seen, and as it came where the policy says so.
    #[test]
    fn nothing_that_is_kept_for_longer_is_lost(steps in prop::collection::vec(step(), 1..120)) {
        let three = three_levels([6, 40, 60]);
        let full = ColumnSet::Full;
        let two = policy(&[(RAW, 6, full), (HOURLY, 60, full)]);
        let forever = [(RAW, Retention::Forever), (HOURLY, Retention::Forever)];
        let shorter = [(RAW, Retention::For(2 * DAY_MS))];
        let policies = [
            longer(&three, "0"),
            longer(&with_override(&three, "2", &shorter), "0|1|2"),
            with_override(&two, "1", &forever),
            longer(&RetentionPolicy::raw_for(6 * DAY_MS).unwrap(), "0"),
            three_levels([6, 10, 60]),
        ];
        let mut world = World::new(merging(&policies[0]));
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
