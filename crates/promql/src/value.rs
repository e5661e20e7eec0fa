//! Requests and answers.

use std::sync::Arc;

use icecore_model::Labels;
use icecore_model::rollup::Resolution;

use crate::exec::{Grid, Values};
use crate::histogram::FloatHistogram;

/// What a query asks for.
#[derive(Clone, Debug)]
pub struct Request {
    pub query: String,
    pub time: QueryTime,
    /// How far back an instant selector looks; the engine's default if absent.
    pub lookback_ms: Option<i64>,
    /// Most series of the answer; a warning reports truncation.
    pub limit: Option<usize>,
    /// Longest run time; the engine's limit if absent or longer.
    pub timeout: Option<std::time::Duration>,
    /// Whether to count the samples that windows and look-backs touch.
    pub counts_touched: bool,
    /// The width in ms of the widest windows that may stand for samples, 0 for none. By default
    /// windows are read where they answer as well as samples do, or where nothing else is left.
    pub max_source_resolution: Option<i64>,
    /// Functions that windows cannot answer fail rather than estimate.
    pub rollup_strict: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryTime {
    Instant {
        time_ms: i64,
    },
    Range {
        start_ms: i64,
        end_ms: i64,
        step_ms: i64,
    },
}

/// An answer with its annotations and statistics.
#[derive(Debug)]
pub struct Answer {
    pub value: QueryValue,
    pub warnings: Vec<String>,
    pub infos: Vec<String>,
    pub stats: Stats,
}

#[derive(Clone, Debug)]
pub enum QueryValue {
    Scalar {
        time_ms: i64,
        value: f64,
    },
    Text {
        time_ms: i64,
        text: String,
    },
    /// One value per series, in the order of the query (`sort`, `topk`), else of the labels.
    Vector(Vec<VectorSample>),
    /// Sorted by labels.
    Matrix(Vec<MatrixSeries>),
}

#[derive(Clone, Debug)]
pub struct VectorSample {
    pub labels: Labels,
    pub time_ms: i64,
    pub value: SampleValue,
}

#[derive(Clone, Debug)]
pub enum SampleValue {
    Float(f64),
    Histogram(Arc<FloatHistogram>),
}

#[derive(Clone, Debug)]
pub struct MatrixSeries {
    pub labels: Labels,
    points: Points,
}

#[derive(Clone, Debug)]
enum Points {
    /// The steps of a range query.
    OnGrid(Grid, Values),
    /// The samples of a range selector.
    Samples {
        floats: Vec<(i64, f64)>,
        histograms: Vec<(i64, Arc<FloatHistogram>)>,
    },
}

impl MatrixSeries {
    pub(crate) fn on_grid(labels: Labels, grid: Grid, values: Values) -> Self {
        Self {
            labels,
            points: Points::OnGrid(grid, values),
        }
    }

    pub(crate) fn of_samples(
        labels: Labels,
        floats: Vec<(i64, f64)>,
        histograms: Vec<(i64, Arc<FloatHistogram>)>,
    ) -> Self {
        Self {
            labels,
            points: Points::Samples { floats, histograms },
        }
    }

    /// At most so many samples.
    pub fn len_max(&self) -> usize {
        match &self.points {
            Points::OnGrid(grid, _) => grid.steps,
            Points::Samples { floats, histograms } => floats.len() + histograms.len(),
        }
    }

    pub fn has_histograms(&self) -> bool {
        match &self.points {
            Points::OnGrid(_, values) => values.has_histograms(),
            Points::Samples { histograms, .. } => !histograms.is_empty(),
        }
    }

    /// The floats of all steps, where a step has no other value. One that has none has the
    /// staleness marker.
    pub fn column(&self) -> Option<&[f64]> {
        match &self.points {
            Points::OnGrid(_, values) if !values.has_histograms() => Some(&values.floats),
            Points::OnGrid(..) | Points::Samples { .. } => None,
        }
    }

    /// The float samples in time order.
    pub fn floats(&self) -> impl Iterator<Item = (i64, f64)> + '_ {
        let (grid, listed) = match &self.points {
            Points::OnGrid(grid, values) => (Some((grid, values)), [].as_slice()),
            Points::Samples { floats, .. } => (None, floats.as_slice()),
        };
        let on_grid = grid.into_iter().flat_map(|(grid, values)| {
            (0..grid.steps).filter_map(|step| Some((grid.time(step), values.float(step)?)))
        });
        on_grid.chain(listed.iter().copied())
    }

    /// The histogram samples in time order.
    pub fn histograms(&self) -> impl Iterator<Item = (i64, &Arc<FloatHistogram>)> + '_ {
        let (grid, listed) = match &self.points {
            Points::OnGrid(grid, values) => (Some((grid, values)), [].as_slice()),
            Points::Samples { histograms, .. } => (None, histograms.as_slice()),
        };
        let on_grid = grid.into_iter().flat_map(|(grid, values)| {
            (0..grid.steps).filter_map(|step| Some((grid.time(step), values.histogram(step)?)))
        });
        on_grid.chain(listed.iter().map(|(time, histogram)| (*time, histogram)))
    }
}

/// Statistics of a query.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// Samples that windows and look-backs touched, counted once for each step. 0 unless requested.
    pub samples_touched: u64,
    /// The same by step of the query.
    pub samples_per_step: Vec<(i64, u64)>,
    /// By step the samples that the step before had not touched. Empty unless requested.
    pub samples_read_per_step: Vec<(i64, u64)>,
    /// Samples read from the source.
    pub samples_read: u64,
    pub series_read: u64,
    /// Windows of rolled-up samples read from the source, by level, finest first.
    pub windows_read: Vec<(Resolution, u64)>,
    pub memory_peak_bytes: u64,
    pub parse_seconds: f64,
    pub plan_seconds: f64,
    pub execute_seconds: f64,
}
