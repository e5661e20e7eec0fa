//! Which of the original's tables answers a sub query: points, or what clients have rolled up.
//!
//! ```text
//! downsample ─► intervals that divide it, the longest first ─► attempts, as rollupUsage says
//! ```
//!
//! Fallback is all or nothing: an attempt answers if a single series is found by it, in the rows
//! that the original would read, which are longer than hours. Where points answer in the end, the
//! original downsamples them by the interval of the rollups that it tried last, and so does this.

use icecore_model::{Labels, METRIC_NAME, MatchOp, Matcher, ROLLUP_LABEL, SeriesSamples};

use super::aggregator::Function;
use super::downsampler::{Downsampler, Interval};
use super::request::{PlannedSubQuery, RollupUsage, SubQuery};
use super::window::{Scan, Window};
use crate::config::Config;
use crate::error::Error;
use crate::rollup::{RollupConfig, RollupInterval, RollupKind, RowSpan};
use crate::uid::{UidKind, Uids};

/// What `showQuery` calls the table of points.
pub(crate) const RAW: &str = "raw";

/// A table that may answer, and the sub query for it.
#[derive(Clone, Debug)]
pub(super) struct Attempt {
    pub(super) planned: PlannedSubQuery,
    /// As `showQuery` names it.
    pub(super) table: String,
    pub(super) source: Source,
    /// The interval of rollups whose rows are read; `None` where rows are hours.
    interval: Option<RollupInterval>,
}

impl Attempt {
    /// The time that is read: whole rows of the table.
    pub(super) fn scan(&self, window: Window) -> Scan {
        let Some(interval) = &self.interval else {
            let downsampler = self.planned.downsampler.as_ref();
            return window.scan(downsampler.map(|downsampler| &downsampler.interval));
        };
        let (start_s, end_s) = (window.start_ms / 1000, window.end_ms / 1000 + 1);
        let (start_s, end_s) = interval.rows_s(start_s, end_s, self.planned.rate.is_some());
        Scan {
            start_ms: start_s.saturating_mul(1000),
            end_ms: end_s.saturating_mul(1000),
        }
    }

    /// The end of the row behind a scan.
    pub(super) fn next_row_end_ms(&self, scan: Scan) -> i64 {
        let span = self
            .interval
            .as_ref()
            .map_or(RowSpan::Hours(1), |i| i.row_span);
        span.end_s(scan.end_ms / 1000).saturating_mul(1000)
    }
}

/// The series of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Points,
    Rolled(RollupKind),
    /// Averages are made of sums and counts.
    Average {
        sums: RollupKind,
        counts: RollupKind,
    },
}

impl Source {
    /// Under which labels the points of series are stored.
    pub(super) fn stored(&self, series: Vec<Labels>) -> Vec<Labels> {
        let kinds = match self {
            Self::Points => return series,
            Self::Rolled(kind) => vec![kind],
            Self::Average { sums, counts } => vec![sums, counts],
        };
        let of_kind = |kind: &RollupKind| -> Vec<Labels> {
            series.iter().map(|labels| kind.rolled(labels)).collect()
        };
        kinds.into_iter().flat_map(of_kind).collect()
    }
}

