//! `rate`, `increase` and `delta`: first and last samples of ranges are real, so they extrapolate
//! as those of samples do.

use icecore_model::kahan_add;
use icecore_model::rollup::{WindowColumns, WindowFields};

use super::super::rate::{RateKind, SampledInterval};
use super::super::windows::{Slot, WindowMode};
use super::RolledView;
use super::cells::{Cell, Cells};
use super::corners::{self, Neighbours};
use super::direct_growth;
use super::sliding::{self, Merge};
use super::totals::running;

/// What a counter did in a run of samples.
#[derive(Clone, Copy, Debug)]
pub(super) struct Growth {
    pub(super) first_ms: i64,
    pub(super) first: f64,
    pub(super) last_ms: i64,
    pub(super) last: f64,
    pub(super) samples: u64,
    /// What it lost in resets; 0 for gauges.
    pub(super) lost: f64,
}

impl Cell for Growth {
    #[inline]
    fn sample(timestamp_ms: i64, value: f64) -> Self {
        Self {
            first_ms: timestamp_ms,
            first: value,
            last_ms: timestamp_ms,
            last: value,
            samples: 1,
            lost: 0.0,
        }
    }

    #[inline]
    fn window(columns: &WindowColumns, index: usize, _: i64) -> Self {
        Self {
            first_ms: columns.first_ms[index],
            first: columns.first[index],
            last_ms: columns.last_ms[index],
            last: columns.last[index],
            samples: columns.numbers[index] + columns.nans(index),
            lost: lost_inside(columns, index),
        }
    }
}

/// What a counter lost inside of a window.
#[inline]
pub(super) fn lost_inside(columns: &WindowColumns, index: usize) -> f64 {
    columns.correction.get(index).copied().unwrap_or_default()
}

/// A sum with what rounding lost.
#[derive(Clone, Copy)]
struct Sum(f64, f64);

impl Merge for Sum {
    #[inline]
    fn merge(&self, after: &Self) -> Self {
        let (sum, lost) = kahan_add(after.0, self.0, self.1 + after.1);
        Self(sum, lost)
    }
}

/// The cells of a counter, with what follows from them.
struct Counter<'v> {
    view: &'v RolledView<'v>,
    cells: Cells<Growth>,
    kind: RateKind,
    /// Samples before each cell.
    samples: Vec<u64>,
    /// What was lost in each cell and between it and the one before.
    losses: Vec<Sum>,
}

pub(super) fn rates(
    view: &RolledView<'_>,
    kind: RateKind,
    set: &mut dyn FnMut(usize, Option<f64>),
) -> Vec<Slot> {
    if view.folds_runs() && view.windows.mode == WindowMode::Plain {
        direct_growth::rates(view, kind, set);
        return Vec::new();
    }
    let counter = Counter::new(view, kind);
    let slots = counter.cells.slots(view);
    let lost = counter.lost(&slots);
    let seconds = if kind.per_second {
        view.windows.range_seconds()
    } else {
        1.0
    };
    for (i, ((step, span), slot)) in view.spans.list.iter().zip(&slots).enumerate() {
        let all = counter.growth(*slot, lost.get(i).copied().unwrap_or_default());
        let limits = (span.after_ms, span.until_ms);
        let mut value = counter.increase(all, *slot, limits);
        if let (Some(value), Some(first)) =
            (value.as_mut(), counter.cells.first_window(span, *slot))
        {
            let limits = (span.after_ms, span.first_until_ms);
            let growth = counter.growth(first, counter.lost_within(first));
            let inside = counter.increase(growth, first, limits);
            *value -= span.outside * inside.unwrap_or(0.0);
        }
        set(*step, value.map(|value| value / seconds));
    }
    slots
}

impl<'v> Counter<'v> {
    fn new(view: &'v RolledView<'v>, kind: RateKind) -> Self {
        let required = WindowFields::COUNTS | WindowFields::FIRST | WindowFields::LAST;
        let cells: Cells<Growth> = view.cells(required);
        let samples = running(cells.values.iter().map(|cell| cell.samples));
        let losses = if kind.counter {
            losses(&cells.values)
        } else {
            Vec::new()
        };
        Self {
            view,
            cells,
            kind,
            samples,
            losses,
        }
    }

