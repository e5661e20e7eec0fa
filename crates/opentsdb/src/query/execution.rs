//! A sub query at work: batches of series go in, results come out. Nothing here waits, so that it
//! can run wherever there is a processor.
//!
//! ```text
//! batch ─► points ─► downsampled ─► rated ─┬─► group: running aggregate (same rows for all)
//!                (in parallel)             └─► group: points are kept ─► rows at the end
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use http::StatusCode;
use icecore_model::{Labels, MemoryBudget, OutOfMemory, Reservation, SeriesSamples};
use rayon::prelude::*;

use super::dense::Grid;
use super::downsample::{Downsampling, SharedBuckets};
use super::downsampler::Interval;
use super::group::{Aggregation, Group, ResultSeries};
use super::points::SeriesPoints;
use super::rate::RateOptions;
use super::request::PlannedSubQuery;
use super::selector::Selector;
use super::series_key::{NameKey, SeriesKey};
use super::window::{Scan, Window};
use crate::error::Error;
use crate::uid::{UidKind, Uids};

pub(crate) struct Execution<'a> {
    steps: Steps<'a>,
    aggregation: Aggregation,
    /// By the values of the keys that group, or by series.
    groups: BTreeMap<Vec<NameKey>, Group>,
    points_read: u64,
    limits: Limits,
    held: isize,
    memory: Reservation,
}

/// What happens to each series before it meets others.
struct Steps<'a> {
    uids: &'a Uids,
    selector: Selector,
    downsampling: Option<Downsampling>,
    rate: Option<RateOptions>,
    scan: Scan,
}

/// A series with what it is ordered by.
struct Selected {
    key: SeriesKey,
    labels: Labels,
    points: SeriesPoints,
}

/// What a sub query may read; 0 is no limit.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Limits {
    pub(crate) points: u64,
    pub(crate) bytes: u64,
}

/// Bytes of a point for the limit: its time and its value.
const POINT_BYTES: u64 = 16;

impl<'a> Execution<'a> {
    pub(crate) fn new(
        uids: &'a Uids,
        selector: Selector,
        planned: &PlannedSubQuery,
        (window, scan): (Window, Scan),
        limits: Limits,
        memory: &Arc<MemoryBudget>,
    ) -> Result<Self, Error> {
        let downsampler = planned.downsampler.clone();
        let grid = match downsampler.as_ref().map(|d| &d.interval) {
            Some(Interval::Fixed(length)) if planned.aggregator.is_commutative() => {
                Grid::new(*length, window)
            }
            _ => None,
        };
        let downsampling = downsampler.map(|d| Downsampling::new(d, window, scan));
        Ok(Self {
            steps: Steps {
                uids,
                selector,
                downsampling: downsampling.transpose()?,
                rate: planned.rate,
                scan,
            },
            aggregation: Aggregation {
                aggregator: planned.aggregator,
                grid,
                output: window,
            },
            groups: BTreeMap::new(),
            points_read: 0,
            limits,
            held: 0,
            memory: memory.reserve(0).map_err(out_of_memory)?,
        })
    }

    /// Takes the next series.
    pub(crate) fn add(&mut self, batch: Vec<SeriesSamples>) -> Result<(), Error> {
        let steps = &self.steps;
        let selected = batch
            .into_par_iter()
            .filter_map(|samples| steps.select(samples));
        let selected: Vec<Selected> = selected.collect();
        self.count(&selected)?;
        let steps = &self.steps;
        let buckets = steps.shared_buckets(&selected);
        let prepared = selected.into_par_iter().map(|series| {
            let points = steps.prepare(series.points, &buckets)?;
            Ok::<_, Error>(Selected { points, ..series })
        });
        let prepared: Vec<Selected> = prepared.collect::<Result<_, _>>()?;
        for Selected {
            key,
            labels,
            points,
        } in prepared
        {
            let group = self.group_of(&key, &labels);
            let group = self.groups.entry(group).or_default();
            self.held += group.add(key, labels, points, &self.aggregation);
        }
        let held = usize::try_from(self.held).unwrap_or(0);
        self.memory.set(held).map_err(out_of_memory)
    }

