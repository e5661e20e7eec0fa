//! One hour that cannot be flushed, and everything else that goes on.

use std::time::Duration;

use bytes::Bytes;
use icecore_model::{BucketSize, MatchOp, Matcher};
use icecore_records::{Bucket, key};
use icecore_storage::testing::Hooks;
use icecore_storage::{Database, Deletion, Error, QuarantinedHour};

use crate::process::{Process, World};
use crate::support::*;

const MINUTE: i64 = 60_000;

/// The hour whose bucket is damaged: not as old as what becomes a coarse bucket at once.
const OLD: i64 = T0 - 10 * HOUR;

fn hour(time: i64) -> Bucket {
    Bucket::hour(BucketSize::HOUR.bucket_of(time).unwrap())
}

fn deletion(series: &str, start_ms: i64, end_ms: i64) -> Deletion {
    let matcher = Matcher::new(MatchOp::Equal, "series", series).unwrap();
    Deletion {
        selectors: vec![vec![matcher]],
        start_ms,
        end_ms,
    }
}

/// An old hour with a damaged record, and a late sample for it. Returns what the record was.
async fn damage(db: &Database) -> Bytes {
    write(db, &[("old", OLD, 1.0)]).await;
    db.flush().await.unwrap();
    let meta = key::bucket_meta(hour(OLD));
    let (_, before) = db.records(&meta).await.unwrap().remove(0);
    let garbage = Some(Bytes::from_static(b"garbage"));
    db.replace_records(vec![(meta, garbage)]).await.unwrap();
    write(db, &[("old", OLD + 1, 2.0)]).await;
    before
}

/// Flushes everything; returns what was left.
async fn flush(db: &Database) -> Vec<QuarantinedHour> {
    db.flush().await.unwrap();
    db.quarantined()
}

async fn repair(db: &Database, before: Bytes) {
    let meta = key::bucket_meta(hour(OLD));
    db.replace_records(vec![(meta, Some(before))])
        .await
        .unwrap();
}

async fn last_hour_of(db: &Database, series: &str) -> Option<u64> {
    let recent = selection(vec![Matcher::equal("__name__", "m")], OLD + HOUR, i64::MAX);
    let found = read(db, recent).await;
    found.get(series)?.values().last().copied()
}

#[test]
fn everything_else_goes_on() {
    let mut world = World::new();
    world.options.head.series_idle_max = Duration::from_secs(60);
    let process = world.start();
    let db = process.db.clone();
    let before = process.run(async {
        let before = damage(&db).await;
        for i in 0..4 {
            write(&db, &[(&format!("s{i}"), T0 + i * HOUR, 1.0)]).await;
            world.clock.advance(2 * HOUR);
            // Forgets idle series, too.
            db.tick().await.unwrap();
        }
        // The hour that cannot be flushed, and the one that it would have stopped.
        let status = db.maintenance_status();
        assert_eq!(status.quarantined.len(), 1);
        assert_eq!(status.quarantined[0].start_ms, OLD);
        assert!(status.quarantined[0].cause.contains("BucketMeta"));
        assert!(status.quarantined[0].attempts >= 2);
        assert_eq!(db.gauges().quarantined_hours, 1);
        for i in 0..4 {
            assert!(db.listed().contains(&hour(T0 + i * HOUR)));
        }
        assert!(
            db.gauges().series <= 2,
            "only who has something is remembered"
        );
        let left = flush(&db).await;
        assert_eq!(left.len(), 1);
        // Its own epoch stays, the others are gone.
        assert_eq!(db.gauges().journal_epochs, 1);
        let report = db.run_maintenance().await.unwrap();
        assert_eq!(report.quarantined.len(), 1);
        before
    });
    // A clean end succeeds, and nothing is lost.
    process.close();
    let process = world.start();
    let db = process.db.clone();
    process.run(async {
        assert_eq!(db.metrics().replayed_samples.get(), 1);
        assert_eq!(last_hour_of(&db, "s3").await, Some(1f64.to_bits()));
        assert_eq!(flush(&db).await.len(), 1);
        repair(&db, before).await;
        assert_eq!(flush(&db).await, []);
        assert_eq!(db.gauges().quarantined_hours, 0);
        assert_eq!(db.gauges().journal_epochs, 0);
        let old = expected(&[("old", OLD, 1.0), ("old", OLD + 1, 2.0)]);
        assert_eq!(read(&db, everything()).await.get("old"), old.get("old"));
    });
    process.close();
    world.check();
}

