//! Cells in memory: those of events that are durable and not flushed yet.
//!
//! Only cells of 5 s are kept. Those of the four coarser windows are made of them when they are
//! flushed or read, so that all five can never disagree.
//!
//! Copying is cheap, because a view takes a copy: metrics are shared, and the next event of a
//! metric makes a copy of that one alone.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use icecore_model::event::{
    Cell, CellScan, DimensionHash, EventWindow, HistogramCell, StoredCell, Week,
};

use crate::Metric;

/// Of one metric: cells of 5 s and the dimension values that they belong to.
#[derive(Clone, Debug)]
pub(crate) struct MetricCells {
    pub(crate) metric: Arc<Metric>,
    /// As [`crate::DimensionSet`] reads them.
    pub(crate) sets: HashMap<DimensionHash, Arc<[u8]>>,
    pub(crate) cells: HashMap<(i64, DimensionHash), Cell>,
}

/// Cells of all metrics.
#[derive(Clone, Debug, Default)]
pub(crate) struct UnflushedCells {
    metrics: HashMap<u32, Arc<MetricCells>>,
    cells: usize,
    bytes: usize,
}

impl UnflushedCells {
    /// How many cells of 5 s there are.
    pub(crate) fn len(&self) -> usize {
        self.cells
    }

    /// About how much memory they take.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn metric(&self, metric: u32) -> Option<&Arc<MetricCells>> {
        self.metrics.get(&metric)
    }

    pub(crate) fn metrics(&self) -> impl Iterator<Item = &Arc<MetricCells>> {
        self.metrics.values()
    }

    /// Adds cells of 5 s that have the same dimension values.
    pub(crate) fn add(
        &mut self,
        metric: &Arc<Metric>,
        hash: DimensionHash,
        values: &Arc<[u8]>,
        cells: impl IntoIterator<Item = (i64, Cell)>,
    ) {
        let entry = self.metrics.entry(metric.number);
        let shared = entry.or_insert_with(|| Arc::new(MetricCells::new(metric.clone())));
        let known = Arc::make_mut(shared);
        known.sets.entry(hash).or_insert_with(|| {
            self.bytes += values.len() + SET_BYTES;
            values.clone()
        });
        for (start_s, cell) in cells {
            match known.cells.get_mut(&(start_s, hash)) {
                // Both are of one metric with one number, so they have one kind and one set of
                // bounds: there is nothing that could differ.
                Some(sum) => sum.merge(&cell).unwrap_or_default(),
                None => {
                    self.cells += 1;
                    self.bytes += bytes_of(&cell);
                    known.cells.insert((start_s, hash), cell);
                }
            }
        }
    }
}

/// About what an entry takes besides its content.
const SET_BYTES: usize = 64;

fn bytes_of(cell: &Cell) -> usize {
    let content = match cell {
        Cell::Counter(_) | Cell::Gauge(_) => 0,
        Cell::Histogram(histogram) => {
            let sketch = histogram.sketch.as_ref();
            let indexes = sketch.map_or(0, |sketch| sketch.positive.len() + sketch.negative.len());
            8 * histogram.counts.len() + 16 * indexes + 64 * histogram.exemplars.len()
        }
    };
    size_of::<((i64, DimensionHash), Cell)>() + content
}

impl MetricCells {
    fn new(metric: Arc<Metric>) -> Self {
        Self {
            metric,
            sets: HashMap::new(),
            cells: HashMap::new(),
        }
    }

    /// The cells of a window that a scan wants, as the store would have them.
    pub(crate) fn scan(&self, scan: &CellScan, now_s: i64) -> BTreeMap<(i64, DimensionHash), Cell> {
        let mut found = BTreeMap::new();
        if scan.window < self.metric.base {
            return found;
        }
        for ((base_s, hash), cell) in &self.cells {
            let key = (scan.window.start_of(*base_s), *hash);
            let is_wanted = scan.starts_s.contains(&key.0)
                && scan.after.is_none_or(|after| key > after)
                && !self.is_expired(scan.window, key.0, now_s);
            if is_wanted {
                add_to(&mut found, key, cell, scan.window);
            }
        }
        found
    }

