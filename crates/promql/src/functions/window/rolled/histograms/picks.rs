//! The first and the last sample of a range that has histograms.

use std::sync::Arc;

use icecore_model::rollup::WindowFields;

use super::super::cells::{Cell, Cells};
use super::super::points::{First, Last};
use super::Ranges;
use crate::exec::Values;
use crate::histogram::FloatHistogram;

/// Values if `picks_values`, else times.
pub(super) fn firsts(ranges: &Ranges<'_>, picks_values: bool, values: &mut Values) {
    let times = float_times(ranges, WindowFields::FIRST, |cells: &[First]| {
        cells.first().map(|first| first.0.time_ms)
    });
    ranges.each(|i, slot, _| {
        let Some(cell) = slot.of(&ranges.cells.values).first() else {
            return;
        };
        let float_ms = times.get(i).copied().flatten();
        if float_ms.is_none_or(|float_ms| cell.first_ms < float_ms) {
            set(
                ranges.step(i),
                picks_values,
                cell.first_ms,
                &cell.first,
                values,
            );
        }
    });
}

/// The same for the last sample.
pub(super) fn lasts(ranges: &Ranges<'_>, picks_values: bool, values: &mut Values) {
    let times = float_times(ranges, WindowFields::LAST, |cells: &[Last]| {
        cells.last().map(|last| last.0.time_ms)
    });
    ranges.each(|i, slot, _| {
        let Some(cell) = slot.of(&ranges.cells.values).last() else {
            return;
        };
        let float_ms = times.get(i).copied().flatten();
        if float_ms.is_none_or(|float_ms| cell.last_ms > float_ms) {
            set(
                ranges.step(i),
                picks_values,
                cell.last_ms,
                &cell.last,
                values,
            );
        }
    });
}

fn set(
    step: usize,
    picks_values: bool,
    time_ms: i64,
    histogram: &Option<Arc<FloatHistogram>>,
    values: &mut Values,
) {
    match histogram {
        _ if !picks_values => values.set_float(step, time_ms as f64 / 1000.0),
        Some(histogram) => values.set_histogram(step, Arc::clone(histogram)),
        None => values.clear(step),
    }
}

/// The time of a float of each span; empty where there are no floats.
fn float_times<T: Cell>(
    ranges: &Ranges<'_>,
    field: WindowFields,
    time: impl Fn(&[T]) -> Option<i64>,
) -> Vec<Option<i64>> {
    if ranges.floats.iter().all(|slot| slot.len() == 0) {
        return Vec::new();
    }
    let cells: Cells<T> = ranges.view.cells(WindowFields::COUNTS | field);
    let slots = cells.slots(ranges.view);
    slots
        .iter()
        .map(|slot| time(slot.of(&cells.values)))
        .collect()
}
