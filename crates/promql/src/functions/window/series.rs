//! The samples of one series, as window functions read them.
//!
//! Holds always: no stale markers; as many floats as times; all lists in time order.

use std::sync::Arc;

use icecore_model::{Labels, SeriesSamples, TimeColumn, is_stale_nan};

use crate::exec::Row;
use crate::histogram::FloatHistogram;

/// A series of a range vector with every sample that any window of the query can touch.
#[derive(Clone, Debug)]
pub(crate) struct RangeSeries {
    pub(crate) labels: Labels,
    /// The metric name is to be removed at the end of the evaluation.
    pub(crate) drop_name: bool,
    /// The times of `floats`.
    pub(crate) times: TimeColumn,
    pub(crate) floats: Vec<f64>,
    pub(crate) histograms: Vec<HistogramPoint>,
    /// `(timestamp, start timestamp)` of the samples whose start is known.
    pub(crate) starts: Vec<(i64, i64)>,
}

#[derive(Clone, Debug)]
pub(crate) struct HistogramPoint {
    pub(crate) time_ms: i64,
    pub(crate) histogram: Arc<FloatHistogram>,
}

impl RangeSeries {
    /// The samples without the stale markers. Without markers nothing is copied, and the shared column
    /// of times stays shared.
    pub(crate) fn from_samples(samples: SeriesSamples) -> Self {
        let (times, floats) = without_markers(samples.floats.timestamps, samples.floats.values);
        Self {
            labels: samples.labels,
            drop_name: false,
            times,
            floats,
            histograms: Vec::new(),
            starts: samples.start_timestamps,
        }
    }

    /// The values of a subquery as samples; `times` are the steps of its grid. A row with a float at
    /// every step keeps the shared column.
    pub(crate) fn from_row(row: Row, times: &TimeColumn) -> Self {
        let mut histograms = Vec::new();
        for (time_ms, histogram) in times.iter().zip(row.values.histograms) {
            histograms.extend(histogram.map(|histogram| HistogramPoint {
                time_ms: *time_ms,
                histogram,
            }));
        }
        // What stands for an absent value is the stale marker.
        let (times, floats) = without_markers(times.clone(), row.values.floats);
        Self {
            labels: row.labels,
            drop_name: row.drop_name,
            times,
            floats,
            histograms,
            starts: Vec::new(),
        }
    }

    /// Bytes held, for accounting; shared times are not counted.
    pub(crate) fn heap_bytes(&self) -> usize {
        let histograms = self.histograms.iter();
        8 * self.floats.capacity()
            + 16 * self.starts.capacity()
            + size_of::<HistogramPoint>() * self.histograms.capacity()
            + histograms.map(|p| p.histogram.heap_bytes()).sum::<usize>()
    }
}

fn without_markers(times: TimeColumn, mut values: Vec<f64>) -> (TimeColumn, Vec<f64>) {
    // No early exit: a loop over everything is compiled to vector instructions.
    let any_marker = values.iter().fold(false, |any, v| any | is_stale_nan(*v));
    if !any_marker && times.len() == values.len() {
        return (times, values);
    }
    values.truncate(times.len());
    let kept = times.iter().zip(&values);
    let kept = kept.filter(|(_, value)| !is_stale_nan(**value));
    let times = kept.map(|(time, _)| *time).collect();
    values.retain(|value| !is_stale_nan(*value));
    (times, values)
}
