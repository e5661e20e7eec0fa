//! Samples that grow old: rolled up, culled, read at any level.

use bytes::Bytes;
use icecore_model::retention::{ColumnSet, LateData, Level, Override, Retention, RetentionPolicy};
use icecore_model::rollup::{
    Resolution, RollupChoice, Window, WindowColumns, WindowFields, roll_up, roll_up_windows,
};
use icecore_model::{
    BucketStart, Levels, Matcher, RolledTime, SelectHints, Selection, SeriesSamples, SeriesStream,
};
use icecore_records::{Bucket, RecordType, key};
use icecore_storage::testing::Hooks;
use icecore_storage::{Clock, Database, Deletion};

use crate::process::{Process, World};
use crate::support::*;

pub(crate) const DAY: i64 = 24 * HOUR;

/// The start of a bucket of 1 024 hours, and of all smaller ones.
pub(crate) const START: i64 = 28_323_840 * 60_000;

pub(crate) const RAW: Resolution = Resolution::RAW;
pub(crate) const FIVE: Resolution = Resolution::FIVE_MINUTES;
pub(crate) const HOURLY: Resolution = Resolution::HOUR;

pub(crate) fn policy(days: [i64; 3]) -> RetentionPolicy {
    let levels = [RAW, FIVE, HOURLY].into_iter().zip(days);
    policy_of(levels.map(|(level, days)| (level, days, ColumnSet::default_of(level))))
}

pub(crate) fn policy_of(
    levels: impl IntoIterator<Item = (Resolution, i64, ColumnSet)>,
) -> RetentionPolicy {
    let level = |(resolution, days, columns)| Level {
        resolution,
        retain: Retention::For(days * DAY),
        columns,
    };
    let levels = levels.into_iter().map(level).collect();
    RetentionPolicy::new(levels, 2 * HOUR, LateData::Reject, Vec::new()).unwrap()
}

/// A store whose runs do not wait for files to grow old.
pub(crate) fn world(now_ms: i64) -> World {
    let mut world = World::new();
    world.options.store.gc_min_age = std::time::Duration::from_millis(200);
    set_clock(&world, now_ms);
    world
}

pub(crate) fn set_clock(world: &World, now_ms: i64) {
    world.clock.advance(now_ms - world.clock.now_ms());
}

/// All records of a bucket.
pub(crate) fn records_of(process: &Process, bucket: Bucket) -> Vec<(Bytes, Bytes)> {
    let types = RecordType::ALL.iter().filter(|t| t.is_bucket_scoped());
    let prefixes = types.map(|record_type| key::record_prefix(*record_type, bucket));
    prefixes
        .flat_map(|prefix| process.run(process.db.records(&prefix)).unwrap())
        .collect()
}

/// A counter that is reset now and then, a gauge, and one that begins late.
pub(crate) fn samples(hours: std::ops::Range<i64>) -> Vec<(&'static str, i64, f64)> {
    let times = (hours.start * 60..hours.end * 60).map(|minute| (minute, START + minute * 60_000));
    times
        .flat_map(|(minute, time)| {
            let counter = ("counter", time + 7, (minute % 1_111) as f64);
            let gauge = ("gauge", time, (minute as f64 / 100.0).sin());
            let late = (minute > 900).then_some(("late", time + 31_000, minute as f64));
            [Some(counter), Some(gauge), late].into_iter().flatten()
        })
        .collect()
}

pub(crate) async fn write_all(db: &Database, samples: &[(&str, i64, f64)]) {
    for part in samples.chunks(20_000) {
        write(db, part).await;
    }
    db.flush_buckets().await.unwrap();
}

pub(crate) fn of<'s>(
    samples: &'s [(&str, i64, f64)],
    series: &'s str,
) -> impl Iterator<Item = (i64, f64)> {
    let of_series = samples.iter().filter(move |(name, ..)| *name == series);
    of_series.map(|(_, time, value)| (*time, *value))
}

