//! A run that somebody asks for: everything that is closed becomes coarse.

use std::time::Duration;

use icecore_model::Matcher;
use icecore_storage::testing::{FaultPlan, Hooks, JobHooks};
use icecore_storage::{Clock, Database, Deletion, MaintenanceStatus, SizeCount};

use super::*;
use crate::support::*;

/// One sample of two series in each hour that ends up to `hours` before the end of the window.
fn samples(hours: std::ops::Range<i64>) -> Vec<(&'static str, i64, f64)> {
    let hours = hours.map(|hour| (hour, WINDOW.start_ms() + hour * HOUR));
    hours
        .flat_map(|(hour, start)| [("a", start + 1, hour as f64), ("b", start + 2, 0.5)])
        .collect()
}

/// Writes and flushes them at their time: what is long over would be large buckets at once.
async fn write_hours(world: &World, db: &Database, hours: std::ops::Range<i64>) {
    let now_ms = world.clock.now_ms();
    for first in hours.clone().step_by(16) {
        let then_ms = WINDOW.start_ms() + (first + 16) * HOUR;
        world
            .clock
            .advance(then_ms.min(now_ms) - world.clock.now_ms());
        write(db, &samples(first..hours.end.min(first + 16))).await;
        db.flush_buckets().await.unwrap();
    }
    world.clock.advance(now_ms - world.clock.now_ms());
}

/// A bucket of any window, by hours after the begin of the usual one.
fn bucket_at(hours: u32, hours_after: i64) -> Bucket {
    let start = i64::from(WINDOW.minutes()) + 60 * hours_after;
    Bucket {
        start: BucketStart(start as u32),
        ..bucket(hours, 0)
    }
}

fn sizes(status: &MaintenanceStatus) -> Vec<(u32, usize)> {
    let pair = |size: &SizeCount| (size.hours, size.count);
    status.buckets.iter().map(pair).collect()
}

#[test]
fn everything_that_is_closed_becomes_coarse() {
    let mut world = World::new();
    // A run waits until files have this age.
    world.options.store.gc_min_age = Duration::from_secs(2);
    let process = world.start();
    let db = &process.db;
    // Three windows of 16 hours, and an open one of which six hours have ended: the clock stands at
    // T0 + 24 h, which is hour 38 of the first window.
    process.run(write_hours(&world, db, -20..39));
    let report = process.run(db.run_maintenance()).unwrap();
    let expected = [
        bucket(1, 38),
        bucket(2, 36),
        bucket(4, 32),
        bucket(16, 0),
        bucket(16, 16),
    ];
    let listed = db.listed();
    assert!(
        expected.iter().all(|bucket| listed.contains(bucket)),
        "{listed:?}"
    );
    assert_eq!(listed.len(), 7, "{listed:?}");
    assert_eq!(report.coarsened, 6);
    assert_eq!(report.retired, 58);
    assert!(report.bytes_read > 0 && report.bytes_written > 0);
    let status = db.maintenance_status();
    assert_eq!(sizes(&status), [(1, 1), (2, 1), (4, 1), (16, 4)]);
    assert_eq!((status.waiting, status.retired, status.dirty), (0, 0, 0));
    assert_eq!((&status.running, &status.last_error), (&None, &None));
    let content = process.run(db.stored_content()).unwrap();
    let floats: usize = content.values().map(|series| series.floats.len()).sum();
    assert_eq!(floats, 2 * 59);

    // Once more there is nothing to do.
    let again = process.run(db.run_maintenance()).unwrap();
    assert_eq!((again.coarsened, again.folded), (0, 0));
    assert_eq!(db.listed(), listed);
    assert_eq!(process.run(db.stored_content()).unwrap(), content);
    process.close();
    let process = world.start();
    assert_eq!(process.db.listed(), listed);
    assert_eq!(process.run(process.db.stored_content()).unwrap(), content);
}

