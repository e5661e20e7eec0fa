//! Events: blocks in the journal, cells and identities in weeks, files beside the database.
//!
//! ```text
//! block ─► journal, in the order of all writes ─► durable            replay ─► who makes cells
//! batch: cells, identities, records, mark ─► one write of SlateDB ─► durable ─► epochs may go
//! snapshot ─► mark, cells, identities, records        week ─► dropped as a whole
//! shard of another process ─► followed, and read as a snapshot is
//! ```
//!
//! Holds always:
//! - A block is kept by the journal until a batch says that it is sealed, also across restarts.
//! - A batch is one write: after a crash all of it is there, its mark included, or nothing. It is
//!   written when the journal has every block that it speaks of.
//! - Marks never go back.
//! - Records of the catalog whose keys begin with 0x30 to 0x3F are written here and nowhere else,
//!   so that they need no place among the changes that the head keeps.
//!
//! Elsewhere: what events mean and how cells are made of them (crate `events`); byte layouts
//! (`records`); the journal (`crate::ingest`); files (`crate::slate::event_files`).

mod access;
mod blocks;
mod cell_reads;
mod files;
mod shard;
mod snapshot;
mod weeks;
mod write;

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use bytes::Bytes;
use icecore_model::event::{
    AppendedEvents, EventBatch, EventFileStore, EventSnapshot, EventStore, EventWindow, Week,
};
use icecore_model::{BoxFuture, StoreError};
use icecore_records::key;

use crate::buckets::Buckets;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::ingest::Ingest;
use crate::retention::Retention;
use crate::slate::event_files::EventFiles;
use access::SegmentAccess;

pub(crate) use shard::OtherShard;

/// The events of an open database.
pub(crate) struct DatabaseEvents {
    parts: Arc<Parts>,
    files: EventFiles,
}

/// What work on events uses, also when nobody waits for it any more.
struct Parts {
    context: Arc<Context>,
    buckets: Arc<Buckets>,
    ingest: Arc<Ingest>,
    access: Arc<SegmentAccess>,
    retention: Arc<Retention>,
    /// Held by the one batch that is being written, so that marks never go back.
    writing: tokio::sync::Mutex<()>,
    /// Records written since the memtable was written out.
    unflushed_records: AtomicUsize,
}

impl DatabaseEvents {
    pub(crate) fn new(
        context: &Arc<Context>,
        buckets: &Arc<Buckets>,
        ingest: &Arc<Ingest>,
        retention: &Arc<Retention>,
    ) -> Self {
        Self {
            files: EventFiles::of(&context.engine),
            parts: Arc::new(Parts {
                context: Arc::clone(context),
                buckets: Arc::clone(buckets),
                ingest: Arc::clone(ingest),
                access: Arc::default(),
                retention: Arc::clone(retention),
                writing: tokio::sync::Mutex::default(),
                unflushed_records: AtomicUsize::new(0),
            }),
        }
    }
}

/// Does work to its end, also when nobody waits for it any more: half of it would keep others out
/// or leave epochs to the next start.
async fn to_the_end<T: Send + 'static>(
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T, StoreError> {
    let ended = tokio::spawn(work).await;
    let ended = ended.map_err(Error::ended_abnormally("work on events"))?;
    Ok(ended?)
}

impl EventStore for DatabaseEvents {
    fn append(&self, block: Vec<u8>) -> BoxFuture<'_, Result<AppendedEvents, StoreError>> {
        Box::pin(async move {
            self.parts.ingest.admit_events(&block)?;
            let ingest = Arc::clone(&self.parts.ingest);
            let append = move || ingest.append_events(&block);
            let (seq, durable) = self.parts.context.pool.run(append).await??;
            let commit = Box::pin(async move { Ok(durable.wait().await?) });
            Ok(AppendedEvents { seq, commit })
        })
    }

    fn take_replayed(&self) -> Vec<(u64, Bytes)> {
        self.parts.ingest.take_replayed_events()
    }

    fn write(&self, batch: EventBatch) -> BoxFuture<'_, Result<(), StoreError>> {
        let parts = Arc::clone(&self.parts);
        Box::pin(to_the_end(async move { write::write(&parts, batch).await }))
    }

    fn snapshot(&self) -> BoxFuture<'_, Result<Box<dyn EventSnapshot>, StoreError>> {
        Box::pin(async move {
            let snapshot = snapshot::Snapshot::take(&self.parts).await?;
            Ok(Box::new(snapshot) as Box<dyn EventSnapshot>)
        })
    }

    fn drop_cells(
        &self,
        window: EventWindow,
        week: Week,
        metrics: Option<Vec<u32>>,
    ) -> BoxFuture<'_, Result<(), StoreError>> {
        let parts = Arc::clone(&self.parts);
        let segment = key::event_cell_week_prefix(window, week);
        Box::pin(to_the_end(async move {
            let cells = Some((window, week));
            let Some(metrics) = metrics else {
                return weeks::drop_segment(&parts, segment, cells).await;
            };
            let metrics = metrics.into_iter();
            let prefixes = metrics.map(|m| key::event_cell_metric_prefix(window, week, m));
            weeks::delete(&parts, segment, cells, prefixes.collect()).await
        }))
    }

    fn drop_identities(&self, week: Week) -> BoxFuture<'_, Result<(), StoreError>> {
        let parts = Arc::clone(&self.parts);
        let segment = key::event_identity_week_prefix(week);
        Box::pin(to_the_end(async move {
            weeks::drop_segment(&parts, segment, None).await
        }))
    }

    fn cell_weeks(&self, window: EventWindow) -> BoxFuture<'_, Result<Vec<Week>, StoreError>> {
        let prefix = key::event_cell_prefix(window);
        Box::pin(async move { Ok(weeks::weeks_with_records(&self.parts, &prefix).await?) })
    }

    fn identity_weeks(&self) -> BoxFuture<'_, Result<Vec<Week>, StoreError>> {
        let prefix = key::event_identity_prefix();
        Box::pin(async move { Ok(weeks::weeks_with_records(&self.parts, &prefix).await?) })
    }

    fn files(&self) -> &dyn EventFileStore {
        &self.files
    }

    fn kept(&self) -> BoxFuture<'_, Result<Vec<String>, StoreError>> {
        Box::pin(async move {
            let snapshots = self.parts.context.engine.snapshots().await?;
            Ok(snapshots.into_iter().map(|snapshot| snapshot.id).collect())
        })
    }

    fn kept_state<'a>(
        &'a self,
        id: &'a str,
    ) -> BoxFuture<'a, Result<Option<Box<dyn EventSnapshot>>, StoreError>> {
        Box::pin(async move {
            let state = snapshot::Snapshot::of_kept(&self.parts.context, id).await?;
            Ok(state.map(|state| Box::new(state) as Box<dyn EventSnapshot>))
        })
    }

    fn epoch(&self) -> u64 {
        self.parts.context.engine.epoch()
    }

    fn guarded_ms(&self) -> i64 {
        self.parts.retention.now_ms()
    }
}