#[test]
fn it_is_tried_again_later_and_later() {
    let world = World::new();
    let process = world.start();
    let db = process.db.clone();
    let attempts = |db: &Database| db.maintenance_status().quarantined[0].attempts;
    process.run(async {
        let before = damage(&db).await;
        world.clock.advance(10 * MINUTE);
        db.tick().await.unwrap();
        assert_eq!(attempts(&db), 1);
        db.tick().await.unwrap();
        assert_eq!(attempts(&db), 1, "not at once");
        world.clock.advance(10_000);
        db.tick().await.unwrap();
        assert_eq!(attempts(&db), 2);
        world.clock.advance(10_000);
        db.tick().await.unwrap();
        assert_eq!(attempts(&db), 2, "twice as long");
        repair(&db, before).await;
        world.clock.advance(10_000);
        db.tick().await.unwrap();
        assert_eq!(db.maintenance_status().quarantined, []);
    });
}

/// What is written to such an hour stays in order: what was frozen first comes first.
#[test]
fn later_samples_of_the_hour_follow() {
    let world = World::new();
    let process = world.start();
    let db = process.db.clone();
    process.run(async {
        let before = damage(&db).await;
        assert_eq!(flush(&db).await.len(), 1);
        write(&db, &[("old", OLD + 1, 3.0), ("new", OLD + 2, 4.0)]).await;
        assert_eq!(flush(&db).await.len(), 1);
        repair(&db, before).await;
        // The frozen part, and then the rest.
        db.flush().await.unwrap();
        assert_eq!(flush(&db).await, []);
        let all = [
            ("old", OLD, 1.0),
            ("old", OLD + 1, 3.0),
            ("new", OLD + 2, 4.0),
        ];
        assert_eq!(read(&db, everything()).await, expected(&all));
    });
    process.crash();
    let process = world.start();
    let db = &process.db;
    let found = process.run(read(db, everything()));
    assert_eq!(found["old"][&(OLD + 1)], 3f64.to_bits());
}

/// It takes samples for a while, and then refuses them and nothing else.
#[test]
fn after_an_hour_it_takes_no_more() {
    let world = World::new();
    let process = world.start();
    let db = process.db.clone();
    process.run(async {
        let before = damage(&db).await;
        db.flush().await.unwrap();
        let outcome = write(&db, &[("old", OLD + 2, 1.0)]).await;
        assert_eq!(outcome.rejected, []);
        world.clock.advance(2 * HOUR);
        db.tick().await.unwrap();
        let outcome = write(&db, &[("old", OLD + 3, 1.0), ("a", T0, 1.0)]).await;
        assert_eq!(outcome.samples, 1);
        assert_eq!(outcome.rejected.len(), 1);
        assert!(
            outcome.rejected[0]
                .reason
                .to_string()
                .contains("cannot be flushed")
        );
        repair(&db, before).await;
        db.flush().await.unwrap();
        let outcome = write(&db, &[("old", OLD + 3, 1.0)]).await;
        assert_eq!(outcome.rejected, []);
    });
}

#[test]
fn a_deletion_says_that_it_cannot_reach_it() {
    let world = World::new();
    let process = world.start();
    let db = process.db.clone();
    process.run(async {
        let before = damage(&db).await;
        write(&db, &[("old", T0, 5.0)]).await;
        db.flush().await.unwrap();
        let refused = db.delete_series(deletion("old", OLD, i64::MAX)).await;
        let Err(Error::Corrupt(reason)) = refused else {
            panic!("{refused:?}");
        };
        assert!(reason.to_string().contains("cannot be flushed"), "{reason}");
        // Elsewhere it does what it is told to.
        db.delete_series(deletion("old", OLD + HOUR, i64::MAX))
            .await
            .unwrap();
        assert_eq!(last_hour_of(&db, "old").await, None);
        repair(&db, before).await;
        db.delete_series(deletion("old", OLD, i64::MAX))
            .await
            .unwrap();
        assert_eq!(read(&db, everything()).await, expected(&[]));
    });
    crash_and_compare(process, &world);
}

fn crash_and_compare(process: Process, world: &World) {
    process.crash();
    let process = world.start();
    let found = process.run(read(&process.db, everything()));
    assert_eq!(found, expected(&[]));
}
