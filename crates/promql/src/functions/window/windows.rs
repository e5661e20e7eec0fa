//! The bounds of windows, in time and in a column of timestamps.

use crate::exec::Grid;

/// How the edges of a window are treated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum WindowMode {
    #[default]
    Plain,
    /// The last sample at or before the start of the window counts as its start.
    Anchored,
    /// The values at both edges are interpolated.
    Smoothed,
}

/// The windows of a range vector: for every step `(end − range, end]`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Windows {
    pub(crate) grid: Grid,
    /// The time of `@`: every window ends there rather than at its step (before the offset).
    pub(crate) at_ms: Option<i64>,
    pub(crate) range_ms: i64,
    pub(crate) offset_ms: i64,
    pub(crate) mode: WindowMode,
    /// How far outside of the window anchored and smoothed ones look for a sample.
    pub(crate) lookback_ms: i64,
}

impl Windows {
    /// The times to read from the source, both included.
    pub(crate) fn read_range(&self) -> (i64, i64) {
        let first = self.touched(0).0;
        let last = self.touched(self.grid.steps.saturating_sub(1)).1;
        (first.saturating_add(1), last)
    }

    /// The end of the first window and that of the last one.
    pub(crate) fn ends(&self) -> (i64, i64) {
        let last = self.grid.steps.saturating_sub(1);
        (self.edges(0).1, self.edges(last).1)
    }

    /// The window of a step: its start is not in it, its end is.
    pub(super) fn edges(&self, step: usize) -> (i64, i64) {
        let moment = self.at_ms.unwrap_or_else(|| self.grid.time(step));
        let end = moment.saturating_sub(self.offset_ms);
        (end.saturating_sub(self.range_ms), end)
    }

    /// The window extended by the look-back of its edges.
    pub(super) fn touched(&self, step: usize) -> (i64, i64) {
        let (start, end) = self.edges(step);
        let (before_ms, after_ms) = self.lookaround();
        (
            start.saturating_sub(before_ms),
            end.saturating_add(after_ms),
        )
    }

    /// How far before and after a window samples matter.
    pub(super) fn lookaround(&self) -> (i64, i64) {
        match self.mode {
            WindowMode::Plain => (0, 0),
            WindowMode::Anchored => (self.lookback_ms, 0),
            WindowMode::Smoothed => (self.lookback_ms, self.lookback_ms),
        }
    }

    /// Whether no window reads the first of two consecutive samples: it lies before all windows or
    /// between two of them, where Prometheus does not read.
    pub(super) fn skip_between(&self, before_ms: i64, time_ms: i64) -> bool {
        let (first_start, first_end) = self.touched(0);
        if before_ms < first_start {
            return true;
        }
        if before_ms < first_end || self.at_ms.is_some() {
            return false;
        }
        let ended = before_ms.abs_diff(first_end) / self.grid.step_ms.max(1).unsigned_abs();
        let next = usize::try_from(ended).map_or(usize::MAX, |ended| ended.saturating_add(1));
        let (start, _) = self.touched(next);
        next < self.grid.steps && before_ms < start && start <= time_ms
    }

    pub(super) fn range_seconds(&self) -> f64 {
        self.range_ms as f64 / 1000.0
    }
}

/// Which samples of a column belong to a window: `lo..hi`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) lo: u32,
    pub(super) hi: u32,
}

impl Slot {
    #[inline]
    pub(super) fn len(self) -> usize {
        self.hi.saturating_sub(self.lo) as usize
    }

    #[inline]
    pub(super) fn of<T>(self, samples: &[T]) -> &[T] {
        samples
            .get(self.lo as usize..self.hi as usize)
            .unwrap_or_default()
    }
}

/// The windows of all steps as ranges of one column, and what follows from the times alone.
#[derive(Debug, Default)]
pub(super) struct Bounds {
    /// One per step; both ends are monotonic.
    pub(super) slots: Vec<Slot>,
    /// One per step, for functions that extrapolate; else empty.
    pub(super) extrapolations: Vec<Extrapolation>,
    /// Samples of all windows together.
    pub(super) touched: u64,
}

/// The factor of extrapolation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extrapolation {
    pub(super) factor: f64,
    /// A counter whose first value is at least `clamp` times its increase does not reach zero
    /// within the extrapolated time.
    pub(super) clamp: f64,
}

impl Bounds {
    pub(super) fn new(windows: &Windows, times: &[i64]) -> Self {
        // No column has more samples than 32 bits can count; the rest would be ignored.
        let times = &times[..times.len().min(u32::MAX as usize)];
        let mut slots = Vec::with_capacity(windows.grid.steps);
        let (mut lo, mut hi, mut touched) = (0, 0, 0);
        for step in 0..windows.grid.steps {
            let (start, end) = windows.touched(step);
            lo = advance(times, lo, start);
            hi = advance(times, hi.max(lo), end);
            touched += (hi - lo) as u64;
            slots.push(Slot {
                lo: lo as u32,
                hi: hi as u32,
            });
        }
        Self {
            slots,
            extrapolations: Vec::new(),
            touched,
        }
    }

    /// The samples that some window touches.
    pub(super) fn hull(&self) -> std::ops::Range<usize> {
        match (self.slots.first(), self.slots.last()) {
            (Some(first), Some(last)) => first.lo as usize..last.hi as usize,
            _ => 0..0,
        }
    }
}

/// Samples from one step to the next up to which a linear search is fastest.
const NEAR: usize = 32;

/// The first position from `from` on whose time is after `moment`. Steps are mostly a few samples
/// apart; if not, a galloping search takes over.
pub(super) fn advance(times: &[i64], from: usize, moment: i64) -> usize {
    let mut near = from;
    while times.get(near).is_some_and(|time| *time <= moment) {
        near += 1;
        if near == from + NEAR {
            return gallop(times, near, moment);
        }
    }
    near
}

#[cold]
fn gallop(times: &[i64], from: usize, moment: i64) -> usize {
    let rest = &times[from..];
    let mut stride = NEAR;
    while stride < rest.len() && rest[stride] <= moment {
        stride *= 2;
    }
    let upper = stride.min(rest.len());
    from + rest[..upper].partition_point(|t| *t <= moment)
}