/// As time goes on: leftovers of one run become part of the next.
#[test]
fn the_next_run_takes_what_was_left_over() {
    let world = world_without_compaction();
    let process = world.start();
    let db = &process.db;
    process.run(write(db, &samples(32..39)));
    process.run(db.run_maintenance()).unwrap();
    assert_eq!(db.listed(), [bucket(1, 38), bucket(2, 36), bucket(4, 32)]);
    world.clock.advance(2 * HOUR);
    process.run(write(db, &samples(39..40)));
    process.run(db.run_maintenance()).unwrap();
    assert_eq!(db.listed(), [bucket(8, 32)]);
    world.clock.advance(8 * HOUR);
    process.run(db.run_maintenance()).unwrap();
    assert_eq!(db.listed(), [bucket(16, 32)]);
    let content = process.run(db.stored_content()).unwrap();
    let floats: usize = content.values().map(|series| series.floats.len()).sum();
    assert_eq!(floats, 2 * 8);
}

#[test]
fn callers_at_once_all_get_an_answer() {
    let world = world_without_compaction();
    let process = world.start();
    let db = process.db.clone();
    process.run(async {
        write(&db, &samples(0..16)).await;
        let calls = (0..4).map(|_| {
            let db = db.clone();
            tokio::spawn(async move { db.run_maintenance().await })
        });
        let mut coarsened = Vec::new();
        for call in Vec::from_iter(calls) {
            coarsened.push(call.await.unwrap().unwrap().coarsened);
        }
        // Who shared the first run saw the work, who came later saw nothing left to do.
        assert!(coarsened.contains(&1), "{coarsened:?}");
        assert!(coarsened.iter().all(|count| *count <= 1), "{coarsened:?}");
    });
    assert_eq!(process.db.listed(), [bucket(16, 0)]);
    assert_eq!(process.db.metrics().coarsen.done.get(), 1);
    assert_eq!(process.db.metrics().coarsened_samples.get(), 32);
}

/// Damages a record; returns what it was.
fn damage(process: &Process, key: &Bytes) -> Bytes {
    let good = process.run(process.db.records(key)).unwrap().remove(0).1;
    let garbage = Some(Bytes::from_static(b"\xff\xff\xff"));
    let records = vec![(key.clone(), garbage)];
    process.run(process.db.replace_records(records)).unwrap();
    good
}

/// A job that fails is reported to whoever asked and shown until it succeeds.
#[test]
fn a_failure_is_reported_and_forgotten() {
    let world = world_without_compaction();
    let process = world.start();
    let db = &process.db;
    process.run(write(db, &samples(0..4)));
    process.run(db.flush_buckets()).unwrap();
    let meta = key::bucket_meta(bucket(1, 2));
    let good = damage(&process, &meta);
    let report = process.run(db.run_maintenance()).unwrap();
    assert_eq!(report.coarsened, 0);
    assert_eq!(report.skipped.len(), 1, "{report:?}");
    let skipped = &report.skipped[0];
    let target = bucket(16, 0);
    assert_eq!((skipped.kind, skipped.failures), ("coarsen", 1));
    assert_eq!(skipped.start_ms, target.start_ms());
    assert_eq!(skipped.end_ms, target.end_ms());
    let status = db.maintenance_status();
    assert_eq!(status.last_error.as_ref(), Some(&skipped.cause));
    assert_eq!(status.skipped, report.skipped);
    assert_eq!(db.metrics().coarsen.failed.get(), 1);
    assert_eq!(db.listed().len(), 4, "hours stay as they are");

    process
        .run(db.replace_records(vec![(meta, Some(good))]))
        .unwrap();
    let report = process.run(db.run_maintenance()).unwrap();
    assert_eq!((report.coarsened, report.skipped.len()), (1, 0));
    let status = db.maintenance_status();
    assert_eq!((status.last_error, status.skipped), (None, vec![]));
    assert_eq!(db.listed(), [bucket(16, 0)]);
}

