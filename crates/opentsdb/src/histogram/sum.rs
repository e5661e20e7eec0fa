//! Histograms added up.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::SimpleHistogram;

/// The bounds of a bucket, in the order of the lower and then the upper one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds(f32, f32);

impl Bounds {
    pub(crate) fn low(self) -> f32 {
        self.0
    }

    pub(crate) fn high(self) -> f32 {
        self.1
    }
}

impl Ord for Bounds {
    fn cmp(&self, other: &Self) -> Ordering {
        let low = self.0.total_cmp(&other.0);
        low.then_with(|| self.1.total_cmp(&other.1))
    }
}

impl PartialOrd for Bounds {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Bounds {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Bounds {}

/// The counts of histograms together. Buckets are the same where both bounds are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HistogramSum {
    buckets: BTreeMap<Bounds, u64>,
    pub(crate) underflow: u64,
    pub(crate) overflow: u64,
}

impl HistogramSum {
    pub(crate) fn add(&mut self, histogram: &SimpleHistogram) {
        for bucket in &histogram.buckets {
            let bounds = Bounds(bucket.low, bucket.high);
            let count = self.buckets.entry(bounds).or_default();
            *count = count.saturating_add(bucket.count);
        }
        self.underflow = self.underflow.saturating_add(histogram.underflow);
        self.overflow = self.overflow.saturating_add(histogram.overflow);
    }

    pub(crate) fn buckets(&self) -> impl Iterator<Item = (Bounds, u64)> {
        self.buckets.iter().map(|(bounds, count)| (*bounds, *count))
    }

    /// The middle of the first bucket up to which there are so many percent of all counts; −1 below
    /// 1 and above 100. What lies outside of the buckets is not looked at.
    pub(crate) fn percentile(&self, percent: f64) -> f64 {
        if !(1.0..=100.0).contains(&percent) {
            return -1.0;
        }
        let total = self.buckets.values().sum::<u64>() as f64;
        let mut counted = 0u64;
        for (bounds, count) in &self.buckets {
            counted = counted.saturating_add(*count);
            if counted as f64 * 100.0 / total >= percent {
                return f64::from((bounds.0 + bounds.1) / 2.0);
            }
        }
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::Bucket;

    fn histogram(counts: [u64; 3]) -> SimpleHistogram {
        let lows = [0.0, 10.0, 20.0];
        let buckets = lows.into_iter().zip(counts).map(|(low, count)| Bucket {
            low,
            high: low + 10.0,
            count,
        });
        SimpleHistogram::new(buckets.collect(), 7, 7).unwrap()
    }

    #[test]
    fn percentiles_are_middles_of_buckets() {
        let mut sum = HistogramSum::default();
        sum.add(&histogram([50, 40, 10]));
        assert_eq!(sum.percentile(50.0), 5.0);
        assert_eq!(sum.percentile(95.0), 25.0);
        assert_eq!(sum.percentile(0.0), -1.0);
        assert_eq!(sum.percentile(100.0), 25.0);
        sum.add(&histogram([0, 10, 90]));
        assert_eq!(sum.percentile(50.0), 15.0);
        assert_eq!(HistogramSum::default().percentile(50.0), 0.0);
    }
}
