//! Policies that change, and that keep series for different times.

use std::time::{Duration, Instant};

use icecore_storage::ExemplarQuery;

use super::*;
use crate::requests::{Entry, request};

#[test]
fn what_is_left_alone_survives_other_policies() {
    let world = world(START + 140 * HOUR);
    let process = world.start();
    let two = [(RAW, 6, ColumnSet::Full), (HOURLY, 365, ColumnSet::Full)];
    process.db.set_retention(Some(policy_of(two)));
    let mut all = samples(0..140);
    process.run(write_all(&process.db, &all));
    maintain(&process);
    set_clock(&world, START + 13 * DAY);
    assert!(maintain(&process).culled > 0);
    // Of the first 128 hours only windows of an hour are left: nothing finer can be made of them.
    process.db.set_retention(Some(policy([6, 90, 365])));
    maintain(&process);
    let range = (START, START + 140 * HOUR - 1);
    let five = process
        .db
        .rolled()
        .into_iter()
        .filter(|b| b.size.exponent() == 6);
    assert_eq!(
        five.map(|b| (b.start_ms() - START) / HOUR)
            .collect::<Vec<_>>(),
        [128]
    );
    check_windows(&process.run(select(&process.db, range, hourly())), &all);
    // A deletion takes windows there, and the bucket stays.
    delete(&process, "gauge", 5 * HOUR, 6 * HOUR - 1);
    all.retain(|(series, time, _)| {
        *series != "gauge" || !(START + 5 * HOUR..START + 6 * HOUR).contains(time)
    });
    for _ in 0..2 {
        check_windows(&process.run(select(&process.db, range, hourly())), &all);
        maintain(&process);
    }
    // A level that is dropped goes when the finer ones do.
    process.db.set_retention(Some(policy_of(two)));
    set_clock(&world, START + 30 * DAY);
    maintain(&process);
    assert!(process.db.rolled().iter().all(|b| b.size.exponent() == 8));
    check_windows(&process.run(select(&process.db, range, hourly())), &all);
    drop(process);
    world.check();
}

#[test]
fn what_is_older_than_a_policy_keeps_is_not_seen() {
    let world = world(START + 50 * HOUR);
    let process = world.start();
    let samples = samples(0..50);
    process.run(write_all(&process.db, &samples));
    let said = || {
        let stream = process.run(process.db.select(everything())).unwrap();
        stream.kept_since_ms()
    };
    assert_eq!(said(), None);
    process
        .db
        .set_retention(Some(RetentionPolicy::raw_for(DAY).unwrap()));
    assert_eq!(said(), Some(START + 26 * HOUR));
    let is_kept = |(_, time, _): &&(&str, i64, f64)| *time >= START + 26 * HOUR;
    let kept: Vec<_> = samples.iter().filter(is_kept).copied().collect();
    let expected = crate::support::expected(&kept);
    assert_eq!(
        process.run(read(&process.db, everything())),
        expected,
        "at once"
    );
    let refused = process.run(write(&process.db, &[("gauge", START + 20 * HOUR, 1.0)]));
    assert_eq!(refused.samples, 0);
    assert!(maintain(&process).culled > 0);
    assert_eq!(process.run(read(&process.db, everything())), expected);
    process.db.set_retention(None);
    assert!(process.run(read(&process.db, everything())).len() >= expected.len());
    assert_eq!(said(), None);
    drop(process);
    world.check();
}

/// Series of which less is kept than of the others, and more.
#[test]
fn overrides_hold_for_their_series() {
    let world = world(START + 140 * HOUR);
    let process = world.start();
    let none = Retention::NOT_KEPT;
    let of = |series: &str, retain: Vec<(Resolution, Retention)>| Override {
        matchers: vec![Matcher::equal("series", series)],
        retain,
    };
    let shorter = of(
        "gauge",
        vec![(RAW, Retention::For(DAY)), (FIVE, none), (HOURLY, none)],
    );
    let longer = of("late", vec![(HOURLY, Retention::Forever)]);
    let levels = policy([6, 90, 365]).levels().to_vec();
    let overrides = vec![shorter, longer];
    let policy = RetentionPolicy::new(levels, 2 * HOUR, LateData::Reject, overrides).unwrap();
    let samples = samples(0..140);
    process.run(write_all(&process.db, &samples));
    process.db.set_retention(Some(policy.clone()));
    let kept = |now: i64, of: &str| -> usize {
        let since = match of {
            "gauge" => START + (now - 24) * HOUR,
            _ => START,
        };
        let samples = samples.iter();
        samples
            .filter(|(series, time, _)| *series == of && *time >= since)
            .count()
    };
    let check = |process: &Process, now: i64| {
        let all = process.run(read(&process.db, everything()));
        assert_eq!(
            all.get("gauge").map_or(0, |found| found.len()),
            kept(now, "gauge")
        );
        assert_eq!(all["counter"].len(), kept(now, "counter"));
    };
    check(&process, 140);
    let report = maintain(&process);
    assert_eq!(report.rolled_up, 5);
    check(&process, 140);
    // Where others are read as windows, their samples are still there.
    let range = (START, START + 140 * HOUR - 1);
    let find = |selected: Vec<SeriesSamples>, name: &str| {
        let mut selected = selected.into_iter();
        selected.find(|series| series.labels.get("series") == Some(name))
    };
    let gauge = find(process.run(select(&process.db, range, hourly())), "gauge").unwrap();
    assert_eq!(gauge.floats.timestamps.len(), kept(140, "gauge"));
    let is_empty = |rolled: &icecore_model::RolledSamples| rolled.is_empty();
    assert!(gauge.rolled.as_ref().is_none_or(is_empty));
    let counter = find(process.run(select(&process.db, range, hourly())), "counter").unwrap();
    let windows = expected(&samples, "counter", HOURLY);
    let windows: Vec<i64> = windows.iter().map(|w| w.start_ms).collect();
    assert_eq!(
        counter.rolled.unwrap().windows[0].starts[..],
        windows[..128]
    );
    // They have no windows, and no place in the index of those.
    set_clock(&world, START + 30 * DAY);
    maintain(&process);
    let left = process.run(read(&process.db, everything()));
    assert_eq!(left.keys().collect::<Vec<_>>(), ["counter", "late"]);
    let five = process.db.rolled()[0];
    let prefix = key::record_prefix(RecordType::ForwardIndex, five);
    let series = process.run(process.db.records(&prefix)).unwrap();
    assert_eq!(series.len(), 2);
    // What others no longer keep.
    set_clock(&world, START + 500 * DAY);
    maintain(&process);
    let left = process.run(read(&process.db, everything()));
    assert_eq!(left.keys().collect::<Vec<_>>(), ["late"]);
    drop(process);
    world.check();
}

