//! Windows that close are rolled up, and what is too old is culled.

use super::*;

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
    let metrics = process.db.metrics();
    assert_eq!(
        (metrics.rejected_late.get(), metrics.rejected.get()),
        (1, 0)
    );
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
fn a_clock_that_is_set_right_after_the_start_keeps_nothing_from_being_rolled_up() {
    let world = world(START + 140 * HOUR);
    world.clock.jump(DAY);
    let process = world.start();
    world.clock.jump(-DAY);
    process.db.set_retention(Some(policy([21, 90, 365])));
    process.run(write_all(&process.db, &samples(0..140)));
    assert!(maintain(&process).rolled_up > 0);
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