/// The oldest window, a fold and a cleaning fail: everything else is done, again and again.
#[test]
fn what_cannot_be_done_does_not_stop_the_rest() {
    let world = world_without_compaction();
    let process = world.start();
    let db = &process.db;
    let hours = -64..24;
    process.run(write_hours(&world, db, hours.clone()));
    damage(&process, &key::bucket_meta(bucket_at(1, -63)));
    let report = process.run(db.run_maintenance()).unwrap();
    assert_eq!(
        (report.coarsened, report.skipped.len()),
        (5, 1),
        "{report:?}"
    );
    assert_eq!(db.listed().len(), 16 + 5);

    // Late samples and tombstones in every coarse bucket; one of each cannot be read.
    let late = hours
        .clone()
        .map(|hour| WINDOW.start_ms() + hour * HOUR + 5);
    let late: Vec<(&str, i64, f64)> = late.map(|time| ("a", time, 1.0)).collect();
    process.run(write(db, &late[16..]));
    process.run(db.flush_buckets()).unwrap();
    let series = icecore_records::SeriesId(0);
    damage(&process, &key::time_series(bucket_at(16, -48), series));
    let report = process.run(db.run_maintenance()).unwrap();
    let kinds: Vec<&str> = report.skipped.iter().map(|job| job.kind).collect();
    assert_eq!(kinds, ["coarsen", "fold"], "{report:?}");
    assert_eq!(report.folded, 4);
    let failures: Vec<u32> = report.skipped.iter().map(|job| job.failures).collect();
    assert_eq!(failures, [2, 1]);
    assert_eq!(db.maintenance_status().skipped.len(), 2);
    assert_eq!(db.maintenance_status().dirty, 1);
}

/// By itself maintenance leaves a window that failed alone for a while, and does the others at
/// once.
#[test]
fn a_window_that_failed_waits_and_the_others_do_not() {
    let mut world = world_without_compaction();
    world.options.maintenance.enabled = true;
    let process = world.start();
    let db = &process.db;
    process.run(write_hours(&world, db, -64..16));
    let meta = key::bucket_meta(bucket_at(1, -63));
    let good = damage(&process, &meta);
    world.clock.advance(1_800_000);
    let done = || db.metrics().coarsen.done.get();
    process.run(async {
        until("the others are done", || done() >= 4).await;
        // It was the first to be tried, and is not tried again while the clock stands still.
        assert_eq!(db.metrics().coarsen.failed.get(), 1);
        let status = db.maintenance_status();
        assert_eq!(status.skipped.len(), 1);
        assert_eq!(status.skipped[0].next_try_ms - world.clock.now_ms(), 15_000);
        assert_eq!(status.waiting, 1, "it still waits");
        assert!(status.waiting_seconds.is_some_and(|seconds| seconds > 0.0));
    });
    process
        .run(db.replace_records(vec![(meta, Some(good))]))
        .unwrap();
    world.clock.advance(15_000);
    process.run(until("it is tried again", || done() >= 5));
    let status = db.maintenance_status();
    assert_eq!((status.skipped, status.waiting), (vec![], 0));
}

/// A deletion that touches every window is done between two jobs, not behind all of them.
#[test]
fn a_deletion_goes_before_the_next_job() {
    let world = world_without_compaction();
    let process = world.start();
    let db = process.db.clone();
    process.run(async {
        write_hours(&world, &db, -16 * 5..16).await;
        let mut built = db.pause_at("job.built");
        let run = tokio::spawn({
            let db = db.clone();
            async move { db.run_maintenance().await }
        });
        let done = || db.metrics().coarsen.done.get();
        for before in 0..4 {
            ending("a job is built", built.reached()).await;
            assert_eq!(done(), before);
            let deletion = tokio::spawn({
                let db = db.clone();
                let deletion = Deletion {
                    selectors: vec![vec![Matcher::equal("series", "b")]],
                    start_ms: i64::MIN,
                    end_ms: i64::MAX,
                };
                async move { db.delete_series(deletion).await }
            });
            until("the deletion waits for the job", || db.flush_waits()).await;
            // The next job does not come to its end before the next round.
            let next = db.pause_at("job.built");
            drop(std::mem::replace(&mut built, next));
            let deleted = ending("only one job goes before the deletion", deletion).await;
            deleted.unwrap().unwrap();
            assert!(
                done() <= before + 1,
                "{} jobs went before it",
                done() - before
            );
        }
        drop(built);
        assert_eq!(run.await.unwrap().unwrap().skipped, []);
    });
    let found = process.run(read(&process.db, everything()));
    assert_eq!(found.len(), 1, "{:?}", found.keys());
}

