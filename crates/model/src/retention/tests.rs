use proptest::prelude::*;

use super::*;
use crate::MatchOp;

fn level(name: &str, retain: &str) -> Level {
    let resolution = Resolution::from_name(name).unwrap();
    Level {
        resolution,
        retain: retain.parse().unwrap(),
        columns: ColumnSet::default_of(resolution),
    }
}

fn exception(label: (&str, &str), retain: &[(&str, &str)]) -> Override {
    let retain = retain.iter().map(|(name, retain)| {
        let resolution = Resolution::from_name(name).unwrap();
        (resolution, retain.parse().unwrap())
    });
    Override {
        matchers: vec![Matcher::new(MatchOp::Regex, label.0, label.1).unwrap()],
        retain: retain.collect(),
    }
}

fn policy(
    levels: &[(&str, &str)],
    overrides: Vec<Override>,
) -> Result<RetentionPolicy, Vec<PolicyProblem>> {
    let levels = levels.iter().map(|(name, retain)| level(name, retain));
    let delay_ms = DEFAULT_ROLLUP_DELAY_MS;
    RetentionPolicy::new(levels.collect(), delay_ms, LateData::Reject, overrides)
}

#[track_caller]
fn check_problem(
    levels: &[(&str, &str)],
    overrides: Vec<Override>,
    place: PolicyPlace,
    reason: &str,
) {
    let problems = policy(levels, overrides).unwrap_err();
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert_eq!(problems[0].place, place, "{problems:?}");
    assert!(problems[0].reason.contains(reason), "{problems:?}");
}

const DEFAULT: [(&str, &str); 3] = [("raw", "21d"), ("5m", "90d"), ("1h", "365d")];

#[test]
fn the_default_and_raw_alone() {
    let default = RetentionPolicy::default_levels();
    assert_eq!(policy(&DEFAULT, Vec::new()).as_ref(), Ok(&default));
    assert_eq!(default.to_string(), "raw 21d, 5m 90d, 1h 365d");
    let columns: Vec<ColumnSet> = default.levels().iter().map(|level| level.columns).collect();
    assert_eq!(columns, [ColumnSet::Full, ColumnSet::Lean, ColumnSet::Full]);

    let raw = RetentionPolicy::raw_for(90 * DAY_MS).unwrap();
    assert_eq!(policy(&[("raw", "90d")], Vec::new()), Ok(raw.clone()));
    assert_eq!(raw.next_coarser(Resolution::RAW), None);
    for ms in [0, -HOUR_MS, HOUR_MS + 1] {
        let problems = RetentionPolicy::raw_for(ms).unwrap_err();
        assert_eq!(problems[0].place, PolicyPlace::Retain(0), "{ms}");
    }
}

/// Levels that go from fine to coarse need no other check.
#[test]
fn every_resolution_is_a_multiple_of_the_finer_ones() {
    let rolled = || Resolution::all().filter(|resolution| !resolution.is_raw());
    for (finer, coarser) in std::iter::zip(rolled(), rolled().skip(1)) {
        assert!(finer < coarser && coarser.ms() % finer.ms() == 0);
    }
}

#[test]
fn any_resolutions_may_be_levels_in_their_order() {
    for levels in [
        vec![("raw", "1h")],
        vec![("raw", "inf")],
        vec![("raw", "34h"), ("5m", "34h")],
        vec![("raw", "34h"), ("10s", "130h"), ("1m", "inf")],
        vec![("raw", "130h"), ("1h", "130h")],
        vec![("raw", "130h"), ("2h", "1026h"), ("16h", "inf")],
    ] {
        assert!(policy(&levels, Vec::new()).is_ok(), "{levels:?}");
    }
    let place = PolicyPlace::Resolution(0);
    check_problem(&[("5m", "90d")], Vec::new(), place, "must be raw");
    let place = PolicyPlace::Levels;
    check_problem(&[], Vec::new(), place, "the first of them raw");
    for second in ["raw", "5m"] {
        let levels = [("raw", "21d"), ("5m", "90d"), (second, "90d")];
        let place = PolicyPlace::Resolution(2);
        check_problem(&levels, Vec::new(), place, "must be coarser than 5m");
    }
    let many = ["raw", "10s", "1m", "5m", "1h", "2h"].map(|name| (name, "inf"));
    check_problem(&many, Vec::new(), PolicyPlace::Levels, "at most 4 levels");
    assert!(policy(&many[..5], Vec::new()).is_ok());
}

