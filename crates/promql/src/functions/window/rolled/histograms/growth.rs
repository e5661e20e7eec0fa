//! `rate`, `increase` and `delta` of histograms: first and last histograms of ranges are real, so
//! they extrapolate as those of samples do.
//!
//! The layout is the coarsest of all histograms of the range. Samples leave out a first one that is
//! followed by a reset; windows do so where they know of it.

use std::sync::Arc;

use icecore_model::CounterResetHint;
use icecore_model::rollup::WindowFields;

use super::super::super::histogram_edges;
use super::super::super::histogram_rate::add;
use super::super::super::rate::{RateKind, SampledInterval};
use super::super::super::series::HistogramPoint;
use super::super::super::view::Window;
use super::super::super::windows::{Slot, WindowMode};
use super::super::cells::Cells;
use super::super::growth::Growth;
use super::super::totals::running;
use super::super::{RolledView, Span};
use super::Ranges;
use super::cells::{HistogramCell, HistogramCells, is_gauge};
use crate::annotations::{Annotation, HistogramOperation};
use crate::exec::Values;
use crate::histogram::FloatHistogram;

pub(super) fn rates(ranges: &Ranges<'_>, kind: RateKind, values: &mut Values) {
    let view = ranges.view;
    let counter = Counter::new(view, ranges.cells, kind);
    let floats = FloatNeighbours::new(ranges);
    for (i, ((step, span), slot)) in view.spans.list.iter().zip(ranges.slots).enumerate() {
        let has_floats = floats.has_any(ranges, i, span);
        if !counter.has_any(*slot, span) {
            continue;
        }
        if has_floats {
            view.annotations.mixed_floats_histograms();
            values.clear(*step);
            continue;
        }
        if view.context.is_some_and(|context| context.check().is_err()) {
            return;
        }
        match counter.value(*slot, span) {
            Some(value) => values.set_histogram(*step, Arc::new(value)),
            None => values.clear(*step),
        }
    }
}

/// The cells of a counter or a gauge, with what follows from them.
struct Counter<'v> {
    view: &'v RolledView<'v>,
    cells: &'v [HistogramCell],
    all: &'v HistogramCells,
    kind: RateKind,
    /// Samples before each cell.
    samples: Vec<u64>,
    /// Whether there is a reset between a cell and the one before it.
    resets: Vec<bool>,
}

impl<'v> Counter<'v> {
    fn new(view: &'v RolledView<'v>, all: &'v HistogramCells, kind: RateKind) -> Self {
        let cells = all.values.as_slice();
        let is_reset = |pair: &[HistogramCell]| match (&pair[0].last, &pair[1].first) {
            (Some(before), Some(after)) => kind.counter && after.detect_reset(before),
            _ => false,
        };
        let resets = [false].into_iter().chain(cells.windows(2).map(is_reset));
        Self {
            view,
            cells,
            all,
            kind,
            samples: running(cells.iter().map(|cell| cell.samples)),
            resets: resets.collect(),
        }
    }

    /// Whether a range has histograms, or its edges have some near enough.
    fn has_any(&self, slot: Slot, span: &Span) -> bool {
        let limits = (span.after_ms, span.until_ms);
        slot.len() > 0 || self.before(slot, limits).is_some() || self.after(slot, limits).is_some()
    }

    fn value(&self, slot: Slot, span: &Span) -> Option<FloatHistogram> {
        let limits = (span.after_ms, span.until_ms);
        let mut value = self.increase(slot, limits)?;
        if let Some(first) = self.all.first_window(span, slot) {
            let limits = (span.after_ms, span.first_until_ms);
            if let Some(mut outside) = self.increase(first, limits) {
                outside.mul(span.outside);
                value.sub(&outside).ok()?;
                value.compact(0);
            }
        }
        if self.kind.per_second {
            value.div(self.view.windows.range_seconds());
        }
        Some(value)
    }

    /// The increase or difference over a range with these limits.
    fn increase(&self, slot: Slot, limits: (i64, i64)) -> Option<FloatHistogram> {
        match self.view.windows.mode {
            WindowMode::Plain => self.extrapolated(slot, limits),
            WindowMode::Anchored | WindowMode::Smoothed => self.between_edges(slot, limits),
        }
    }

