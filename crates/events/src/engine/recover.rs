//! Opening: what the store has, and the blocks of the journal that are not in cells or files.
//!
//! ```text
//! replayed block ─┬─ up to the mark: tail
//!                 └─ beyond it: tail, and folded again into the open generation
//! ```
//!
//! A block beyond the mark was accepted under the registry that is stored, because a change of the
//! registry flushes first. Folding it again gives what it gave before.

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
use crate::{Registry, catalog_key, decode_events};

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
        seen: HashSet::new(),
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
    /// Events of the blocks before.
    seen: HashSet<IdentityKey>,
}

impl Replay<'_> {
    async fn run(&mut self, store: &dyn EventStore) -> Result<(), StoreError> {
        let preparing = Preparing {
            registry_version: self.memory.registry.version,
            plan: self.memory.plan.clone(),
            max_future_ns: self.options.max_future_ns(),
            day: day_of(store.guarded_ms()),
        };
        for (seq, block) in store.take_replayed() {
            if seq <= self.snapshot.sealed() {
                continue;
            }
            self.block(&preparing, seq, block).await?;
        }
        Ok(())
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
            // A block whose commit had failed, and the one that came in its place.
            for (position, event) in (0u32..).zip(&events) {
                let is_repeat = self.seen.contains(&preparing.identity(event));
                if is_repeat && !void.contains(&position) {
                    void.push(position);
                }
            }
            void.sort_unstable();
            if !void.is_empty() {
                self.memory.void.add(seq, VoidBlock::Some(void.clone()));
            }
        }
        retain_effective(&mut events, &void);
        self.seen
            .extend(events.iter().map(|event| preparing.identity(event)));
        if is_flushed {
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
