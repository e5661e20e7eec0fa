//! Flushing: a closed generation becomes one batch of the store.
//!
//! Holds always:
//! - Generations are flushed one after the other, oldest first, and each as a whole: cells of all
//!   windows, identities, states, dictionary, and the mark that says so.
//! - After an error the mark is read: a generation that it has is never written again, and one that
//!   it does not have is not lost.
//! - Accepting goes on meanwhile, into the next generation.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use icecore_model::StoreError;
use icecore_model::event::{
    Cell, CellKey, EventBatch, EventId, EventWindow, FlushMark, GaugeCell, Reducer,
};

use super::Engine;
use super::accept::unavailable;
use super::generation::Generation;
use super::guard::{SetDigest, set_record};
use super::prepared::day_of;
use super::states::{self, StateKey};
use super::value_catalog::ValueCatalog;
use super::void_events::VoidEvents;
use crate::dimension::DimensionHasher;
use crate::{Problem, Registry};

/// What is stored and changes with each flush. Only those who flush have it.
#[derive(Default)]
pub(super) struct Flusher {
    pub(super) counts: HashMap<StateKey, i64>,
    pub(super) values: ValueCatalog,
    /// Whether a write has ended with an error, and the mark could not be read since.
    pub(super) is_uncertain: bool,
    /// Whether there is a record of void events.
    pub(super) has_void_record: bool,
    /// The minute that all counts of states were last written for.
    counted_minute: i64,
    /// States whose records in the dictionary name this day.
    named_states: HashSet<StateKey>,
    named_day: i64,
}

impl Engine {
    /// Closes the open generation and flushes everything. Returns the mark.
    pub(super) async fn flush(&self) -> Result<FlushMark, Problem> {
        let mut flusher = self.undecided.or(self.flusher.lock()).await?;
        self.memory.lock().close_generation();
        let mark = self.flush_closed(&mut flusher).await?;
        self.flush_counts(&mut flusher).await.map_err(unavailable)?;
        Ok(mark)
    }

    /// Writes the counts of states where no event has come to do so: a count is as of a minute, and
    /// queries look for it in the last ones. Doing it twice is doing it once.
    async fn flush_counts(&self, flusher: &mut Flusher) -> Result<(), StoreError> {
        let now_ms = self.clock.now_ms();
        if flusher.is_uncertain || !flusher.are_counts_due(now_ms) {
            return Ok(());
        }
        let (registry, mark) = {
            let memory = self.memory.lock();
            (memory.registry.clone(), memory.mark())
        };
        let at = CountTime {
            now_ms,
            guarded_ms: self.store.guarded_ms(),
            generation: mark.generation,
        };
        let counts = flusher.count_cells(&HashMap::new(), &registry, at);
        if !counts.cells.is_empty() {
            self.metrics.flushed_cells.add(counts.cells.len() as u64);
            let batch = EventBatch {
                cells: counts.cells,
                records: counts.records,
                ..EventBatch::default()
            };
            self.store.write(batch).await?;
        }
        flusher.counted(&HashMap::new(), at);
        Ok(())
    }

    pub(super) async fn flush_closed(&self, flusher: &mut Flusher) -> Result<FlushMark, Problem> {
        loop {
            let Some(generation) = self.memory.lock().oldest_closed() else {
                break;
            };
            let began_ms = self.clock.elapsed_ms();
            let flushed = self.flush_generation(flusher, &generation).await;
            let seconds = (self.clock.elapsed_ms() - began_ms) as f64 / 1e3;
            self.metrics.flush_seconds.observe(seconds);
            if let Err(error) = flushed {
                self.metrics.failed_flushes.add(1);
                return Err(unavailable(error));
            }
            self.metrics.flushes.add(1);
        }
        Ok(self.memory.lock().mark())
    }

