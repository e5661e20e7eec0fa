//! Weeks: which there are, and that they go as a whole and stay gone.

use std::time::Duration;

use icecore_model::event::EventBatch;
use icecore_storage::testing::Hooks;

use super::*;
use crate::process::World;

fn week(n: i64) -> Week {
    Week::of(WEEK0_S + n * WEEK_S)
}

/// Three weeks with cells of two metrics and an identity each.
fn three_weeks() -> EventBatch {
    let weeks = [0, WEEK_S, 2 * WEEK_S];
    EventBatch {
        cells: weeks
            .iter()
            .flat_map(|at| [counter(7, *at, 1, 1), counter(8, *at, 1, 1)])
            .collect(),
        identities: weeks.iter().map(|at| (identity(*at, 1), 0)).collect(),
        ..EventBatch::default()
    }
}

fn cell_weeks(process: &Process, window: EventWindow) -> Vec<Week> {
    process.run(store(process).cell_weeks(window)).unwrap()
}

fn identity_weeks(process: &Process) -> Vec<Week> {
    process.run(store(process).identity_weeks()).unwrap()
}

fn drop_cells(process: &Process, n: i64, metrics: Option<Vec<u32>>) {
    let store = store(process);
    let dropped = store.drop_cells(EventWindow::FiveSeconds, week(n), metrics);
    process.run(dropped).unwrap();
}

fn drop_weeks(compaction: bool) {
    let mut world = World::new();
    world.options.store.compaction = compaction;
    let process = world.start();
    assert_eq!(cell_weeks(&process, EventWindow::FiveSeconds), []);
    write(&process, three_weeks()).unwrap();
    let all = [week(0), week(1), week(2)];
    for in_files in [false, true] {
        if in_files {
            process.run(process.db.write_memtables()).unwrap();
        }
        assert_eq!(cell_weeks(&process, EventWindow::FiveSeconds), all);
        assert_eq!(cell_weeks(&process, EventWindow::Week), []);
        assert_eq!(identity_weeks(&process), all);
    }
    drop_cells(&process, 1, None);
    let check = |process: &Process| {
        let kept = [week(0), week(2)];
        assert_eq!(cell_weeks(process, EventWindow::FiveSeconds), kept);
        assert_eq!(identity_weeks(process), all, "they are apart");
        let now = snapshot(process);
        for metric in [7, 8] {
            let kept = [(0, 1, 1), (2 * WEEK_S, 1, 1)];
            assert_eq!(counts(process, &*now, metric), kept);
        }
    };
    check(&process);
    process.crash();
    let process = world.start();
    check(&process);

    // What comes later stays, also when the compactor has dropped another week since.
    let late = EventBatch {
        cells: vec![counter(7, WEEK_S, 1, 5), counter(7, 4 * WEEK_S, 1, 1)],
        ..EventBatch::default()
    };
    write(&process, late).unwrap();
    process.run(process.db.write_memtables()).unwrap();
    drop_cells(&process, 4, None);
    let now = counts(&process, &*snapshot(&process), 7);
    assert_eq!(now, [(0, 1, 1), (WEEK_S, 1, 5), (2 * WEEK_S, 1, 1)]);
    assert_eq!(cell_weeks(&process, EventWindow::FiveSeconds), all);

    process
        .run(store(&process).drop_identities(week(0)))
        .unwrap();
    assert_eq!(identity_weeks(&process), all[1..]);
    let wanted = [identity(0, 1), identity(WEEK_S, 1)];
    let found = find(&process, &*snapshot(&process), &wanted);
    assert_eq!(found, [None, Some(0)]);
    // A week that is not there is fine.
    drop_cells(&process, 5, None);
    process
        .run(store(&process).drop_identities(week(5)))
        .unwrap();
    process.close();
    world.check();
}

#[test]
fn weeks_go_as_a_whole() {
    drop_weeks(true);
}

#[test]
fn weeks_go_without_a_compactor() {
    drop_weeks(false);
}

#[test]
fn some_metrics_of_a_week_go() {
    let world = World::new();
    let process = world.start();
    let many = EventBatch {
        cells: (0..5000).map(|n| counter(9, n * 5, 1, 1)).collect(),
        ..EventBatch::default()
    };
    write(&process, three_weeks()).unwrap();
    write(&process, many).unwrap();
    let before = snapshot(&process);
    drop_cells(&process, 0, Some(vec![7, 9, 11]));
    let now = snapshot(&process);
    assert_eq!(counts(&process, &*now, 9), []);
    assert_eq!(
        counts(&process, &*now, 7),
        [(WEEK_S, 1, 1), (2 * WEEK_S, 1, 1)]
    );
    assert_eq!(counts(&process, &*now, 8).len(), 3);
    assert_eq!(counts(&process, &*before, 9).len(), 5000, "it stands still");
    drop((before, now));
    process.crash();
    let process = world.start();
    assert_eq!(counts(&process, &*snapshot(&process), 9), []);
    let again = EventBatch {
        cells: vec![counter(9, 0, 1, 3)],
        ..EventBatch::default()
    };
    write(&process, again).unwrap();
    process.run(process.db.write_memtables()).unwrap();
    assert_eq!(counts(&process, &*snapshot(&process), 9), [(0, 1, 3)]);
}

/// A drop waits for who reads, and writers of the week wait for the drop.
#[test]
fn a_snapshot_is_waited_for() {
    let world = World::new();
    let process = world.start();
    write(&process, three_weeks()).unwrap();
    let before = snapshot(&process);
    let store = store(&process);
    let mut dropping = store.drop_cells(EventWindow::FiveSeconds, week(0), None);
    let soon = Duration::from_millis(300);
    let early = process.run(async { tokio::time::timeout(soon, &mut dropping).await });
    assert!(early.is_err());
    assert_eq!(counts(&process, &*before, 7).len(), 3);
    let late = EventBatch {
        cells: vec![counter(7, 0, 2, 9)],
        ..EventBatch::default()
    };
    let mut writing = store.write(late);
    let early = process.run(async { tokio::time::timeout(soon, &mut writing).await });
    assert!(early.is_err());
    // Another week is free.
    let other = EventBatch {
        cells: vec![counter(7, WEEK_S, 1, 1)],
        ..EventBatch::default()
    };
    write(&process, other).unwrap();
    drop(before);
    process.run(dropping).unwrap();
    process.run(writing).unwrap();
    let now = snapshot(&process);
    let found = counts(&process, &*now, 7);
    assert_eq!(found, [(0, 2, 9), (WEEK_S, 1, 2), (2 * WEEK_S, 1, 1)]);
    assert_eq!(counts(&process, &*now, 8).len(), 2);
}
