//! `resets` and `changes` of series that have histograms. From a float to a histogram and back is
//! always one.

use std::cmp::Ordering;
use std::sync::Arc;

use icecore_model::rollup::{Resolution, WindowColumns, WindowFields};

use super::super::super::transitions::Transition;
use super::super::super::windows::{Slot, WindowMode};
use super::super::cells::{Cell, Cells};
use super::super::totals::running;
use super::super::{RolledView, Span};
use super::cells::{HistogramCell, HistogramCells};
use crate::exec::Values;
use crate::histogram::FloatHistogram;

/// A run of floats: its ends, and the transitions inside.
#[derive(Clone, Copy)]
struct FloatRun {
    first_ms: i64,
    first: f64,
    last_ms: i64,
    last: f64,
    resets: u64,
    changes: u64,
}

impl Cell for FloatRun {
    fn sample(timestamp_ms: i64, value: f64) -> Self {
        Self {
            first_ms: timestamp_ms,
            first: value,
            last_ms: timestamp_ms,
            last: value,
            resets: 0,
            changes: 0,
        }
    }

    fn window(columns: &WindowColumns, index: usize, _: i64) -> Self {
        let count = |counts: &[u64]| counts.get(index).copied().unwrap_or_default();
        Self {
            first_ms: columns.first_ms[index],
            first: columns.first[index],
            last_ms: columns.last_ms[index],
            last: columns.last[index],
            resets: count(&columns.resets),
            changes: count(&columns.changes),
        }
    }
}

/// An end of a run.
#[derive(Clone)]
enum End {
    Float(f64),
    Histogram(Option<Arc<FloatHistogram>>),
}

impl End {
    /// Whether the step from one end to the next counts.
    fn counts(&self, after: &Self, transition: Transition) -> bool {
        match (self, after) {
            (Self::Float(before), Self::Float(after)) => transition.of(*before, *after),
            (Self::Histogram(Some(before)), Self::Histogram(Some(after))) => match transition {
                Transition::Reset => after.detect_reset(before),
                Transition::Change => !after.equals(before),
            },
            (Self::Histogram(_), Self::Histogram(_)) => false,
            _ => true,
        }
    }
}

/// A run of either kind.
struct Run {
    position_ms: i64,
    first_ms: i64,
    first: End,
    last_ms: i64,
    last: End,
    inside: u64,
}

/// Sets the values of all spans; returns the levels with windows in which floats and histograms
/// alternate, so that how often is not known.
pub(super) fn count(
    view: &RolledView<'_>,
    transition: Transition,
    histograms: &HistogramCells,
    values: &mut Values,
) -> Vec<Resolution> {
    let runs = runs(view, transition, histograms);
    let estimated = alternating(view, &runs);
    let before = [None].into_iter().chain(runs.iter().map(Some));
    let to_run = |(run, before): (&Run, Option<&Run>)| {
        let counts = before.is_some_and(|before| before.last.counts(&run.first, transition));
        run.inside + u64::from(counts)
    };
    let running = running(runs.iter().zip(before).map(to_run));
    let cells = Cells {
        positions: runs.iter().map(|run| run.position_ms).collect(),
        values: runs,
    };
    let between = |slot: Slot, span: &Span| -> Option<f64> {
        let (lo, hi) = (slot.lo as usize, slot.hi as usize);
        let first = slot.of(&cells.values).first()?;
        let anchored = view.windows.mode == WindowMode::Anchored
            && lo.checked_sub(1).is_some_and(|before| {
                let oldest = span.after_ms.saturating_sub(view.windows.lookback_ms);
                cells.values[before].last_ms > oldest
            });
        let count = if anchored {
            running[hi] - running[lo]
        } else {
            running[hi] - running[lo + 1] + first.inside
        };
        Some(count as f64)
    };
    for ((step, span), slot) in view.spans.list.iter().zip(cells.slots(view)) {
        let first = cells.first_window(span, slot);
        let first = first.and_then(|first| between(first, span)).unwrap_or(0.0);
        match between(slot, span) {
            Some(all) => values.set_float(*step, all - span.outside * first),
            None => values.clear(*step),
        }
    }
    estimated
}

/// Floats and histograms in time order.
fn runs(view: &RolledView<'_>, transition: Transition, histograms: &HistogramCells) -> Vec<Run> {
    let required = WindowFields::COUNTS | WindowFields::FIRST | WindowFields::LAST;
    let floats: Cells<FloatRun> = view.cells(required);
    let of_float = |(position_ms, run): (&i64, &FloatRun)| Run {
        position_ms: *position_ms,
        first_ms: run.first_ms,
        first: End::Float(run.first),
        last_ms: run.last_ms,
        last: End::Float(run.last),
        inside: match transition {
            Transition::Reset => run.resets,
            Transition::Change => run.changes,
        },
    };
    let of_histogram = |(position_ms, cell): (&i64, &HistogramCell)| Run {
        position_ms: *position_ms,
        first_ms: cell.first_ms,
        first: End::Histogram(cell.first.clone()),
        last_ms: cell.last_ms,
        last: End::Histogram(cell.last.clone()),
        inside: match transition {
            Transition::Reset => cell.resets,
            Transition::Change => cell.changes,
        },
    };
    let of_floats = floats.positions.iter().zip(&floats.values).map(of_float);
    let of_histograms = histograms.positions.iter().zip(&histograms.values);
    let mut runs: Vec<Run> = of_floats.chain(of_histograms.map(of_histogram)).collect();
    let order = |a: &Run, b: &Run| match a.position_ms.cmp(&b.position_ms) {
        Ordering::Equal => a.first_ms.cmp(&b.first_ms),
        unequal => unequal,
    };
    runs.sort_by(order);
    runs
}

/// The levels of the windows whose floats and histograms overlap.
fn alternating(view: &RolledView<'_>, runs: &[Run]) -> Vec<Resolution> {
    let mut levels = Vec::new();
    for pair in runs.windows(2) {
        let level = view.rolled.levels.at(pair[0].position_ms);
        if pair[1].first_ms <= pair[0].last_ms && !levels.contains(&level) {
            levels.push(level);
        }
    }
    levels
}
