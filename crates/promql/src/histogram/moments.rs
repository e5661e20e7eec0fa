//! Mean and spread of the observations of a histogram.

use super::{Bucket, FloatHistogram};
use icecore_model::kahan_add;

/// Mean and spread of observations.
pub(crate) trait Moments {
    /// The mean of the observations.
    fn average(&self) -> f64;

    /// The variance of the observations, each assumed to lie in the middle of its bucket.
    fn variance(&self) -> f64;

    /// The standard deviation of the observations.
    fn deviation(&self) -> f64;
}

impl Moments for FloatHistogram {
    fn average(&self) -> f64 {
        self.sum / self.count
    }

    fn variance(&self) -> f64 {
        let mean = self.average();
        let (mut variance, mut lost) = (0.0, 0.0);
        for bucket in self.all_buckets().filter(|bucket| bucket.count != 0.0) {
            let distance = middle(self, &bucket) - mean;
            (variance, lost) = kahan_add(bucket.count * distance * distance, variance, lost);
        }
        (variance + lost) / self.count
    }

    fn deviation(&self) -> f64 {
        self.variance().sqrt()
    }
}

fn middle(histogram: &FloatHistogram, bucket: &Bucket) -> f64 {
    if histogram.uses_custom_buckets() {
        return (bucket.upper + bucket.lower) / 2.0;
    }
    if bucket.lower <= 0.0 && bucket.upper >= 0.0 {
        return 0.0;
    }
    let middle = (bucket.upper * bucket.lower).sqrt();
    if bucket.upper < 0.0 { -middle } else { middle }
}
