//! Late samples: windows whose own samples are gone get more of them.
//!
//! Holds always:
//! - Counts and sums are those of both; the first and the last sample are real. What depends on the
//!   order of samples (resets, changes, what a counter lost) stays as it was, because where the
//!   late ones lay among the others is not known. In a window that had nothing it is theirs.
//! - At the start of a window there is one sample, and the later write counts.
//! - The latest sample decides whether a window ends with a stale marker, whichever kind it is of.

use std::cmp::Reverse;
use std::sync::Arc;

use super::histogram::added;
use super::{Aggregate, Edge, HistogramAggregate, HistogramEdge, HistogramWindow, Window};

/// Floats and histograms of a series, windows in time order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SeriesWindows {
    pub floats: Vec<Window>,
    pub histograms: Vec<HistogramWindow>,
}

impl SeriesWindows {
    pub fn is_empty(&self) -> bool {
        self.floats.is_empty() && self.histograms.is_empty()
    }

    /// Merges windows of late samples into these, which are as wide.
    pub fn merge_late(&mut self, late: Self) {
        // Before either changes: a marker of one kind ends both.
        let rolled_last = last_samples(self);
        let late_last = last_samples(&late);
        let ends = |start_ms: i64| {
            let at = |list: &[(i64, i64)]| {
                let at = list.binary_search_by_key(&start_ms, |(start_ms, _)| *start_ms);
                at.ok().map(|at| list[at].1)
            };
            (at(&rolled_last), at(&late_last))
        };
        // Absent sorts before every time.
        let late_decides = |start_ms: i64, has_marker: bool| match ends(start_ms) {
            (None, None) => !has_marker,
            (rolled, late) => late > rolled,
        };
        let starts = late.floats.iter().map(|window| window.start_ms);
        let mut touched: Vec<(i64, bool)> = starts
            .chain(late.histograms.iter().map(|window| window.start_ms))
            .map(|start_ms| (start_ms, self.has_marker(start_ms)))
            .collect();
        touched.sort_unstable();
        touched.dedup();
        touched.retain(|(start_ms, has_marker)| late_decides(*start_ms, *has_marker));
        let decided = |start_ms: i64| {
            let found = touched.binary_search_by_key(&start_ms, |(start_ms, _)| *start_ms);
            found.is_ok()
        };
        for window in &mut self.floats {
            window.ends_stale &= !decided(window.start_ms);
        }
        for window in &mut self.histograms {
            window.ends_stale &= !decided(window.start_ms);
        }
        let (mut floats, mut histograms) = (late.floats, late.histograms);
        for window in &mut floats {
            window.ends_stale &= decided(window.start_ms);
        }
        for window in &mut histograms {
            window.ends_stale &= decided(window.start_ms);
        }
        self.replace_edges(&floats, &histograms);
        let rolled = std::mem::take(&mut self.floats);
        self.floats = merged(rolled, floats, |w| w.start_ms, merge_window);
        self.floats.retain(|window| !window.is_empty());
        let rolled = std::mem::take(&mut self.histograms);
        self.histograms = merged(rolled, histograms, |w| w.start_ms, merge_histogram_window);
        self.histograms.retain(|window| !window.is_empty());
    }

    /// A late sample at the start of a window takes the place of one of the other kind, too.
    fn replace_edges(&mut self, floats: &[Window], histograms: &[HistogramWindow]) {
        for late in histograms.iter().filter(|w| w.edge != HistogramEdge::None) {
            let at = self
                .floats
                .binary_search_by_key(&late.start_ms, |w| w.start_ms);
            if let Ok(at) = at {
                self.floats[at].edge = Edge::None;
            }
        }
        for late in floats.iter().filter(|w| w.edge != Edge::None) {
            let at = self
                .histograms
                .binary_search_by_key(&late.start_ms, |w| w.start_ms);
            if let Ok(at) = at {
                self.histograms[at].edge = HistogramEdge::None;
            }
        }
    }

    /// Whether a window ends with a stale marker of either kind.
    fn has_marker(&self, start_ms: i64) -> bool {
        let floats = self.floats.binary_search_by_key(&start_ms, |w| w.start_ms);
        let histograms = self
            .histograms
            .binary_search_by_key(&start_ms, |w| w.start_ms);
        floats.is_ok_and(|at| self.floats[at].ends_stale)
            || histograms.is_ok_and(|at| self.histograms[at].ends_stale)
    }
}

