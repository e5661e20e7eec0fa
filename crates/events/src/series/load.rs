//! The cells of all series of one name, as far as samples are made of them.

use std::collections::HashMap;
use std::ops::Range;

use icecore_model::event::{Cell, DimensionHash, EventWindow, Week};

use super::ViewMemory;
use super::resolution::{week_reads, week_segments};
use super::resolve::Family;
use super::views::{CellField, View, ViewKind};
use crate::query::{CellPages, CellSource, Segment};
use crate::{MetricKind, Problem};

/// What a cell adds to a series: the last millisecond of its interval, and its value. An interval
/// that is not over ends now.
pub(super) type Point = (i64, f64);

/// What is asked of the series of a selection.
#[derive(Clone, Copy, Debug)]
pub(super) struct ViewRange {
    pub(super) start_ms: i64,
    pub(super) end_ms: i64,
    pub(super) now_ms: i64,
    pub(super) guarded_ms: i64,
    pub(super) step: EventWindow,
}

impl ViewRange {
    /// The last moment that a cumulative view has a sample for.
    pub(super) fn last_ms(&self) -> i64 {
        self.end_ms.min(self.now_ms)
    }

    fn seconds(&self, end_ms: i64) -> Range<i64> {
        self.start_ms.div_euclid(1000)..end_ms.div_euclid(1000).saturating_add(1)
    }

    fn has(&self, timestamp_ms: i64) -> bool {
        (self.start_ms..=self.end_ms).contains(&timestamp_ms)
    }
}

/// For each series of a family its points in time order, and the bytes that are held for them.
pub(super) async fn load(
    source: &dyn CellSource,
    family: &Family,
    range: ViewRange,
    memory: &mut ViewMemory,
) -> Result<(Vec<Vec<Point>>, usize), Problem> {
    let mut points: Vec<Vec<Point>> = vec![Vec::new(); family.series.len()];
    let mut held = 0;
    for (at, (view, _)) in family.views.iter().enumerate() {
        let targets = targets_of(family, at);
        for read in reads_of(family, at, range) {
            let starts_s = read.start_s..read.end_s;
            let mut pages = CellPages::new(source, view.metric.number, read.window, starts_s);
            while let Some(cells) = pages.next().await? {
                let mut added = 0;
                for cell in cells {
                    let Some(targets) = targets.get(&cell.dimensions) else {
                        continue;
                    };
                    let Some(at) = point_time(view.kind, read.window, cell.start_s, range) else {
                        continue;
                    };
                    let values = values_of(view, &cell.cell);
                    for (series, bucket) in targets {
                        if let Some(value) = values.get(*bucket) {
                            points[*series].push((at, *value));
                            added += size_of::<Point>();
                        }
                    }
                }
                memory.hold(added)?;
                held += added;
            }
        }
    }
    for (series, points) in family.series.iter().zip(&mut points) {
        if series.parts.len() > 1 {
            points.sort_by_key(|(at, _)| *at);
        }
    }
    Ok((points, held))
}

/// Which series have points from which sets and buckets of a view.
fn targets_of(family: &Family, view: usize) -> HashMap<DimensionHash, Vec<(usize, usize)>> {
    let mut targets: HashMap<DimensionHash, Vec<(usize, usize)>> = HashMap::new();
    for (at, series) in family.series.iter().enumerate() {
        for part in series.parts.iter().filter(|part| part.view == view) {
            let of_set = targets.entry(family.hash(part)).or_default();
            of_set.push((at, part.bucket));
        }
    }
    targets
}

/// The cells that the series of a view are made of.
fn reads_of(family: &Family, view: usize, range: ViewRange) -> Vec<Segment> {
    let metric = &family.views[view].0.metric;
    if let ViewKind::EachCell(window) = family.kind {
        let seconds = range.seconds(range.end_ms);
        return vec![Segment {
            window,
            // A sample is at the end of its interval.
            start_s: window.start_of(seconds.start),
            end_s: seconds.end,
        }];
    }
    let seconds = range.seconds(range.last_ms());
    let mut reads = Vec::new();
    for week in weeks_of(family, view, &seconds) {
        if family.kind == ViewKind::Cumulative {
            let segments = week_segments(metric, range.step, week, range.guarded_ms);
            let bounds = (seconds.start, seconds.end);
            let of_week = week_reads(metric, &segments, week, bounds, range);
            reads.extend(of_week);
            continue;
        }
        for segment in week_segments(metric, metric.base, week, range.guarded_ms) {
            let clipped = Segment {
                start_s: segment.start_s.max(segment.window.start_of(seconds.start)),
                end_s: segment.end_s.min(seconds.end),
                ..segment
            };
            if clipped.start_s < clipped.end_s {
                reads.push(clipped);
            }
        }
    }
    reads
}

/// The weeks of a range in which a view has anything.
pub(super) fn weeks_of(family: &Family, view: usize, seconds: &Range<i64>) -> Vec<Week> {
    let sets = &family.views[view].1;
    let weeks = sets.iter().flat_map(|set| &set.weeks);
    let weeks = weeks.map(|week| Week::of(week.start_s));
    let mut weeks: Vec<Week> = weeks
        .filter(|week| week.start_s() < seconds.end && seconds.start < week.end_s())
        .collect();
    weeks.sort_unstable();
    weeks.dedup();
    weeks
}

/// The time of a cell's point, if it is wanted.
fn point_time(kind: ViewKind, window: EventWindow, start_s: i64, range: ViewRange) -> Option<i64> {
    let end_ms = (start_s + window.seconds()) * 1000 - 1;
    let so_far = Some(end_ms.min(range.now_ms)).filter(|_| start_s * 1000 <= range.now_ms);
    match kind {
        ViewKind::Cumulative => so_far,
        ViewKind::EachCell(_) => Some(end_ms).filter(|at| range.has(*at)),
        ViewKind::Latest => so_far.filter(|at| range.has(*at)),
    }
}

/// The values of a cell by bucket; one if there are no buckets.
fn values_of(view: &View, cell: &Cell) -> Vec<f64> {
    let is_sum = matches!(&view.metric.kind, MetricKind::Counter { sum_of: Some(_) });
    match (view.field, cell) {
        (CellField::Total, Cell::Counter(cell)) if is_sum => vec![cell.sum],
        (CellField::Total, Cell::Counter(cell)) => vec![cell.count as f64],
        (CellField::Buckets, Cell::Histogram(cell)) => {
            let mut below = 0u64;
            let up_to = |count: &u64| {
                below = below.saturating_add(*count);
                below as f64
            };
            cell.counts.iter().map(up_to).collect()
        }
        (CellField::HistogramSum, Cell::Histogram(cell)) => vec![cell.sum],
        (CellField::HistogramCount, Cell::Histogram(cell)) => vec![cell.samples as f64],
        (CellField::Value, Cell::Gauge(cell)) => vec![cell.value],
        _ => Vec::new(),
    }
}
