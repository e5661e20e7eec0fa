//! Downsampling of series that have windows.

use std::sync::Arc;

use icecore_model::rollup::{Resolution, WindowColumns};
use icecore_model::{Levels, TimeColumn, TimeColumnIdentity};

use super::points::RolledPoints;
use super::runs::{Column, Runs};
use crate::error::Error;
use crate::query::aggregator::Function;
use crate::query::buckets::{Buckets, buckets, floor};
use crate::query::downsample::{Downsampling, FILLED_BUCKETS_MAX, too_many_buckets};
use crate::query::downsampler::{FillPolicy, Interval};
use crate::query::fold::{WindowFold, WithWindowFold, with_window_fold};
use crate::query::points::SeriesPoints;
use crate::query::window::{Scan, Window};

/// The buckets of series that have points and windows at the same times.
#[derive(Debug)]
pub(crate) struct RolledBuckets {
    runs: Runs,
    buckets: Buckets,
    /// All buckets, where a fill policy wants them and they are not those of the interval.
    filled: Option<TimeColumn>,
}

/// Tells series apart that do not share buckets.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RolledKey {
    levels: usize,
    columns: Vec<TimeColumnIdentity>,
}

impl RolledKey {
    pub(crate) fn of(points: &SeriesPoints, rolled: &RolledPoints) -> Self {
        let starts = rolled
            .windows
            .iter()
            .map(|windows| windows.starts.identity());
        Self {
            levels: Arc::as_ptr(&rolled.levels) as usize,
            columns: std::iter::once(points.times.identity())
                .chain(starts)
                .collect(),
        }
    }
}

impl Downsampling {
    pub(crate) fn rolled_buckets(
        &self,
        points: &SeriesPoints,
        rolled: &RolledPoints,
    ) -> Result<RolledBuckets, Error> {
        let starts: Vec<&TimeColumn> = rolled.windows.iter().map(|w| &w.starts).collect();
        let runs = Runs::new(&points.times, &starts);
        let levels = &*rolled.levels;
        let (window, scan) = (self.window, self.scan);
        let interval = &self.downsampler.interval;
        let mut filled = None;
        let buckets = match interval {
            Interval::Fixed(length) if !self.fits(levels) => {
                if self.downsampler.fill != FillPolicy::None {
                    filled = Some(rounded_grid(levels, *length, scan)?);
                }
                rounded_buckets(&runs.times, levels, *length, scan)
            }
            Interval::All => {
                let from = Window {
                    start_ms: levels.floor(window.start_ms),
                    ..window
                };
                let mut buckets = buckets(&runs.times, interval, from, scan);
                if !buckets.starts.is_empty() {
                    buckets.starts = vec![window.start_ms].into();
                }
                buckets
            }
            _ => buckets(&runs.times, interval, window, scan),
        };
        Ok(RolledBuckets {
            runs,
            buckets,
            filled,
        })
    }

    /// Whether the interval is a multiple of all windows of the scan.
    pub(crate) fn fits(&self, levels: &Levels) -> bool {
        let mut rolled = levels.segments.iter().filter(|segment| {
            segment.end_ms > self.scan.start_ms && segment.start_ms < self.scan.end_ms
        });
        rolled.all(|segment| self.alignment.fits(segment.resolution))
    }

    /// By what windows of a level are downsampled, if that is not what was asked for.
    pub(crate) fn rounded_interval(&self, level: Resolution) -> Option<i64> {
        match self.downsampler.interval {
            Interval::Fixed(length) if !self.alignment.fits(level) => Some(rounded(length, level)),
            _ => None,
        }
    }

    /// Whether windows say less than their points would, by function or by interval.
    pub(crate) fn estimates(&self, rolled: &RolledPoints) -> bool {
        let function = self.downsampler.function;
        let fields = function.window_fields();
        let mut lists = rolled.windows.iter().filter(|windows| !windows.is_empty());
        let is_fixed = matches!(self.downsampler.interval, Interval::Fixed(_));
        !function.is_exact_over_windows()
            || lists.any(|windows| !windows.fields.contains(fields))
            || !(is_fixed || self.fits(&rolled.levels))
    }

    /// The downsampled points of a series whose points and windows are in these buckets.
    pub(crate) fn apply_rolled(
        &self,
        points: &SeriesPoints,
        rolled: &RolledPoints,
        shared: &RolledBuckets,
    ) -> Result<SeriesPoints, Error> {
        let function = self.downsampler.function;
        let reduction = Reduction {
            function,
            values: &points.values,
            windows: &rolled.windows,
            runs: &shared.runs,
            bounds: &shared.buckets.bounds,
        };
        let values = with_window_fold(function, reduction);
        let starts = &shared.buckets.starts;
        match shared.filled.as_ref().or(self.filled.as_ref()) {
            None => Ok(SeriesPoints::floats(starts.clone(), values)),
            Some(grid) => self.fill(starts, &values, grid),
        }
    }
}

struct Reduction<'a> {
    function: Function,
    values: &'a [f64],
    windows: &'a [WindowColumns],
    runs: &'a Runs,
    bounds: &'a [u32],
}

