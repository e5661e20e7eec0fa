//! A query as it was asked, and checked.

use jiff::tz::TimeZone;

use super::aggregator::{Aggregator, Function};
use super::downsampler::Downsampler;
use super::filter::{FilterKind, TagFilter};
use super::rate::RateOptions;
use super::window::Window;
use crate::config::Config;
use crate::error::Error;
use crate::time::{TIME_MS_MAX, find_zone, parse_time};

/// Sub queries of one query.
const SUB_QUERIES_MAX: usize = 256;

/// Regular expressions of one query: each may take a megabyte.
const REGEXPS_MAX: usize = 64;

/// A query, as a client writes it.
#[derive(Clone, Debug, Default)]
pub(crate) struct QueryRequest {
    pub(crate) start: String,
    /// Now, where it is empty.
    pub(crate) end: String,
    pub(crate) sub_queries: Vec<SubQuery>,
    pub(crate) timezone: Option<String>,
    pub(crate) use_calendar: bool,
    pub(crate) no_annotations: bool,
    pub(crate) global_annotations: bool,
    pub(crate) ms_resolution: bool,
    pub(crate) show_tsuids: bool,
    pub(crate) show_summary: bool,
    pub(crate) show_stats: bool,
    pub(crate) show_query: bool,
    /// Points that are read are deleted.
    pub(crate) delete: bool,
}

/// A part of a query: one metric, or some series by their TSUIDs.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SubQuery {
    pub(crate) aggregator: String,
    pub(crate) metric: Option<String>,
    pub(crate) tsuids: Option<Vec<String>>,
    pub(crate) downsample: Option<String>,
    pub(crate) rate: bool,
    pub(crate) rate_options: Option<RateOptions>,
    pub(crate) filters: Vec<TagFilter>,
    pub(crate) explicit_tags: bool,
    pub(crate) percentiles: Option<Vec<f32>>,
    pub(crate) show_histogram_buckets: bool,
    pub(crate) rollup_usage: Option<RollupUsage>,
    pub(crate) pre_aggregate: bool,
    /// Hints to the original's storage that are off. They are shown, and tell sub queries apart.
    pub(crate) without_fuzzy_filter: bool,
    pub(crate) without_multi_gets: bool,
}

/// Whether rollups answer a query, and what is done where there are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RollupUsage {
    Raw,
    NoFallback,
    Fallback,
    FallbackRaw,
    /// A name that is not known: the default.
    Unknown,
}

impl RollupUsage {
    pub(crate) fn parse(name: &str) -> Self {
        match name.to_uppercase().as_str() {
            "ROLLUP_RAW" => Self::Raw,
            "ROLLUP_NOFALLBACK" => Self::NoFallback,
            "ROLLUP_FALLBACK" => Self::Fallback,
            "ROLLUP_FALLBACK_RAW" => Self::FallbackRaw,
            _ => Self::Unknown,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Raw => "ROLLUP_RAW",
            Self::NoFallback | Self::Unknown => "ROLLUP_NOFALLBACK",
            Self::Fallback => "ROLLUP_FALLBACK",
            Self::FallbackRaw => "ROLLUP_FALLBACK_RAW",
        }
    }
}

/// A sub query whose parts are known to make sense.
#[derive(Clone, Debug)]
pub(crate) struct PlannedSubQuery {
    pub(crate) asked: SubQuery,
    pub(crate) aggregator: Aggregator,
    pub(crate) downsampler: Option<Downsampler>,
    pub(crate) rate: Option<RateOptions>,
}

/// A query whose parts are known to make sense. Equal sub queries are asked once.
#[derive(Clone, Debug)]
pub(crate) struct PlannedQuery {
    pub(crate) window: Window,
    pub(crate) sub_queries: Vec<PlannedSubQuery>,
}

impl QueryRequest {
    /// Adds a sub query; the error says that there are too many.
    pub(crate) fn push(&mut self, sub_query: SubQuery) -> Result<(), String> {
        self.sub_queries.push(sub_query);
        if self.sub_queries.len() > SUB_QUERIES_MAX {
            return Err(format!("more than {SUB_QUERIES_MAX} sub queries"));
        }
        let filters = self
            .sub_queries
            .iter()
            .flat_map(|sub_query| &sub_query.filters);
        let regexps = filters.filter(|filter| filter.kind() == FilterKind::Regexp);
        if regexps.count() > REGEXPS_MAX {
            return Err(format!("more than {REGEXPS_MAX} regular expressions"));
        }
        Ok(())
    }

    pub(crate) fn plan(&self, config: &Config, now_ms: i64) -> Result<PlannedQuery, Error> {
        let window = self.window(config.timezone.as_deref(), now_ms)?;
        if self.sub_queries.is_empty() {
            return Err(Error::bad_request("Missing queries"));
        }
        let mut planned: Vec<PlannedSubQuery> = Vec::new();
        for sub_query in &self.sub_queries {
            if !planned.iter().any(|p| p.asked == *sub_query) {
                planned.push(self.plan_sub_query(sub_query)?);
            }
        }
        Ok(PlannedQuery {
            window,
            sub_queries: planned,
        })
    }