/// What a query with a step and a range of an hour reads.
pub(crate) fn hourly() -> RollupChoice {
    RollupChoice {
        start_ms: START,
        step_ms: HOUR,
        range_ms: HOUR,
        is_exact: true,
        max_ms: None,
    }
}

pub(crate) async fn select(
    db: &Database,
    range: (i64, i64),
    choice: RollupChoice,
) -> Vec<SeriesSamples> {
    let fields = WindowFields::ALL.without(WindowFields::M2 | WindowFields::CHANGES);
    select_rolled(db, everything().matchers, range, (choice, fields)).await
}

pub(crate) async fn select_rolled(
    db: &Database,
    matchers: Vec<Matcher>,
    range: (i64, i64),
    (choice, fields): (RollupChoice, WindowFields),
) -> Vec<SeriesSamples> {
    let selection = Selection {
        hints: SelectHints {
            rolled: RolledTime::Windows(choice, fields),
            ..SelectHints::default()
        },
        ..selection(matchers, range.0, range.1)
    };
    let mut stream = db.select(selection).await.unwrap();
    let mut all = Vec::new();
    while let Some(batch) = stream.next_batch().await.unwrap() {
        all.extend(batch);
    }
    all
}

pub(crate) fn segments(levels: &Levels) -> Vec<(i64, i64, Resolution)> {
    let hours = |ms: i64| (ms - START) / HOUR;
    let segments = levels.segments.iter();
    segments
        .map(|s| (hours(s.start_ms), hours(s.end_ms), s.resolution))
        .collect()
}

/// Windows as they should be at a level: those of an hour are full, those of 5 minutes are not, so
/// both are made of the samples.
fn expected(samples: &[(&str, i64, f64)], series: &str, resolution: Resolution) -> Vec<Window> {
    roll_up(resolution, of(samples, series))
}

/// Checks the windows of all series of a selection against the samples.
fn check_windows(selected: &[SeriesSamples], samples: &[(&str, i64, f64)]) {
    check_windows_of(selected, |series, resolution| {
        expected(samples, series, resolution)
    });
}

pub(crate) fn check_windows_of(
    selected: &[SeriesSamples],
    of: impl Fn(&str, Resolution) -> Vec<Window>,
) {
    assert!(!selected.is_empty());
    for series in selected {
        let name = series.labels.get("series").unwrap();
        let rolled = series.rolled.as_ref().expect("some of it is rolled up");
        let segments = rolled.levels.segments.iter();
        let segments = segments.filter(|segment| !segment.resolution.is_raw());
        for (segment, windows) in segments.zip(&rolled.windows) {
            let mut all = of(name, segment.resolution);
            all.retain(|w| (segment.start_ms..segment.end_ms).contains(&w.start_ms));
            let fields = windows.fields;
            assert_eq!(
                *windows,
                WindowColumns::from_windows(&all, fields),
                "{name} {segment:?}"
            );
        }
    }
}

pub(crate) fn maintain(process: &Process) -> icecore_storage::MaintenanceReport {
    let report = process.run(process.db.run_maintenance()).unwrap();
    assert_eq!(report.skipped, [], "nothing fails");
    report
}

