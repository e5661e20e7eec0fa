//! Batches: all or nothing, marks that never go back, snapshots that stand still.

use icecore_model::CatalogChange;
use icecore_model::event::EventBatch;
use icecore_records::key;
use icecore_storage::testing::{Fault, FaultPlan, Hooks, Operation};

use super::*;
use crate::process::World;
use crate::support::until;

fn change(key: &[u8], value: Option<&str>) -> CatalogChange {
    CatalogChange {
        key: key.to_vec(),
        value: value.map(|value| value.as_bytes().to_vec()),
    }
}

fn records(process: &Process, snapshot: &dyn EventSnapshot) -> Vec<(Vec<u8>, Vec<u8>)> {
    let all = snapshot.records(vec![0x30]..vec![0x40], usize::MAX);
    process.run(all).unwrap()
}

/// A batch with something of everything.
fn full_batch(generation: u64, seq: u64) -> EventBatch {
    EventBatch {
        cells: (0..40).map(|n| counter(7, n * 5, 1, 1)).collect(),
        identities: (0..40).map(|n| (identity(0, n), seq)).collect(),
        records: vec![change(&[0x30, 1], Some("a")), change(&[0x31], Some("b"))],
        flushed: Some(mark(generation, seq)),
        sealed: Some(seq),
    }
}

#[test]
fn what_is_written_is_read() {
    let world = World::new();
    let process = world.start();
    let empty = snapshot(&process);
    assert_eq!((empty.mark(), empty.sealed()), (FlushMark::default(), 0));
    let seq = append(&process, &["block"])[0];
    write(&process, full_batch(1, seq)).unwrap();
    let batch = EventBatch {
        cells: vec![
            counter(7, 5, 1, 10),
            counter(7, 5, 2, 1),
            counter(8, 0, 1, 1),
        ],
        records: vec![change(&[0x30, 1], None), change(&[0x3f], Some("c"))],
        ..EventBatch::default()
    };
    write(&process, batch).unwrap();
    let check = |process: &Process| {
        let now = snapshot(process);
        assert_eq!((now.mark(), now.sealed()), (mark(1, seq), seq));
        let found = counts(process, &*now, 7);
        assert_eq!(&found[..4], [(0, 1, 1), (5, 1, 11), (5, 2, 1), (10, 1, 1)]);
        assert_eq!(found.len(), 41);
        assert_eq!(counts(process, &*now, 8), [(0, 1, 1)]);
        assert_eq!(counts(process, &*now, 9), []);
        let wanted = [identity(0, 3), identity(0, 40), identity(WEEK_S, 3)];
        assert_eq!(find(process, &*now, &wanted), [Some(seq), None, None]);
        let all = [(vec![0x31], b"b".to_vec()), (vec![0x3f], b"c".to_vec())];
        assert_eq!(records(process, &*now), all);
        let first = now.records(vec![0x30]..vec![0x40], 1);
        assert_eq!(process.run(first).unwrap(), all[..1]);
        let none = now.records(vec![0x32]..vec![0x31], 1);
        assert_eq!(process.run(none).unwrap(), []);
        assert!(process.run(now.records(vec![0x20]..vec![0x40], 1)).is_err());
        assert!(process.run(now.records(vec![0x30]..vec![0x41], 1)).is_err());
    };
    check(&process);
    assert_eq!(empty.mark(), FlushMark::default(), "it stands still");
    assert_eq!(counts(&process, &*empty, 7), []);
    assert_eq!(find(&process, &*empty, &[identity(0, 3)]), [None]);
    assert_eq!(records(&process, &*empty), []);
    drop(empty);
    process.crash();
    world.check();
    let process = world.start();
    check(&process);
    process.close();
    check(&world.start());
}

#[test]
fn a_batch_is_there_as_a_whole_or_not_at_all() {
    let mut fates = [0, 0];
    for puts in 0..4 {
        let world = World::new();
        let process = world.start();
        let seq = append(&process, &["block"])[0];
        process.faults.power_off_after(puts);
        let _ = process.run_until_off(store(&process).write(full_batch(1, seq)));
        process.crash();
        let process = world.start();
        let now = snapshot(&process);
        let written = now.mark().generation == 1;
        fates[usize::from(written)] += 1;
        assert_eq!(now.sealed(), if written { seq } else { 0 });
        let sizes = if written { (40, 2) } else { (0, 0) };
        assert_eq!(counts(&process, &*now, 7).len(), sizes.0, "{puts} puts");
        assert_eq!(records(&process, &*now).len(), sizes.1);
        let found = find(&process, &*now, &[identity(0, 39)]);
        assert_eq!(found, [written.then_some(seq)]);
        assert_eq!(replayed(&process).is_empty(), written);
        process.crash();
        world.check();
    }
    assert!(fates[0] > 0 && fates[1] > 0, "{fates:?}");
}

