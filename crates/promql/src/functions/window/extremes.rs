//! `min_over_time`, `max_over_time` and the times of both.

use crate::exec::Values;

use super::view::View;

/// Average samples per window from which extremes of blocks pay off.
const LONG_WINDOW: u64 = 48;
const LANES: usize = 8;

/// Which end of a window's values.
pub(super) trait Extreme {
    /// The identity: every number lies beyond it.
    const NONE: f64;
    /// Whether `a` lies beyond `b`; false for NaN.
    fn beyond(a: f64, b: f64) -> bool;
}

pub(super) struct Maximum;
pub(super) struct Minimum;

impl Extreme for Maximum {
    const NONE: f64 = f64::NEG_INFINITY;

    #[inline]
    fn beyond(a: f64, b: f64) -> bool {
        a > b
    }
}

impl Extreme for Minimum {
    const NONE: f64 = f64::INFINITY;

    #[inline]
    fn beyond(a: f64, b: f64) -> bool {
        a < b
    }
}

/// The extreme of every window; NaN only if a window has nothing else.
pub(super) fn over_time<E: Extreme>(view: &View<'_>) -> Values {
    let is_long = view.bounds.touched >= LONG_WINDOW * view.steps() as u64;
    if !is_long {
        return view.each_of_floats(1, |_, _, window| {
            resolve_infinite::<E>(of_lanes::<E>(window), window)
        });
    }
    // The extremes of blocks of eight are computed once per series; a window combines its blocks
    // and the few samples at its edges. The cost does not depend on the data, unlike that of a
    // monotonic queue.
    let blocks = view.floats.chunks_exact(LANES).map(of_lanes::<E>);
    let blocks: Vec<f64> = blocks.collect();
    view.each_of_floats(1, |step, _, window| {
        let lo = view.bounds.slots[step].lo as usize;
        let head = (lo.next_multiple_of(LANES) - lo).min(window.len());
        let first_block = (lo + head) / LANES;
        let whole = (window.len() - head) / LANES;
        let tail = head + whole * LANES;
        let within = blocks.get(first_block..first_block + whole);
        let mut extreme = of_lanes::<E>(within.unwrap_or_default());
        for value in window[..head].iter().chain(&window[tail..]) {
            extreme = outer::<E>(*value, extreme);
        }
        resolve_infinite::<E>(extreme, window)
    })
}

#[inline]
fn outer<E: Extreme>(value: f64, extreme: f64) -> f64 {
    if E::beyond(value, extreme) {
        value
    } else {
        extreme
    }
}

/// The extreme of the numbers, in independent lanes.
#[inline]
fn of_lanes<E: Extreme>(values: &[f64]) -> f64 {
    let mut lanes = [E::NONE; LANES];
    let mut blocks = values.chunks_exact(LANES);
    for block in &mut blocks {
        for (lane, value) in lanes.iter_mut().zip(block) {
            *lane = outer::<E>(*value, *lane);
        }
    }
    let rest = blocks.remainder().iter();
    let rest = rest.fold(E::NONE, |extreme, value| outer::<E>(*value, extreme));
    lanes
        .iter()
        .fold(rest, |extreme, value| outer::<E>(*value, extreme))
}

/// Distinguishes a window without numbers from one whose extreme is infinite.
#[inline]
fn resolve_infinite<E: Extreme>(extreme: f64, window: &[f64]) -> f64 {
    if extreme == E::NONE {
        first_extreme::<E>(window).map_or(extreme, |(_, value)| value)
    } else {
        extreme
    }
}

/// The first of equal extremes with its position, as Prometheus finds it.
fn first_extreme<E: Extreme>(window: &[f64]) -> Option<(usize, f64)> {
    let mut values = window.iter().copied().enumerate();
    let first = values.next()?;
    Some(values.fold(first, |found, candidate| {
        if E::beyond(candidate.1, found.1) || found.1.is_nan() {
            candidate
        } else {
            found
        }
    }))
}

/// The time of a window's extreme, the last of several, in seconds.
pub(super) fn time_of<E: Extreme>(view: &View<'_>) -> Values {
    view.each_of_floats(1, |_, times, window| {
        let mut found = (times[0], window[0]);
        for (time, value) in times.iter().zip(window) {
            let as_far = E::beyond(*value, found.1) || *value == found.1;
            if as_far || found.1.is_nan() {
                found = (*time, *value);
            }
        }
        found.0 as f64 / 1000.0
    })
}
