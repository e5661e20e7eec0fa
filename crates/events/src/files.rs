//! Files of events: what the crate that knows their format has to do.
//!
//! Holds always:
//! - A file has events of one service, type and week, sorted by start, then by id.
//! - What is read from a file is what was written, event by event.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use icecore_model::event::EventId;
use icecore_model::{BoxFuture, StoreError};

use crate::query::Condition;
use crate::{Field, StoredEvent};

/// How events are kept in files.
pub trait FileFormat: Send + Sync {
    /// The ending of file names.
    fn extension(&self) -> &'static str;

    /// Begins a file with a typed column for each of the indexed attributes.
    fn begin(&self, indexed: &[Field], size: FileSize) -> Result<Box<dyn FileWriter>, StoreError>;

    /// The bytes of a file of events that come in any order. CPU work: not to be called on an async
    /// worker.
    fn encode(&self, indexed: &[Field], events: &[StoredEvent<'_>]) -> Result<Vec<u8>, StoreError> {
        let mut rows: Vec<&StoredEvent<'_>> = events.iter().collect();
        // Usually they are sorted: a stable sort finds that out in one pass.
        rows.sort_by_key(|event| (event.started_ns, event.id));
        let size = FileSize {
            events: rows.len(),
            bytes: 0,
        };
        let mut writer = self.begin(indexed, size)?;
        writer.push(&rows)?;
        writer.finish()
    }

    /// Begins to read a file.
    fn open<'a>(
        &'a self,
        file: FileBytes,
        scan: FileScan,
    ) -> BoxFuture<'a, Result<Box<dyn FileRows>, StoreError>>;
}

/// About how large a file is going to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileSize {
    pub events: usize,
    /// 0 if nothing is known.
    pub bytes: usize,
}

/// A file in the making.
pub trait FileWriter: Send {
    /// Adds events, sorted and behind those that are there. CPU work.
    fn push(&mut self, events: &[&StoredEvent<'_>]) -> Result<(), StoreError>;

    /// The bytes of the file. CPU work.
    fn finish(self: Box<Self>) -> Result<Vec<u8>, StoreError>;
}

/// The bytes of one file, read piece by piece.
#[derive(Clone)]
pub struct FileBytes {
    pub size: u64,
    pub read: Arc<ReadBytes>,
}

/// Reads a range of a file.
pub type ReadBytes =
    dyn Fn(Range<u64>) -> BoxFuture<'static, Result<Bytes, StoreError>> + Send + Sync;

/// What is wanted of a file.
#[derive(Clone, Debug)]
pub struct FileScan {
    /// When events begin.
    pub started_ns: Range<i64>,
    pub newest_first: bool,
    /// This one event alone.
    pub event: Option<EventId>,
    /// Events that cannot satisfy it may be left out; others may be handed over all the same.
    pub condition: Option<Arc<Condition>>,
}

/// Events of a file, in the order that was asked for.
pub trait FileRows: Send {
    /// Some more, or `None` at the end.
    fn next_batch(
        &mut self,
    ) -> BoxFuture<'_, Result<Option<Vec<StoredEvent<'static>>>, StoreError>>;
}
