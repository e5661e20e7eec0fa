//! A database in which samples have grown old in every way: windows of 5 minutes without
//! deviations, of an hour with everything, in buckets of 128 h and of 1 024 h; native histograms;
//! remnants; series that are left out; late samples that are merged, that windows stand in for, and
//! that still wait; a deletion; and a journal that nobody closed.
//!
//! `ICECORE_WRITE_DATABASES=1 cargo test -p icecore-storage --test all old_databases` writes it
//! anew into `testdata/databases/rolled`. It was written by the first version in which windows
//! stand in for finer levels, and only a version that cannot read it any more needs another one.

use icecore_model::retention::{LateData, Override, Retention, RetentionPolicy};
use icecore_model::rollup::{Resolution, RollupChoice, SeriesWindows, Window, roll_up};
use icecore_model::{Levels, Matcher, SeriesSamples};
use icecore_records::bucket_meta;
use icecore_records::key;
use icecore_storage::inspect::check as check_store;
use icecore_storage::testing::Hooks;

use super::{copied, databases};
use crate::process::{Process, World};
use crate::requests::{Entry, request};
use crate::rollup::*;
use crate::rollup_histograms::{Value, histogram, windows_of};
use crate::support::*;

/// When the database was left, counted from [`START`].
const NOW: i64 = 1768;

/// Up to where raw samples are in remnants, or gone.
const GONE: i64 = 1536;

/// Up to where windows of 5 minutes are gone, too.
const FIVES_GONE: i64 = 1280;

/// Up to where all windows of an hour lie in one bucket.
const LARGE: i64 = 1024;

/// Hours of which a gauge was deleted.
const DELETED: std::ops::Range<i64> = 1700..1702;

fn at(hour: i64) -> i64 {
    START + hour * HOUR
}

fn kept() -> RetentionPolicy {
    let levels = policy([6, 20, 365]).levels().to_vec();
    let long = Retention::For(400 * DAY);
    let none = Retention::NOT_KEPT;
    let of = |series: &str, retain: &[(Resolution, Retention)]| Override {
        matchers: vec![Matcher::equal("series", series)],
        retain: retain.to_vec(),
    };
    let overrides = vec![
        of("billing", &[(RAW, long), (FIVE, none), (HOURLY, long)]),
        of("paid", &[(RAW, long), (FIVE, none), (HOURLY, none)]),
        of("debug", &[(FIVE, none), (HOURLY, none)]),
    ];
    RetentionPolicy::new(levels, 2 * HOUR, LateData::Merge, overrides).unwrap()
}

/// What was written on time. All sums are exact.
fn floats(hours: std::ops::Range<i64>) -> Vec<(&'static str, i64, f64)> {
    let mut samples = Vec::new();
    for hour in hours {
        let mut add = |series, every: i64, after_ms: i64| {
            if hour % every == 0 {
                let value = (hour / every % 37) as f64;
                samples.push((series, at(hour) + after_ms, value));
            }
        };
        add("counter", 2, 7);
        add("gauge", 4, 0);
        add("billing", 4, 61_000);
        add("debug", 8, 5_000);
        if hour < 512 {
            add("paid", 8, 31_000);
        }
    }
    samples
}

/// The native histogram.
fn histograms(hours: std::ops::Range<i64>) -> Vec<(i64, Value)> {
    let hours = hours.filter(|hour| hour % 8 == 0);
    let of = |hour: i64| {
        let n = hour / 8 % 23;
        let value = histogram(if hour < 700 { 3 } else { 1 }, [n, 2 * n, n + 1]);
        (at(hour) + 900, Value::Histogram(value.into()))
    };
    hours.map(of).collect()
}

/// A sample that came when windows of its time were left, and was merged into them; it is kept as a
/// raw sample would be.
const STOOD_IN: (&str, i64, f64) = ("paid", START + 1300 * HOUR + 45_000, 99.0);

/// One that waits to be merged.
const WAITING: (&str, i64, f64) = ("counter", START + 1401 * HOUR + 90_000, 55.0);

/// What the journal has alone.
const JOURNALLED: (&str, i64, f64) = ("gauge", START + NOW * HOUR + 60_000, 21.0);

