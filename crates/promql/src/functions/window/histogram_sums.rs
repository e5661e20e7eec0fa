//! `sum_over_time` and `avg_over_time` of histograms.

use std::sync::Arc;

use icecore_model::CounterResetHint;

use crate::annotations::{Annotation, HistogramOperation};
use crate::histogram::{AddOutcome, CompensatedSum, FloatHistogram, HistogramOpError};

use super::series::HistogramPoint;
use super::view::SeriesAnnotations;

pub(super) fn sum(
    points: &[HistogramPoint],
    annotations: &SeriesAnnotations<'_>,
) -> Option<Arc<FloatHistogram>> {
    total(points, annotations, |state| {
        let (first, rest) = state.split()?;
        let mut sum = CompensatedSum::new(first);
        for point in rest {
            let outcome = sum.add(&point.histogram);
            state.outcome(outcome)?;
        }
        Some(sum.total())
    })
}

pub(super) fn average(
    points: &[HistogramPoint],
    annotations: &SeriesAnnotations<'_>,
) -> Option<Arc<FloatHistogram>> {
    total(points, annotations, |state| {
        let (first, rest) = state.split()?;
        let mut sum = CompensatedSum::new(first);
        for (i, point) in rest.iter().enumerate() {
            let outcome = sum.add(&point.histogram);
            state.outcome(outcome)?;
            if sum.has_overflow() {
                return moving_average(state, i + 1);
            }
        }
        sum.div(state.points.len() as f64);
        Some(sum.total())
    })
}

/// The average of histograms whose sum would overflow: that of the first `summed`, updated by each
/// of the others.
fn moving_average(state: &mut SumState<'_>, summed: usize) -> Option<FloatHistogram> {
    let (first, rest) = state.split()?;
    let mut mean = CompensatedSum::new(first);
    let (before, after) = rest.split_at_checked(summed - 1)?;
    for point in before {
        state.outcome(mean.add(&point.histogram))?;
    }
    mean.div(summed as f64);
    for (i, point) in after.iter().enumerate() {
        let count = (summed + i + 1) as f64;
        mean.mul((count - 1.0) / count);
        let mut share = point.histogram.as_ref().clone();
        share.div(count);
        state.outcome(mean.add(&share))?;
    }
    Some(mean.total())
}

/// Conditions met while adding histograms.
struct SumState<'a> {
    points: &'a [HistogramPoint],
    incompatible: bool,
    reconciled: bool,
}

impl<'a> SumState<'a> {
    fn split(&self) -> Option<(&'a FloatHistogram, &'a [HistogramPoint])> {
        let (first, rest) = self.points.split_first()?;
        Some((&first.histogram, rest))
    }

    fn outcome(&mut self, outcome: Result<AddOutcome, HistogramOpError>) -> Option<()> {
        match outcome {
            Ok(outcome) => {
                self.reconciled |= outcome.bounds_reconciled;
                Some(())
            }
            Err(HistogramOpError::IncompatibleSchema) => {
                self.incompatible = true;
                None
            }
        }
    }
}

fn total(
    points: &[HistogramPoint],
    annotations: &SeriesAnnotations<'_>,
    compute: impl FnOnce(&mut SumState<'_>) -> Option<FloatHistogram>,
) -> Option<Arc<FloatHistogram>> {
    let mut state = SumState {
        points,
        incompatible: false,
        reconciled: false,
    };
    let total = compute(&mut state);
    if state.incompatible {
        annotations.mixed_exponential_custom();
        return None;
    }
    let says = |hint| {
        points
            .iter()
            .any(|point| point.histogram.reset_hint == hint)
    };
    let during = HistogramOperation::Aggregation;
    if says(CounterResetHint::Reset) && says(CounterResetHint::NotReset) {
        annotations.add(Annotation::CounterResetCollision(during));
    }
    if state.reconciled {
        annotations.add(Annotation::MismatchedCustomBuckets(during));
    }
    total.map(Arc::new)
}
