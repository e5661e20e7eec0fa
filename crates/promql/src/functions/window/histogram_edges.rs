//! `rate`, `increase` and `delta` of histograms in anchored and smoothed windows.

use std::sync::Arc;

use icecore_model::CounterResetHint;

use crate::annotations::Annotation;
use crate::histogram::FloatHistogram;

use super::edges::{EdgeSamples, edge_samples};
use super::histogram_rate::{add, subtract};
use super::rate::RateKind;
use super::series::HistogramPoint;
use super::view::{SeriesAnnotations, Window};
use super::windows::{WindowMode, Windows};

/// The value of a window; where `known` says so of a sample, resets between it and the one before
/// are accounted for elsewhere.
pub(super) fn of_window(
    window: &Window<'_>,
    known: &[bool],
    windows: &Windows,
    kind: RateKind,
    annotations: &SeriesAnnotations<'_>,
) -> Option<Arc<FloatHistogram>> {
    let smoothed = windows.mode == WindowMode::Smoothed;
    let points = window.histograms;
    let EdgeSamples { first, last } =
        edge_samples(points.len(), |i| points[i].time_ms, window, smoothed)?;
    check(&points[first..=last], kind, annotations)?;

    let left = if smoothed && points[first].time_ms < window.start_ms {
        between(points, first, window.start_ms, kind, annotations)?
    } else {
        points[first].histogram.as_ref().clone()
    };
    let right = if smoothed && last > 0 && points[last].time_ms > window.end_ms {
        between(points, last - 1, window.end_ms, kind, annotations)?
    } else {
        points[last].histogram.as_ref().clone()
    };
    let is_gauge = |histogram: &FloatHistogram| histogram.reset_hint == CounterResetHint::Gauge;
    let gauges = is_gauge(&left) && is_gauge(&right);
    if !kind.counter && !gauges {
        annotations.add(Annotation::NativeHistogramNotGauge(
            annotations.metric_name(),
        ));
    }
    let mut increase = right.clone();
    subtract(&mut increase, &left, annotations)?;
    if kind.counter {
        let at_start = smoothed && points[first].time_ms < window.start_ms;
        let known = known.get(first..=last).unwrap_or_default();
        let points = &points[first..=last];
        let lost = lost_in_resets((points, known), (&left, &right), at_start, annotations)?;
        if let Some(lost) = lost {
            add(&mut increase, &lost, annotations)?;
        }
    }
    if kind.per_second {
        increase.div(windows.range_seconds());
    }
    increase.reset_hint = CounterResetHint::Gauge;
    increase.compact(0);
    Some(Arc::new(increase))
}

/// Checks that all histograms have one kind of buckets, and warns of gauges among counters.
fn check(
    points: &[HistogramPoint],
    kind: RateKind,
    annotations: &SeriesAnnotations<'_>,
) -> Option<()> {
    let custom = points.first()?.histogram.uses_custom_buckets();
    for point in points {
        if point.histogram.uses_custom_buckets() != custom {
            annotations.mixed_exponential_custom();
            return None;
        }
        if kind.counter && point.histogram.reset_hint == CounterResetHint::Gauge {
            annotations.add(Annotation::NativeHistogramNotCounter(
                annotations.metric_name(),
            ));
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
    annotations: &SeriesAnnotations<'_>,
) -> Option<FloatHistogram> {
    let (before, after) = (points.get(left)?, points.get(left + 1)?);
    interpolate(before, after, moment, kind.counter, annotations)
}

/// The histogram between one sample and the next; a counter that was reset started at zero.
fn interpolate(
    before: &HistogramPoint,
    after: &HistogramPoint,
    moment: i64,
    counter: bool,
    annotations: &SeriesAnnotations<'_>,
) -> Option<FloatHistogram> {
    if moment == before.time_ms {
        return Some(before.histogram.as_ref().clone());
    }
    let mut between = after.histogram.as_ref().clone();
    if moment == after.time_ms {
        return Some(between);
    }
    let distance = after.time_ms.saturating_sub(before.time_ms) as f64;
    let share = moment.saturating_sub(before.time_ms) as f64 / distance;
    if counter && after.histogram.detect_reset(&before.histogram) {
        between.mul(share);
        return Some(between);
    }
    subtract(&mut between, &before.histogram, annotations)?;
    between.mul(share);
    add(&mut between, &before.histogram, annotations)?;
    Some(between)
}

/// The counts lost in resets between the left and the right edge, which stand for the first and the
/// last of `points`.
fn lost_in_resets(
    (points, known): (&[HistogramPoint], &[bool]),
    (left, right): (&FloatHistogram, &FloatHistogram),
    left_is_interpolated: bool,
    annotations: &SeriesAnnotations<'_>,
) -> Option<Option<FloatHistogram>> {
    let (mut previous, mut from) = (left, 1);
    if let ([first, second, ..], true) = (points, left_is_interpolated)
        && second.histogram.detect_reset(&first.histogram)
    {
        // The left edge lies after this reset.
        (previous, from) = (&second.histogram, 2);
    }
    // The right edge has the hint of the last sample, so comparing the two would find a false
    // reset. If both edges lie right before the last sample there is nothing between them.
    let Some(within) = points.get(from..points.len().saturating_sub(1)) else {
        return Some(None);
    };
    let mut lost: Option<FloatHistogram> = None;
    let within = within.iter().map(|point| point.histogram.as_ref());
    for (at, current) in within.chain([right]).enumerate() {
        let is_known = known.get(from + at) == Some(&true);
        if !is_known && current.detect_reset(previous) {
            match &mut lost {
                Some(lost) => add(lost, previous, annotations)?,
                None => lost = Some(previous.clone()),
            }
        }
        previous = current;
    }
    Some(lost)
}
