//! Events as the store sees them: blocks of a journal, cells of five windows, identities, files.
//!
//! ```text
//! request ─► append: one block of the journal ─► folded into a generation ─► write: cells, mark
//!                        └──────────────────────► tail ─► file ─► write: record of file, sealed
//! ```
//!
//! What an event is, and how cells come from it, is known to the crate `events` alone.

mod cell;
mod shard;
mod store;
mod window;

pub use cell::{
    Cell, CellExemplar, CellMismatch, CounterCell, GaugeCell, HistogramCell, Reducer, SketchCounts,
};
pub use shard::EventShard;
pub use store::{
    AppendedEvents, CellScan, EventBatch, EventFileInfo, EventFileStore, EventSnapshot, EventStore,
    FlushMark, IdentityKey, StoredCell,
};
pub use window::{EventWindow, Week};

/// The identity of an event: a UUID.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventId(pub [u8; 16]);

/// The hash of the values that a cell belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DimensionHash(pub [u8; 16]);

/// Which cell: a metric's values in one interval, for one set of dimension values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CellKey {
    pub window: EventWindow,
    /// Never given to two metrics.
    pub metric: u32,
    /// The start of the interval in seconds, on the grid of the window.
    pub start_s: i64,
    pub dimensions: DimensionHash,
}
