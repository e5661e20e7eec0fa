//! Functions that windows answer only roughly: of the order of samples, or of single ones.

use icecore_model::rollup::{Aggregate, WindowColumns, WindowFields};

use super::super::spread::{median_deviation_of, nan_first};
use super::super::trend;
use super::super::windows::Slot;
use super::cells::{Cell, Cells};
use super::{RolledView, Span};
use crate::annotations::{Annotation, Annotations, GoFloat};
use crate::error::Result;
use crate::parse::Span as TextSpan;

/// All that is known of a cell.
#[derive(Clone, Copy)]
struct Summary {
    of: Aggregate,
    /// A moment that is at most half a window from each of its samples.
    middle_ms: i64,
    /// One sample at the end of the window before it, so a part of that.
    is_sample: bool,
}

impl Cell for Summary {
    fn sample(timestamp_ms: i64, value: f64) -> Self {
        Self {
            of: Aggregate::of(timestamp_ms, value),
            middle_ms: timestamp_ms,
            is_sample: true,
        }
    }

    fn window(columns: &WindowColumns, index: usize, width_ms: i64) -> Self {
        let middle_ms = columns.starts[index].saturating_add(width_ms / 2);
        Self {
            of: (columns.interior(index)).unwrap_or_else(|| Aggregate::of(middle_ms, f64::NAN)),
            middle_ms,
            is_sample: false,
        }
    }
}

impl Summary {
    /// NaN if a sample is.
    fn mean(&self) -> f64 {
        if self.of.nans > 0 {
            f64::NAN
        } else {
            self.of.mean()
        }
    }
}

/// Calls `value` with the cells of each span that has any.
fn each(
    view: &RolledView<'_>,
    column: WindowFields,
    mut value: impl FnMut(usize, &Span, &[Summary]) -> Option<f64>,
    set: &mut dyn FnMut(usize, Option<f64>),
) -> Vec<Slot> {
    let cells: Cells<Summary> = view.cells(WindowFields::COUNTS | column);
    let slots = cells.slots(view);
    let mut touched = 0;
    for ((step, span), slot) in view.spans.list.iter().zip(&slots) {
        touched += slot.len() + 1;
        if touched > CELLS_BETWEEN_CHECKS {
            touched = 0;
            if view.context.is_some_and(|context| context.check().is_err()) {
                break;
            }
        }
        let of_span = slot.of(&cells.values);
        let found = if of_span.is_empty() {
            None
        } else {
            value(*step, span, of_span)
        };
        set(*step, found);
    }
    slots
}

/// Cells between checks for cancellation: these functions look at every cell of every range.
const CELLS_BETWEEN_CHECKS: usize = 1 << 18;

const ENDS: WindowFields = WindowFields::FIRST.with(WindowFields::LAST);

/// From the last two samples if they are there, else the mean slope of the last window.
pub(super) fn instant_rates(
    view: &RolledView<'_>,
    per_second: bool,
    set: &mut dyn FnMut(usize, Option<f64>),
) -> Vec<Slot> {
    let value = |_: usize, _: &Span, cells: &[Summary]| {
        let (last, before) = cells.split_last()?;
        let last = &last.of;
        let (from_ms, from, lost, steps) = if last.samples() == 1 {
            let before = &before.last()?.of;
            let is_reset = last.last < before.last;
            let lost = if is_reset { before.last } else { 0.0 };
            (before.last_ms, before.last, lost, 1)
        } else {
            let steps = last.samples() - 1;
            (last.first_ms, last.first, last.correction, steps)
        };
        let seconds = last.last_ms.saturating_sub(from_ms) as f64 / 1000.0;
        let change = last.last - from;
        Some(if per_second {
            (change + lost) / seconds
        } else {
            change / steps as f64
        })
    };
    each(view, ENDS, value, set)
}

/// A line through the means of cells, each at the middle of its samples.
struct Line {
    slope: f64,
    /// The value at the moment from which times are counted.
    intercept: f64,
}

