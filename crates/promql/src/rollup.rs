//! What a query read of rolled-up time, and what to say about it.
//!
//! Holds always: a level is mentioned only if windows of it were read and lie where the query looks
//! (sources may read a little more), and only once for each kind of remark.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use icecore_model::rollup::Resolution;
use icecore_model::{Levels, SeriesSamples};
use parking_lot::{Mutex, RwLock};
use thiserror::Error;

use crate::calendar::rfc3339;
use crate::parse::format_duration;

/// What a request says about rolled-up time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RollupOptions {
    /// No coarser level is read.
    pub(crate) max_ms: Option<i64>,
    /// Functions that windows can only guess fail.
    pub(crate) is_strict: bool,
}

/// How a function or selector treated the windows of a level.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RollupNote {
    #[error("evaluation times rounded down to the {0} grid")]
    Rounded(Resolution),
    #[error(
        "range {} is shorter than the {resolution} resolution; value is the enclosing window scaled",
        format_duration(*range_ms)
    )]
    ShortRange {
        range_ms: i64,
        resolution: Resolution,
    },
    #[error("{function} estimated from {resolution} windows")]
    Estimated {
        function: &'static str,
        resolution: Resolution,
    },
    /// As far off as the samples of a window may be from their mean.
    #[error("{function} estimated from {resolution} windows, and may be far off")]
    Guessed {
        function: &'static str,
        resolution: Resolution,
    },
}

impl RollupNote {
    fn resolution(&self) -> Resolution {
        match self {
            Self::Rounded(resolution)
            | Self::ShortRange { resolution, .. }
            | Self::Estimated { resolution, .. }
            | Self::Guessed { resolution, .. } => *resolution,
        }
    }
}

/// The rolled-up time that a query read.
#[derive(Debug, Default)]
pub(crate) struct RollupReport {
    pub(crate) options: RollupOptions,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Windows read.
    windows: BTreeMap<Resolution, u64>,
    /// The time at which the query looked, from and to.
    used: BTreeMap<Resolution, (i64, i64)>,
    notes: BTreeSet<RollupNote>,
    /// By resolution the latest time before which nothing finer is kept.
    excluded: BTreeMap<Resolution, i64>,
    /// The time before which nothing is kept, if the query looks there.
    kept_since_ms: Option<i64>,
}

impl State {
    /// Whether a level contributed to the answer.
    fn contributed(&self, resolution: Resolution) -> bool {
        self.windows.contains_key(&resolution) && self.used.contains_key(&resolution)
    }
}

impl RollupReport {
    pub(crate) fn new(options: RollupOptions) -> Self {
        Self {
            options,
            state: Mutex::default(),
        }
    }

    /// Counts the windows of a batch.
    pub(crate) fn read(&self, batch: &[SeriesSamples]) {
        let mut windows = windows(batch).peekable();
        if windows.peek().is_none() {
            return;
        }
        let mut state = self.state.lock();
        for (level, count) in windows {
            *state.windows.entry(level).or_default() += count;
        }
    }

    /// Notes where the query looks: after the first and up to the second time of each range. The
    /// ranges are in time order.
    pub(crate) fn used(&self, levels: &Levels, ranges: impl Iterator<Item = (i64, i64)> + Clone) {
        for segment in levels.segments.iter().filter(|s| !s.resolution.is_raw()) {
            let overlaps = |(after, until): &(i64, i64)| segment.overlaps(*after, *until);
            let mut within = ranges.clone().filter(overlaps);
            let Some(first) = within.next() else {
                continue;
            };
            let last = within.last().unwrap_or(first);
            let level = segment.resolution;
            let start_ms = level.floor(first.0).max(segment.start_ms);
            let end_ms = level.floor(last.1).saturating_add(level.ms());
            let end_ms = end_ms.min(segment.end_ms);
            let mut state = self.state.lock();
            let used = state.used.entry(level).or_insert((start_ms, end_ms));
            *used = (used.0.min(start_ms), used.1.max(end_ms));
        }
    }

