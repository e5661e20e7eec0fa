//! Instant selectors over rolled-up time: the latest sample that is left, at times rounded down to
//! the grid of their level. What is left is the sample at the start of a window and its last one,
//! so on the grid the answer is that of all samples.

use std::ops::Range;
use std::sync::Arc;

use icecore_model::rollup::{
    Edge, HistogramEdge, HistogramWindow, Resolution, WindowColumns, WindowFields,
};
use icecore_model::{Histogram, HistogramSample, Levels, RolledSamples, SeriesSamples};

use super::select::{Picker, smoothed_float, smoothed_histogram};
use crate::annotations::Annotation;
use crate::exec::{Values, is_absent};
use crate::histogram::FloatHistogram;
use crate::plan::SelectorOutput;
use crate::rollup::RollupNote;

/// The steps whose look-back touches windows.
#[derive(Debug)]
pub(super) struct RolledSteps {
    /// With the times at which they are evaluated.
    list: Vec<(usize, i64)>,
    /// Levels to whose grid some step was rounded.
    rounded: Vec<Resolution>,
}

/// A sample, or the ends of what lies after the start of a window. Values are absent for stale
/// markers.
#[derive(Clone, Copy, Debug)]
struct Entry<V> {
    /// Its time, or a millisecond after the start of the window.
    position_ms: i64,
    first: (i64, Option<V>),
    last: (i64, Option<V>),
    /// A stale marker follows.
    ends_stale: bool,
}

impl<V: Copy> Entry<V> {
    fn of_sample(time_ms: i64, value: Option<V>) -> Self {
        Self {
            position_ms: time_ms,
            first: (time_ms, value),
            last: (time_ms, value),
            ends_stale: value.is_none(),
        }
    }

    /// Orders entries of two kinds: that of a later window, else the one that ends it, else the one
    /// with the later sample. A marker ends its window for both kinds.
    fn order(&self) -> (i64, bool, i64) {
        (self.position_ms, self.ends_stale, self.last.0)
    }
}

/// The entries of a series that has both kinds, each in time order.
struct Entries<'s> {
    floats: Vec<Entry<f64>>,
    histograms: Vec<Entry<&'s Histogram>>,
}

/// The value of a step.
enum Picked<'s> {
    Float(f64),
    Histogram(&'s Histogram),
    Interpolated(Arc<FloatHistogram>),
}

