//! `rate`, `increase` and `delta` of floats in plain windows.
//!
//! The difference between the last and the first sample, plus what was lost in counter resets,
//! extrapolated to the edges of the window. The positions of resets are listed once per series
//! (mostly there are none) and the extrapolation is part of the shared bounds, so a window costs a
//! subtraction and a multiplication.

use crate::annotations::Annotation;
use crate::exec::Values;

use super::starts::{SampleStart, is_restart, overlaps};
use super::view::{SeriesAnnotations, View, Window};
use super::windows::{Bounds, Extrapolation, Slot, Windows};

/// Distinguishes the three functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RateKind {
    /// Values only go up, except at resets.
    pub(super) counter: bool,
    pub(super) per_second: bool,
}

/// Bounds with the factors of extrapolation.
pub(super) fn extrapolating_bounds(windows: &Windows, times: &[i64], kind: RateKind) -> Bounds {
    let mut bounds = Bounds::new(windows, times);
    let slots = bounds.slots.iter().enumerate();
    bounds.extrapolations = slots
        .map(|(step, slot)| extrapolation(windows, step, *slot, times, kind))
        .collect();
    bounds
}

fn extrapolation(
    windows: &Windows,
    step: usize,
    slot: Slot,
    times: &[i64],
    kind: RateKind,
) -> Extrapolation {
    match sampled_interval(windows, step, slot.of(times)) {
        None => Extrapolation {
            factor: f64::NAN,
            clamp: f64::NEG_INFINITY,
        },
        Some(interval) => Extrapolation {
            factor: interval.factor(windows, kind),
            clamp: if kind.counter {
                // A little more than needed, so that rounding never hides a counter that reaches
                // zero; the exact check follows.
                interval.to_start / interval.sampled * (1.0 + 1e-6)
            } else {
                f64::NEG_INFINITY
            },
        },
    }
}

/// Durations in seconds of a window: between its first and last sample, and from them to where the
/// series is assumed to start and end.
#[derive(Clone, Copy, Debug)]
pub(super) struct SampledInterval {
    pub(super) sampled: f64,
    pub(super) to_start: f64,
    pub(super) to_end: f64,
}

fn sampled_interval(windows: &Windows, step: usize, times: &[i64]) -> Option<SampledInterval> {
    let [first, .., last] = times else {
        return None;
    };
    Some(SampledInterval::new(
        windows.edges(step),
        *first,
        *last,
        times.len(),
    ))
}

impl SampledInterval {
    pub(super) fn new(edges: (i64, i64), first: i64, last: i64, samples: usize) -> Self {
        let sampled = seconds(first, last);
        let average = match samples {
            0 | 1 => 0.0,
            _ => sampled / (samples - 1) as f64,
        };
        // A distance to the edge of up to 1.1 times the average between samples is taken for
        // irregular sampling: the series continues to the edge. Otherwise it starts or ends half
        // the average from the sample.
        let threshold = average * 1.1;
        let guess = |to_edge: f64| {
            if to_edge >= threshold {
                average / 2.0
            } else {
                to_edge
            }
        };
        Self {
            sampled,
            to_start: guess(seconds(edges.0, first)),
            to_end: guess(seconds(last, edges.1)),
        }
    }

    pub(super) fn factor(&self, windows: &Windows, kind: RateKind) -> f64 {
        if kind.per_second {
            self.extension() / windows.range_seconds()
        } else {
            self.extension()
        }
    }

    /// How much longer the series is assumed to last than it was sampled.
    pub(super) fn extension(&self) -> f64 {
        if self.sampled == 0.0 {
            1.0
        } else {
            (self.sampled + self.to_start + self.to_end) / self.sampled
        }
    }

    /// Counters are never negative: extrapolation to the left stops where the counter was zero.
    pub(super) fn clamp_at_zero(&mut self, first: f64, increase: f64) {
        if increase > 0.0 && first >= 0.0 {
            let to_zero = self.sampled * (first / increase);
            if to_zero < self.to_start {
                self.to_start = to_zero;
            }
        }
    }

    /// The counter is known to have been zero at `start`, within the window: no extrapolation.
    pub(super) fn start_at(&mut self, start: i64, last: i64) {
        self.to_start = 0.0;
        self.sampled = seconds(start, last);
    }
}

fn seconds(from: i64, to: i64) -> f64 {
    to.saturating_sub(from) as f64 / 1000.0
}

