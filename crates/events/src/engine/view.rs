//! A consistent read of everything that has been acknowledged.
//!
//! ```text
//! under the lock: unflushed generations, tail ─► then a snapshot of the store
//!     generations that its mark has, and blocks that it has in files, are left out
//! ```
//!
//! Holds always:
//! - An event whose request has been answered is seen, and seen once: in cells, and among events.
//! - Cells of all windows are of the same events.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use icecore_model::event::{
    Cell, CellScan, DimensionHash, EventId, EventSnapshot, FlushMark, IdentityKey, StoredCell, Week,
};
use icecore_model::{BoxFuture, StoreError};

use super::cells::{UnflushedCells, merge_scans};
use super::dimension_set::DimensionSet;
use super::file_list::{self, EventFile, all_records};
use super::states::{self, StateKey};
use super::tail::TailBlock;
use super::value_catalog::{self, CataloguedValue};
use crate::catalog_key;
use crate::{FileBytes, FileFormat, FileRows, FileScan, Problem, Registry, StoredEvent};

/// Cheap to clone.
#[derive(Clone)]
pub struct EventsView {
    state: Arc<ViewState>,
}

pub(super) struct ViewState {
    pub(super) registry: Arc<Registry>,
    pub(super) now_ms: i64,
    pub(super) guarded_ms: i64,
    pub(super) read_file: Arc<ReadFile>,
    pub(super) format: Arc<dyn FileFormat>,
    pub(super) snapshot: Box<dyn EventSnapshot>,
    /// Those that the snapshot does not have.
    pub(super) generations: Vec<UnflushedGeneration>,
    /// Blocks that are in no file of the snapshot.
    pub(super) tail: Vec<Arc<TailBlock>>,
}

/// Reads a part of a file by its path.
pub(super) type ReadFile =
    dyn Fn(Arc<str>, Range<u64>) -> BoxFuture<'static, Result<Bytes, StoreError>> + Send + Sync;

/// What a view copies of a generation.
#[derive(Clone)]
pub(super) struct UnflushedGeneration {
    pub(super) number: u64,
    pub(super) cells: UnflushedCells,
    pub(super) state_counts: Arc<HashMap<StateKey, i64>>,
}

/// How many objects are in a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateCount {
    pub state: String,
    pub count: i64,
}

impl EventsView {
    pub(super) fn new(state: ViewState) -> Self {
        Self {
            state: Arc::new(state),
        }
    }

    pub fn registry(&self) -> &Arc<Registry> {
        &self.state.registry
    }

    pub fn now_ms(&self) -> i64 {
        self.state.now_ms
    }

    /// The guarded time of that moment.
    pub fn guarded_ms(&self) -> i64 {
        self.state.guarded_ms
    }

    /// Up to where the store's cells have events.
    pub fn mark(&self) -> FlushMark {
        self.state.snapshot.mark()
    }

    /// Cells of one metric in the order of their intervals, then of their dimensions: those of the
    /// store with what is not flushed yet.
    pub async fn cells(&self, scan: CellScan) -> Result<Vec<StoredCell>, Problem> {
        let stored = self.state.snapshot.cells(scan.clone()).await;
        let stored = stored.map_err(Problem::from_store)?;
        let mut unflushed: BTreeMap<(i64, DimensionHash), Cell> = BTreeMap::new();
        let now_s = self.state.guarded_ms.div_euclid(1000);
        for generation in &self.state.generations {
            let Some(metric) = generation.cells.metric(scan.metric) else {
                continue;
            };
            for (key, cell) in metric.scan(&scan, now_s) {
                match unflushed.get_mut(&key) {
                    Some(sum) => sum.merge(&cell).map_err(Problem::corrupt)?,
                    None => {
                        unflushed.insert(key, cell);
                    }
                }
            }
        }
        merge_scans(stored, unflushed, scan.limit).map_err(Problem::corrupt)
    }