#[test]
fn closed_windows_are_rolled_up_and_old_ones_culled() {
    let world = world(START + 140 * HOUR);
    let process = world.start();
    let samples = samples(0..140);
    process.run(write_all(&process.db, &samples));
    let before = process.run(read(&process.db, everything()));
    assert_eq!(maintain(&process).rolled_up, 0, "without a policy");
    process.db.set_retention(Some(policy([21, 90, 365])));
    let report = maintain(&process);
    assert_eq!(
        (report.rolled_up, report.culled),
        (5, 0),
        "four of 32 h, one of 128 h"
    );
    assert_eq!(process.run(read(&process.db, everything())), before);
    let range = (START, START + 140 * HOUR - 1);
    let selected = process.run(select(&process.db, range, hourly()));
    check_windows(&selected, &samples);
    let levels = &selected[0].rolled.as_ref().unwrap().levels;
    let expected = [(-2, 0, RAW), (0, 128, HOURLY), (128, 140, RAW)];
    assert_eq!(segments(levels), expected);
    let raw = of(&samples, "counter").filter(|(time, _)| *time >= START + 128 * HOUR);
    assert_eq!(selected[0].floats.timestamps.len(), raw.count());
    // A run that has nothing to do does nothing.
    assert_eq!(maintain(&process).rolled_up, 0);
    drop(process);
    world.check();

    let process = world.start();
    set_clock(&world, START + 30 * DAY);
    process.db.set_retention(Some(policy([21, 90, 365])));
    let report = maintain(&process);
    assert_eq!(report.rolled_up, 2, "the last hours, at both levels");
    assert!(report.culled > 0);
    let rolled: Vec<u8> = process
        .db
        .rolled()
        .iter()
        .map(|b| b.size.exponent())
        .collect();
    assert_eq!(rolled, [6, 6, 6, 6, 6, 8, 8]);
    let selected = process.run(select(&process.db, range, hourly()));
    check_windows(&selected, &samples);
    let levels = &selected[0].rolled.as_ref().unwrap().levels;
    assert_eq!(segments(levels)[1..], [(0, 140, HOURLY)]);
    // Raw samples are gone; what is left of them is real.
    let left = process.run(read(&process.db, everything()));
    for (series, left) in &left {
        assert!(left.len() < before[series].len());
        assert!(
            left.iter()
                .all(|(time, bits)| before[series].get(time) == Some(bits))
        );
    }
    assert_eq!(left.len(), before.len());
    // Nothing may be added to them.
    let refused = process.run(write(&process.db, &[("gauge", START + 1, 1.0)]));
    assert_eq!(refused.samples, 0);
    assert!(refused.rejected[0].reason.starts_with("too old sample"));
    drop(process);
    world.check();

    let process = world.start();
    set_clock(&world, START + 120 * DAY);
    process.db.set_retention(Some(policy([21, 90, 365])));
    maintain(&process);
    let rolled: Vec<u8> = process
        .db
        .rolled()
        .iter()
        .map(|b| b.size.exponent())
        .collect();
    assert_eq!(rolled, [8, 8]);
    let selected = process.run(select(&process.db, range, hourly()));
    check_windows(&selected, &samples);
    drop(process);

    let process = world.start();
    set_clock(&world, START + 400 * DAY);
    process.db.set_retention(Some(policy([21, 90, 365])));
    maintain(&process);
    assert_eq!(process.db.rolled(), []);
    assert!(process.run(read(&process.db, everything())).is_empty());
    drop(process);
    world.check();
}

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
fn an_interrupted_roll_up_goes_on_or_starts_over() {
    let direct = world(START + 40 * HOUR);
    let samples = samples(0..40);
    let built = |world: &World, writes: &[u64]| {
        let process = world.start();
        process.run(write_all(&process.db, &samples));
        process.db.set_retention(Some(policy([21, 90, 365])));
        drop(process);
        for writes in writes {
            let process = world.start();
            process.db.set_retention(Some(policy([21, 90, 365])));
            let rolled = process.run(process.db.roll_up_now(Some(*writes)));
            assert!(rolled.is_err(), "{writes} writes are not enough");
            process.crash();
        }
        let process = world.start();
        process.db.set_retention(Some(policy([21, 90, 365])));
        process.run(process.db.roll_up_now(None)).unwrap();
        let target = process.db.rolled()[0];
        let content = records_of(&process, target);
        drop(process);
        world.check();
        content
    };
    let expected = built(&direct, &[]);
    assert!(expected.len() > 10);
    for writes in [vec![0], vec![1], vec![2], vec![1, 2, 3], vec![3, 0]] {
        let interrupted = world(START + 40 * HOUR);
        assert_eq!(built(&interrupted, &writes), expected, "{writes:?}");
    }
}

