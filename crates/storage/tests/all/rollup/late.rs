//! What comes, or is deleted, after its windows were made.

use super::*;

#[test]
fn late_samples_are_seen_at_once_and_rolled_up_again() {
    let world = world(START + 40 * HOUR);
    let process = world.start();
    process.db.set_retention(Some(policy([21, 90, 365])));
    let mut samples = samples(0..40);
    process.run(write_all(&process.db, &samples));
    assert_eq!(maintain(&process).rolled_up, 1);
    let late = ("gauge", START + 5 * HOUR + 90_500, 77.0);
    process.run(write(&process.db, &[late]));
    samples.push(late);
    samples.sort_by_key(|sample| sample.1);
    let range = (START, START + 32 * HOUR - 1);
    let choice = RollupChoice {
        step_ms: HOUR / 2,
        range_ms: HOUR / 2,
        ..hourly()
    };
    for flushed in [false, true] {
        if flushed {
            process.run(process.db.flush_buckets()).unwrap();
        }
        let selected = process.run(select(&process.db, range, choice));
        let gauge = selected
            .iter()
            .find(|s| s.labels.get("series") == Some("gauge"));
        let gauge = gauge.unwrap();
        let levels = &gauge.rolled.as_ref().unwrap().levels;
        let expected = [(-1, 0, RAW), (0, 5, FIVE), (5, 6, RAW), (6, 32, FIVE)];
        assert_eq!(segments(levels)[..], expected, "flushed: {flushed}");
        let has = |sample: (i64, f64)| {
            let at = gauge.floats.timestamps.binary_search(&sample.0);
            at.is_ok_and(|at| gauge.floats.values[at] == sample.1)
        };
        assert!(has((late.1, late.2)));
        check_windows(
            &selected,
            &samples
                .clone()
                .into_iter()
                .filter(|s| *s != late)
                .collect::<Vec<_>>(),
        );
    }
    let level = &process.db.maintenance_status().levels[1];
    assert_eq!((level.out_of_date, level.out_of_date_hours), (1, 1));
    let report = maintain(&process);
    assert_eq!(report.rolled_up, 1, "again");
    let selected = process.run(select(&process.db, range, choice));
    check_windows(&selected, &samples);
    let levels = &selected[0].rolled.as_ref().unwrap().levels;
    assert_eq!(segments(levels)[1..], [(0, 32, FIVE)]);
    drop(process);
    world.check();
}

#[test]
fn history_can_be_imported_where_nothing_is_left() {
    let world = world(START + 60 * DAY);
    let process = world.start();
    process.db.set_retention(Some(policy([21, 90, 365])));
    process.run(write(&process.db, &[("now", START + 60 * DAY - HOUR, 1.0)]));
    maintain(&process);
    let samples = samples(0..20);
    process.run(write_all(&process.db, &samples));
    let report = maintain(&process);
    assert!(report.rolled_up > 0 && report.culled > 0);
    let range = (START, START + 20 * HOUR - 1);
    check_windows(&process.run(select(&process.db, range, hourly())), &samples);
    let refused = process.run(write(&process.db, &[("gauge", START + 5 * HOUR, 1.0)]));
    assert_eq!(refused.samples, 0);
    drop(process);
    world.check();
    // Watermarks stay when the clock goes back, and without a policy.
    set_clock(&world, START + 2 * DAY);
    let process = world.start();
    let refused = process.run(write(&process.db, &[("gauge", START + 5 * HOUR, 1.0)]));
    assert_eq!(refused.samples, 0);
}

