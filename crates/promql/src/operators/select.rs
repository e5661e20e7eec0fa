//! Instant selectors: the latest sample of each series within the look-back of each step.

use std::collections::HashMap;
use std::sync::Arc;

use futures::future::BoxFuture;
use icecore_model::{
    CounterResetHint, HistogramSample, RolledSamples, SeriesSamples, TimeColumn, TimeColumnIdentity,
};
use parking_lot::Mutex;

use super::rolled_select::RolledSteps;
use super::scan::{ScanReader, ScannedSeries};
use super::{Operator, Run};
use crate::annotations::{Annotation, HistogramOperation};
use crate::error::Result;
use crate::exec::{ABSENT, Grid, Row, SampleCounts, Values, is_absent};
use crate::functions::window::{
    HistogramPoint, ResetDetection, WindowMode, Windows, histogram_points,
};
use crate::histogram::{FloatHistogram, HistogramOpError};
use crate::parse::Span;
use crate::plan::{SelectorOutput, Vector, VectorKind};
use crate::rollup::{PerLevels, RollupReport};

/// No sample.
const NONE: u32 = u32::MAX;

/// Most columns whose picks are cached. Series of a target share a column; beyond this many the
/// picks are computed for each series, which costs about 12 ns per step.
const COLUMNS_MAX: usize = 4096;

/// Steps up to which computing the picks is cheaper than a lookup in the cache.
const FEW_STEPS: usize = 4;

pub(super) struct Select<'q> {
    run: &'q Run<'q>,
    reader: ScanReader<'q>,
    picker: Picker<'q>,
    span: Span,
}

impl<'q> Select<'q> {
    pub(super) fn new(run: &'q Run<'q>, node: &'q Vector) -> Self {
        let VectorKind::Select {
            from,
            offset_ms,
            lookback_ms,
            output,
            span,
        } = &node.kind
        else {
            unreachable!("built for selectors only");
        };
        let report = &run.context.rollup;
        let mut picker = Picker::new(node.grid, *offset_ms, *lookback_ms, *output, report);
        picker.detects_resets = from.detects_resets;
        Self {
            run,
            reader: ScanReader::new(run, from),
            picker,
            span: *span,
        }
    }
}

impl Operator for Select<'_> {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Vec<Row>>>> {
        Box::pin(async {
            let steps = self.picker.grid.steps;
            let picker = &self.picker;
            let annotations = &self.run.context.annotations;
            let annotate = |annotation| annotations.add(self.span, annotation);
            let make = |series: ScannedSeries<'_>| picker.row(&series, &annotate);
            let rows = self.reader.next(steps, make).await?;
            if let Some(rows) = &rows {
                // A look-back touches one sample at each step at which there is one.
                let present = |step| rows.iter().filter(move |row| row.values.is_present(step));
                let counts = || {
                    let by_step = (0..steps).map(|step| present(step).count() as u64);
                    let touched: Vec<u64> = by_step.collect();
                    SampleCounts {
                        read: touched.clone(),
                        touched,
                    }
                };
                self.run.context.touch(picker.grid, counts);
            }
            Ok(rows)
        })
    }
}

/// A column and the index of the sample for each step.
type PicksOfColumn = (TimeColumn, Arc<[u32]>);

/// Picks samples for steps.
pub(super) struct Picker<'q> {
    pub(super) grid: Grid,
    pub(super) offset_ms: i64,
    pub(super) lookback_ms: i64,
    pub(super) output: SelectorOutput,
    detects_resets: bool,
    pub(super) report: &'q RollupReport,
    pub(super) rolled: PerLevels<RolledSteps>,
    columns: Mutex<HashMap<TimeColumnIdentity, PicksOfColumn>>,
}

