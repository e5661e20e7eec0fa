//! Steps that meet at one particular moment, and what a crash makes of it.

use std::time::Duration;

use icecore_model::{BucketSize, MatchOp, Matcher};
use icecore_records::{Bucket, key};
use icecore_storage::Deletion;
use icecore_storage::testing::Hooks;

use crate::process::World;
use crate::support::*;

/// In the hour of the clock: not due for a flush before somebody asks for it.
const OPEN: i64 = T0 + 24 * HOUR;

/// Longer than the grace time of a flush.
const QUIET: i64 = 300_000;

fn hour(time: i64) -> Bucket {
    Bucket::hour(BucketSize::HOUR.bucket_of(time).unwrap())
}

fn all_of(series: &str) -> Deletion {
    let matcher = Matcher::new(MatchOp::Equal, "series", series).unwrap();
    Deletion {
        selectors: vec![vec![matcher]],
        start_ms: i64::MIN,
        end_ms: i64::MAX,
    }
}

/// An epoch that is kept for another hour must not bring an old value back, whenever a flush moves
/// the cursor that hides it.
#[test]
fn a_cursor_that_moves_while_cursors_are_forgotten_stays() {
    let world = World::new();
    let process = world.start();
    let db = process.db.clone();
    process.run(async {
        let pause = db.pause_at("drain.scanned");
        write(&db, &[("a", T0, 1.0)]).await;
        db.flush_buckets().await.unwrap();
        let drain = tokio::spawn({
            let db = db.clone();
            async move { db.drain().await }
        });
        pause.reached().await;
        let clock = std::sync::Arc::clone(&world.clock);
        let mut between = tokio::spawn({
            let db = db.clone();
            async move {
                // This epoch stays, because of the hour that is open...
                write(&db, &[("a", T0, 2.0), ("other", OPEN, 1.0)]).await;
                clock.advance(QUIET);
                db.tick().await.unwrap();
                // ...and this one goes.
                db.roll_epoch();
                write(&db, &[("a", T0, 3.0)]).await;
                db.roll_epoch();
                clock.advance(QUIET);
                db.tick().await.unwrap();
            }
        });
        // Either it comes in between, or it waits.
        let _ = tokio::time::timeout(Duration::from_secs(1), &mut between).await;
        drop(pause);
        drain.await.unwrap().unwrap();
        if !between.is_finished() {
            between.await.unwrap();
        }
        db.drain().await.unwrap();
        assert_eq!(db.gauges().journal_epochs, 1);
    });
    process.crash();
    let process = world.start();
    let found = process.run(read(&process.db, everything()));
    assert_eq!(found, expected(&[("a", T0, 3.0), ("other", OPEN, 1.0)]));
}

/// A request that comes while a flush is about to freeze belongs to the next flush, with a number
/// behind the cursor: what is deleted afterwards must not be in the journal only.
#[test]
fn what_came_during_a_freeze_and_was_deleted_does_not_come_back() {
    let world = World::new();
    let process = world.start();
    let db = process.db.clone();
    process.run(async {
        write(&db, &[("x", T0, 1.0), ("y", T0, 1.0)]).await;
        let pause = db.pause_at("flush.freezing");
        let flush = tokio::spawn({
            let db = db.clone();
            async move { db.flush_buckets().await }
        });
        pause.reached().await;
        write(&db, &[("x", T0 + 1, 2.0)]).await;
        drop(pause);
        flush.await.unwrap().unwrap();
        db.delete_series(all_of("x")).await.unwrap();
        let left = expected(&[("y", T0, 1.0)]);
        assert_eq!(read(&db, everything()).await, left);
    });
    process.crash();
    let process = world.start();
    let found = process.run(read(&process.db, everything()));
    assert_eq!(found, expected(&[("y", T0, 1.0)]));
}

/// A bucket holds what its cursor says and no more, however many pages a freeze has to go through.
#[test]
fn a_bucket_holds_nothing_behind_its_cursor() {
    let world = World::new();
    let process = world.start();
    let db = process.db.clone();
    let names: Vec<String> = (0..3000).map(|i| format!("s{i:04}")).collect();
    let rows = |offset: i64| -> Vec<(&str, i64, f64)> {
        let rows = names.iter().map(|name| (name.as_str(), T0 + offset, 1.0));
        rows.collect()
    };
    process.run(async {
        write(&db, &rows(0)).await;
        let pause = db.pause_at("flush.freezing");
        let flush = tokio::spawn({
            let db = db.clone();
            async move { db.flush_buckets().await }
        });
        pause.reached().await;
        // Pages in the middle and at the end, and all of them.
        write(&db, &[("s2999", T0 + 1, 1.0), ("s1500", T0 + 1, 1.0)]).await;
        write(&db, &rows(2)).await;
        drop(pause);
        flush.await.unwrap().unwrap();
        let stored = db.stored_content().await.unwrap();
        let samples: usize = stored.values().map(|series| series.floats.len()).sum();
        assert_eq!(samples, names.len());
        let mut all = rows(0);
        all.extend([("s2999", T0 + 1, 1.0), ("s1500", T0 + 1, 1.0)]);
        all.extend(rows(2));
        assert_eq!(read(&db, everything()).await, expected(&all));
        db.flush_buckets().await.unwrap();
        assert_eq!(read(&db, everything()).await, expected(&all));
    });
}

/// Tombstones say themselves up to where they hold, also where a cursor does not.
#[test]
fn tombstones_cover_the_journal_up_to_their_sequence() {
    let world = World::new();
    let process = world.start();
    let db = process.db.clone();
    process.run(async {
        write(&db, &[("x", T0, 1.0), ("y", T0, 1.0)]).await;
        db.flush_buckets().await.unwrap();
        db.delete_series(all_of("x")).await.unwrap();
        // What comes later is not covered.
        write(&db, &[("x", T0 + 1, 2.0), ("y", T0 + 1, 2.0)]).await;
        let cursor = (key::flush_cursor(hour(T0)), None);
        db.replace_records(vec![cursor]).await.unwrap();
    });
    process.crash();
    let process = world.start();
    let found = process.run(read(&process.db, everything()));
    let left = expected(&[("x", T0 + 1, 2.0), ("y", T0, 1.0), ("y", T0 + 1, 2.0)]);
    assert_eq!(found, left);
}

/// What is written while a deletion is under way, after it has flushed, is not deleted: neither now
/// nor by a replay that takes the tombstones for later ones.
#[test]
fn what_comes_during_a_deletion_stays() {
    let world = World::new();
    let process = world.start();
    let db = process.db.clone();
    let (old, new) = (("x", OPEN, 1.0), ("x", OPEN + 1, 2.0));
    process.run(async {
        write(&db, &[old]).await;
        let pause = db.pause_at("delete.flushed");
        let deletion = tokio::spawn({
            let db = db.clone();
            async move { db.delete_series(all_of("x")).await }
        });
        pause.reached().await;
        write(&db, &[new]).await;
        drop(pause);
        deletion.await.unwrap().unwrap();
        assert_eq!(read(&db, everything()).await, expected(&[new]));
    });
    process.crash();
    let process = world.start();
    let found = process.run(read(&process.db, everything()));
    assert_eq!(found, expected(&[new]));
}