    /// What was lost in the resets of each slot; empty where nothing ever was.
    fn lost(&self, slots: &[Slot]) -> Vec<f64> {
        let mut lost = Vec::new();
        if !self.losses.is_empty() {
            lost.reserve(slots.len());
            let after_first = slots.iter().map(|slot| Slot {
                lo: (slot.lo + 1).min(slot.hi),
                hi: slot.hi,
            });
            let mut firsts = slots.iter();
            sliding::fold(&self.losses, after_first, |sum| {
                let first = firsts
                    .next()
                    .and_then(|slot| slot.of(&self.cells.values).first());
                let inside = first.map_or(0.0, |cell| cell.lost);
                lost.push(inside + sum.map_or(0.0, |sum| sum.0 + sum.1));
            });
        }
        lost
    }

    /// The same for one slot of a few cells.
    fn lost_within(&self, slot: Slot) -> f64 {
        let [_, rest @ ..] = slot.of(&self.losses) else {
            return 0.0;
        };
        let inside = slot
            .of(&self.cells.values)
            .first()
            .map_or(0.0, |cell| cell.lost);
        inside + rest.iter().map(|sum| sum.0).sum::<f64>()
    }

    /// The growth over a slot; `None` without cells.
    #[inline]
    fn growth(&self, slot: Slot, lost: f64) -> Option<Growth> {
        let cells = slot.of(&self.cells.values);
        let (first, last) = (cells.first()?, cells.last()?);
        Some(Growth {
            first_ms: first.first_ms,
            first: first.first,
            last_ms: last.last_ms,
            last: last.last,
            samples: self.samples[slot.hi as usize] - self.samples[slot.lo as usize],
            lost,
        })
    }

    /// The increase or difference over a range with these limits.
    #[inline]
    fn increase(&self, growth: Option<Growth>, slot: Slot, limits: (i64, i64)) -> Option<f64> {
        match self.view.windows.mode {
            WindowMode::Plain => extrapolated(&growth?, limits, self.kind),
            WindowMode::Anchored => {
                corners::anchored(growth?, &self.neighbours(slot, limits), self.kind)
            }
            WindowMode::Smoothed => {
                corners::smoothed(growth, &self.neighbours(slot, limits), limits, self.kind)
            }
        }
    }

    /// The samples around a range that are near enough.
    fn neighbours(&self, slot: Slot, (after_ms, until_ms): (i64, i64)) -> Neighbours {
        let lookback_ms = self.view.windows.lookback_ms;
        let cells = &self.cells.values;
        let before = (slot.lo as usize).checked_sub(1);
        let before = before.map(|i| (cells[i].last_ms, cells[i].last));
        let oldest = after_ms.saturating_sub(lookback_ms);
        let after = cells.get(slot.hi.max(slot.lo) as usize);
        let after = after.map(|cell| (cell.first_ms, cell.first));
        let newest = until_ms.saturating_add(lookback_ms);
        Neighbours {
            before: before.filter(|(time, _)| *time > oldest),
            after: after.filter(|(time, _)| *time <= newest),
        }
    }
}

/// Empty if nothing was lost anywhere.
fn losses(cells: &[Growth]) -> Vec<Sum> {
    let is_reset = |before: f64, cell: &Growth| cell.first < before;
    let has_losses = cells.iter().any(|cell| cell.lost != 0.0)
        || cells
            .windows(2)
            .any(|pair| is_reset(pair[0].last, &pair[1]));
    if !has_losses {
        return Vec::new();
    }
    let before = [None].into_iter().chain(cells.iter().map(Some));
    let to_cell = |(cell, before): (&Growth, Option<&Growth>)| match before {
        Some(before) if is_reset(before.last, cell) => Sum(cell.lost + before.last, 0.0),
        _ => Sum(cell.lost, 0.0),
    };
    cells.iter().zip(before).map(to_cell).collect()
}

/// As Prometheus extrapolates to the ends of a range.
#[inline]
pub(super) fn extrapolated(growth: &Growth, limits: (i64, i64), kind: RateKind) -> Option<f64> {
    if growth.samples < 2 {
        return None;
    }
    let mut interval = SampledInterval::new(
        limits,
        growth.first_ms,
        growth.last_ms,
        usize::try_from(growth.samples).unwrap_or(usize::MAX),
    );
    let increase = growth.last - growth.first + growth.lost;
    if kind.counter {
        interval.clamp_at_zero(growth.first, increase);
    }
    Some(increase * interval.extension())
}
