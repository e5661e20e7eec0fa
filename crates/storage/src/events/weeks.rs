//! Weeks of events: which there are, and how they go.
//!
//! Holds always:
//! - A whole week goes by draining its segment, without a tombstone for each record. When the drop
//!   has returned, it stays gone after a crash.
//! - Nothing is written to a segment while something of it is dropped.
//! - A drop that is cut off has dropped all, nothing, or some of the metrics: it is to be repeated.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use icecore_model::event::{EventWindow, Week};
use slatedb::WriteBatch;
use tracing::info;

use super::Parts;
use crate::cache::CellChange;
use crate::error::{Error, Result};
use crate::slate::read_view::{ScanKind, View};

/// How long a drop waits for snapshots that were taken before it. Those that last longer see the
/// week go: what is dropped is beyond what is kept, and must not stay for a reader that hangs.
const SNAPSHOT_PATIENCE: Duration = Duration::from_secs(10);

/// How long a drop waits for the compactor, which needs a poll or two (1 s local, 5 s remote).
const DRAIN_PATIENCE: Duration = Duration::from_secs(30);

/// Records that are deleted with one write.
const BATCH_RECORDS: usize = 4096;

/// Drops all of a segment; `cells` are those that it has.
pub(super) async fn drop_segment(
    parts: &Parts,
    segment: Bytes,
    cells: Option<(EventWindow, Week)>,
) -> Result<()> {
    // Without compaction nobody here drops segments.
    if !parts.context.options.store.compaction {
        return delete(parts, segment.clone(), cells, vec![segment]).await;
    }
    let _nobody_writes = parts.access.drop_segment(&segment).await;
    let change = begin_change(parts, cells);
    if !parts.access.snapshots_end(SNAPSHOT_PATIENCE).await {
        info!("dropping a week of events that a snapshot of long ago may still read");
    }
    let engine = &parts.context.engine;
    let left = engine.drop_segments(&[segment], DRAIN_PATIENCE).await?;
    if !left.is_empty() {
        return Err(Error::Unavailable(
            "the compactor has not dropped a week of events yet: try again".into(),
        ));
    }
    if let Some(change) = change {
        change.end();
    }
    Ok(())
}

/// Keeps what is dropped out of the cache. To be called by the one who may drop it.
fn begin_change(parts: &Parts, cells: Option<(EventWindow, Week)>) -> Option<CellChange> {
    let cache = parts.buckets.cache();
    cells.map(|(window, week)| cache.begin_week_drop(window, week))
}

/// Deletes what lies in a segment under some prefixes, record by record.
pub(super) async fn delete(
    parts: &Parts,
    segment: Bytes,
    cells: Option<(EventWindow, Week)>,
    prefixes: Vec<Bytes>,
) -> Result<()> {
    let _nobody_writes = parts.access.drop_segment(&segment).await;
    let change = begin_change(parts, cells);
    let _lease = parts.buckets.lease_files();
    let view = parts.context.engine.snapshot()?;
    let mut deletion = Deletion::default();
    for prefix in prefixes {
        let mut records = view.scan_prefix(&prefix, ScanKind::Once).await?;
        let next = || Error::store("looking for records to delete");
        while let Some(record) = records.next().await.map_err(next())? {
            deletion.batch.delete(&record.key);
            deletion.records += 1;
            if deletion.records >= BATCH_RECORDS {
                std::mem::take(&mut deletion).write(parts).await?;
            }
        }
    }
    deletion.write_durably(parts).await?;
    if let Some(change) = change {
        change.end();
    }
    Ok(())
}

#[derive(Default)]
struct Deletion {
    batch: WriteBatch,
    records: usize,
}

impl Deletion {
    async fn write(self, parts: &Parts) -> Result<()> {
        let written = parts.context.engine.db().write(self.batch).await;
        written.map(drop).map_err(Error::store("deleting events"))
    }

    /// The same, and waits until it, and so all before it, is durable.
    async fn write_durably(self, parts: &Parts) -> Result<()> {
        if self.records > 0 {
            self.write(parts).await?;
        }
        let flushed = parts.context.engine.db().flush().await;
        flushed.map_err(Error::store("deleting events"))
    }
}

/// The weeks whose segments begin with `prefix` and have records, oldest first.
pub(super) async fn weeks_with_records(parts: &Parts, prefix: &[u8]) -> Result<Vec<Week>> {
    let engine = &parts.context.engine;
    let segments = with_prefix(engine.segments(), prefix);
    // What has been drained is listed for a while, as is what is in a memtable only. Where nothing
    // is drained, files may hold nothing but deletions.
    let in_files: BTreeSet<Bytes> = if parts.context.options.store.compaction {
        engine.having_files(&segments)
    } else {
        BTreeSet::new()
    };
    let _lease = parts.buckets.lease_files();
    let view = engine.live_view();
    let mut weeks = Vec::with_capacity(segments.len());
    for segment in segments {
        if in_files.contains(&segment) || has_records(&view, &segment).await? {
            weeks.extend(week_of(&segment));
        }
    }
    Ok(weeks)
}

/// The weeks of the segments that begin with `prefix`, oldest first; some may be empty.
pub(super) fn listed_weeks(segments: Vec<Bytes>, prefix: &[u8]) -> Vec<Week> {
    let segments = with_prefix(segments, prefix);
    segments.iter().filter_map(|s| week_of(s)).collect()
}

/// Those of some segments that begin with `prefix`, sorted.
pub(super) fn with_prefix(mut segments: Vec<Bytes>, prefix: &[u8]) -> Vec<Bytes> {
    segments.retain(|segment| segment.starts_with(prefix));
    segments.sort_unstable();
    segments
}

/// The week of a segment; none of one that no program of ours has written.
fn week_of(segment: &[u8]) -> Option<Week> {
    let minutes = segment.get(2..6)?.try_into().ok()?;
    Week::from_minutes(u32::from_be_bytes(minutes))
}

async fn has_records(view: &View, segment: &[u8]) -> Result<bool> {
    let mut records = view.scan_prefix(segment, ScanKind::Once).await?;
    let first = records.next().await;
    let first = first.map_err(Error::store("looking for events"))?;
    Ok(first.is_some())
}
