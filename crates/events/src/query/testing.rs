//! Cells in memory, and metrics to make them of.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use icecore_model::BoxFuture;
use icecore_model::event::{
    Cell, CellScan, CounterCell, DimensionHash, EventId, EventWindow, GaugeCell, HistogramCell,
    Reducer, StoredCell,
};

use super::{CellSource, DimensionValues};
use crate::engine::as_stored;
use crate::{
    Dimension, DimensionHasher, EventType, Metric, MetricKind, OnMissing, Problem, Registry,
    Service, StateExtractor, StateMetrics, WindowRetention,
};

/// 2026-11-11T12:00:00Z, a Wednesday.
pub(crate) const NOW_MS: i64 = 1_794_398_400_000;
/// 2026-11-09T00:00:00Z, the Monday of that week.
pub(crate) const MONDAY_S: i64 = 1_794_182_400;

pub(crate) fn metric(number: u32, name: &str, paths: &[&str], kind: MetricKind) -> Arc<Metric> {
    let dimension = |path: &&str| Dimension {
        path: (*path).to_owned(),
        label: path.replace('.', "_"),
    };
    Arc::new(Metric {
        number,
        name: name.to_owned(),
        series: name.to_owned(),
        built_in: false,
        dimensions: paths.iter().map(dimension).collect(),
        on_missing: OnMissing::Skip,
        filters: Vec::new(),
        fold: None,
        base: EventWindow::FiveSeconds,
        retention: WindowRetention::default(),
        kind,
    })
}

pub(crate) fn counter(number: u32, name: &str, paths: &[&str]) -> Arc<Metric> {
    metric(number, name, paths, MetricKind::Counter { sum_of: None })
}

pub(crate) fn histogram(number: u32, name: &str, bounds: &[f64]) -> Arc<Metric> {
    let kind = MetricKind::Histogram {
        value: None,
        bounds: bounds.into(),
        sketch: None,
        percentiles: vec![0.5, 0.9],
    };
    metric(number, name, &["order.channel"], kind)
}

pub(crate) fn gauge(number: u32, name: &str, reducer: Reducer) -> Arc<Metric> {
    let kind = MetricKind::Gauge {
        value: "stock.level".to_owned(),
        reducer,
        observed_at: None,
    };
    metric(number, name, &["order.channel"], kind)
}

/// Cells of all windows, as an engine would have made them.
pub(crate) struct MemoryCells {
    registry: Arc<Registry>,
    pub(crate) now_ms: i64,
    cells: BTreeMap<(u32, EventWindow, i64, DimensionHash), Cell>,
    sets: HashMap<(u32, DimensionHash), DimensionValues>,
    pub(crate) states: Vec<(String, i64)>,
    /// How many cells were handed over, by window.
    pub(crate) read: parking_lot::Mutex<BTreeMap<EventWindow, usize>>,
}

impl MemoryCells {
    /// The service `shop` with the type `order.placed`, and with states of objects.
    pub(crate) fn new(metrics: Vec<Arc<Metric>>) -> Self {
        Self::with_retired(metrics, Vec::new())
    }

    pub(crate) fn with_retired(metrics: Vec<Arc<Metric>>, retired: Vec<Arc<Metric>>) -> Self {
        let event_type = EventType {
            number: 1,
            service: "shop".to_owned(),
            name: "order.placed".to_owned(),
            display_name: None,
            labels: BTreeMap::new(),
            retention: Duration::from_secs(30 * 86_400),
            fields: Vec::new(),
            objects: Vec::new(),
            dimensions: Vec::new(),
            masking: Vec::new(),
            metrics,
            retired,
        };
        let extractor = |object_type: &str| StateExtractor {
            event_type: "order.updated".to_owned(),
            object_type: object_type.to_owned(),
            object_id: "order.id".to_owned(),
            attributes: vec!["order.status".to_owned()],
            previous: crate::PreviousStates::Latest,
        };
        let of_states = ["object_type", "attribute", "state"];
        let counts = MetricKind::Gauge {
            value: String::new(),
            reducer: Reducer::Latest,
            observed_at: None,
        };
        let mut counts = (*metric(901, "state_count", &of_states, counts)).clone();
        counts.base = EventWindow::Minute;
        let of_changes = ["object_type", "attribute", "from", "to"];
        let service = Service {
            number: 7,
            types: BTreeMap::from([("order.placed".to_owned(), Arc::new(event_type))]),
            states: vec![extractor("Order"), extractor("Parcel")],
            state_metrics: Some(StateMetrics {
                counts: Arc::new(counts),
                transitions: counter(902, "state_transitions_total", &of_changes),
            }),
        };
        let registry = Registry {
            services: BTreeMap::from([("shop".to_owned(), Arc::new(service))]),
            ..Registry::default()
        };
        Self {
            registry: Arc::new(registry),
            now_ms: NOW_MS,
            cells: BTreeMap::new(),
            sets: HashMap::new(),
            states: Vec::new(),
            read: parking_lot::Mutex::default(),
        }
    }

