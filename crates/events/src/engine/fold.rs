//! Folding: what the events of one block add to cells, states and catalogued values.
//!
//! ```text
//! events of a block + plan ─► Folded: for each metric and set of dimension values, cells of 5 s
//! ```
//!
//! Pure, and without a lock: the outcome is added to a generation when the block is durable. Events
//! of a request mostly fall into few cells, so adding is cheap.
//!
//! Elsewhere: which sets get cells of their own (`guard`), what becomes of states (`states`).

use std::collections::HashMap;
use std::sync::Arc;

use icecore_model::event::{
    Cell, CellExemplar, CounterCell, EventId, EventWindow, GaugeCell, HistogramCell, SketchCounts,
    Week,
};

use super::attribute_value::{self, Lookup};
use super::fold_plan::{FoldPlan, MetricPlan, StatePlan, TypePlan};
use super::guard::SetDigest;
use super::metrics::SkipReason;
use super::states::{ObjectKey, StateObservation};
use super::value_catalog::SeenValues;
use crate::dimension::DimensionHasher;
use crate::{Metric, MetricKind, OnMissing, StoredEvent};

/// What a block adds.
#[derive(Debug, Default)]
pub(crate) struct Folded {
    pub(crate) metrics: Vec<FoldedMetric>,
    pub(crate) skipped: HashMap<(u32, SkipReason), (Arc<Metric>, u64)>,
    /// In the order of the events.
    pub(crate) states: Vec<StateObservation>,
    pub(crate) values: SeenValues,
}

#[derive(Debug)]
pub(crate) struct FoldedMetric {
    pub(crate) metric: Arc<Metric>,
    pub(crate) sets: Vec<FoldedSet>,
}

/// Cells of one set of dimension values.
#[derive(Debug)]
pub(crate) struct FoldedSet {
    pub(crate) values: Arc<[u8]>,
    pub(crate) digest: SetDigest,
    /// How many observations they are made of.
    pub(crate) observations: u64,
    /// By the start of their 5 s.
    pub(crate) cells: HashMap<i64, Cell>,
}

/// Folds the events of a block. `max_future_ns` is how far ahead of their arrival things may be
/// observed.
pub(crate) fn fold(plan: &FoldPlan, events: &[StoredEvent<'_>], max_future_ns: i64) -> Folded {
    let mut folding = Folding {
        max_future_ns,
        ..Folding::default()
    };
    for event in events {
        if let Some(plan) = plan.of(&event.service, &event.event_type) {
            folding.event(plan, event);
        }
    }
    folding.finish()
}

#[derive(Default)]
struct Folding {
    max_future_ns: i64,
    metrics: HashMap<u32, OpenMetric>,
    folded: Folded,
    hasher: DimensionHasher,
}

struct OpenMetric {
    metric: Arc<Metric>,
    sets: HashMap<Box<[u8]>, OpenSet>,
}

#[derive(Default)]
struct OpenSet {
    observations: u64,
    cells: HashMap<i64, Cell>,
}

/// What an event means for one metric.
struct Observation<'a> {
    plan: &'a MetricPlan,
    event: &'a StoredEvent<'a>,
    at_ns: i64,
    value: f64,
}

impl Folding {
    fn event(&mut self, plan: &TypePlan, event: &StoredEvent<'_>) {
        for metric in &plan.metrics {
            if let Err(reason) = self.metric(metric, event) {
                self.skip(&metric.metric, reason);
            }
        }
        for path in &plan.catalogued {
            if let Some(value) = event.attributes.get(path) {
                let values = &mut self.folded.values;
                values.see(plan.service, path, value, event.started_ns);
            }
        }
        for state in &plan.states {
            match observed_state(plan.service, state, event) {
                Ok(observed) => self.folded.states.extend(observed),
                Err(reason) => self.skip(&state.transitions, reason),
            }
        }
    }

    /// Takes note of an event that does not count.
    fn skip(&mut self, metric: &Arc<Metric>, reason: SkipReason) {
        let entry = self.folded.skipped.entry((metric.number, reason));
        entry.or_insert_with(|| (metric.clone(), 0)).1 += 1;
    }

