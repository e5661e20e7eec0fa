//! `rate`, `increase` and `delta` of histograms in plain windows.

use std::sync::Arc;

use icecore_model::CounterResetHint;

use crate::annotations::{Annotation, HistogramOperation};
use crate::histogram::FloatHistogram;

use super::rate::{RateKind, SampledInterval, start_within};
use super::series::HistogramPoint;
use super::starts::{SampleStart, is_restart, overlaps};
use super::view::{SeriesAnnotations, View, Window};
use super::windows::Windows;

/// For each histogram of a series whether the counter was reset before it. Computed once per
/// series, because comparing histograms is most of the work and windows overlap.
pub(super) fn resets(view: &View<'_>) -> Vec<bool> {
    let started = |i: usize| {
        let time = view.histograms[i].time_ms;
        SampleStart::at(i, time, &view.starts.histograms)
    };
    let reset = |i: usize| {
        i > 0 && {
            let (before, after) = (&view.histograms[i - 1], &view.histograms[i]);
            is_restart(started(i - 1), started(i))
                || after.histogram.detect_reset(&before.histogram)
        }
    };
    (0..view.histograms.len()).map(reset).collect()
}

/// The value of a window of histograms; `resets` are those of its samples.
pub(super) fn of_window(
    window: &Window<'_>,
    resets: &[bool],
    windows: &Windows,
    kind: RateKind,
    annotations: &SeriesAnnotations<'_>,
) -> Option<Arc<FloatHistogram>> {
    let points = window.histograms;
    let (first, last) = (points.first()?, points.last()?);
    let mut increase = match points.len() {
        0 | 1 => None,
        _ => Some(increase(window, resets, kind, annotations)?),
    };
    let edges = (window.start_ms, window.end_ms);
    let mut interval = SampledInterval::new(edges, first.time_ms, last.time_ms, points.len());
    match start_within(window.histogram_starts, window.start_ms, first.time_ms) {
        Some(start) if kind.counter => {
            interval.start_at(start, last.time_ms);
            match &mut increase {
                Some(increase) => add(increase, &first.histogram, annotations)?,
                None => increase = Some(first.histogram.as_ref().clone()),
            }
        }
        _ => {
            let increase = increase.as_ref()?;
            if kind.counter {
                interval.clamp_at_zero(first.histogram.count, increase.count);
            }
        }
    }
    let mut increase = increase?;
    increase.mul(interval.factor(windows, kind));
    Some(Arc::new(increase))
}

/// The last histogram minus the first, plus the counts lost in resets.
fn increase(
    window: &Window<'_>,
    resets: &[bool],
    kind: RateKind,
    annotations: &SeriesAnnotations<'_>,
) -> Option<FloatHistogram> {
    let (points, counter) = (window.histograms, kind.counter);
    let [first, middle @ .., last] = points else {
        return None;
    };
    let (first, last) = (&first.histogram, &last.histogram);
    let mut pending = Vec::new();
    // After a reset the first histogram is not subtracted, so its layout does not matter.
    let nothing;
    let base = if counter && resets.get(1) == Some(&true) {
        let second = &points[1].histogram;
        nothing = FloatHistogram {
            schema: second.schema,
            custom_bounds: Arc::clone(&second.custom_bounds),
            ..FloatHistogram::default()
        };
        &nothing
    } else {
        first.as_ref()
    };
    let is_gauge = |histogram: &FloatHistogram| histogram.reset_hint == CounterResetHint::Gauge;
    if counter && (is_gauge(first) || is_gauge(last)) {
        pending.push(Annotation::NativeHistogramNotCounter(
            annotations.metric_name(),
        ));
    }
    let custom = base.uses_custom_buckets();
    if last.uses_custom_buckets() != custom {
        annotations.add_all(pending);
        annotations.mixed_exponential_custom();
        return None;
    }
    let mut schema = last.schema.min(base.schema);
    if counter {
        for point in middle {
            let histogram = &point.histogram;
            if is_gauge(histogram) {
                pending.push(Annotation::NativeHistogramNotCounter(
                    annotations.metric_name(),
                ));
            }
            schema = schema.min(histogram.schema);
            if histogram.uses_custom_buckets() != custom {
                annotations.mixed_exponential_custom();
                return None;
            }
        }
    }
    // Resets are handled one by one, so conflicting hints need no warning.
    let mut increase = last.copy_to_schema(schema);
    match increase.sub(base) {
        Err(_) => {
            annotations.mixed_exponential_custom();
            return None;
        }
        Ok(outcome) if outcome.bounds_reconciled => {
            let during = HistogramOperation::Subtraction;
            pending.push(Annotation::MismatchedCustomBuckets(during));
        }
        Ok(_) => {}
    }
    if counter {
        annotate_overlaps(window, &mut pending, annotations);
        // A reset of the second one is in `base`.
        let after = points.iter().zip(resets.iter().skip(1)).skip(1);
        for (before, _) in after.filter(|(_, reset)| **reset) {
            match increase.add(&before.histogram) {
                Err(_) => {
                    annotations.mixed_exponential_custom();
                    return None;
                }
                Ok(outcome) if outcome.bounds_reconciled => {
                    let during = HistogramOperation::Addition;
                    pending.push(Annotation::MismatchedCustomBuckets(during));
                }
                Ok(_) => {}
            }
        }
    } else if !is_gauge(first) || !is_gauge(last) {
        pending.push(Annotation::NativeHistogramNotGauge(
            annotations.metric_name(),
        ));
    }
    annotations.add_all(pending);
    increase.reset_hint = CounterResetHint::Gauge;
    increase.compact(0);
    Some(increase)
}

fn annotate_overlaps(
    window: &Window<'_>,
    pending: &mut Vec<Annotation>,
    annotations: &SeriesAnnotations<'_>,
) {
    let started = |i: usize, point: &HistogramPoint| {
        SampleStart::at(i, point.time_ms, window.histogram_starts)
    };
    let pairs = window.histograms.windows(2).enumerate();
    let overlap = pairs
        .into_iter()
        .any(|(i, pair)| overlaps(started(i, &pair[0]), started(i + 1, &pair[1])));
    if overlap {
        pending.push(Annotation::StartTimeOverlap(annotations.metric_name()));
    }
}

/// Adds a histogram, with annotations; none if the two do not fit.
pub(super) fn add(
    sum: &mut FloatHistogram,
    other: &FloatHistogram,
    annotations: &SeriesAnnotations<'_>,
) -> Option<()> {
    let outcome = sum.add(other);
    annotations.combined(outcome, HistogramOperation::Addition)
}

/// Subtracts a histogram, with annotations; none if the two do not fit.
pub(super) fn subtract(
    difference: &mut FloatHistogram,
    other: &FloatHistogram,
    annotations: &SeriesAnnotations<'_>,
) -> Option<()> {
    let outcome = difference.sub(other);
    annotations.combined(outcome, HistogramOperation::Subtraction)
}
