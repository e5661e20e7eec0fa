//! Points that stand for others: `/api/rollup` and the telnet command.

use std::borrow::Cow;

use icecore_wire::opentsdb::number::parse_number;

use super::append::append_document;
use super::document::write_points;
use super::endpoint::document_text;
use super::error::PutError;
use super::point::{bad_timestamp, is_milliseconds, sample};
use super::report::Answer;
use super::series::{SeriesText, Tag, tags_text};
use super::writer::{PointWriter, announce};
use crate::aggregator_names::AGGREGATOR_NAMES;
use crate::error::Error;
use crate::json::push_text;
use crate::refusals::RefusalReason;
use crate::request::Request;
use crate::response::Response;
use crate::rollup::{RollupConfig, RollupKind};
use crate::tsd::Tsd;

/// What a point says about how it was computed, as sent. Empty is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RollupSpec<'a> {
    pub(crate) interval: Option<&'a str>,
    pub(crate) function: Option<&'a str>,
    pub(crate) group_by: Option<&'a str>,
}

impl<'a> RollupSpec<'a> {
    /// `1h-SUM`, `1h-SUM:MAX` or `MAX`, as lines have it.
    pub(crate) fn parse(text: &'a str) -> Self {
        let filled = |text: &'a str| Some(text).filter(|text| !text.is_empty());
        let Some((interval, functions)) = text.split_once('-') else {
            return Self {
                group_by: filled(text),
                ..Self::default()
            };
        };
        let (function, group_by) = functions.split_once(':').unwrap_or((functions, ""));
        Self {
            interval: filled(interval),
            function: filled(function),
            group_by: filled(group_by),
        }
    }

    /// Something is missing without which nothing is known.
    fn check_presence(&self) -> Result<(), PutError> {
        let missing = if self.interval.is_none() && self.group_by.is_none() {
            "Missing interval"
        } else if self.function.is_none() && (self.interval.is_some() || self.group_by.is_none()) {
            "Missing aggregator"
        } else {
            return Ok(());
        };
        Err(PutError::argument(missing))
    }
}

pub(crate) async fn endpoint(tsd: &Tsd, request: &Request) -> Result<Response, Error> {
    let answer = Answer::of(request)?;
    let body = request.body.clone();
    let write = move |writer: &mut PointWriter<'_>| {
        write_points(
            writer,
            document_text(&body)?,
            answer.details,
            |point| {
                let text = |name| {
                    let text = point.text(name)?;
                    Ok::<_, Error>(text.filter(|text| !text.is_empty()).map(String::from))
                };
                let names = ["interval", "aggregator", "groupByAggregator"];
                let [interval, function, group_by] = names.map(text);
                Ok([interval?, function?, group_by?])
            },
            |writer, point, [interval, function, group_by]| {
                let series = point.series(true)?;
                let spec = RollupSpec {
                    interval: interval.as_deref(),
                    function: function.as_deref(),
                    group_by: group_by.as_deref(),
                };
                spec.check_presence()?;
                let value = point.value.unwrap_or_default();
                writer.write_rollup(series, spec, point.timestamp, value)
            },
            |texts, fields| {
                let names = ["interval", "aggregator", "groupByAggregator"];
                for (name, text) in names.into_iter().zip(texts) {
                    if let Some(text) = text {
                        let mut json = String::new();
                        push_text(&mut json, text);
                        fields.push((name, json));
                    }
                }
            },
        )
    };
    append_document(tsd, answer, write).await
}