    async fn flush_generation(
        &self,
        flusher: &mut Flusher,
        generation: &Arc<Generation>,
    ) -> Result<(), StoreError> {
        let (registry, void) = {
            let memory = self.memory.lock();
            (
                memory.registry.clone(),
                memory.void.up_to(generation.last_seq),
            )
        };
        let mark = FlushMark {
            generation: generation.number,
            seq: generation.last_seq,
            registry_version: registry.version,
        };
        let now_ms = self.clock.now_ms();
        let at = CountTime {
            now_ms,
            guarded_ms: self.store.guarded_ms(),
            generation: generation.number,
        };
        let counts = flusher.count_cells(&generation.state_counts, &registry, at);
        let is_applied = flusher.is_uncertain && self.is_marked(flusher, mark).await?;
        if !is_applied {
            let mut batch = build(generation.clone(), at).await?;
            let max_values = self.options.max_catalog_values;
            batch
                .records
                .extend(flusher.records(generation, &void, max_values));
            batch.records.extend(counts.records);
            batch.cells.extend(counts.cells);
            batch.flushed = Some(mark);
            self.metrics.flushed_cells.add(batch.cells.len() as u64);
            self.write_marked(flusher, batch, mark).await?;
        }
        flusher.apply(generation, &void, self.options.max_catalog_values, at);
        self.memory.lock().flushed(mark);
        Ok(())
    }

    /// Writes a batch with a mark; returns without an error if it is applied, whatever the store
    /// has answered.
    pub(super) async fn write_marked(
        &self,
        flusher: &mut Flusher,
        batch: EventBatch,
        mark: FlushMark,
    ) -> Result<(), StoreError> {
        let Err(error) = self.store.write(batch).await else {
            return Ok(());
        };
        flusher.is_uncertain = true;
        if self.is_marked(flusher, mark).await? {
            tracing::warn!(%error, generation = mark.generation, "flushed in spite of an error");
            return Ok(());
        }
        Err(error)
    }

    /// Whether the store has a generation.
    pub(super) async fn is_marked(
        &self,
        flusher: &mut Flusher,
        mark: FlushMark,
    ) -> Result<bool, StoreError> {
        let snapshot = self.store.snapshot().await?;
        flusher.is_uncertain = false;
        Ok(snapshot.mark().generation >= mark.generation)
    }
}

/// The cells, identities and sets of a generation. CPU work, so it has a thread of its own.
async fn build(generation: Arc<Generation>, at: CountTime) -> Result<EventBatch, StoreError> {
    let built = tokio::task::spawn_blocking(move || {
        let mut batch = EventBatch::default();
        let now_s = at.guarded_ms.div_euclid(1000);
        for metric in generation.cells.metrics() {
            for window in metric.metric.windows() {
                let cells = metric.of_window(window, now_s).into_iter();
                batch.cells.extend(cells.map(|((start_s, hash), cell)| {
                    let key = CellKey {
                        window,
                        metric: metric.metric.number,
                        start_s,
                        dimensions: hash,
                    };
                    (key, cell)
                }));
            }
        }
        let identities = generation.identities.iter();
        batch.identities = identities.map(|(key, seq)| (*key, *seq)).collect();
        let sets = generation.new_sets.iter();
        let sets = sets.map(|set| {
            let day = set.day.max(at.named_day());
            set_record(set.metric, set.digest.hash, &set.values, day)
        });
        batch.records.extend(sets);
        let objects = generation.objects.iter();
        let objects = objects.map(|(key, object)| object.record(key));
        batch.records.extend(objects);
        batch
    });
    built
        .await
        .map_err(|error| StoreError(format!("building the batch of a flush: {error}")))
}

/// When states were counted.
#[derive(Clone, Copy)]
struct CountTime {
    now_ms: i64,
    /// Events that are too old by this one have no cells.
    guarded_ms: i64,
    generation: u64,
}

impl CountTime {
    /// Returns the day that records of sets name. Cells are of events up to the machine's time,
    /// also while the guarded clock is behind it.
    fn named_day(self) -> i64 {
        day_of(self.guarded_ms.max(self.now_ms))
    }

    /// Of two counts at the same moment the one of the later generation is right, whichever way
    /// their cells are merged.
    fn tie_breaker(self) -> EventId {
        EventId(u128::from(self.generation).to_be_bytes())
    }
}

/// What the counts of states add to a batch.
#[derive(Default)]
struct CountCells {
    cells: Vec<(CellKey, Cell)>,
    records: Vec<icecore_model::CatalogChange>,
}