    fn metric(&mut self, plan: &MetricPlan, event: &StoredEvent<'_>) -> Result<(), SkipReason> {
        let metric = &*plan.metric;
        let lookup = Lookup::new(metric, event);
        if !metric.filters.iter().all(|filter| lookup.satisfies(filter)) {
            return Ok(());
        }
        self.hasher.clear();
        for dimension in &metric.dimensions {
            let is_there = lookup.push_dimension(&dimension.path, &mut self.hasher);
            if !is_there && metric.on_missing == OnMissing::Skip {
                return Err(SkipReason::MissingDimension);
            }
        }
        let observation = self.observe(plan, event, &lookup)?;
        let entry = self.metrics.entry(metric.number);
        let open = entry.or_insert_with(|| OpenMetric {
            metric: plan.metric.clone(),
            sets: HashMap::new(),
        });
        let bytes = self.hasher.canonical();
        // Looked up twice only when it is new: entries need a key that is owned.
        let set = match open.sets.get_mut(bytes) {
            Some(set) => set,
            None => open.sets.entry(Box::from(bytes)).or_default(),
        };
        set.add(&observation);
        Ok(())
    }

    fn observe<'a>(
        &self,
        plan: &'a MetricPlan,
        event: &'a StoredEvent<'a>,
        lookup: &Lookup<'_>,
    ) -> Result<Observation<'a>, SkipReason> {
        let bad = SkipReason::BadValue;
        let mut at_ns = event.started_ns;
        let value = match &plan.metric.kind {
            MetricKind::Counter { sum_of: None } => 0.0,
            MetricKind::Counter { sum_of: Some(path) } => lookup.number(path).ok_or(bad)?,
            MetricKind::Histogram {
                value: Some(path), ..
            } => lookup.number(path).ok_or(bad)?,
            MetricKind::Histogram { value: None, .. } => event.duration_ns.ok_or(bad)? as f64 / 1e6,
            MetricKind::Gauge {
                value, observed_at, ..
            } => {
                if let Some(path) = observed_at {
                    at_ns = lookup.time_ns(path)?.unwrap_or(at_ns);
                }
                lookup.number(value).ok_or(bad)?
            }
        };
        // Beyond the weeks that keys can name there are no cells.
        let week_s = Week::of(0).start_s();
        if at_ns.div_euclid(1_000_000_000) < week_s
            || at_ns > event.received_ns.saturating_add(self.max_future_ns)
        {
            return Err(bad);
        }
        Ok(Observation {
            plan,
            event,
            at_ns,
            value,
        })
    }

    fn finish(mut self) -> Folded {
        let metrics = self.metrics.into_values().map(|open| FoldedMetric {
            metric: open.metric,
            sets: open.sets.into_iter().map(FoldedSet::new).collect(),
        });
        self.folded.metrics = metrics.collect();
        self.folded
    }
}

impl FoldedSet {
    fn new((values, set): (Box<[u8]>, OpenSet)) -> Self {
        Self {
            digest: SetDigest::of(&values),
            values: values.into(),
            observations: set.observations,
            cells: set.cells,
        }
    }
}

impl OpenSet {
    fn add(&mut self, observation: &Observation<'_>) {
        self.observations += 1;
        let at_s = observation.at_ns.div_euclid(1_000_000_000);
        let start_s = EventWindow::FiveSeconds.start_of(at_s);
        let entry = self.cells.entry(start_s);
        let cell = entry.or_insert_with(|| empty_cell(&observation.plan.metric.kind, start_s));
        match (cell, &observation.plan.metric.kind) {
            (Cell::Counter(cell), _) => {
                cell.count += 1;
                cell.sum += observation.value;
            }
            (Cell::Histogram(cell), MetricKind::Histogram { bounds, .. }) => {
                add_to_histogram(cell, bounds, observation);
            }
            (Cell::Gauge(cell), MetricKind::Gauge { reducer, .. }) => {
                let observed = GaugeCell {
                    first_s: start_s,
                    reducer: *reducer,
                    value: observation.value,
                    observed_ns: observation.at_ns,
                    event: observation.event.id,
                };
                if cell.observed_ns == NOTHING_OBSERVED {
                    *cell = observed;
                } else {
                    // Both have the reducer of the metric.
                    cell.merge(&observed).unwrap_or_default();
                }
            }
            // A cell is made by the kind of the metric.
            _ => {}
        }
    }
}