/// The value of every window of a series without histograms and start timestamps.
pub(super) fn of_floats(view: &View<'_>, kind: RateKind) -> Values {
    let hull = view.bounds.hull();
    let resets = if kind.counter {
        resets(
            view.floats.get(hull.clone()).unwrap_or_default(),
            hull.start,
        )
    } else {
        Vec::new()
    };
    let mut out = view.absent_floats();
    let slots = view.bounds.slots.iter().zip(&view.bounds.extrapolations);
    let mut next_reset = 0;
    for (step, ((slot, extrapolation), out)) in slots.zip(&mut out).enumerate() {
        let [first, .., last] = slot.of(view.floats) else {
            continue;
        };
        let mut increase = last - first;
        if !resets.is_empty() {
            next_reset += resets[next_reset..].partition_point(|reset| reset.at <= slot.lo);
            let within = resets[next_reset..].iter();
            for reset in within.take_while(|reset| reset.at < slot.hi) {
                increase += reset.lost;
            }
        }
        let mut factor = extrapolation.factor;
        let far_from_zero = *first >= increase * extrapolation.clamp;
        if increase > 0.0 && *first >= 0.0 && !far_from_zero {
            factor = clamped_factor(view, step, *slot, *first, increase, kind);
        }
        *out = increase * factor;
    }
    Values {
        floats: out,
        histograms: Vec::new(),
    }
}

#[cold]
fn clamped_factor(
    view: &View<'_>,
    step: usize,
    slot: Slot,
    first: f64,
    increase: f64,
    kind: RateKind,
) -> f64 {
    let Some(mut interval) = sampled_interval(view.windows, step, slot.of(view.times)) else {
        return f64::NAN;
    };
    interval.clamp_at_zero(first, increase);
    interval.factor(view.windows, kind)
}

/// A sample that is smaller than the one before it.
struct Reset {
    at: u32,
    /// The value before it.
    lost: f64,
}

/// The resets of a counter; positions count from `offset`.
fn resets(values: &[f64], offset: usize) -> Vec<Reset> {
    // Most blocks have no reset, and testing a whole block needs no branches.
    const BLOCK: usize = 64;
    let mut resets = Vec::new();
    let mut from = 1;
    while from < values.len() {
        let to = (from + BLOCK).min(values.len());
        let pairs = values[from - 1..to - 1].iter().zip(&values[from..to]);
        if pairs.clone().fold(false, |any, (a, b)| any | (b < a)) {
            for (i, (before, after)) in pairs.enumerate() {
                if after < before {
                    resets.push(Reset {
                        at: (offset + from + i) as u32,
                        lost: *before,
                    });
                }
            }
        }
        from = to;
    }
    resets
}

/// The value of one window of floats whose start timestamps may be known.
pub(super) fn of_window(
    window: &Window<'_>,
    windows: &Windows,
    kind: RateKind,
    annotations: &SeriesAnnotations<'_>,
) -> Option<f64> {
    let (first, last) = (*window.floats.first()?, *window.floats.last()?);
    let (first_ms, last_ms) = (*window.times.first()?, *window.times.last()?);
    let mut increase = last - first;
    if kind.counter {
        for (i, pair) in window.floats.windows(2).enumerate() {
            let previous = SampleStart::at(i, window.times[i], window.float_starts);
            let current = SampleStart::at(i + 1, window.times[i + 1], window.float_starts);
            if overlaps(previous, current) {
                annotations.add(Annotation::StartTimeOverlap(annotations.metric_name()));
            }
            if pair[1] < pair[0] || is_restart(previous, current) {
                increase += pair[0];
            }
        }
    }
    let edges = (window.start_ms, window.end_ms);
    let mut interval = SampledInterval::new(edges, first_ms, last_ms, window.floats.len());
    match start_within(window.float_starts, window.start_ms, first_ms) {
        Some(start) if kind.counter => {
            interval.start_at(start, last_ms);
            increase += first;
        }
        _ if window.floats.len() < 2 => return None,
        _ if kind.counter => interval.clamp_at_zero(first, increase),
        _ => {}
    }
    Some(increase * interval.factor(windows, kind))
}

/// The start of the first sample, if it lies in the window and before that sample.
pub(super) fn start_within(starts: &[i64], window_start: i64, first_ms: i64) -> Option<i64> {
    let start = *starts.first()?;
    (start != 0 && start > window_start && start < first_ms).then_some(start)
}
