//! What the engine has in memory: everything that is durable and not yet in cells and files.
//!
//! Behind one lock, which is held for look-ups and additions only: reading, checking, folding and
//! encoding happen without it.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use icecore_model::event::{FlushMark, IdentityKey};

use super::fold::Folded;
use super::fold_plan::FoldPlan;
use super::generation::{Adding, Generation};
use super::guard::DimensionGuard;
use super::metrics::{EventGauges, EventMetrics};
use super::options::EventOptions;
use super::states::{ObjectKey, ObjectState};
use super::tail::{BlockSummary, Tail, TailBlock};
use super::view::UnflushedGeneration;
use super::void_events::{VoidBlock, VoidEvents};
use crate::Registry;

pub(super) struct Memory {
    pub(super) registry: Arc<Registry>,
    pub(super) plan: Arc<FoldPlan>,
    open: Generation,
    /// Not flushed yet, oldest first.
    closed: VecDeque<Arc<Generation>>,
    pub(super) tail: Tail,
    guard: DimensionGuard,
    pub(super) void: VoidEvents,
    /// Events that are being written.
    in_flight: HashSet<IdentityKey>,
    /// Up to where blocks are in cells.
    mark: FlushMark,
    /// Objects that were flushed lately: the same ones mostly change again soon.
    flushed_objects: HashMap<ObjectKey, ObjectState>,
}

/// A block and what it adds.
pub(super) struct FoldedBlock {
    pub(super) block: Bytes,
    /// Of its effective events.
    pub(super) identities: Vec<IdentityKey>,
    /// Positions of events that do not count.
    pub(super) void: Vec<u32>,
    pub(super) summary: BlockSummary,
    pub(super) folded: Folded,
    /// Of arrival, since the epoch.
    pub(super) day: i64,
}

/// Objects that are remembered after their flush.
const FLUSHED_OBJECTS_MAX: usize = 100_000;

/// Values of an attribute that a generation gathers, for each one that may be catalogued: those
/// that are catalogued already are among them.
const VALUES_GATHERED: usize = 4;

impl Memory {
    pub(super) fn new(
        registry: Arc<Registry>,
        guard: DimensionGuard,
        void: VoidEvents,
        mark: FlushMark,
    ) -> Self {
        Self {
            plan: Arc::new(FoldPlan::new(&registry)),
            registry,
            open: Generation::new(mark.generation + 1, mark.seq),
            closed: VecDeque::new(),
            tail: Tail::default(),
            guard,
            void,
            in_flight: HashSet::new(),
            mark,
            flushed_objects: HashMap::new(),
        }
    }

    /// Whether an event is being written right now.
    pub(super) fn is_in_flight(&self, identity: &IdentityKey) -> bool {
        self.in_flight.contains(identity)
    }

    /// Whether an event is stored and not flushed. Flushed ones have a record.
    pub(super) fn has(&self, identity: &IdentityKey) -> bool {
        let mut closed = self.closed.iter();
        self.open.identities.contains_key(identity)
            || closed.any(|generation| generation.identities.contains_key(identity))
    }

    pub(super) fn reserve(&mut self, identities: impl IntoIterator<Item = IdentityKey>) {
        self.in_flight.extend(identities);
    }

    pub(super) fn release<'a>(&mut self, identities: impl IntoIterator<Item = &'a IdentityKey>) {
        for identity in identities {
            self.in_flight.remove(identity);
        }
    }

    /// Adds a durable block to the open generation and to the tail.
    pub(super) fn add(
        &mut self,
        seq: u64,
        block: FoldedBlock,
        objects: &HashMap<ObjectKey, ObjectState>,
        options: &EventOptions,
        metrics: &EventMetrics,
    ) {
        let mut adding = Adding {
            guard: &mut self.guard,
            metrics,
            closed: &self.closed,
            stored_objects: objects,
            day: block.day,
            max_values: options.max_catalog_values.saturating_mul(VALUES_GATHERED),
        };
        self.open
            .add(seq, &block.identities, block.folded, &mut adding);
        self.add_to_tail(seq, block.block, block.void, block.summary);
        if self.open.cells.len() >= options.max_keys {
            self.close_generation();
        }
    }

    pub(super) fn add_to_tail(
        &mut self,
        seq: u64,
        block: Bytes,
        void: Vec<u32>,
        summary: BlockSummary,
    ) {
        let block = TailBlock::new(seq, block, void, summary);
        self.tail.push(block);
    }

    /// Leaves out a block whose commit has failed.
    pub(super) fn add_void(&mut self, seq: u64) {
        self.void.add(seq, VoidBlock::All);
        self.open.last_seq = seq;
    }

    /// Closes the open generation, if it has anything that a flush would write.
    pub(super) fn close_generation(&mut self) {
        let last_seq = self.open.last_seq;
        if last_seq <= self.newest_closed_seq() {
            return;
        }
        let next = Generation::new(self.open.number + 1, last_seq);
        let closed = std::mem::replace(&mut self.open, next);
        self.closed.push_back(Arc::new(closed));
    }

    fn newest_closed_seq(&self) -> u64 {
        let newest = self.closed.back();
        newest.map_or(self.mark.seq, |generation| generation.last_seq)
    }

    pub(super) fn oldest_closed(&self) -> Option<Arc<Generation>> {
        self.closed.front().cloned()
    }

    pub(super) fn mark(&self) -> FlushMark {
        self.mark
    }

    /// Forgets a generation that is in the store.
    pub(super) fn flushed(&mut self, mark: FlushMark) {
        self.mark = mark;
        while let Some(oldest) = self.closed.front() {
            if oldest.number > mark.generation {
                return;
            }
            if self.flushed_objects.len() > FLUSHED_OBJECTS_MAX {
                self.flushed_objects.clear();
            }
            let objects = oldest.objects.iter();
            let objects = objects.map(|(key, object)| (key.clone(), object.clone()));
            self.flushed_objects.extend(objects);
            self.closed.pop_front();
        }
        // A change of the registry takes a number without a generation.
        self.open.number = self.open.number.max(mark.generation + 1);
    }

    /// Forgets blocks that are in files.
    pub(super) fn sealed(&mut self, seq: u64) {
        self.tail.forget(seq);
        self.void.forget(seq);
    }

    /// What is known of an object without asking the store.
    pub(super) fn object(&self, key: &ObjectKey) -> Option<&ObjectState> {
        let closed = || self.closed.iter().rev();
        let unflushed = self.open.objects.get(key);
        unflushed
            .or_else(|| closed().find_map(|generation| generation.objects.get(key)))
            .or_else(|| self.flushed_objects.get(key))
    }

    pub(super) fn generations(&self) -> Vec<UnflushedGeneration> {
        let closed = self.closed.iter().map(|generation| generation.view());
        closed.chain([self.open.view()]).collect()
    }

    pub(super) fn bytes(&self) -> usize {
        /// An identity in the set of those in flight.
        const IDENTITY_BYTES: usize = 40;
        let closed: usize = self.closed.iter().map(|closed| closed.bytes()).sum();
        let in_flight = self.in_flight.len() * IDENTITY_BYTES;
        self.open.bytes() + closed + in_flight + self.tail.bytes()
    }

    pub(super) fn has_closed(&self) -> bool {
        !self.closed.is_empty()
    }

    pub(super) fn gauges(&self) -> EventGauges {
        EventGauges {
            memory_bytes: self.bytes(),
            tail_events: self.tail.events(),
            tail_bytes: self.tail.bytes(),
            unflushed_generations: self.closed.len() + usize::from(!self.open.is_empty()),
            in_flight_events: self.in_flight.len(),
        }
    }
}