    /// Notes what a selection excluded.
    pub(crate) fn levels(&self, levels: &Levels) {
        if let Some((resolution, before_ms)) = levels.excluded {
            let mut state = self.state.lock();
            let latest = state.excluded.entry(resolution).or_insert(before_ms);
            *latest = (*latest).max(before_ms);
        }
    }

    /// Notes that a selection from `start_ms` on reads what is kept since `since_ms`.
    pub(crate) fn kept_since(&self, since_ms: i64, start_ms: i64) {
        if start_ms < since_ms {
            let mut state = self.state.lock();
            state.kept_since_ms = state.kept_since_ms.max(Some(since_ms));
        }
    }

    pub(crate) fn note(&self, note: RollupNote) {
        self.state.lock().notes.insert(note);
    }

    /// Windows read by level, finest first.
    pub(crate) fn windows_read(&self) -> Vec<(Resolution, u64)> {
        let state = self.state.lock();
        state
            .windows
            .iter()
            .map(|(level, n)| (*level, *n))
            .collect()
    }

    /// The warnings and the infos.
    pub(crate) fn render(&self) -> (Vec<String>, Vec<String>) {
        let state = self.state.lock();
        let (mut warnings, mut infos) = (Vec::new(), Vec::new());
        if let Some(since_ms) = state.kept_since_ms {
            let since = time(since_ms);
            infos.push(format!("PromQL info: nothing before {since} is kept"));
        }
        for (resolution, (start_ms, end_ms)) in &state.used {
            if state.contributed(*resolution) {
                infos.push(format!(
                    "PromQL info: rolled-up data at {resolution} resolution used for [{}, {})",
                    time(*start_ms),
                    time(*end_ms)
                ));
            }
        }
        let of_used = |note: &&RollupNote| state.contributed(note.resolution());
        for note in state.notes.iter().filter(of_used) {
            match note {
                RollupNote::Guessed { .. } => warnings.push(format!("PromQL warning: {note}")),
                _ => infos.push(format!("PromQL info: {note}")),
            }
        }
        for (resolution, before_ms) in &state.excluded {
            warnings.push(format!(
                "PromQL warning: no data finer than {resolution} before {}; max_source_resolution={} excludes it",
                time(*before_ms),
                format_duration(self.options.max_ms.unwrap_or_default())
            ));
        }
        (warnings, infos)
    }
}

/// The windows of a batch: levels with their counts, some per series.
pub(crate) fn windows(batch: &[SeriesSamples]) -> impl Iterator<Item = (Resolution, u64)> + '_ {
    let rolled = batch.iter().filter_map(|series| series.rolled.as_ref());
    let of_series = rolled.flat_map(|rolled| {
        let floats = rolled.segments().map(|(segment, of)| (segment, of.len()));
        let histograms = rolled.histogram_segments();
        let histograms = histograms.map(|(segment, of)| (segment, of.len()));
        floats.chain(histograms)
    });
    of_series
        .filter(|(_, count)| *count > 0)
        .map(|(segment, count)| (segment.resolution, count as u64))
}

/// Most sets of levels for which something is kept. Series kept alike share one; beyond this many,
/// what follows from levels is computed for each series.
const LEVELS_MAX: usize = 64;

/// What follows from levels, computed once for the series that share them.
#[derive(Debug)]
pub(crate) struct PerLevels<T>(RwLock<Vec<(Arc<Levels>, Arc<T>)>>);

impl<T> Default for PerLevels<T> {
    fn default() -> Self {
        Self(RwLock::default())
    }
}

impl<T> PerLevels<T> {
    pub(crate) fn get(&self, levels: &Arc<Levels>, make: impl FnOnce() -> T) -> Arc<T> {
        let kept = self.0.read();
        if let Some((_, found)) = kept.iter().find(|(of, _)| Arc::ptr_eq(of, levels)) {
            return Arc::clone(found);
        }
        drop(kept);
        let made = Arc::new(make());
        let mut kept = self.0.write();
        if kept.len() < LEVELS_MAX {
            kept.push((Arc::clone(levels), Arc::clone(&made)));
        }
        made
    }
}

/// A moment in UTC. Segments begin and end on the grid of seconds.
fn time(timestamp_ms: i64) -> String {
    rfc3339(timestamp_ms.div_euclid(1000))
}
