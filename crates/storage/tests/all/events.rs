//! Events: blocks in the journal, batches that are written as a whole, weeks that go, files.

mod batches;
mod blocks;
mod cell_cache;
mod files;
mod model;
mod shards;
mod weeks;

use std::ops::Range;
use std::sync::Arc;

use icecore_model::event::{
    Cell, CellKey, CellScan, CounterCell, DimensionHash, EventBatch, EventId, EventSnapshot,
    EventStore, EventWindow, FlushMark, IdentityKey, StoredCell, Week,
};

use crate::process::Process;

/// A Monday.
const WEEK0_S: i64 = 1_794_182_400;
const WEEK_S: i64 = 7 * 86_400;

fn store(process: &Process) -> Arc<dyn EventStore> {
    process.db.events()
}

/// Appends blocks one after the other, and returns their sequence numbers when all are durable.
fn append(process: &Process, blocks: &[&str]) -> Vec<u64> {
    let store = store(process);
    let appended = blocks.iter().map(|block| {
        process.run(async {
            let appended = store.append(block.as_bytes().to_vec()).await.unwrap();
            appended.commit.await.unwrap();
            appended.seq
        })
    });
    appended.collect()
}

fn replayed(process: &Process) -> Vec<(u64, String)> {
    let blocks = store(process).take_replayed().into_iter();
    blocks
        .map(|(seq, block)| (seq, String::from_utf8(block.to_vec()).unwrap()))
        .collect()
}

fn write(process: &Process, batch: EventBatch) -> Result<(), String> {
    let written = process.run(store(process).write(batch));
    written.map_err(|error| error.to_string())
}

fn snapshot(process: &Process) -> Box<dyn EventSnapshot> {
    process.run(store(process).snapshot()).unwrap()
}

fn mark(generation: u64, seq: u64) -> FlushMark {
    FlushMark {
        generation,
        seq,
        registry_version: 1,
    }
}

fn dimensions(n: u8) -> DimensionHash {
    DimensionHash([n; 16])
}

/// A counter of a metric and 5 s interval that begins so many seconds after the first week.
fn counter(metric: u32, after_s: i64, n: u8, count: i64) -> (CellKey, Cell) {
    let key = CellKey {
        window: EventWindow::FiveSeconds,
        metric,
        start_s: WEEK0_S + after_s,
        dimensions: dimensions(n),
    };
    let cell = CounterCell {
        first_s: key.start_s,
        count,
        sum: count as f64 / 2.0,
    };
    (key, Cell::Counter(cell))
}

fn identity(after_s: i64, n: u8) -> IdentityKey {
    IdentityKey {
        week: Week::of(WEEK0_S + after_s),
        service: 1,
        event: EventId([n; 16]),
    }
}

fn scan(metric: u32, starts_s: Range<i64>) -> CellScan {
    CellScan {
        window: EventWindow::FiveSeconds,
        metric,
        starts_s,
        after: None,
        limit: usize::MAX,
    }
}

fn cells(process: &Process, snapshot: &dyn EventSnapshot, scan: CellScan) -> Vec<StoredCell> {
    process.run(snapshot.cells(scan)).unwrap()
}

/// All counts of a metric: seconds after the first week, dimensions, count.
fn counts(process: &Process, snapshot: &dyn EventSnapshot, metric: u32) -> Vec<(i64, u8, i64)> {
    let found = cells(process, snapshot, scan(metric, i64::MIN..i64::MAX));
    let counts = found.into_iter().map(|stored| match stored.cell {
        Cell::Counter(cell) => (stored.start_s - WEEK0_S, stored.dimensions.0[0], cell.count),
        other => panic!("{other:?}"),
    });
    counts.collect()
}

fn find(
    process: &Process,
    snapshot: &dyn EventSnapshot,
    identities: &[IdentityKey],
) -> Vec<Option<u64>> {
    process.run(snapshot.identities(identities)).unwrap()
}
