//! Buckets never overlap, however a flush and a job meet; where an older version has left some that
//! do, readers see each sample once and they are repaired.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use icecore_records::{bucket_list, key};
use icecore_storage::testing::Hooks;
use icecore_storage::{Deletion, Error};

use super::answers::{answers, assert_same_answers};
use super::*;

fn overlapping(listed: &[Bucket]) -> Vec<(Bucket, Bucket)> {
    let around = |inside: &Bucket| {
        let holds = |b: &&Bucket| b.size > inside.size && b.contains(inside.start_ms());
        listed.iter().find(holds).map(|around| (*inside, *around))
    };
    listed.iter().filter_map(around).collect()
}

/// An hour that is flushed between the plan and the job's begin is not left out.
#[test]
fn an_hour_that_is_listed_since_the_plan_ends_the_job() {
    let world = World::new();
    let process = world.start();
    let db = &process.db;
    let all = [
        ("a", hour_ms(0), 1.0),
        ("a", hour_ms(8), 3.0),
        ("a", hour_ms(4), 2.0),
    ];
    process.run(write(db, &all[..2]));
    process.run(db.flush_buckets()).unwrap();
    let planned = db.listed();
    process.run(write(db, &all[2..]));
    process.run(db.flush_buckets()).unwrap();
    let target = bucket(5, 0);
    let refused = process.run(db.coarsen_these(target, &planned));
    let text = match refused {
        Err(Error::Unavailable(text)) => text,
        other => panic!("{other:?}"),
    };
    assert!(
        text.to_string().contains(&bucket(1, 4).to_string()),
        "{text}"
    );
    assert_eq!(db.listed(), [bucket(1, 0), bucket(1, 4), bucket(1, 8)]);
    // Neither one that is gone, nor a part of them.
    let gone = [bucket(1, 0), bucket(1, 4), bucket(1, 8), bucket(1, 9)];
    assert!(process.run(db.coarsen_these(target, &gone)).is_err());
    assert!(process.run(db.coarsen_these(target, &gone[..1])).is_err());
    process.run(db.coarsen_these(target, &gone[..3])).unwrap();
    assert_eq!(db.listed(), [target]);
    assert_eq!(process.run(read(db, everything())), expected(&all));
}

/// The same at the commit: the stored list may have a bucket that this process does not know of,
/// from a flush whose last step failed.
#[test]
fn the_stored_list_decides_at_the_commit() {
    let world = World::new();
    let process = world.start();
    let db = &process.db;
    process.run(write(db, &[("a", hour_ms(0), 1.0), ("a", hour_ms(2), 2.0)]));
    process.run(db.flush_buckets()).unwrap();
    process.run(db.coarsen_now(3, WINDOW, Some(2))).unwrap_err();
    let list = key::bucket_list();
    let stored = BTreeSet::from([bucket(1, 0), bucket(1, 1), bucket(1, 2)]);
    let stored = Some(bucket_list::encode(&stored));
    process
        .run(db.replace_records(vec![(list, stored)]))
        .unwrap();
    let refused = process.run(db.coarsen_now(3, WINDOW, None)).unwrap_err();
    assert!(
        refused.to_string().contains("was listed since"),
        "{refused}"
    );
    assert_eq!(db.listed(), [bucket(1, 0), bucket(1, 2)]);
}