impl Line {
    fn new(cells: &[Summary], moment_ms: i64) -> Option<Self> {
        let samples: u64 = cells.iter().map(|cell| cell.of.samples()).sum();
        if samples < 2 {
            return None;
        }
        let seconds = |ms: i64| ms.saturating_sub(moment_ms) as f64 / 1000.0;
        if let [only] = cells {
            let of = &only.of;
            let (x, width) = (
                seconds(of.first_ms),
                seconds(of.last_ms) - seconds(of.first_ms),
            );
            let slope = (of.last - of.first) / width;
            return Some(Self {
                slope,
                intercept: of.first - slope * x,
            });
        }
        let point = |cell: &Summary| {
            let x = (seconds(cell.of.first_ms) + seconds(cell.of.last_ms)) / 2.0;
            (x, cell.mean(), cell.of.samples() as f64)
        };
        let weighted = |value: &dyn Fn(f64, f64) -> f64| -> f64 {
            let terms = cells.iter().map(point);
            terms.map(|(x, y, weight)| weight * value(x, y)).sum()
        };
        let n = samples as f64;
        let (x_mean, y_mean) = (weighted(&|x, _| x) / n, weighted(&|_, y| y) / n);
        let covariance = weighted(&|x, y| (x - x_mean) * (y - y_mean));
        let slope = covariance / weighted(&|x, _| (x - x_mean) * (x - x_mean));
        Some(Self {
            slope,
            intercept: y_mean - slope * x_mean,
        })
    }
}

pub(super) fn derivatives(
    view: &RolledView<'_>,
    set: &mut dyn FnMut(usize, Option<f64>),
) -> Vec<Slot> {
    let value = |_: usize, span: &Span, cells: &[Summary]| {
        Line::new(cells, span.until_ms).map(|line| line.slope)
    };
    each(view, ENDS | WindowFields::SUM, value, set)
}

pub(super) fn predictions(
    view: &RolledView<'_>,
    ahead: impl Fn(usize) -> f64,
    set: &mut dyn FnMut(usize, Option<f64>),
) -> Vec<Slot> {
    let value = |step: usize, _: &Span, cells: &[Summary]| {
        let line = Line::new(cells, view.windows.grid.time(step))?;
        Some(line.slope * ahead(step) + line.intercept)
    };
    each(view, ENDS | WindowFields::SUM, value, set)
}

pub(super) fn times_of_minima(
    view: &RolledView<'_>,
    set: &mut dyn FnMut(usize, Option<f64>),
) -> Vec<Slot> {
    let value =
        |_: usize, _: &Span, cells: &[Summary]| time_of(cells, |cell| cell.min, |a, b| a <= b);
    each(view, ENDS | WindowFields::MIN, value, set)
}

pub(super) fn times_of_maxima(
    view: &RolledView<'_>,
    set: &mut dyn FnMut(usize, Option<f64>),
) -> Vec<Slot> {
    let value =
        |_: usize, _: &Span, cells: &[Summary]| time_of(cells, |cell| cell.max, |a, b| a >= b);
    each(view, ENDS | WindowFields::MAX, value, set)
}

/// The time of the last extreme: that of the first or last sample of its window if one of them is
/// it, else the middle of the window.
fn time_of(
    cells: &[Summary],
    extreme: impl Fn(&Aggregate) -> f64,
    as_far: impl Fn(f64, f64) -> bool,
) -> Option<f64> {
    let mut found = cells.first()?;
    for cell in cells {
        let (value, best) = (extreme(&cell.of), extreme(&found.of));
        if as_far(value, best) || best.is_nan() {
            found = cell;
        }
    }
    let (of, best) = (&found.of, extreme(&found.of));
    let time_ms = if of.last == best || best.is_nan() {
        of.last_ms
    } else if of.first == best {
        of.first_ms
    } else {
        found.middle_ms
    };
    Some(time_ms as f64 / 1000.0)
}

/// The quantile of the means of windows, each as often as it has samples. The smallest and the
/// largest value are exact.
pub(super) fn quantiles(
    view: &RolledView<'_>,
    q: impl Fn(usize) -> f64,
    annotations: &Annotations,
    text_span: TextSpan,
    set: &mut dyn FnMut(usize, Option<f64>),
) -> Vec<Slot> {
    let mut weighted = Vec::new();
    let fields = WindowFields::SUM | WindowFields::MIN | WindowFields::MAX;
    let value = |step: usize, _: &Span, cells: &[Summary]| {
        let q = q(step);
        if !(0.0..=1.0).contains(&q) {
            annotations.add(text_span, Annotation::InvalidQuantile(GoFloat(q)));
        }
        Some(quantile(q, cells, &mut weighted))
    };
    each(view, fields, value, set)
}

