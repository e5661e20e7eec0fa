//! The histograms of a group, summed or averaged step by step.

use std::sync::Arc;

use super::Say;
use crate::annotations::{HistogramOperation, Note};
use crate::histogram::{CompensatedSum, FloatHistogram};

/// The sum of the histograms of one group at one step.
pub(super) struct HistogramSum {
    sum: CompensatedSum,
    count: f64,
    /// Keeps a running mean, because the sum has become too large.
    is_mean: bool,
    /// Exponential and custom buckets cannot be added.
    incompatible: bool,
}

impl HistogramSum {
    pub(super) fn new(first: &FloatHistogram) -> Self {
        Self {
            sum: CompensatedSum::new(first),
            count: 1.0,
            is_mean: false,
            incompatible: false,
        }
    }

    /// Adds a histogram; `averages` says that a mean is wanted in the end.
    pub(super) fn add(&mut self, histogram: &FloatHistogram, averages: bool, say: Say<'_>) {
        if self.incompatible {
            return;
        }
        self.count += 1.0;
        let before = averages.then(|| self.sum.clone());
        let added = match self.is_mean {
            true => self.add_to_mean(histogram),
            false => self.sum.add(histogram),
        };
        match added {
            Ok(outcome) => {
                if outcome.counter_reset_collision {
                    say(Note::CounterResetCollision(HistogramOperation::Aggregation));
                }
                if outcome.bounds_reconciled {
                    say(Note::MismatchedCustomBuckets(
                        HistogramOperation::Aggregation,
                    ));
                }
            }
            Err(_) => {
                self.incompatible = true;
                say(Note::MixedExponentialCustom(String::new()));
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

    pub(super) fn total(self) -> Option<Arc<FloatHistogram>> {
        (!self.incompatible).then(|| finished(self.sum.total()))
    }

    pub(super) fn mean(mut self) -> Option<Arc<FloatHistogram>> {
        if !self.is_mean {
            self.sum.div(self.count);
        }
        self.total()
    }
}

fn finished(mut histogram: FloatHistogram) -> Arc<FloatHistogram> {
    histogram.compact(0);
    Arc::new(histogram)
}
