//! Opening: what the store has, and the blocks of the journal that are not in cells or files.
//!
//! ```text
//! replayed block ─┬─ up to the mark: tail
//!                 └─ beyond it: tail, and folded again into the open generation
//! ```
//!
//! A block beyond the mark was accepted under the registry that is stored, because a change of the
//! registry flushes first. Folding it again gives what it gave before.
//!
//! An event that several blocks beyond the mark have is the one of the last of them: it was sent
//! again because the commits of the others had failed.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use icecore_model::StoreError;
use icecore_model::event::{EventSnapshot, EventStore, IdentityKey};

use super::file_list::all_records;
use super::flush::Flusher;
use super::guard::DimensionGuard;
use super::memory::Memory;
use super::metrics::EventMetrics;
use super::options::EventOptions;
use super::prepared::{FromBlockError, Preparing, day_of};
use super::states::{self, ObjectKey, ObjectState};
use super::tail::{BlockSummary, retain_effective};
use super::void_events::{VoidBlock, VoidEvents};
use crate::{Registry, StoredEvent, catalog_key, decode_events};

/// What an engine begins with.
pub(super) struct Recovered {
    pub(super) memory: Memory,
    pub(super) flusher: Flusher,
}

pub(super) async fn recover(
    store: &dyn EventStore,
    registry: Registry,
    options: &EventOptions,
    metrics: &EventMetrics,
) -> Result<Recovered, StoreError> {
    let snapshot = store.snapshot().await?;
    let mut flusher = Flusher::default();
    let values = all_records(&*snapshot, catalog_key::every_attribute_value()).await?;
    values.iter().for_each(|record| flusher.values.load(record));
    let counts = all_records(&*snapshot, catalog_key::every_state_count()).await?;
    flusher.counts = counts.iter().filter_map(states::read_count).collect();

    let mut guard = DimensionGuard::new(options.max_dimension_sets);
    let sets = all_records(&*snapshot, catalog_key::every_dimension_set()).await?;
    let today = day_of(store.guarded_ms());
    sets.iter().for_each(|record| guard.load(record, today));

    let void = read_void(&*snapshot).await?;
    flusher.has_void_record = void.is_some();
    let void = void.unwrap_or_default();
    let mark = snapshot.mark();
    let memory = Memory::new(Arc::new(registry), guard, void, mark);
    let mut replay = Replay {
        memory,
        snapshot: &*snapshot,
        options,
        metrics,
        flushed: HashSet::new(),
        newest: HashMap::new(),
    };
    replay.run(store).await?;
    Ok(Recovered {
        memory: replay.memory,
        flusher,
    })
}

/// What is void among the blocks that are flushed.
pub(super) async fn read_void(
    snapshot: &dyn EventSnapshot,
) -> Result<Option<VoidEvents>, StoreError> {
    let key = catalog_key::only(catalog_key::void_events());
    let records = snapshot.records(key, 1).await?;
    let Some((_, value)) = records.first() else {
        return Ok(None);
    };
    let void = VoidEvents::decode(value);
    let void = void.ok_or_else(|| StoreError("the record of void events is damaged".into()))?;
    Ok(Some(void))
}

struct Replay<'a> {
    memory: Memory,
    snapshot: &'a dyn EventSnapshot,
    options: &'a EventOptions,
    metrics: &'a EventMetrics,
    /// Events of flushed blocks.
    flushed: HashSet<IdentityKey>,
    /// The last block that has an event, for each one beyond the mark.
    newest: HashMap<IdentityKey, u64>,
}