impl<'q> Picker<'q> {
    pub(super) fn new(
        grid: Grid,
        offset_ms: i64,
        lookback_ms: i64,
        output: SelectorOutput,
        report: &'q RollupReport,
    ) -> Self {
        Self {
            grid,
            offset_ms,
            lookback_ms,
            output,
            detects_resets: false,
            report,
            rolled: PerLevels::default(),
            columns: Mutex::new(HashMap::new()),
        }
    }

    /// The row of a series; `None` if no step has a sample.
    pub(super) fn row(&self, series: &SeriesSamples, annotate: &dyn Fn(Annotation)) -> Option<Row> {
        let mut values = match self.output {
            SelectorOutput::Smoothed => self.smoothed(series, annotate),
            _ if series.histograms.is_empty() => self.floats(series),
            _ => self.mixed(series),
        };
        let has_levels = |rolled: &&RolledSamples| rolled.levels.has_rolled();
        if let Some(rolled) = series.rolled.as_ref().filter(has_levels) {
            self.fill_rolled(series, rolled, annotate, &mut values);
        }
        (!values.is_empty()).then_some(Row {
            labels: series.labels.clone(),
            drop_name: matches!(
                self.output,
                SelectorOutput::Timestamp | SelectorOutput::StartTimestamp
            ),
            values,
        })
    }

    fn floats(&self, series: &SeriesSamples) -> Values {
        let times = &series.floats.timestamps;
        if self.grid.steps <= FEW_STEPS {
            self.picked(series, &self.picks(times))
        } else {
            self.picked(series, &self.picks_of(times))
        }
    }

    fn picked(&self, series: &SeriesSamples, picks: &[u32]) -> Values {
        let (times, values) = (&series.floats.timestamps, &series.floats.values);
        let pick = |index: &u32| match values.get(*index as usize) {
            // A staleness marker is the same as no sample.
            Some(value) => *value,
            None => ABSENT,
        };
        let mut floats: Vec<f64> = picks.iter().map(pick).collect();
        if self.output != SelectorOutput::Value {
            for (value, index) in floats.iter_mut().zip(picks) {
                if !is_absent(*value) {
                    *value = self.time_value(series, times[*index as usize]);
                }
            }
        }
        Values {
            floats,
            histograms: Vec::new(),
        }
    }

    /// Floats and histograms: the later sample of both kinds.
    fn mixed(&self, series: &SeriesSamples) -> Values {
        let float_times = &series.floats.timestamps;
        let float_picks = self.picks(float_times);
        let samples = &series.histograms;
        let times: Vec<i64> = samples.iter().map(|h| h.timestamp_ms).collect();
        let histogram_picks = self.picks(&times);
        let mut converter = Converter::new(samples, self.detection());
        let mut values = Values::absent(self.grid.steps);
        for (step, (float, histogram)) in float_picks.iter().zip(&histogram_picks).enumerate() {
            let float_time = float_times.get(*float as usize);
            let sample = samples.get(*histogram as usize);
            match (float_time, sample) {
                (Some(time), sample) if sample.is_none_or(|s| s.timestamp_ms < *time) => {
                    let value = series.floats.values[*float as usize];
                    values.floats[step] = match (is_absent(value), self.output) {
                        (true, _) | (_, SelectorOutput::Value) => value,
                        _ => self.time_value(series, *time),
                    };
                }
                (_, Some(sample)) if !sample.histogram.is_stale() => match self.output {
                    SelectorOutput::Value => values.set_histogram(step, converter.convert(sample)),
                    _ => values.floats[step] = self.time_value(series, sample.timestamp_ms),
                },
                _ => {}
            }
        }
        values
    }