impl PointWriter<'_> {
    pub(crate) fn write_rollup(
        &mut self,
        series: SeriesText<'_>,
        spec: RollupSpec<'_>,
        timestamp: i64,
        value: &str,
    ) -> Result<(), PutError> {
        self.tally.rollups += 1;
        let mut tags = series.tags()?;
        let (mut sample, form) = sample(series, timestamp, value)?;
        let Some(rollups) = self.rollups else {
            let message = "No rollup or aggregations were configured";
            let reason = RefusalReason::RollupNotConfigured;
            return Err(PutError::by_setting(reason, message));
        };
        if is_milliseconds(timestamp) {
            return Err(bad_timestamp(series, timestamp, parse_number(value)?));
        }
        let metric = series.metric();
        self.tag_aggregate(metric, &mut tags, spec.group_by)?;
        self.naming.check(metric, &tags)?;
        let interval = match spec.interval {
            None => None,
            Some(interval) => {
                let found = rollups.interval(interval);
                let unknown = || PutError::UnknownInterval(interval.to_owned());
                Some(found.ok_or_else(unknown)?)
            }
        };
        let function = spec.function.filter(|_| interval.is_some());
        if let Some(function) = function {
            self.check_function(rollups, function, metric, &tags)?;
        }
        let kind = RollupKind {
            interval: interval
                .zip(function)
                .map(|(interval, function)| (interval.text.clone(), function.to_lowercase())),
            is_group_by: spec.group_by.is_some(),
        };
        if let Some(interval) = interval {
            sample.timestamp_ms = interval.start_s(timestamp) * 1000;
        }
        let changes = &mut self.learned.changes;
        let identified = self.naming.identify(metric, &tags, Some(&kind), changes)?;
        announce(self.sink, &identified.labels);
        self.sink.number(sample, form);
        Ok(())
    }

    /// The tag that says how points were aggregated over others.
    fn tag_aggregate(
        &self,
        metric: &str,
        tags: &mut Vec<Tag<'_>>,
        group_by: Option<&str>,
    ) -> Result<(), PutError> {
        let config = self.naming.config;
        let key = &config.rollups_agg_tag_key;
        let sent = tags.iter_mut().find(|tag| tag.0 == *key);
        let value = group_by.map(str::to_uppercase);
        match (sent, value) {
            (None, Some(value)) => tags.push((key.clone().into(), Some(value.into()))),
            (None, None) if config.rollups_tag_raw => {
                let raw = config.rollups_raw_agg_tag_value.clone();
                tags.push((key.clone().into(), Some(raw.into())));
            }
            (None, None) => {}
            (Some(tag), value) => {
                let sent = tag.1.as_deref().unwrap_or("null").to_owned();
                let fits = value.filter(|value| value.eq_ignore_ascii_case(&sent));
                let Some(value) = fits else {
                    let group_by = group_by.unwrap_or("null");
                    return Err(PutError::Argument(format!(
                        "Given tag value for {key} of {sent} did not match the group by \
                         aggregator of {group_by} for {metric} {}",
                        tags_text(tags)
                    )));
                };
                tag.1 = Some(Cow::Owned(value));
            }
        }
        let Some(group_by) = group_by else {
            return Ok(());
        };
        let name = group_by.to_lowercase();
        let is_known = |known: &&str| known.eq_ignore_ascii_case(&name);
        let (problem, reason) = if !AGGREGATOR_NAMES.iter().any(is_known) {
            let problem = "Invalid group by aggregator";
            (problem, RefusalReason::InvalidPoint)
        } else if config.rollups_block_derived && is_derived(&name) {
            let problem = "Derived group by aggregations are not allowed";
            (problem, RefusalReason::RollupNotConfigured)
        } else {
            return Ok(());
        };
        let tags = tags_text(tags);
        let message = format!("{problem} {group_by} with metric {metric} {tags}");
        Err(PutError::by_setting(reason, message))
    }

    fn check_function(
        &self,
        rollups: &RollupConfig,
        function: &str,
        metric: &str,
        tags: &[Tag<'_>],
    ) -> Result<(), PutError> {
        if rollups.function_id(function).is_none() {
            let message = format!("No ID found mapping to aggregator: {function}");
            return Err(PutError::Argument(message));
        }
        if self.naming.config.rollups_block_derived && is_derived(&function.to_lowercase()) {
            let tags = tags_text(tags);
            let message = format!(
                "Derived rollup aggregations are not allowed {function} with metric {metric} {tags}"
            );
            let reason = RefusalReason::RollupNotConfigured;
            return Err(PutError::by_setting(reason, message));
        }
        Ok(())
    }
}

/// Whether results of a function cannot be aggregated further.
fn is_derived(name: &str) -> bool {
    matches!(name, "avg" | "dev")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_name_interval_and_functions_in_one_word() {
        let spec = |interval, function, group_by| RollupSpec {
            interval,
            function,
            group_by,
        };
        for (text, expected) in [
            ("1h-SUM", spec(Some("1h"), Some("SUM"), None)),
            ("1h-SUM:MAX", spec(Some("1h"), Some("SUM"), Some("MAX"))),
            ("MAX", spec(None, None, Some("MAX"))),
        ] {
            assert_eq!(RollupSpec::parse(text), expected);
        }
    }
}