impl WithWindowFold for Reduction<'_> {
    type Output = Vec<f64>;

    fn run<F: WindowFold>(self) -> Vec<f64> {
        let mut runs = self.runs.runs.as_slice();
        let mut of_bucket = |bounds: &[u32]| {
            let mut state = F::new(self.function);
            let (mut at, end) = (bounds[0] as usize, bounds[1] as usize);
            while let [run, rest @ ..] = runs
                && at < end
            {
                if run.end <= at {
                    runs = rest;
                    continue;
                }
                let until = end.min(run.end);
                let range = run.first + at - run.start..run.first + until - run.start;
                match run.column {
                    Column::Points => self.values[range].iter().for_each(|v| state.add(*v)),
                    Column::Windows(list) => state.add_windows(&self.windows[list], range),
                }
                at = until;
            }
            state.finish()
        };
        self.bounds.windows(2).map(&mut of_bucket).collect()
    }
}

/// The shortest multiple of windows that is no shorter than the interval.
fn rounded(length: i64, level: Resolution) -> i64 {
    match level.ms() {
        0 => length,
        width => floor(length.saturating_add(width - 1), width),
    }
}

/// The bucket of a time, and its end: intervals of two levels never overlap.
fn rounded_bucket(levels: &Levels, length: i64, time: i64) -> (i64, i64) {
    let length = rounded(length, levels.at(time));
    let start = floor(time, length);
    let segments = &levels.segments;
    let at = segments.partition_point(|segment| segment.end_ms <= time);
    let end = segments.get(at).map_or(i64::MAX, |segment| segment.end_ms);
    (start, start.saturating_add(length).min(end))
}

/// Buckets where the interval is rounded up to the windows of each level.
fn rounded_buckets(times: &[i64], levels: &Levels, length: i64, scan: Scan) -> Buckets {
    let mut starts: Vec<i64> = Vec::new();
    let mut bounds = Vec::new();
    let mut end = i64::MIN;
    for (i, time) in times
        .iter()
        .enumerate()
        .filter(|(_, time)| **time >= scan.start_ms)
    {
        if *time < end {
            continue;
        }
        let start;
        (start, end) = rounded_bucket(levels, length, *time);
        // At the border of a level the next interval may begin before the last one of the other.
        let is_next = starts.last().is_none_or(|last| start > *last);
        if start >= scan.start_ms && is_next {
            starts.push(start);
            bounds.push(i as u32);
        }
    }
    bounds.push(times.len() as u32);
    Buckets {
        starts: starts.into(),
        bounds,
    }
}

/// The starts of all such buckets; the last one is not whole and left out.
fn rounded_grid(levels: &Levels, length: i64, scan: Scan) -> Result<TimeColumn, Error> {
    let mut starts: Vec<i64> = Vec::new();
    let mut time = scan.start_ms;
    while time < scan.end_ms {
        let (start, end) = rounded_bucket(levels, length, time);
        let is_whole = start < floor(scan.end_ms, rounded(length, levels.at(time)));
        if is_whole && starts.last().is_none_or(|last| start > *last) {
            starts.push(start);
        }
        if starts.len() > FILLED_BUCKETS_MAX {
            return Err(too_many_buckets());
        }
        time = end;
    }
    Ok(starts.into())
}

#[cfg(test)]
mod tests {
    use icecore_model::rollup::Segment;

    use super::*;

    const MINUTE: i64 = 60_000;
    const HOUR: i64 = 60 * MINUTE;

    fn levels() -> Levels {
        let segment = |start, end, level: &str| Segment {
            start_ms: start * HOUR,
            end_ms: end * HOUR,
            resolution: Resolution::from_name(level).unwrap(),
        };
        Levels {
            segments: vec![
                segment(0, 2, "1h"),
                segment(2, 3, "5m"),
                segment(3, 4, "raw"),
            ],
            excluded: None,
        }
    }

    const SCAN: Scan = Scan {
        start_ms: HOUR,
        end_ms: 4 * HOUR,
    };

    #[test]
    fn intervals_are_rounded_up_to_windows() {
        let minutes = [0, 60, 120, 125, 130, 135, 180, 181, 187, 239];
        let times = minutes.map(|minute| minute * MINUTE);
        let found = rounded_buckets(&times, &levels(), 7 * MINUTE, SCAN);
        let starts: Vec<i64> = found.starts.iter().map(|start| start / MINUTE).collect();
        // Hours, then ten minutes, then seven; 175 < 180 lies in the last level.
        assert_eq!(starts, [60, 120, 130, 175, 182, 238]);
        assert_eq!(found.bounds, [1, 2, 4, 6, 8, 9, 10]);
    }

    #[test]
    fn all_intervals_are_filled() {
        let grid = rounded_grid(&levels(), 20 * MINUTE, SCAN).unwrap();
        let starts: Vec<i64> = grid.iter().map(|start| start / MINUTE).collect();
        assert_eq!(starts, [60, 120, 140, 160, 180, 200, 220]);
        let long = rounded_grid(&levels(), 90 * MINUTE, SCAN).unwrap();
        let starts: Vec<i64> = long.iter().map(|start| start / MINUTE).collect();
        assert_eq!(starts, [0, 90]);
    }
}
