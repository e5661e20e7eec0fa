//! The samples of one series, as window functions read them.
//!
//! Holds always: no stale markers; as many floats as times; all lists in time order.

use std::ops::Deref;
use std::sync::Arc;

use icecore_model::{
    CounterResetHint, HistogramSample, Labels, RolledSamples, SeriesSamples, TimeColumn,
    is_stale_nan,
};

use super::windows::Windows;
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
    pub(crate) floats: Floats,
    pub(crate) histograms: Vec<HistogramPoint>,
    /// `(timestamp, start timestamp)` of the samples whose start is known.
    pub(crate) starts: Vec<(i64, i64)>,
    pub(crate) rolled: Rolled,
}

/// What is left of the time whose samples were rolled up.
#[derive(Clone, Debug)]
pub(crate) enum Rolled {
    Owned(Option<RolledSamples>),
    /// That of a series in a shared batch.
    Shared(Arc<Vec<SeriesSamples>>, usize),
}

/// The floats of a series.
#[derive(Clone, Debug)]
pub(crate) enum Floats {
    Owned(Vec<f64>),
    /// Those of a series in a shared batch.
    Shared(Arc<Vec<SeriesSamples>>, usize),
}

impl Deref for Floats {
    type Target = [f64];

    fn deref(&self) -> &[f64] {
        match self {
            Self::Owned(floats) => floats,
            Self::Shared(batch, index) => &batch[*index].floats.values,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct HistogramPoint {
    pub(crate) time_ms: i64,
    pub(crate) histogram: Arc<FloatHistogram>,
}

/// Whether histograms with an unknown reset hint are compared with the one before. Prometheus does
/// so where it reads only counts and sums.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ResetDetection {
    Off,
    Everywhere,
    /// If the one before is read, too.
    Within(Windows),
}

impl ResetDetection {
    fn compares(&self, before_ms: i64, time_ms: i64) -> bool {
        match self {
            Self::Off => false,
            Self::Everywhere => true,
            Self::Within(windows) => !windows.skip_between(before_ms, time_ms),
        }
    }
}

impl HistogramPoint {
    /// The number of floats it counts as in Prometheus: one per sixteen bytes.
    pub(super) fn weight(&self) -> u64 {
        (self.histogram.size() as u64 + 8) / 16
    }
}

impl RangeSeries {
    /// The samples without stale markers. If there are none nothing is copied, and the column of
    /// times stays shared.
    pub(crate) fn from_samples(samples: SeriesSamples, detection: ResetDetection) -> Self {
        let (times, floats) = without_markers(samples.floats.timestamps, samples.floats.values);
        Self {
            labels: samples.labels,
            drop_name: false,
            times,
            floats: Floats::Owned(floats),
            histograms: points_beside(&samples.histograms, detection, samples.rolled.as_ref()),
            starts: samples.start_timestamps,
            rolled: Rolled::Owned(samples.rolled),
        }
    }

    /// The same for a series of a shared batch.
    pub(crate) fn from_shared(
        batch: &Arc<Vec<SeriesSamples>>,
        index: usize,
        detection: ResetDetection,
    ) -> Self {
        let samples = &batch[index];
        let (times, values) = (&samples.floats.timestamps, &samples.floats.values);
        if has_markers(values) || times.len() != values.len() {
            return Self::from_samples(samples.clone(), detection);
        }
        Self {
            labels: samples.labels.clone(),
            drop_name: false,
            times: times.clone(),
            floats: Floats::Shared(Arc::clone(batch), index),
            histograms: points_beside(&samples.histograms, detection, samples.rolled.as_ref()),
            starts: samples.start_timestamps.clone(),
            rolled: Rolled::Shared(Arc::clone(batch), index),
        }
    }

    /// The values of a subquery as samples; `times` are the steps of its grid. A row with a float
    /// at every step keeps the column shared.
    pub(crate) fn from_row(row: Row, times: &TimeColumn) -> Self {
        let mut histograms = Vec::new();
        for (time_ms, histogram) in times.iter().zip(row.values.histograms) {
            histograms.extend(histogram.map(|histogram| HistogramPoint {
                time_ms: *time_ms,
                histogram: without_hint(histogram),
            }));
        }
        // Absent values are stale markers.
        let (times, floats) = without_markers(times.clone(), row.values.floats);
        Self {
            labels: row.labels,
            drop_name: row.drop_name,
            times,
            floats: Floats::Owned(floats),
            histograms,
            starts: Vec::new(),
            rolled: Rolled::Owned(None),
        }
    }

    /// The windows of the series, where any time is rolled up: times are rounded to the grids of
    /// levels whether this series has windows there or not.
    pub(crate) fn rolled(&self) -> Option<&RolledSamples> {
        let rolled = match &self.rolled {
            Rolled::Owned(rolled) => rolled.as_ref(),
            Rolled::Shared(batch, index) => batch[*index].rolled.as_ref(),
        };
        rolled.filter(|rolled| rolled.levels.has_rolled())
    }
}

/// The histograms without stale markers.
pub(crate) fn histogram_points(
    samples: &[HistogramSample],
    detection: ResetDetection,
) -> Vec<HistogramPoint> {
    points_beside(samples, detection, None)
}

/// The same, where some time is rolled up: what lies there is not the sample before.
fn points_beside(
    samples: &[HistogramSample],
    detection: ResetDetection,
    rolled: Option<&RolledSamples>,
) -> Vec<HistogramPoint> {
    let follows = |before_ms: i64, time_ms: i64| {
        rolled.is_none_or(|rolled| !rolled.levels.is_rolled(before_ms, time_ms))
    };
    let mut points: Vec<HistogramPoint> = Vec::with_capacity(samples.len());
    for sample in samples.iter().filter(|s| !s.histogram.is_stale()) {
        let mut histogram = FloatHistogram::from_model(&sample.histogram);
        if histogram.reset_hint == CounterResetHint::Unknown
            && let Some(before) = points.last()
            && detection.compares(before.time_ms, sample.timestamp_ms)
            && follows(before.time_ms, sample.timestamp_ms)
        {
            histogram.reset_hint = if histogram.detect_reset(&before.histogram) {
                CounterResetHint::Reset
            } else {
                CounterResetHint::NotReset
            };
        }
        points.push(HistogramPoint {
            time_ms: sample.timestamp_ms,
            histogram: Arc::new(histogram),
        });
    }
    points
}

/// The steps of a subquery skip samples, so a reset hint no longer refers to the histogram before
/// it.
fn without_hint(mut histogram: Arc<FloatHistogram>) -> Arc<FloatHistogram> {
    if !matches!(
        histogram.reset_hint,
        CounterResetHint::Gauge | CounterResetHint::Unknown
    ) {
        Arc::make_mut(&mut histogram).reset_hint = CounterResetHint::Unknown;
    }
    histogram
}

fn has_markers(values: &[f64]) -> bool {
    // No early exit: a loop over everything is compiled to vector instructions.
    values.iter().fold(false, |any, v| any | is_stale_nan(*v))
}

fn without_markers(times: TimeColumn, mut values: Vec<f64>) -> (TimeColumn, Vec<f64>) {
    if !has_markers(&values) && times.len() == values.len() {
        return (times, values);
    }
    values.truncate(times.len());
    let kept = times.iter().zip(&values);
    let kept = kept.filter(|(_, value)| !is_stale_nan(**value));
    let times = kept.map(|(time, _)| *time).collect();
    values.retain(|value| !is_stale_nan(*value));
    (times, values)
}
