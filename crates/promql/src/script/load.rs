//! What a `load` puts into a backend.

use std::sync::Arc;

use icecore_model::{Histogram, Labels, SeriesSource};

use super::nhcb;
use super::series::Point;
use super::start_time::Offsets;

/// The store of a script's data.
pub trait Backend {
    /// Adds samples. A sample replaces one of the series with the same time.
    fn load(&mut self, batch: &[LoadedSeries]) -> Result<(), String>;

    /// Deletes all data.
    fn clear(&mut self) -> Result<(), String>;

    fn source(&self) -> &dyn SeriesSource;
}

/// The samples of one series in time order.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadedSeries {
    pub labels: Labels,
    pub samples: Vec<LoadedSample>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct LoadedSample {
    pub timestamp_ms: i64,
    pub value: LoadedValue,
    /// The start time of the counter, if known.
    pub start_ms: Option<i64>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum LoadedValue {
    Float(f64),
    /// With float counts.
    Histogram(Arc<Histogram>),
}

/// A `load` or `load_with_nhcb` command.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    pub(crate) interval_ms: i64,
    /// Also converts classic histograms to native ones with custom buckets.
    pub(crate) with_nhcb: bool,
    pub(crate) series: Vec<SeriesLine>,
}

#[derive(Clone, Debug)]
pub(crate) struct SeriesLine {
    pub(crate) labels: Labels,
    pub(crate) points: Vec<Point>,
    /// As many as points, or a shorter list that repeats; empty if no start is known.
    pub(crate) starts: Offsets,
}

impl Load {
    /// The samples to load. The last of several lines for one series counts.
    pub(crate) fn batch(&self) -> Result<Vec<LoadedSeries>, String> {
        let mut batch: Vec<LoadedSeries> = Vec::new();
        for (i, line) in self.series.iter().enumerate() {
            let replaced = self.series[i + 1..].iter().any(|l| l.labels == line.labels);
            if !replaced {
                batch.push(self.samples(line));
            }
        }
        if self.with_nhcb {
            batch.extend(nhcb::from_classic(&batch)?);
        }
        Ok(batch)
    }

    fn samples(&self, line: &SeriesLine) -> LoadedSeries {
        let mut samples = Vec::with_capacity(line.points.len());
        for (i, point) in line.points.iter().enumerate() {
            let timestamp_ms = (i as i64).saturating_mul(self.interval_ms);
            let value = match point {
                Point::Missing => continue,
                Point::Float(value) => LoadedValue::Float(*value),
                Point::Histogram(written) => {
                    LoadedValue::Histogram(Arc::new(written.histogram.to_model()))
                }
            };
            let offset = if line.starts.is_empty() {
                None
            } else {
                line.starts[i % line.starts.len()]
            };
            samples.push(LoadedSample {
                timestamp_ms,
                value,
                // A start of 0 means unknown.
                start_ms: offset
                    .map(|offset| timestamp_ms.saturating_add(offset))
                    .filter(|start| *start != 0),
            });
        }
        LoadedSeries {
            labels: line.labels.clone(),
            samples,
        }
    }
}
