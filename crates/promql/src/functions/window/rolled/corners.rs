//! Anchored and smoothed ranges: their values at both ends are those of the nearest samples, or
//! interpolated between two. Both are real samples, so ranges on the grid are exact.

use super::super::rate::RateKind;
use super::growth::Growth;

/// The samples around a range that are within the look-back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Neighbours {
    /// At the start of the range or before it.
    pub(super) before: Option<(i64, f64)>,
    pub(super) after: Option<(i64, f64)>,
}

/// The increase since the last sample before the range.
pub(super) fn anchored(within: Growth, around: &Neighbours, kind: RateKind) -> Option<f64> {
    let Some((_, start)) = around.before else {
        return Some(within.last - within.first + within.lost);
    };
    let lost = lost_between(start, within.first, kind);
    Some(within.last - start + within.lost + lost)
}

/// The increase between the values interpolated at both ends.
pub(super) fn smoothed(
    within: Option<Growth>,
    around: &Neighbours,
    (after_ms, until_ms): (i64, i64),
    kind: RateKind,
) -> Option<f64> {
    let between = |(before_ms, before): (i64, f64), (next_ms, next): (i64, f64), at: i64| {
        // A counter that was reset in between started at zero.
        let before = if kind.counter && next < before {
            0.0
        } else {
            before
        };
        let elapsed = at.saturating_sub(before_ms) as f64;
        before + (next - before) * elapsed / next_ms.saturating_sub(before_ms) as f64
    };
    let Some(within) = within else {
        let (before, next) = (around.before?, around.after?);
        let start = if before.0 < after_ms {
            between(before, next, after_ms)
        } else {
            before.1
        };
        let end = between(before, next, until_ms);
        return Some(end - start + lost_between(start, end, kind));
    };
    let first = (within.first_ms, within.first);
    let start = match around.before {
        Some(before) if before.0 < after_ms => between(before, first, after_ms),
        Some((_, value)) => value,
        None => within.first,
    };
    let end = match around.after {
        Some(next) if within.last_ms < until_ms => {
            between((within.last_ms, within.last), next, until_ms)
        }
        _ => within.last,
    };
    let lost = lost_between(start, within.first, kind)
        + within.lost
        + lost_between(within.last, end, kind);
    Some(end - start + lost)
}

fn lost_between(before: f64, after: f64, kind: RateKind) -> f64 {
    if kind.counter && after < before {
        before
    } else {
        0.0
    }
}