    pub(crate) fn add(&mut self, metric: &Metric, at_s: i64, values: &[&str], mut cell: Cell) {
        let first_s = EventWindow::FiveSeconds.start_of(at_s);
        match &mut cell {
            Cell::Counter(cell) => cell.first_s = first_s,
            Cell::Histogram(cell) => cell.first_s = first_s,
            Cell::Gauge(cell) => cell.first_s = first_s,
        }
        let mut hasher = DimensionHasher::new();
        let paths = metric.dimensions.iter().map(|dimension| &dimension.path);
        let set: DimensionValues = paths
            .zip(values)
            .filter(|(_, value)| !value.is_empty())
            .map(|(path, value)| (path.clone(), (*value).to_owned()))
            .collect();
        for (path, value) in &set {
            hasher.push(path, value);
        }
        let hash = hasher.finish();
        self.sets.insert((metric.number, hash), set);
        for window in metric.windows() {
            let key = (metric.number, window, window.start_of(at_s), hash);
            let cell = as_stored(&cell, window);
            match self.cells.get_mut(&key) {
                Some(known) => known.merge(&cell).unwrap(),
                None => {
                    self.cells.insert(key, cell);
                }
            }
        }
    }

    pub(crate) fn count(&mut self, metric: &Metric, at_s: i64, values: &[&str], count: i64) {
        let cell = CounterCell {
            first_s: 0,
            count,
            sum: count as f64 * 1.5,
        };
        self.add(metric, at_s, values, Cell::Counter(cell));
    }

    pub(crate) fn observe(&mut self, metric: &Metric, at_s: i64, values: &[&str], value: f64) {
        let cell = match &metric.kind {
            MetricKind::Histogram { bounds, .. } => {
                let mut counts = vec![0; bounds.len() + 1];
                counts[bounds.partition_point(|bound| *bound < value)] = 1;
                Cell::Histogram(HistogramCell {
                    first_s: 0,
                    counts,
                    samples: 1,
                    sum: value,
                    min: value,
                    max: value,
                    sketch: None,
                    exemplars: Vec::new(),
                })
            }
            MetricKind::Gauge { reducer, .. } => Cell::Gauge(GaugeCell {
                first_s: 0,
                reducer: *reducer,
                value,
                observed_ns: at_s * 1_000_000_000,
                event: EventId::default(),
            }),
            MetricKind::Counter { .. } => panic!("counters count"),
        };
        self.add(metric, at_s, values, cell);
    }

    /// Forgets the cells of a window that begin before a moment.
    pub(crate) fn expire(&mut self, window: EventWindow, before_s: i64) {
        self.cells
            .retain(|(_, of, start_s, _), _| *of != window || *start_s >= before_s);
    }

    pub(crate) fn state_metrics(&self) -> StateMetrics {
        self.registry.services["shop"]
            .state_metrics
            .clone()
            .unwrap()
    }

    pub(crate) fn cells_read(&self) -> BTreeMap<&'static str, usize> {
        let read = std::mem::take(&mut *self.read.lock());
        read.into_iter()
            .map(|(window, n)| (window.code(), n))
            .collect()
    }
}

impl CellSource for MemoryCells {
    fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    fn now_ms(&self) -> i64 {
        self.now_ms
    }

    fn guarded_ms(&self) -> i64 {
        self.now_ms
    }

    fn cells(&self, scan: CellScan) -> BoxFuture<'_, Result<Vec<StoredCell>, Problem>> {
        let key = |start_s| (scan.metric, scan.window, start_s, DimensionHash::default());
        let range = self
            .cells
            .range(key(scan.starts_s.start)..key(scan.starts_s.end));
        let range = range.map(|((_, _, start_s, dimensions), cell)| StoredCell {
            start_s: *start_s,
            dimensions: *dimensions,
            cell: cell.clone(),
        });
        let after = |cell: &StoredCell| {
            scan.after
                .is_none_or(|after| (cell.start_s, cell.dimensions) > after)
        };
        let cells: Vec<_> = range.filter(after).take(scan.limit).collect();
        *self.read.lock().entry(scan.window).or_default() += cells.len();
        Box::pin(async move { Ok(cells) })
    }

    fn dimension_sets<'a>(
        &'a self,
        metric: u32,
        hashes: &'a [DimensionHash],
    ) -> BoxFuture<'a, Result<Vec<Option<DimensionValues>>, Problem>> {
        let sets = hashes
            .iter()
            .map(|hash| self.sets.get(&(metric, *hash)).cloned());
        let sets = sets.collect();
        Box::pin(async move { Ok(sets) })
    }

    fn state_counts<'a>(
        &'a self,
        _: u32,
        object_type: &'a str,
        _: &'a str,
    ) -> BoxFuture<'a, Result<Vec<(String, i64)>, Problem>> {
        let states = if object_type == "Order" {
            self.states.clone()
        } else {
            Vec::new()
        };
        Box::pin(async move { Ok(states) })
    }
}
