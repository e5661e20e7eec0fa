//! Points that stand for others: `/api/rollup` and the telnet command.

use std::borrow::Cow;

use icecore_model::{NumberForm, Sample};
use icecore_wire::opentsdb::number::parse_number;
use icecore_wire::opentsdb::put_json::JsonTag;

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
use crate::java::hash_map_order;
use crate::json::push_text;
use crate::refusals::RefusalReason;
use crate::request::Request;
use crate::response::Response;
use crate::rollup::{RollupConfig, RollupKind};
use crate::tsd::Tsd;

/// The aggregation of a point, as sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RollupSpec<'a> {
    pub(crate) interval: Option<&'a str>,
    pub(crate) function: Option<&'a str>,
    /// The point is a pre-aggregate where this is given, even if it is empty.
    pub(crate) group_by: Option<&'a str>,
}

impl<'a> RollupSpec<'a> {
    /// Reads `1h-SUM`, `1h-SUM:MAX` or `MAX`, as lines have it. Colons at the end do not count, and
    /// neither does a third part.
    pub(crate) fn parse(text: &'a str) -> Self {
        let mut parts = text.trim_end_matches(':').split(':');
        let (first, second) = (parts.next().unwrap_or_default(), parts.next());
        let (interval, function) = first.split_once('-').unzip();
        Self {
            interval,
            function,
            group_by: second.or(interval.is_none().then_some(first)),
        }
    }

    /// Returns the interval and the function, without those that are empty.
    fn filled(&self) -> (Option<&'a str>, Option<&'a str>) {
        (filled(self.interval), filled(self.function))
    }

    /// Something is missing without which nothing is known.
    fn check_presence(&self) -> Result<(), PutError> {
        let (interval, function) = self.filled();
        let missing = match filled(self.group_by) {
            Some(_) => return Ok(()),
            None if interval.is_none() => "Missing interval",
            None if function.is_none() => "Missing aggregator",
            None => return Ok(()),
        };
        Err(PutError::argument(missing))
    }
}

fn filled(text: Option<&str>) -> Option<&str> {
    text.filter(|text| !text.is_empty())
}

/// A point whose tags say how it was aggregated.
struct TaggedRollup<'a> {
    metric: &'a str,
    tags: Vec<Tag<'a>>,
    sample: Sample,
    form: NumberForm,
    timestamp: i64,
}

impl TaggedRollup<'_> {
    fn into_tags(self) -> Vec<JsonTag> {
        let tags = self.tags.into_iter();
        let tags = tags.map(|(name, value)| (name.into_owned(), value.map(Cow::into_owned)));
        tags.collect()
    }
}

/// The fields of a document that only rollups have.
const FIELDS: [&str; 3] = ["interval", "aggregator", "groupByAggregator"];

