//! The read side: series that match, with their samples as columns.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use thiserror::Error;

use crate::rollup::{
    HistogramWindow, Resolution, RollupChoice, Segment, WindowColumns, WindowFields, WindowRoom,
};
use crate::{Histogram, Labels, Matcher, MemoryBudget, NumberForms, OutOfMemory, TimeColumn};

pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What to read: all series that satisfy every matcher, from `start_ms` to `end_ms`, both included.
#[derive(Clone, Debug)]
pub struct Selection {
    pub matchers: Vec<Matcher>,
    pub start_ms: i64,
    pub end_ms: i64,
    pub hints: SelectHints,
}

/// Hints that can make a selection cheaper. None of them changes the answer.
#[derive(Clone, Debug, Default)]
pub struct SelectHints {
    /// Stop after this many series, in label order.
    pub series_limit: Option<usize>,
    /// Refuse the selection when it would return more samples than this.
    pub samples_limit: Option<usize>,
    /// Only label sets are wanted, not samples.
    pub labels_only: bool,
    /// Set if forms of numbers are wanted, too: their start timestamps may say that
    /// ([`NumberForm::of_start`](crate::NumberForm::of_start)).
    pub forms: bool,
    /// The memory of the selection, besides its batches, is taken from this.
    pub memory: Option<Arc<MemoryBudget>>,
    pub rolled: RolledTime,
    /// When the series are looked at, if that is known.
    pub evaluations: Option<Evaluations>,
}

/// The moments at which all users of a selection look at its series. A source that makes samples
/// of something else needs none between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evaluations {
    /// All moments, after offset and `@`, are multiples of this; 0 for the epoch alone.
    pub grid_ms: i64,
    /// All ranges are multiples of this; 0 if there is none.
    pub range_grid_ms: i64,
    /// 0 if there is none.
    pub shortest_range_ms: i64,
}

impl Evaluations {
    /// Moments from `start_ms` on, `step_ms` apart, that look back over a range; 0 for none.
    pub fn new(start_ms: i64, step_ms: i64, range_ms: i64) -> Self {
        Self {
            grid_ms: common_divisor(start_ms, step_ms),
            range_grid_ms: range_ms,
            shortest_range_ms: range_ms,
        }
    }

    /// Those of both.
    pub fn and(&self, other: &Self) -> Self {
        let shortest_range_ms = match (self.shortest_range_ms, other.shortest_range_ms) {
            (0, range_ms) | (range_ms, 0) => range_ms,
            (one, other) => one.min(other),
        };
        Self {
            grid_ms: common_divisor(self.grid_ms, other.grid_ms),
            range_grid_ms: common_divisor(self.range_grid_ms, other.range_grid_ms),
            shortest_range_ms,
        }
    }
}

/// The greatest; the other one if one is 0.
fn common_divisor(a: i64, b: i64) -> i64 {
    let (mut a, mut b) = (a.unsigned_abs(), b.unsigned_abs());
    while b > 0 {
        (a, b) = (b, a % b);
    }
    i64::try_from(a).unwrap_or(1)
}

/// What to read of time whose samples were rolled up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RolledTime {
    /// The samples that are left: at the start of a window, its first and its last one, and right
    /// after that the stale marker that ends it. Nothing lies outside of the range.
    #[default]
    Samples,
    /// Windows, with these columns at least; where there are several levels, as the choice says.
    /// Samples and windows begin where [`RollupChoice::read_start`] says, because queries round
    /// their times down. Windows that hold the start or the end are handed over whole.
    Windows(RollupChoice, WindowFields),
}

/// Float samples in time order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FloatColumns {
    pub timestamps: TimeColumn,
    pub values: Vec<f64>,
}

/// One native histogram sample.
#[derive(Clone, Debug, PartialEq)]
pub struct HistogramSample {
    pub timestamp_ms: i64,
    pub histogram: Arc<Histogram>,
}

/// One series of an answer. A timestamp occurs once, as a float or as a histogram.
#[derive(Clone, Debug)]
pub struct SeriesSamples {
    pub labels: Labels,
    pub floats: FloatColumns,
    pub histograms: Vec<HistogramSample>,
    /// `(timestamp, start timestamp)` of the samples whose start is known, in time order.
    pub start_timestamps: Vec<(i64, i64)>,
    /// How the float samples were written, if [`SelectHints::forms`] asks for it.
    pub forms: NumberForms,
    /// What is left of time whose samples were rolled up.
    pub rolled: Option<RolledSamples>,
}

/// The windows of a series.
#[derive(Clone, Debug)]
pub struct RolledSamples {
    /// Shared by the series that are kept alike.
    pub levels: Arc<Levels>,
    /// One for each rolled segment, in their order.
    pub windows: Vec<WindowColumns>,
    /// The same of native histograms; no list at all where there is none.
    pub histograms: Vec<Vec<HistogramWindow>>,
    /// Where the columns of the windows go afterwards.
    pub room: WindowRoom,
}

impl Drop for RolledSamples {
    fn drop(&mut self) {
        self.room.give_back(&mut self.windows);
    }
}