fn quantile(q: f64, cells: &[Summary], weighted: &mut Vec<(f64, u64)>) -> f64 {
    if q.is_nan() {
        return f64::NAN;
    }
    if q < 0.0 {
        return f64::NEG_INFINITY;
    }
    if q > 1.0 {
        return f64::INFINITY;
    }
    let min = cells
        .iter()
        .fold(f64::NAN, |min, cell| min.min(cell.of.min));
    let max = cells
        .iter()
        .fold(f64::NAN, |max, cell| max.max(cell.of.max));
    let nans: u64 = cells.iter().map(|cell| cell.of.nans).sum();
    // NaN sorts before all numbers.
    if q == 0.0 {
        return if nans > 0 { f64::NAN } else { min };
    }
    if q == 1.0 {
        return max;
    }
    weighted.clear();
    weighted.push((f64::NAN, nans));
    let numbers = cells.iter().filter(|cell| cell.of.numbers > 0);
    weighted.extend(numbers.map(|cell| (cell.of.mean(), cell.of.numbers)));
    weighted.sort_by(|a, b| nan_first(&a.0, &b.0));
    let samples: u64 = weighted.iter().map(|(_, count)| count).sum();
    let rank = q * (samples - 1) as f64;
    let at = |rank: u64| {
        let mut before = 0;
        let found = weighted.iter().find(|(_, count)| {
            before += count;
            before > rank
        });
        found.map_or(f64::NAN, |(value, _)| *value)
    };
    let (lower, weight) = (rank.floor(), rank - rank.floor());
    let upper = at((lower as u64 + 1).min(samples - 1));
    let value = at(lower as u64) * (1.0 - weight) + upper * weight;
    if value.is_nan() {
        value
    } else {
        value.max(min).min(max)
    }
}

/// One value for each window: the mean of its samples, the one at its end included.
fn means(cells: &[Summary], means: &mut Vec<f64>) {
    means.clear();
    let mut open: Option<Aggregate> = None;
    for cell in cells {
        match &mut open {
            Some(window) if cell.is_sample => {
                window.merge(&cell.of);
                means.extend(open.take().map(|of| Summary { of, ..*cell }.mean()));
            }
            _ => {
                means.extend(open.take().map(|of| Summary { of, ..*cell }.mean()));
                if cell.is_sample {
                    means.push(cell.mean());
                } else {
                    open = Some(cell.of);
                }
            }
        }
    }
    means.extend(open.map(|of| if of.nans > 0 { f64::NAN } else { of.mean() }));
}

pub(super) fn median_deviations(
    view: &RolledView<'_>,
    set: &mut dyn FnMut(usize, Option<f64>),
) -> Vec<Slot> {
    let (mut values, mut scratch) = (Vec::new(), Vec::new());
    let value = |_: usize, _: &Span, cells: &[Summary]| {
        means(cells, &mut values);
        Some(median_deviation_of(&values, &mut scratch))
    };
    each(view, WindowFields::SUM, value, set)
}

/// `factors` are those of the level and of its trend.
pub(super) fn smoothed(
    view: &RolledView<'_>,
    factors: impl Fn(usize) -> (f64, f64),
    set: &mut dyn FnMut(usize, Option<f64>),
) -> Result<Vec<Slot>> {
    let (mut values, mut checked) = (Vec::new(), Ok(()));
    let value = |step: usize, _: &Span, cells: &[Summary]| {
        let (smoothing, trend) = factors(step);
        if checked.is_ok() {
            checked = trend::check_factors(smoothing, trend);
        }
        means(cells, &mut values);
        (values.len() >= 2).then(|| trend::smoothed(&values, smoothing, trend))
    };
    let slots = each(view, WindowFields::SUM, value, set);
    checked.map(|()| slots)
}
