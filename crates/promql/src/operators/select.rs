//! Instant selectors: the latest sample of each series within the look-back of each step.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures::future::BoxFuture;
use icecore_model::{HistogramSample, SeriesSamples, TimeColumn, TimeColumnIdentity};
use parking_lot::Mutex;

use super::scan::ScanReader;
use super::{Operator, Run};
use crate::error::Result;
use crate::exec::{ABSENT, Grid, Row, Values, is_absent};
use crate::histogram::FloatHistogram;
use crate::plan::{Picked, Vector, VectorKind};

/// No sample.
const NONE: u32 = u32::MAX;

/// Most columns whose picks are kept. Series of one target share a column; beyond this many the
/// picks are computed for each series, which costs about 12 ns per step.
const COLUMNS_MAX: usize = 4096;

pub(super) struct Select<'q> {
    run: &'q Run<'q>,
    reader: ScanReader<'q>,
    picker: Picker,
}

impl<'q> Select<'q> {
    pub(super) fn new(run: &'q Run<'q>, node: &'q Vector) -> Self {
        let VectorKind::Select {
            from,
            offset_ms,
            lookback_ms,
            what,
        } = &node.kind
        else {
            unreachable!("built for selectors only");
        };
        Self {
            run,
            reader: ScanReader::new(run, from),
            picker: Picker::new(node.grid, *offset_ms, *lookback_ms, *what),
        }
    }
}

impl Operator for Select<'_> {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Vec<Row>>>> {
        Box::pin(async {
            let steps = self.picker.grid.steps;
            let picker = &self.picker;
            let rows = self.reader.next(steps, |series| picker.row(series)).await?;
            if let Some(rows) = &rows {
                // A look-back touches one sample at each step at which there is one.
                let touched = (rows.len() * steps) as u64;
                let context = self.run.context;
                context.samples_touched.fetch_add(touched, Ordering::Relaxed);
            }
            Ok(rows)
        })
    }
}

/// Picks samples for steps.
pub(super) struct Picker {
    grid: Grid,
    offset_ms: i64,
    lookback_ms: i64,
    what: Picked,
    columns: Mutex<HashMap<TimeColumnIdentity, (TimeColumn, Arc<[u32]>)>>,
}

impl Picker {
    pub(super) fn new(grid: Grid, offset_ms: i64, lookback_ms: i64, what: Picked) -> Self {
        Self {
            grid,
            offset_ms,
            lookback_ms,
            what,
            columns: Mutex::new(HashMap::new()),
        }
    }

    /// The row of a series; `None` where no step has a sample.
    pub(super) fn row(&self, series: SeriesSamples) -> Option<Row> {
        let values = match self.what {
            Picked::Smoothed => self.smoothed(&series),
            _ if series.histograms.is_empty() => self.floats(&series),
            _ => self.mixed(&series),
        };
        (!values.is_empty()).then(|| Row {
            labels: series.labels,
            drop_name: matches!(self.what, Picked::Timestamp | Picked::StartTimestamp),
            values,
        })
    }

    fn floats(&self, series: &SeriesSamples) -> Values {
        let (times, values) = (&series.floats.timestamps, &series.floats.values);
        let picks = self.picks_of(times);
        let pick = |index: &u32| match values.get(*index as usize) {
            // A staleness marker is the same as no sample.
            Some(value) => *value,
            None => ABSENT,
        };
        let mut floats: Vec<f64> = picks.iter().map(pick).collect();
        if self.what != Picked::Value {
            for (value, index) in floats.iter_mut().zip(picks.iter()) {
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

    /// Floats and histograms: of both kinds the later one.
    fn mixed(&self, series: &SeriesSamples) -> Values {
        let float_times = &series.floats.timestamps;
        let float_picks = self.picks(float_times);
        let times: Vec<i64> = series.histograms.iter().map(|h| h.timestamp_ms).collect();
        let histogram_picks = self.picks(&times);
        let mut values = Values::absent(self.grid.steps);
        let mut converted: Option<(u32, Arc<FloatHistogram>)> = None;
        for (step, (float, histogram)) in float_picks.iter().zip(&histogram_picks).enumerate() {
            let float_time = float_times.get(*float as usize);
            let sample = series.histograms.get(*histogram as usize);
            match (float_time, sample) {
                (Some(time), sample) if sample.is_none_or(|s| s.timestamp_ms < *time) => {
                    let value = series.floats.values[*float as usize];
                    values.floats[step] = match (is_absent(value), self.what) {
                        (true, _) | (_, Picked::Value) => value,
                        _ => self.time_value(series, *time),
                    };
                }
                (_, Some(sample)) if !sample.histogram.is_stale() => match self.what {
                    Picked::Value => {
                        let value = match &converted {
                            Some((index, value)) if index == histogram => Arc::clone(value),
                            _ => convert(sample),
                        };
                        converted = Some((*histogram, Arc::clone(&value)));
                        values.set_histogram(step, value);
                    }
                    _ => values.floats[step] = self.time_value(series, sample.timestamp_ms),
                },
                _ => {}
            }
        }
        values
    }

    /// The value on the line between the samples around the step; the last value where none follows.
    fn smoothed(&self, series: &SeriesSamples) -> Values {
        let fresh = (series.floats.timestamps.iter().copied())
            .zip(series.floats.values.iter().copied())
            .filter(|(_, value)| !is_absent(*value));
        let samples: Vec<(i64, f64)> = fresh.collect();
        let mut values = Values::absent(self.grid.steps);
        for (step, time) in self.grid.times().enumerate() {
            let at = time.saturating_sub(self.offset_ms);
            let next = samples.partition_point(|(time, _)| *time < at);
            let before = next.checked_sub(1).and_then(|index| samples.get(index));
            let before = before.filter(|(time, _)| *time > at.saturating_sub(self.lookback_ms));
            let after = samples.get(next);
            let after = after.filter(|(time, _)| *time <= at.saturating_add(self.lookback_ms));
            values.floats[step] = match (before, after) {
                (_, Some((time, value))) if *time == at => *value,
                (Some((t0, v0)), Some((t1, v1))) => {
                    v0 + (v1 - v0) * (at - t0) as f64 / (t1 - t0) as f64
                }
                (Some((_, value)), None) => *value,
                (None, _) => ABSENT,
            };
        }
        values
    }

    fn time_value(&self, series: &SeriesSamples, time_ms: i64) -> f64 {
        let time_ms = match self.what {
            Picked::StartTimestamp => {
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
            // The column is kept, too: its identity is its own only while it lives.
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
            // Steps are often far apart, samples rarely: skip by halves first.
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

fn convert(sample: &HistogramSample) -> Arc<FloatHistogram> {
    Arc::new(FloatHistogram::from_model(&sample.histogram))
}
