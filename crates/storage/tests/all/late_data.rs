//! Samples that come after those of their time were culled, where the policy merges them.

mod cut;
mod histograms;
mod random;

use std::collections::BTreeMap;

use icecore_model::retention::{ColumnSet, RetentionPolicy};
use icecore_model::rollup::{
    Resolution, RollupChoice, SeriesWindows, Window, WindowColumns, WindowFields, roll_up,
    roll_up_windows,
};
use icecore_model::{Matcher, SeriesSamples};
use icecore_storage::testing::Hooks;
use icecore_storage::{Database, Deletion};

use crate::process::{Process, World};
use crate::rollup::*;
use crate::support::*;

type Samples = Vec<(&'static str, i64, f64)>;

/// A policy that merges late samples.
fn merging(levels: [(Resolution, i64, ColumnSet); 3]) -> RetentionPolicy {
    merging_late(&policy_of(levels))
}

/// Windows of 5 minutes are lean, so those of an hour are made of samples, too: both are all that
/// is left.
fn side_by_side() -> RetentionPolicy {
    let level = |level, days| (level, days, ColumnSet::default_of(level));
    merging([level(RAW, 21), level(FIVE, 90), level(HOURLY, 365)])
}

/// Windows of an hour are made of those of 5 minutes.
fn one_of_the_other() -> RetentionPolicy {
    let level = |level, days| (level, days, ColumnSet::Full);
    merging([level(RAW, 21), level(FIVE, 90), level(HOURLY, 365)])
}

/// The samples of the hours of [`old`], and some that come late: inside of windows, at their
/// starts, before and behind what was there, in windows of nothing, and of a new series.
fn late() -> Samples {
    let minute = |minute: i64| START + minute * 60_000;
    vec![
        ("counter", minute(65), 3.0),
        ("counter", minute(190), 7_000.0),
        ("fresh", minute(20), 1.0),
        ("fresh", minute(21), 5.0),
        ("fresh", minute(22), 2.0),
        ("fresh", minute(1_000), 9.0),
        ("gauge", minute(0), -8.0),
        ("gauge", minute(3) + 1, 77.0),
        ("gauge", minute(59) + 59_999, 78.0),
        ("gauge", minute(60 * 30) + 500, f64::NAN),
        ("late", minute(1), 4.0),
    ]
}

const OLD_HOURS: i64 = 40;

/// Time in which all samples are, with a day of nothing behind them.
fn range() -> (i64, i64) {
    (START, START + OLD_HOURS * HOUR - 1)
}

/// A store with samples of which windows are left; they were culled.
fn culled(policy: &RetentionPolicy) -> (World, Samples) {
    let mut world = world(START + OLD_HOURS * HOUR);
    world.options.head.flush_batch_records = 2;
    let process = world.start();
    let samples = samples(0..OLD_HOURS);
    process.run(write_all(&process.db, &samples));
    set_clock(&world, START + 40 * DAY);
    process.db.set_retention(Some(policy.clone()));
    maintain(&process);
    assert_eq!(process.db.listed(), [], "no sample is left");
    process.close();
    (world, samples)
}

fn start(world: &World, policy: &RetentionPolicy) -> Process {
    let process = world.start();
    process.db.set_retention(Some(policy.clone()));
    process
}

fn half_hourly() -> RollupChoice {
    RollupChoice {
        step_ms: HOUR / 2,
        range_ms: HOUR / 2,
        ..hourly()
    }
}

/// The windows of a series at a level that late samples are merged into.
fn merged(
    samples: &[(&str, i64, f64)],
    late: &[(&str, i64, f64)],
    series: &str,
    resolution: Resolution,
) -> Vec<Window> {
    let windows = |samples: &[(&str, i64, f64)]| SeriesWindows {
        floats: roll_up(resolution, of(samples, series)),
        histograms: Vec::new(),
    };
    let mut all = windows(samples);
    all.merge_late(windows(late));
    all.floats
}

/// Checks the windows of all series at both levels, side by side.
fn check_both(db: &Database, process: &Process, samples: &Samples, late: &Samples, when: &str) {
    for (choice, level) in [(hourly(), HOURLY), (half_hourly(), FIVE)] {
        let selected = process.run(select(db, range(), choice));
        assert_eq!(selected.len(), 4, "{when}");
        let levels = &selected[0].rolled.as_ref().unwrap().levels;
        assert!(
            segments(levels)
                .iter()
                .all(|(from, _, at)| *from < 0 || *at == level),
            "{when}: {levels:?}"
        );
        check_windows_with_nan(&selected, |series, level| {
            merged(samples, late, series, level)
        });
    }
}

/// As [`check_windows_of`], where values may be NaN.
fn check_windows_with_nan(
    selected: &[SeriesSamples],
    of: impl Fn(&str, Resolution) -> Vec<Window>,
) {
    for series in selected {
        let name = series.labels.get("series").unwrap();
        let rolled = series.rolled.as_ref().expect("some of it is rolled up");
        for (segment, windows) in rolled.segments() {
            let mut expected = of(name, segment.resolution);
            expected.retain(|w| (segment.start_ms..segment.end_ms).contains(&w.start_ms));
            let expected = WindowColumns::from_windows(&expected, windows.fields);
            assert_eq!(
                format!("{windows:?}"),
                format!("{expected:?}"),
                "{name} {segment:?}"
            );
        }
    }
}

/// How many samples the windows of a selection stand for, by series.
fn counts(selected: &[SeriesSamples]) -> BTreeMap<String, u64> {
    let count = |series: &SeriesSamples| {
        let rolled = series.rolled.as_ref().unwrap();
        let windows = rolled.windows.iter().flat_map(|columns| columns.windows());
        windows
            .filter_map(|w| w.all())
            .map(|all| all.samples())
            .sum()
    };
    let name = |series: &SeriesSamples| series.labels.get("series").unwrap().to_owned();
    selected.iter().map(|s| (name(s), count(s))).collect()
}

#[test]
fn late_samples_are_seen_in_windows_before_and_after_they_are_merged() {
    let policy = side_by_side();
    let (world, samples) = culled(&policy);
    let process = start(&world, &policy);
    let late = late();
    let written = process.run(write(&process.db, &late));
    assert_eq!(
        (written.samples, written.rejected.len()),
        (late.len() as u64, 0)
    );
    check_both(&process.db, &process, &samples, &late, "in the head");
    process.run(process.db.flush_buckets()).unwrap();
    assert!(!process.db.overlays().is_empty() && process.db.listed().is_empty());
    check_both(&process.db, &process, &samples, &late, "in overlays");
    // They stand for themselves among what is left of windows.
    let left = process.run(read(&process.db, everything()));
    let of_late = expected(&late);
    for (series, samples) in &of_late {
        for (time, bits) in samples {
            assert_eq!(left[series].get(time), Some(bits), "{series} {time}");
        }
    }
    process.crash();
    world.check();

    let process = start(&world, &policy);
    assert!(!process.db.overlays().is_empty() && process.db.listed().is_empty());
    check_both(&process.db, &process, &samples, &late, "after a start");
    let overlays = process.db.overlays().len();
    let rolled = process.db.rolled();
    let report = maintain(&process);
    assert_eq!((report.merged, report.coarsened), (overlays, 0));
    assert_eq!(process.db.overlays(), []);
    assert_eq!(process.db.rolled(), rolled);
    check_both(&process.db, &process, &samples, &late, "merged");
    // What is left is real: the first and the last of each window.
    let mut all = samples.clone();
    all.extend(&late);
    let all = expected(&all);
    for (series, left) in process.run(read(&process.db, everything())) {
        assert!(
            left.iter()
                .all(|(time, bits)| all[&series].get(time) == Some(bits))
        );
    }
    assert_eq!(maintain(&process).merged, 0, "nothing is left to do");
    drop(process);
    world.check();
    let process = start(&world, &policy);
    check_both(
        &process.db,
        &process,
        &samples,
        &late,
        "after another start",
    );

    // More of them, of the same time.
    let more = vec![("fresh", START + 21 * 60_000 + 7, 6.0)];
    process.run(write(&process.db, &more));
    assert_eq!(maintain(&process).merged, 1);
    let mut twice = late.clone();
    twice.extend(&more);
    let selected = process.run(select(&process.db, range(), hourly()));
    let total = |samples: &Samples, series| of(samples, series).count() as u64;
    assert_eq!(counts(&selected)["fresh"], total(&twice, "fresh"));
    drop(process);
    world.check();
}

#[test]
fn a_coarser_level_is_made_again_of_merged_windows() {
    let policy = one_of_the_other();
    let (world, samples) = culled(&policy);
    let process = start(&world, &policy);
    let late = late();
    process.run(write(&process.db, &late));
    let fine = |series: &str, resolution: Resolution| {
        let fine = merged(&samples, &late, series, FIVE);
        if resolution == FIVE {
            fine
        } else {
            roll_up_windows(resolution, &fine)
        }
    };
    for when in ["in the head", "in overlays", "merged"] {
        match when {
            "in overlays" => process.run(process.db.flush_buckets()).unwrap(),
            "merged" => {
                let report = maintain(&process);
                assert!(report.merged > 0);
                assert_eq!(report.rolled_up, 1, "the level of an hour, again");
            }
            _ => {}
        }
        for choice in [hourly(), half_hourly()] {
            let selected = process.run(select(&process.db, range(), choice));
            assert_eq!(selected.len(), 4, "{when}");
            check_windows_with_nan(&selected, fine);
        }
    }
    let selected = process.run(select(&process.db, range(), hourly()));
    let levels = &selected[0].rolled.as_ref().unwrap().levels;
    assert_eq!(segments(levels)[1..], [(0, OLD_HOURS, HOURLY)]);
    // When the finer one has gone, late samples go into the coarser one.
    set_clock(&world, START + 120 * DAY);
    maintain(&process);
    let levels: Vec<Resolution> = process.db.rolled_levels().iter().map(|l| l.0).collect();
    assert_eq!(levels, [HOURLY]);
    let later = [("gauge", START + 7 * HOUR + 1, 900.0)];
    assert_eq!(process.run(write(&process.db, &later)).samples, 1);
    let hourly_windows = |series: &str, resolution: Resolution| {
        assert_eq!(resolution, HOURLY);
        let mut windows = SeriesWindows {
            floats: fine(series, HOURLY),
            histograms: Vec::new(),
        };
        windows.merge_late(SeriesWindows {
            floats: roll_up(HOURLY, of(&later, series)),
            histograms: Vec::new(),
        });
        windows.floats
    };
    for merged in [0, 1] {
        assert_eq!(maintain_if(&process, merged), merged);
        for choice in [hourly(), half_hourly()] {
            let selected = process.run(select(&process.db, range(), choice));
            check_windows_with_nan(&selected, hourly_windows);
        }
    }
    drop(process);
    world.check();
}

fn maintain_if(process: &Process, wanted: usize) -> usize {
    match wanted {
        0 => 0,
        _ => maintain(process).merged,
    }
}

#[test]
fn what_is_older_than_everything_is_refused_and_what_nothing_is_left_of_is_history() {
    let policy = side_by_side();
    let (world, _) = culled(&policy);
    let process = start(&world, &policy);
    let too_old = process.run(write(&process.db, &[("gauge", START - 330 * DAY, 1.0)]));
    assert_eq!(too_old.samples, 0);
    assert!(too_old.rejected[0].reason.starts_with("too old sample"));
    // Time without windows: rolled up like all others. The window around has gone time, too.
    let history: Samples = (0..60)
        .map(|minute| ("gauge", START + 130 * HOUR + minute * 60_000, minute as f64))
        .collect();
    process.run(write_all(&process.db, &history));
    assert_eq!(process.db.overlays(), []);
    let report = maintain(&process);
    assert_eq!(report.merged, 0);
    assert!(report.rolled_up > 0 && report.culled > 0);
    let range = (START + 128 * HOUR, START + 140 * HOUR);
    let selected = process.run(select(&process.db, range, hourly()));
    assert_eq!(counts(&selected)["gauge"], 60);
    // A policy that refuses them does so at once, and merges what is there.
    process.run(write(&process.db, &[("gauge", START + 1, 1.0)]));
    process.run(process.db.flush_buckets()).unwrap();
    process
        .db
        .set_retention(Some(crate::rollup::policy([21, 90, 365])));
    let refused = process.run(write(&process.db, &[("gauge", START + 2, 1.0)]));
    assert_eq!(refused.samples, 0);
    assert_eq!(maintain(&process).merged, 1);
    drop(process);
    world.check();
}

#[test]
fn a_deletion_takes_late_samples_too() {
    let policy = side_by_side();
    let (world, samples) = culled(&policy);
    let process = start(&world, &policy);
    let late = late();
    process.run(write(&process.db, &late));
    let delete = |series: &str, from: i64, to: i64| {
        let deletion = Deletion {
            selectors: vec![vec![Matcher::equal("series", series)]],
            start_ms: START + from,
            end_ms: START + to,
        };
        process.run(process.db.delete_series(deletion)).unwrap();
    };
    // Windows that it touches go, and late samples in it.
    delete("gauge", 0, HOUR - 1);
    delete("fresh", 21 * 60_000, 21 * 60_000);
    delete("late", 0, OLD_HOURS * HOUR);
    let is_left = |(series, time, _): &(&str, i64, f64)| match *series {
        "gauge" => *time >= START + HOUR,
        "fresh" => *time != START + 21 * 60_000,
        "late" => false,
        _ => true,
    };
    let left = |samples: &Samples| -> Samples { samples.iter().copied().filter(is_left).collect() };
    let (samples, late) = (left(&samples), left(&late));
    for merged in [0, 1] {
        assert_eq!(maintain_if(&process, merged) > 0, merged > 0);
        let selected = process.run(select(&process.db, range(), hourly()));
        assert_eq!(selected.len(), 3);
        check_windows_with_nan(&selected, |series, level| {
            crate::late_data::merged(&samples, &late, series, level)
        });
    }
    // What comes after a deletion is seen.
    process.run(write(&process.db, &[("late", START + 5, 1.0)]));
    delete("counter", 0, OLD_HOURS * HOUR);
    process.run(write(&process.db, &[("counter", START + 5, 1.0)]));
    for merged in [0, 1] {
        maintain_if(&process, merged);
        let selected = process.run(select(&process.db, range(), hourly()));
        let counts = counts(&selected);
        assert_eq!((counts["late"], counts["counter"]), (1, 1));
    }
    drop(process);
    world.check();
}

/// Sums of windows and deviations need more than is asked for.
#[test]
fn every_field_is_merged_whatever_is_asked_for() {
    let policy = side_by_side();
    let (world, samples) = culled(&policy);
    let process = start(&world, &policy);
    let late = late();
    process.run(write(&process.db, &late));
    for fields in [
        WindowFields::NONE,
        WindowFields::MAX,
        WindowFields::M2 | WindowFields::COUNTS,
        WindowFields::LAST,
        WindowFields::ALL,
    ] {
        let wanted = (hourly(), fields);
        let matchers = everything().matchers;
        let selected = process.run(select_rolled(&process.db, matchers, range(), wanted));
        for series in &selected {
            let rolled = series.rolled.as_ref().unwrap();
            let windows = rolled.windows.iter().filter(|windows| !windows.is_empty());
            assert!(
                windows
                    .into_iter()
                    .all(|windows| windows.fields.contains(fields))
            );
        }
        check_windows_with_nan(&selected, |series, level| {
            merged(&samples, &late, series, level)
        });
    }
    // Raw samples alone are not what there was.
    let raw_only = RollupChoice {
        max_ms: Some(0),
        ..hourly()
    };
    let selected = process.run(select(&process.db, range(), raw_only));
    assert!(
        selected
            .iter()
            .all(|series| series.floats.values.is_empty())
    );
}

/// A query copies the head; before it reads buckets what it has copied is flushed and merged.
#[test]
fn a_sample_that_is_merged_while_it_is_read_counts_once() {
    let policy = side_by_side();
    let (world, samples) = culled(&policy);
    let process = start(&world, &policy);
    let late = late();
    process.run(write(&process.db, &late));
    let db = process.db.clone();
    let selected = process.run(async {
        let pause = db.pause_at("select.head");
        let query = tokio::spawn({
            let db = db.clone();
            async move { select(&db, range(), hourly()).await }
        });
        pause.reached().await;
        db.flush_buckets().await.unwrap();
        while !db.overlays().is_empty() {
            db.merge_late_now(None).await.unwrap();
        }
        drop(pause);
        query.await.unwrap()
    });
    check_windows_with_nan(&selected, |series, level| {
        merged(&samples, &late, series, level)
    });
}

/// Late samples that come while others are merged wait for the end of it.
#[test]
fn what_comes_while_others_are_merged_is_merged_next() {
    let policy = side_by_side();
    let (world, _) = culled(&policy);
    let process = start(&world, &policy);
    process.run(write(&process.db, &[("gauge", START + 1, 1.0)]));
    process.run(process.db.flush_buckets()).unwrap();
    let before = process.run(select(&process.db, range(), hourly()));
    let db = process.db.clone();
    process.run(async {
        let pause = db.pause_at("merge.planned");
        let job = tokio::spawn({
            let db = db.clone();
            async move { db.merge_late_now(None).await }
        });
        pause.reached().await;
        write(&db, &[("gauge", START + 2, 1.0)]).await;
        drop(pause);
        let cause = job.await.unwrap().unwrap_err().to_string();
        assert!(cause.contains("not flushed yet"), "{cause}");
    });
    assert!(maintain(&process).merged > 0);
    let after = process.run(select(&process.db, range(), hourly()));
    assert_eq!(counts(&after)["gauge"], counts(&before)["gauge"] + 1);
    drop(process);
    world.check();
}