/// Marks a gauge cell that has just been made: no time that is accepted is as early.
const NOTHING_OBSERVED: i64 = i64::MIN;

fn empty_cell(kind: &MetricKind, first_s: i64) -> Cell {
    match kind {
        MetricKind::Counter { .. } => Cell::Counter(CounterCell {
            first_s,
            count: 0,
            sum: 0.0,
        }),
        MetricKind::Histogram { bounds, sketch, .. } => Cell::Histogram(HistogramCell {
            first_s,
            counts: vec![0; bounds.len() + 1],
            samples: 0,
            sum: 0.0,
            min: f64::INFINITY,
            max: f64::NEG_INFINITY,
            sketch: sketch.map(|sketch| SketchCounts {
                relative_accuracy: sketch.relative_accuracy,
                zero: 0,
                positive: Vec::new(),
                negative: Vec::new(),
            }),
            exemplars: Vec::new(),
        }),
        MetricKind::Gauge { reducer, .. } => Cell::Gauge(GaugeCell {
            first_s,
            reducer: *reducer,
            value: 0.0,
            observed_ns: NOTHING_OBSERVED,
            event: EventId::default(),
        }),
    }
}

fn add_to_histogram(cell: &mut HistogramCell, bounds: &[f64], observation: &Observation<'_>) {
    let value = observation.value;
    let bucket = bounds.partition_point(|bound| *bound < value);
    cell.counts[bucket] += 1;
    cell.samples += 1;
    cell.sum += value;
    cell.min = cell.min.min(value);
    cell.max = cell.max.max(value);
    if let (Some(sketch), Some(ln_ratio)) = (&mut cell.sketch, observation.plan.sketch_ln_ratio) {
        add_to_sketch(sketch, value, ln_ratio);
    }
    cell.offer(CellExemplar {
        bucket: u32::try_from(bucket).unwrap_or(u32::MAX),
        value,
        at_ns: observation.at_ns,
        event: observation.event.id,
        trace_id: observation.event.trace_id,
    });
}

fn add_to_sketch(sketch: &mut SketchCounts, value: f64, ln_ratio: f64) {
    if value == 0.0 {
        sketch.zero += 1;
        return;
    }
    let index = (value.abs().ln() / ln_ratio).ceil() as i32;
    let counts = if value > 0.0 {
        &mut sketch.positive
    } else {
        &mut sketch.negative
    };
    match counts.binary_search_by_key(&index, |(index, _)| *index) {
        Ok(at) => counts[at].1 += 1,
        Err(at) => counts.insert(at, (index, 1)),
    }
}

/// Bytes of the id of an object, and of a state. They are parts of keys, and an object's record has
/// up to a thousand states: a batch that the store must refuse could never be flushed.
const STATE_BYTES_MAX: usize = 1 << 10;

/// The state that an event says its object has, if it names both.
fn observed_state(
    service: u32,
    plan: &StatePlan,
    event: &StoredEvent<'_>,
) -> Result<Option<StateObservation>, SkipReason> {
    let text = |path: &str| {
        let text = attribute_value::text(event.attributes.get(path)?);
        text.filter(|text| !text.trim().is_empty())
    };
    let (Some(id), Some(state)) = (text(&plan.object_id), text(&plan.attribute)) else {
        return Ok(None);
    };
    if id.len().max(state.len()) > STATE_BYTES_MAX {
        return Err(SkipReason::TooLong);
    }
    Ok(Some(StateObservation {
        object: ObjectKey {
            service,
            object_type: plan.object_type.clone(),
            attribute: plan.attribute.clone(),
            id: id.into(),
        },
        state: state.into(),
        started_ns: event.started_ns,
        event: event.id,
        previous: plan.previous.clone(),
        transitions: plan.transitions.clone(),
    }))
}
