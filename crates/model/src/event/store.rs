//! Where events and what is made of them is stored.
//!
//! Holds always:
//! - Blocks have growing sequence numbers, and are committed in their order.
//! - A batch is written as a whole or not at all.
//! - The journal keeps a block until a batch has said that it is sealed.

use std::ops::Range;

use bytes::Bytes;

use super::{Cell, CellKey, DimensionHash, EventId, EventWindow, Week};
use crate::{BoxFuture, CatalogChange, CatalogRecord, Commit, StoreError};

pub trait EventStore: Send + Sync {
    /// Appends the events of one request as one block of the journal. It becomes durable also when
    /// nobody waits for its commit. After an error nothing is appended; after an error of the
    /// commit it is not known whether the block is durable.
    fn append(&self, block: Vec<u8>) -> BoxFuture<'_, Result<AppendedEvents, StoreError>>;

    /// The blocks that the journal held when the store was opened and that are not sealed, in
    /// order, with their sequence numbers. Later calls get nothing.
    fn take_replayed(&self) -> Vec<(u64, Bytes)>;

    /// Writes all of a batch, or nothing of it. Durable when it returns. After an error it is not
    /// known whether it was written: a snapshot's mark says so.
    fn write(&self, batch: EventBatch) -> BoxFuture<'_, Result<(), StoreError>>;

    /// The state of now: everything that was written before, and nothing of what comes later.
    fn snapshot(&self) -> BoxFuture<'_, Result<Box<dyn EventSnapshot>, StoreError>>;

    /// Deletes the cells of a window and week, of all metrics or only of those that are named.
    fn drop_cells(
        &self,
        window: EventWindow,
        week: Week,
        metrics: Option<Vec<u32>>,
    ) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Forgets the identities of a week.
    fn drop_identities(&self, week: Week) -> BoxFuture<'_, Result<(), StoreError>>;

    /// The weeks that have cells of a window, oldest first.
    fn cell_weeks(&self, window: EventWindow) -> BoxFuture<'_, Result<Vec<Week>, StoreError>>;

    /// The weeks that have identities, oldest first.
    fn identity_weeks(&self) -> BoxFuture<'_, Result<Vec<Week>, StoreError>>;

    /// Files of events, beside the database on the same object store.
    fn files(&self) -> &dyn EventFileStore;

    /// The ids of the snapshots of the database that there are.
    fn kept(&self) -> BoxFuture<'_, Result<Vec<String>, StoreError>>;

    /// The state that a snapshot of the database keeps; `None` when it has gone.
    fn kept_state<'a>(
        &'a self,
        id: &'a str,
    ) -> BoxFuture<'a, Result<Option<Box<dyn EventSnapshot>>, StoreError>>;

    /// Tells this opening for writing from all others.
    fn epoch(&self) -> u64;

    /// The time by which everything is dropped, hidden or left out for its age, by
    /// [`GuardedClock`](crate::GuardedClock).
    fn guarded_ms(&self) -> i64;
}

/// A block that is on its way into the store.
#[must_use = "whether a block is durable is known by waiting for it"]
pub struct AppendedEvents {
    pub seq: u64,
    pub commit: Commit,
}

/// What is written at once.
#[derive(Clone, Debug, Default)]
pub struct EventBatch {
    /// Merged into what is there.
    pub cells: Vec<(CellKey, Cell)>,
    /// The events that were accepted, with the sequence numbers of their blocks.
    pub identities: Vec<(IdentityKey, u64)>,
    /// Records of the catalog.
    pub records: Vec<CatalogChange>,
    /// Blocks up to this one are in cells.
    pub flushed: Option<FlushMark>,
    /// Blocks up to this one are in files: the journal need not keep them.
    pub sealed: Option<u64>,
}

/// Who has published an event, and when it began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IdentityKey {
    pub week: Week,
    pub service: u32,
    pub event: EventId,
}

/// Up to where blocks are in cells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlushMark {
    pub generation: u64,
    pub seq: u64,
    pub registry_version: u64,
}

/// A state of the store that does not change.
pub trait EventSnapshot: Send + Sync {
    /// Up to where blocks are in cells.
    fn mark(&self) -> FlushMark;

    /// Up to where blocks are in files.
    fn sealed(&self) -> u64;

    /// The guarded time by which the store was kept: of another instance's as far as that has
    /// stored it, which it does every hour, and each minute while it catches up.
    fn guarded_ms(&self) -> i64;

    /// For each identity the sequence number of the block that has it.
    fn identities<'a>(
        &'a self,
        keys: &'a [IdentityKey],
    ) -> BoxFuture<'a, Result<Vec<Option<u64>>, StoreError>>;

    /// Cells of one metric in the order of their intervals, then of their dimensions.
    fn cells(&self, scan: CellScan) -> BoxFuture<'_, Result<Vec<StoredCell>, StoreError>>;

    /// Records of the catalog in key order, at most `limit`.
    fn records(
        &self,
        keys: Range<Vec<u8>>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<CatalogRecord>, StoreError>>;

    /// Blocks of events in order, with their sequence numbers: those after one and up to another,
    /// as far as they are in the journal. It is an error if they have more than `bytes_max` bytes.
    fn blocks(
        &self,
        after: u64,
        up_to: u64,
        bytes_max: usize,
    ) -> BoxFuture<'_, Result<Vec<(u64, Bytes)>, StoreError>>;
}

/// Which cells of a metric are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CellScan {
    pub window: EventWindow,
    pub metric: u32,
    /// When their intervals begin, in seconds.
    pub starts_s: Range<i64>,
    /// Go on behind this cell.
    pub after: Option<(i64, DimensionHash)>,
    /// The most cells that are returned.
    pub limit: usize,
}

/// A cell with its place among those of its metric and window.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredCell {
    pub start_s: i64,
    pub dimensions: DimensionHash,
    pub cell: Cell,
}

/// Files with names of ours on the object store, for example
/// `events/service=shop/week=2026w46/type=order.placed/17-42-3.parquet`.
pub trait EventFileStore: Send + Sync {
    /// Writes a file as a whole, in place of one with that name.
    fn put(&self, path: &str, content: Bytes) -> BoxFuture<'_, Result<(), StoreError>>;

    fn read(&self, path: &str, range: Range<u64>) -> BoxFuture<'_, Result<Bytes, StoreError>>;

    /// A file that is not there is fine. One that a snapshot of the database may need stays until
    /// that is gone: whoever compares the files that there are with those that are known deletes it
    /// again.
    fn delete(&self, path: &str) -> BoxFuture<'_, Result<(), StoreError>>;

    /// All files of events.
    fn list(&self) -> BoxFuture<'_, Result<Vec<EventFileInfo>, StoreError>>;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventFileInfo {
    pub path: String,
    pub bytes: u64,
    pub modified_ms: i64,
}
