//! One way to read, whatever is read from: the writer's database, a snapshot of it, or a reader of
//! another process.
//!
//! Holds always:
//! - Scans fetch ahead. SlateDB's defaults fetch one block per request, which costs four to five
//!   times the CPU on a local disk and a round trip per block on a remote store.
//! - Returned `Bytes` are slices of a block and keep it alive: copy what is small and kept long.

use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use slatedb::config::{ReadOptions, ScanOptions};
use slatedb::{Db, DbIterator, DbReader, DbSnapshot, IterationOrder};

use crate::error::{Error, Result};

/// Bytes fetched with one request of a scan: fewer round trips, still small beside the caches.
const READ_AHEAD_BYTES: usize = 1 << 20;

/// Fetches under way at once per file of a scan.
const FETCH_TASKS: usize = 4;

/// What a scan is for, which decides whether its blocks are kept in the block cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScanKind {
    /// Read again soon: index records, samples of a dashboard.
    Cached,
    /// Read once: replay, export, checks. Does not evict what queries need.
    Once,
}

/// A consistent or live view of the database. Cheap to clone.
#[derive(Clone)]
pub(crate) enum View {
    /// Sees every write of this process as it happens.
    Live(Db),
    /// Sees what was written when it was taken. It does not survive a drain of what it reads.
    Snapshot(Arc<DbSnapshot>),
    /// Sees what the last poll of another process's manifest and WAL brought.
    Reader(Arc<DbReader>),
}

impl View {
    pub(crate) async fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        let options = ReadOptions::default();
        match self {
            Self::Live(db) => db.get_with_options(key, &options).await,
            Self::Snapshot(snapshot) => snapshot.get_with_options(key, &options).await,
            Self::Reader(reader) => reader.get_with_options(key, &options).await,
        }
        .map_err(Error::store("reading a record"))
    }

    /// All records whose key starts with `prefix`, in key order.
    pub(crate) async fn scan_prefix(&self, prefix: &[u8], kind: ScanKind) -> Result<DbIterator> {
        let options = scan_options(kind);
        match self {
            Self::Live(db) => db.scan_prefix_with_options(prefix, .., &options).await,
            Self::Snapshot(snapshot) => {
                snapshot
                    .scan_prefix_with_options(prefix, .., &options)
                    .await
            }
            Self::Reader(reader) => reader.scan_prefix_with_options(prefix, .., &options).await,
        }
        .map_err(Error::store("scanning records"))
    }

    /// All records of a key range, in key order.
    pub(crate) async fn scan(
        &self,
        range: (Bound<Bytes>, Bound<Bytes>),
        kind: ScanKind,
    ) -> Result<DbIterator> {
        self.scan_with(range, &scan_options(kind)).await
    }

    /// The same from the last key to the first.
    pub(crate) async fn scan_backwards(
        &self,
        range: (Bound<Bytes>, Bound<Bytes>),
        kind: ScanKind,
    ) -> Result<DbIterator> {
        let options = scan_options(kind).with_order(IterationOrder::Descending);
        self.scan_with(range, &options).await
    }

    async fn scan_with(
        &self,
        range: (Bound<Bytes>, Bound<Bytes>),
        options: &ScanOptions,
    ) -> Result<DbIterator> {
        match self {
            Self::Live(db) => db.scan_with_options(range, options).await,
            Self::Snapshot(snapshot) => snapshot.scan_with_options(range, options).await,
            Self::Reader(reader) => reader.scan_with_options(range, options).await,
        }
        .map_err(Error::store("scanning records"))
    }
}

fn scan_options(kind: ScanKind) -> ScanOptions {
    ScanOptions::default()
        .with_read_ahead_bytes(READ_AHEAD_BYTES)
        .with_max_fetch_tasks(FETCH_TASKS)
        .with_cache_blocks(kind == ScanKind::Cached)
}
