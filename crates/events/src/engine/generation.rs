//! A generation: what the blocks between two marks add up to.
//!
//! ```text
//! durable block, folded ─► open generation ─(tick, or full)─► closed ─► one batch of the store
//! ```
//!
//! Holds always:
//! - A block is in exactly one generation, and blocks are added in the order of their numbers.
//! - A closed generation does not change any more.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use icecore_model::event::{Cell, CounterCell, EventWindow, IdentityKey};

use super::cells::UnflushedCells;
use super::fold::{Folded, FoldedMetric, FoldedSet};
use super::guard::{Admission, DimensionGuard, SetDigest, overflow_values};
use super::metrics::EventMetrics;
use super::states::{ObjectKey, ObjectState, StateChange, StateKey, StateObservation};
use super::value_catalog::SeenValues;
use super::view::UnflushedGeneration;
use crate::Metric;
use crate::dimension::DimensionHasher;

#[derive(Debug)]
pub(super) struct Generation {
    pub(super) number: u64,
    /// The last block that it has.
    pub(super) last_seq: u64,
    pub(super) cells: UnflushedCells,
    /// Records to be written.
    pub(super) new_sets: Vec<NewSet>,
    pub(super) identities: HashMap<IdentityKey, u64>,
    /// Objects whose state has changed, as they are at its end.
    pub(super) objects: HashMap<ObjectKey, ObjectState>,
    /// How much the counts of states have changed.
    pub(super) state_counts: Arc<HashMap<StateKey, i64>>,
    pub(super) values: SeenValues,
}

/// A set of dimension values that is not in the dictionary as of its day.
#[derive(Clone, Debug)]
pub(super) struct NewSet {
    pub(super) metric: u32,
    pub(super) digest: SetDigest,
    pub(super) values: Arc<[u8]>,
    pub(super) day: i64,
}

/// What blocks are added with.
pub(super) struct Adding<'a> {
    pub(super) guard: &'a mut DimensionGuard,
    pub(super) metrics: &'a EventMetrics,
    /// Generations before this one that are not flushed, oldest first.
    pub(super) closed: &'a VecDeque<Arc<Generation>>,
    /// Objects as the store has them. Those of unflushed generations are newer.
    pub(super) stored_objects: &'a HashMap<ObjectKey, ObjectState>,
    /// Of arrival, since the epoch.
    pub(super) day: i64,
    pub(super) max_values: usize,
}

impl Generation {
    pub(super) fn new(number: u64, last_seq: u64) -> Self {
        Self {
            number,
            last_seq,
            cells: UnflushedCells::default(),
            new_sets: Vec::new(),
            identities: HashMap::new(),
            objects: HashMap::new(),
            state_counts: Arc::default(),
            values: SeenValues::default(),
        }
    }

    /// Adds the events of a block.
    pub(super) fn add(
        &mut self,
        seq: u64,
        identities: &[IdentityKey],
        folded: Folded,
        adding: &mut Adding<'_>,
    ) {
        self.last_seq = seq;
        let identities = identities.iter().map(|identity| (*identity, seq));
        self.identities.extend(identities);
        for FoldedMetric { metric, sets } in folded.metrics {
            for set in sets {
                self.add_set(&metric, set, adding);
            }
        }
        for observation in &folded.states {
            self.add_state(observation, adding);
        }
        self.values.merge(folded.values, adding.max_values);
        for ((_, reason), (metric, events)) in folded.skipped {
            adding.metrics.skip(&metric.name, reason, events);
        }
    }

    fn add_set(&mut self, metric: &Arc<Metric>, set: FoldedSet, adding: &mut Adding<'_>) {
        let admission = adding.guard.admit(metric.number, set.digest, adding.day);
        match admission {
            Admission::Known => {}
            Admission::New => self.add_to_dictionary(metric, &set, adding.day),
            Admission::TooMany | Admission::Collision => {
                let counter = match admission {
                    Admission::Collision => &adding.metrics.dimension_collisions,
                    _ => &adding.metrics.dimension_overflow,
                };
                counter.add(set.observations);
                return self.add_overflow(metric, set, adding.day);
            }
        }
        let hash = set.digest.hash;
        self.cells.add(metric, hash, &set.values, set.cells);
    }

