//! What a database that keeps everything would hold: samples that follow from their times, those
//! that came late, and what was deleted.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use icecore_model::retention::{RetentionClass, RetentionPolicy};
use icecore_model::rollup::Resolution;
use icecore_model::{CUSTOM_BUCKETS_SCHEMA, Labels, STALE_NAN_BITS};

use crate::faults::Dice;
use crate::rollup::{FIVE, HOURLY, RAW, START};
use crate::rollup_histograms::{Value, histogram};
use crate::support::HOUR;

/// Series are absent for such parts of time now and then.
const PART: i64 = 6 * HOUR;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Counter,
    Gauge,
    Histogram,
    CustomHistogram,
    /// Floats for some hours, then histograms.
    Mixed,
}

/// A series whose samples follow from their times.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) interval_ms: i64,
    /// How far its samples lie behind the grid.
    pub(super) phase_ms: i64,
    pub(super) seed: u64,
}

impl Shape {
    fn dice(&self, at: i64) -> u64 {
        Dice(self.seed ^ (at as u64).wrapping_mul(0x517c_c1b7_2722_0a95)).below(1 << 32)
    }

    /// Which times of a policy hold for it.
    pub(super) fn class(&self, policy: &RetentionPolicy) -> RetentionClass {
        let labels = [("__name__", "m"), ("series", self.name.as_str())];
        policy.class_of(&Labels::from_pairs(labels))
    }

    fn is_absent(&self, part: i64) -> bool {
        self.dice(-part).is_multiple_of(9)
    }

    /// The sample at a time of the grid of the series. Sums of values are exact, so that it does
    /// not matter which windows were made of which.
    fn value(&self, time: i64) -> Option<Value> {
        let part = time.div_euclid(PART);
        if self.is_absent(part) {
            let before = (time - self.interval_ms).div_euclid(PART);
            let ends = before != part && !self.is_absent(before);
            return ends.then_some(Value::Float(f64::from_bits(STALE_NAN_BITS)));
        }
        let step = time.div_euclid(self.interval_ms);
        let is_float = match self.kind {
            Kind::Counter | Kind::Gauge => true,
            Kind::Histogram | Kind::CustomHistogram => false,
            Kind::Mixed => part % 2 == 0,
        };
        Some(if is_float {
            Value::Float(match self.kind {
                Kind::Counter => (step % 1_111) as f64,
                _ => self.dice(time).rem_euclid(4096) as f64 / 8.0,
            })
        } else {
            let n = step % 777;
            let schema = match (self.kind, part % 3) {
                (Kind::CustomHistogram, _) => CUSTOM_BUCKETS_SCHEMA,
                (_, 0) => 1,
                _ => 3,
            };
            Value::Histogram(Arc::new(histogram(schema, [n, 2 * n, 3 * n + 1])))
        })
    }
}

#[derive(Clone, Debug)]
pub(super) struct Series {
    pub(super) shape: Shape,
    late: BTreeMap<i64, Value>,
    deleted: Vec<Range<i64>>,
    /// Hours of which some was deleted: of windows there more may be gone, because those go whole
    /// where samples have gone before.
    ragged: BTreeSet<i64>,
    /// Hours that got something when their samples may have been gone: windows there have what does
    /// not depend on the order of samples.
    merged: BTreeSet<i64>,
    pub(super) promises: Promises,
}

impl Series {
    pub(super) fn new(shape: Shape) -> Self {
        Self {
            shape,
            late: BTreeMap::new(),
            deleted: Vec::new(),
            ragged: BTreeSet::new(),
            merged: BTreeSet::new(),
            promises: Promises::since(START),
        }
    }

    /// A sample that was written long after its time.
    pub(super) fn add(&mut self, time: i64, value: Value) {
        self.late.insert(time, value);
    }

    /// The same where it may be merged into windows.
    pub(super) fn merge(&mut self, time: i64, value: Value) {
        self.add(time, value);
        self.merged.insert(time.div_euclid(HOUR));
    }

    /// Whether something may have been merged into the windows of an hour.
    pub(super) fn is_merged(&self, time: i64) -> bool {
        self.merged.contains(&time.div_euclid(HOUR))
    }

    /// Whether there is, or was, a sample at a time.
    pub(super) fn knows(&self, time: i64) -> bool {
        self.late.contains_key(&time) || self.regular(time..time + 1).next().is_some()
    }