    /// The time that is asked for. Dates are in the zone of the query, or else in this one.
    pub(crate) fn window(&self, default_zone: Option<&str>, now_ms: i64) -> Result<Window, Error> {
        if self.start.is_empty() {
            return Err(Error::bad_request("Missing start time"));
        }
        let zone = |text: &str| {
            let name = self.zone_name().or(default_zone);
            match name {
                Some(name) if text.contains(['/', ':']) => find_zone(name)
                    .ok_or_else(|| Error::bad_request(format!("Invalid timezone name: {name}"))),
                _ => Ok(TimeZone::UTC),
            }
        };
        let time = |text: &str| parse_time(text, &zone(text)?, now_ms);
        let start_ms = time(&self.start)?;
        let end_ms = if self.end.is_empty() {
            now_ms
        } else {
            time(&self.end)?
        };
        if end_ms <= start_ms {
            return Err(Error::bad_request(format!(
                "End time [{end_ms}] must be greater than the start time [{start_ms}]"
            )));
        }
        for (name, ms) in [("start", start_ms), ("end", end_ms)] {
            if !(0..=TIME_MS_MAX).contains(&ms) {
                return Err(Error::bad_request(format!("Invalid {name} time: {ms}")));
            }
        }
        Ok(Window { start_ms, end_ms })
    }

    fn zone_name(&self) -> Option<&str> {
        self.timezone.as_deref().filter(|name| !name.is_empty())
    }

    fn plan_sub_query(&self, sub_query: &SubQuery) -> Result<PlannedSubQuery, Error> {
        let name = &sub_query.aggregator;
        if name.is_empty() {
            return Err(Error::bad_request("Missing the aggregation function"));
        }
        let aggregator = Aggregator::find(name)
            .ok_or_else(|| Error::bad_request(format!("No such aggregation function: {name}")))?;
        let has_tsuids = sub_query.tsuids.as_ref().is_some_and(|t| !t.is_empty());
        let has_metric = sub_query.metric.as_ref().is_some_and(|m| !m.is_empty());
        if !has_tsuids && !has_metric {
            let message = "Missing the metric or tsuids, provide at least one";
            return Err(Error::bad_request(message));
        }
        let downsampler = self.downsampler(sub_query)?;
        sub_query.check_histogram(aggregator, downsampler.as_ref())?;
        let options = sub_query.rate_options.unwrap_or_default();
        Ok(PlannedSubQuery {
            asked: sub_query.clone(),
            aggregator,
            downsampler,
            rate: sub_query.rate.then_some(options),
        })
    }

    fn downsampler(&self, sub_query: &SubQuery) -> Result<Option<Downsampler>, Error> {
        let text = sub_query.downsample.as_deref().unwrap_or_default();
        if text.is_empty() {
            return Ok(None);
        }
        // The specification itself is looked at before its zone.
        let mut downsampler = Downsampler::parse(text, self.use_calendar, &TimeZone::UTC)?;
        if let Some(name) = self.zone_name() {
            let zone = find_zone(name).ok_or_else(|| {
                Error::bad_request("The timezone specification could not be found")
            })?;
            downsampler = Downsampler::parse(text, self.use_calendar, &zone)?;
        }
        Ok(Some(downsampler))
    }
}

impl SubQuery {
    /// Whether histograms are asked for, and not numbers.
    pub(crate) fn is_histogram_query(&self) -> bool {
        self.show_histogram_buckets || self.percentiles.as_ref().is_some_and(|p| !p.is_empty())
    }

    /// Sets the percentiles of histograms, which are answered in ascending order.
    pub(crate) fn set_percentiles(&mut self, percentiles: Option<Vec<f32>>) {
        self.percentiles = percentiles;
        if let Some(percentiles) = &mut self.percentiles {
            percentiles.sort_by(f32::total_cmp);
        }
    }

    fn check_histogram(
        &self,
        aggregator: Aggregator,
        downsampler: Option<&Downsampler>,
    ) -> Result<(), Error> {
        if !self.is_histogram_query() {
            return Ok(());
        }
        if !["sum", "none"].contains(&aggregator.name) {
            let message = "Only NONE or SUM aggregation function supported for histogram query";
            return Err(Error::bad_request(message));
        }
        if downsampler.is_some_and(|d| d.function != Function::Sum) {
            let message = "Only SUM downsampling aggregation supported for histogram query";
            return Err(Error::bad_request(message));
        }
        let percentiles = self.percentiles.iter().flatten();
        match percentiles.clone().find(|p| !(0.0..=100.0).contains(*p)) {
            None => Ok(()),
            Some(p) => {
                let text = crate::java::float_text(*p);
                let message = format!("Invalid percentile parameters: {text}");
                Err(Error::bad_request(message))
            }
        }
    }
}