#[test]
fn levels_are_kept_until_the_next_is_made_of_them() {
    let place = PolicyPlace::Retain(0);
    let whole = "whole number of hours";
    check_problem(&[("raw", "90m")], Vec::new(), place, whole);
    check_problem(&[("raw", "0")], Vec::new(), place, "must not be 0");
    let levels = [("raw", "33h"), ("5m", "90d")];
    let least = "at least 1d10h: the next level is made of 1d8h at a time";
    check_problem(&levels, Vec::new(), place, least);
    let levels = [("raw", "129h"), ("1h", "90d")];
    check_problem(&levels, Vec::new(), place, "at least 5d10h");
    let levels = [("raw", "34h"), ("5m", "129h"), ("1h", "90d")];
    check_problem(
        &levels,
        Vec::new(),
        PolicyPlace::Retain(1),
        "at least 5d10h",
    );
    let levels = [("raw", "21d"), ("5m", "20d")];
    let shorter = "must not be shorter than raw is kept, which is 21d";
    check_problem(&levels, Vec::new(), PolicyPlace::Retain(1), shorter);
    let levels = [("raw", "inf"), ("5m", "90d")];
    let shorter = "must not be shorter than raw is kept, which is inf";
    check_problem(&levels, Vec::new(), PolicyPlace::Retain(1), shorter);
}

#[test]
fn the_delay_counts() {
    let with_delay = |delay_ms| {
        let levels = vec![level("raw", "34h"), level("5m", "90d")];
        RetentionPolicy::new(levels, delay_ms, LateData::Merge, Vec::new())
    };
    assert!(with_delay(0).is_ok() && with_delay(2 * HOUR_MS).is_ok());
    let problems = with_delay(2 * HOUR_MS + 1).unwrap_err();
    assert!(
        problems[0].reason.contains("at least 1d11h"),
        "{problems:?}"
    );
    let problems = with_delay(-1).unwrap_err();
    assert_eq!(problems[0].place, PolicyPlace::RollupDelay);
    assert!(with_delay(i64::MAX).is_err());
}

#[test]
fn overrides_are_checked_with_what_they_leave_as_it_is() {
    let check = |retain: &[(&str, &str)], level: &str, reason: &str| {
        let overrides = vec![exception(("a", "b"), retain)];
        let resolution = Resolution::from_name(level).unwrap();
        let place = PolicyPlace::OverrideRetain(0, resolution);
        check_problem(&DEFAULT, overrides, place, reason);
    };
    let longer = "must not be longer than 5m is kept, which is 90d";
    check(&[("raw", "91d")], "raw", longer);
    check(
        &[("raw", "91d"), ("5m", "0"), ("1h", "90d")],
        "1h",
        "than raw is kept, which is 91d",
    );
    check(&[("1h", "89d")], "1h", "than 5m is kept, which is 90d");
    check(&[("raw", "3h")], "raw", "at least 1d10h");
    check(&[("raw", "3h"), ("5m", "0")], "raw", "at least 1d10h");
    check(&[("1m", "1d")], "1m", "1m is no level of this policy");
    check(&[("raw", "2d"), ("raw", "3d")], "raw", "given twice");
    for retain in [
        &[("raw", "0")][..],
        &[("5m", "0")],
        &[("raw", "3h"), ("5m", "0"), ("1h", "0")],
        &[("raw", "0"), ("5m", "0"), ("1h", "0")],
        &[("raw", "90d"), ("1h", "1825d")],
        &[("1h", "inf")],
    ] {
        let allowed = policy(&DEFAULT, vec![exception(("a", "b"), retain)]);
        assert!(allowed.is_ok(), "{retain:?}: {allowed:?}");
    }
    let place = PolicyPlace::Override(1);
    let nothing = vec![
        exception(("a", "b"), &[("raw", "3d")]),
        exception(("a", "b"), &[]),
    ];
    check_problem(&DEFAULT, nothing, place, "expected how long");
    let mut everything = exception(("a", "b"), &[("raw", "3d")]);
    everything.matchers.clear();
    check_problem(
        &DEFAULT,
        vec![everything],
        PolicyPlace::Override(0),
        "not all",
    );
    let many = vec![exception(("a", "b"), &[("raw", "3d")]); OVERRIDES_MAX + 1];
    check_problem(&DEFAULT, many, PolicyPlace::Overrides, "at most 256");
}

