//! While a job copies buckets, their hours are not flushed; who must flush waits, or the job ends.

use std::time::Duration;

use icecore_records::key;
use icecore_storage::Error;
use icecore_storage::testing::{Hooks, JobHooks};

use super::*;
use crate::support::*;

/// The 4 h window that `T0` lies in, and a time long before it.
fn window() -> Bucket {
    bucket(4, 12)
}

const ELSEWHERE: i64 = T0 - 100 * HOUR;

#[test]
fn held_hours_stay_in_the_head_and_others_are_flushed() {
    let world = World::new();
    let process = world.start();
    let db = &process.db;
    let all = [("a", T0, 1.0), ("a", ELSEWHERE, 2.0)];
    process.run(async {
        let held = db.hold_back(window()).await.unwrap();
        write(db, &all).await;
        world.clock.advance(1_000_000);
        db.tick().await.unwrap();
        assert_eq!(db.gauges().open_hours, 1, "the hour of the window");
        assert_eq!(db.gauges().buckets, 1);
        // A second job would be one too many: it waits.
        let mut second = std::pin::pin!(db.hold_back(bucket(4, 0)));
        let waits = tokio::time::timeout(Duration::from_millis(50), &mut second).await;
        assert!(waits.is_err());
        drop(held);
        drop(second.await.unwrap());
        db.tick().await.unwrap();
        assert_eq!(db.gauges().open_hours, 0);
        assert_eq!(db.gauges().buckets, 2);
    });
    assert_eq!(process.db.metrics().held_hours.get(), 1);
    assert_eq!(process.run(read(&process.db, everything())), expected(&all));
}

#[test]
fn an_explicit_flush_waits_for_the_job() {
    let world = World::new();
    let process = world.start();
    let db = process.db.clone();
    process.run(async {
        let held = db.hold_back(window()).await.unwrap();
        write(&db, &[("a", T0, 1.0), ("a", ELSEWHERE, 2.0)]).await;
        let flush = tokio::spawn({
            let db = db.clone();
            async move { db.flush_buckets().await }
        });
        until("the flush waits for the job", || db.flush_waits()).await;
        assert_eq!(db.gauges().buckets, 1, "what is not held is flushed before");
        assert!(!flush.is_finished());
        drop(held);
        flush.await.unwrap().unwrap();
        assert_eq!(db.gauges().open_hours, 0);
        assert_eq!(db.gauges().buckets, 2);
    });
}

/// A flush that failed half way has left records that a job must not take for the whole.
#[test]
fn an_hour_that_is_half_written_cannot_be_copied() {
    let world = World::new();
    let process = world.start();
    let db = &process.db;
    process.run(write(db, &[("a", T0, 1.0)]));
    process.run(db.flush_buckets()).unwrap();
    let meta = key::bucket_meta(bucket(1, 14));
    let good = process.run(db.records(&meta)).unwrap().remove(0).1;
    let garbage = Some(Bytes::from_static(b"garbage"));
    process
        .run(db.replace_records(vec![(meta.clone(), garbage)]))
        .unwrap();
    process.run(write(db, &[("b", T0, 2.0)]));
    process.run(db.flush_buckets()).unwrap();
    assert_eq!(db.quarantined().len(), 1);
    assert!(process.run(db.hold_back(window())).is_err());
    drop(process.run(db.hold_back(bucket(4, 0))).unwrap());

    process
        .run(db.replace_records(vec![(meta, Some(good))]))
        .unwrap();
    process.run(db.flush_buckets()).unwrap();
    drop(process.run(db.hold_back(window())).unwrap());
}

#[test]
fn a_job_gives_way_when_the_head_is_full_of_what_it_holds_back() {
    let mut world = World::new();
    world.options.head.flush_bytes = Some(1);
    let process = world.start();
    let db = &process.db;
    process.run(async {
        // Nothing is held back: the head's size is no reason to end.
        let (passed, gave_way) = db.pass_yield_point().await;
        assert!(passed.is_ok() && !gave_way, "{passed:?}");
        let held = db.hold_back(window()).await.unwrap();
        let (passed, gave_way) = db.pass_yield_point().await;
        assert!(
            passed.is_ok() && !gave_way,
            "no hour of the window is in the head"
        );
        write(db, &[("a", T0, 1.0), ("a", T0 + 1, 2.0)]).await;
        let (passed, gave_way) = db.pass_yield_point().await;
        assert!(
            matches!(passed, Err(Error::Unavailable(_))) && gave_way,
            "{passed:?}"
        );
        drop(held);
        db.tick().await.unwrap();
        assert_eq!(db.gauges().open_hours, 0, "flushed for its memory");
    });
}