#[test]
fn nothing_is_culled_that_cannot_be_rolled_up() {
    let world = world(START + 40 * HOUR);
    let process = world.start();
    let samples = samples(0..40);
    process.run(write_all(&process.db, &samples));
    maintain(&process);
    let before = process.run(read(&process.db, everything()));
    // One of the two sources cannot be read any more.
    let damaged = process.db.listed()[0];
    let prefix = key::record_prefix(RecordType::ForwardIndex, damaged);
    let records = process.run(process.db.records(&prefix)).unwrap();
    let (key, value) = records[0].clone();
    process
        .run(
            process
                .db
                .replace_records(vec![(key.clone(), Some("damaged".into()))]),
        )
        .unwrap();
    set_clock(&world, START + 60 * DAY);
    process.db.set_retention(Some(policy([21, 90, 365])));
    let report = process.run(process.db.run_maintenance()).unwrap();
    assert!(!report.skipped.is_empty());
    assert_eq!(report.culled, 0);
    assert!(process.db.listed().contains(&damaged));
    process
        .run(process.db.replace_records(vec![(key, Some(value))]))
        .unwrap();
    let of_damaged = |mut all: Content| {
        for samples in all.values_mut() {
            samples.retain(|time, _| damaged.contains(*time));
        }
        all
    };
    let left = process.run(read(&process.db, everything()));
    assert_eq!(of_damaged(left), of_damaged(before));
    let report = maintain(&process);
    assert!(report.culled > 0);
    let range = (START, START + 40 * HOUR - 1);
    check_windows(&process.run(select(&process.db, range, hourly())), &samples);
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
    let delete = |process: &Process, series: &str, from: i64, to: i64| {
        let deletion = Deletion {
            selectors: vec![vec![Matcher::equal("series", series)]],
            start_ms: START + from,
            end_ms: START + to,
        };
        process.run(process.db.delete_series(deletion)).unwrap();
    };
    // While there are samples, windows are made again of those that are left.
    let (from, to) = (5 * HOUR + 100_000, 5 * HOUR + 1_000_000);
    delete(&process, "gauge", from, to);
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
    delete(&process, "counter", 7 * HOUR + 1, 8 * HOUR + 1);
    delete(&process, "late", 0, 40 * HOUR);
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

/// A run plans, and then looks again.
#[test]
fn what_is_flushed_after_a_plan_is_rolled_up_too() {
    let world = world(START + 40 * HOUR);
    let process = world.start();
    process.db.set_retention(Some(policy([21, 90, 365])));
    let mut samples = samples(0..10);
    samples.extend(crate::rollup::samples(20..40));
    process.run(write_all(&process.db, &samples));
    let db = process.db.clone();
    process.run(async {
        let pause = db.pause_at("roll_up.planned");
        let job = tokio::spawn({
            let db = db.clone();
            async move { db.roll_up_now(None).await }
        });
        pause.reached().await;
        let between = crate::rollup::samples(17..18);
        write_all(&db, &between).await;
        samples.extend(between);
        drop(pause);
        let cause = job.await.unwrap().unwrap_err().to_string();
        assert!(cause.contains("was listed since"), "{cause}");
    });
    samples.sort_by_key(|sample| sample.1);
    assert_eq!(maintain(&process).rolled_up, 1);
    let range = (START, START + 32 * HOUR - 1);
    let choice = RollupChoice {
        step_ms: HOUR / 2,
        range_ms: HOUR / 2,
        ..hourly()
    };
    check_windows(&process.run(select(&process.db, range, choice)), &samples);
}

/// A level of windows that is made of windows, while late samples and a deletion come in.
#[test]
fn a_job_of_windows_holds_back_what_would_change_them() {
    let world = world(START + 140 * HOUR);
    let process = world.start();
    let full = |level, days| (level, days, ColumnSet::Full);
    process.db.set_retention(Some(policy_of([
        full(RAW, 21),
        full(FIVE, 90),
        full(HOURLY, 365),
    ])));
    let mut samples = samples(0..140);
    process.run(write_all(&process.db, &samples));
    let db = process.db.clone();
    let late = ("gauge", START + 50 * HOUR + 90_500, 77.0);
    let (from, to) = (START + 70 * HOUR, START + 71 * HOUR - 1);
    process.run(async {
        for _ in 0..4 {
            db.roll_up_now(None).await.unwrap();
        }
        let pause = db.pause_at("roll_up.held");
        let job = tokio::spawn({
            let db = db.clone();
            async move { db.roll_up_now(None).await }
        });
        pause.reached().await;
        write(&db, &[late]).await;
        let changes = tokio::spawn({
            let db = db.clone();
            async move {
                db.flush_buckets().await.unwrap();
                let deletion = Deletion {
                    selectors: vec![vec![Matcher::equal("series", "counter")]],
                    start_ms: from,
                    end_ms: to,
                };
                db.delete_series(deletion).await.unwrap();
                db.flush_buckets().await.unwrap();
            }
        });
        // Both wait for the job, or come in between and end it.
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        drop(pause);
        job.await.unwrap().unwrap();
        changes.await.unwrap();
    });
    samples.push(late);
    samples.retain(|(series, time, _)| *series != "counter" || !(from..=to).contains(time));
    samples.sort_by_key(|sample| sample.1);
    let range = (START, START + 128 * HOUR - 1);
    for made_again in [false, true] {
        if made_again {
            maintain(&process);
        }
        let selected = process.run(select(&process.db, range, hourly()));
        check_windows_of(&selected, |series, resolution| {
            let five = expected(&samples, series, FIVE);
            roll_up_windows(resolution, &five)
        });
        let levels = &selected[0].rolled.as_ref().unwrap().levels;
        let all = segments(levels)[1..] == [(0, 128, HOURLY)];
        assert_eq!(all, made_again);
        let raw = segments(levels).contains(&(50, 51, RAW));
        assert_eq!(raw, !made_again, "the late sample is seen");
    }
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

#[test]
fn what_is_about_to_be_culled_takes_no_samples() {
    let world = world(START + 140 * HOUR);
    let process = world.start();
    process.db.set_retention(Some(policy([21, 90, 365])));
    let mut samples = samples(0..10);
    process.run(write_all(&process.db, &samples));
    maintain(&process);
    set_clock(&world, START + 60 * DAY);
    let db = process.db.clone();
    // In an hour without a bucket, and only in the head.
    let last = ("gauge", START + 20 * HOUR, 5.0);
    process.run(write(&db, &[last]));
    samples.push(last);
    process.run(async {
        let pause = db.pause_at("cull.closed");
        let run = tokio::spawn({
            let db = db.clone();
            async move { db.run_maintenance().await }
        });
        pause.reached().await;
        let late = write(&db, &[("gauge", START + 30 * HOUR, 1.0)]).await;
        assert_eq!(late.samples, 0);
        let other = write(&db, &[("gauge", START + 200 * HOUR, 1.0)]).await;
        assert_eq!(other.samples, 1, "of another unit");
        drop(pause);
        let report = run.await.unwrap().unwrap();
        assert_eq!(report.skipped, []);
        assert!(report.culled > 0);
    });
    let range = (START, START + 128 * HOUR - 1);
    check_windows(&process.run(select(&process.db, range, hourly())), &samples);
    drop(process);
    world.check();
}

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
    let deletion = Deletion {
        selectors: vec![vec![Matcher::equal("series", "gauge")]],
        start_ms: START + 5 * HOUR,
        end_ms: START + 6 * HOUR - 1,
    };
    process.run(process.db.delete_series(deletion)).unwrap();
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
fn a_clock_that_is_set_ahead_culls_nothing() {
    let world = world(START + 140 * HOUR);
    let process = world.start();
    process.db.set_retention(Some(policy([21, 90, 365])));
    process.run(write_all(&process.db, &samples(0..140)));
    maintain(&process);
    let before = process.run(read(&process.db, everything()));
    world.clock.jump(1000 * DAY);
    assert_eq!(maintain(&process).culled, 0);
    assert_eq!(process.run(read(&process.db, everything())), before);
    drop(process);
    // Nor does a start.
    let process = world.start();
    process.db.set_retention(Some(policy([21, 90, 365])));
    assert_eq!(maintain(&process).culled, 0);
    assert_eq!(process.run(read(&process.db, everything())), before);
    let fresh = process.run(write(&process.db, &[("gauge", START + 139 * HOUR, 1.0)]));
    assert_eq!(fresh.samples, 1);
}

#[test]
fn what_was_retired_while_the_clock_was_ahead_is_dropped() {
    let world = world(START + 20 * HOUR);
    let process = world.start();
    process.run(write_all(&process.db, &samples(0..16)));
    world.clock.jump(100 * DAY);
    let window = BucketStart(u32::try_from(START / 60_000).unwrap());
    process
        .run(process.db.coarsen_now(5, window, None))
        .unwrap();
    assert!(process.db.maintenance_status().retired > 0);
    world.clock.jump(-100 * DAY);
    maintain(&process);
    assert_eq!(process.db.maintenance_status().retired, 0);
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
    });
    let selected = process.run(select(&process.db, range, hourly()));
    check_windows(&selected, &all);
}