/// All attempts, in their order.
pub(super) fn attempts(
    config: &Config,
    rollups: Option<&RollupConfig>,
    planned: &PlannedSubQuery,
) -> Result<Vec<Attempt>, Error> {
    let asked = &planned.asked;
    let Some(rollups) = rollups else {
        return Ok(vec![raw(planned, false)]);
    };
    let is_group_by = asked.pre_aggregate || names_an_aggregate(config, asked);
    let usage = asked.rollup_usage.unwrap_or(RollupUsage::NoFallback);
    let length_ms = planned.downsampler.as_ref();
    let length_ms = length_ms.and_then(|downsampler| downsampler.interval.length_ms());
    let (Some(length_ms), true) = (length_ms, usage != RollupUsage::Raw) else {
        return Ok(vec![raw(planned, is_group_by)]);
    };
    let mut candidates: Vec<&RollupInterval> = rollups.intervals().iter().collect();
    candidates.retain(|interval| length_ms % (interval.seconds as i64 * 1000) == 0);
    candidates.sort_by_key(|interval| std::cmp::Reverse(interval.seconds));
    let has_default = candidates.iter().any(|interval| interval.is_default);
    let mut attempts: Vec<Attempt> = Vec::new();
    for interval in candidates.into_iter().take_while(|i| !i.is_default) {
        if !attempts.is_empty() && usage != RollupUsage::Fallback {
            break;
        }
        attempts.push(rolled(rollups, planned, interval, is_group_by)?);
    }
    // Points are the last of the intervals, if that of points is configured and divides.
    let falls_back = match usage {
        RollupUsage::Fallback => has_default,
        usage => usage == RollupUsage::FallbackRaw,
    };
    match attempts.last() {
        None => attempts.push(raw(planned, is_group_by)),
        Some(last) if falls_back => {
            let tried = last.interval.as_ref();
            let planned = tried.map(|tried| by_interval(planned, tried));
            attempts.extend(planned.map(|planned| raw(&planned, is_group_by)));
        }
        Some(_) => {}
    }
    Ok(attempts)
}

/// A filter for one aggregate is meant for pre-aggregates.
fn names_an_aggregate(config: &Config, asked: &SubQuery) -> bool {
    let raw = &config.rollups_raw_agg_tag_value;
    asked.filters.iter().any(|filter| {
        let is_aggregate = filter.tagk == config.rollups_agg_tag_key;
        let mut literals = filter.literals().into_iter().flatten();
        is_aggregate && literals.any(|value| !value.eq_ignore_ascii_case(raw))
    })
}

fn raw(planned: &PlannedSubQuery, is_group_by: bool) -> Attempt {
    let source = if is_group_by {
        Source::Rolled(RollupKind {
            interval: None,
            is_group_by,
        })
    } else {
        Source::Points
    };
    Attempt {
        planned: planned.clone(),
        table: RAW.into(),
        source,
        interval: None,
    }
}

fn rolled(
    rollups: &RollupConfig,
    planned: &PlannedSubQuery,
    interval: &RollupInterval,
    is_group_by: bool,
) -> Result<Attempt, Error> {
    let mut planned = planned.clone();
    let kind = |function: &str| match rollups.function_id(function) {
        Some(_) => Ok(RollupKind {
            interval: Some((interval.text.clone(), function.to_owned())),
            is_group_by,
        }),
        None => {
            let message = format!("No ID found mapping to aggregator: {function}");
            Err(Error::bad_request(message.clone()).with_details(message))
        }
    };
    let text = planned.asked.downsample.as_deref().unwrap_or_default();
    let name = text.split('-').nth(1).unwrap_or_default();
    let source = match name {
        "zimsum" => Source::Rolled(kind("sum")?),
        "mimmin" => Source::Rolled(kind("min")?),
        "mimmax" => Source::Rolled(kind("max")?),
        "avg" => Source::Average {
            sums: kind("sum")?,
            counts: kind("count")?,
        },
        name => Source::Rolled(kind(name)?),
    };
    if let Some(downsampler) = &mut planned.downsampler
        && downsampler.function == Function::Count
    {
        downsampler.function = Function::Sum;
    }
    Ok(Attempt {
        planned,
        table: interval.text.clone(),
        source,
        interval: Some(interval.clone()),
    })
}

/// Downsampled by another interval.
fn by_interval(planned: &PlannedSubQuery, interval: &RollupInterval) -> PlannedSubQuery {
    let mut planned = planned.clone();
    planned.downsampler = planned.downsampler.map(|downsampler| Downsampler {
        interval: Interval::Fixed(interval.seconds as i64 * 1000),
        ..downsampler
    });
    planned
}

