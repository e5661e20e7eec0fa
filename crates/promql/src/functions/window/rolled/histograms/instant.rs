//! `irate` and `idelta` of ranges that have histograms: from the last two samples if they are
//! there, else the mean slope of the last window.

use std::sync::Arc;

use icecore_model::CounterResetHint;
use icecore_model::rollup::WindowFields;

use super::super::super::histogram_rate::{add, subtract};
use super::super::super::view::SeriesAnnotations;
use super::super::cells::Cells;
use super::super::growth::Growth;
use super::Ranges;
use super::cells::{HistogramCell, is_gauge};
use crate::annotations::Annotation;
use crate::exec::Values;
use crate::histogram::FloatHistogram;

pub(super) fn changes(ranges: &Ranges<'_>, per_second: bool, values: &mut Values) {
    let view = ranges.view;
    let fields = WindowFields::COUNTS | WindowFields::FIRST | WindowFields::LAST;
    let floats: Cells<Growth> = view.cells(fields);
    let float_slots = floats.slots(view);
    ranges.each(|i, slot, _| {
        let step = ranges.step(i);
        let cells = slot.of(&ranges.cells.values);
        let floats = float_slots.get(i).map(|slot| slot.of(&floats.values));
        match last_two(cells, floats.unwrap_or_default()) {
            LastTwo::Floats => {}
            LastTwo::Mixed => {
                view.annotations.mixed_floats_histograms();
                values.clear(step);
            }
            LastTwo::Histograms => match change(cells, per_second, view.annotations) {
                Some(value) => values.set_histogram(step, Arc::new(value)),
                None => values.clear(step),
            },
        }
    });
}

/// What the last two samples of a range are.
enum LastTwo {
    Floats,
    Histograms,
    Mixed,
}

fn last_two(cells: &[HistogramCell], floats: &[Growth]) -> LastTwo {
    let (Some(last), Some(float)) = (cells.last(), floats.last()) else {
        return if floats.is_empty() {
            LastTwo::Histograms
        } else {
            LastTwo::Floats
        };
    };
    if last.last_ms > float.last_ms {
        // Of several in one window it is not known what lies between them.
        let before = cells.iter().rev().nth(1).map(|cell| cell.last_ms);
        let is_alone = last.samples == 1 && before.is_none_or(|before| before < float.last_ms);
        if is_alone {
            LastTwo::Mixed
        } else {
            LastTwo::Histograms
        }
    } else {
        let before = floats.iter().rev().nth(1).map(|cell| cell.last_ms);
        let is_alone = float.samples == 1 && before.is_none_or(|before| before < last.last_ms);
        if is_alone {
            LastTwo::Mixed
        } else {
            LastTwo::Floats
        }
    }
}

fn change(
    cells: &[HistogramCell],
    per_second: bool,
    annotations: &SeriesAnnotations<'_>,
) -> Option<FloatHistogram> {
    let (last_cell, before) = cells.split_last()?;
    let last = last_cell.last.as_ref()?;
    let is_single = last_cell.samples == 1;
    let (from_ms, from) = if is_single {
        let before = before.last()?;
        (before.last_ms, before.last.as_ref()?)
    } else {
        (last_cell.first_ms, last_cell.first.as_ref()?)
    };
    let elapsed_ms = last_cell.last_ms.saturating_sub(from_ms);
    if elapsed_ms == 0 {
        return None;
    }
    let gauges = [from, last].map(|histogram| is_gauge(histogram));
    if per_second && gauges.contains(&true) {
        let name = annotations.metric_name();
        annotations.add(Annotation::NativeHistogramNotCounter(name));
    }
    if !per_second && gauges.contains(&false) {
        let name = annotations.metric_name();
        annotations.add(Annotation::NativeHistogramNotGauge(name));
    }
    let mut change = last.as_ref().clone();
    if !(per_second && is_single && last.detect_reset(from)) {
        subtract(&mut change, from, annotations)?;
    }
    if per_second {
        for lost in last_cell.lost.iter().filter(|_| !is_single) {
            add(&mut change, lost, annotations)?;
        }
        change.div(elapsed_ms as f64 / 1000.0);
    } else if !is_single {
        change.div((last_cell.samples - 1) as f64);
    }
    change.reset_hint = CounterResetHint::Gauge;
    change.compact(0);
    Some(change)
}