impl Picker<'_> {
    /// Sets the values of all steps whose look-back touches windows.
    pub(super) fn fill_rolled(
        &self,
        series: &SeriesSamples,
        rolled: &RolledSamples,
        annotate: &dyn Fn(Annotation),
        values: &mut Values,
    ) {
        let steps = self.rolled.get(&rolled.levels, || {
            let steps = self.rolled_steps(&rolled.levels);
            self.report.levels(&rolled.levels);
            let lookbacks = steps.list.iter().map(|(_, at)| {
                let oldest = at.saturating_sub(self.lookback_ms);
                (oldest, at.saturating_add(self.lookahead_ms()))
            });
            self.report.used(&rolled.levels, lookbacks);
            for resolution in &steps.rounded {
                self.report.note(RollupNote::Rounded(*resolution));
            }
            steps
        });
        let (Some((_, first)), Some((_, last))) = (steps.list.first(), steps.list.last()) else {
            return;
        };
        let touched = (
            first.saturating_sub(self.lookback_ms),
            last.saturating_add(self.lookback_ms),
        );
        let entries = Entries::new(series, rolled, touched);
        let (mut floats, mut histograms) = (0, 0);
        // Neighbouring steps often have the same histogram.
        let mut converted: Option<(&Histogram, Arc<FloatHistogram>)> = None;
        for (step, at) in &steps.list {
            advance(&entries.floats, &mut floats, *at);
            advance(&entries.histograms, &mut histograms, *at);
            let value = match self.output {
                SelectorOutput::Smoothed => {
                    let metric = series.labels.metric_name();
                    self.interpolated(&entries, (floats, histograms), *at, (metric, annotate))
                }
                _ => {
                    let until = (&entries.floats[..floats], &entries.histograms[..histograms]);
                    self.latest(series, until.0.last(), until.1.last(), *at)
                }
            };
            match value {
                Some(Picked::Float(value)) => values.set_float(*step, value),
                Some(Picked::Histogram(histogram)) => {
                    let (_, value) = match converted.take() {
                        Some(same) if std::ptr::eq(same.0, histogram) => converted.insert(same),
                        _ => {
                            let value = Arc::new(FloatHistogram::from_model(histogram));
                            converted.insert((histogram, value))
                        }
                    };
                    values.set_histogram(*step, Arc::clone(value));
                }
                Some(Picked::Interpolated(histogram)) => values.set_histogram(*step, histogram),
                None => values.clear(*step),
            }
        }
    }

    /// How far after a step samples matter.
    fn lookahead_ms(&self) -> i64 {
        match self.output {
            SelectorOutput::Smoothed => self.lookback_ms,
            _ => 0,
        }
    }

    fn rolled_steps(&self, levels: &Levels) -> RolledSteps {
        let mut steps = RolledSteps {
            list: Vec::new(),
            rounded: Vec::new(),
        };
        let ahead_ms = self.lookahead_ms();
        for (step, time) in self.grid.times().enumerate() {
            let moment = time.saturating_sub(self.offset_ms);
            let (level, at) = (levels.at(moment), levels.floor(moment));
            let oldest = at.saturating_sub(self.lookback_ms);
            if level.is_raw() && !levels.is_rolled(oldest, at.saturating_add(ahead_ms)) {
                continue;
            }
            if at != moment && !steps.rounded.contains(&level) {
                steps.rounded.push(level);
            }
            steps.list.push((step, at));
        }
        steps
    }

    fn latest<'s>(
        &self,
        series: &SeriesSamples,
        float: Option<&Entry<f64>>,
        histogram: Option<&Entry<&'s Histogram>>,
        at: i64,
    ) -> Option<Picked<'s>> {
        let oldest = at.saturating_sub(self.lookback_ms);
        let is_float = float.map(Entry::order) > histogram.map(Entry::order);
        let (time, value) = if is_float {
            let entry = float.filter(|entry| !entry.ends_stale)?;
            (entry.last.0, Picked::Float(entry.last.1?))
        } else {
            let entry = histogram.filter(|entry| !entry.ends_stale)?;
            (entry.last.0, Picked::Histogram(entry.last.1?))
        };
        if time <= oldest {
            return None;
        }
        Some(match self.output {
            SelectorOutput::Value | SelectorOutput::Smoothed => value,
            SelectorOutput::Timestamp | SelectorOutput::StartTimestamp => {
                Picked::Float(self.time_value(series, time))
            }
        })
    }

    /// The value between the samples around a time; `next` are the first entries after it. Stale
    /// markers do not matter here.
    fn interpolated<'s>(
        &self,
        entries: &Entries<'s>,
        next: (usize, usize),
        at: i64,
        (metric, annotate): (&str, &dyn Fn(Annotation)),
    ) -> Option<Picked<'s>> {
        let floats = self.around(&entries.floats, next.0, at);
        let histograms = self.around(&entries.histograms, next.1, at);
        match (&floats[..], &histograms[..]) {
            (floats, []) => smoothed_float(floats, at).map(Picked::Float),
            ([], histograms) => {
                let converted = histograms.iter().map(|(time, histogram)| {
                    let histogram = FloatHistogram::from_model(histogram);
                    (*time, Arc::new(histogram))
                });
                let converted: Vec<_> = converted.collect();
                match smoothed_histogram(&converted, at, annotate) {
                    Ok(value) => value.map(Picked::Interpolated),
                    Err(_) => {
                        annotate(Annotation::MixedExponentialCustom(metric.to_owned()));
                        None
                    }
                }
            }
            _ => {
                annotate(Annotation::MixedFloatsHistograms(metric.to_owned()));
                None
            }
        }
    }

    /// The last sample up to a time and the first one after it, as far as they are near enough.
    fn around<V: Copy>(&self, entries: &[Entry<V>], next: usize, at: i64) -> Vec<(i64, V)> {
        let sample = |(time, value): (i64, Option<V>)| value.map(|value| (time, value));
        let oldest = at.saturating_sub(self.lookback_ms);
        let newest = at.saturating_add(self.lookback_ms);
        let (before, after) = entries.split_at(next);
        let before = before.iter().rev().find_map(|entry| sample(entry.last));
        let after = after.iter().find_map(|entry| sample(entry.first));
        let before = before.filter(|(time, _)| *time > oldest);
        let after = after.filter(|(time, _)| *time <= newest);
        before.into_iter().chain(after).collect()
    }
}

