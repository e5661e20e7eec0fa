//! What happens to each series before it meets others: points and windows, downsampled, as rates.
//!
//! Holds always: what depends on times alone is computed once for the series of a batch that share
//! them.

use std::collections::HashMap;
use std::sync::Arc;

use icecore_model::{Labels, Levels, SeriesSamples};
use rayon::prelude::*;

use super::downsample::{Downsampling, SharedBuckets};
use super::points::SeriesPoints;
use super::rate::RateOptions;
use super::renamed::current_labels;
use super::rolled::{RolledBuckets, RolledKey, RolledPoints, RolledReport};
use super::selector::Selector;
use super::series_key::SeriesKey;
use super::window::Scan;
use crate::error::Error;
use crate::uid::Uids;

/// What happens to each series before it meets others.
pub(super) struct Steps<'a> {
    pub(super) uids: &'a Uids,
    pub(super) selector: Selector,
    pub(super) downsampling: Option<Downsampling>,
    pub(super) rate: Option<RateOptions>,
    pub(super) scan: Scan,
    /// Of rolled-up time the samples that are left are read.
    pub(super) shows_samples: bool,
}

/// The buckets of columns that series of a batch share.
type SharedRolled = HashMap<RolledKey, Arc<RolledBuckets>>;

/// A series with what it is ordered by.
pub(super) struct Selected {
    pub(super) key: SeriesKey,
    pub(super) labels: Labels,
    pub(super) points: SeriesPoints,
    /// Of time whose points were rolled up.
    pub(super) rolled: Option<RolledPoints>,
}

impl Selected {
    /// Approximate bytes of its points.
    pub(super) fn heap_bytes(&self) -> usize {
        let rolled = self.rolled.as_ref().map_or(0, RolledPoints::heap_bytes);
        self.points.heap_bytes() + rolled
    }
}

impl Steps<'_> {
    /// The points of a series that is asked for and has some.
    pub(super) fn select(&self, samples: SeriesSamples, is_renamed: bool) -> Option<Selected> {
        let mut labels = samples.labels.clone();
        if is_renamed {
            labels = current_labels(&labels, self.uids);
        }
        let key = SeriesKey::of(&labels, self.uids);
        if !self.selector.accepts(&labels, &key) {
            return None;
        }
        let mut samples = samples;
        let rolled = samples.rolled.take();
        let mut points = SeriesPoints::of(samples, self.downsampling.is_none());
        if self.downsampling.is_none() {
            points = points.starting_at(self.scan.start_ms);
        }
        // Where there are windows, some points before the scan are read, too. A series that begins
        // behind it has no part in the answer.
        let first = points.times.partition_point(|t| *t < self.scan.start_ms);
        let first = points.times.get(first);
        let has_points = first.is_some_and(|first| *first <= self.scan.end_ms);
        let rolled = rolled.and_then(|rolled| RolledPoints::of(rolled, self.scan));
        (has_points || rolled.is_some()).then_some(Selected {
            key,
            labels,
            points,
            rolled,
        })
    }

    /// Whether the interval is a multiple of all windows.
    pub(super) fn fit(&self, levels: &[Arc<Levels>]) -> bool {
        let downsampling = self.downsampling.as_ref();
        downsampling.is_none_or(|d| levels.iter().all(|levels| d.fits(levels)))
    }

    /// Notes where windows of a series answer, and how.
    pub(super) fn report(&self, rolled: &RolledPoints, report: &mut RolledReport) {
        let Some(downsampling) = &self.downsampling else {
            return;
        };
        for level in report.add(rolled) {
            if let Some(interval_ms) = downsampling.rounded_interval(level) {
                report.add_rounded(level, interval_ms);
            }
        }
        report.is_estimate |= downsampling.estimates(rolled);
    }

    /// The downsampled points or rates of series.
    pub(super) fn prepare(&self, selected: Vec<Selected>) -> Result<Vec<Selected>, Error> {
        let buckets = self.shared_buckets(&selected);
        let rolled = self.shared_rolled(&selected)?;
        let prepared = selected.into_par_iter().map(|mut series| {
            let windows = series.rolled.take();
            let points = match &windows {
                None => self.downsample(series.points, &buckets)?,
                Some(windows) => self.downsample_rolled(&series.points, windows, &rolled)?,
            };
            let points = self.rated(points);
            Ok::<_, Error>(Selected { points, ..series })
        });
        prepared.collect()
    }

    /// The buckets of each column of times, computed once for all series that share it.
    fn shared_buckets(&self, selected: &[Selected]) -> SharedBuckets {
        let Some(downsampling) = &self.downsampling else {
            return SharedBuckets::new();
        };
        let columns = selected.iter().filter(|series| series.rolled.is_none());
        let columns = columns.map(|series| &series.points.times);
        let columns: HashMap<_, _> = columns.map(|times| (times.identity(), times)).collect();
        let buckets = columns.into_par_iter().map(|(identity, times)| {
            let buckets = downsampling.buckets(times);
            (identity, Arc::new(buckets))
        });
        buckets.collect()
    }

    /// The same for series that have windows.
    fn shared_rolled(&self, selected: &[Selected]) -> Result<SharedRolled, Error> {
        let Some(downsampling) = &self.downsampling else {
            return Ok(SharedRolled::new());
        };
        let rolled = selected.iter().filter_map(|series| {
            let rolled = series.rolled.as_ref()?;
            let key = RolledKey::of(&series.points, rolled);
            Some((key, (&series.points, rolled)))
        });
        let rolled: HashMap<_, _> = rolled.collect();
        let rolled = rolled.into_par_iter().map(|(key, (points, rolled))| {
            let buckets = downsampling.rolled_buckets(points, rolled)?;
            Ok((key, Arc::new(buckets)))
        });
        rolled.collect()
    }

    fn downsample(
        &self,
        points: SeriesPoints,
        shared: &SharedBuckets,
    ) -> Result<SeriesPoints, Error> {
        let Some(downsampling) = &self.downsampling else {
            return Ok(points);
        };
        match shared.get(&points.times.identity()) {
            Some(buckets) => downsampling.apply(&points.values, buckets),
            None => downsampling.apply(&points.values, &downsampling.buckets(&points.times)),
        }
    }

    fn downsample_rolled(
        &self,
        points: &SeriesPoints,
        rolled: &RolledPoints,
        shared: &SharedRolled,
    ) -> Result<SeriesPoints, Error> {
        let Some(downsampling) = &self.downsampling else {
            return Ok(points.clone());
        };
        match shared.get(&RolledKey::of(points, rolled)) {
            Some(buckets) => downsampling.apply_rolled(points, rolled, buckets),
            None => {
                let buckets = downsampling.rolled_buckets(points, rolled)?;
                downsampling.apply_rolled(points, rolled, &buckets)
            }
        }
    }

    fn rated(&self, points: SeriesPoints) -> SeriesPoints {
        match &self.rate {
            None => points.starting_at(self.scan.start_ms),
            Some(rate) => rate.apply(&points, self.scan.start_ms),
        }
    }
}