#[test]
fn what_contradicts_the_store_is_refused_as_a_whole() {
    let world = World::new();
    let process = world.start();
    let seqs = append(&process, &["one", "two"]);
    write(&process, full_batch(3, seqs[1])).unwrap();
    let (cell, off_grid) = (counter(7, 0, 1, 1), counter(7, 1, 1, 1));
    let batch = || EventBatch {
        cells: vec![cell.clone()],
        ..EventBatch::default()
    };
    let long_key = vec![0x30; (32 << 10) + 1];
    let cases = [
        (
            "goes back",
            EventBatch {
                flushed: Some(mark(2, seqs[1])),
                ..batch()
            },
        ),
        (
            "goes back",
            EventBatch {
                flushed: Some(mark(4, seqs[0])),
                ..batch()
            },
        ),
        (
            "sealed up to",
            EventBatch {
                sealed: Some(seqs[0]),
                ..batch()
            },
        ),
        (
            "the last is",
            EventBatch {
                sealed: Some(seqs[1] + 1),
                ..batch()
            },
        ),
        (
            "the last is",
            EventBatch {
                flushed: Some(mark(4, 99)),
                ..batch()
            },
        ),
        (
            "begins where",
            EventBatch {
                cells: vec![cell.clone(), off_grid],
                ..batch()
            },
        ),
        (
            "another's",
            EventBatch {
                records: vec![change(&[0x20], None)],
                ..batch()
            },
        ),
        (
            "another's",
            EventBatch {
                records: vec![change(&[0x40], None)],
                ..batch()
            },
        ),
        (
            "another's",
            EventBatch {
                records: vec![change(&[], None)],
                ..batch()
            },
        ),
        (
            "too long",
            EventBatch {
                records: vec![change(&long_key, None)],
                ..batch()
            },
        ),
    ];
    for (reason, batch) in cases {
        let refused = write(&process, batch.clone()).unwrap_err();
        assert!(refused.contains(reason), "{refused}: {batch:?}");
    }
    let now = snapshot(&process);
    assert_eq!(
        counts(&process, &*now, 7)[0],
        (0, 1, 1),
        "nothing was added"
    );
    // The same mark is fine: a change that is no flush keeps it.
    write(
        &process,
        EventBatch {
            flushed: Some(mark(3, seqs[1])),
            ..batch()
        },
    )
    .unwrap();
    write(&process, EventBatch::default()).unwrap();
}

#[test]
fn a_batch_waits_for_its_blocks() {
    let world = World::new();
    let process = world.start();
    append(&process, &["one"]);
    let faults = &process.faults;
    faults.script(Operation::Put, "", Fault::NotApplied, usize::MAX);
    let store = store(&process);
    let appended = process.run(store.append(b"two".to_vec())).unwrap();
    let batch = EventBatch {
        flushed: Some(mark(1, appended.seq)),
        ..EventBatch::default()
    };
    let mut writing = store.write(batch);
    let refused = faults.counts().not_applied;
    process.run(async {
        // The block was tried again, and then once more.
        let tried = until("the block is not stored", || {
            faults.counts().not_applied >= refused + 2
        });
        tokio::select! {
            _ = &mut writing => panic!("it does not wait"),
            () = tried => {}
        }
    });
    assert_eq!(
        snapshot(&process).mark(),
        FlushMark::default(),
        "not visible"
    );
    faults.end_script();
    process.run(writing).unwrap();
    assert_eq!(snapshot(&process).mark(), mark(1, appended.seq));
}

#[test]
fn scans_go_on_where_they_ended() {
    let world = World::new();
    let process = world.start();
    let places = [0, 5, WEEK_S - 5, WEEK_S, 2 * WEEK_S + 10, 9 * WEEK_S];
    let all = places.iter().flat_map(|at| (1..=3).map(|n| (*at, n)));
    let all: Vec<(i64, u8)> = all.collect();
    let cells_of = |metric| {
        let cells = all.iter().map(move |(at, n)| counter(metric, *at, *n, 1));
        cells.collect::<Vec<_>>()
    };
    let batch = EventBatch {
        cells: [cells_of(6), cells_of(7), cells_of(8)].concat(),
        ..EventBatch::default()
    };
    write(&process, batch).unwrap();
    let now = snapshot(&process);
    let place = |stored: &StoredCell| (stored.start_s - WEEK0_S, stored.dimensions.0[0]);
    let ranges = [
        i64::MIN..i64::MAX,
        WEEK0_S..WEEK0_S + 9 * WEEK_S,
        WEEK0_S + 5..WEEK0_S + WEEK_S,
        WEEK0_S + 1..WEEK0_S + WEEK_S + 1,
        WEEK0_S + 3 * WEEK_S..WEEK0_S + 9 * WEEK_S,
        WEEK0_S..WEEK0_S,
        0..1,
    ];
    for range in ranges {
        let within = |(at, _): &&(i64, u8)| range.contains(&(WEEK0_S + at));
        let wanted: Vec<(i64, u8)> = all.iter().filter(within).copied().collect();
        for limit in [1, 2, 4, 100] {
            let (mut found, mut after) = (Vec::new(), None);
            loop {
                let scan = CellScan {
                    after,
                    limit,
                    ..scan(7, range.clone())
                };
                let page = cells(&process, &*now, scan);
                assert!(page.len() <= limit);
                let Some(last) = page.last() else { break };
                after = Some((last.start_s, last.dimensions));
                found.extend(page.iter().map(place));
            }
            assert_eq!(found, wanted, "{range:?}, {limit} at once");
        }
    }
    let none = CellScan {
        limit: 0,
        ..scan(7, i64::MIN..i64::MAX)
    };
    assert_eq!(cells(&process, &*now, none), []);
}