impl Flusher {
    fn records(
        &self,
        generation: &Generation,
        void: &VoidEvents,
        max_values: usize,
    ) -> Vec<icecore_model::CatalogChange> {
        let changed = generation.state_counts.iter();
        let counts = changed.map(|(key, by)| states::count_record(key, self.count(key) + by));
        let mut records: Vec<_> = counts.collect();
        records.extend(self.values.records(&generation.values, max_values));
        let void = void.record();
        if void.value.is_some() || self.has_void_record {
            records.push(void);
        }
        records
    }

    fn count(&self, key: &StateKey) -> i64 {
        self.counts.get(key).copied().unwrap_or_default()
    }

    /// Takes over what was written.
    fn apply(
        &mut self,
        generation: &Generation,
        void: &VoidEvents,
        max_values: usize,
        at: CountTime,
    ) {
        let values = self.values.records(&generation.values, max_values);
        self.values.apply(&values);
        self.counted(&generation.state_counts, at);
        for (key, by) in generation.state_counts.iter() {
            *self.counts.entry(key.clone()).or_default() += by;
        }
        self.counts.retain(|_, count| *count != 0);
        self.has_void_record = void.record().value.is_some();
    }

    /// Takes note of the states that cells were written of.
    fn counted(&mut self, changed: &HashMap<StateKey, i64>, at: CountTime) {
        let today = day_of(at.guarded_ms);
        if self.named_day != today {
            self.named_day = today;
            self.named_states.clear();
        }
        self.named_states.extend(changed.keys().cloned());
        if self.are_counts_due(at.now_ms) {
            self.named_states.extend(self.counts.keys().cloned());
        }
        self.counted_minute = at.now_ms.div_euclid(MINUTE_MS);
    }

    fn are_counts_due(&self, now_ms: i64) -> bool {
        self.counted_minute != now_ms.div_euclid(MINUTE_MS)
    }

    /// Counts of states as gauges: those that change, and once a minute all of them.
    fn count_cells(
        &self,
        changed: &HashMap<StateKey, i64>,
        registry: &Registry,
        at: CountTime,
    ) -> CountCells {
        let mut counts = CountCells::default();
        let is_due = self.are_counts_due(at.now_ms);
        let unchanged = self.counts.iter();
        let unchanged = unchanged.filter(|(key, _)| is_due && !changed.contains_key(*key));
        let unchanged = unchanged.map(|(key, count)| (key, *count));
        let changed = changed.iter().map(|(key, by)| (key, self.count(key) + by));
        for (key, count) in changed.chain(unchanged) {
            self.add_count(&mut counts, registry, key, count, at);
        }
        counts
    }

    fn add_count(
        &self,
        counts: &mut CountCells,
        registry: &Registry,
        key: &StateKey,
        count: i64,
        at: CountTime,
    ) {
        let mut services = registry.services.values();
        let service = services.find(|service| service.number == key.service);
        let Some(metrics) = service.and_then(|service| service.state_metrics.as_ref()) else {
            return;
        };
        let metric = &metrics.counts;
        let mut hasher = DimensionHasher::new();
        hasher.push("object_type", &key.object_type);
        hasher.push("attribute", &key.attribute);
        hasher.push("state", &key.state);
        let digest = SetDigest::of(hasher.canonical());
        let today = day_of(at.guarded_ms);
        if self.named_day != today || !self.named_states.contains(key) {
            let day = at.named_day();
            let record = set_record(metric.number, digest.hash, hasher.canonical(), day);
            counts.records.push(record);
        }
        let now_s = at.now_ms.div_euclid(1000);
        for window in metric
            .windows()
            .filter(|window| *window >= EventWindow::Minute)
        {
            let key = CellKey {
                window,
                metric: metric.number,
                start_s: window.start_of(now_s),
                dimensions: digest.hash,
            };
            let cell = Cell::Gauge(GaugeCell {
                first_s: EventWindow::FiveSeconds.start_of(now_s),
                reducer: Reducer::Latest,
                value: count as f64,
                observed_ns: at.now_ms.saturating_mul(1_000_000),
                event: at.tie_breaker(),
            });
            counts.cells.push((key, cell));
        }
    }
}

const MINUTE_MS: i64 = 60_000;
