//! Histograms and windows of histograms as cells in time order.

use std::sync::Arc;

use icecore_model::rollup::{HistogramAggregate, HistogramEdge, HistogramWindow, WindowFields};
use icecore_model::{CounterResetHint, Histogram};

use super::super::super::HistogramPoint;
use super::super::RolledView;
use super::super::cells::Cells;
use crate::histogram::FloatHistogram;

pub(super) type HistogramCells = Cells<HistogramCell>;

/// One histogram, or what lies after the start of a window. What the function does not need is
/// `None`.
#[derive(Clone, Debug)]
pub(super) struct HistogramCell {
    pub(super) samples: u64,
    pub(super) first_ms: i64,
    pub(super) first: Option<Arc<FloatHistogram>>,
    pub(super) last_ms: i64,
    pub(super) last: Option<Arc<FloatHistogram>>,
    /// `None` also where exponential and custom buckets occur.
    pub(super) sum: Option<Arc<FloatHistogram>>,
    /// What a counter lost in resets inside.
    pub(super) lost: Option<Arc<FloatHistogram>>,
    pub(super) resets: u64,
    pub(super) changes: u64,
}

impl HistogramCell {
    fn of_sample(time_ms: i64, histogram: Arc<FloatHistogram>) -> Self {
        Self {
            samples: 1,
            first_ms: time_ms,
            first: Some(Arc::clone(&histogram)),
            last_ms: time_ms,
            last: Some(Arc::clone(&histogram)),
            sum: Some(histogram),
            lost: None,
            resets: 0,
            changes: 0,
        }
    }

    fn of_window(interior: &HistogramAggregate, fields: WindowFields) -> Self {
        let part = |histogram: &Option<Arc<Histogram>>, field| {
            let wanted = histogram.as_ref().filter(|_| fields.contains(field));
            wanted.map(|histogram| converted(histogram))
        };
        Self {
            samples: interior.samples,
            first_ms: interior.first_ms,
            first: part(&interior.first, WindowFields::FIRST),
            last_ms: interior.last_ms,
            last: part(&interior.last, WindowFields::LAST),
            sum: part(&interior.sum, WindowFields::SUM),
            lost: part(&interior.correction, WindowFields::CORRECTION),
            resets: interior.resets,
            changes: interior.changes,
        }
    }

    /// Whether one of its histograms is a gauge: their sum is one then, too.
    pub(super) fn has_gauge(&self) -> bool {
        let parts = [&self.first, &self.last, &self.sum];
        parts.into_iter().flatten().any(|of| is_gauge(of))
    }
}

pub(super) fn is_gauge(histogram: &FloatHistogram) -> bool {
    histogram.reset_hint == CounterResetHint::Gauge
}

fn converted(histogram: &Histogram) -> Arc<FloatHistogram> {
    Arc::new(FloatHistogram::from_model(histogram))
}

/// The cells of a series, with these parts of windows.
pub(super) fn cells(view: &RolledView<'_>, fields: WindowFields) -> HistogramCells {
    let mut cells = HistogramCells {
        positions: Vec::new(),
        values: Vec::new(),
    };
    let mut points = touched(view);
    for (segment, windows) in view.rolled.histogram_segments() {
        push_points(&mut cells, take_until(&mut points, segment.start_ms));
        // Within a rolled segment there are none.
        take_until(&mut points, segment.end_ms);
        for window in windows {
            push_window(&mut cells, window, fields);
        }
    }
    push_points(&mut cells, points);
    cells
}

fn push_points(cells: &mut HistogramCells, points: &[HistogramPoint]) {
    for point in points {
        cells.positions.push(point.time_ms);
        let histogram = Arc::clone(&point.histogram);
        let cell = HistogramCell::of_sample(point.time_ms, histogram);
        cells.values.push(cell);
    }
}

fn push_window(cells: &mut HistogramCells, window: &HistogramWindow, fields: WindowFields) {
    if let HistogramEdge::Sample(histogram) = &window.edge {
        cells.positions.push(window.start_ms);
        let cell = HistogramCell::of_sample(window.start_ms, converted(histogram));
        cells.values.push(cell);
    }
    if let Some(interior) = window.interior.as_ref().filter(|of| of.samples > 0) {
        cells.positions.push(window.start_ms.saturating_add(1));
        cells
            .values
            .push(HistogramCell::of_window(interior, fields));
    }
}

/// The histograms of raw segments that spans of the view touch.
fn touched<'v>(view: &RolledView<'v>) -> &'v [HistogramPoint] {
    let mut points = view.histograms;
    let (Some((_, first)), Some((_, last))) = (view.spans.list.first(), view.spans.list.last())
    else {
        return &[];
    };
    let after = first.touched(view.windows).0;
    let until = last.touched(view.windows).1;
    take_until(&mut points, after.saturating_add(1));
    take_until(&mut points, until.saturating_add(1))
}

/// Takes the histograms before a moment.
fn take_until<'p>(points: &mut &'p [HistogramPoint], end_ms: i64) -> &'p [HistogramPoint] {
    let count = points.partition_point(|point| point.time_ms < end_ms);
    let (taken, rest) = points.split_at(count);
    *points = rest;
    taken
}
