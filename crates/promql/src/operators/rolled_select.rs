//! Instant selectors over rolled-up time: the latest sample that is left, at times rounded down to
//! the grid of their level. What is left is the sample at the start of a window and its last one,
//! so on the grid the answer is that of all samples.

use icecore_model::rollup::{Edge, Resolution, WindowColumns, WindowFields};
use icecore_model::{Levels, RolledSamples, SeriesSamples};

use super::select::Picker;
use crate::exec::{ABSENT, Values, is_absent};
use crate::plan::SelectorOutput;
use crate::rollup::RollupNote;

/// The steps whose look-back touches windows.
#[derive(Debug)]
pub(super) struct RolledSteps {
    /// With the times at which they are evaluated.
    list: Vec<(usize, i64)>,
    /// Levels to whose grid some step was rounded.
    rounded: Vec<Resolution>,
}

/// A sample, or the ends of what lies after the start of a window.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Its time, or a millisecond after the start of the window.
    position_ms: i64,
    /// Absent for stale markers.
    first: (i64, f64),
    last: (i64, f64),
    /// A stale marker follows.
    ends_stale: bool,
}

impl Entry {
    fn of_sample(time_ms: i64, value: f64) -> Self {
        Self {
            position_ms: time_ms,
            first: (time_ms, value),
            last: (time_ms, value),
            ends_stale: is_absent(value),
        }
    }
}

impl Picker<'_> {
    /// Sets the values of all steps whose look-back touches windows.
    pub(super) fn fill_rolled(
        &self,
        series: &SeriesSamples,
        rolled: &RolledSamples,
        values: &mut Values,
    ) {
        let steps = self.rolled.get(&rolled.levels, || {
            let steps = self.rolled_steps(&rolled.levels);
            self.report.levels(&rolled.levels);
            let lookbacks = steps.list.iter().map(|(_, at)| {
                let oldest = at.saturating_sub(self.lookback_ms);
                (oldest, at.saturating_add(self.lookahead_ms()))
            });
            self.report.used(&rolled.levels, lookbacks);
            for resolution in &steps.rounded {
                self.report.note(RollupNote::Rounded(*resolution));
            }
            steps
        });
        let (Some((_, first)), Some((_, last))) = (steps.list.first(), steps.list.last()) else {
            return;
        };
        let touched = (
            first.saturating_sub(self.lookback_ms),
            last.saturating_add(self.lookback_ms),
        );
        let entries = entries(series, rolled, touched);
        let mut next = 0;
        for (step, at) in &steps.list {
            while entries
                .get(next)
                .is_some_and(|entry| entry.position_ms <= *at)
            {
                next += 1;
            }
            let value = match self.output {
                SelectorOutput::Smoothed => self.interpolated(&entries, next, *at),
                _ => self.latest(series, &entries[..next], *at),
            };
            match value {
                Some(value) => values.set_float(*step, value),
                // Histograms are not rolled up, so what there is of them is all.
                None if values.histogram(*step).is_some() => {}
                None => values.clear(*step),
            }
        }
    }

    /// How far after a step samples matter.
    fn lookahead_ms(&self) -> i64 {
        match self.output {
            SelectorOutput::Smoothed => self.lookback_ms,
            _ => 0,
        }
    }

    fn rolled_steps(&self, levels: &Levels) -> RolledSteps {
        let mut steps = RolledSteps {
            list: Vec::new(),
            rounded: Vec::new(),
        };
        let ahead_ms = self.lookahead_ms();
        for (step, time) in self.grid.times().enumerate() {
            let moment = time.saturating_sub(self.offset_ms);
            let (level, at) = (levels.at(moment), levels.floor(moment));
            let oldest = at.saturating_sub(self.lookback_ms);
            if level.is_raw() && !levels.is_rolled(oldest, at.saturating_add(ahead_ms)) {
                continue;
            }
            if at != moment && !steps.rounded.contains(&level) {
                steps.rounded.push(level);
            }
            steps.list.push((step, at));
        }
        steps
    }

    fn latest(&self, series: &SeriesSamples, until: &[Entry], at: i64) -> Option<f64> {
        let latest = until.last()?;
        let (time, value) = latest.last;
        if latest.ends_stale || time <= at.saturating_sub(self.lookback_ms) {
            return None;
        }
        Some(match self.output {
            SelectorOutput::Value | SelectorOutput::Smoothed => value,
            SelectorOutput::Timestamp | SelectorOutput::StartTimestamp => {
                self.time_value(series, time)
            }
        })
    }

    /// The value between the samples around a time; `next` is the first entry after it. Stale
    /// markers do not matter here.
    fn interpolated(&self, entries: &[Entry], next: usize, at: i64) -> Option<f64> {
        let is_fresh = |(_, value): &(i64, f64)| !is_absent(*value);
        let oldest = at.saturating_sub(self.lookback_ms);
        let newest = at.saturating_add(self.lookback_ms);
        let mut before = entries[..next].iter().rev().map(|entry| entry.last);
        let (t0, v0) = before.find(is_fresh).filter(|(t, _)| *t > oldest)?;
        if t0 == at {
            return Some(v0);
        }
        let mut after = entries[next..].iter().map(|entry| entry.first);
        let after = after.find(is_fresh).filter(|(t, _)| *t <= newest);
        Some(after.map_or(v0, |(t1, v1)| {
            v0 + (v1 - v0) * at.abs_diff(t0) as f64 / t1.abs_diff(t0) as f64
        }))
    }
}