#[test]
fn what_is_older_than_a_policy_keeps_is_not_seen() {
    let world = world(START + 50 * HOUR);
    let process = world.start();
    let samples = samples(0..50);
    process.run(write_all(&process.db, &samples));
    process
        .db
        .set_retention(Some(RetentionPolicy::raw_for(DAY).unwrap()));
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
    drop(process);
    world.check();
}

#[test]
fn a_damaged_bucket_of_windows_fails_its_queries_alone() {
    let world = world(START + 140 * HOUR);
    let process = world.start();
    process.db.set_retention(Some(policy([21, 90, 365])));
    process.run(write_all(&process.db, &samples(0..140)));
    maintain(&process);
    set_clock(&world, START + 60 * DAY);
    maintain(&process);
    let damaged = process
        .db
        .rolled()
        .into_iter()
        .find(|b| b.size.exponent() == 8);
    let key = key::bucket_meta(damaged.unwrap());
    let damage = vec![(key.clone(), Some("damaged".into()))];
    process.run(process.db.replace_records(damage)).unwrap();
    process.close();
    let process = world.start();
    process.db.set_retention(Some(policy([21, 90, 365])));
    let first = selection(everything().matchers, START, START + HOUR);
    let of_five = process.run(process.db.select(first));
    assert!(of_five.is_ok(), "another level has it");
    let choice = RolledTime::Windows(hourly(), WindowFields::SUM);
    let wanted = |start, end| Selection {
        hints: SelectHints {
            rolled: choice,
            ..SelectHints::default()
        },
        ..selection(everything().matchers, start, end)
    };
    let failed = process
        .run(process.db.select(wanted(START, START + HOUR)))
        .err();
    assert!(
        failed.is_some_and(|cause| cause.to_string().contains("damaged")
            || cause.to_string().contains("BucketMeta"))
    );
    let rest = wanted(START + 132 * HOUR, START + 140 * HOUR);
    assert!(process.run(process.db.select(rest)).is_ok());
    let refused = process.run(write(&process.db, &[("gauge", START + HOUR, 1.0)]));
    assert_eq!(refused.samples, 0);
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