#[test]
fn a_deletion_takes_whole_windows_where_samples_are_gone() {
    let world = world(START + 40 * HOUR);
    let process = world.start();
    process.db.set_retention(Some(policy([21, 90, 365])));
    let all = samples(0..40);
    process.run(write_all(&process.db, &all));
    assert_eq!(maintain(&process).rolled_up, 1);
    // While there are samples, windows are made again of those that are left.
    let (from, to) = (5 * HOUR + 100_000, 5 * HOUR + 1_000_000);
    let report = delete(&process, "gauge", from, to);
    assert_eq!(report.beyond, [], "they are made again");
    let is_left = |(series, time, _): &(&str, i64, f64)| {
        *series != "gauge" || !(START + from..=START + to).contains(time)
    };
    let left: Vec<_> = all.iter().copied().filter(is_left).collect();
    let range = (START, START + 32 * HOUR - 1);
    let choice = RollupChoice {
        step_ms: HOUR / 2,
        range_ms: HOUR / 2,
        ..hourly()
    };
    let expected = crate::support::expected(&left);
    assert_eq!(process.run(read(&process.db, everything())), expected);
    for rebuilt in [false, true] {
        if rebuilt {
            assert_eq!(maintain(&process).rolled_up, 1, "again");
        }
        let selected = process.run(select(&process.db, range, choice));
        check_windows(&selected, &left);
        let levels = &selected[0].rolled.as_ref().unwrap().levels;
        assert_eq!(segments(levels).contains(&(5, 6, RAW)), !rebuilt);
    }
    // Afterwards the windows that it touches go.
    set_clock(&world, START + 60 * DAY);
    maintain(&process);
    // Nothing lies before it in the first of them.
    let report = delete(&process, "counter", 7 * HOUR + 1, 8 * HOUR + 1);
    let behind = [
        (FIVE, 8 * HOUR + 2, 8 * HOUR + 300_000),
        (HOURLY, 8 * HOUR + 2, 9 * HOUR),
    ];
    assert_eq!(beyond(&report), behind);
    // The last window that it touches is one of nothing.
    let report = delete(&process, "late", 0, 40 * HOUR);
    assert_eq!(report.beyond, []);
    for cleaned in [false, true] {
        if cleaned {
            maintain(&process);
        }
        let selected = process.run(select(&process.db, range, hourly()));
        let names: Vec<_> = selected.iter().map(|s| s.labels.get("series")).collect();
        assert_eq!(
            names,
            [Some("counter"), Some("gauge")],
            "cleaned: {cleaned}"
        );
        let windows = &selected[0].rolled.as_ref().unwrap().windows[0];
        let hours = windows.starts.iter().map(|start| (start - START) / HOUR);
        let expected = (0..32).filter(|hour| ![7, 8].contains(hour));
        assert_eq!(hours.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    }
    drop(process);
    world.check();
}

/// What a report says, counted from [`START`].
fn beyond(report: &DeletionReport) -> Vec<(Resolution, i64, i64)> {
    let ranges = report.beyond.iter();
    ranges
        .map(|range| {
            (
                range.resolution,
                range.start_ms - START,
                range.end_ms - START,
            )
        })
        .collect()
}

#[test]
fn a_deletion_says_what_went_beside_it() {
    let world = world(START + 40 * HOUR);
    let process = world.start();
    process.db.set_retention(Some(policy([21, 90, 365])));
    process.run(write_all(&process.db, &samples(0..40)));
    set_clock(&world, START + 60 * DAY);
    maintain(&process);
    // Inside of one window: what lies before and behind goes, too. Samples lie on the minute.
    let (from, to) = (10 * HOUR + 100_000, 10 * HOUR + 130_000);
    let expected = [
        (FIVE, 10 * HOUR, from),
        (FIVE, to + 1, 10 * HOUR + 300_000),
        (HOURLY, 10 * HOUR, from),
        (HOURLY, to + 1, 11 * HOUR),
    ];
    assert_eq!(beyond(&delete(&process, "gauge", from, to)), expected);
    // They have gone; those of an hour around the next ones, too.
    assert_eq!(beyond(&delete(&process, "gauge", from, to)), []);
    let next = delete(&process, "gauge", from + 300_000, to + 300_000);
    let expected = [
        (FIVE, 10 * HOUR + 300_000, from + 300_000),
        (FIVE, to + 300_001, 10 * HOUR + 600_000),
    ];
    assert_eq!(beyond(&next), expected);
    // A bucket of which all goes, and the sample at its start was not asked for.
    let all = delete(&process, "gauge", 1, 32 * HOUR - 1);
    assert_eq!(beyond(&all), [(FIVE, 0, 1), (HOURLY, 0, 1)]);
    let minute = 60_000;
    let ends = delete(&process, "counter", 4 * minute + 8, 6 * minute + 6);
    let expected = [
        (FIVE, 0, 4 * minute + 8),
        (FIVE, 6 * minute + 7, 10 * minute),
        (HOURLY, 0, 4 * minute + 8),
        (HOURLY, 6 * minute + 7, HOUR),
    ];
    assert_eq!(beyond(&ends), expected);
    drop(process);
    world.check();
}

#[test]
fn hours_that_are_being_flushed_are_read_raw() {
    let world = world(START + 40 * HOUR);
    let process = world.start();
    process.db.set_retention(Some(policy([21, 90, 365])));
    process.run(write_all(&process.db, &samples(0..40)));
    assert_eq!(maintain(&process).rolled_up, 1);
    let db = process.db.clone();
    process.run(async {
        write(&db, &[("gauge", START + 5 * HOUR + 90_500, 77.0)]).await;
        let pause = db.pause_at("flush.freezing");
        let flush = tokio::spawn({
            let db = db.clone();
            async move { db.flush_buckets().await }
        });
        pause.reached().await;
        let selected = select(&db, (START, START + 32 * HOUR - 1), hourly()).await;
        let levels = &selected[0].rolled.as_ref().unwrap().levels;
        assert!(segments(levels).contains(&(5, 6, RAW)), "{levels:?}");
        drop(pause);
        flush.await.unwrap().unwrap();
    });
}

/// A level that has to be made again, and whose samples are older than they are kept.
#[test]
fn samples_stand_in_for_windows_that_are_made_again() {
    let world = world(START + 140 * HOUR);
    let process = world.start();
    process.db.set_retention(Some(policy([6, 12, 40])));
    let mut all = samples(0..140);
    process.run(write_all(&process.db, &all));
    maintain(&process);
    // Raw samples of the first hours are too old, and wait for their unit.
    set_clock(&world, START + 180 * HOUR);
    let late = ("gauge", START + 5 * HOUR + 90_500, 77.0);
    assert_eq!(process.run(write(&process.db, &[late])).samples, 1);
    all.push(late);
    all.sort_by_key(|sample| sample.1);
    let db = process.db.clone();
    let finest = RollupChoice {
        step_ms: 0,
        range_ms: 0,
        ..hourly()
    };
    let range = (START, START + 32 * HOUR - 1);
    process.run(async {
        // What is out of date is retired; then it is made again.
        let pause = db.pause_at("roll_up.planned");
        let run = tokio::spawn({
            let db = db.clone();
            async move { db.run_maintenance().await }
        });
        pause.reached().await;
        let is_made_again = db.rolled().iter().all(|b| b.start_ms() != START);
        assert!(is_made_again, "{:?}", db.rolled());
        let progress = db.maintenance_status().run.expect("it is under way");
        assert!(progress.done > 0 && progress.waiting > 0, "{progress:?}");
        let selected = select(&db, range, finest).await;
        let gauge = selected
            .iter()
            .find(|s| s.labels.get("series") == Some("gauge"));
        let times = gauge.unwrap().floats.timestamps.iter().copied();
        let expected = of(&all, "gauge").map(|(time, _)| time);
        let expected = expected.filter(|time| (range.0..=range.1).contains(time));
        let read = times.filter(|time| (range.0..=range.1).contains(time));
        assert_eq!(read.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
        drop(pause);
        run.await.unwrap().unwrap();
        assert_eq!(db.maintenance_status().run, None);
    });
    let selected = process.run(select(&process.db, range, hourly()));
    check_windows(&selected, &all);
}