/// The entries of a series in time order; samples only after the first and up to the second time.
fn entries(
    series: &SeriesSamples,
    rolled: &RolledSamples,
    (after, until): (i64, i64),
) -> Vec<Entry> {
    let windows: usize = rolled.windows.iter().map(WindowColumns::len).sum();
    let mut entries = Vec::with_capacity(windows);
    let (times, floats) = (&series.floats.timestamps, &series.floats.values);
    let before = |moment: i64| times.partition_point(|time| *time < moment);
    let push_samples = |entries: &mut Vec<Entry>, from: i64, to: i64| {
        let range =
            before(from.max(after.saturating_add(1)))..before(to.min(until.saturating_add(1)));
        let samples = times.get(range.clone()).zip(floats.get(range));
        let samples = samples
            .into_iter()
            .flat_map(|(times, floats)| times.iter().zip(floats));
        entries.extend(samples.map(|(time, value)| Entry::of_sample(*time, *value)));
    };
    let mut raw_from = i64::MIN;
    for (segment, windows) in rolled.segments() {
        push_samples(&mut entries, raw_from, segment.start_ms);
        push_windows(&mut entries, windows);
        raw_from = segment.end_ms;
    }
    push_samples(&mut entries, raw_from, i64::MAX);
    entries
}

fn push_windows(entries: &mut Vec<Entry>, columns: &WindowColumns) {
    if !columns
        .fields
        .contains(WindowFields::COUNTS | WindowFields::LAST)
    {
        return;
    }
    for (index, start_ms) in columns.starts.iter().enumerate() {
        match columns.edges[index] {
            Edge::None => {}
            Edge::Sample(value) => entries.push(Entry::of_sample(*start_ms, value)),
            Edge::Stale => entries.push(Entry::of_sample(*start_ms, ABSENT)),
        }
        let has_samples = columns.numbers[index] | columns.nans[index] != 0;
        let ends_stale = columns.ends_stale[index];
        if !has_samples && !ends_stale {
            continue;
        }
        let position_ms = start_ms.saturating_add(1);
        let stale = (position_ms, ABSENT);
        let at = |times: &[i64], values: &[f64]| match (times.get(index), values.get(index)) {
            (Some(time), Some(value)) if has_samples => (*time, *value),
            _ => stale,
        };
        let last = at(&columns.last_ms, &columns.last);
        entries.push(Entry {
            position_ms,
            first: at(&columns.first_ms, &columns.first),
            last,
            ends_stale,
        });
    }
}