    /// The overflow cell is beside the limit, so that there always is one.
    fn add_overflow(&mut self, metric: &Arc<Metric>, set: FoldedSet, day: i64) {
        let values = overflow_values(metric);
        let set = FoldedSet {
            digest: SetDigest::of(&values),
            values,
            ..set
        };
        let hash = set.digest.hash;
        let known = self.cells.metric(metric.number);
        if known.is_none_or(|known| !known.sets.contains_key(&hash)) {
            self.add_to_dictionary(metric, &set, day);
        }
        self.cells.add(metric, hash, &set.values, set.cells);
    }

    fn add_to_dictionary(&mut self, metric: &Metric, set: &FoldedSet, day: i64) {
        self.new_sets.push(NewSet {
            metric: metric.number,
            digest: set.digest,
            values: set.values.clone(),
            day,
        });
    }

    fn add_state(&mut self, observation: &StateObservation, adding: &mut Adding<'_>) {
        let known = self.object(&observation.object, adding);
        let old = known.map(|known| known.state.clone());
        match observation.change(known) {
            StateChange::Late => adding.metrics.late_states.add(1),
            StateChange::Confirmed(object) => {
                self.objects.insert(observation.object.clone(), object);
            }
            StateChange::Changed { object, from } => {
                let counts = Arc::make_mut(&mut self.state_counts);
                if let Some(old) = old {
                    *counts.entry(observation.object.in_state(&old)).or_default() -= 1;
                }
                let new = observation.object.in_state(&object.state);
                *counts.entry(new).or_default() += 1;
                self.objects.insert(observation.object.clone(), object);
                for state in from {
                    let set = transition(observation, &state);
                    self.add_set(&observation.transitions, set, adding);
                }
            }
        }
    }

    /// What is known of an object by now.
    fn object<'a>(&'a self, key: &ObjectKey, adding: &'a Adding<'_>) -> Option<&'a ObjectState> {
        let closed = || adding.closed.iter().rev();
        let unflushed = self.objects.get(key);
        unflushed
            .or_else(|| closed().find_map(|generation| generation.objects.get(key)))
            .or_else(|| adding.stored_objects.get(key))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.identities.is_empty()
    }

    /// About how much memory it takes.
    pub(super) fn bytes(&self) -> usize {
        /// An identity in its map.
        const IDENTITY_BYTES: usize = 48;
        /// An object with its strings.
        const OBJECT_BYTES: usize = 256;
        self.cells.bytes()
            + self.identities.len() * IDENTITY_BYTES
            + self.objects.len() * OBJECT_BYTES
    }

    pub(super) fn view(&self) -> UnflushedGeneration {
        UnflushedGeneration {
            number: self.number,
            cells: self.cells.clone(),
            state_counts: self.state_counts.clone(),
        }
    }
}

/// One transition, as a counter has it.
fn transition(observation: &StateObservation, from: &str) -> FoldedSet {
    let object = &observation.object;
    let mut hasher = DimensionHasher::new();
    hasher.push("object_type", &object.object_type);
    hasher.push("attribute", &object.attribute);
    hasher.push("from", from);
    hasher.push("to", &observation.state);
    let at_s = observation.started_ns.div_euclid(1_000_000_000);
    let start_s = EventWindow::FiveSeconds.start_of(at_s);
    let cell = Cell::Counter(CounterCell {
        first_s: start_s,
        count: 1,
        sum: 0.0,
    });
    FoldedSet {
        digest: SetDigest::of(hasher.canonical()),
        values: Arc::from(hasher.canonical()),
        observations: 1,
        cells: HashMap::from([(start_s, cell)]),
    }
}
