//! `resets` and `changes`: how often a counter was reset or a value changed between two samples.

use crate::exec::Values;
use crate::histogram::FloatHistogram;

use super::starts::{SampleStart, is_restart};
use super::view::View;
use super::windows::{Slot, WindowMode};

/// Which transitions count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transition {
    Reset,
    Change,
}

/// A sample of either kind.
#[derive(Clone, Copy)]
struct Sample<'a> {
    value: Value<'a>,
    started: SampleStart,
}

#[derive(Clone, Copy)]
enum Value<'a> {
    Float(f64),
    Histogram(&'a FloatHistogram),
}

impl Transition {
    /// Whether the step from one float to the next counts.
    pub(super) fn of(self, before: f64, after: f64) -> bool {
        match self {
            Self::Reset => after < before,
            Self::Change => after != before && !(after.is_nan() && before.is_nan()),
        }
    }

    fn between(self, previous: &Sample<'_>, current: &Sample<'_>) -> bool {
        match (previous.value, current.value) {
            (Value::Float(before), Value::Float(after)) => {
                let restarted =
                    self == Self::Reset && is_restart(previous.started, current.started);
                restarted || self.of(before, after)
            }
            (Value::Histogram(before), Value::Histogram(after)) => match self {
                Self::Reset => {
                    is_restart(previous.started, current.started) || after.detect_reset(before)
                }
                Self::Change => !after.equals(before),
            },
            _ => true,
        }
    }
}

/// Counts the transitions before each sample of the series once; a window is a difference of
/// counts.
pub(super) fn count(view: &View<'_>, transition: Transition) -> Values {
    let float = |i: usize| Sample {
        value: Value::Float(view.floats[i]),
        started: SampleStart::at(i, view.times[i], &view.starts.floats),
    };
    if view.has_only_floats() {
        let samples = (0..view.floats.len()).map(float);
        return of_windows(view, view.times, &running_count(transition, samples));
    }
    let points = view.histograms.iter().enumerate().map(|(i, point)| Sample {
        value: Value::Histogram(&point.histogram),
        started: SampleStart::at(i, point.time_ms, &view.starts.histograms),
    });
    let mut samples: Vec<_> = (0..view.floats.len()).map(float).chain(points).collect();
    samples.sort_by_key(|sample| sample.started.time);
    let times: Vec<_> = samples.iter().map(|sample| sample.started.time).collect();
    of_windows(
        view,
        &times,
        &running_count(transition, samples.into_iter()),
    )
}

fn running_count<'a>(
    transition: Transition,
    samples: impl Iterator<Item = Sample<'a>>,
) -> Vec<u32> {
    let (mut count, mut previous) = (0, None);
    samples
        .map(|current| {
            let counts = previous.is_some_and(|previous| transition.between(&previous, &current));
            count += u32::from(counts);
            previous = Some(current);
            count
        })
        .collect()
}

/// The differences of the running count over the windows on `times`, floats and histograms
/// together.
fn of_windows(view: &View<'_>, times: &[i64], running: &[u32]) -> Values {
    let mut values = Values::absent(view.steps());
    let points = view.histogram_bounds.slots.iter().copied();
    let points = points.chain(std::iter::repeat(Slot { lo: 0, hi: 0 }));
    let slots = view.bounds.slots.iter().zip(points);
    for (step, ((floats, points), out)) in slots.zip(&mut values.floats).enumerate() {
        // Samples are in time order, so those before a window are its floats and histograms before
        // it.
        let slot = Slot {
            lo: floats.lo + points.lo,
            hi: floats.hi + points.hi,
        };
        let anchor = match view.windows.mode {
            WindowMode::Anchored => anchor(slot.of(times), view.windows.edges(step).0),
            _ => Some(0),
        };
        let running = anchor.and_then(|anchor| slot.of(running).get(anchor..));
        if let Some([first, rest @ ..]) = running {
            *out = f64::from(rest.last().unwrap_or(first) - first);
        }
    }
    values
}

/// The last sample at or before the start of an anchored window, else the first one. None where
/// nothing lies after the start.
fn anchor(times: &[i64], start_ms: i64) -> Option<usize> {
    let inside = times.partition_point(|time| *time <= start_ms);
    (inside < times.len()).then(|| inside.saturating_sub(1))
}
