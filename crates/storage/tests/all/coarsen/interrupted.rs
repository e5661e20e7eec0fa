//! A job that is cut off before any of its writes and gone on with ends in the same bytes.

use icecore_records::{bucket_list, key};
use icecore_storage::testing::Hooks;

use super::*;

/// Fewest writes of a job in small steps.
const WRITES_MIN: u64 = 20;

#[test]
fn a_job_can_be_cut_before_every_write() {
    let store = store_with_hours(0..4);
    let target = bucket(3, 0);
    let process = world_of(&store).start();
    let content = process.run(process.db.stored_content()).unwrap();
    process
        .run(process.db.coarsen_now(3, WINDOW, None))
        .unwrap();
    let expected = records_of(&process, target);
    process.crash();

    let mut writes = 0;
    loop {
        let when = format!("cut before write {writes}");
        let world = world_of(&store);
        let process = world.start();
        let whole = process.run(process.db.coarsen_now(3, WINDOW, Some(writes)));
        if whole.is_err() {
            assert_eq!(process.db.listed().len(), 4, "{when}");
            assert_eq!(
                process.run(process.db.stored_content()).unwrap(),
                content,
                "{when}"
            );
        }
        // With the WAL written out and without.
        match writes % 2 {
            0 => process.close(),
            _ => process.crash(),
        }
        let process = world.start();
        if whole.is_err() {
            let outcome = process
                .run(process.db.coarsen_now(3, WINDOW, None))
                .unwrap();
            // The record of the job is durable before anything else is written.
            assert_eq!(outcome.resumed, writes > 0, "{when}");
        }
        assert_eq!(process.db.listed(), [target], "{when}");
        assert_same_records(&records_of(&process, target), &expected, &when);
        if whole.is_ok() {
            break;
        }
        writes += 1;
    }
    assert!(writes >= WRITES_MIN, "only {writes} writes");
    eprintln!("a job was cut before each of its {writes} writes");
}

/// An hour that was written to after the job began makes the job start over.
#[test]
fn a_source_that_changed_starts_the_job_over() {
    let store = store_with_hours(0..4);
    let target = bucket(3, 0);
    let change = |process: &Process| {
        let late = vec![
            Entry::float("regular", hour_ms(1) + 1, 5.0),
            Entry::float("bbb", hour_ms(1) + 1, 6.0),
        ];
        process.run(request(&process.db, late)).unwrap();
        process.run(process.db.flush_buckets()).unwrap();
    };
    let process = world_of(&store).start();
    change(&process);
    process
        .run(process.db.coarsen_now(3, WINDOW, None))
        .unwrap();
    let expected = records_of(&process, target);
    process.crash();

    let process = world_of(&store).start();
    let cut = process.run(process.db.coarsen_now(3, WINDOW, Some(WRITES_MIN)));
    assert!(cut.is_err());
    change(&process);
    let outcome = process
        .run(process.db.coarsen_now(3, WINDOW, None))
        .unwrap();
    assert!(!outcome.resumed);
    assert_same_records(&records_of(&process, target), &expected, "after the change");

    // A job for another target does not stand in the way either.
    let process = world_of(&store).start();
    let cut = process.run(process.db.coarsen_now(2, bucket(2, 2).start, Some(5)));
    assert!(cut.is_err());
    change(&process);
    process
        .run(process.db.coarsen_now(3, WINDOW, None))
        .unwrap();
    assert_same_records(
        &records_of(&process, target),
        &expected,
        "after another job",
    );
    assert!(records_of(&process, bucket(2, 2)).is_empty());
}

/// The store goes away at any put of a job, the one that would make its commit durable included:
/// what the process takes for listed is what it would read, and the next process has every sample.
#[test]
fn the_list_in_memory_is_the_one_that_is_read() {
    let store = store_with_hours(0..4);
    let expected = {
        let process = world_of(&store).start();
        process.run(process.db.stored_content()).unwrap()
    };
    let hours: Vec<Bucket> = (0..4).map(|hour| bucket(1, hour)).collect();
    for puts in 0..40 {
        let mut world = world_of(&store);
        world.options.store.retries_max = 1;
        world.options.store.compaction = false;
        let process = world.start();
        process.faults.power_off_after(puts);
        let coarsened = process.run(process.db.coarsen_now(3, WINDOW, None));
        let listed = process.db.listed();
        let list = key::bucket_list();
        if let Ok(found) = process.run(process.db.records(&list)) {
            let stored = bucket_list::decode(&found[0].1).unwrap();
            assert_eq!(listed, Vec::from_iter(stored), "{puts} puts, {coarsened:?}");
        }
        assert!(listed == hours || listed == [bucket(3, 0)], "{listed:?}");
        let done = coarsened.is_ok();
        process.crash();
        let world = World::over(Arc::new(world.memory().fork()));
        let process = world.start();
        let found = process.run(process.db.stored_content()).unwrap();
        assert_eq!(found, expected, "{puts} puts");
        if done {
            return;
        }
    }
    panic!("the job needs more than 40 puts");
}