    /// All cells of a window, in the order of their keys.
    pub(crate) fn of_window(
        &self,
        window: EventWindow,
        now_s: i64,
    ) -> BTreeMap<(i64, DimensionHash), Cell> {
        let all = CellScan {
            window,
            metric: self.metric.number,
            starts_s: i64::MIN..i64::MAX,
            after: None,
            limit: usize::MAX,
        };
        self.scan(&all, now_s)
    }

    fn is_expired(&self, window: EventWindow, start_s: i64, now_s: i64) -> bool {
        is_expired(&self.metric, window, Week::of(start_s), now_s)
    }
}

/// Whether the cells of a window and week are no longer kept. They go week by week, so a late event
/// counts in all windows of its week, or in none.
pub(crate) fn is_expired(metric: &Metric, window: EventWindow, week: Week, now_s: i64) -> bool {
    let kept_s = i64::try_from(metric.retention.of(window).as_secs()).unwrap_or(i64::MAX);
    week.end_s().saturating_add(kept_s) <= now_s
}

fn add_to(
    sums: &mut BTreeMap<(i64, DimensionHash), Cell>,
    key: (i64, DimensionHash),
    cell: &Cell,
    window: EventWindow,
) {
    match sums.get_mut(&key) {
        Some(Cell::Histogram(sum)) if window != EXEMPLAR_WINDOW => {
            if let Cell::Histogram(cell) = cell {
                let exemplars = std::mem::take(&mut sum.exemplars);
                sum.merge(cell).unwrap_or_default();
                sum.exemplars = exemplars;
            }
        }
        Some(sum) => sum.merge(cell).unwrap_or_default(),
        None => {
            sums.insert(key, as_stored(cell, window));
        }
    }
}

/// The window whose cells keep exemplars: finer ones would repeat them, and coarser ones would have
/// a single one for hours. Every metric has it.
pub(crate) const EXEMPLAR_WINDOW: EventWindow = EventWindow::Minute;

/// A cell as a window keeps it.
pub(crate) fn as_stored(cell: &Cell, window: EventWindow) -> Cell {
    match cell {
        Cell::Histogram(histogram) if window != EXEMPLAR_WINDOW => Cell::Histogram(HistogramCell {
            exemplars: Vec::new(),
            counts: histogram.counts.clone(),
            sketch: histogram.sketch.clone(),
            ..*histogram
        }),
        cell => cell.clone(),
    }
}

/// Cells of the store with those in memory added, as many as were asked for.
pub(crate) fn merge_scans(
    stored: Vec<StoredCell>,
    mut unflushed: BTreeMap<(i64, DimensionHash), Cell>,
    limit: usize,
) -> Result<Vec<StoredCell>, icecore_model::event::CellMismatch> {
    // Where the store's page ends before its cells do, what is behind belongs to the next page.
    if stored.len() >= limit {
        let last = stored.last().map(|cell| (cell.start_s, cell.dimensions));
        unflushed.retain(|key, _| Some(*key) <= last);
    }
    if unflushed.is_empty() {
        return Ok(stored);
    }
    let mut merged = Vec::with_capacity(limit.min(stored.len() + unflushed.len()));
    let mut unflushed = unflushed.into_iter().peekable();
    let placed = |((start_s, dimensions), cell)| StoredCell {
        start_s,
        dimensions,
        cell,
    };
    for mut cell in stored {
        let key = (cell.start_s, cell.dimensions);
        while let Some(before) = unflushed.next_if(|(other, _)| *other < key) {
            merged.push(placed(before));
        }
        if let Some((_, more)) = unflushed.next_if(|(other, _)| *other == key) {
            cell.cell.merge(&more)?;
        }
        merged.push(cell);
    }
    merged.extend(unflushed.map(placed));
    merged.truncate(limit);
    Ok(merged)
}