impl RolledSamples {
    /// No window has anything.
    pub fn is_empty(&self) -> bool {
        self.windows.iter().all(WindowColumns::is_empty) && !self.has_histograms()
    }

    pub fn has_histograms(&self) -> bool {
        !self.histograms.iter().all(Vec::is_empty)
    }

    /// The rolled segments with their windows.
    pub fn segments(&self) -> impl Iterator<Item = (&Segment, &WindowColumns)> {
        self.rolled_segments().zip(&self.windows)
    }

    /// The rolled segments with their windows of histograms; none where there is no histogram.
    pub fn histogram_segments(&self) -> impl Iterator<Item = (&Segment, &[HistogramWindow])> {
        let histograms = self.histograms.iter().map(Vec::as_slice);
        self.rolled_segments().zip(histograms)
    }

    fn rolled_segments(&self) -> impl Iterator<Item = &Segment> {
        let rolled = |segment: &&Segment| !segment.resolution.is_raw();
        self.levels.segments.iter().filter(rolled)
    }

    /// Approximate bytes held.
    pub fn heap_bytes(&self) -> usize {
        let floats = self.windows.iter().map(WindowColumns::heap_bytes);
        let histograms = self.histograms.iter().flatten();
        floats.sum::<usize>() + histograms.map(HistogramWindow::heap_bytes).sum::<usize>()
    }
}

impl SeriesSamples {
    pub fn sample_count(&self) -> usize {
        self.floats.timestamps.len() + self.histograms.len()
    }
}

/// Where series come from.
pub trait SeriesSource: Send + Sync {
    /// Opens a consistent view and resolves the matchers; samples are read as the stream is pulled.
    fn select(
        &self,
        selection: Selection,
    ) -> BoxFuture<'_, Result<Box<dyn SeriesStream>, SourceError>>;
}

/// The series of one selection in label order, in bounded batches.
pub trait SeriesStream: Send {
    /// The next series, or `None` at the end. A batch may be empty.
    fn next_batch(&mut self) -> BoxFuture<'_, Result<Option<Vec<SeriesSamples>>, SourceError>>;

    /// The levels of the selection, also those of series that have nothing in its time: otherwise
    /// nobody would learn that something was excluded.
    fn levels(&self) -> Vec<Arc<Levels>> {
        Vec::new()
    }

    /// The time before which a policy keeps nothing of any series; `None` if there is none.
    fn kept_since_ms(&self) -> Option<i64> {
        None
    }
}

/// Which level answers which part of the time of a selection. That depends on the selection and on
/// what is stored, not on any sample.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Levels {
    /// In time order, without gaps. Borders lie on the grids of both sides.
    pub segments: Vec<Segment>,
    /// Time before this is kept only at this resolution, which the selection excludes.
    pub excluded: Option<(Resolution, i64)>,
}

impl Levels {
    /// The level of a moment. Before the first and after the last segment their levels go on.
    pub fn at(&self, timestamp_ms: i64) -> Resolution {
        let next = self
            .segments
            .partition_point(|segment| segment.start_ms <= timestamp_ms);
        let segment = self.segments.get(next.saturating_sub(1));
        segment.map_or(Resolution::RAW, |segment| segment.resolution)
    }

    /// A moment rounded down to the grid of its level.
    pub fn floor(&self, timestamp_ms: i64) -> i64 {
        self.at(timestamp_ms).floor(timestamp_ms)
    }

    /// Returns `true` if anything is rolled up.
    pub fn has_rolled(&self) -> bool {
        self.segments
            .iter()
            .any(|segment| !segment.resolution.is_raw())
    }

    /// Whether something after `after_ms` and up to `until_ms` is rolled up.
    pub fn is_rolled(&self, after_ms: i64, until_ms: i64) -> bool {
        let mut rolled = self.segments.iter().filter(|s| !s.resolution.is_raw());
        rolled.any(|segment| segment.overlaps(after_ms, until_ms))
    }
}

/// Why a selection could not be answered, by what the caller can do about it.
#[derive(Debug, Error)]
pub enum SourceError {
    #[error("{0}")]
    LimitReached(String),
    #[error("{0}")]
    Unavailable(String),
    #[error("{0}")]
    Corrupt(String),
    #[error("{0}")]
    Internal(String),
}

impl From<OutOfMemory> for SourceError {
    fn from(cause: OutOfMemory) -> Self {
        Self::LimitReached(cause.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evaluations_of_several_users() {
        let hourly = Evaluations::new(7_200_000, 3_600_000, 0);
        assert_eq!((hourly.grid_ms, hourly.range_grid_ms), (3_600_000, 0));
        let half_past = Evaluations::new(9_000_000, 3_600_000, 300_000);
        assert_eq!(half_past.grid_ms, 1_800_000);
        let both = hourly
            .and(&half_past)
            .and(&Evaluations::new(0, 0, 7_200_000));
        let expected = Evaluations {
            grid_ms: 1_800_000,
            range_grid_ms: 300_000,
            shortest_range_ms: 300_000,
        };
        assert_eq!(both, expected);
        assert_eq!(Evaluations::new(-5, 0, 0).grid_ms, 5);
    }
}
