//! Mean and spread of the observations of a histogram.

use super::{Bucket, FloatHistogram};
use icecore_model::kahan_add;

impl FloatHistogram {
    /// The mean of the observations.
    pub(crate) fn average(&self) -> f64 {
        self.sum / self.count
    }

    /// The variance of the observations, each assumed to lie in the middle of its bucket.
    pub(crate) fn variance(&self) -> f64 {
        let mean = self.average();
        let (mut variance, mut lost) = (0.0, 0.0);
        for bucket in self.all_buckets().filter(|bucket| bucket.count != 0.0) {
            let distance = self.middle(&bucket) - mean;
            (variance, lost) = kahan_add(bucket.count * distance * distance, variance, lost);
        }
        (variance + lost) / self.count
    }

    /// The standard deviation of the observations.
    pub(crate) fn deviation(&self) -> f64 {
        self.variance().sqrt()
    }

    fn middle(&self, bucket: &Bucket) -> f64 {
        if self.uses_custom_buckets() {
            return (bucket.upper + bucket.lower) / 2.0;
        }
        if bucket.lower <= 0.0 && bucket.upper >= 0.0 {
            return 0.0;
        }
        let middle = (bucket.upper * bucket.lower).sqrt();
        if bucket.upper < 0.0 { -middle } else { middle }
    }
}