pub(crate) async fn endpoint(tsd: &Tsd, request: &Request) -> Result<Response, Error> {
    let answer = Answer::of(request)?;
    let body = request.body.clone();
    let write = move |writer: &mut PointWriter<'_>| {
        write_points(
            writer,
            document_text(&body)?,
            answer.details,
            |point| {
                let text = |name| Ok::<_, Error>(point.text(name)?.map(String::from));
                let [interval, function, group_by] = FIELDS.map(text);
                Ok([interval?, function?, group_by?])
            },
            |writer, point, [interval, function, group_by]| {
                writer.sink.point();
                let series = point.series(true)?;
                let spec = RollupSpec {
                    interval: interval.as_deref(),
                    function: function.as_deref(),
                    group_by: group_by.as_deref(),
                };
                spec.check_presence()?;
                let value = point.value.unwrap_or_default();
                let tagged = writer.tag_rollup(series, spec, point.timestamp, value)?;
                let written = writer.write_tagged(&tagged, spec);
                if written.is_err() {
                    // Errors show the tags that the original has added by then.
                    point.tags = Some(tagged.into_tags());
                }
                written
            },
            |texts, fields| {
                for (name, text) in FIELDS.into_iter().zip(texts) {
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
        let tagged = self.tag_rollup(series, spec, timestamp, value)?;
        self.write_tagged(&tagged, spec)
    }

    /// Reads a point, and adds the tag that says how it was aggregated.
    fn tag_rollup<'a>(
        &mut self,
        series: SeriesText<'a>,
        spec: RollupSpec<'_>,
        timestamp: i64,
        value: &str,
    ) -> Result<TaggedRollup<'a>, PutError> {
        self.tally.rollups += 1;
        let mut tags = series.tags()?;
        let (sample, form) = sample(series, timestamp, value)?;
        let metric = series.metric();
        if self.rollups.is_none() {
            let message = "No rollup or aggregations were configured";
            let reason = RefusalReason::RollupNotConfigured;
            return Err(PutError::by_setting(reason, message));
        }
        if spec.group_by == Some("") {
            let tags = tags_text(&tags);
            return Err(PutError::Argument(format!(
                "Cannot write a group by data point without specifying the aggregation function. \
                 Metric={metric} tags={tags}"
            )));
        }
        if is_milliseconds(timestamp) {
            return Err(bad_timestamp(series, timestamp, parse_number(value)?));
        }
        self.tag_aggregate(metric, &mut tags, spec.group_by)?;
        Ok(TaggedRollup {
            metric,
            tags,
            sample,
            form,
            timestamp,
        })
    }

    fn write_tagged(
        &mut self,
        tagged: &TaggedRollup<'_>,
        spec: RollupSpec<'_>,
    ) -> Result<(), PutError> {
        let TaggedRollup { metric, tags, .. } = tagged;
        let (interval, function) = spec.filled();
        if let Some(group_by) = spec.group_by {
            self.check_group_by(group_by, metric, tags)?;
        }
        self.naming.check(metric, tags)?;
        let mut rolled = None;
        if let (Some(text), Some(rollups)) = (interval, self.rollups) {
            let interval = rollups.interval(text);
            let interval = interval.ok_or_else(|| PutError::UnknownInterval(text.to_owned()))?;
            rolled = Some((interval, function_of(rollups, function)?));
        }
        self.check_function(function, metric, tags)?;
        if rolled.is_none() && spec.group_by.is_none() {
            let message = "Interval cannot be null for a non-group by point";
            return Err(PutError::Unstorable(message));
        }
        let mut sample = tagged.sample;
        if let Some((interval, _)) = rolled {
            sample.timestamp_ms = interval.start_s(tagged.timestamp) * 1000;
        }
        let kind = RollupKind {
            interval: rolled.map(|(interval, function)| (interval.text.clone(), function)),
            is_group_by: spec.group_by.is_some(),
        };
        let changes = &mut self.learned.changes;
        let identified =
            self.naming
                .identify(metric, tags, Some(&kind), Some(tagged.form), changes)?;
        announce(self.sink, &identified.labels);
        self.sink.number(sample, tagged.form);
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
        hash_map_order(tags, |tag| tag.0.as_ref());
        Ok(())
    }

    fn check_group_by(
        &self,
        group_by: &str,
        metric: &str,
        tags: &[Tag<'_>],
    ) -> Result<(), PutError> {
        let name = group_by.to_lowercase();
        let is_known = |known: &&str| known.eq_ignore_ascii_case(&name);
        let (problem, reason) = if !AGGREGATOR_NAMES.iter().any(is_known) {
            let problem = "Invalid group by aggregator";
            (problem, RefusalReason::InvalidPoint)
        } else if self.naming.config.rollups_block_derived && is_derived(&name) {
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
        function: Option<&str>,
        metric: &str,
        tags: &[Tag<'_>],
    ) -> Result<(), PutError> {
        let name = function.unwrap_or_default();
        if self.naming.config.rollups_block_derived && is_derived(&name.to_lowercase()) {
            let (name, tags) = (name.to_uppercase(), tags_text(tags));
            let message = format!(
                "Derived rollup aggregations are not allowed {name} with metric {metric} {tags}"
            );
            let reason = RefusalReason::RollupNotConfigured;
            return Err(PutError::by_setting(reason, message));
        }
        Ok(())
    }
}

/// Returns the name of a function that has an id, in lower case.
fn function_of(rollups: &RollupConfig, function: Option<&str>) -> Result<String, PutError> {
    let refused = |message: String| Err(PutError::Argument(message));
    match function {
        None => refused("Aggregator cannot be null or empty.".to_owned()),
        Some(function) if rollups.function_id(function).is_none() => {
            refused(format!("No ID found mapping to aggregator: {function}"))
        }
        Some(function) => Ok(function.to_lowercase()),
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
            (":MAX", spec(None, None, Some("MAX"))),
            ("SUM:MAX", spec(None, None, Some("MAX"))),
            (
                "1h-SUM:MAX:MIN:",
                spec(Some("1h"), Some("SUM"), Some("MAX")),
            ),
            ("1h-SUM:", spec(Some("1h"), Some("SUM"), None)),
            ("1h-SUM::MAX", spec(Some("1h"), Some("SUM"), Some(""))),
            ("1h-", spec(Some("1h"), Some(""), None)),
            ("-SUM", spec(Some(""), Some("SUM"), None)),
            ("::", spec(None, None, Some(""))),
        ] {
            assert_eq!(RollupSpec::parse(text), expected);
        }
    }
}