/// Exemplars go with the raw samples of their own series.
#[test]
fn nobody_is_told_of_an_earlier_time_after_a_later_one() {
    /// Longest wait for one that waits for another one, as it should.
    const TURN: Duration = Duration::from_millis(500);
    let world = world(START + 30 * DAY);
    let process = world.start();
    let policy = policy([30, 90, 365]);
    let exemplars = (0..=3).map(|hour| Entry::exemplar("x", START + hour * HOUR, "trace"));
    process
        .run(request(&process.db, exemplars.collect()))
        .unwrap();
    let first_hour = || {
        let all = ExemplarQuery {
            selectors: Vec::new(),
            start_ms: i64::MIN,
            end_ms: i64::MAX,
        };
        let found = process.run(process.db.exemplars(all)).unwrap();
        (found[0].1[0].timestamp_ms - START) / HOUR
    };
    let tell = || process.db.set_retention(Some(policy.clone()));
    tell();
    assert_eq!(first_hour(), 0);
    // Of two the first has looked at the clock, and goes on when the second could be done.
    std::thread::scope(|threads| {
        let looked = process.db.pause_at("set_floor.looked");
        threads.spawn(tell);
        process.run(ending("the first looks at the clock", looked.reached()));
        world.clock.advance(HOUR);
        let second = threads.spawn(tell);
        let give_up = Instant::now() + TURN;
        while !second.is_finished() && Instant::now() < give_up {
            std::thread::sleep(LOOK_EVERY);
        }
        drop(looked);
    });
    assert_eq!(first_hour(), 1);
}

#[test]
fn exemplars_are_shown_for_as_long_as_raw_samples_of_their_series() {
    let world = world(START + 140 * HOUR);
    let process = world.start();
    let of = |series: &str, retain: &[(Resolution, Retention)]| Override {
        matchers: vec![Matcher::equal("series", series)],
        retain: retain.to_vec(),
    };
    let levels = policy([6, 90, 365]).levels().to_vec();
    let raw = |days: i64| (RAW, Retention::For(days * DAY));
    let none = [FIVE, HOURLY].map(|level| (level, Retention::NOT_KEPT));
    let overrides = vec![
        of("short", &[raw(1), none[0], none[1]]),
        of("long", &[raw(60)]),
    ];
    let policy = RetentionPolicy::new(levels, 2 * HOUR, LateData::Reject, overrides).unwrap();
    let hours = [1, 100, 139];
    let series = ["long", "other", "short"];
    let times = hours.map(|hour| START + hour * HOUR);
    let entries = series.iter().flat_map(|name| {
        let of_series = times.map(|time| Entry::exemplar(name, time, "trace"));
        of_series
            .into_iter()
            .chain(times.map(|time| Entry::float(name, time, 1.0)))
    });
    process
        .run(request(&process.db, entries.collect()))
        .unwrap();
    let shown = || -> Vec<(String, Vec<i64>)> {
        let all = ExemplarQuery {
            selectors: Vec::new(),
            start_ms: i64::MIN,
            end_ms: i64::MAX,
        };
        let found = process.run(process.db.exemplars(all)).unwrap().into_iter();
        let hour = |exemplar: &icecore_model::Exemplar| (exemplar.timestamp_ms - START) / HOUR;
        found
            .map(|(labels, list)| {
                let name = labels.get("series").unwrap().to_owned();
                (name, list.iter().map(hour).collect())
            })
            .collect()
    };
    let expected = |long: &[i64], other: &[i64], short: &[i64]| -> Vec<(String, Vec<i64>)> {
        let all = series.iter().zip([long, other, short]);
        let some = all.filter(|(_, hours)| !hours.is_empty());
        some.map(|(name, hours)| ((*name).to_owned(), hours.to_vec()))
            .collect()
    };
    assert_eq!(
        shown(),
        expected(&hours, &hours, &hours),
        "without a policy"
    );
    for (now, long, other, short) in [
        (140, &hours[..], &hours[..], &hours[2..]),
        (160, &hours[..], &hours[1..], &hours[2..]),
        (170, &hours[..], &hours[1..], &[]),
        (13 * 24, &hours[..], &[], &[]),
        (700, &hours[..], &[], &[]),
        (60 * 24 + 50, &hours[1..], &[], &[]),
        (70 * 24, &[], &[], &[]),
    ] {
        set_clock(&world, START + now * HOUR);
        process.db.set_retention(Some(policy.clone()));
        assert_eq!(shown(), expected(long, other, short), "at hour {now}");
        maintain(&process);
        assert_eq!(shown(), expected(long, other, short), "after hour {now}");
        assert_eq!(process.db.remnants().len(), usize::from(now >= 700));
    }
    drop(process);
    world.check();
}