    /// The values behind hashes, in their order; `None` for a hash that the metric does not have.
    pub async fn dimension_sets(
        &self,
        metric: u32,
        hashes: &[DimensionHash],
    ) -> Result<Vec<Option<DimensionSet>>, Problem> {
        /// Hashes beyond which reading all sets of the metric takes fewer reads.
        const FEW: usize = 16;
        if hashes.len() > FEW {
            let all = self.all_dimension_sets(metric).await?;
            let by_hash: HashMap<_, _> = all.into_iter().map(|set| (set.hash, set)).collect();
            let found = hashes.iter().map(|hash| by_hash.get(hash).cloned());
            return Ok(found.collect());
        }
        let mut sets = Vec::with_capacity(hashes.len());
        for hash in hashes {
            sets.push(self.dimension_set(metric, *hash).await?);
        }
        Ok(sets)
    }

    async fn dimension_set(
        &self,
        metric: u32,
        hash: DimensionHash,
    ) -> Result<Option<DimensionSet>, Problem> {
        if let Some(set) = self.unflushed_sets(metric).find(|set| set.hash == hash) {
            return Ok(Some(set));
        }
        let key = catalog_key::only(catalog_key::dimension_set(metric, hash));
        let records = self.state.snapshot.records(key, 1).await;
        let records = records.map_err(Problem::from_store)?;
        Ok(records.first().and_then(super::guard::read_set))
    }

    /// Every set of dimension values that the metric has cells for, in the order of their hashes.
    pub async fn all_dimension_sets(&self, metric: u32) -> Result<Vec<DimensionSet>, Problem> {
        let keys = catalog_key::dimension_sets(metric);
        let records = all_records(&*self.state.snapshot, keys).await;
        let records = records.map_err(Problem::from_store)?;
        let stored = records.iter().filter_map(super::guard::read_set);
        let all = stored.chain(self.unflushed_sets(metric));
        let by_hash: BTreeMap<_, _> = all.map(|set| (set.hash, set)).collect();
        Ok(by_hash.into_values().collect())
    }

    fn unflushed_sets(&self, metric: u32) -> impl Iterator<Item = DimensionSet> {
        let generations = self.state.generations.iter();
        let metrics = generations.filter_map(move |generation| generation.cells.metric(metric));
        let sets = metrics.flat_map(|metric| &metric.sets);
        sets.filter_map(|(hash, values)| DimensionSet::decode(*hash, values))
    }

    /// Blocks of events that are in no file, oldest first. What is too old to be kept may be among
    /// their events: [`EventsView::is_kept`] says so.
    pub fn tail(&self) -> &[Arc<TailBlock>] {
        &self.state.tail
    }

