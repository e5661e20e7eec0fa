//! Averages of rolled-up sums and counts: of each interval all sums by all counts.

use std::collections::BTreeMap;

use icecore_model::{FloatColumns, Labels, NumberForms, SeriesSamples};

use super::buckets::buckets;
use super::downsampler::Interval;
use super::window::{Scan, Window};

/// Sums of series that wait for their counts.
#[derive(Default)]
pub(super) struct Sums(BTreeMap<Labels, FloatColumns>);

impl Sums {
    /// The result is about how many bytes were added.
    pub(super) fn add(&mut self, samples: SeriesSamples) -> usize {
        let bytes = 16 * samples.floats.values.len() + samples.labels.heap_bytes();
        self.0.insert(samples.labels, samples.floats);
        bytes
    }

    /// The averages of a series whose counts these are. A sum without a count is left out.
    pub(super) fn average(
        &self,
        counts: SeriesSamples,
        interval: &Interval,
        window: Window,
        scan: Scan,
    ) -> Option<SeriesSamples> {
        let sums = self.0.get(&counts.labels)?;
        let mut times = Vec::new();
        let mut pairs = Vec::new();
        let all = counts.floats.timestamps.iter().zip(&counts.floats.values);
        for (time, count) in all {
            if let Ok(at) = sums.timestamps.binary_search(time) {
                times.push(*time);
                pairs.push((sums.values[at], *count));
            }
        }
        let buckets = buckets(&times, interval, window, scan);
        let average = |bounds: &[u32]| {
            let pairs = &pairs[bounds[0] as usize..bounds[1] as usize];
            let sum: f64 = pairs.iter().map(|pair| pair.0).sum();
            sum / pairs.iter().map(|pair| pair.1).sum::<f64>()
        };
        Some(SeriesSamples {
            floats: FloatColumns {
                values: buckets.bounds.windows(2).map(average).collect(),
                timestamps: buckets.starts,
            },
            forms: NumberForms::default(),
            ..counts
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(points: &[(i64, f64)]) -> SeriesSamples {
        SeriesSamples {
            labels: Labels::from_pairs([("__name__", "m")]),
            floats: FloatColumns {
                timestamps: points.iter().map(|p| p.0).collect(),
                values: points.iter().map(|p| p.1).collect(),
            },
            histograms: Vec::new(),
            start_timestamps: Vec::new(),
            forms: NumberForms::default(),
            rolled: None,
        }
    }

    #[test]
    fn sums_are_divided_by_counts() {
        let mut sums = Sums::default();
        sums.add(samples(&[(0, 10.0), (3600, 5.0), (7200, 9.0)]));
        let window = Window {
            start_ms: 0,
            end_ms: 10_000,
        };
        let scan = Scan {
            start_ms: 0,
            end_ms: 10_000,
        };
        let two_hours = Interval::Fixed(7200);
        let counts = samples(&[(0, 4.0), (3600, 4.0), (9000, 1.0)]);
        let found = sums.average(counts, &two_hours, window, scan).unwrap();
        assert_eq!(&*found.floats.timestamps, [0]);
        assert_eq!(found.floats.values, [1.875]);
    }
}
