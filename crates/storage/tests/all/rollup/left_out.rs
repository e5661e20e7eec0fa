//! Series that a policy leaves out of windows, and then does not any more.

use std::collections::BTreeSet;

use icecore_records::bucket_meta;

use super::*;

fn ordinary() -> RetentionPolicy {
    policy([6, 90, 365])
}

/// The same, without windows of a series.
fn without(series: &str, levels: &[Resolution]) -> RetentionPolicy {
    let of_series = Override {
        matchers: vec![Matcher::equal("series", series)],
        retain: levels.iter().map(|r| (*r, Retention::NOT_KEPT)).collect(),
    };
    let levels = ordinary().levels().to_vec();
    RetentionPolicy::new(levels, 2 * HOUR, LateData::Reject, vec![of_series]).unwrap()
}

fn of_series(process: &Process, series: &str) -> SeriesSamples {
    let range = (START, START + 140 * HOUR - 1);
    let selected = process.run(select(&process.db, range, hourly()));
    let mut selected = selected.into_iter();
    let found = selected.find(|found| found.labels.get("series") == Some(series));
    found.unwrap_or_else(|| panic!("{series} is out of reach"))
}

/// Checks that a query at steps of an hour finds everything of all series, and what of it as
/// windows of an hour.
fn check_reach(process: &Process, samples: &[(&str, i64, f64)], hours: std::ops::Range<i64>) {
    for series in ["counter", "gauge", "late"] {
        let found = of_series(process, series);
        let rolled = found.rolled.iter();
        let in_windows: u64 = rolled
            .flat_map(|rolled| rolled.windows.iter())
            .flat_map(|windows| windows.windows())
            .map(|window| window.all().map_or(0, |all| all.samples()))
            .sum();
        let raw = found.floats.timestamps.len() as u64;
        assert_eq!(
            raw + in_windows,
            of(samples, series).count() as u64,
            "{series}"
        );
        let levels = found.rolled.as_ref().map(|rolled| segments(&rolled.levels));
        let of_hours = levels.into_iter().flatten();
        let of_hours = of_hours.filter(|(.., level)| *level == HOURLY);
        let of_hours: Vec<_> = of_hours
            .map(|(start, end, _)| (start.max(0), end))
            .collect();
        let expected: &[(i64, i64)] = if hours.is_empty() {
            &[]
        } else {
            &[(hours.start, hours.end)]
        };
        assert_eq!(of_hours, expected, "{series}");
    }
}

#[test]
fn they_are_seen_at_once_and_survive_their_samples() {
    let world = world(START + 140 * HOUR);
    let process = world.start();
    let samples = samples(0..140);
    process.run(write_all(&process.db, &samples));
    process
        .db
        .set_retention(Some(without("gauge", &[FIVE, HOURLY])));
    assert_eq!(maintain(&process).rolled_up, 5);
    let series = |process: &Process| -> Vec<usize> {
        let counted = process.db.rolled().into_iter().map(|bucket| {
            let prefix = key::record_prefix(RecordType::ForwardIndex, bucket);
            process.run(process.db.records(&prefix)).unwrap().len()
        });
        counted.collect()
    };
    assert_eq!(series(&process), [2; 5]);
    // Without any policy they are read from raw samples, which are there.
    process.db.set_retention(None);
    check_reach(&process, &samples, 0..0);
    // A process that never knew the override.
    process.close();
    let process = world.start();
    process.db.set_retention(Some(ordinary()));
    check_reach(&process, &samples, 0..0);
    let status = process.db.maintenance_status();
    let out_of_date: usize = status.levels.iter().map(|level| level.out_of_date).sum();
    assert_eq!(out_of_date, 5);
    // Old enough to go, and not rolled up yet.
    set_clock(&world, START + 30 * DAY);
    assert_eq!(
        maintain(&process).rolled_up,
        7,
        "five again, and the last hours"
    );
    assert_eq!(process.db.listed(), [], "raw samples are gone");
    assert_eq!(series(&process), [3; 7]);
    check_reach(&process, &samples, 0..140);
    let range = (START, START + 140 * HOUR - 1);
    check_windows(&process.run(select(&process.db, range, hourly())), &samples);
    process.close();
    world.check();
}

/// Windows of an hour are made of samples, which go before those of 5 minutes do.
#[test]
fn a_finer_level_stays_for_them() {
    let world = world(START + 140 * HOUR);
    let process = world.start();
    let samples = samples(0..140);
    process.run(write_all(&process.db, &samples));
    process.db.set_retention(Some(without("gauge", &[HOURLY])));
    set_clock(&world, START + 30 * DAY);
    maintain(&process);
    assert_eq!(process.db.listed(), []);
    process.db.set_retention(Some(ordinary()));
    check_reach(&process, &samples, 0..0);
    // Windows of 5 minutes are past their time.
    set_clock(&world, START + 200 * DAY);
    maintain(&process);
    check_reach(&process, &samples, 0..0);
    let status = process.db.maintenance_status();
    let reasons: BTreeSet<_> = status.kept_back.iter().map(|kept| kept.reason).collect();
    assert_eq!(
        reasons,
        BTreeSet::from(["its windows lack series that it has"])
    );
    set_clock(&world, START + 400 * DAY);
    maintain(&process);
    assert_eq!(process.db.rolled(), []);
    process.close();
    world.check();
}

/// The policy changes while windows are made.
#[test]
fn a_job_that_left_series_out_is_not_committed_under_another_policy() {
    let world = world(START + 40 * HOUR);
    let process = world.start();
    process.run(write_all(&process.db, &samples(0..40)));
    process
        .db
        .set_retention(Some(without("gauge", &[FIVE, HOURLY])));
    let db = process.db.clone();
    process.run(async {
        let pause = db.pause_at("job.built");
        let job = tokio::spawn({
            let db = db.clone();
            async move { db.roll_up_now(None).await }
        });
        pause.reached().await;
        db.set_retention(Some(ordinary()));
        drop(pause);
        let cause = job.await.unwrap().unwrap_err().to_string();
        assert!(cause.contains("the policy has changed"), "{cause}");
        assert_eq!(db.rolled(), []);
        assert_eq!(db.roll_up_now(None).await.unwrap().series, 3);
    });
    drop(process);
    world.check();
}

/// Buckets that were written before there was a note of what is left out.
#[test]
fn what_says_nothing_was_made_under_the_first_policy() {
    let world = world(START + 140 * HOUR);
    let process = world.start();
    let samples = samples(0..140);
    process.run(write_all(&process.db, &samples));
    let first = without("gauge", &[FIVE, HOURLY]);
    process.db.set_retention(Some(first.clone()));
    maintain(&process);
    let metas: Vec<_> = process
        .db
        .rolled()
        .into_iter()
        .map(key::bucket_meta)
        .collect();
    let old = metas.into_iter().map(|key| {
        let stored = process.run(process.db.records(&key)).unwrap();
        let mut meta = bucket_meta::decode(&stored[0].1).unwrap();
        assert_eq!(meta.rollup.left_out.take().unwrap().len(), 1);
        (key, Some(bucket_meta::encode(&meta).into()))
    });
    let old: Vec<_> = old.collect();
    assert_eq!(old.len(), 5);
    process.run(process.db.replace_records(old)).unwrap();
    process.close();
    let process = world.start();
    process.db.set_retention(Some(first));
    assert_eq!(maintain(&process).rolled_up, 0);
    process.db.set_retention(Some(ordinary()));
    check_reach(&process, &samples, 0..0);
    assert_eq!(maintain(&process).rolled_up, 5);
    check_reach(&process, &samples, 0..128);
    process.close();
    world.check();
}
