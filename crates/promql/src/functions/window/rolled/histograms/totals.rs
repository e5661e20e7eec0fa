//! Sums and counts of histograms. What a range has of its first window, if a part of that lies
//! outside, is taken to be spread evenly.

use std::sync::Arc;

use icecore_model::CounterResetHint;

use super::super::super::windows::Slot;
use super::Ranges;
use super::cells::HistogramCell;
use crate::annotations::{Annotation, HistogramOperation};
use crate::exec::Values;
use crate::histogram::{CompensatedSum, FloatHistogram};

/// Sums, divided by what `divisor` makes of the number of histograms.
pub(super) fn sums(ranges: &Ranges<'_>, divisor: impl Fn(f64) -> f64, values: &mut Values) {
    ranges.each(|i, slot, has_floats| {
        let step = ranges.step(i);
        if has_floats {
            ranges.view.annotations.mixed_floats_histograms();
            values.clear(step);
            return;
        }
        match sum(ranges, i, slot, &divisor) {
            Some(sum) => values.set_histogram(step, Arc::new(sum)),
            None => values.clear(step),
        }
    });
}

fn sum(
    ranges: &Ranges<'_>,
    i: usize,
    slot: Slot,
    divisor: impl Fn(f64) -> f64,
) -> Option<FloatHistogram> {
    let span = &ranges.view.spans.list[i].1;
    let of_slot = |slot: Slot| slot.of(&ranges.cells.values);
    let mut total = total(ranges, of_slot(slot))?;
    let mut count = count(of_slot(slot));
    if let Some(first) = ranges.cells.first_window(span, slot)
        && first.len() > 0
    {
        let mut outside = self::total(ranges, of_slot(first))?;
        outside.mul(span.outside);
        // They were added before, so they fit.
        total.sub(&outside).ok()?;
        count -= span.outside * self::count(of_slot(first));
    }
    total.div(divisor(count));
    Some(total)
}

fn count(cells: &[HistogramCell]) -> f64 {
    cells.iter().map(|cell| cell.samples).sum::<u64>() as f64
}

/// The histograms of cells added up, with annotations.
fn total(ranges: &Ranges<'_>, cells: &[HistogramCell]) -> Option<FloatHistogram> {
    let annotations = ranges.view.annotations;
    let mut sum: Option<CompensatedSum> = None;
    let mut is_reconciled = false;
    for cell in cells {
        let added = match (&cell.sum, &mut sum) {
            (Some(first), None) => {
                sum = Some(CompensatedSum::new(first));
                continue;
            }
            (Some(next), Some(sum)) => sum.add(next).ok(),
            (None, _) => None,
        };
        let Some(outcome) = added else {
            annotations.mixed_exponential_custom();
            return None;
        };
        is_reconciled |= outcome.bounds_reconciled;
    }
    let during = HistogramOperation::Aggregation;
    // Windows whose histograms have different hints do not tell which ones.
    let says = |hint| {
        let mut sums = cells.iter().filter_map(|cell| cell.sum.as_ref());
        sums.any(|sum| sum.reset_hint == hint)
    };
    if says(CounterResetHint::Reset) && says(CounterResetHint::NotReset) {
        annotations.add(Annotation::CounterResetCollision(during));
    }
    if is_reconciled {
        annotations.add(Annotation::MismatchedCustomBuckets(during));
    }
    sum.map(|sum| sum.total())
}

/// Adds histograms to the numbers of floats.
pub(super) fn counts(ranges: &Ranges<'_>, values: &mut Values) {
    ranges.each(|i, slot, _| {
        let (step, span) = &ranges.view.spans.list[i];
        let of_slot = |slot: Slot| count(slot.of(&ranges.cells.values));
        let first = ranges.cells.first_window(span, slot).map_or(0.0, of_slot);
        let histograms = of_slot(slot) - span.outside * first;
        let floats = values.float(*step).unwrap_or(0.0);
        values.set_float(*step, floats + histograms);
    });
}

pub(super) fn presence(ranges: &Ranges<'_>, values: &mut Values) {
    ranges.each(|i, _, _| values.set_float(ranges.step(i), 1.0));
}