/// Backfill of all hours of many windows, flushed one by one, while maintenance runs all the time
/// and has something to clean before each job.
#[test]
fn backfill_and_jobs_never_leave_buckets_that_overlap() {
    let mut world = World::new();
    world.options.store.compaction = false;
    let process = world.start();
    let db = process.db.clone();
    let base = hour_ms(-16 * 12);
    let mut all: Vec<(String, i64, f64)> = Vec::new();
    process.run(async {
        for window in 0..8 {
            let start = base + window * 16 * HOUR;
            write(&db, &[("a", start, 0.5), ("gone", start + 1, 0.5)]).await;
            all.push(("a".into(), start, 0.5));
        }
        db.flush_buckets().await.unwrap();
        let matchers = vec![icecore_model::Matcher::equal("series", "gone")];
        db.delete_series(Deletion {
            selectors: vec![matchers],
            start_ms: i64::MIN,
            end_ms: i64::MAX,
        })
        .await
        .unwrap();
        let done = Arc::new(AtomicBool::new(false));
        let runs = tokio::spawn({
            let (db, done) = (db.clone(), Arc::clone(&done));
            async move {
                while !done.load(Relaxed) {
                    let report = db.run_maintenance().await.unwrap();
                    assert_eq!(report.skipped, []);
                }
            }
        });
        for hour in [3, 9, 14, 3, 15] {
            for window in 0..8 {
                let time = base + (window * 16 + hour) * HOUR + window;
                write(&db, &[("a", time, hour as f64)]).await;
                all.push(("a".into(), time, hour as f64));
                db.flush_buckets().await.unwrap();
                assert_eq!(overlapping(&db.listed()), []);
            }
        }
        done.store(true, Relaxed);
        runs.await.unwrap();
        assert_eq!(overlapping(&db.listed()), []);
    });
    let all: Vec<(&str, i64, f64)> = all.iter().map(|(s, t, v)| (s.as_str(), *t, *v)).collect();
    let found = process.run(read(&process.db, everything()));
    assert_eq!(found, expected(&all));
    process.close();
    world.check();
}

/// Hours 0 to 3, then late samples of hours 1 and 2; in the second database hour 2 lies beside a
/// bucket of four hours which has the others and what came late.
fn without_and_with_overlap() -> (World, Process, World, Process) {
    let built = [false, true].map(|overlap| {
        let world = world_of(&InMemory::new());
        let process = world.start();
        let db = &process.db;
        for hour in 0..4 {
            process.run(request(db, entries(hour))).unwrap();
        }
        process.run(db.flush_buckets()).unwrap();
        if overlap {
            let hours = db.listed();
            let others = hours.iter().copied().filter(|b| *b != bucket(1, 2));
            process.run(db.set_listed(others.collect())).unwrap();
            process.run(db.coarsen_now(3, WINDOW, None)).unwrap();
            let both = vec![bucket(1, 2), bucket(3, 0)];
            process.run(db.set_listed(both)).unwrap();
        }
        for hour in [2, 1, 2] {
            process.run(request(db, late_entries(hour))).unwrap();
            process.run(db.flush_buckets()).unwrap();
        }
        (world, process)
    });
    let [(plain_world, plain), (world, process)] = built;
    (plain_world, plain, world, process)
}

fn problems(world: &World) -> Vec<String> {
    let store = Arc::new(world.memory().fork()) as Arc<dyn slatedb::object_store::ObjectStore>;
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let check = icecore_storage::inspect::check(&world.options.store, Some(store));
    let report = runtime.block_on(check).unwrap();
    report.problems.into_iter().map(|p| p.reason).collect()
}

#[test]
fn readers_of_buckets_that_overlap_see_each_sample_once() {
    let (_plain_world, plain, world, process) = without_and_with_overlap();
    let expected = plain.run(answers(&plain.db));
    let found = process.run(answers(&process.db));
    assert_same_answers(&found, &expected, "while they overlap");
    assert_eq!(process.db.maintenance_status().overlapping, 1);
    process.run(process.db.flush()).unwrap();
    let problems = problems(&world);
    let (inside, around) = (bucket(1, 2), bucket(3, 0));
    let named = format!("bucket {inside} lies inside bucket {around}, both are listed");
    assert_eq!(problems, [named]);
}

/// Whatever of it reaches the store, answers stay the same, and the next one ends it.
#[test]
fn buckets_that_overlap_are_repaired() {
    let (_plain_world, plain, world, process) = without_and_with_overlap();
    let expected = plain.run(answers(&plain.db));
    let content = plain.run(plain.db.stored_content()).unwrap();
    let (inside, around) = (bucket(1, 2), bucket(3, 0));
    process.run(process.db.flush()).unwrap();
    process.close();
    let mut writes = 0;
    loop {
        let cut = World::over(Arc::new(world.memory().fork()));
        let process = cut.start();
        let repaired = process.run(process.db.repair_now(inside, around, Some(writes)));
        let when = format!("after {writes} writes");
        assert_same_answers(&process.run(answers(&process.db)), &expected, &when);
        process.crash();
        let process = cut.start();
        assert_same_answers(&process.run(answers(&process.db)), &expected, &when);
        if repaired.is_ok() {
            assert_eq!(process.db.listed(), [around]);
            assert_eq!(process.run(process.db.stored_content()).unwrap(), content);
            break;
        }
        process
            .run(process.db.repair_now(inside, around, None))
            .unwrap();
        assert_same_answers(&process.run(answers(&process.db)), &expected, &when);
        assert_eq!(process.db.listed(), [around]);
        assert_eq!(process.run(process.db.stored_content()).unwrap(), content);
        process.run(process.db.flush()).unwrap();
        process.close();
        cut.check();
        writes += 1;
    }
    assert!(writes >= 2, "{writes}");
}