    /// Events of the tail that are kept, of a service or all, of a type or all, with starts in a
    /// range. CPU work.
    pub fn tail_events(
        &self,
        service: Option<&str>,
        event_type: Option<&str>,
        started_ns: &Range<i64>,
    ) -> Result<Vec<StoredEvent<'_>>, Problem> {
        let mut found = Vec::new();
        for block in self.tail() {
            let summary = block.summary();
            let may_have = service.is_none_or(|service| summary.has_type(service, event_type))
                && summary.min_started_ns < started_ns.end
                && summary.max_started_ns >= started_ns.start;
            if !may_have {
                continue;
            }
            let events = block.events().map_err(Problem::from_store)?;
            found.extend(events.into_iter().filter(|event| {
                started_ns.contains(&event.started_ns)
                    && service.is_none_or(|service| *event.service == *service)
                    && event_type.is_none_or(|event_type| *event.event_type == *event_type)
                    && self.is_kept(event)
            }));
        }
        Ok(found)
    }

    /// Events of a type that begin before this are too old to be kept, even where they still are.
    pub fn kept_from_ns(&self, service: &str, event_type: &str) -> i64 {
        let service = self.state.registry.services.get(service);
        let event_type = service.and_then(|service| service.types.get(event_type));
        let Some(event_type) = event_type else {
            return i64::MIN;
        };
        let kept_ns = i64::try_from(event_type.retention.as_nanos()).unwrap_or(i64::MAX);
        let guarded_ns = self.state.guarded_ms.saturating_mul(1_000_000);
        guarded_ns.saturating_sub(kept_ns)
    }

    pub fn is_kept(&self, event: &StoredEvent<'_>) -> bool {
        event.started_ns >= self.kept_from_ns(&event.service, &event.event_type)
    }

    /// The files of a service in some weeks, of one type or of all, in the order of week and type.
    pub async fn files(
        &self,
        service: u32,
        weeks: Range<Week>,
        event_type: Option<u32>,
    ) -> Result<Vec<EventFile>, Problem> {
        let files = file_list::files_of(&*self.state.snapshot, service, weeks).await;
        let mut files = files.map_err(Problem::from_store)?;
        files.retain(|file| event_type.is_none_or(|number| file.event_type == number));
        Ok(files)
    }

    /// Every file of every service.
    pub async fn all_files(&self) -> Result<Vec<EventFile>, Problem> {
        let files = file_list::all_files(&*self.state.snapshot).await;
        files.map_err(Problem::from_store)
    }

    pub fn format(&self) -> &Arc<dyn FileFormat> {
        &self.state.format
    }

    /// For each week the sequence number of the block that an event of a service was in, as far as
    /// there is one.
    pub async fn blocks_of(
        &self,
        service: u32,
        weeks: &[Week],
        event: EventId,
    ) -> Result<Vec<Option<u64>>, Problem> {
        let keys = weeks.iter().map(|week| IdentityKey {
            week: *week,
            service,
            event,
        });
        let keys: Vec<IdentityKey> = keys.collect();
        let blocks = self.state.snapshot.identities(&keys).await;
        blocks.map_err(Problem::from_store)
    }

    /// How the bytes of a file are read.
    pub fn file_bytes(&self, file: &EventFile) -> FileBytes {
        let read_file = Arc::clone(&self.state.read_file);
        let path: Arc<str> = Arc::from(file.path.as_str());
        FileBytes {
            size: file.bytes,
            read: Arc::new(move |range| read_file(path.clone(), range)),
        }
    }

    /// Begins to read a file.
    pub async fn open_file(
        &self,
        file: &EventFile,
        scan: FileScan,
    ) -> Result<Box<dyn FileRows>, Problem> {
        let rows = self.state.format.open(self.file_bytes(file), scan).await;
        rows.map_err(Problem::from_store)
    }

    /// How many objects of a type are in each state of an attribute, without empty ones.
    pub async fn state_counts(
        &self,
        service: u32,
        object_type: &str,
        attribute: &str,
    ) -> Result<Vec<StateCount>, Problem> {
        let keys = catalog_key::state_counts(service, object_type, attribute);
        let records = all_records(&*self.state.snapshot, keys).await;
        let records = records.map_err(Problem::from_store)?;
        let stored = records.iter().filter_map(states::read_count);
        let mut counts: BTreeMap<StateKey, i64> = stored.collect();
        for generation in &self.state.generations {
            for (key, change) in generation.state_counts.iter() {
                if key.is_of(service, object_type, attribute) {
                    *counts.entry(key.clone()).or_default() += change;
                }
            }
        }
        let counts = counts.into_iter().filter(|(_, count)| *count != 0);
        let counts = counts.map(|(key, count)| StateCount {
            state: key.state.to_string(),
            count,
        });
        Ok(counts.collect())
    }

    /// Values of an attribute of a service, sorted. They are those of flushed events: a new value
    /// is there after the next flush.
    pub async fn attribute_values(
        &self,
        service: u32,
        attribute: &str,
    ) -> Result<Vec<CataloguedValue>, Problem> {
        let keys = catalog_key::attribute_values(service, attribute);
        let records = all_records(&*self.state.snapshot, keys).await;
        let records = records.map_err(Problem::from_store)?;
        Ok(records.iter().filter_map(value_catalog::read).collect())
    }
}