    /// The value interpolated between the samples around each step.
    fn smoothed(&self, series: &SeriesSamples, annotate: &dyn Fn(Annotation)) -> Values {
        let fresh = (series.floats.timestamps.iter().copied())
            .zip(series.floats.values.iter().copied())
            .filter(|(_, value)| !is_absent(*value));
        let floats: Vec<(i64, f64)> = fresh.collect();
        let histograms: Vec<(i64, Arc<FloatHistogram>)> =
            histogram_points(&series.histograms, self.smoothed_detection())
                .into_iter()
                .map(|point| (point.time_ms, point.histogram))
                .collect();
        let mut values = Values::absent(self.grid.steps);
        for (step, time) in self.grid.times().enumerate() {
            let at = time.saturating_sub(self.offset_ms);
            let window = (
                at.saturating_sub(self.lookback_ms),
                at.saturating_add(self.lookback_ms),
            );
            let metric = || series.labels.metric_name().to_string();
            match (within(&floats, window), within(&histograms, window)) {
                ([], []) => {}
                (floats, []) => {
                    if let Some(value) = smoothed_float(floats, at) {
                        values.floats[step] = value;
                    }
                }
                ([], histograms) => match smoothed_histogram(histograms, at, annotate) {
                    Ok(Some(value)) => values.set_histogram(step, value),
                    Ok(None) => {}
                    Err(_) => annotate(Annotation::MixedExponentialCustom(metric())),
                },
                _ => annotate(Annotation::MixedFloatsHistograms(metric())),
            }
        }
        values
    }

    /// A step reads the samples of its look-back.
    fn detection(&self) -> ResetDetection {
        if self.detects_resets {
            ResetDetection::Within(Windows {
                grid: self.grid,
                at_ms: None,
                range_ms: self.lookback_ms,
                offset_ms: self.offset_ms,
                mode: WindowMode::Plain,
                lookback_ms: self.lookback_ms,
            })
        } else {
            ResetDetection::Off
        }
    }

    /// Smoothed selectors read all samples, whatever the steps.
    fn smoothed_detection(&self) -> ResetDetection {
        if self.detects_resets {
            ResetDetection::Everywhere
        } else {
            ResetDetection::Off
        }
    }

    pub(super) fn time_value(&self, series: &SeriesSamples, time_ms: i64) -> f64 {
        let time_ms = match self.output {
            SelectorOutput::StartTimestamp => {
                let starts = &series.start_timestamps;
                match starts.binary_search_by_key(&time_ms, |(time, _)| *time) {
                    Ok(index) => starts[index].1,
                    Err(_) => 0,
                }
            }
            _ => time_ms,
        };
        time_ms as f64 / 1000.0
    }

    /// The picks of a column, computed once for all series that share it.
    fn picks_of(&self, column: &TimeColumn) -> Arc<[u32]> {
        let identity = column.identity();
        if let Some((_, picks)) = self.columns.lock().get(&identity) {
            return Arc::clone(picks);
        }
        let picks: Arc<[u32]> = self.picks(column).into();
        let mut columns = self.columns.lock();
        if columns.len() < COLUMNS_MAX {
            // The column is kept, too: its identity is unique only while it lives.
            columns.insert(identity, (column.clone(), Arc::clone(&picks)));
        }
        picks
    }

    /// For each step the index of the latest sample, [`NONE`] where it is too old.
    fn picks(&self, times: &[i64]) -> Vec<u32> {
        let mut next = 0;
        let mut picks = Vec::with_capacity(self.grid.steps);
        for time in self.grid.times() {
            let at = time.saturating_sub(self.offset_ms);
            // Steps may be many samples apart: start with a binary search then.
            if times.get(next + 32).is_some_and(|time| *time <= at) {
                next += times[next..].partition_point(|time| *time <= at);
            }
            while times.get(next).is_some_and(|time| *time <= at) {
                next += 1;
            }
            let oldest = at.saturating_sub(self.lookback_ms);
            picks.push(match next.checked_sub(1) {
                Some(index) if times[index] > oldest => index as u32,
                _ => NONE,
            });
        }
        picks
    }
}

/// Converts samples to float histograms, each once.
struct Converter {
    last: Option<(i64, Arc<FloatHistogram>)>,
    /// All of them, if counter resets are to be detected.
    points: Vec<HistogramPoint>,
}