/// Buckets are coarsened without being asked for, once they are closed and quiet for long enough.
#[test]
fn windows_are_coarsened_by_themselves() {
    let mut world = World::new();
    world.options.maintenance.enabled = true;
    world.options.maintenance.grace = Duration::ZERO;
    let process = world.start();
    let db = &process.db;
    let all = samples(28..38);
    process.run(write(db, &all));
    process.run(db.flush_buckets()).unwrap();
    let status = db.maintenance_status();
    assert_eq!((status.waiting, status.enabled), (0, true), "just written");
    world.clock.advance(1_800_000);
    let targets = [bucket(4, 32), bucket(16, 16)];
    process.run(async {
        until("the windows are coarse", || {
            let listed = db.listed();
            targets.iter().all(|target| listed.contains(target))
                && db.maintenance_status().retired == 0
        })
        .await;
    });
    // The rest of the open window waits for its own four hours.
    let hours: Vec<Bucket> = (36..38).map(|hour| bucket(1, hour)).collect();
    let expected: Vec<Bucket> = hours.into_iter().chain(targets).collect();
    assert_eq!(db.listed(), expected);
    let found = process.run(read(db, everything()));
    assert_eq!(found, super::super::support::expected(&all));
    assert_eq!(db.metrics().coarsen.done.get(), 2);
}

/// A start with a clock that is ahead, which is then set right, delays nothing.
#[test]
fn a_clock_that_is_set_right_stops_nothing() {
    let mut world = World::new();
    world.options.maintenance.enabled = true;
    world.options.maintenance.grace = Duration::ZERO;
    world.clock.jump(3 * HOUR);
    let process = world.start();
    let db = &process.db;
    let all = samples(28..38);
    process.run(write(db, &all));
    world.clock.jump(-3 * HOUR);
    world.clock.advance(60_000);
    assert_eq!(db.gauges().oldest_epoch_age_s, 60.0);
    world.clock.advance(90_000);
    process.run(db.tick()).unwrap();
    assert_eq!(db.gauges().open_hours, 0);
    // A bucket that is written to while the clock is ahead once more.
    world.clock.jump(3 * HOUR);
    process.run(write(db, &all[..1]));
    process.run(db.flush_buckets()).unwrap();
    world.clock.jump(-3 * HOUR);
    world.clock.advance(1_800_000);
    process.run(until("the window is coarse", || {
        db.listed().contains(&bucket(16, 16))
    }));
    assert_eq!(
        process.run(read(db, everything())),
        super::super::support::expected(&all)
    );
}

/// What waits and for how long, where nobody does it.
#[test]
fn the_status_says_what_waits() {
    let world = World::new();
    let process = world.start();
    let db = &process.db;
    process.run(write(db, &samples(0..36)));
    process.run(db.flush_buckets()).unwrap();
    world.clock.advance(1_800_000);
    let status = db.maintenance_status();
    assert!(!status.enabled);
    assert_eq!(status.waiting, 3, "two of 16 h and one of 4 h");
    assert_eq!(status.waiting_seconds, None, "nothing was done yet");
    // The first window ended 22 hours and a half ago.
    assert_eq!(status.lag_seconds, 22.5 * 3600.0);
    // Late samples in the head keep their window back until they are flushed and it is quiet again.
    process.run(write(db, &[("a", WINDOW.start_ms(), 1.0)]));
    let status = db.maintenance_status();
    assert_eq!((status.waiting, status.lag_seconds), (5, 30.5 * 3600.0));
}

#[test]
fn settings_that_cannot_work_are_refused() {
    let mut world = World::new();
    world.options.maintenance.write_bytes_per_second = 1;
    let refused = world.try_start(FaultPlan::quiet(0)).err().unwrap();
    assert!(
        refused
            .to_string()
            .contains("maintenance.write_bytes_per_second"),
        "{refused}"
    );
}
