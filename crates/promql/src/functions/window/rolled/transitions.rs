//! `resets` and `changes`: those inside of cells and those from one cell to the next.

use icecore_model::rollup::{WindowColumns, WindowFields};

use super::super::transitions::Transition;
use super::super::windows::{Slot, WindowMode};
use super::cells::{Cell, Cells};
use super::totals::running;
use super::{RolledView, Span};

/// The ends of a run, and the transitions inside.
#[derive(Clone, Copy)]
struct Run {
    first: f64,
    last_ms: i64,
    last: f64,
    inside: u64,
}

impl Run {
    fn of_window(columns: &WindowColumns, index: usize, counts: &[u64]) -> Self {
        Self {
            first: columns.first[index],
            last_ms: columns.last_ms[index],
            last: columns.last[index],
            inside: counts.get(index).copied().unwrap_or_default(),
        }
    }

    fn of_sample(timestamp_ms: i64, value: f64) -> Self {
        Self {
            first: value,
            last_ms: timestamp_ms,
            last: value,
            inside: 0,
        }
    }
}

#[derive(Clone, Copy)]
struct Resets(Run);

#[derive(Clone, Copy)]
struct Changes(Run);

impl Cell for Resets {
    fn sample(timestamp_ms: i64, value: f64) -> Self {
        Self(Run::of_sample(timestamp_ms, value))
    }

    fn window(columns: &WindowColumns, index: usize, _: i64) -> Self {
        Self(Run::of_window(columns, index, &columns.resets))
    }
}

impl Cell for Changes {
    fn sample(timestamp_ms: i64, value: f64) -> Self {
        Self(Run::of_sample(timestamp_ms, value))
    }

    fn window(columns: &WindowColumns, index: usize, _: i64) -> Self {
        Self(Run::of_window(columns, index, &columns.changes))
    }
}

pub(super) fn count(
    view: &RolledView<'_>,
    transition: Transition,
    set: &mut dyn FnMut(usize, Option<f64>),
) -> Vec<Slot> {
    match transition {
        Transition::Reset => of_cells(view, transition, |cell: &Resets| cell.0, set),
        Transition::Change => of_cells(view, transition, |cell: &Changes| cell.0, set),
    }
}

fn of_cells<T: Cell>(
    view: &RolledView<'_>,
    transition: Transition,
    run: impl Fn(&T) -> Run,
    set: &mut dyn FnMut(usize, Option<f64>),
) -> Vec<Slot> {
    let required = WindowFields::COUNTS | WindowFields::FIRST | WindowFields::LAST;
    let cells: Cells<T> = view.cells(required);
    let slots = cells.slots(view);
    let runs: Vec<Run> = cells.values.iter().map(run).collect();
    // With each cell what lies inside, and the transition to it from the cell before.
    let before = [None].into_iter().chain(runs.iter().map(Some));
    let to_cell = |(run, before): (&Run, Option<&Run>)| {
        run.inside + before.map_or(0, |before| u64::from(transition.of(before.last, run.first)))
    };
    let running = running(runs.iter().zip(before).map(to_cell));
    let between = |slot: Slot, span: &Span| -> Option<f64> {
        let (lo, hi) = (slot.lo as usize, slot.hi as usize);
        let first = slot.of(&runs).first()?;
        let anchored = view.windows.mode == WindowMode::Anchored
            && lo.checked_sub(1).is_some_and(|before| {
                let oldest = span.after_ms.saturating_sub(view.windows.lookback_ms);
                runs[before].last_ms > oldest
            });
        let count = if anchored {
            running[hi] - running[lo]
        } else {
            running[hi] - running[lo + 1] + first.inside
        };
        Some(count as f64)
    };
    for ((step, span), slot) in view.spans.list.iter().zip(&slots) {
        let first = cells.first_window(span, *slot);
        let first = first.and_then(|first| between(first, span)).unwrap_or(0.0);
        let value = between(*slot, span).map(|all| all - span.outside * first);
        set(*step, value);
    }
    slots
}
