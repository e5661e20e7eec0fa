//! A range vector as the answer of an instant query: `metric[5m]`, or a subquery.
//!
//! Anchored and smoothed windows get a sample at each of their edges, as functions over them do.

use std::sync::Arc;

use icecore_model::rollup::{HistogramWindow, WindowColumns};
use icecore_model::{Histogram, Labels};

use super::Run;
use super::answer_labels::answer_order;
use super::label_key::without_name;
use super::range_input::RangeReader;
use crate::error::{Error, Result};
use crate::functions::window::{RangeSeries, WindowMode, Windows};
use crate::histogram::FloatHistogram;
use crate::plan::RangeInput;
use crate::value::MatrixSeries;

/// The samples of one series.
struct Samples {
    labels: Labels,
    floats: Vec<(i64, f64)>,
    histograms: Vec<(i64, Arc<FloatHistogram>)>,
}

/// The samples of a range vector at one step.
pub(crate) async fn range_samples<'q>(
    run: &'q Run<'q>,
    input: &'q RangeInput,
    windows: &Windows,
) -> Result<Vec<MatrixSeries>> {
    let mut reader = RangeReader::new(run, input, windows);
    let mut held = run.context.reserve(0)?;
    let mut all: Vec<Samples> = Vec::new();
    let delayed_names = run.plan.delayed_names;
    let report = &run.context.rollup;
    let make = |series: RangeSeries| {
        if let Some(rolled) = series.rolled() {
            let (end_ms, _) = windows.ends();
            let range = (end_ms.saturating_sub(windows.range_ms), end_ms);
            report.used(&rolled.levels, std::iter::once(range));
        }
        within(series, windows, delayed_names)
    };
    while let Some(series) = reader.next(0, make).await? {
        run.context
            .grow(&mut held, series.iter().map(Samples::heap_bytes).sum())?;
        all.extend(series);
    }
    all.sort_by(|a, b| answer_order(&a.labels, &b.labels));
    let mut merged: Vec<Samples> = Vec::with_capacity(all.len());
    for series in all {
        match merged.last_mut() {
            Some(last) if last.labels == series.labels => last.merge(series)?,
            _ => merged.push(series),
        }
    }
    Ok(merged.into_iter().map(Samples::into_answer).collect())
}

/// The samples of a series within the window; `None` if there are none.
fn within(series: RangeSeries, windows: &Windows, delayed_names: bool) -> Option<Samples> {
    let (end_ms, _) = windows.ends();
    let after_ms = end_ms.saturating_sub(windows.range_ms);
    let is_within = |time: i64| time > after_ms && time <= end_ms;
    let mut floats: Vec<(i64, f64)> = (series.times.iter().copied())
        .zip(series.floats.iter().copied())
        .collect();
    if let Some(rolled) = series.rolled() {
        floats.extend(rolled.windows.iter().flat_map(WindowColumns::samples));
        floats.sort_by_key(|(time, _)| *time);
    }
    let floats = floats.into_iter();
    let floats: Vec<(i64, f64)> = match windows.mode {
        WindowMode::Plain => floats.filter(|(time, _)| is_within(*time)).collect(),
        mode => {
            let floats: Vec<(i64, f64)> = floats.collect();
            with_edges(&floats, (after_ms, end_ms), mode == WindowMode::Smoothed)
        }
    };
    let mut histograms: Vec<_> = (series.histograms.iter())
        .filter(|point| is_within(point.time_ms))
        .map(|point| (point.time_ms, Arc::clone(&point.histogram)))
        .collect();
    if let Some(rolled) = series.rolled().filter(|rolled| rolled.has_histograms()) {
        let left = rolled.histograms.iter().flatten();
        let left = left
            .flat_map(HistogramWindow::left)
            .filter(|(time, _)| is_within(*time));
        let converted = |histogram: &Histogram| Arc::new(FloatHistogram::from_model(histogram));
        histograms.extend(left.map(|(time, histogram)| (time, converted(histogram))));
        histograms.sort_by_key(|(time, _)| *time);
    }
    let labels = if series.drop_name && delayed_names {
        without_name(&series.labels)
    } else {
        series.labels
    };
    let is_empty = floats.is_empty() && histograms.is_empty();
    (!is_empty).then_some(Samples {
        labels,
        floats,
        histograms,
    })
}

