//! Where the events of a search come from: a state of the engine, or lists in tests.

use std::ops::Range;
use std::sync::Arc;

use icecore_model::BoxFuture;
use icecore_model::event::{EventId, Week};

use crate::{FileBytes, FileFormat, Problem, Registry, StoredEvent};

/// A state of all events that does not change while it is read. Files and tail have no event in
/// common.
pub trait EventRows: Send + Sync {
    fn registry(&self) -> &Arc<Registry>;

    /// When the state was taken.
    fn now_ms(&self) -> i64;

    /// The guarded time of that moment: what is too old by it is not kept any more.
    fn guarded_ms(&self) -> i64;

    /// Parts of the tail that may have events of a service or of all, and of a type of it.
    fn tail_parts(&self, service: Option<&str>, event_type: Option<&str>) -> Vec<TailPart>;

    /// All events of a part. CPU work.
    fn tail_events(&self, part: &TailPart) -> Result<Vec<StoredEvent<'_>>, Problem>;

    /// The files of a service in some weeks, of one type or of all.
    fn files(
        &self,
        service: u32,
        weeks: Range<Week>,
        event_type: Option<u32>,
    ) -> BoxFuture<'_, Result<Vec<RowFile>, Problem>>;

    fn format(&self) -> &Arc<dyn FileFormat>;

    /// For each week the sequence number of the block that an event of a service was in, as far as
    /// there is one.
    fn blocks_of<'a>(
        &'a self,
        service: u32,
        weeks: &'a [Week],
        event: EventId,
    ) -> BoxFuture<'a, Result<Vec<Option<u64>>, Problem>>;

    /// Values that an indexed attribute has had, sorted.
    fn values_of<'a>(
        &'a self,
        service: u32,
        attribute: &'a str,
    ) -> BoxFuture<'a, Result<Vec<SeenValue>, Problem>>;

    /// Events of a type that begin before this are too old to be kept.
    fn kept_from_ns(&self, service: &str, event_type: &str) -> i64 {
        let Some(event_type) = self.registry().event_type(service, event_type) else {
            return i64::MIN;
        };
        let kept_ns = i64::try_from(event_type.retention.as_nanos()).unwrap_or(i64::MAX);
        let guarded_ns = self.guarded_ms().saturating_mul(1_000_000);
        guarded_ns.saturating_sub(kept_ns)
    }
}

/// Events that are in no file yet.
#[derive(Clone, Copy, Debug)]
pub struct TailPart {
    /// Which part of the tail.
    pub at: usize,
    pub min_started_ns: i64,
    pub max_started_ns: i64,
}

/// A file with events of one service, type and week.
#[derive(Clone)]
pub struct RowFile {
    pub week: Week,
    pub event_type: u32,
    /// The blocks that the events came in, the last one included.
    pub first_seq: u64,
    pub last_seq: u64,
    pub events: u64,
    /// When the first and the last of them began.
    pub min_started_ns: i64,
    pub max_started_ns: i64,
    pub bytes: FileBytes,
}

/// A value that an attribute has had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenValue {
    pub value: String,
    pub events: u64,
    pub first_ns: i64,
    pub last_ns: i64,
}
