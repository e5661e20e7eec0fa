//! Samples of cumulative views: what a series has added up to since Monday.
//!
//! ```text
//!  0 at the start of the first interval │ a sample at the end of each, less 1 ms │ one of now
//! ```

use std::collections::HashMap;

use icecore_model::event::{EventWindow, Week};
use icecore_model::{FloatColumns, TimeColumn};

use super::load::{Point, ViewRange};
use super::resolution::week_segments;
use super::resolve::{AliveWeek, Family, ResolvedSeries};
use crate::Metric;

const WEEK_S: i64 = 7 * 86_400;

/// Times of samples, shared by the series that have the same.
pub(super) struct CumulativeTimes {
    range: ViewRange,
    /// Of a metric and week, for a series that was there before.
    of_weeks: HashMap<(u32, i64), Vec<i64>>,
    columns: HashMap<(u32, Vec<WeekBeginning>), TimeColumn>,
}

/// How a series begins in a week of a selection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct WeekBeginning {
    start_s: i64,
    /// A sample of 0 on Monday.
    begins_anew: bool,
    /// When the first interval begins, if that is in the range.
    first_ms: Option<i64>,
}

impl CumulativeTimes {
    pub(super) fn new(range: ViewRange) -> Self {
        Self {
            range,
            of_weeks: HashMap::new(),
            columns: HashMap::new(),
        }
    }

    /// The times of a series.
    pub(super) fn of(&mut self, family: &Family, series: &ResolvedSeries) -> TimeColumn {
        let Some(first) = series.parts.first() else {
            return TimeColumn::default();
        };
        let metric = &family.views[first.view].0.metric;
        let beginnings = self.beginnings(&united_weeks(family, series));
        let key = (metric.number, beginnings);
        if let Some(column) = self.columns.get(&key) {
            return column.clone();
        }
        let mut times = Vec::new();
        for beginning in &key.1 {
            self.push_week(metric, beginning, &mut times);
        }
        let column = TimeColumn::from(times);
        self.columns.insert(key, column.clone());
        column
    }

    /// The weeks of the range in which a series is there.
    fn beginnings(&self, weeks: &[AliveWeek]) -> Vec<WeekBeginning> {
        let range = &self.range;
        let is_in_range = |at_ms: &i64| (range.start_ms..=range.last_ms()).contains(at_ms);
        let beginning = |week: &AliveWeek| {
            let (start_ms, first_ms) = (week.start_s * 1000, week.first_s * 1000);
            let before = |other: &AliveWeek| other.start_s + WEEK_S == week.start_s;
            let begins_anew = week.first_s > week.start_s && weeks.iter().any(before);
            let is_there = start_ms + WEEK_S * 1000 > range.start_ms && first_ms <= range.last_ms();
            let beginning = WeekBeginning {
                start_s: week.start_s,
                begins_anew: begins_anew && is_in_range(&start_ms),
                first_ms: Some(first_ms).filter(|at| *at >= range.start_ms),
            };
            (is_there || beginning.begins_anew).then_some(beginning)
        };
        weeks.iter().filter_map(beginning).collect()
    }

    fn push_week(&mut self, metric: &Metric, beginning: &WeekBeginning, times: &mut Vec<i64>) {
        let range = self.range;
        let start_s = beginning.start_s;
        let of_week = self
            .of_weeks
            .entry((metric.number, start_s))
            .or_insert_with(|| week_times(metric, Week::of(start_s), range));
        if beginning.begins_anew {
            times.push(start_s * 1000);
        }
        let Some(first_ms) = beginning.first_ms else {
            times.extend_from_slice(of_week);
            return;
        };
        if first_ms > range.last_ms() {
            return;
        }
        times.push(first_ms);
        let from = of_week.partition_point(|at| *at <= first_ms);
        times.extend_from_slice(&of_week[from..]);
    }
}

/// The ends of all intervals of a week that lie in the range, and now.
fn week_times(metric: &Metric, week: Week, range: ViewRange) -> Vec<i64> {
    let last_ms = range.last_ms();
    let mut times = Vec::new();
    for segment in week_segments(metric, range.step, week, range.guarded_ms) {
        // Cells may be further apart than an instant selector looks back.
        let step = segment.window.min(range.step.max(EventWindow::Minute));
        let step = if segment.window > range.step {
            step
        } else {
            segment.window
        };
        let at_start = step.start_of(range.start_ms.div_euclid(1000));
        let mut end_s = segment.start_s.max(at_start) + step.seconds();
        while end_s <= segment.end_s && end_s * 1000 - 1 <= last_ms {
            times.push(end_s * 1000 - 1);
            end_s += step.seconds();
        }
    }
    let is_of_week = |at_ms: &i64| (week.start_s() * 1000..week.end_s() * 1000).contains(at_ms);
    let now_ms = Some(range.now_ms).filter(is_of_week);
    let now_ms = now_ms.filter(|now| (range.start_ms..=range.end_ms).contains(now));
    if let Some(now_ms) = now_ms.filter(|now| times.last().is_none_or(|last| last < now)) {
        times.push(now_ms);
    }
    times.retain(|at| *at >= range.start_ms);
    times
}

/// The weeks of all parts of a series.
fn united_weeks(family: &Family, series: &ResolvedSeries) -> Vec<AliveWeek> {
    let mut weeks: Vec<AliveWeek> = Vec::new();
    for part in &series.parts {
        weeks.extend_from_slice(family.weeks(part));
    }
    weeks.sort_unstable_by_key(|week| (week.start_s, week.first_s));
    weeks.dedup_by_key(|week| week.start_s);
    weeks
}

/// The samples of a series at these times.
pub(super) fn cumulative_samples(timestamps: TimeColumn, points: &[Point]) -> FloatColumns {
    let mut values = Vec::with_capacity(timestamps.len());
    let mut rest = points.iter().peekable();
    let mut week = None;
    let mut total = 0.0;
    for at_ms in timestamps.iter() {
        let of_time = Week::of(at_ms.div_euclid(1000));
        if week != Some(of_time) {
            week = Some(of_time);
            total = 0.0;
            let start_ms = of_time.start_s() * 1000;
            while rest.next_if(|(end_ms, _)| *end_ms < start_ms).is_some() {}
        }
        while let Some((_, value)) = rest.next_if(|(end_ms, _)| end_ms <= at_ms) {
            total += value;
        }
        values.push(total);
    }
    FloatColumns { timestamps, values }
}