    /// All results, in the order of the groups.
    pub(crate) fn finish(self) -> Vec<ResultSeries> {
        let groups: Vec<Group> = self.groups.into_values().collect();
        let (metric, uids) = (&self.steps.selector.metric, self.steps.uids);
        let finish = |group: Group| group.finish(metric, uids, &self.aggregation);
        groups.into_par_iter().map(finish).collect()
    }

    fn count(&mut self, selected: &[Selected]) -> Result<(), Error> {
        let points = selected.iter().map(|series| series.points.len() as u64);
        self.points_read += points.sum::<u64>();
        let exceeds = |read: u64, limit: u64| limit > 0 && read > limit;
        let advice = "Please try filtering using more tags or decrease your time range.";
        let problem = "Sorry, you have attempted to fetch more than our limit of";
        let Limits { points, bytes } = self.limits;
        let message = if exceeds(self.points_read, points) {
            format!("{problem} {points} data points. {advice}")
        } else if exceeds(self.points_read * POINT_BYTES, bytes) {
            format!("{problem} {} MB. {advice}", bytes >> 20)
        } else {
            return Ok(());
        };
        Err(Error::new(StatusCode::PAYLOAD_TOO_LARGE, message))
    }

    fn group_of(&self, key: &SeriesKey, labels: &Labels) -> Vec<NameKey> {
        if self.aggregation.aggregator.is_none() {
            let pairs = key.0.iter().cloned();
            return pairs.flat_map(|(tagk, tagv)| [tagk, tagv]).collect();
        }
        let tagvs = self.steps.uids.read(UidKind::Tagv);
        let value = |tagk: &String| NameKey::of(&tagvs, labels.get(tagk).unwrap_or_default());
        self.steps.selector.group_by.iter().map(value).collect()
    }
}

impl Steps<'_> {
    /// The points of a series that is asked for and has some.
    fn select(&self, samples: SeriesSamples) -> Option<Selected> {
        let labels = samples.labels.clone();
        let key = SeriesKey::of(&labels, self.uids);
        if !self.selector.accepts(&labels, &key) {
            return None;
        }
        let points = SeriesPoints::of(samples);
        let selected = Selected {
            key,
            labels,
            points,
        };
        (!selected.points.is_empty()).then_some(selected)
    }

    /// The buckets of each column of times, computed once for all series that share it.
    fn shared_buckets(&self, selected: &[Selected]) -> SharedBuckets {
        let Some(downsampling) = &self.downsampling else {
            return SharedBuckets::new();
        };
        let columns = selected.iter().map(|series| &series.points.times);
        let columns: std::collections::HashMap<_, _> =
            columns.map(|times| (times.identity(), times)).collect();
        let buckets = columns.into_par_iter().map(|(identity, times)| {
            let buckets = downsampling.buckets(times);
            (identity, Arc::new(buckets))
        });
        buckets.collect()
    }

    fn prepare(&self, points: SeriesPoints, shared: &SharedBuckets) -> Result<SeriesPoints, Error> {
        let points = match &self.downsampling {
            None => points,
            Some(downsampling) => match shared.get(&points.times.identity()) {
                Some(buckets) => downsampling.apply(&points.values, buckets)?,
                None => downsampling.apply(&points.values, &downsampling.buckets(&points.times))?,
            },
        };
        Ok(match &self.rate {
            None => points.starting_at(self.scan.start_ms),
            Some(rate) => rate.apply(&points, self.scan.start_ms),
        })
    }
}

pub(crate) fn out_of_memory(error: OutOfMemory) -> Error {
    Error::new(StatusCode::PAYLOAD_TOO_LARGE, error.to_string())
}
