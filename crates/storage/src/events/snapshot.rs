//! A snapshot: cells, identities and records as one moment had them.
//!
//! Holds always:
//! - Marks and cells are of the same moment: what the mark says to be in cells is in them, once.
//! - What cannot be read is an error that names its key, never a hole.
//! - While one of the own database is there, no file that it reads is deleted, and a week that is
//!   dropped waits for it for a while. One of another process may fail when it gets old.

use std::ops::{Bound, Range};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use icecore_model::event::{
    CellScan, EventSnapshot, EventWindow, FlushMark, IdentityKey, StoredCell, Week,
};
use icecore_model::{BoxFuture, CatalogRecord, StoreError};
use icecore_records::{DecodeError, ParsedKey, event_identity, key};

use super::access::Reading;
use super::cell_reads::{StoredCells, WeekRead, decode};
use super::weeks::listed_weeks;
use super::write::{stored_mark, stored_sealed};
use super::{Parts, blocks};
use crate::buckets::lease::Lease;
use crate::cache::PinnedCells;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::ingest::EVENT_RECORD_KINDS;
use crate::retention::stored_state;
use crate::slate::fetch::join_bounded;
use crate::slate::follower::FollowedState;
use crate::slate::read_view::{ScanKind, View};
use crate::slate::reader::OwnedReader;

/// Identities that are looked up at once.
const CONCURRENT_GETS: usize = 32;

/// Weeks that are read at once.
const CONCURRENT_WEEKS: usize = 4;

/// Weeks of a range up to which each is looked at, whether there is anything or not.
const FEW_WEEKS: i64 = 4;

/// Cells that are decoded where the caller is.
const FEW_CELLS: usize = 64;

pub(super) struct Snapshot {
    context: Arc<Context>,
    view: View,
    mark: FlushMark,
    sealed: u64,
    guarded_ms: i64,
    /// The weeks that there are of a window, when somebody has asked.
    weeks: [OnceLock<Vec<Week>>; EventWindow::ALL.len()],
    source: Source,
}

/// Whose database it is of, and what keeps it readable.
enum Source {
    Own {
        _lease: Lease,
        _reading: Reading,
        cells: PinnedCells,
    },
    /// Of another process. Which of its cells a step has changed is not known here, so that none
    /// are kept.
    Followed(Arc<FollowedState>),
    /// The state that a snapshot of the own database keeps.
    Kept(OwnedReader),
}

impl Snapshot {
    pub(super) async fn take(parts: &Parts) -> Result<Self> {
        let (_reading, _lease) = (parts.access.read(), parts.buckets.lease_files());
        let cache = parts.buckets.cache();
        let (view, cells) = cache.pin_event_cells(|| parts.context.engine.snapshot())?;
        let source = Source::Own {
            _lease,
            _reading,
            cells,
        };
        Self::of(&parts.context, view, source).await
    }

    /// A state of the database of another process.
    pub(super) async fn of_followed(
        context: &Arc<Context>,
        state: Arc<FollowedState>,
    ) -> Result<Self> {
        let view = state.view();
        Self::of(context, view, Source::Followed(state)).await
    }

    /// The state that a snapshot of the database keeps, if there is one with that id.
    pub(super) async fn of_kept(context: &Arc<Context>, id: &str) -> Result<Option<Self>> {
        let Some(reader) = context.engine.open_own_snapshot(id).await? else {
            return Ok(None);
        };
        let view = reader.view();
        let state = Self::of(context, view, Source::Kept(reader)).await?;
        Ok(Some(state))
    }

    async fn of(context: &Arc<Context>, view: View, source: Source) -> Result<Self> {
        let guarded_ms = match source {
            Source::Own { .. } => context.guarded_ms(),
            Source::Followed(_) | Source::Kept(_) => stored_state(&view).await?.clock_ms,
        };
        Ok(Self {
            mark: stored_mark(&view).await?,
            sealed: stored_sealed(&view).await?,
            guarded_ms,
            context: Arc::clone(context),
            view,
            weeks: Default::default(),
            source,
        })
    }

    /// Prefixes of the segments that there are.
    fn segments(&self) -> Vec<Bytes> {
        match &self.source {
            Source::Own { .. } => self.context.engine.segments(),
            Source::Followed(state) => state.segments(),
            Source::Kept(reader) => reader.segments(),
        }
    }

    async fn read_cells(&self, scan: CellScan) -> Result<Vec<StoredCell>> {
        let mut starts_s = scan.starts_s.clone();
        if let Some((after_s, _)) = scan.after {
            starts_s.start = starts_s.start.max(after_s);
        }
        if starts_s.is_empty() || scan.limit == 0 {
            return Ok(Vec::new());
        }
        let weeks = self.weeks(scan.window, &starts_s);
        let kept = match &self.source {
            Source::Own { cells, .. } => Some(cells),
            Source::Followed(_) | Source::Kept(_) => None,
        };
        let read = |week| WeekRead::new(&self.view, kept, &scan, week).read(starts_s.clone());
        let mut reads = stream::iter(weeks.into_iter().map(read)).buffered(CONCURRENT_WEEKS);
        let mut found = Vec::new();
        let mut count = 0;
        while count < scan.limit
            && let Some(more) = reads.try_next().await?
        {
            count += more.iter().map(StoredCells::len).sum::<usize>();
            found.extend(more);
        }
        drop(reads);
        if let Some(kept) = kept {
            kept.make_room();
        }
        self.count_reads(&found);
        let limit = scan.limit.min(count);
        let of = (scan.window, scan.metric);
        let decoding = move || decode(of, &found, limit);
        let pool = &self.context.pool;
        pool.run_small(limit <= FEW_CELLS, decoding).await?
    }