impl Converter {
    fn new(samples: &[HistogramSample], detection: ResetDetection) -> Self {
        Self {
            last: None,
            points: match detection {
                ResetDetection::Off => Vec::new(),
                _ => histogram_points(samples, detection),
            },
        }
    }

    fn convert(&mut self, sample: &HistogramSample) -> Arc<FloatHistogram> {
        let time = sample.timestamp_ms;
        if let Ok(place) = self.points.binary_search_by_key(&time, |p| p.time_ms) {
            return Arc::clone(&self.points[place].histogram);
        }
        match &self.last {
            Some((last, value)) if *last == time => Arc::clone(value),
            _ => {
                let value = Arc::new(FloatHistogram::from_model(&sample.histogram));
                self.last = Some((time, Arc::clone(&value)));
                value
            }
        }
    }
}

/// The samples after the first and up to the second time.
fn within<T>(samples: &[(i64, T)], (after, until): (i64, i64)) -> &[(i64, T)] {
    let start = samples.partition_point(|(time, _)| *time <= after);
    let end = samples.partition_point(|(time, _)| *time <= until);
    samples.get(start..end).unwrap_or_default()
}

/// A sample, if there is one.
type Neighbour<'s, T> = Option<&'s (i64, T)>;

/// The samples around a time: the last one before it, and the first one at or after it.
fn around<T>(samples: &[(i64, T)], at: i64) -> (Neighbour<'_, T>, Neighbour<'_, T>) {
    let next = samples.partition_point(|(time, _)| *time < at);
    let before = next.checked_sub(1).and_then(|index| samples.get(index));
    (before, samples.get(next))
}

/// The fraction of the time from `from` to `to` at `at`.
fn share(from: i64, at: i64, to: i64) -> f64 {
    at.abs_diff(from) as f64 / to.abs_diff(from) as f64
}

/// The value interpolated between the samples around a time; the last value if none follows.
pub(super) fn smoothed_float(samples: &[(i64, f64)], at: i64) -> Option<f64> {
    match around(samples, at) {
        (_, Some((time, value))) if *time == at => Some(*value),
        (Some((t0, v0)), Some((t1, v1))) => {
            let (elapsed, distance) = (at.abs_diff(*t0) as f64, t1.abs_diff(*t0) as f64);
            Some(v0 + (v1 - v0) * elapsed / distance)
        }
        (Some((_, value)), None) => Some(*value),
        (None, _) => None,
    }
}

/// The same for histograms. A counter that was reset in between started at zero.
pub(super) fn smoothed_histogram(
    samples: &[(i64, Arc<FloatHistogram>)],
    at: i64,
    annotate: &dyn Fn(Annotation),
) -> Result<Option<Arc<FloatHistogram>>, HistogramOpError> {
    let (t0, before, t1, after) = match around(samples, at) {
        (_, Some((time, value))) if *time == at => return Ok(Some(Arc::clone(value))),
        (Some((t0, before)), Some((t1, after))) => (*t0, before, *t1, after),
        (Some((_, value)), None) => return Ok(Some(Arc::clone(value))),
        (None, _) => return Ok(None),
    };
    let mut value = FloatHistogram::clone(after);
    let mixed = after.uses_custom_buckets() != before.uses_custom_buckets();
    let is_counter = !mixed && after.reset_hint != CounterResetHint::Gauge;
    if is_counter && after.detect_reset(before) {
        value.mul(share(t0, at, t1));
    } else {
        let subtracted = value.sub(before)?;
        value.mul(share(t0, at, t1));
        let added = value.add(before)?;
        for (outcome, during) in [
            (subtracted, HistogramOperation::Subtraction),
            (added, HistogramOperation::Addition),
        ] {
            if outcome.bounds_reconciled {
                annotate(Annotation::MismatchedCustomBuckets(during));
            }
        }
    }
    Ok(Some(Arc::new(value)))
}
