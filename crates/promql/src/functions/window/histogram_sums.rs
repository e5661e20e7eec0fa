//! `sum_over_time` and `avg_over_time` of histograms.

use std::sync::Arc;

use icecore_model::CounterResetHint;

use crate::annotations::{HistogramOperation, Note};
use crate::histogram::{AddOutcome, CompensatedSum, FloatHistogram, HistogramOpError};

use super::series::HistogramPoint;
use super::view::Notes;

pub(super) fn sum(points: &[HistogramPoint], notes: &Notes<'_>) -> Option<Arc<FloatHistogram>> {
    total(points, notes, |seen| {
        let (first, rest) = seen.split()?;
        let mut sum = CompensatedSum::new(first);
        for point in rest {
            let outcome = sum.add(&point.histogram);
            seen.outcome(outcome)?;
        }
        Some(sum.total())
    })
}

pub(super) fn average(points: &[HistogramPoint], notes: &Notes<'_>) -> Option<Arc<FloatHistogram>> {
    total(points, notes, |seen| {
        let (first, rest) = seen.split()?;
        let mut sum = CompensatedSum::new(first);
        for (i, point) in rest.iter().enumerate() {
            let outcome = sum.add(&point.histogram);
            seen.outcome(outcome)?;
            if sum.has_overflow() {
                return moving_average(seen, i + 1);
            }
        }
        sum.div(seen.points.len() as f64);
        Some(sum.total())
    })
}

/// The average of histograms whose sum would overflow: that of the first `summed`, moved on by each of
/// the others.
fn moving_average(seen: &mut Seen<'_>, summed: usize) -> Option<FloatHistogram> {
    let (first, rest) = seen.split()?;
    let mut mean = CompensatedSum::new(first);
    let (before, after) = rest.split_at_checked(summed - 1)?;
    for point in before {
        seen.outcome(mean.add(&point.histogram))?;
    }
    mean.div(summed as f64);
    for (i, point) in after.iter().enumerate() {
        let count = (summed + i + 1) as f64;
        mean.mul((count - 1.0) / count);
        let mut share = point.histogram.as_ref().clone();
        share.div(count);
        seen.outcome(mean.add(&share))?;
    }
    Some(mean.total())
}

/// What adding many histograms came upon.
struct Seen<'a> {
    points: &'a [HistogramPoint],
    incompatible: bool,
    reconciled: bool,
}

impl<'a> Seen<'a> {
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
    notes: &Notes<'_>,
    compute: impl FnOnce(&mut Seen<'_>) -> Option<FloatHistogram>,
) -> Option<Arc<FloatHistogram>> {
    let mut seen = Seen {
        points,
        incompatible: false,
        reconciled: false,
    };
    let total = compute(&mut seen);
    if seen.incompatible {
        notes.mixed_exponential_custom();
        return None;
    }
    let says = |hint| {
        points
            .iter()
            .any(|point| point.histogram.reset_hint == hint)
    };
    let during = HistogramOperation::Aggregation;
    if says(CounterResetHint::Reset) && says(CounterResetHint::NotReset) {
        notes.add(Note::CounterResetCollision(during));
    }
    if seen.reconciled {
        notes.add(Note::MismatchedCustomBuckets(during));
    }
    total.map(Arc::new)
}
