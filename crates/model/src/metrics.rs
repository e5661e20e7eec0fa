//! Counters and duration histograms; each component keeps its own.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A counter.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    pub fn add(&self, by: u64) {
        self.0.fetch_add(by, Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// Bounds of the duration histograms, in seconds: commits take milliseconds, flushes seconds.
pub const DURATION_BOUNDS: [f64; 14] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0,
];

/// A histogram of durations.
#[derive(Debug, Default)]
pub struct Durations {
    buckets: [AtomicU64; DURATION_BOUNDS.len() + 1],
    sum_micros: AtomicU64,
}

impl Durations {
    pub fn observe(&self, seconds: f64) {
        let at = DURATION_BOUNDS.partition_point(|bound| *bound < seconds);
        self.buckets[at].fetch_add(1, Relaxed);
        self.sum_micros.fetch_add((seconds * 1e6) as u64, Relaxed);
    }

    /// Observations per bucket (not cumulative, the last without bound), and their sum in seconds.
    pub fn get(&self) -> ([u64; DURATION_BOUNDS.len() + 1], f64) {
        let counts = std::array::from_fn(|i| self.buckets[i].load(Relaxed));
        (counts, self.sum_micros.load(Relaxed) as f64 / 1e6)
    }
}