async fn write_hours(process: &Process, hours: std::ops::Range<i64>) {
    for start in hours.clone().step_by(100) {
        let some = start..(start + 100).min(hours.end);
        write(&process.db, &floats(some.clone())).await;
        let entry = |(time, value): (i64, Value)| {
            let mut entry = Entry::histogram("latency", time, 0);
            if let (Entry::Histogram { value: of, .. }, Value::Histogram(histogram)) =
                (&mut entry, value)
            {
                *of = (*histogram).clone();
            }
            entry
        };
        let entries = histograms(some).into_iter().map(entry).collect();
        request(&process.db, entries).await.unwrap();
    }
    process.db.flush_buckets().await.unwrap();
}

/// Lets it all grow old, in a directory.
fn grow_old(directory: &std::path::Path) {
    let world = world_in(directory, GONE + 1);
    let process = world.start();
    process.run(write_hours(&process, 0..GONE));
    process.db.set_retention(Some(kept()));
    maintain(&process);
    set_clock(&world, at(GONE + 154));
    process.run(write_hours(&process, GONE..GONE + 154));
    maintain(&process);
    set_clock(&world, at(NOW));
    process.run(write_hours(&process, GONE + 154..NOW));
    maintain(&process);
    process.run(write(&process.db, &[STOOD_IN]));
    assert_eq!(maintain(&process).merged, 1);
    process.run(write(&process.db, &[WAITING]));
    process.run(process.db.flush_buckets()).unwrap();
    delete(
        &process,
        "gauge",
        DELETED.start * HOUR,
        DELETED.end * HOUR - 1,
    );
    // What no file refers to goes, so that the database is small.
    process.close();
    let process = world.start();
    process.run(write(&process.db, &[JOURNALLED]));
    process.crash();
}

fn world_in(directory: &std::path::Path, hour: i64) -> World {
    let mut world = World::in_directory(directory);
    world.options.store.gc_min_age = std::time::Duration::from_millis(20);
    set_clock(&world, at(hour));
    world
}

fn half_hourly() -> RollupChoice {
    RollupChoice {
        step_ms: HOUR / 2,
        range_ms: HOUR / 2,
        ..hourly()
    }
}

/// What windows of a series should be.
fn windows(series: &str, resolution: Resolution) -> Vec<Window> {
    let of_samples = |samples: &[(&str, i64, f64)]| SeriesWindows {
        floats: roll_up(resolution, of(samples, series)),
        histograms: Vec::new(),
    };
    let mut all = of_samples(&floats(0..NOW));
    all.merge_late(of_samples(&[WAITING]));
    all.floats
}

fn named(selected: Vec<SeriesSamples>, names: &[&str]) -> Vec<SeriesSamples> {
    let is_named = |series: &SeriesSamples| names.contains(&series.labels.get("series").unwrap());
    let selected: Vec<SeriesSamples> = selected.into_iter().filter(is_named).collect();
    assert_eq!(selected.len(), names.len(), "all of {names:?}");
    selected
}

/// All of it is read at one level, as far as there is something.
fn check_levels(levels: &Levels, resolution: Resolution, when: &str) {
    let mut segments = levels.segments.iter().filter(|s| s.end_ms > START);
    assert!(
        segments.all(|segment| segment.resolution == resolution),
        "{when}: {levels:?}"
    );
}

/// Everything that has to be there at any time from then on.
fn check_lasting(process: &Process, when: &str) {
    let range = (START, at(GONE) - 1);
    let selected = process.run(select(&process.db, range, hourly()));
    let selected = named(selected, &["counter", "gauge", "latency", "billing"]);
    let levels = &selected[0].rolled.as_ref().unwrap().levels;
    check_levels(levels, HOURLY, when);
    check_windows_of(&selected, windows);
    let latency = selected
        .iter()
        .find(|s| s.labels.get("series") == Some("latency"));
    let rolled = latency.unwrap().rolled.as_ref().unwrap();
    let all = histograms(0..GONE);
    let (_, of_histograms) = windows_of(all.iter().map(|(time, value)| (*time, value)), HOURLY);
    let found: Vec<_> = rolled.histograms.iter().flatten().cloned().collect();
    assert!(found == of_histograms, "{when}: {} windows", found.len());
    // As they came.
    let content = process.run(read(
        &process.db,
        selection(everything().matchers, START, range.1),
    ));
    let mut all = floats(0..GONE);
    all.push(STOOD_IN);
    let as_written = expected(&all);
    for series in ["billing", "paid"] {
        assert_eq!(content[series], as_written[series], "{series} {when}");
    }
    assert!(!content.contains_key("debug"), "{when}");
}