    /// As Prometheus extrapolates to the ends of a range.
    fn extrapolated(&self, slot: Slot, limits: (i64, i64)) -> Option<FloatHistogram> {
        let cells = slot.of(self.cells);
        let (first, last) = (cells.first()?, cells.last()?);
        let samples = self.samples[slot.hi as usize] - self.samples[slot.lo as usize];
        if samples < 2 {
            return None;
        }
        let mut increase = self.difference(slot)?;
        let samples = usize::try_from(samples).unwrap_or(usize::MAX);
        let mut interval = SampledInterval::new(limits, first.first_ms, last.last_ms, samples);
        if self.kind.counter {
            interval.clamp_at_zero(first.first.as_ref()?.count, increase.count);
        }
        increase.mul(interval.extension());
        Some(increase)
    }

    /// The last histogram minus the first, plus what was lost in resets.
    fn difference(&self, slot: Slot) -> Option<FloatHistogram> {
        let annotations = self.view.annotations;
        let (cells, counter) = (slot.of(self.cells), self.kind.counter);
        let (first, last) = (cells.first()?.first.as_ref()?, cells.last()?.last.as_ref()?);
        // A reset right after the first histogram, if that is known.
        let starts_anew = match cells {
            [only, next, ..] if only.samples == 1 && self.resets[slot.lo as usize + 1] => {
                next.first.as_ref()
            }
            _ => None,
        };
        let nothing;
        let (base, from) = match starts_anew {
            Some(next) => {
                nothing = FloatHistogram {
                    schema: next.schema,
                    custom_bounds: Arc::clone(&next.custom_bounds),
                    ..FloatHistogram::default()
                };
                (&nothing, 1)
            }
            None => (first.as_ref(), 0),
        };
        let mut pending = Vec::new();
        if counter && cells.iter().any(HistogramCell::has_gauge) {
            let name = annotations.metric_name();
            pending.push(Annotation::NativeHistogramNotCounter(name));
        }
        let custom = base.uses_custom_buckets();
        if last.uses_custom_buckets() != custom {
            annotations.add_all(pending);
            annotations.mixed_exponential_custom();
            return None;
        }
        let mut schema = last.schema.min(base.schema);
        if counter {
            for cell in &cells[from..] {
                let sum = cell.sum.as_ref();
                let Some(sum) = sum.filter(|sum| sum.uses_custom_buckets() == custom) else {
                    annotations.mixed_exponential_custom();
                    return None;
                };
                schema = schema.min(sum.schema);
            }
        }
        let mut increase = last.copy_to_schema(schema);
        match increase.sub(base) {
            Err(_) => {
                annotations.mixed_exponential_custom();
                return None;
            }
            Ok(outcome) if outcome.bounds_reconciled => {
                let during = HistogramOperation::Subtraction;
                pending.push(Annotation::MismatchedCustomBuckets(during));
            }
            Ok(_) => {}
        }
        if counter {
            for (at, cell) in cells.iter().enumerate().skip(from) {
                let is_reset = at > from && self.resets[slot.lo as usize + at];
                let before = at.checked_sub(1).filter(|_| is_reset);
                let before = before.and_then(|before| cells[before].last.as_ref());
                for lost in before.into_iter().chain(&cell.lost) {
                    add(&mut increase, lost, annotations)?;
                }
            }
        } else if !is_gauge(first) || !is_gauge(last) {
            let name = annotations.metric_name();
            pending.push(Annotation::NativeHistogramNotGauge(name));
        }
        annotations.add_all(pending);
        increase.reset_hint = CounterResetHint::Gauge;
        increase.compact(0);
        Some(increase)
    }