#[test]
fn merges_add_up_through_files_compaction_and_restarts() {
    let world = World::new();
    let mut process = world.start();
    for round in 1..=12 {
        let batch = EventBatch {
            cells: (0..20).map(|n| counter(7, n * 5, 1, n)).collect(),
            flushed: Some(mark(round, 0)),
            ..EventBatch::default()
        };
        write(&process, batch).unwrap();
        match round % 4 {
            0 => process.run(process.db.write_memtables()).unwrap(),
            1 => {
                process.crash();
                process = world.start();
            }
            2 => process.run(process.db.run_maintenance()).map(drop).unwrap(),
            _ => {}
        }
        let wanted: Vec<(i64, u8, i64)> = (0..20)
            .map(|n| (n * 5, 1, n * i64::try_from(round).unwrap()))
            .collect();
        let now = snapshot(&process);
        assert_eq!(counts(&process, &*now, 7), wanted, "round {round}");
    }
    process.close();
    world.check();
}

#[test]
fn what_cannot_be_read_is_named() {
    let world = World::new();
    let process = world.start();
    let (cell, _) = counter(7, 0, 1, 1);
    let cell_key = key::event_cell(&cell).unwrap();
    let identity_key = key::event_identity(&identity(0, 1));
    let junk = || Some(bytes::Bytes::from_static(b"\xff\xff"));
    let damage = vec![(cell_key.clone(), junk()), (identity_key.clone(), junk())];
    process.run(process.db.replace_records(damage)).unwrap();
    let now = snapshot(&process);
    let told = process.run(now.cells(scan(7, i64::MIN..i64::MAX)));
    let told = told.unwrap_err().to_string();
    assert!(told.contains(&hex::encode(&cell_key)), "{told}");
    assert!(told.contains("metric 7"), "{told}");
    let told = process.run(now.identities(&[identity(0, 1)]));
    let told = told.unwrap_err().to_string();
    assert!(told.contains(&hex::encode(&identity_key)), "{told}");
    drop(now);
    let damage = vec![(key::event_mark(), junk())];
    process.run(process.db.replace_records(damage)).unwrap();
    let told = process.run(store(&process).snapshot());
    let told = told.map(|_| ()).unwrap_err().to_string();
    assert!(told.contains("flush mark of events"), "{told}");
    process.crash();
    let report = world.checked();
    let wrong: Vec<&[u8]> = report.problems.iter().map(|p| p.key.as_slice()).collect();
    assert_eq!(report.problems_total, 3, "{wrong:?}");
    for key in [cell_key, identity_key, key::event_mark()] {
        assert!(wrong.contains(&&key[..]), "{key:?}");
    }
    assert_eq!(
        (report.counts.event_cells, report.counts.event_identities),
        (1, 1)
    );
}

#[test]
fn a_failing_store_delays_a_batch_and_does_not_repeat_it() {
    let world = World::new();
    let plan = FaultPlan {
        not_applied_and_error: 0.15,
        applied_but_error: 0.15,
        ..FaultPlan::quiet(5)
    };
    let process = world.start_quietly(plan);
    process.faults.set_enabled(true);
    for generation in 1..=3 {
        let seq = append(&process, &["block"])[0];
        write(&process, full_batch(generation, seq)).unwrap();
    }
    process.faults.set_enabled(false);
    let wanted: Vec<(i64, u8, i64)> = (0..40).map(|n| (n * 5, 1, 3)).collect();
    assert_eq!(counts(&process, &*snapshot(&process), 7), wanted);
    process.crash();
    let process = world.start();
    assert_eq!(counts(&process, &*snapshot(&process), 7), wanted);
}
