//! `min_over_time` and `max_over_time`.

use icecore_model::rollup::{WindowColumns, WindowFields};

use super::super::windows::Slot;
use super::RolledView;
use super::cells::{Cell, Cells};
use super::runs::Runs;
use super::sliding::{self, Merge};

/// The smallest number; NaN if there is none.
#[derive(Clone, Copy)]
struct Minimum(f64);

/// The largest number; NaN if there is none.
#[derive(Clone, Copy)]
struct Maximum(f64);

impl Cell for Minimum {
    fn sample(_: i64, value: f64) -> Self {
        Self(value)
    }

    #[inline]
    fn window(columns: &WindowColumns, index: usize, _: i64) -> Self {
        Self(columns.min[index])
    }
}

impl Cell for Maximum {
    fn sample(_: i64, value: f64) -> Self {
        Self(value)
    }

    #[inline]
    fn window(columns: &WindowColumns, index: usize, _: i64) -> Self {
        Self(columns.max[index])
    }
}

impl Merge for Minimum {
    #[inline]
    fn merge(&self, after: &Self) -> Self {
        // Of a number and NaN this is the number.
        Self(self.0.min(after.0))
    }
}

impl Merge for Maximum {
    #[inline]
    fn merge(&self, after: &Self) -> Self {
        Self(self.0.max(after.0))
    }
}

pub(super) fn minima(view: &RolledView<'_>, set: &mut dyn FnMut(usize, Option<f64>)) -> Vec<Slot> {
    extremes(view, WindowFields::MIN, |minimum: Minimum| minimum.0, set)
}

pub(super) fn maxima(view: &RolledView<'_>, set: &mut dyn FnMut(usize, Option<f64>)) -> Vec<Slot> {
    extremes(view, WindowFields::MAX, |maximum: Maximum| maximum.0, set)
}

fn extremes<E: Cell + Merge>(
    view: &RolledView<'_>,
    column: WindowFields,
    value: impl Fn(E) -> f64,
    set: &mut dyn FnMut(usize, Option<f64>),
) -> Vec<Slot> {
    if view.folds_runs() {
        let runs = Runs::new(view, WindowFields::COUNTS | column);
        let mut parts = runs.no_parts();
        for (step, span) in &view.spans.list {
            runs.advance(&mut parts, span.after_ms, span.until_ms);
            set(*step, sliding::of_runs(&runs, &parts).map(&value));
        }
        return Vec::new();
    }
    let cells: Cells<E> = view.cells(WindowFields::COUNTS | column);
    let slots = cells.slots(view);
    let mut steps = view.spans.list.iter();
    sliding::fold(&cells.values, slots.iter().copied(), |extreme| {
        if let Some((step, _)) = steps.next() {
            set(*step, extreme.map(&value));
        }
    });
    slots
}
