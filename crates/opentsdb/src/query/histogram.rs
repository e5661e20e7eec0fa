//! Queries for histograms: percentiles and counts of buckets.
//!
//! ```text
//! series ─► histograms ─► intervals ─┬─► group: sums by time ─► a result for each percentile
//!                                    └                       └► and for each bucket
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use http::StatusCode;
use icecore_model::rollup::HistogramEdge;
use icecore_model::{Labels, Levels, SeriesSamples};
use icecore_wire::opentsdb::number::Number;

use super::buckets::buckets;
use super::downsampler::Interval;
use super::group::{Aggregation, Group, ResultSeries};
use super::points::SeriesPoints;
use super::renamed::{current_labels, has_renames};
use super::request::PlannedSubQuery;
use super::rolled::{Alignment, RolledReport};
use super::rows::ResultPoints;
use super::selector::Selector;
use super::series_key::{NameKey, SeriesKey};
use super::window::{Scan, Window};
use crate::allowance::Allowance;
use crate::error::Error;
use crate::histogram::{HistogramSum, SimpleHistogram};
use crate::java::float_text;
use crate::uid::Uids;

/// Most histograms that a sub query adds up.
const HISTOGRAMS_MAX: usize = 4_000_000;

/// A sub query for histograms at work.
pub(super) struct HistogramExecution<'a> {
    uids: &'a Uids,
    selector: Selector,
    interval: Option<Interval>,
    percentiles: Vec<f32>,
    shows_buckets: bool,
    window: Window,
    scan: Scan,
    aggregation: Aggregation<'a>,
    groups: BTreeMap<Vec<NameKey>, HistogramGroup>,
    histograms_read: usize,
    report: RolledReport,
}

/// Series that become one set of results.
#[derive(Default)]
struct HistogramGroup {
    group: Group,
    sums: BTreeMap<i64, HistogramSum>,
}

impl<'a> HistogramExecution<'a> {
    pub(super) fn new(
        uids: &'a Uids,
        selector: Selector,
        planned: &PlannedSubQuery,
        (window, scan): (Window, Scan),
        allowance: &'a Allowance,
    ) -> Self {
        let downsampler = planned.downsampler.as_ref();
        Self {
            uids,
            selector,
            interval: downsampler.map(|downsampler| downsampler.interval.clone()),
            percentiles: planned.asked.percentiles.clone().unwrap_or_default(),
            shows_buckets: planned.asked.show_histogram_buckets,
            window,
            scan,
            aggregation: Aggregation {
                aggregator: planned.aggregator,
                grid: None,
                output: window,
                allowance,
            },
            groups: BTreeMap::new(),
            histograms_read: 0,
            report: RolledReport::default(),
        }
    }

    /// Learns which levels series come from.
    pub(super) fn begin(&mut self, levels: &[Arc<Levels>]) {
        for levels in levels {
            self.report.add_levels(levels, self.scan);
            let alignment = self.interval.as_ref();
            let alignment = alignment.map(|of| Alignment::of(of, self.window, self.scan));
            let mut rolled = levels.segments.iter().map(|segment| segment.resolution);
            self.report.is_estimate |=
                alignment.is_some_and(|alignment| rolled.any(|level| !alignment.fits(level)));
        }
        self.report.is_thinned = self.interval.is_none() && !self.report.is_empty();
    }

    /// Takes the next series. Those without histograms have no part in the answer.
    pub(super) fn add(&mut self, batch: Vec<SeriesSamples>) -> Result<(), Error> {
        let is_renamed = has_renames(self.uids);
        for samples in batch {
            let mut labels = samples.labels.clone();
            if is_renamed {
                labels = current_labels(&labels, self.uids);
            }
            let key = SeriesKey::of(&labels, self.uids);
            let histograms = histograms(&samples, self.scan);
            let first = histograms.first().filter(|of| of.0 <= self.scan.end_ms);
            if first.is_none() || !self.selector.accepts(&labels, &key) {
                continue;
            }
            self.histograms_read += histograms.len();
            if self.histograms_read > HISTOGRAMS_MAX {
                let message = format!(
                    "Sorry, you have attempted to fetch more than our limit of {HISTOGRAMS_MAX} \
                     histograms. Please try filtering using more tags or decrease your time range."
                );
                return Err(Error::new(StatusCode::PAYLOAD_TOO_LARGE, message));
            }
            self.add_series(key, labels, &histograms);
        }
        Ok(())
    }

