//! Functions of the first and the last sample of a range.

use icecore_model::rollup::{WindowColumns, WindowFields};

use super::super::windows::Slot;
use super::RolledView;
use super::cells::{Cell, Cells};
use super::runs::Runs;

/// One sample.
#[derive(Clone, Copy)]
pub(super) struct Point {
    pub(super) time_ms: i64,
    pub(super) value: f64,
}

impl Point {
    pub(super) fn seconds(self) -> f64 {
        self.time_ms as f64 / 1000.0
    }
}

#[derive(Clone, Copy)]
pub(super) struct First(pub(super) Point);

#[derive(Clone, Copy)]
pub(super) struct Last(pub(super) Point);

impl Cell for First {
    fn sample(time_ms: i64, value: f64) -> Self {
        Self(Point { time_ms, value })
    }

    #[inline]
    fn window(columns: &WindowColumns, index: usize, _: i64) -> Self {
        Self::sample(columns.first_ms[index], columns.first[index])
    }
}

impl Cell for Last {
    fn sample(time_ms: i64, value: f64) -> Self {
        Self(Point { time_ms, value })
    }

    #[inline]
    fn window(columns: &WindowColumns, index: usize, _: i64) -> Self {
        Self::sample(columns.last_ms[index], columns.last[index])
    }
}

pub(super) fn firsts(
    view: &RolledView<'_>,
    value: impl Fn(Point) -> f64,
    set: &mut dyn FnMut(usize, Option<f64>),
) -> Vec<Slot> {
    let needed = WindowFields::COUNTS | WindowFields::FIRST;
    if view.is_direct {
        let runs = Runs::new(view, needed);
        let mut parts = runs.no_parts();
        for (step, span) in &view.spans.list {
            runs.advance(&mut parts, span.after_ms, span.until_ms);
            set(
                *step,
                runs.first(&parts).map(|(_, First(point))| value(point)),
            );
        }
        return Vec::new();
    }
    let cells: Cells<First> = view.cells(needed);
    let slots = cells.slots(view);
    for ((step, _), slot) in view.spans.list.iter().zip(&slots) {
        let first = slot.of(&cells.values).first();
        set(*step, first.map(|first| value(first.0)));
    }
    slots
}

pub(super) fn lasts(
    view: &RolledView<'_>,
    value: impl Fn(Point) -> f64,
    set: &mut dyn FnMut(usize, Option<f64>),
) -> Vec<Slot> {
    let needed = WindowFields::COUNTS | WindowFields::LAST;
    if view.is_direct {
        let runs = Runs::new(view, needed);
        let mut parts = runs.no_parts();
        for (step, span) in &view.spans.list {
            runs.advance(&mut parts, span.after_ms, span.until_ms);
            set(*step, runs.last(&parts).map(|Last(point)| value(point)));
        }
        return Vec::new();
    }
    let cells: Cells<Last> = view.cells(needed);
    let slots = cells.slots(view);
    for ((step, _), slot) in view.spans.list.iter().zip(&slots) {
        let last = slot.of(&cells.values).last();
        set(*step, last.map(|last| value(last.0)));
    }
    slots
}
