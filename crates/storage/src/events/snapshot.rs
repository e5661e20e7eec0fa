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
    Cell, CellKey, CellScan, EventSnapshot, EventWindow, FlushMark, IdentityKey, StoredCell, Week,
};
use icecore_model::{BoxFuture, CatalogRecord, StoreError};
use icecore_records::{DecodeError, ParsedKey, event_cell, event_identity, key};

use super::access::Reading;
use super::weeks::listed_weeks;
use super::write::{stored_mark, stored_sealed};
use super::{Parts, blocks};
use crate::buckets::lease::Lease;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::ingest::EVENT_RECORD_KINDS;
use crate::slate::fetch::join_bounded;
use crate::slate::follower::FollowedState;
use crate::slate::read_view::{ScanKind, View};

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
    /// The weeks that there are of a window, when somebody has asked.
    weeks: [OnceLock<Vec<Week>>; EventWindow::ALL.len()],
    source: Source,
}

/// Whose database it is of, and what keeps it readable.
enum Source {
    Own {
        _lease: Lease,
        _reading: Reading,
    },
    /// Of another process.
    Followed(Arc<FollowedState>),
}

impl Snapshot {
    pub(super) async fn take(parts: &Parts) -> Result<Self> {
        let source = Source::Own {
            _reading: parts.access.read(),
            _lease: parts.buckets.lease_files(),
        };
        let view = parts.context.engine.snapshot()?;
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

    async fn of(context: &Arc<Context>, view: View, source: Source) -> Result<Self> {
        Ok(Self {
            mark: stored_mark(&view).await?,
            sealed: stored_sealed(&view).await?,
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
        let read = |week| self.read_week(&scan, week, starts_s.clone());
        let mut reads = stream::iter(weeks.into_iter().map(read)).buffered(CONCURRENT_WEEKS);
        let mut found = Vec::new();
        while found.len() < scan.limit
            && let Some(more) = reads.try_next().await?
        {
            found.extend(more);
        }
        found.truncate(scan.limit);
        let pool = &self.context.pool;
        let decode = move || found.iter().map(stored_cell).collect();
        pool.run_small(scan.limit <= FEW_CELLS, decode).await?
    }

    /// The records of a week that a scan asks for, as far as its limit goes.
    async fn read_week(
        &self,
        scan: &CellScan,
        week: Week,
        starts_s: Range<i64>,
    ) -> Result<Vec<(Bytes, Bytes)>> {
        let Range { start, end } = key::event_cell_range(scan.window, week, scan.metric, starts_s);
        let start = match after(scan)? {
            Some(after) if after >= start => Bound::Excluded(after),
            _ => Bound::Included(start),
        };
        let (Bound::Included(first) | Bound::Excluded(first)) = &start else {
            return Ok(Vec::new());
        };
        if *first >= end {
            return Ok(Vec::new());
        }
        let range = (start, Bound::Excluded(end));
        let mut records = self.view.scan(range, ScanKind::Cached).await?;
        let mut found = Vec::new();
        let next = || Error::store("reading cells of events");
        while found.len() < scan.limit
            && let Some(record) = records.next().await.map_err(next())?
        {
            found.push((record.key, record.value));
        }
        Ok(found)
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

/// The key of the cell behind which a scan goes on.
fn after(scan: &CellScan) -> Result<Option<Bytes>> {
    let Some((start_s, dimensions)) = scan.after else {
        return Ok(None);
    };
    let after = key::event_cell(&CellKey {
        window: scan.window,
        metric: scan.metric,
        start_s,
        dimensions,
    });
    let none_there = || Error::Invalid("a scan goes on behind what is no cell".into());
    after.map(Some).ok_or_else(none_there)
}

fn stored_cell((key, value): &(Bytes, Bytes)) -> Result<StoredCell> {
    let unreadable = |cause| unreadable(key, cause);
    let ParsedKey::EventCell(place) = ParsedKey::parse(key).map_err(unreadable)? else {
        return Err(Error::Corrupt(
            format!("{} is no key of a cell", hex::encode(key)).into(),
        ));
    };
    let cell: Cell = event_cell::decode(value).map_err(unreadable)?;
    Ok(StoredCell {
        start_s: place.start_s,
        dimensions: place.dimensions,
        cell,
    })
}

fn unreadable(key: &[u8], cause: DecodeError) -> Error {
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