/// The samples within a window, with one at its start and one at its end: the nearest samples, or
/// interpolated between two in a smoothed window.
fn with_edges(floats: &[(i64, f64)], (start, end): (i64, i64), smoothed: bool) -> Vec<(i64, f64)> {
    let until = if smoothed {
        floats.partition_point(|(time, _)| *time < end)
    } else {
        floats.partition_point(|(time, _)| *time <= end)
    };
    let last = if smoothed {
        until.min(floats.len().saturating_sub(1))
    } else {
        until.saturating_sub(1)
    };
    let Some((last_time, last_value)) = floats.get(last).copied() else {
        return Vec::new();
    };
    let first = (floats.partition_point(|(time, _)| *time <= start)).saturating_sub(1);
    let (first_time, first_value) = floats[first];
    if last_time <= start || first_time > end {
        return Vec::new();
    }
    let interpolated = |before: usize, at: i64| match (floats.get(before), floats.get(before + 1)) {
        (Some((t0, v0)), Some((t1, v1))) => {
            v0 + (v1 - v0) * at.abs_diff(*t0) as f64 / t1.abs_diff(*t0) as f64
        }
        _ => last_value,
    };
    let left = if smoothed && first_time < start {
        interpolated(first, start)
    } else {
        first_value
    };
    let right = if smoothed && last > 0 && last_time > end {
        interpolated(last - 1, end)
    } else {
        last_value
    };
    let inner = (floats.iter().copied()).filter(|(time, _)| *time > start && *time < end);
    [(start, left)]
        .into_iter()
        .chain(inner)
        .chain([(end, right)])
        .collect()
}

impl Samples {
    /// Adds the samples of a series with equal labels.
    fn merge(&mut self, other: Self) -> Result<()> {
        self.floats.extend(other.floats);
        self.histograms.extend(other.histograms);
        self.floats.sort_by_key(|(time, _)| *time);
        self.histograms.sort_by_key(|(time, _)| *time);
        let twice = self.floats.windows(2).any(|pair| pair[0].0 == pair[1].0)
            || (self.histograms.windows(2)).any(|pair| pair[0].0 == pair[1].0);
        if twice {
            Err(Error::same_labelset())
        } else {
            Ok(())
        }
    }

    fn heap_bytes(&self) -> usize {
        let of_histograms = self.histograms.iter().map(|(_, h)| h.heap_bytes());
        size_of::<Self>() + 16 * self.floats.len() + of_histograms.sum::<usize>()
    }

    fn into_answer(self) -> MatrixSeries {
        MatrixSeries::of_samples(self.labels, self.floats, self.histograms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_of_windows() {
        let floats = [(0, 1.0), (10, 2.0), (20, 3.0), (30, 5.0)];
        let anchored = |start, end| with_edges(&floats, (start, end), false);
        assert_eq!(anchored(5, 25), [(5, 1.0), (10, 2.0), (20, 3.0), (25, 3.0)]);
        assert_eq!(anchored(10, 20), [(10, 2.0), (20, 3.0)]);
        assert_eq!(anchored(30, 40), []);
        assert_eq!(anchored(-20, -10), []);
        let smoothed = |start, end| with_edges(&floats, (start, end), true);
        assert_eq!(smoothed(5, 25), [(5, 1.5), (10, 2.0), (20, 3.0), (25, 4.0)]);
        assert_eq!(smoothed(-5, 5), [(-5, 1.0), (0, 1.0), (5, 1.5)]);
        assert_eq!(smoothed(25, 40), [(25, 4.0), (30, 5.0), (40, 5.0)]);
        assert_eq!(smoothed(-20, -10), []);
        assert_eq!(with_edges(&[], (0, 10), true), []);
    }
}
