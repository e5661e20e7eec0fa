//! Samples that grow old: rolled up, culled, read at any level.

mod aging;
mod checked;
mod jobs;
mod larger;
mod late;
mod left_out;
mod metadata;
mod policies;
mod remnants;
mod repeated;

use bytes::Bytes;
use icecore_model::retention::{ColumnSet, LateData, Level, Override, Retention, RetentionPolicy};
use icecore_model::rollup::{
    Resolution, RollupChoice, Window, WindowColumns, WindowFields, roll_up, roll_up_windows,
};
use icecore_model::{
    BucketStart, Levels, Matcher, RolledTime, SelectHints, Selection, SeriesSamples, SeriesStream,
};
use icecore_records::{Bucket, RecordType, key};
use icecore_storage::testing::{Hooks, JobHooks};
use icecore_storage::{Clock, Database, Deletion, DeletionReport};

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

/// The same policy, which merges late samples into windows.
pub(crate) fn merging_late(policy: &RetentionPolicy) -> RetentionPolicy {
    let (levels, overrides) = (policy.levels().to_vec(), policy.overrides().to_vec());
    let delay_ms = policy.rollup_delay_ms();
    RetentionPolicy::new(levels, delay_ms, LateData::Merge, overrides).unwrap()
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
        off_grid: Default::default(),
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

/// Deletes a range of a series, both ends counted from [`START`].
pub(crate) fn delete(process: &Process, series: &str, from: i64, to: i64) -> DeletionReport {
    let deletion = Deletion {
        selectors: vec![vec![Matcher::equal("series", series)]],
        start_ms: START + from,
        end_ms: START + to,
    };
    process.run(process.db.delete_series(deletion)).unwrap()
}

/// The records of the first bucket of windows, whose job is interrupted after so many writes each
/// time, with a new process after each.
pub(crate) fn rolled_up_after(
    world: &World,
    write: impl FnOnce(&Process),
    writes: &[u64],
) -> Vec<(Bytes, Bytes)> {
    let process = world.start();
    write(&process);
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
}