    fn count_reads(&self, found: &[StoredCells]) {
        let metrics = &self.context.metrics;
        for cells in found {
            let counter = if cells.is_cached() {
                &metrics.event_cell_cache_hits
            } else {
                &metrics.event_cell_cache_misses
            };
            counter.add(cells.len() as u64);
        }
    }

    /// The weeks that may have cells of a range, oldest first.
    fn weeks(&self, window: EventWindow, starts_s: &Range<i64>) -> Vec<Week> {
        let (first, last) = (Week::of(starts_s.start), Week::of(starts_s.end - 1));
        let week_s = EventWindow::Week.seconds();
        let count = (last.start_s() - first.start_s()) / week_s + 1;
        if count <= FEW_WEEKS {
            let starts = (0..count).map(|n| first.start_s() + n * week_s);
            return starts.map(Week::of).collect();
        }
        let known = &self.weeks[usize::from(window.number()).saturating_sub(1)];
        let prefix = key::event_cell_prefix(window);
        let known = known.get_or_init(|| listed_weeks(self.segments(), &prefix));
        let within = |week: &&Week| (first..=last).contains(*week);
        known.iter().filter(within).copied().collect()
    }

    async fn find_identity(&self, identity: &IdentityKey) -> Result<Option<u64>> {
        let key = key::event_identity(identity);
        let value = self.view.get(&key).await?;
        let seq = value
            .map(|value| event_identity::decode(&value))
            .transpose();
        seq.map_err(|cause| unreadable(&key, cause))
    }

    async fn read_records(&self, keys: Range<Vec<u8>>, limit: usize) -> Result<Vec<CatalogRecord>> {
        let ours = vec![EVENT_RECORD_KINDS.start]..vec![EVENT_RECORD_KINDS.end];
        let is_ours = ours.start <= keys.start && keys.end <= ours.end;
        let bounds = key::catalog_record(&keys.start).zip(key::catalog_record(&keys.end));
        if keys.start >= keys.end {
            return Ok(Vec::new());
        }
        let Some((first, end)) = bounds.filter(|_| is_ours) else {
            return Err(Error::Invalid(
                "a range of the catalog outside of the records of events".into(),
            ));
        };
        let range = (Bound::Included(first), Bound::Excluded(end));
        let mut stored = self.view.scan(range, ScanKind::Cached).await?;
        let mut found = Vec::new();
        let next = || Error::store("reading the catalog of events");
        while found.len() < limit
            && let Some(record) = stored.next().await.map_err(next())?
        {
            match ParsedKey::parse(&record.key) {
                Ok(ParsedKey::CatalogRecord { key }) => found.push((key, record.value.to_vec())),
                Ok(_) => {}
                Err(cause) => return Err(unreadable(&record.key, cause)),
            }
        }
        Ok(found)
    }
}

pub(super) fn unreadable(key: &[u8], cause: DecodeError) -> Error {
    let name = match ParsedKey::parse(key) {
        Ok(parsed) => parsed.to_string(),
        Err(_) => "a record".to_owned(),
    };
    Error::corrupt(format!("{name} (key {}) cannot be read", hex::encode(key)))(cause)
}

impl EventSnapshot for Snapshot {
    fn mark(&self) -> FlushMark {
        self.mark
    }

    fn sealed(&self) -> u64 {
        self.sealed
    }

    fn guarded_ms(&self) -> i64 {
        self.guarded_ms
    }

    fn identities<'a>(
        &'a self,
        keys: &'a [IdentityKey],
    ) -> BoxFuture<'a, Result<Vec<Option<u64>>, StoreError>> {
        let gets = keys.iter().map(|key| self.find_identity(key)).collect();
        Box::pin(async move { Ok(join_bounded(gets, CONCURRENT_GETS).await?) })
    }

    fn cells(&self, scan: CellScan) -> BoxFuture<'_, Result<Vec<StoredCell>, StoreError>> {
        Box::pin(async move { Ok(self.read_cells(scan).await?) })
    }

    fn records(
        &self,
        keys: Range<Vec<u8>>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<CatalogRecord>, StoreError>> {
        Box::pin(async move { Ok(self.read_records(keys, limit).await?) })
    }

    fn blocks(
        &self,
        after: u64,
        up_to: u64,
        bytes_max: usize,
    ) -> BoxFuture<'_, Result<Vec<(u64, Bytes)>, StoreError>> {
        Box::pin(async move {
            let records = blocks::read_records(&self.view, self.segments(), after, up_to).await?;
            let decode = move || blocks::decode(&records, after, up_to, bytes_max);
            Ok(self.context.pool.run(decode).await??)
        })
    }
}