impl Replay<'_> {
    async fn run(&mut self, store: &dyn EventStore) -> Result<(), StoreError> {
        let preparing = Preparing {
            registry_version: self.memory.registry.version,
            plan: self.memory.plan.clone(),
            max_future_ns: self.options.max_future_ns(),
            day: day_of(store.guarded_ms()),
        };
        let mut blocks = store.take_replayed();
        blocks.retain(|(seq, _)| *seq > self.snapshot.sealed());
        let mark = self.memory.mark().seq;
        for (seq, block) in blocks.iter().filter(|(seq, _)| *seq > mark) {
            self.find_newest(&preparing, *seq, block)?;
        }
        for (seq, block) in blocks {
            self.block(&preparing, seq, block).await?;
        }
        Ok(())
    }

    fn find_newest(
        &mut self,
        preparing: &Preparing,
        seq: u64,
        block: &bytes::Bytes,
    ) -> Result<(), StoreError> {
        let void = self.memory.void.of(seq);
        let (version, events) = decode_events(block).map_err(StoreError::from_block)?;
        if version < preparing.registry_version || void == Some(&VoidBlock::All) {
            return Ok(());
        }
        let identities = events.iter().map(|event| preparing.identity(event));
        self.newest
            .extend(identities.map(|identity| (identity, seq)));
        Ok(())
    }

    /// Positions of events that a later block has again, with what is nested in them.
    fn superseded(&self, preparing: &Preparing, seq: u64, events: &[StoredEvent<'_>]) -> Vec<u32> {
        let mut positions = Vec::new();
        let mut ids = HashSet::new();
        // What is nested in an event comes after it.
        for (position, event) in (0u32..).zip(events) {
            let identity = preparing.identity(event);
            let is_superseded = self.flushed.contains(&identity)
                || self.newest.get(&identity).is_some_and(|last| *last > seq)
                || event.parent.is_some_and(|parent| ids.contains(&parent));
            if is_superseded {
                ids.insert(event.id);
                positions.push(position);
            }
        }
        positions
    }

    async fn block(
        &mut self,
        preparing: &Preparing,
        seq: u64,
        block: bytes::Bytes,
    ) -> Result<(), StoreError> {
        let is_flushed = seq <= self.memory.mark().seq;
        let content = block.clone();
        let (version, mut events) = decode_events(&content).map_err(StoreError::from_block)?;
        if !is_flushed && version > preparing.registry_version {
            return Err(StoreError(format!(
                "block {seq} of events was accepted under version {version} of the registry, \
                 version {} is stored",
                preparing.registry_version
            )));
        }
        if !is_flushed && version < preparing.registry_version {
            // All that had been acknowledged was flushed before the registry changed.
            self.memory.add_void(seq);
            return Ok(());
        }
        let mut void = match self.memory.void.of(seq) {
            Some(VoidBlock::All) => {
                if !is_flushed {
                    self.memory.add_void(seq);
                }
                return Ok(());
            }
            Some(VoidBlock::Some(positions)) => positions.clone(),
            None => Vec::new(),
        };
        if !is_flushed {
            void.extend(self.superseded(preparing, seq, &events));
            void.sort_unstable();
            void.dedup();
            if !void.is_empty() {
                self.memory.void.add(seq, VoidBlock::Some(void.clone()));
            }
        }
        retain_effective(&mut events, &void);
        if is_flushed {
            let identities = events.iter().map(|event| preparing.identity(event));
            self.flushed.extend(identities);
            let summary = BlockSummary::of(&events);
            self.memory.add_to_tail(seq, block, void, summary);
            return Ok(());
        }
        let folded = preparing.fold(block, &events, void);
        let observed = folded.folded.states.iter();
        let objects: HashSet<ObjectKey> = observed.map(|seen| seen.object.clone()).collect();
        let objects = self.objects(objects).await?;
        self.memory
            .add(seq, folded, &objects, self.options, self.metrics);
        Ok(())
    }

    async fn objects(
        &self,
        wanted: HashSet<ObjectKey>,
    ) -> Result<HashMap<ObjectKey, ObjectState>, StoreError> {
        let mut objects = HashMap::new();
        for key in wanted {
            let range = catalog_key::only(key.record_key());
            let records = self.snapshot.records(range, 1).await?;
            let stored = records.first();
            let stored = stored.and_then(|(_, value)| ObjectState::decode(value));
            if let Some(object) = stored {
                objects.insert(key, object);
            }
        }
        Ok(objects)
    }
}
