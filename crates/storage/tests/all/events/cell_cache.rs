//! Cells are the same with and without what is kept of them in memory, whatever is written, dropped
//! and read meanwhile.
//!
//! A failing seed is printed; `ICECORE_CELL_CACHE_SEED=n` repeats it.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use icecore_model::event::EventBatch;
use icecore_storage::testing::Hooks;
use tokio::sync::Notify;

use super::*;
use crate::faults::Dice;
use crate::process::World;

const SEEDS: u64 = 12;
const STEPS: u64 = 60;

/// Batches that are written while states are read, and from one after which the writer waits for a
/// read to the next.
const BATCHES: u64 = 200;
const BATCHES_BETWEEN: u64 = 20;
const WINDOWS: [EventWindow; 4] = [
    EventWindow::FiveSeconds,
    EventWindow::Minute,
    EventWindow::Hour,
    EventWindow::Week,
];

fn start(cache_bytes: usize) -> Process {
    let mut world = World::new();
    world.options.read.chunk_cache_bytes = cache_bytes;
    // A week that is dropped goes at once.
    world.options.store.compaction = false;
    world.start()
}

fn hits(process: &Process) -> (u64, u64) {
    let metrics = process.db.metrics();
    let (hits, misses) = (
        &metrics.event_cell_cache_hits,
        &metrics.event_cell_cache_misses,
    );
    (hits.get(), misses.get())
}

#[test]
fn what_was_read_is_not_read_again_until_it_changes() {
    let process = start(1 << 20);
    let cells = |after_s: i64| (0..20).map(move |n| counter(7, after_s + n * 5, 1, 1));
    let batch = |after_s| EventBatch {
        cells: cells(after_s).collect(),
        ..EventBatch::default()
    };
    write(&process, batch(0)).unwrap();
    write(&process, batch(3_600)).unwrap();
    let first = counts(&process, &*snapshot(&process), 7);
    assert_eq!((first.len(), hits(&process)), (40, (0, 40)));
    assert_eq!(counts(&process, &*snapshot(&process), 7), first);
    assert_eq!(hits(&process), (40, 40));
    assert!(process.db.gauges().event_cell_cache_bytes > 40 * 20);
    // A late event: one minute of the first hour is read anew.
    let late = EventBatch {
        cells: vec![counter(7, 60, 1, 5)],
        ..EventBatch::default()
    };
    let before = snapshot(&process);
    write(&process, late).unwrap();
    let now = counts(&process, &*snapshot(&process), 7);
    assert_eq!(now[12], (60, 1, 6));
    assert_eq!(hits(&process), (72, 48));
    assert_eq!(counts(&process, &*before, 7), first, "it stands still");
    assert_eq!(counts(&process, &*snapshot(&process), 7), now);
}

#[test]
fn answers_do_not_depend_on_what_is_kept() {
    let seed = std::env::var("ICECORE_CELL_CACHE_SEED").ok();
    let seeds = match seed.and_then(|seed| seed.parse::<u64>().ok()) {
        Some(seed) => seed..seed + 1,
        None => 0..SEEDS,
    };
    for seed in seeds {
        let survived = std::panic::catch_unwind(|| run_seed(seed));
        assert!(survived.is_ok(), "ICECORE_CELL_CACHE_SEED={seed} fails");
    }
}

fn run_seed(seed: u64) {
    let mut dice = Dice(seed);
    // The second has room for some spans, none of them large.
    let bytes = [128 << 20, 4_000, 30_000][dice.below(3) as usize];
    let pair = [start(bytes), start(0)];
    let mut held: Vec<[Box<dyn EventSnapshot>; 2]> = Vec::new();
    for _ in 0..STEPS {
        match dice.below(12) {
            0..=3 => {
                let cells: Vec<_> = (0..dice.below(60)).map(|_| cell(&mut dice)).collect();
                for process in &pair {
                    let batch = EventBatch {
                        cells: cells.clone(),
                        ..EventBatch::default()
                    };
                    write(process, batch).unwrap();
                }
            }
            4 => {
                let window = WINDOWS[dice.below(4) as usize];
                let week = Week::of(WEEK0_S + dice.below(3) as i64 * WEEK_S);
                let metrics = (dice.below(3) > 0).then(|| vec![7]);
                if metrics.is_none() {
                    held.clear();
                }
                for process in &pair {
                    let store = store(process);
                    let dropping = store.drop_cells(window, week, metrics.clone());
                    process.run(dropping).unwrap();
                }
            }
            5 if held.len() < 3 => held.push([snapshot(&pair[0]), snapshot(&pair[1])]),
            6 if !held.is_empty() => {
                held.swap_remove(dice.below(held.len() as u64) as usize);
            }
            7 => pair.iter().for_each(|process| {
                process.run(process.db.write_memtables()).unwrap();
            }),
            _ => {
                let scan = random_scan(&mut dice);
                let at = dice.below(held.len() as u64 + 1) as usize;
                let now;
                let states = match held.get(at) {
                    Some(states) => states,
                    None => {
                        now = [snapshot(&pair[0]), snapshot(&pair[1])];
                        &now
                    }
                };
                let found = all_pages(&pair[0], &*states[0], scan.clone());
                let expected = all_pages(&pair[1], &*states[1], scan.clone());
                assert_eq!(found, expected, "{scan:?}");
                let used = pair[0].db.gauges().chunk_cache_bytes;
                assert!(used <= bytes, "{used} bytes are kept, {bytes} allowed");
            }
        }
    }
    assert_eq!(hits(&pair[1]).0, 0, "it keeps nothing");
    drop(held);
}