#[test]
fn all_problems_are_found_at_once() {
    let levels = [("raw", "90m"), ("5m", "1h"), ("1h", "30m")];
    let overrides = vec![exception(("a", "b"), &[("2h", "1d")])];
    let problems = policy(&levels, overrides).unwrap_err();
    let places: Vec<PolicyPlace> = problems.iter().map(|problem| problem.place).collect();
    let two_hours = Resolution::from_name("2h").unwrap();
    for place in [
        PolicyPlace::Retain(0),
        PolicyPlace::Retain(1),
        PolicyPlace::Retain(2),
        PolicyPlace::OverrideRetain(0, two_hours),
    ] {
        assert!(places.contains(&place), "{place:?} is not in {problems:?}");
    }
}

#[test]
fn the_first_override_that_matches_counts() {
    let overrides = vec![
        exception(
            ("__name__", "debug_.*"),
            &[("raw", "3d"), ("5m", "0"), ("1h", "0")],
        ),
        exception(
            ("team", "billing"),
            &[("raw", "90d"), ("5m", "0"), ("1h", "inf")],
        ),
    ];
    let policy = policy(&DEFAULT, overrides).unwrap();
    assert_eq!(policy.to_string(), "raw 21d, 5m 90d, 1h 365d, 2 overrides");
    let retained = |pairs: &[(&str, &str)]| {
        let class = policy.class_of(&Labels::from_pairs(pairs.iter().copied()));
        let levels = ["raw", "5m", "1h", "2h"].map(|name| Resolution::from_name(name).unwrap());
        levels.map(|level| policy.retain(class, level).to_string())
    };
    assert_eq!(retained(&[("__name__", "up")]), ["21d", "90d", "365d", "0"]);
    let both = [("__name__", "debug_x"), ("team", "billing")];
    assert_eq!(retained(&both), ["3d", "0", "0", "0"]);
    assert_eq!(retained(&[("team", "billing")]), ["90d", "0", "inf", "0"]);

    let classes: Vec<RetentionClass> = policy.classes().collect();
    assert_eq!(classes[0], RetentionClass::DEFAULT);
    let reaches = |class: usize| {
        let levels = ["raw", "5m", "1h", "2h"].map(|name| Resolution::from_name(name).unwrap());
        levels.map(|level| policy.reaches(classes[class], level))
    };
    assert_eq!(reaches(0), [true, true, true, false]);
    assert_eq!(reaches(1), [true, false, false, false]);
    // The hours are made of windows that are not kept.
    assert_eq!(reaches(2), [true, true, true, false]);
    assert_eq!(policy.longest(Resolution::RAW), Retention::For(90 * DAY_MS));
    assert_eq!(policy.longest(Resolution::HOUR), Retention::Forever);
    let five_minutes = policy.next_coarser(Resolution::RAW).unwrap();
    assert_eq!(five_minutes.resolution, Resolution::FIVE_MINUTES);
}

