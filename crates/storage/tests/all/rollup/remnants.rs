//! Series whose raw samples are kept for longer than those of others.

use std::sync::Arc;

use icecore_model::rollup::SeriesWindows;

use super::*;
use crate::support::Content;

type Samples = Vec<(&'static str, i64, f64)>;

/// Two counters and two gauges, three times an hour.
fn sparse(hours: std::ops::Range<i64>) -> Samples {
    let thirds = (hours.start * 3..hours.end * 3).map(|third| (third, START + third * 1_200_000));
    thirds
        .flat_map(|(third, time)| {
            let sine = (third as f64 / 10.0).sin();
            [
                ("billing", time + 5, third as f64),
                ("counter", time + 7, (third % 111) as f64),
                ("gauge", time, sine),
                ("paid", time + 31_000, -sine),
            ]
        })
        .collect()
}

fn of_series(series: &str, retain: &[(Resolution, Retention)]) -> Override {
    Override {
        matchers: vec![Matcher::equal("series", series)],
        retain: retain.to_vec(),
    }
}

fn with(late_data: LateData, overrides: Vec<Override>) -> RetentionPolicy {
    let levels = policy([6, 60, 120]).levels().to_vec();
    RetentionPolicy::new(levels, 2 * HOUR, late_data, overrides).unwrap()
}

/// Raw samples for six days, of two series for 40; one of these is kept in no other way.
fn longer(late_data: LateData) -> RetentionPolicy {
    let raw = (RAW, Retention::For(40 * DAY));
    let none = Retention::NOT_KEPT;
    let billing = of_series("billing", &[raw]);
    let paid = of_series("paid", &[raw, (FIVE, none), (HOURLY, none)]);
    with(late_data, vec![billing, paid])
}

const HOURS: i64 = 530;
const REMNANT_END: i64 = START + 512 * HOUR;

/// The hours of the remnant, and those behind it.
const ALL: (i64, i64) = (START, START + HOURS * HOUR - 1);

/// A store of which all is rolled up, and the first 512 hours are to go.
fn due(policy: &RetentionPolicy) -> (World, Process, Samples) {
    due_after(policy, |_| {})
}

/// The same, after something was done to it.
fn due_after(policy: &RetentionPolicy, change: impl FnOnce(&Process)) -> (World, Process, Samples) {
    let mut world = world(START + HOURS * HOUR);
    world.options.head.flush_batch_records = 3;
    let process = world.start();
    let samples = sparse(0..HOURS);
    process.run(write_all(&process.db, &samples));
    process.db.set_retention(Some(policy.clone()));
    change(&process);
    maintain(&process);
    set_clock(&world, REMNANT_END + 6 * DAY + HOUR);
    // Windows are made of what has closed since.
    while process.run(process.db.roll_up_now(None)).is_ok() {}
    assert_eq!(process.db.remnants(), []);
    (world, process, samples)
}

fn start(world: &World, policy: &RetentionPolicy) -> Process {
    let process = world.start();
    process.db.set_retention(Some(policy.clone()));
    process
}

/// The same, when its clock of retention has caught up with the time.
fn start_late(world: &World, policy: &RetentionPolicy) -> Process {
    let process = start(world, policy);
    world.clock.advance(DAY);
    process.db.set_retention(Some(policy.clone()));
    process
}

/// The same store with a clock of its own.
fn fork(world: &World) -> World {
    let mut forked = World::over(Arc::new(world.memory().fork()));
    forked.options = world.options.clone();
    set_clock(&forked, world.clock.now_ms());
    forked
}

fn find(selected: Vec<SeriesSamples>, name: &str) -> SeriesSamples {
    let mut selected = selected.into_iter();
    let found = selected.find(|series| series.labels.get("series") == Some(name));
    found.unwrap_or_else(|| panic!("{name} is there"))
}

/// Samples as they came, all of some series.
fn raw_of(db: &Database, process: &Process, series: &str) -> Vec<(i64, f64)> {
    let finest = RollupChoice {
        step_ms: 0,
        range_ms: 0,
        ..hourly()
    };
    let found = find(process.run(select(db, ALL, finest)), series);
    let is_empty = |rolled: &icecore_model::RolledSamples| rolled.is_empty();
    assert!(
        found.rolled.as_ref().is_none_or(is_empty),
        "{series} is raw"
    );
    // The same when nothing else is permitted.
    let raw_only = RollupChoice {
        max_ms: Some(0),
        ..finest
    };
    let again = find(process.run(select(db, ALL, raw_only)), series);
    assert_eq!(again.floats.values.len(), found.floats.values.len());
    let floats = &found.floats;
    let times = floats.timestamps.iter().copied();
    let all = times.zip(floats.values.iter().copied());
    all.filter(|(time, _)| (ALL.0..=ALL.1).contains(time))
        .collect()
}

/// Checks that what is kept for longer is read as it came, and everything as windows.
fn check(process: &Process, samples: &Samples, when: &str) {
    for series in ["billing", "paid"] {
        let expected: Vec<(i64, f64)> = of(samples, series).collect();
        assert_eq!(
            raw_of(&process.db, process, series),
            expected,
            "{series} {when}"
        );
        let all: Content = process.run(read(&process.db, everything()));
        let times: Vec<i64> = all[series].keys().copied().collect();
        let expected: Vec<i64> = expected.iter().map(|(time, _)| *time).collect();
        assert_eq!(times, expected, "{series} {when}, as samples");
    }
    let selected = process.run(select(&process.db, ALL, hourly()));
    assert_eq!(selected.len(), 4, "{when}");
    let others: Vec<SeriesSamples> = selected
        .into_iter()
        .filter(|series| series.labels.get("series") != Some("paid"))
        .collect();
    check_windows(&others, samples);
}

fn is_raw(process: &Process, series: &str) -> bool {
    let finest = RollupChoice {
        step_ms: 0,
        range_ms: 0,
        ..hourly()
    };
    let found = find(process.run(select(&process.db, ALL, finest)), series);
    found.rolled.is_none_or(|rolled| rolled.is_empty())
}

#[test]
fn they_are_read_as_they_came_for_as_long_as_their_override_says() {
    let policy = longer(LateData::Reject);
    let (world, process, mut samples) = due(&policy);
    check(&process, &samples, "before");
    let report = maintain(&process);
    assert_eq!(report.remnants, 1);
    let remnant = process.db.remnants();
    assert_eq!(remnant.len(), 1);
    assert_eq!(
        (remnant[0].start_ms(), remnant[0].end_ms()),
        (START, REMNANT_END)
    );
    assert!(
        process
            .db
            .listed()
            .iter()
            .all(|b| b.start_ms() >= REMNANT_END)
    );
    let status = process.db.maintenance_status();
    assert_eq!(status.levels[0].remnants, 1);
    assert!(
        status
            .buckets
            .iter()
            .any(|size| (size.hours, size.count) == (512, 1))
    );
    check(&process, &samples, "afterwards");
    assert!(!is_raw(&process, "counter"));
    let prefix = key::record_prefix(RecordType::ForwardIndex, remnant[0]);
    let series = process.run(process.db.records(&prefix)).unwrap();
    assert_eq!(series.len(), 2, "nobody else is in it");
    let again = maintain(&process);
    assert_eq!((again.remnants, again.culled), (0, 0));
    process.close();
    world.check();

    // A deletion takes samples, and whole windows.
    let process = start(&world, &policy);
    check(&process, &samples, "after a start");
    delete(&process, "billing", 100 * HOUR, 101 * HOUR - 1);
    delete(&process, "paid", 200 * HOUR + 1, 200 * HOUR + 40_000);
    let is_deleted = |(series, time, _): &(&str, i64, f64)| match *series {
        "billing" => (START + 100 * HOUR..START + 101 * HOUR).contains(time),
        "paid" => (START + 200 * HOUR + 1..=START + 200 * HOUR + 40_000).contains(time),
        _ => false,
    };
    samples.retain(|sample| !is_deleted(sample));
    check(&process, &samples, "after a deletion");
    maintain(&process);
    check(&process, &samples, "cleaned");
    let refused = process.run(write(&process.db, &[("billing", START + HOUR, 1.0)]));
    assert_eq!(refused.samples, 0);
    process.close();
    world.check();

    // Another policy that keeps them for longer still, with overrides that are not what they were.
    let other = Override {
        matchers: vec![Matcher::new(icecore_model::MatchOp::Regex, "series", "b.*|p.*").unwrap()],
        retain: vec![(RAW, Retention::For(50 * DAY))],
    };
    let counter = of_series("counter", &[(RAW, Retention::For(50 * DAY))]);
    let process = start(&world, &with(LateData::Reject, vec![counter, other]));
    maintain(&process);
    assert!(is_raw(&process, "billing") && is_raw(&process, "paid"));
    assert!(
        !is_raw(&process, "counter"),
        "what has gone does not come back"
    );
    let all = process.run(select(&process.db, ALL, hourly()));
    let counter = find(all, "counter");
    check_windows(&[counter], &samples);
    process.close();

    // Without overrides it stays for the series that has no windows, for as long as others have.
    let process = start(&world, &with(LateData::Reject, Vec::new()));
    let check_paid = |found: &SeriesSamples, samples: &Samples| {
        let in_remnant = |time: &&i64| **time < REMNANT_END;
        let found = found.floats.timestamps.iter().filter(in_remnant).count();
        let paid = of(samples, "paid").map(|(time, _)| time);
        assert_eq!(found, paid.filter(|time| *time < REMNANT_END).count());
    };
    for _ in 0..2 {
        let all = process.run(select(&process.db, ALL, hourly()));
        check_paid(&find(all, "paid"), &samples);
        let all = process.run(select(&process.db, ALL, hourly()));
        check_windows(&[find(all, "billing")], &samples);
        maintain(&process);
        assert_eq!(process.db.remnants(), remnant);
    }
    set_clock(&world, REMNANT_END + 120 * DAY - HOUR);
    maintain(&process);
    assert_eq!(process.db.remnants(), remnant);
    set_clock(&world, REMNANT_END + 120 * DAY);
    maintain(&process);
    assert!(!process.db.remnants().contains(&remnant[0]));
    process.close();
    world.check();
}

#[test]
fn a_remnant_goes_when_its_series_are_too_old() {
    let policy = longer(LateData::Reject);
    let (world, process, samples) = due(&policy);
    maintain(&process);
    let is_first = |remnant: &Bucket| remnant.start_ms() == START;
    set_clock(&world, REMNANT_END + 40 * DAY - HOUR);
    maintain(&process);
    assert!(process.db.remnants().iter().any(is_first));
    set_clock(&world, REMNANT_END + 40 * DAY);
    maintain(&process);
    assert!(!process.db.remnants().iter().any(is_first));
    let all = process.run(select(&process.db, ALL, hourly()));
    check_windows(&[find(all, "billing")], &samples);
    process.close();
    world.check();
}

#[test]
fn an_interrupted_remnant_goes_on_and_ends_in_the_same_bytes() {
    let policy = longer(LateData::Reject);
    // What was deleted before does not come along.
    let (world, process, mut samples) = due_after(&policy, |process| {
        delete(process, "billing", 300 * HOUR, 301 * HOUR - 1);
    });
    samples.retain(|(series, time, _)| {
        *series != "billing" || !(START + 300 * HOUR..START + 301 * HOUR).contains(time)
    });
    process.close();
    let built = |world: &World| {
        let process = start_late(world, &policy);
        while process.run(process.db.roll_up_now(None)).is_ok() {}
        let built = process.run(process.db.build_remnant_now(None)).unwrap();
        check(&process, &samples, "built");
        let records = records_of(&process, process.db.remnants()[0]);
        process.close();
        world.check();
        (records, built.resumed)
    };
    let (expected, _) = built(&fork(&world));
    assert!(expected.len() > 5);
    let mut resumed = 0;
    for writes in 0.. {
        let world = fork(&world);
        let process = start_late(&world, &policy);
        while process.run(process.db.roll_up_now(None)).is_ok() {}
        let cut = process.run(process.db.build_remnant_now(Some(writes)));
        check(&process, &samples, &format!("cut before write {writes}"));
        // With the WAL written out and without.
        match writes % 2 {
            0 => process.close(),
            _ => process.crash(),
        }
        world.check();
        if cut.is_ok() {
            assert!(writes > 5, "only {writes} writes");
            break;
        }
        let (records, goes_on) = built(&world);
        assert_eq!(records, expected, "cut before write {writes}");
        resumed += usize::from(goes_on);
    }
    assert!(resumed > 3, "{resumed} of them went on");
}

/// The power goes at any put of a job, the one that would make its commit durable included.
#[test]
fn the_power_may_go_at_any_put_of_a_remnant() {
    let policy = longer(LateData::Reject);
    let (world, process, samples) = due(&policy);
    process.close();
    for puts in 0..60 {
        let mut forked = fork(&world);
        forked.options.store.retries_max = 1;
        forked.options.store.compaction = false;
        let process = start_late(&forked, &policy);
        process.faults.power_off_after(puts);
        let built = process.run(process.db.build_remnant_now(None));
        process.crash();
        forked.options.store.compaction = true;
        let process = start_late(&forked, &policy);
        check(&process, &samples, &format!("{puts} puts"));
        maintain(&process);
        assert_eq!(process.db.remnants().len(), 1);
        check(&process, &samples, &format!("{puts} puts, built"));
        process.close();
        forked.check();
        if built.is_ok() {
            return;
        }
    }
    panic!("a remnant needs more than 60 puts");
}

#[test]
fn a_deletion_waits_for_the_remnant_and_samples_are_refused() {
    let policy = longer(LateData::Reject);
    let (world, process, mut samples) = due(&policy);
    let db = process.db.clone();
    let (from, to) = (START + 70 * HOUR, START + 71 * HOUR - 1);
    process.run(async {
        let pause = db.pause_at("remnant.held");
        let job = tokio::spawn({
            let db = db.clone();
            async move { db.build_remnant_now(None).await }
        });
        pause.reached().await;
        let refused = write(&db, &[("billing", START + 90 * HOUR, 1.0)]).await;
        assert_eq!(refused.samples, 0);
        let deleted = tokio::spawn({
            let db = db.clone();
            async move {
                let deletion = Deletion {
                    selectors: vec![vec![Matcher::equal("series", "billing")]],
                    start_ms: from,
                    end_ms: to,
                };
                db.delete_series(deletion).await.unwrap();
            }
        });
        until("the deletion waits for the job", || db.flush_waits()).await;
        drop(pause);
        job.await.unwrap().unwrap();
        deleted.await.unwrap();
    });
    samples.retain(|(series, time, _)| *series != "billing" || !(from..=to).contains(time));
    check(&process, &samples, "deleted");
    maintain(&process);
    check(&process, &samples, "cleaned");
    process.close();
    world.check();
}

/// What comes late of them is raw, too: in the head, in an overlay, and merged.
#[test]
fn late_samples_join_the_remnant() {
    let policy = longer(LateData::Merge);
    let (world, process, samples) = due(&policy);
    maintain(&process);
    assert_eq!(process.db.remnants().len(), 1);
    let minute = |minute: i64| START + minute * 60_000;
    let late: Samples = vec![
        ("billing", minute(61), 1e6),
        ("counter", minute(62), 7.0),
        // In the place of one that is there.
        ("paid", minute(20) + 31_000, 42.0),
        ("paid", minute(63), 43.0),
    ];
    assert_eq!(process.run(write(&process.db, &late)).samples, 4);
    let all: Samples = samples.iter().chain(&late).copied().collect();
    let expected = crate::support::expected(&all);
    let windows = |samples: &Samples, series: &str, level: Resolution| SeriesWindows {
        floats: roll_up(level, of(samples, series)),
        histograms: Vec::new(),
    };
    let merged = |series: &str, level: Resolution| {
        let mut merged = windows(&samples, series, level);
        merged.merge_late(windows(&late, series, level));
        merged.floats
    };
    let check = |process: &Process, when: &str| {
        for series in ["billing", "paid"] {
            let found = raw_of(&process.db, process, series);
            let found: Vec<(i64, u64)> = found.iter().map(|(t, v)| (*t, v.to_bits())).collect();
            let expected = expected[series].iter().map(|(t, v)| (*t, *v));
            assert_eq!(found, expected.collect::<Vec<_>>(), "{series} {when}");
        }
        let selected = process.run(select(&process.db, ALL, hourly()));
        let others = selected
            .into_iter()
            .filter(|series| series.labels.get("series") != Some("paid"));
        let others: Vec<SeriesSamples> = others.collect();
        let within = |level, series: &str| {
            let mut all = merged(series, level);
            all.retain(|w| w.start_ms < REMNANT_END);
            let mut rest = roll_up(level, of(&samples, series));
            rest.retain(|w| w.start_ms >= REMNANT_END);
            all.extend(rest);
            all
        };
        check_windows_of(&others, |series, level| within(level, series));
    };
    check(&process, "in the head");
    process.run(process.db.flush_buckets()).unwrap();
    assert_eq!(process.db.overlays().len(), 1);
    check(&process, "flushed");
    let mut writes = 0;
    while process
        .run(process.db.merge_late_now(Some(writes)))
        .is_err()
    {
        check(&process, &format!("cut before write {writes}"));
        writes += 1;
        assert!(writes < 20);
    }
    assert_eq!(process.db.overlays(), []);
    check(&process, "merged");
    process.close();
    world.check();
    let process = start(&world, &policy);
    check(&process, "after a start");
    maintain(&process);
    check(&process, "maintained");
    process.close();
    world.check();
}

/// A merge writes to the whole remnant, which is larger than the windows: what is deleted in it
/// must not come back, nor take the late samples along.
#[test]
fn a_deletion_anywhere_in_the_remnant_waits_for_the_merge() {
    let policy = longer(LateData::Merge);
    let (world, process, mut samples) = due(&policy);
    maintain(&process);
    let late = ("paid", START + 300 * HOUR + 90_000, 5.0);
    assert_eq!(process.run(write(&process.db, &[late])).samples, 1);
    process.run(process.db.flush_buckets()).unwrap();
    samples.push(late);
    let db = process.db.clone();
    let (from, to) = (START + 10 * HOUR, START + 11 * HOUR - 1);
    process.run(async {
        let pause = db.pause_at("merge.held");
        let job = tokio::spawn({
            let db = db.clone();
            async move { db.merge_late_now(None).await }
        });
        pause.reached().await;
        let deleted = tokio::spawn({
            let db = db.clone();
            async move {
                let deletion = Deletion {
                    selectors: vec![vec![Matcher::equal("series", "paid")]],
                    start_ms: from,
                    end_ms: to,
                };
                db.delete_series(deletion).await.unwrap();
            }
        });
        until("the deletion waits for the job", || db.flush_waits()).await;
        assert!(!deleted.is_finished());
        drop(pause);
        job.await.unwrap().unwrap();
        deleted.await.unwrap();
    });
    samples.retain(|(series, time, _)| *series != "paid" || !(from..=to).contains(time));
    let expected = crate::support::expected(&samples);
    let found = raw_of(&process.db, &process, "paid");
    let found: Vec<(i64, u64)> = found.iter().map(|(t, v)| (*t, v.to_bits())).collect();
    let expected = expected["paid"].iter().map(|(t, v)| (*t, *v));
    assert_eq!(found, expected.collect::<Vec<_>>());
    process.close();
    world.check();
}

/// A series that keeps nothing but raw samples, of time from which no remnant has it: what comes
/// late is in windows rather than nowhere.
#[test]
fn a_late_sample_of_a_series_that_no_remnant_has_is_not_lost() {
    let policy = longer(LateData::Merge);
    let mut world = world(START + HOURS * HOUR);
    world.options.head.flush_batch_records = 3;
    let process = world.start();
    let mut samples = sparse(0..HOURS);
    samples.retain(|(series, ..)| *series != "paid");
    process.run(write_all(&process.db, &samples));
    process.db.set_retention(Some(policy.clone()));
    maintain(&process);
    set_clock(&world, REMNANT_END + 6 * DAY + HOUR);
    maintain(&process);
    assert_eq!(process.db.remnants().len(), 1);
    let late = ("paid", START + 10 * HOUR + 1, 5.0);
    assert_eq!(process.run(write(&process.db, &[late])).samples, 1);
    for step in ["in the head", "flushed", "merged"] {
        match step {
            "flushed" => process.run(process.db.flush_buckets()).unwrap(),
            "merged" => drop(maintain(&process)),
            _ => {}
        }
        let all = process.run(read(&process.db, everything()));
        let found: Vec<(i64, u64)> = all["paid"].iter().map(|(t, v)| (*t, *v)).collect();
        assert_eq!(found, [(late.1, late.2.to_bits())], "{step}");
    }
    process.close();
    world.check();
}

/// Without coarser levels a remnant is all that is left of its time.
#[test]
fn raw_samples_alone_may_be_kept_for_longer() {
    let alone = RetentionPolicy::raw_for(6 * DAY).unwrap();
    let overrides = vec![of_series("billing", &[(RAW, Retention::For(40 * DAY))])];
    let levels = alone.levels().to_vec();
    let policy = RetentionPolicy::new(levels, 2 * HOUR, LateData::Reject, overrides).unwrap();
    let (world, process, samples) = due(&policy);
    assert_eq!(maintain(&process).remnants, 1);
    let left: Vec<_> = samples
        .iter()
        .filter(|(series, time, _)| *series == "billing" || *time >= REMNANT_END)
        .copied()
        .collect();
    let check = |process: &Process, left: &Samples| {
        let found = process.run(read(&process.db, everything()));
        let mut expected = crate::support::expected(left);
        let since = REMNANT_END + HOUR;
        for (_, samples) in expected
            .iter_mut()
            .filter(|(series, _)| *series != "billing")
        {
            samples.retain(|time, _| *time >= since);
        }
        assert_eq!(found, expected);
    };
    check(&process, &left);
    // Its time takes samples, which lie beside it.
    let late = ("billing", START + 33 * HOUR + 1, 8.0);
    let again = ("billing", START + 40 * HOUR + 5, 9.0);
    assert_eq!(process.run(write(&process.db, &[late, again])).samples, 2);
    let mut left = left;
    left.extend([late, again]);
    check(&process, &left);
    process.run(process.db.flush_buckets()).unwrap();
    check(&process, &left);
    maintain(&process);
    check(&process, &left);
    process.close();
    world.check();
    let process = start(&world, &policy);
    check(&process, &left);
}