/// Some cells share spans, and some share keys.
fn cell(dice: &mut Dice) -> (CellKey, Cell) {
    let window = WINDOWS[dice.below(4) as usize];
    let at_s =
        dice.below(3) as i64 * WEEK_S + dice.below(3) as i64 * 86_400 + dice.below(900) as i64;
    let (mut key, cell) = counter(
        [7, 7, 7, 8][dice.below(4) as usize],
        0,
        dice.below(40) as u8,
        dice.below(9) as i64,
    );
    key.window = window;
    key.start_s = window.start_of(WEEK0_S + at_s);
    (key, cell)
}

fn random_scan(dice: &mut Dice) -> CellScan {
    let from_s = WEEK0_S - 100 + dice.below(3) as i64 * WEEK_S + dice.below(86_400) as i64 / 50;
    let lengths = [5, 60, 400, 7_200, 90_000, 2 * WEEK_S, 8 * WEEK_S];
    let length_s = lengths[dice.below(7) as usize];
    CellScan {
        window: WINDOWS[dice.below(4) as usize],
        metric: [7, 8, 9][dice.below(3) as usize],
        starts_s: from_s..from_s + length_s,
        after: None,
        limit: [1, 3, 17, 100_000][dice.below(4) as usize],
    }
}

/// All cells of a scan, page by page.
fn all_pages(
    process: &Process,
    snapshot: &dyn EventSnapshot,
    mut scan: CellScan,
) -> Vec<StoredCell> {
    let mut all = Vec::new();
    loop {
        let page = cells(process, snapshot, scan.clone());
        assert!(page.len() <= scan.limit);
        let last = page.last().map(|last| (last.start_s, last.dimensions));
        let is_full = page.len() == scan.limit;
        all.extend(page);
        if !is_full {
            return all;
        }
        scan.after = last;
    }
}

/// While batches are written, each state has as many counts as its mark says, also where they come
/// out of memory. Most reads are overtaken by writes and keep nothing; for some the writer waits.
#[test]
fn a_state_has_what_its_mark_says_while_batches_are_written() {
    let process = start(1 << 20);
    let seq = append(&process, &["one"])[0];
    let store = store(&process);
    let is_over = AtomicBool::new(false);
    let (writer_waits, was_read) = (AtomicBool::new(false), Notify::new());
    let write = async {
        for generation in 1..=BATCHES {
            let batch = EventBatch {
                cells: vec![counter(7, 0, 1, 1), counter(7, 86_400, 1, 1)],
                flushed: Some(mark(generation, seq)),
                ..EventBatch::default()
            };
            store.write(batch).await.unwrap();
            if generation.is_multiple_of(BATCHES_BETWEEN) {
                writer_waits.store(true, SeqCst);
                was_read.notified().await;
            }
        }
        is_over.store(true, SeqCst);
    };
    let read = async {
        let mut undisturbed = 0;
        while !is_over.load(SeqCst) {
            let is_undisturbed = writer_waits.load(SeqCst);
            let now = store.snapshot().await.unwrap();
            let expected = i64::try_from(now.mark().generation).unwrap();
            for pass in 0..2 {
                let hits_before = hits(&process).0;
                let found = now.cells(scan(7, i64::MIN..i64::MAX)).await.unwrap();
                assert_eq!(found.len(), if expected == 0 { 0 } else { 2 });
                for stored in found {
                    let Cell::Counter(cell) = stored.cell else {
                        panic!("{stored:?}");
                    };
                    assert_eq!(cell.count, expected);
                }
                if is_undisturbed && pass == 1 {
                    assert_eq!(hits(&process).0, hits_before + 2, "it was kept");
                }
            }
            if is_undisturbed {
                undisturbed += 1;
                writer_waits.store(false, SeqCst);
                was_read.notify_one();
            }
            tokio::task::yield_now().await;
        }
        undisturbed
    };
    let ((), undisturbed) = process.run(async { tokio::join!(write, read) });
    assert_eq!(undisturbed, BATCHES / BATCHES_BETWEEN);
}