    /// The increase between the values at both edges, which are those of the nearest histograms or
    /// interpolated between two. Both are real, so ranges on the grid are exact.
    fn between_edges(&self, slot: Slot, limits: (i64, i64)) -> Option<FloatHistogram> {
        let annotations = self.view.annotations;
        let within = slot.of(self.cells);
        if self.kind.counter {
            if within.iter().any(|cell| cell.sum.is_none()) {
                annotations.mixed_exponential_custom();
                return None;
            }
            if within.iter().any(HistogramCell::has_gauge) {
                let name = annotations.metric_name();
                annotations.add(Annotation::NativeHistogramNotCounter(name));
            }
        }
        let mut points = Vec::with_capacity(2 * within.len() + 2);
        points.extend(self.before(slot, limits));
        // What was lost on the way from the first to the last of a cell is known.
        let mut known = vec![false; points.len()];
        for cell in within {
            points.push(point(cell.first_ms, cell.first.as_ref()?));
            known.push(false);
            if cell.samples > 1 {
                points.push(point(cell.last_ms, cell.last.as_ref()?));
                known.push(true);
            }
        }
        points.extend(self.after(slot, limits));
        known.resize(points.len(), false);
        let window = Window {
            start_ms: limits.0,
            end_ms: limits.1,
            times: &[],
            floats: &[],
            histograms: &points,
            float_starts: &[],
            histogram_starts: &[],
        };
        let kind = RateKind {
            per_second: false,
            ..self.kind
        };
        let windows = self.view.windows;
        let increase = histogram_edges::of_window(&window, &known, windows, kind, annotations)?;
        let mut increase = Arc::unwrap_or_clone(increase);
        if self.kind.counter {
            for lost in within.iter().filter_map(|cell| cell.lost.as_ref()) {
                add(&mut increase, lost, annotations)?;
            }
            increase.reset_hint = CounterResetHint::Gauge;
            increase.compact(0);
        }
        Some(increase)
    }

    /// The histogram at the start of a range or before it that is near enough.
    fn before(&self, slot: Slot, limits: (i64, i64)) -> Option<HistogramPoint> {
        let (lookback_ms, _) = self.view.windows.lookaround();
        let oldest = limits.0.saturating_sub(lookback_ms);
        let cell = self.cells.get((slot.lo as usize).checked_sub(1)?)?;
        let near = cell.last.as_ref().filter(|_| cell.last_ms > oldest)?;
        Some(point(cell.last_ms, near))
    }

    /// The histogram after a range that is near enough.
    fn after(&self, slot: Slot, limits: (i64, i64)) -> Option<HistogramPoint> {
        let (_, lookahead_ms) = self.view.windows.lookaround();
        let newest = limits.1.saturating_add(lookahead_ms);
        let cell = self.cells.get(slot.hi.max(slot.lo) as usize)?;
        let near = cell.first.as_ref().filter(|_| cell.first_ms <= newest)?;
        Some(point(cell.first_ms, near))
    }
}

fn point(time_ms: i64, histogram: &Arc<FloatHistogram>) -> HistogramPoint {
    HistogramPoint {
        time_ms,
        histogram: Arc::clone(histogram),
    }
}

/// The floats around ranges, where edges are looked at.
struct FloatNeighbours(Option<Cells<Growth>>);

impl FloatNeighbours {
    fn new(ranges: &Ranges<'_>) -> Self {
        let is_plain = ranges.view.windows.mode == WindowMode::Plain;
        let fields = WindowFields::COUNTS | WindowFields::FIRST | WindowFields::LAST;
        Self((!is_plain).then(|| ranges.view.cells(fields)))
    }

    /// Whether a range has floats, or its edges have some near enough.
    fn has_any(&self, ranges: &Ranges<'_>, i: usize, span: &Span) -> bool {
        let (Some(cells), Some(slot)) = (&self.0, ranges.floats.get(i)) else {
            return ranges.has_floats(i);
        };
        let (after_ms, until_ms) = span.touched(ranges.view.windows);
        let before = (slot.lo as usize).checked_sub(1);
        let before = before.and_then(|before| cells.values.get(before));
        let after = cells.values.get(slot.hi.max(slot.lo) as usize);
        slot.len() > 0
            || before.is_some_and(|cell| cell.last_ms > after_ms)
            || after.is_some_and(|cell| cell.first_ms <= until_ms)
    }
}
