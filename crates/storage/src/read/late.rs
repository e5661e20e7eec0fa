//! Samples that came after those of their time had gone: merged into the windows that are read.
//!
//! Holds always:
//! - What is merged here is what maintenance merges for good, in the same way: an answer is the
//!   same before and afterwards.
//! - A raw sample of such time is in no answer but through a window, except among the samples that
//!   are left of windows, where it stands for itself until it is merged for good.

use std::ops::Range;

use icecore_model::rollup::{
    Segment, SeriesWindows, WindowColumns, WindowFields, roll_up, roll_up_histograms, unite_ends,
};
use icecore_model::{FloatColumns, HistogramSample, SeriesSamples};

use super::levels::LateTime;
use super::windows::LevelWindows;
use crate::buckets::ranges;

/// What a series has of them, in time order.
#[derive(Default)]
pub(super) struct LateSamples {
    floats: FloatColumns,
    histograms: Vec<HistogramSample>,
    start_timestamps: Vec<(i64, i64)>,
}

impl LateSamples {
    pub(super) fn is_empty(&self) -> bool {
        self.floats.values.is_empty() && self.histograms.is_empty()
    }

    /// Takes what lies in time whose samples are gone out of a series, and returns what is to be
    /// merged of it.
    pub(super) fn take(series: &mut SeriesSamples, time: &LateTime) -> Self {
        if time.gone.is_empty() {
            return Self::default();
        }
        let is_gone = |time_ms: i64| ranges::contain(&time.gone, time_ms);
        let is_merged = |time_ms: i64| ranges::contain(&time.merged, time_ms);
        let mut late = Self::default();
        let times = &series.floats.timestamps;
        if !ranges::places_in(&time.gone, times).is_empty() {
            late.floats = picked(&series.floats, &ranges::places_in(&time.merged, times));
            let kept = outside(&ranges::places_in(&time.gone, times), times.len());
            series.floats = picked(&series.floats, &kept);
        }
        for sample in series
            .histograms
            .extract_if(.., |sample| is_gone(sample.timestamp_ms))
        {
            if is_merged(sample.timestamp_ms) {
                late.histograms.push(sample);
            }
        }
        for start in series
            .start_timestamps
            .extract_if(.., |(time_ms, _)| is_gone(*time_ms))
        {
            if is_merged(start.0) {
                late.start_timestamps.push(start);
            }
        }
        late
    }

    /// Merges them into the windows of the rolled segments.
    pub(super) fn merge_into<'s>(
        &self,
        segments: impl Iterator<Item = &'s Segment>,
        windows: &mut LevelWindows,
        fields: WindowFields,
    ) {
        let segments: Vec<&Segment> = segments.filter(|s| !s.resolution.is_raw()).collect();
        if !self.histograms.is_empty() {
            windows.histograms.resize(segments.len(), Vec::new());
        }
        for (at, segment) in segments.into_iter().enumerate() {
            let late = self.windows_in(segment);
            if late.is_empty() {
                continue;
            }
            let of_floats = &mut windows.floats[at];
            let of_histograms = windows.histograms.get_mut(at);
            // Nothing says what the level would keep of a series that it does not have.
            let fields = if of_floats.is_empty() {
                fields
            } else {
                of_floats.fields
            };
            let mut merged = SeriesWindows {
                floats: of_floats.windows(),
                histograms: of_histograms.map(std::mem::take).unwrap_or_default(),
            };
            merged.merge_late(late);
            *of_floats = WindowColumns::from_windows(&merged.floats, fields);
            if let Some(of_histograms) = windows.histograms.get_mut(at) {
                *of_histograms = merged.histograms;
            }
        }
    }

    fn windows_in(&self, segment: &Segment) -> SeriesWindows {
        let within = |time_ms: i64| (segment.start_ms..segment.end_ms).contains(&time_ms);
        let samples = self.floats.timestamps.iter().zip(&self.floats.values);
        let samples = samples.map(|(time_ms, value)| (*time_ms, *value));
        let samples: Vec<(i64, f64)> = samples.filter(|(time_ms, _)| within(*time_ms)).collect();
        let histograms = self.histograms.iter();
        let histograms = histograms.filter(|sample| within(sample.timestamp_ms));
        let histograms = histograms.map(|sample| (sample.timestamp_ms, &sample.histogram));
        let resolution = segment.resolution;
        let times: Vec<i64> = samples.iter().map(|(time_ms, _)| *time_ms).collect();
        let histogram_times: Vec<i64> = histograms.clone().map(|(time_ms, _)| time_ms).collect();
        let mut windows = SeriesWindows {
            floats: roll_up(resolution, samples),
            histograms: roll_up_histograms(resolution, histograms),
        };
        unite_ends(
            resolution,
            (&mut windows.floats, &times),
            (&mut windows.histograms, &histogram_times),
        );
        windows
    }

    /// Puts them back as samples.
    pub(super) fn rejoin(self, series: &mut SeriesSamples) {
        if !self.floats.values.is_empty() {
            let of = |floats: &FloatColumns| -> Vec<(i64, f64)> {
                let times = floats.timestamps.iter().copied();
                times.zip(floats.values.iter().copied()).collect()
            };
            let mut all = of(&series.floats);
            all.extend(of(&self.floats));
            all.sort_by_key(|(time_ms, _)| *time_ms);
            series.floats = FloatColumns {
                timestamps: all.iter().map(|(time_ms, _)| *time_ms).collect(),
                values: all.into_iter().map(|(_, value)| value).collect(),
            };
        }
        series.histograms.extend(self.histograms);
        series.histograms.sort_by_key(|sample| sample.timestamp_ms);
        series.start_timestamps.extend(self.start_timestamps);
        series.start_timestamps.sort_unstable();
    }
}

/// The samples at some places.
fn picked(floats: &FloatColumns, places: &[Range<usize>]) -> FloatColumns {
    if let [place] = places {
        return FloatColumns {
            timestamps: floats.timestamps.slice(place.clone()),
            values: floats.values[place.clone()].to_vec(),
        };
    }
    let times = places
        .iter()
        .flat_map(|place| &floats.timestamps[place.clone()]);
    let values = places
        .iter()
        .flat_map(|place| &floats.values[place.clone()]);
    FloatColumns {
        timestamps: times.copied().collect(),
        values: values.copied().collect(),
    }
}

/// The places before, between and behind some.
fn outside(places: &[Range<usize>], len: usize) -> Vec<Range<usize>> {
    let starts = std::iter::once(0).chain(places.iter().map(|place| place.end));
    let ends = places.iter().map(|place| place.start).chain([len]);
    let between = starts.zip(ends).map(|(start, end)| start..end);
    between.filter(|place| !place.is_empty()).collect()
}
