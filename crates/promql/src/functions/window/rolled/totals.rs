//! Functions of sums and counts. What a range has of its first window, if a part of that lies
//! outside, is taken to be spread evenly.

use icecore_model::kahan_add;
use icecore_model::rollup::{WindowColumns, WindowFields};

use super::super::windows::Slot;
use super::cells::{Cell, Cells};
use super::runs::Runs;
use super::sliding::{self, Merge};
use super::{RolledView, Span};

/// The number of samples of a cell.
#[derive(Clone, Copy)]
struct Count(u64);

impl Cell for Count {
    fn sample(_: i64, _: f64) -> Self {
        Self(1)
    }

    #[inline]
    fn window(columns: &WindowColumns, index: usize, _: i64) -> Self {
        Self(columns.numbers[index] + columns.nans(index))
    }
}

/// A sum with what rounding lost, and the numbers and NaN in it.
#[derive(Clone, Copy)]
struct Total {
    sum: f64,
    lost: f64,
    numbers: u64,
    nans: u64,
}

impl Total {
    fn sum(&self) -> f64 {
        self.sum + self.lost
    }

    /// What a function makes of it, without the part of the first window that lies outside.
    #[inline]
    fn finish(&self, span: &Span, first: Option<Self>, of: impl Fn(f64, f64) -> f64) -> f64 {
        if self.nans > 0 {
            return f64::NAN;
        }
        let (mut sum, mut count) = (self.sum(), self.numbers as f64);
        if let Some(first) = first {
            sum -= span.outside * first.sum();
            count -= span.outside * first.numbers as f64;
        }
        of(sum, count)
    }
}

impl Cell for Total {
    #[inline]
    fn sample(_: i64, value: f64) -> Self {
        let is_nan = value.is_nan();
        Self {
            sum: if is_nan { 0.0 } else { value },
            lost: 0.0,
            numbers: u64::from(!is_nan),
            nans: u64::from(is_nan),
        }
    }

    #[inline]
    fn window(columns: &WindowColumns, index: usize, _: i64) -> Self {
        Self {
            sum: columns.sum[index],
            lost: 0.0,
            numbers: columns.numbers[index],
            nans: columns.nans(index),
        }
    }
}

impl Merge for Total {
    #[inline]
    fn merge(&self, after: &Self) -> Self {
        let (sum, lost) = kahan_add(after.sum, self.sum, self.lost + after.lost);
        Self {
            sum,
            lost,
            numbers: self.numbers + after.numbers,
            nans: self.nans + after.nans,
        }
    }
}

pub(super) fn sums(view: &RolledView<'_>, set: &mut dyn FnMut(usize, Option<f64>)) -> Vec<Slot> {
    totals(view, |sum, _| sum, set)
}

pub(super) fn averages(
    view: &RolledView<'_>,
    set: &mut dyn FnMut(usize, Option<f64>),
) -> Vec<Slot> {
    totals(view, |sum, count| sum / count, set)
}

fn totals(
    view: &RolledView<'_>,
    finish: impl Fn(f64, f64) -> f64,
    set: &mut dyn FnMut(usize, Option<f64>),
) -> Vec<Slot> {
    let needed = WindowFields::COUNTS | WindowFields::SUM;
    if view.folds_runs() {
        totals_of_runs(view, &Runs::new(view, needed), finish, set);
        return Vec::new();
    }
    let cells: Cells<Total> = view.cells(needed);
    let slots = cells.slots(view);
    let mut steps = view.spans.list.iter().zip(&slots);
    sliding::fold(&cells.values, slots.iter().copied(), |total| {
        let Some(((step, span), slot)) = steps.next() else {
            return;
        };
        let value = total.map(|total| {
            let first = cells.first_window(span, *slot);
            let first = first.and_then(|first| sliding::of(first.of(&cells.values)));
            total.finish(span, first, &finish)
        });
        set(*step, value);
    });
    slots
}

fn totals_of_runs(
    view: &RolledView<'_>,
    runs: &Runs<'_>,
    finish: impl Fn(f64, f64) -> f64,
    set: &mut dyn FnMut(usize, Option<f64>),
) {
    let mut parts = runs.no_parts();
    for (step, span) in &view.spans.list {
        runs.advance(&mut parts, span.after_ms, span.until_ms);
        let total: Option<Total> = sliding::of_runs(runs, &parts);
        let value = total.map(|total| {
            let first = runs.first_window(span, &parts);
            let first = first.and_then(|first| sliding::of_runs(runs, &first));
            total.finish(span, first, &finish)
        });
        set(*step, value);
    }
}

impl Merge for Count {
    #[inline]
    fn merge(&self, after: &Self) -> Self {
        Self(self.0 + after.0)
    }
}

pub(super) fn counts(view: &RolledView<'_>, set: &mut dyn FnMut(usize, Option<f64>)) -> Vec<Slot> {
    if view.folds_runs() {
        let runs = Runs::new(view, WindowFields::COUNTS);
        let mut parts = runs.no_parts();
        for (step, span) in &view.spans.list {
            runs.advance(&mut parts, span.after_ms, span.until_ms);
            let count: Option<Count> = sliding::of_runs(&runs, &parts);
            let value = count.map(|count| {
                let first = runs.first_window(span, &parts);
                let first = first.and_then(|first| sliding::of_runs(&runs, &first));
                count.0 as f64 - span.outside * first.map_or(0.0, |Count(first)| first as f64)
            });
            set(*step, value);
        }
        return Vec::new();
    }
    let cells: Cells<Count> = view.cells(WindowFields::COUNTS);
    let slots = cells.slots(view);
    let running = running(cells.values.iter().map(|count| count.0));
    let between = |slot: Slot| (running[slot.hi as usize] - running[slot.lo as usize]) as f64;
    for ((step, span), slot) in view.spans.list.iter().zip(&slots) {
        let value = (slot.len() > 0).then(|| {
            let first = cells.first_window(span, *slot).map_or(0.0, between);
            between(*slot) - span.outside * first
        });
        set(*step, value);
    }
    slots
}

pub(super) fn presence(
    view: &RolledView<'_>,
    set: &mut dyn FnMut(usize, Option<f64>),
) -> Vec<Slot> {
    let cells: Cells<Count> = view.cells(WindowFields::COUNTS);
    let slots = cells.slots(view);
    for ((step, _), slot) in view.spans.list.iter().zip(&slots) {
        set(*step, (slot.len() > 0).then_some(1.0));
    }
    slots
}

/// The sums before each number and after all.
pub(super) fn running(numbers: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut running = Vec::with_capacity(numbers.size_hint().0 + 1);
    let mut sum = 0;
    running.push(sum);
    for number in numbers {
        sum += number;
        running.push(sum);
    }
    running
}
