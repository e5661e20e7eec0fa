//! `rate`, `increase` and `delta` of histograms in anchored and smoothed windows.

use std::sync::Arc;

use icecore_model::CounterResetHint;

use crate::annotations::Note;
use crate::histogram::FloatHistogram;

use super::edges::{Ends, ends};
use super::histogram_rate::{add, subtract};
use super::rate::RateKind;
use super::series::HistogramPoint;
use super::view::{Notes, Window};
use super::windows::{WindowMode, Windows};

pub(super) fn of_window(
    window: &Window<'_>,
    windows: &Windows,
    kind: RateKind,
    notes: &Notes<'_>,
) -> Option<Arc<FloatHistogram>> {
    let smoothed = windows.mode == WindowMode::Smoothed;
    let points = window.histograms;
    let Ends { first, last } = ends(points.len(), |i| points[i].time_ms, window, smoothed)?;
    check(&points[first..=last], kind, notes)?;

    let left = if smoothed && points[first].time_ms < window.start_ms {
        between(points, first, window.start_ms, kind, notes)?
    } else {
        points[first].histogram.as_ref().clone()
    };
    let right = if smoothed && last > 0 && points[last].time_ms > window.end_ms {
        between(points, last - 1, window.end_ms, kind, notes)?
    } else {
        points[last].histogram.as_ref().clone()
    };
    let is_gauge = |histogram: &FloatHistogram| histogram.reset_hint == CounterResetHint::Gauge;
    let gauges = is_gauge(&left) && is_gauge(&right);
    if !kind.counter && !gauges {
        notes.add(Note::NativeHistogramNotGauge(notes.metric_name()));
    }
    let mut increase = right.clone();
    subtract(&mut increase, &left, notes)?;
    if kind.counter {
        let at_start = smoothed && points[first].time_ms < window.start_ms;
        let lost = lost_in_resets(&points[first..=last], &left, &right, at_start, notes)?;
        if let Some(lost) = lost {
            add(&mut increase, &lost, notes)?;
        }
    }
    if kind.per_second {
        increase.div(windows.range_seconds());
    }
    increase.reset_hint = CounterResetHint::Gauge;
    increase.compact(0);
    Some(Arc::new(increase))
}

/// All histograms are of one kind, and those of a counter do not say that they are gauges.
fn check(points: &[HistogramPoint], kind: RateKind, notes: &Notes<'_>) -> Option<()> {
    let custom = points.first()?.histogram.uses_custom_buckets();
    for point in points {
        if point.histogram.uses_custom_buckets() != custom {
            notes.mixed_exponential_custom();
            return None;
        }
        if kind.counter && point.histogram.reset_hint == CounterResetHint::Gauge {
            notes.add(Note::NativeHistogramNotCounter(notes.metric_name()));
        }
    }
    Some(())
}

/// The histogram at a moment between two samples.
fn between(
    points: &[HistogramPoint],
    left: usize,
    moment: i64,
    kind: RateKind,
    notes: &Notes<'_>,
) -> Option<FloatHistogram> {
    let (before, after) = (points.get(left)?, points.get(left + 1)?);
    interpolate(before, after, moment, kind.counter, notes)
}

/// The histogram on the way from one sample to the next; a counter that was reset began at zero.
fn interpolate(
    before: &HistogramPoint,
    after: &HistogramPoint,
    moment: i64,
    counter: bool,
    notes: &Notes<'_>,
) -> Option<FloatHistogram> {
    if moment == before.time_ms {
        return Some(before.histogram.as_ref().clone());
    }
    let mut between = after.histogram.as_ref().clone();
    if moment == after.time_ms {
        return Some(between);
    }
    let way = after.time_ms.saturating_sub(before.time_ms) as f64;
    let share = moment.saturating_sub(before.time_ms) as f64 / way;
    if counter && after.histogram.detect_reset(&before.histogram) {
        between.mul(share);
        return Some(between);
    }
    subtract(&mut between, &before.histogram, notes)?;
    between.mul(share);
    add(&mut between, &before.histogram, notes)?;
    Some(between)
}

/// What resets took away between the left and the right edge, which stand for the first and the last
/// of `points`; nothing where there was no reset.
fn lost_in_resets(
    points: &[HistogramPoint],
    left: &FloatHistogram,
    right: &FloatHistogram,
    left_is_interpolated: bool,
    notes: &Notes<'_>,
) -> Option<Option<FloatHistogram>> {
    let (mut previous, mut from) = (left, 1);
    if let ([first, second, ..], true) = (points, left_is_interpolated)
        && second.histogram.detect_reset(&first.histogram)
    {
        // The left edge lies behind this reset already.
        (previous, from) = (&second.histogram, 2);
    }
    // The right edge has the hint of the last sample, so comparing it with that sample would find a
    // reset that is none. Where both edges lie on the way to the last sample there is nothing between.
    let Some(within) = points.get(from..points.len().saturating_sub(1)) else {
        return Some(None);
    };
    let mut lost: Option<FloatHistogram> = None;
    let within = within.iter().map(|point| point.histogram.as_ref());
    for current in within.chain([right]) {
        if current.detect_reset(previous) {
            match &mut lost {
                Some(lost) => add(lost, previous, notes)?,
                None => lost = Some(previous.clone()),
            }
        }
        previous = current;
    }
    Some(lost)
}
