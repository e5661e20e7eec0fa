//! The content of one series in an export, borrowed.

use icecore_model::{Exemplar, HistogramSample, Labels, SeriesSamples};

/// One series, or a part of one.
#[derive(Clone, Copy)]
pub struct SeriesContent<'a> {
    pub labels: &'a Labels,
    pub timestamps: &'a [i64],
    pub values: &'a [f64],
    pub histograms: &'a [HistogramSample],
    /// `(timestamp, start timestamp)` in time order. Some may belong to other parts.
    pub start_timestamps: &'a [(i64, i64)],
    pub exemplars: &'a [Exemplar],
}

impl<'a> SeriesContent<'a> {
    pub fn new(series: &'a SeriesSamples, exemplars: &'a [Exemplar]) -> Self {
        Self {
            labels: &series.labels,
            timestamps: &series.floats.timestamps,
            values: &series.floats.values,
            histograms: &series.histograms,
            start_timestamps: &series.start_timestamps,
            exemplars,
        }
    }

    /// The same content in parts of at most `samples_max` floats or histograms each. Exemplars are
    /// in the first part.
    pub fn parts(self, samples_max: usize) -> impl Iterator<Item = Self> {
        let samples_max = samples_max.max(1);
        let float_parts = self.timestamps.len().div_ceil(samples_max);
        let histogram_parts = self.histograms.len().div_ceil(samples_max);
        (0..float_parts.max(histogram_parts).max(1)).map(move |part| {
            let range = |length: usize| {
                let begin = (part * samples_max).min(length);
                begin..(begin + samples_max).min(length)
            };
            let floats = range(self.timestamps.len());
            let mut content = self;
            content.timestamps = &self.timestamps[floats.clone()];
            content.values = &self.values[floats];
            content.histograms = &self.histograms[range(self.histograms.len())];
            if part > 0 {
                content.exemplars = &[];
            }
            content
        })
    }

    /// The start timestamps of this part alone, in time order.
    pub fn own_starts(self) -> impl Iterator<Item = (i64, i64)> + Clone {
        let floats = (self.timestamps.first(), self.timestamps.last());
        let histograms = (self.histograms.first(), self.histograms.last());
        let in_floats = move |time: i64| match floats {
            (Some(first), Some(last)) => time >= *first && time <= *last,
            _ => false,
        };
        let in_histograms = move |time: i64| match histograms {
            (Some(first), Some(last)) => time >= first.timestamp_ms && time <= last.timestamp_ms,
            _ => false,
        };
        let starts = self.start_timestamps.iter().copied();
        starts.filter(move |(time, _)| in_floats(*time) || in_histograms(*time))
    }
}
