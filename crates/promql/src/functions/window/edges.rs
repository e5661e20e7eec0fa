//! `rate`, `increase` and `delta` of floats in anchored and smoothed windows: the values at the
//! edges of a window are those of the nearest samples, or interpolated between two.

use super::rate::RateKind;
use super::view::Window;
use super::windows::{WindowMode, Windows};

/// The samples that stand for the edges of a window.
#[derive(Clone, Copy, Debug)]
pub(super) struct EdgeSamples {
    pub(super) first: usize,
    pub(super) last: usize,
}

/// The samples at the edges of a window, which may lie outside of it; none if no sample lies
/// within.
pub(super) fn edge_samples(
    len: usize,
    time: impl Fn(usize) -> i64,
    window: &Window<'_>,
    smoothed: bool,
) -> Option<EdgeSamples> {
    let mut last = len.checked_sub(1)?;
    let before = |moment: &dyn Fn(i64) -> bool| partition_point(last, |i| moment(time(i)));
    let first = before(&|t| t <= window.start_ms).saturating_sub(1);
    if smoothed {
        last = before(&|t| t < window.end_ms);
    }
    let nothing_within = time(last) <= window.start_ms || (smoothed && time(first) > window.end_ms);
    (!nothing_within).then_some(EdgeSamples { first, last })
}

/// The first of `0..len` for which a monotonic condition no longer holds.
fn partition_point(len: usize, holds: impl Fn(usize) -> bool) -> usize {
    let (mut from, mut to) = (0, len);
    while from < to {
        let middle = from + (to - from) / 2;
        if holds(middle) {
            from = middle + 1;
        } else {
            to = middle;
        }
    }
    from
}

pub(super) fn of_window(window: &Window<'_>, windows: &Windows, kind: RateKind) -> Option<f64> {
    let smoothed = windows.mode == WindowMode::Smoothed;
    let (times, floats) = (window.times, window.floats);
    let EdgeSamples { first, last } = edge_samples(floats.len(), |i| times[i], window, smoothed)?;
    let between = |left: usize, moment| {
        let (before, after) = (floats[left], floats[left + 1]);
        // A counter that was reset in between started at zero.
        let reset = kind.counter && after < before;
        let before = if reset { 0.0 } else { before };
        let share = seconds_ratio(times[left], moment, times[left + 1]);
        before + (after - before) * share.0 / share.1
    };
    let left = if smoothed && times[first] < window.start_ms {
        between(first, window.start_ms)
    } else {
        floats[first]
    };
    let right = if smoothed && last > 0 && times[last] > window.end_ms {
        between(last - 1, window.end_ms)
    } else {
        floats[last]
    };
    let mut increase = right - left;
    if kind.counter {
        // The edges already account for resets at them, so only samples strictly within count.
        let from = first + usize::from(times[first] <= window.start_ms);
        let to = last + 1 - usize::from(times[last] >= window.end_ms);
        let within = floats.get(from..to).unwrap_or_default();
        let mut previous = left;
        let mut lost = 0.0;
        for value in within.iter().chain([&right]) {
            if *value < previous {
                lost += previous;
            }
            previous = *value;
        }
        increase += lost;
    }
    Some(if kind.per_second {
        increase / windows.range_seconds()
    } else {
        increase
    })
}

/// The time from `from` to `moment`, and from `from` to `to`.
fn seconds_ratio(from: i64, moment: i64, to: i64) -> (f64, f64) {
    (
        moment.saturating_sub(from) as f64,
        to.saturating_sub(from) as f64,
    )
}