/// The time of the last sample of either kind inside of each window that has one, by start.
fn last_samples(of: &SeriesWindows) -> Vec<(i64, i64)> {
    let floats = of.floats.iter();
    let floats = floats.filter_map(|w| Some((w.start_ms, w.interior.as_ref()?.last_ms)));
    let histograms = of.histograms.iter();
    let histograms = histograms.filter_map(|w| Some((w.start_ms, w.interior.as_ref()?.last_ms)));
    let mut all: Vec<(i64, i64)> = floats.chain(histograms).collect();
    // Of one start the latest first.
    all.sort_unstable_by_key(|(start_ms, last_ms)| (*start_ms, Reverse(*last_ms)));
    all.dedup_by_key(|(start_ms, _)| *start_ms);
    all
}

/// Two lists in order of their starts as one.
fn merged<T>(
    rolled: Vec<T>,
    late: Vec<T>,
    start_ms: impl Fn(&T) -> i64,
    merge: impl Fn(Option<T>, T) -> T,
) -> Vec<T> {
    let mut all = Vec::with_capacity(rolled.len() + late.len());
    let mut rolled = rolled.into_iter().peekable();
    for late in late {
        let at_ms = start_ms(&late);
        while let Some(before) = rolled.next_if(|w| start_ms(w) < at_ms) {
            all.push(before);
        }
        let same = rolled.next_if(|w| start_ms(w) == at_ms);
        all.push(merge(same, late));
    }
    all.extend(rolled);
    all
}

fn merge_window(rolled: Option<Window>, late: Window) -> Window {
    let Some(rolled) = rolled else {
        return Window {
            has_late: true,
            ..late
        };
    };
    let interior = match (rolled.interior, late.interior) {
        (Some(mut rolled), Some(late)) => {
            rolled.merge_late(&late);
            Some(rolled)
        }
        (rolled, late) => rolled.or(late),
    };
    Window {
        start_ms: rolled.start_ms,
        edge: match late.edge {
            Edge::None => rolled.edge,
            edge => edge,
        },
        interior,
        ends_stale: rolled.ends_stale || late.ends_stale,
        has_late: true,
    }
}

fn merge_histogram_window(
    rolled: Option<HistogramWindow>,
    late: HistogramWindow,
) -> HistogramWindow {
    let Some(rolled) = rolled else {
        return HistogramWindow {
            has_late: true,
            ..late
        };
    };
    let interior = match (rolled.interior, late.interior) {
        (Some(mut rolled), Some(late)) => {
            rolled.merge_late(late);
            Some(rolled)
        }
        (rolled, late) => rolled.or(late),
    };
    HistogramWindow {
        start_ms: rolled.start_ms,
        edge: match late.edge {
            HistogramEdge::None => rolled.edge,
            edge => edge,
        },
        interior,
        ends_stale: rolled.ends_stale || late.ends_stale,
        has_late: true,
    }
}

impl Aggregate {
    /// Adds samples whose order among these is not known.
    pub fn merge_late(&mut self, late: &Self) {
        let kept = (self.correction, self.resets, self.changes);
        let (first, last) = (self.first_sample(), self.last_sample());
        self.merge(late);
        (self.correction, self.resets, self.changes) = kept;
        // Of one time the later write.
        let earliest = if first.0 < late.first_ms {
            first
        } else {
            late.first_sample()
        };
        let latest = if last.0 > late.last_ms {
            last
        } else {
            late.last_sample()
        };
        (self.first_ms, self.first) = earliest;
        (self.last_ms, self.last) = latest;
    }

    fn first_sample(&self) -> (i64, f64) {
        (self.first_ms, self.first)
    }

    fn last_sample(&self) -> (i64, f64) {
        (self.last_ms, self.last)
    }
}

impl HistogramAggregate {
    /// Adds histograms whose order among these is not known. What was not read of either is not
    /// there afterwards.
    pub fn merge_late(&mut self, late: Self) {
        self.samples += late.samples;
        self.sum = match (&self.sum, &late.sum) {
            (Some(rolled), Some(late)) => added(rolled, late).map(Arc::new),
            _ => None,
        };
        if late.first_ms <= self.first_ms {
            self.first_ms = late.first_ms;
            self.first = late.first;
        }
        if late.last_ms >= self.last_ms {
            self.last_ms = late.last_ms;
            self.last = late.last;
        }
    }
}

#[cfg(test)]
mod tests;