/// Maintenance finds them, also one in another, and goes on to coarsen what they were in.
#[test]
fn a_run_repairs_and_goes_on() {
    let mut world = World::new();
    world.options.store.compaction = false;
    let process = world.start();
    let db = &process.db;
    let hours = [0, 2, 3, 5, 9];
    let mut all: Vec<(&str, i64, f64)> = hours.map(|h| ("a", hour_ms(h), h as f64)).to_vec();
    all.push(("b", hour_ms(2) + 5, 7.0));
    process.run(write(db, &all));
    process.run(db.flush_buckets()).unwrap();
    let without = |left_out: &[Bucket]| {
        let listed = db.listed().into_iter().filter(|b| !left_out.contains(b));
        process.run(db.set_listed(listed.collect())).unwrap();
    };
    let with = |more: Bucket| {
        let listed = db.listed().into_iter().chain([more]).collect();
        process.run(db.set_listed(listed)).unwrap();
    };
    // 1 h in 2 h in 8 h.
    without(&[bucket(1, 2), bucket(1, 3)]);
    process.run(db.coarsen_now(4, WINDOW, None)).unwrap();
    let eight = db.listed();
    process.run(db.set_listed(vec![bucket(1, 2)])).unwrap();
    process
        .run(db.coarsen_now(2, bucket(2, 2).start, None))
        .unwrap();
    eight.into_iter().for_each(&with);
    // What the inner one has at a time that a larger one has, too, is the older.
    let late = [("a", hour_ms(2), 22.0), ("c", hour_ms(2), 1.0)];
    process.run(write(db, &late));
    process.run(db.flush_buckets()).unwrap();
    all.extend(late);
    with(bucket(1, 3));
    assert_eq!(overlapping(&db.listed()).len(), 2, "{:?}", db.listed());
    assert_eq!(process.run(read(db, everything())), expected(&all));
    let report = process.run(db.run_maintenance()).unwrap();
    assert_eq!((report.repaired, report.coarsened), (2, 1), "{report:?}");
    assert_eq!(report.skipped, []);
    assert_eq!(db.listed(), [bucket(5, 0)]);
    assert_eq!(process.run(read(db, everything())), expected(&all));
    assert_eq!(db.metrics().repaired_buckets.get(), 2);
    process.close();
    world.check();
}

/// What was deleted stays deleted, wherever it lies.
#[test]
fn a_deletion_reaches_both_buckets() {
    let (_plain_world, plain, world, process) = without_and_with_overlap();
    for db in [&plain.db, &process.db] {
        for (name, start_ms, end_ms) in [
            ("regular", hour_ms(2), hour_ms(2) + 1_000_000),
            ("gaps", i64::MIN, i64::MAX),
            ("late", hour_ms(2), i64::MAX),
        ] {
            let matchers = vec![icecore_model::Matcher::equal("series", name)];
            let deletion = Deletion {
                selectors: vec![matchers],
                start_ms,
                end_ms,
            };
            process.run(db.delete_series(deletion)).unwrap();
        }
    }
    let expected = plain.run(answers(&plain.db));
    let found = process.run(answers(&process.db));
    assert_same_answers(&found, &expected, "while they overlap");
    let (inside, around) = (bucket(1, 2), bucket(3, 0));
    process
        .run(process.db.repair_now(inside, around, None))
        .unwrap();
    assert_same_answers(&process.run(answers(&process.db)), &expected, "repaired");
    process.run(process.db.flush()).unwrap();
    process.close();
    world.check();
}