impl RollupKind {
    /// What the store is asked for the series of a metric, besides their tags.
    pub(super) fn matchers(&self, uids: &Uids, metric: &str) -> Vec<Matcher> {
        let former = uids.read(UidKind::Metric).former_names(metric);
        let kind = Matcher::equal(ROLLUP_LABEL, self.to_string());
        let name = if former.is_empty() {
            Some(Matcher::equal(METRIC_NAME, self.metric(metric)))
        } else {
            let names = std::iter::once(metric).chain(former.iter().map(AsRef::as_ref));
            let names = names.map(|name| regex::escape(&self.metric(name)));
            let names = names.collect::<Vec<_>>().join("|");
            Matcher::new(MatchOp::Regex, METRIC_NAME, names).ok()
        };
        std::iter::once(kind).chain(name).collect()
    }

    /// The labels of what is rolled up of a series.
    fn rolled(&self, labels: &Labels) -> Labels {
        let pairs = labels.iter().map(|(name, value)| {
            let is_metric = name == METRIC_NAME;
            let value = if is_metric {
                self.metric(value)
            } else {
                value.to_owned()
            };
            (name.to_owned(), value)
        });
        let kind = (ROLLUP_LABEL.to_owned(), self.to_string());
        Labels::from_pairs(pairs.chain(std::iter::once(kind)))
    }

    /// The series as one of its metric.
    pub(super) fn unrolled(&self, samples: SeriesSamples) -> SeriesSamples {
        let suffix = self.metric("");
        let pairs = samples
            .labels
            .iter()
            .filter(|(name, _)| *name != ROLLUP_LABEL);
        let pairs = pairs.map(|(name, value)| {
            let is_metric = name == METRIC_NAME;
            let value = value
                .strip_suffix(&suffix)
                .filter(|_| is_metric)
                .unwrap_or(value);
            (name.to_owned(), value.to_owned())
        });
        SeriesSamples {
            labels: Labels::from_pairs(pairs),
            ..samples
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::get::parse_m;
    use crate::query::request::QueryRequest;

    const ROLLUPS: &str = r#"{"aggregationIds":{"sum":0,"count":1},
        "intervals":[{"interval":"1m","rowSpan":"1h","defaultInterval":true},
                     {"interval":"10m","rowSpan":"1d"},{"interval":"1h","rowSpan":"1n"}]}"#;

    fn tables(m: &str) -> Vec<(String, Option<i64>)> {
        let request = QueryRequest {
            start: "1".into(),
            sub_queries: vec![parse_m(m).unwrap()],
            ..QueryRequest::default()
        };
        let config = Config::default();
        let planned = request.plan(&config, 10_000).unwrap().sub_queries.remove(0);
        let rollups = RollupConfig::parse(ROLLUPS).unwrap();
        let attempts = attempts(&config, Some(&rollups), &planned).unwrap();
        let attempt = |a: Attempt| {
            let interval = a.planned.downsampler.and_then(|d| d.interval.length_ms());
            (a.table, interval.map(|ms| ms / 60_000))
        };
        attempts.into_iter().map(attempt).collect()
    }

    #[test]
    fn the_longest_interval_that_divides_is_tried_first() {
        let expect = |m: &str, tables_expected: &[(&str, Option<i64>)]| {
            let expected = tables_expected.iter();
            let expected: Vec<_> = expected.map(|(t, i)| (String::from(*t), *i)).collect();
            assert_eq!(tables(m), expected, "{m}");
        };
        expect("sum:m", &[("raw", None)]);
        expect("sum:2h-sum:m", &[("1h", Some(120))]);
        expect("sum:90m-avg:m", &[("10m", Some(90))]);
        expect("sum:7m-sum:m", &[("raw", Some(7))]);
        expect("sum:0all-sum:m", &[("raw", None)]);
        expect("sum:2h-sum:rollup_raw:m", &[("raw", Some(120))]);
        let all = [("1h", Some(120)), ("10m", Some(120)), ("raw", Some(10))];
        expect("sum:2h-sum:rollup_fallback:m", &all);
        let two = [("1h", Some(120)), ("raw", Some(60))];
        expect("sum:2h-sum:rollup_fallback_raw:m", &two);
    }
}