/// What is there when it was left, and a moment later.
fn check_now(process: &Process, when: &str) {
    check_lasting(process, when);
    let range = (at(FIVES_GONE + 16), at(GONE) - 1);
    let selected = process.run(select(&process.db, range, half_hourly()));
    let selected = named(selected, &["counter", "gauge"]);
    let levels = &selected[0].rolled.as_ref().unwrap().levels;
    check_levels(levels, FIVE, when);
    check_windows_of(&selected, windows);
    let since = at(NOW) - 6 * DAY;
    let recent = selection(everything().matchers, since, i64::MAX);
    let mut samples = floats(NOW - 6 * 24..NOW);
    samples.push(JOURNALLED);
    let deleted = at(DELETED.start)..at(DELETED.end);
    samples.retain(|(series, time, _)| *series != "gauge" || !deleted.contains(time));
    assert_eq!(
        process.run(read(&process.db, recent)),
        expected(&samples),
        "{when}"
    );
}

/// Which kinds of things the database has.
fn check_kinds(process: &Process) {
    let sizes = |resolution: Resolution| -> Vec<u8> {
        let levels = process.db.rolled_levels().into_iter();
        let of_level = levels.filter(|(level, _)| *level == resolution);
        let mut sizes: Vec<u8> = of_level.map(|(_, b)| b.size.exponent()).collect();
        sizes.dedup();
        sizes
    };
    assert_eq!((sizes(FIVE), sizes(HOURLY)), (vec![6], vec![8, 11]));
    assert_eq!(process.db.remnants().len(), 3);
    assert_eq!(process.db.overlays().len(), 1);
    assert!(!process.db.listed().is_empty());
    let metas = process.db.rolled().into_iter().map(|bucket| {
        let found = process.run(process.db.records(&key::bucket_meta(bucket)));
        bucket_meta::decode(&found.unwrap()[0].1).unwrap()
    });
    let metas: Vec<_> = metas.collect();
    assert!(
        metas
            .iter()
            .any(|meta| meta.rollup.is_lean && meta.has_histograms)
    );
    assert!(
        metas.iter().any(|meta| !meta.dirty_hours.is_empty()),
        "a deletion"
    );
    assert!(metas.iter().any(|meta| meta.rollup.stands_in));
    let says = |meta: &bucket_meta::BucketMeta| meta.rollup.left_out.as_ref().map(|l| l.len());
    assert!(metas.iter().all(|meta| says(meta).is_some()));
    assert!(
        metas.iter().any(|meta| says(meta) == Some(2)),
        "two overrides"
    );
}

fn check_clean(world: &World) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let report = runtime.block_on(check_store(&world.options.store, None));
    let report = report.unwrap();
    assert!(report.is_clean(), "{report:#?}");
}

#[test]
fn a_database_of_all_levels_answers_and_is_gone_on_with() {
    let path = databases().join("rolled");
    if std::env::var_os("ICECORE_WRITE_DATABASES").is_some() {
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        grow_old(&path);
    }
    let directory = copied("rolled");
    let world = world_in(directory.path(), NOW);
    check_clean(&world);
    let process = world.start();
    process.db.set_retention(Some(kept()));
    check_kinds(&process);
    check_now(&process, "opened");
    let report = maintain(&process);
    assert_eq!(report.merged, 1);
    assert!(process.db.overlays().is_empty());
    check_now(&process, "maintained");
    process.close();
    check_clean(&world);
    let process = world.start();
    process.db.set_retention(Some(kept()));
    check_now(&process, "started again");
    // A month later no windows of 5 minutes are left, except those that stand in.
    for days in [10, 20, 30] {
        set_clock(&world, at(NOW) + days * DAY);
        process.db.set_retention(Some(kept()));
        maintain(&process);
        check_lasting(&process, "later");
    }
    let levels = process.db.rolled_levels();
    let fives = levels.iter().filter(|(level, _)| *level == FIVE);
    let standing_in = at(FIVES_GONE)..at(FIVES_GONE + 128);
    let old = fives.filter(|(_, bucket)| bucket.end_ms() <= at(GONE));
    let old: Vec<_> = old.collect();
    assert!(!old.is_empty() && old.iter().all(|(_, b)| standing_in.contains(&b.start_ms())));
    assert!(
        levels
            .iter()
            .any(|(_, bucket)| bucket.start_ms() == START && bucket.end_ms() == at(LARGE))
    );
    process.close();
    check_clean(&world);
}
