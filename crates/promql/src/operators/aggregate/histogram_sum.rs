//! The histograms of a group, summed or averaged step by step.

use std::sync::Arc;

use icecore_model::CounterResetHint;

use super::Annotate;
use crate::annotations::{Annotation, HistogramOperation};
use crate::histogram::{CompensatedSum, FloatHistogram};

/// The sum of the histograms of one group at one step.
pub(super) struct HistogramSum {
    sum: CompensatedSum,
    count: f64,
    /// Keeps a running mean, because the sum has become too large.
    is_mean: bool,
    /// Exponential and custom buckets cannot be added.
    incompatible: bool,
    resets: Resets,
}

/// Reset hints of the histograms. Both in one group are a conflict, in whatever order.
#[derive(Default)]
struct Resets {
    reset: bool,
    no_reset: bool,
}

impl Resets {
    fn observe(&mut self, histogram: &FloatHistogram) {
        self.reset |= histogram.reset_hint == CounterResetHint::Reset;
        self.no_reset |= histogram.reset_hint == CounterResetHint::NotReset;
    }
}

impl HistogramSum {
    pub(super) fn new(first: &FloatHistogram) -> Self {
        let mut resets = Resets::default();
        resets.observe(first);
        Self {
            sum: CompensatedSum::new(first),
            count: 1.0,
            is_mean: false,
            incompatible: false,
            resets,
        }
    }

    /// Adds a histogram of a metric; `averages` if the result is a mean.
    pub(super) fn add(
        &mut self,
        histogram: &FloatHistogram,
        averages: bool,
        metric: &str,
        annotate: Annotate<'_>,
    ) {
        if self.incompatible {
            return;
        }
        self.resets.observe(histogram);
        self.count += 1.0;
        let before = averages.then(|| self.sum.clone());
        let added = if self.is_mean {
            self.add_to_mean(histogram)
        } else {
            self.sum.add(histogram)
        };
        match added {
            Ok(outcome) => {
                if outcome.bounds_reconciled {
                    annotate(Annotation::MismatchedCustomBuckets(
                        HistogramOperation::Aggregation,
                    ));
                }
            }
            Err(_) => {
                self.incompatible = true;
                annotate(Annotation::MixedExponentialCustom(metric.to_string()));
                return;
            }
        }
        if let Some(before) = before
            && !self.is_mean
            && self.sum.has_overflow()
        {
            self.sum = before;
            self.sum.div(self.count - 1.0);
            self.is_mean = true;
            // The histogram was compatible with the sum, so it is with the mean.
            let _ = self.add_to_mean(histogram);
        }
    }

    fn add_to_mean(
        &mut self,
        histogram: &FloatHistogram,
    ) -> Result<crate::histogram::AddOutcome, crate::histogram::HistogramOpError> {
        let mut part = histogram.clone();
        part.div(self.count);
        self.sum.mul((self.count - 1.0) / self.count);
        self.sum.add(&part)
    }

    pub(super) fn total(self, annotate: Annotate<'_>) -> Option<Arc<FloatHistogram>> {
        if self.incompatible {
            return None;
        }
        if self.resets.reset && self.resets.no_reset {
            annotate(Annotation::CounterResetCollision(
                HistogramOperation::Aggregation,
            ));
        }
        Some(finished(self.sum.total()))
    }

    pub(super) fn mean(mut self, annotate: Annotate<'_>) -> Option<Arc<FloatHistogram>> {
        if !self.is_mean {
            self.sum.div(self.count);
        }
        self.total(annotate)
    }
}

fn finished(mut histogram: FloatHistogram) -> Arc<FloatHistogram> {
    histogram.compact(0);
    Arc::new(histogram)
}
