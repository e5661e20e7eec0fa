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
use icecore_model::{Labels, Levels, Reservation, SeriesSamples};
use rayon::prelude::*;

use super::annotations::AnnotatedSeries;
use super::dense::Grid;
use super::downsample::Downsampling;
use super::downsampler::Interval;
use super::group::{Aggregation, Group, ResultSeries};
use super::renamed::{Parts, has_renames};
use super::request::{PlannedSubQuery, RollupUsage};
use super::rolled::RolledReport;
use super::selector::Selector;
use super::series_key::{NameKey, SeriesKey};
use super::steps::{Selected, Steps};
use super::window::{Scan, Window};
use crate::allowance::{Allowance, out_of_memory};
use crate::error::Error;
use crate::uid::Uids;

pub(crate) struct Execution<'a> {
    steps: Steps<'a>,
    aggregation: Aggregation<'a>,
    /// By the values of the keys that group, or by series.
    groups: BTreeMap<Vec<NameKey>, Group>,
    /// All series, where some are stored in parts.
    parts: Option<Parts>,
    annotated: Vec<AnnotatedSeries>,
    /// The labels under which series are stored, where they are asked for.
    stored: Option<Vec<Labels>>,
    points_read: u64,
    report: RolledReport,
    limits: Limits,
    held: isize,
    memory: Reservation,
}

/// What an execution needs besides the sub query.
pub(crate) struct Surroundings<'a> {
    pub(crate) uids: &'a Uids,
    pub(crate) window: Window,
    pub(crate) scan: Scan,
    pub(crate) limits: Limits,
    pub(crate) allowance: &'a Allowance,
    pub(crate) annotated: Vec<AnnotatedSeries>,
    /// Whether it is to be remembered how series are stored.
    pub(crate) keeps_stored: bool,
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
        selector: Selector,
        planned: &PlannedSubQuery,
        around: Surroundings<'a>,
    ) -> Result<Self, Error> {
        let Surroundings {
            uids, window, scan, ..
        } = around;
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
                shows_samples: planned.asked.rollup_usage != Some(RollupUsage::Raw),
            },
            aggregation: Aggregation {
                aggregator: planned.aggregator,
                grid,
                output: window,
                allowance: around.allowance,
            },
            groups: BTreeMap::new(),
            parts: has_renames(uids).then(Parts::default),
            annotated: around.annotated,
            stored: around.keeps_stored.then(Vec::new),
            points_read: 0,
            report: RolledReport::default(),
            limits: around.limits,
            held: 0,
            memory: around.allowance.reserve(0)?,
        })
    }

    /// Learns which levels series come from, before any of them.
    pub(crate) fn begin(&mut self, levels: &[Arc<Levels>]) {
        if self.steps.downsampling.is_some() {
            // Rows of other intervals than that of the query are not known before.
            self.aggregation.grid.take_if(|_| !self.steps.fit(levels));
        } else if self.steps.shows_samples {
            for levels in levels {
                self.report.add_levels(levels, self.steps.scan);
            }
            self.report.is_thinned = !self.report.is_empty();
        }
    }

    /// The same for series that are downsampled before they come here.
    pub(crate) fn begin_averages(&mut self, levels: &[Arc<Levels>]) {
        for levels in levels {
            self.report.add_levels(levels, self.steps.scan);
        }
        self.report.is_estimate |= !self.steps.fit(levels);
    }

    /// Takes the next series.
    pub(crate) fn add(&mut self, batch: Vec<SeriesSamples>) -> Result<(), Error> {
        self.aggregation.allowance.check()?;
        let (steps, is_renamed) = (&self.steps, self.parts.is_some());
        let selected = batch.into_par_iter().filter_map(|samples| {
            let stored = samples.labels.clone();
            let selected = steps.select(samples, is_renamed)?;
            Some((stored, selected))
        });
        let (stored, selected): (Vec<Labels>, Vec<Selected>) = selected.unzip();
        if let Some(known) = &mut self.stored {
            known.extend(stored);
        }
        self.count(&selected)?;
        match &mut self.parts {
            None => self.add_series(selected),
            Some(parts) => {
                let bytes = selected.iter().map(Selected::heap_bytes);
                self.held += bytes.sum::<usize>() as isize;
                selected.into_iter().for_each(|part| parts.add(part));
                self.reserve()
            }
        }
    }

    fn add_series(&mut self, selected: Vec<Selected>) -> Result<(), Error> {
        for rolled in selected.iter().filter_map(|series| series.rolled.as_ref()) {
            self.steps.report(rolled, &mut self.report);
        }
        let prepared = self.steps.prepare(selected)?;
        for Selected {
            key,
            labels,
            points,
            ..
        } in prepared
        {
            let group = self.group_of(&key, &labels);
            let group = self.groups.entry(group).or_default();
            self.held += group.add(key, labels, points, &self.aggregation);
        }
        self.reserve()
    }

    fn reserve(&mut self) -> Result<(), Error> {
        let held = usize::try_from(self.held).unwrap_or(0);
        self.memory.set(held).map_err(out_of_memory)
    }

    /// All results, in the order of the groups, and under which labels their series are stored.
    pub(crate) fn finish(mut self) -> Result<(Vec<ResultSeries>, Vec<Labels>), Error> {
        if let Some(parts) = self.parts.take() {
            self.add_series(parts.into_series())?;
        }
        for series in std::mem::take(&mut self.annotated) {
            if self.steps.selector.accepts(&series.labels, &series.key) {
                let group = self.group_of(&series.key, &series.labels);
                self.groups.entry(group).or_default().annotate(series.notes);
            }
        }
        let groups: Vec<Group> = self.groups.into_values().collect();
        let (metric, uids) = (&self.steps.selector.metric, self.steps.uids);
        let finish = |group: Group| group.finish(metric, uids, &self.aggregation);
        let mut results: Vec<ResultSeries> = groups
            .into_par_iter()
            .map(finish)
            .collect::<Result<_, _>>()?;
        if !self.report.is_empty() {
            let report = Arc::new(self.report);
            let say = |series: &mut ResultSeries| series.levels = Some(Arc::clone(&report));
            results.iter_mut().for_each(say);
        }
        Ok((results, self.stored.unwrap_or_default()))
    }

    fn count(&mut self, selected: &[Selected]) -> Result<(), Error> {
        let windows = |series: &Selected| series.rolled.as_ref().map_or(0, |r| r.windows_len());
        let points = selected.iter().map(|s| s.points.len() + windows(s));
        self.points_read += points.sum::<usize>() as u64;
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
        self.steps.selector.group_of(self.steps.uids, labels)
    }
}