/// Moves `next` to the first entry after a time.
fn advance<V>(entries: &[Entry<V>], next: &mut usize, at: i64) {
    while entries
        .get(*next)
        .is_some_and(|entry| entry.position_ms <= at)
    {
        *next += 1;
    }
}

impl<'s> Entries<'s> {
    /// Samples only after the first and up to the second time.
    fn new(series: &'s SeriesSamples, rolled: &'s RolledSamples, touched: (i64, i64)) -> Self {
        let windows: usize = rolled.windows.iter().map(WindowColumns::len).sum();
        let mut entries = Self {
            floats: Vec::with_capacity(windows),
            histograms: Vec::new(),
        };
        let (after, until) = touched;
        let start = |from: i64| from.max(after.saturating_add(1));
        let end = |to: i64| to.min(until.saturating_add(1));
        let mut raw_from = i64::MIN;
        for (at, (segment, windows)) in rolled.segments().enumerate() {
            entries.push_samples(series, start(raw_from)..end(segment.start_ms));
            entries.push_windows(windows);
            for window in rolled.histograms.get(at).into_iter().flatten() {
                entries.push_histogram_window(window);
            }
            raw_from = segment.end_ms;
        }
        entries.push_samples(series, start(raw_from)..end(i64::MAX));
        entries
    }

    fn push_samples(&mut self, series: &'s SeriesSamples, time: Range<i64>) {
        let (times, floats) = (&series.floats.timestamps, &series.floats.values);
        let before = |moment: i64| times.partition_point(|time| *time < moment);
        let range = before(time.start)..before(time.end);
        let samples = times.get(range.clone()).zip(floats.get(range));
        let samples = samples
            .into_iter()
            .flat_map(|(times, floats)| times.iter().zip(floats));
        let of_float = |(time, value): (&i64, &f64)| {
            Entry::of_sample(*time, (!is_absent(*value)).then_some(*value))
        };
        self.floats.extend(samples.map(of_float));
        let histograms = &series.histograms;
        let before = |moment: i64| histograms.partition_point(|h| h.timestamp_ms < moment);
        let within = histograms.get(before(time.start)..before(time.end));
        let of_histogram = |sample: &'s HistogramSample| {
            let histogram = &*sample.histogram;
            let value = (!histogram.is_stale()).then_some(histogram);
            Entry::of_sample(sample.timestamp_ms, value)
        };
        let within = within.into_iter().flatten();
        self.histograms.extend(within.map(of_histogram));
    }

    fn push_windows(&mut self, columns: &WindowColumns) {
        if !columns
            .fields
            .contains(WindowFields::COUNTS | WindowFields::LAST)
        {
            return;
        }
        for (index, start_ms) in columns.starts.iter().enumerate() {
            match columns.edge(index) {
                Edge::None => {}
                Edge::Sample(value) => self.floats.push(Entry::of_sample(*start_ms, Some(value))),
                Edge::Stale => self.floats.push(Entry::of_sample(*start_ms, None)),
            }
            let has_samples = columns.has_interior(index);
            let ends_stale = columns.ends_stale(index);
            if !has_samples && !ends_stale {
                continue;
            }
            let position_ms = start_ms.saturating_add(1);
            let at = |times: &[i64], values: &[f64]| match (times.get(index), values.get(index)) {
                (Some(time), Some(value)) if has_samples => (*time, Some(*value)),
                _ => (position_ms, None),
            };
            self.floats.push(Entry {
                position_ms,
                first: at(&columns.first_ms, &columns.first),
                last: at(&columns.last_ms, &columns.last),
                ends_stale,
            });
        }
    }

    fn push_histogram_window(&mut self, window: &'s HistogramWindow) {
        let entries = &mut self.histograms;
        match &window.edge {
            HistogramEdge::None => {}
            HistogramEdge::Sample(histogram) => {
                entries.push(Entry::of_sample(window.start_ms, Some(histogram)));
            }
            HistogramEdge::Stale => entries.push(Entry::of_sample(window.start_ms, None)),
        }
        let interior = window.interior.as_ref();
        if interior.is_none() && !window.ends_stale {
            return;
        }
        let position_ms = window.start_ms.saturating_add(1);
        let first = interior.map(|of| (of.first_ms, of.first.as_deref()));
        let last = interior.map(|of| (of.last_ms, of.last.as_deref()));
        entries.push(Entry {
            position_ms,
            first: first.unwrap_or((position_ms, None)),
            last: last.unwrap_or((position_ms, None)),
            ends_stale: window.ends_stale,
        });
    }
}
