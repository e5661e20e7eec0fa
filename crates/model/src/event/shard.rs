//! The events of another instance, read beside it.
//!
//! Instances share nothing but an object store. Each one writes its own shard, and whoever wants to
//! know of all events reads the shards of the others and adds up.

use std::ops::Range;

use bytes::Bytes;

use super::EventSnapshot;
use crate::{BoxFuture, StoreError};

/// The shard of another instance. Nothing of it is written, and its instance is not disturbed.
pub trait EventShard: Send + Sync {
    /// Where it lies, for people.
    fn name(&self) -> &str;

    /// A state of it, no older than the settings allow. What its instance has not flushed yet may
    /// be in the journal of that state and is not meant to be read.
    fn snapshot(&self) -> BoxFuture<'_, Result<Box<dyn EventSnapshot>, StoreError>>;

    /// Reads a part of one of its files of events.
    fn read_file(&self, path: &str, range: Range<u64>) -> BoxFuture<'_, Result<Bytes, StoreError>>;
}