    fn add_series(&mut self, key: SeriesKey, labels: Labels, series: &[(i64, SimpleHistogram)]) {
        let group = if self.aggregation.aggregator.is_none() {
            let pairs = key.0.iter().cloned();
            pairs.flat_map(|(tagk, tagv)| [tagk, tagv]).collect()
        } else {
            self.selector.group_of(self.uids, &labels)
        };
        let group = self.groups.entry(group).or_default();
        let nothing = SeriesPoints::default();
        group.group.add(key, labels, nothing, &self.aggregation);
        let times: Vec<i64> = series.iter().map(|(time, _)| *time).collect();
        match &self.interval {
            None => {
                for (time, histogram) in series {
                    group.sums.entry(*time).or_default().add(histogram);
                }
            }
            // The original's one interval for all begins before every window.
            Some(Interval::All) => {}
            Some(interval) => {
                let buckets = buckets(&times, interval, self.window, self.scan);
                for (start, bounds) in buckets.starts.iter().zip(buckets.bounds.windows(2)) {
                    let sum = group.sums.entry(*start).or_default();
                    for (_, histogram) in &series[bounds[0] as usize..bounds[1] as usize] {
                        sum.add(histogram);
                    }
                }
            }
        }
    }

    pub(super) fn finish(self) -> Result<Vec<ResultSeries>, Error> {
        let mut results = Vec::new();
        let report = Some(self.report).filter(|report| !report.is_empty());
        let report = report.map(Arc::new);
        for group in self.groups.into_values() {
            let metric = &self.selector.metric;
            let like = group.group.finish(metric, self.uids, &self.aggregation)?;
            let window = self.window;
            let sums = group
                .sums
                .into_iter()
                .filter(|(time, _)| window.contains(*time));
            let sums: Vec<(i64, HistogramSum)> = sums.collect();
            let mut push = |suffix: String, points: Vec<(i64, Number)>| {
                let (times, values) = points.into_iter().unzip();
                results.push(ResultSeries {
                    metric: format!("{metric}{suffix}"),
                    points: ResultPoints { times, values },
                    levels: report.clone(),
                    ..like.clone()
                });
            };
            for percentile in &self.percentiles {
                let of_sum = |(time, sum): &(i64, HistogramSum)| {
                    let value = sum.percentile(f64::from(*percentile));
                    (*time, Number::Float(value))
                };
                let suffix = format!("_pct_{}", float_text(*percentile));
                push(suffix, sums.iter().map(of_sum).collect());
            }
            if self.shows_buckets {
                for (suffix, points) in bucket_counts(&sums) {
                    push(suffix, points);
                }
            }
        }
        Ok(results)
    }
}

/// The histograms of a series that are simple ones, and of windows their sums, at their starts.
fn histograms(samples: &SeriesSamples, scan: Scan) -> Vec<(i64, SimpleHistogram)> {
    let single = samples.histograms.iter();
    let single = single.map(|sample| (sample.timestamp_ms, &sample.histogram));
    let windows = samples.rolled.iter().flat_map(|rolled| &rolled.histograms);
    let sums = windows.flatten().flat_map(|window| {
        let edge = match &window.edge {
            HistogramEdge::Sample(histogram) => Some(histogram),
            HistogramEdge::None | HistogramEdge::Stale => None,
        };
        let inside = window.interior.as_ref().and_then(|of| of.sum.as_ref());
        let parts = edge.into_iter().chain(inside);
        parts.map(|histogram| (window.start_ms, histogram))
    });
    let all = single.chain(sums).filter_map(|(time, histogram)| {
        // Where there are windows, something before the scan is read, too.
        let histogram = SimpleHistogram::from_native(histogram).filter(|_| time >= scan.start_ms);
        Some((time, histogram?))
    });
    let mut all: Vec<_> = all.collect();
    all.sort_by_key(|(time, _)| *time);
    all
}

/// The counts of every bucket, by what is appended to the metric.
fn bucket_counts(sums: &[(i64, HistogramSum)]) -> Vec<(String, Vec<(i64, Number)>)> {
    let count = |count: u64| Number::Integer(i64::try_from(count).unwrap_or(i64::MAX));
    let all = |suffix: &str, of: fn(&HistogramSum) -> u64| {
        let points = sums.iter().map(|(time, sum)| (*time, count(of(sum))));
        (suffix.to_owned(), points.collect::<Vec<_>>())
    };
    let mut counts = vec![all("_UNDERFLOW", |sum| sum.underflow)];
    let mut buckets: BTreeMap<_, Vec<(i64, Number)>> = BTreeMap::new();
    for (time, sum) in sums {
        for (bounds, in_bucket) in sum.buckets() {
            let points = buckets.entry(bounds).or_default();
            points.push((*time, count(in_bucket)));
        }
    }
    for (bounds, points) in buckets {
        let (low, high) = (float_text(bounds.low()), float_text(bounds.high()));
        counts.push((format!("_{low}_{high}"), points));
    }
    counts.push(all("_OVERFLOW", |sum| sum.overflow));
    counts
}