    pub(super) fn delete(&mut self, range: Range<i64>) {
        self.late.retain(|time, _| !range.contains(time));
        let ends = [range.start, range.end];
        let inside = ends.into_iter().filter(|end| end.rem_euclid(HOUR) != 0);
        self.ragged.extend(inside.map(|end| end.div_euclid(HOUR)));
        self.deleted.push(range);
    }

    /// Whether more than what was asked for may be gone from windows.
    pub(super) fn is_ragged(&self, time: i64) -> bool {
        self.ragged.contains(&time.div_euclid(HOUR))
    }

    /// What is written on time, in time order.
    pub(super) fn regular(&self, range: Range<i64>) -> impl Iterator<Item = (i64, Value)> {
        let (interval, phase) = (self.shape.interval_ms, self.shape.phase_ms);
        let first = (range.start - phase + interval - 1).div_euclid(interval) * interval + phase;
        let times = (first..range.end).step_by(interval as usize);
        times.filter_map(|time| Some((time, self.shape.value(time)?)))
    }

    /// All samples of a range, where `written` is what was written on time.
    fn samples(&self, range: Range<i64>, written: &Range<i64>) -> Vec<(i64, Value)> {
        let start = range.start.max(written.start);
        let end = range.end.min(written.end).max(start);
        let deleted = self.deleted.iter();
        let deleted: Vec<&Range<i64>> = deleted
            .filter(|deleted| deleted.start < end && deleted.end > start)
            .collect();
        let is_left = |time: &i64| {
            !self.late.contains_key(time) && !deleted.iter().any(|range| range.contains(time))
        };
        let regular = self.regular(start..end).filter(|(time, _)| is_left(time));
        let late = self.late.range(range);
        let late = late.map(|(time, value)| (*time, value.clone()));
        let mut samples: Vec<(i64, Value)> = regular.chain(late).collect();
        samples.sort_by_key(|(time, _)| *time);
        samples
    }
}

/// All series, and what was promised to be kept of them.
#[derive(Clone, Debug)]
pub(super) struct Model {
    pub(super) series: Vec<Series>,
    /// What was written on time.
    pub(super) written: Range<i64>,
    /// Of series that no override matches.
    pub(super) promises: Promises,
}

impl Model {
    pub(super) fn samples(&self, series: &Series, range: Range<i64>) -> Vec<(i64, Value)> {
        series.samples(range, &self.written)
    }

    /// A policy holds at a time.
    pub(super) fn hold(&mut self, policy: &RetentionPolicy, now_ms: i64) {
        self.promises.hold(policy, RetentionClass::DEFAULT, now_ms);
        for series in &mut self.series {
            let class = series.shape.class(policy);
            series.promises.hold(policy, class, now_ms);
        }
    }
}

/// Since when each level has been kept without a pause, whatever the policies were.
#[derive(Clone, Debug)]
pub(super) struct Promises(BTreeMap<Resolution, i64>);

impl Promises {
    pub(super) fn since(start_ms: i64) -> Self {
        let one_minute = Resolution::from_name("1m").unwrap();
        Self(
            [RAW, one_minute, FIVE, HOURLY]
                .map(|r| (r, start_ms))
                .into(),
        )
    }

    /// A policy holds at a time. A level that it does not name is kept for as long as the next
    /// finer one that it names.
    fn hold(&mut self, policy: &RetentionPolicy, class: RetentionClass, now_ms: i64) {
        let this_hour_ms = now_ms.div_euclid(HOUR) * HOUR;
        let mut retain_ms = None;
        for (resolution, since_ms) in &mut self.0 {
            if policy.level(*resolution).is_some() {
                retain_ms = policy.retain(class, *resolution).ms();
            }
            let expired_ms = retain_ms.map(|retain_ms| this_hour_ms - retain_ms);
            *since_ms = expired_ms.unwrap_or(*since_ms).max(*since_ms);
        }
    }

    /// The coarsest level that may be the finest one at a time.
    pub(super) fn finest(&self, time: i64) -> Option<Resolution> {
        let mut kept = self.0.iter();
        kept.find_map(|(level, since_ms)| (time >= *since_ms).then_some(*level))
    }

    /// What is older may have gone from a level.
    pub(super) fn kept_since(&self, resolution: Resolution) -> i64 {
        self.0[&resolution]
    }

    /// What is older may have gone.
    pub(super) fn gone_ms(&self) -> i64 {
        self.0.values().copied().min().unwrap()
    }
}