#[test]
fn selectors_are_displayed_as_they_are_written() {
    let mut exception = exception(("a", "b.*"), &[("raw", "3d")]);
    exception.matchers.push(Matcher::equal("c.d", "e\"f"));
    assert_eq!(exception.to_string(), r#"{a=~"b.*", "c.d"="e\"f"}"#);
}

#[test]
fn times_are_read_and_displayed() {
    for (text, retention) in [
        ("inf", Retention::Forever),
        ("0", Retention::NOT_KEPT),
        ("21d", Retention::For(21 * DAY_MS)),
        ("1h30m", Retention::For(90 * 60_000)),
    ] {
        assert_eq!(text.parse(), Ok(retention));
        assert_eq!(retention.to_string(), text);
    }
    assert_eq!("0s".parse(), Ok(Retention::NOT_KEPT));
    for text in ["", "forever", "21", "-1d", "Inf", "00"] {
        assert!(text.parse::<Retention>().is_err(), "{text}");
    }
    assert!(Retention::For(i64::MAX) < Retention::Forever);
}

fn any_retention() -> impl Strategy<Value = Retention> {
    prop_oneof![
        2 => Just(Retention::Forever),
        1 => Just(Retention::NOT_KEPT),
        20 => (30..3000i64).prop_map(|hours| Retention::For(hours * HOUR_MS)),
        1 => any::<i64>().prop_map(Retention::For),
    ]
}

/// Mostly in order, so that many are valid.
fn any_levels() -> impl Strategy<Value = Vec<Level>> {
    let resolutions = proptest::collection::btree_set(1..11u8, 0..4);
    let retained = proptest::collection::vec(any_retention(), 5);
    (resolutions, retained, 0..10u8).prop_map(|(codes, mut retained, disorder)| {
        if disorder > 0 {
            retained.sort();
        }
        let mut codes: Vec<u8> = std::iter::once(0).chain(codes).collect();
        if disorder == 1 {
            codes.reverse();
        }
        let level = |(code, retain)| {
            let resolution = Resolution::from_code(code).unwrap();
            let columns = ColumnSet::default_of(resolution);
            Level {
                resolution,
                retain,
                columns,
            }
        };
        std::iter::zip(codes, retained).map(level).collect()
    })
}

/// Name and value of a label, and how long levels are kept, by their position.
type OverrideParts = (String, String, Vec<(usize, Retention)>);

fn any_overrides() -> impl Strategy<Value = Vec<OverrideParts>> {
    let retain = proptest::collection::vec((0..4usize, any_retention()), 1..3);
    proptest::collection::vec(("[ab]", "[xy]", retain), 0..3)
}

fn overrides_of(levels: &[Level], overrides: Vec<OverrideParts>) -> Vec<Override> {
    let one = |(name, value, retain): OverrideParts| Override {
        matchers: vec![Matcher::equal(name, value)],
        retain: (retain.into_iter())
            .map(|(at, retain)| (levels[at % levels.len()].resolution, retain))
            .collect(),
    };
    overrides.into_iter().map(one).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// A policy that was accepted has what its header promises; nothing panics.
    #[test]
    fn accepted_policies_are_in_order(
        levels in any_levels(),
        overrides in any_overrides(),
        delay_ms in prop_oneof![1 => any::<i64>(), 20 => 0..10 * HOUR_MS],
        pairs in proptest::collection::btree_map("[abc]", "[xy]", 0..3),
    ) {
        let overrides = overrides_of(&levels, overrides);
        let made = RetentionPolicy::new(levels, delay_ms, LateData::Reject, overrides);
        let Ok(policy) = made else { return Ok(()) };
        prop_assert!(policy.levels()[0].resolution.is_raw());
        let labels = Labels::from_pairs(pairs.iter());
        let class = policy.class_of(&labels);
        prop_assert!(policy.classes().any(|known| known == class));
        for class in policy.classes() {
            let levels = policy.levels().iter();
            let all = levels.map(|level| policy.retain(class, level.resolution));
            let kept: Vec<Retention> = all.filter(|retain| !retain.is_not_kept()).collect();
            prop_assert!(kept.is_sorted(), "{kept:?}");
            for retain in kept.iter().filter_map(|retain| retain.ms()) {
                prop_assert!(retain > 0 && retain % HOUR_MS == 0);
            }
            for level in policy.levels() {
                let retain = policy.retain(class, level.resolution);
                prop_assert!(policy.longest(level.resolution) >= retain);
                prop_assert!(retain.is_not_kept() || policy.reaches(class, level.resolution));
                // What is made of a level is made of what is kept.
                let next = policy.next_coarser(level.resolution);
                if next.is_some_and(|next| policy.reaches(class, next.resolution)) {
                    prop_assert!(policy.reaches(class, level.resolution));
                    if let Some(ms) = retain.ms().filter(|ms| *ms > 0) {
                        prop_assert!(ms >= 32 * HOUR_MS + delay_ms, "{ms}");
                    }
                }
            }
        }
    }
}