/// Below the limit on the head's memory a job goes on, however much it holds back.
#[test]
fn a_job_goes_on_while_the_head_has_room() {
    let world = World::new();
    let process = world.start();
    let db = &process.db;
    process.run(async {
        let _held = db.hold_back(window()).await.unwrap();
        write(db, &[("a", T0, 1.0)]).await;
        let (passed, gave_way) = db.pass_yield_point().await;
        assert!(passed.is_ok() && !gave_way, "{passed:?}");
    });
}

#[test]
fn closing_ends_the_job_and_flushes_what_it_held_back() {
    let mut world = world_without_compaction();
    world.options.maintenance.delay = Duration::ZERO;
    let process = world.start();
    let db = process.db.clone();
    let mut all = Vec::new();
    for hour in 0..16 {
        all.push(("a", T0 - hour * HOUR, hour as f64));
        all.push(("b", T0 - hour * HOUR + 1, hour as f64));
    }
    process.run(write(&db, &all));
    process.run(async {
        let run = tokio::spawn({
            let db = db.clone();
            async move { db.run_maintenance().await }
        });
        tokio::task::yield_now().await;
        write(&db, &[("c", T0, 1.0)]).await;
        db.close().await.unwrap();
        // It was done by then, or it was told to end.
        let ran = run.await.unwrap();
        assert!(matches!(ran, Ok(_) | Err(Error::Closed(_))), "{ran:?}");
        let later = db.run_maintenance().await;
        assert!(matches!(later, Err(Error::Closed(_))), "{later:?}");
    });
    assert_eq!(db.gauges().open_hours, 0, "all is in buckets");
    process.crash();
    let process = world.start();
    all.push(("c", T0, 1.0));
    assert_eq!(process.run(read(&process.db, everything())), expected(&all));
}

/// Who asks for a flush may go away at any moment: its hours are flushed all the same.
#[test]
fn a_flush_that_nobody_waits_for_any_more_ends_as_any_other() {
    for polls in 0..6 {
        let world = World::new();
        let process = world.start();
        let db = &process.db;
        process.run(async {
            write(db, &[("a", T0, 1.0), ("b", ELSEWHERE, 2.0)]).await;
            let mut flush = Box::pin(db.flush_buckets());
            for _ in 0..polls {
                if futures::poll!(&mut flush).is_ready() {
                    break;
                }
                tokio::task::yield_now().await;
            }
            drop(flush);
            db.flush_buckets().await.unwrap();
            assert_eq!((db.gauges().open_hours, db.gauges().buckets), (0, 2));
        });
        process.crash();
        let process = world.start();
        assert_eq!(
            process.db.metrics().replayed_samples.get(),
            0,
            "after {polls} polls"
        );
    }
}

/// While ingest needs the machine a job waits and says why; closing does not wait for that.
#[test]
fn a_job_pauses_under_pressure_and_says_so() {
    let mut world = World::new();
    world.options.head.flush_bytes = Some(1);
    world.options.head.bytes_max = Some(2);
    let process = world.start();
    let db = process.db.clone();
    process.run(async {
        // The flush that would take the pressure away does not come to its end.
        let pause = db.pause_at("flush.freezing");
        let many = (0..500).map(|i| ("a", T0 + i * 1000, (i * i) as f64));
        write(&db, &many.collect::<Vec<_>>()).await;
        let flush = tokio::spawn({
            let db = db.clone();
            async move { db.flush_buckets().await }
        });
        pause.reached().await;
        let job = tokio::spawn({
            let db = db.clone();
            async move { db.pass_yield_point().await.0 }
        });
        until("the job pauses", || {
            assert!(!job.is_finished(), "it waits");
            db.maintenance_status().paused.is_some()
        })
        .await;
        let close = tokio::spawn({
            let db = db.clone();
            async move { db.close().await }
        });
        let passed = job.await.unwrap();
        drop(pause);
        flush.await.unwrap().unwrap();
        close.await.unwrap().unwrap();
        assert!(matches!(passed, Err(Error::Closed(_))), "{passed:?}");
    });
}
