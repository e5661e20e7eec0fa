//! The windows of one series.

use std::sync::Arc;

use icecore_model::rollup::{Edge, Segment, WindowColumns, WindowFields};
use icecore_model::{FloatColumns, Levels, RolledSamples, SeriesSamples};

use crate::query::window::Scan;

/// Windows that have points, besides the points of a series.
#[derive(Clone, Debug)]
pub(crate) struct RolledPoints {
    pub(super) levels: Arc<Levels>,
    /// One list for each rolled part of the time; each in time order.
    pub(super) windows: Vec<WindowColumns>,
    /// The parts of the scan in which there are windows.
    pub(super) used: Vec<Segment>,
}

impl RolledPoints {
    /// `None` where no window of the scan has a point.
    pub(crate) fn of(mut rolled: RolledSamples, scan: Scan) -> Option<Self> {
        let levels = Arc::clone(&rolled.levels);
        let mut windows = std::mem::take(&mut rolled.windows);
        windows.iter_mut().for_each(drop_empty);
        let of_windows = levels.segments.iter().filter(|s| !s.resolution.is_raw());
        let used = of_windows
            .zip(&windows)
            .filter_map(|(segment, windows)| used(segment, windows, scan));
        let used: Vec<Segment> = used.collect();
        (!used.is_empty()).then_some(Self {
            levels,
            windows,
            used,
        })
    }

    pub(crate) fn windows_len(&self) -> usize {
        self.windows.iter().map(WindowColumns::len).sum()
    }

    /// Adds what was stored under another name. What is older comes first.
    pub(crate) fn merge(&mut self, other: Self) {
        self.windows.extend(other.windows);
        self.windows
            .sort_by_key(|windows| windows.starts.last().copied());
        self.used.extend(other.used);
    }

    /// Approximate bytes held.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.windows.iter().map(WindowColumns::heap_bytes).sum()
    }
}

/// What of a part of time lies in the scan and has windows.
fn used(segment: &Segment, windows: &WindowColumns, scan: Scan) -> Option<Segment> {
    let level = segment.resolution;
    let clipped = Segment {
        start_ms: segment.start_ms.max(level.floor(scan.start_ms)),
        end_ms: segment
            .end_ms
            .min(level.floor(scan.end_ms.saturating_add(level.ms() - 1))),
        resolution: level,
    };
    let first = windows.starts.partition_point(|w| *w < clipped.start_ms);
    let next = windows.starts.get(first);
    next.is_some_and(|w| *w < clipped.end_ms).then_some(clipped)
}

/// Leaves out windows that have nothing but stale markers.
fn drop_empty(windows: &mut WindowColumns) {
    let count = |column: &[u64], at: usize| column.get(at).copied().unwrap_or(0);
    let is_empty = |at: &usize| {
        let inside = count(&windows.numbers, *at) + count(&windows.nans, *at);
        inside == 0 && !matches!(windows.edges.get(*at), Some(Edge::Sample(_)))
    };
    let empty = (0..windows.len()).filter(is_empty);
    let empty: Vec<i64> = empty.map(|at| windows.starts[at]).collect();
    if !empty.is_empty() {
        windows.retain(|start| empty.binary_search(&start).is_err());
    }
}

/// What [`reduced`] has to know of windows.
pub(crate) const REDUCED_FIELDS: WindowFields = WindowFields::COUNTS
    .with(WindowFields::FIRST)
    .with(WindowFields::SUM);

/// Points and the sums of windows as points: the sample at a window's start is one, and the sum of
/// those inside stands at the time of the first.
pub(crate) fn reduced(mut samples: SeriesSamples) -> SeriesSamples {
    let Some(rolled) = samples.rolled.take() else {
        return samples;
    };
    let raw = samples.floats.timestamps.iter().copied();
    let mut points: Vec<(i64, f64)> = raw.zip(samples.floats.values.iter().copied()).collect();
    for windows in &rolled.windows {
        for (at, start_ms) in windows.starts.iter().enumerate() {
            if let Edge::Sample(value) = windows.edge(at) {
                points.push((*start_ms, value));
            }
            let inside = windows.interior(at).filter(|inside| inside.numbers > 0);
            points.extend(inside.map(|inside| (inside.first_ms, inside.sum)));
        }
    }
    points.sort_by_key(|point| point.0);
    samples.floats = FloatColumns {
        timestamps: points.iter().map(|point| point.0).collect(),
        values: points.into_iter().map(|point| point.1).collect(),
    };
    samples
}
