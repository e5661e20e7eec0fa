//! A query of a panel, as Grafana's OpenTSDB data source has it.

use icecore_model::format_duration_ms;

use super::super::interval::Bucket;
use super::super::options::QueryTime;
use super::super::refusal::Refusal;
use super::super::sub_query::{Surroundings, build};
use super::super::translation::Translation;
use super::super::variables::Variables;
use super::DashboardOptions;
use super::document::{Object, datasource};
use crate::json::Json;
use crate::query::{QueryRequest, RateOptions, SubQuery, TagFilter};

/// The interval that Grafana takes where a query has none.
const AUTOMATIC: &str = "$__interval";

/// What a query of Prometheus keeps of one of OpenTSDB.
const KEPT: [&str; 3] = ["refId", "hide", "key"];

/// Whether a query that does not say so looks like one of OpenTSDB.
pub(super) fn is_opentsdb_target(target: &Object<'_, '_>) -> bool {
    let has = |name| target.text(name).is_some();
    has("metric") && has("aggregator") && !has("expr")
}

/// Replaces a query; the result is also whether it has a step of its own. It stays as it is if
/// there is no translation.
pub(super) fn translate_target(
    target: &mut Object<'_, '_>,
    options: &DashboardOptions,
) -> Result<(Translation, bool), Refusal> {
    let mut variables = Variables::default();
    let read = read(target, &mut variables)?;
    let around = Surroundings {
        time: QueryTime::Dashboard,
        absent_keys: read.absent_keys,
        ..Surroundings::new(&QueryRequest::default(), &options.options, &variables)?
    };
    let built = build(&read.sub_query, &around)?;
    let step = match &built.bucket {
        Some(Bucket::Fixed(ms)) => Some(format_duration_ms(*ms)),
        Some(Bucket::Variable(name)) if name != AUTOMATIC => Some(name.clone()),
        _ => None,
    };
    let keys = built.keys.clone();
    let legend = legend(target, &read.sub_query, keys.as_deref(), &variables);
    let translation = Translation::new(built, Some(legend), &options.options, &variables)?;
    replace(
        target,
        &translation,
        step.as_deref(),
        &options.datasource_uid,
    );
    Ok((translation, step.is_some()))
}

struct ReadTarget {
    sub_query: SubQuery,
    absent_keys: Vec<String>,
}

/// The sub query that Grafana would make of a target.
fn read(target: &Object<'_, '_>, variables: &mut Variables) -> Result<ReadTarget, Refusal> {
    let metric = target.text("metric").unwrap_or_default();
    let aggregator = variables.hide(target.text("aggregator").unwrap_or("avg"))?;
    if super::super::variables::has_variables(&aggregator) {
        return Err(Refusal::new(
            "the aggregator is a variable, and each has another expression",
        ));
    }
    let mut read = ReadTarget {
        sub_query: SubQuery {
            aggregator,
            metric: Some(variables.hide(metric)?),
            downsample: downsample(target, variables)?,
            explicit_tags: target.is_true("explicitTags"),
            ..SubQuery::default()
        },
        absent_keys: Vec::new(),
    };
    if target.is_true("shouldComputeRate") {
        read.sub_query.rate = true;
        read.sub_query.rate_options = Some(rate_options(target)?);
    }
    let filters = target.get("filters").and_then(Json::as_array);
    match filters.filter(|filters| !filters.is_empty()) {
        Some(filters) => {
            for filter in filters {
                read.add_filter(filter, variables)?;
            }
        }
        None => {
            for (key, value) in target.get("tags").and_then(Json::as_object).unwrap_or(&[]) {
                let value = variables.hide(value.text().unwrap_or_default())?;
                let filter = TagFilter::short(&variables.hide(key)?, &value, true);
                read.sub_query.filters.push(filter.map_err(Refusal)?);
            }
        }
    }
    Ok(read)
}

impl ReadTarget {
    fn add_filter(&mut self, filter: &Json<'_>, variables: &mut Variables) -> Result<(), Refusal> {
        let text = |name| filter.get(name).and_then(Json::text).unwrap_or_default();
        let tagk = variables.hide(text("tagk"))?;
        // A type of OpenTSDB 2.5.
        if text("type") == "not_key" {
            self.absent_keys.push(tagk);
            return Ok(());
        }
        let value = variables.hide(text("filter"))?;
        let group_by = matches!(filter.get("groupBy"), Some(Json::Bool(true)));
        let filter = TagFilter::new(text("type"), &tagk, &value, group_by);
        self.sub_query.filters.push(filter.map_err(Refusal)?);
        Ok(())
    }
}

/// Grafana always downsamples, unless it is told not to.
fn downsample(
    target: &Object<'_, '_>,
    variables: &mut Variables,
) -> Result<Option<String>, Refusal> {
    if target.is_true("disableDownsampling") {
        return Ok(None);
    }
    let interval = target.text("downsampleInterval");
    let interval = interval.filter(|text| *text != "auto").unwrap_or(AUTOMATIC);
    let mut interval = variables.hide(interval)?;
    // Grafana writes parts of a second as milliseconds.
    let number = interval.strip_suffix('s').filter(|text| text.contains('.'));
    if let Some(number) = number.and_then(|text| text.parse::<f64>().ok()) {
        interval = format!("{}ms", (number * 1000.0).round());
    }
    let function = variables.hide(target.text("downsampleAggregator").unwrap_or("avg"))?;
    if super::super::variables::has_variables(&function) {
        return Err(Refusal::new(
            "the downsampling function is a variable, and each has another expression",
        ));
    }
    let fill = target.text("downsampleFillPolicy");
    let fill = fill.filter(|fill| *fill != "none");
    Ok(Some(match fill {
        None => format!("{interval}-{function}"),
        Some(fill) => format!("{interval}-{function}-{fill}"),
    }))
}

/// As Grafana gives them to OpenTSDB from 2.2 on: without a maximum, resets are dropped.
fn rate_options(target: &Object<'_, '_>) -> Result<RateOptions, Refusal> {
    let number = |name: &'static str| {
        let text = target.get(name).and_then(Json::text).unwrap_or_default();
        let text = text.trim();
        if text.is_empty() {
            return Ok(None);
        }
        let number = text.parse::<i64>();
        number
            .map(Some)
            .map_err(|_| Refusal(format!("{name} is not an integer: {text}")))
    };
    let counter_max = number("counterMax")?.filter(|max| *max != 0);
    Ok(RateOptions {
        counter: target.is_true("isCounter"),
        counter_max: counter_max.unwrap_or(i64::MAX),
        reset_value: number("counterResetValue")?.unwrap_or(0),
        drop_resets: counter_max.is_none(),
    })
}

/// The alias, in which `$tag_host` is `{{host}}`; without one, what Grafana shows by itself.
fn legend(
    target: &Object<'_, '_>,
    sub_query: &SubQuery,
    keys: Option<&[String]>,
    variables: &Variables,
) -> String {
    if let Some(alias) = target.text("alias") {
        return alias_legend(alias);
    }
    let metric = variables.restore(sub_query.metric.as_deref().unwrap_or_default());
    let tags = keys.unwrap_or_default().iter();
    let tags: Vec<String> = tags
        .map(|key| variables.restore(key))
        .map(|key| format!("{key}={{{{{key}}}}}"))
        .collect();
    match (keys, tags.is_empty()) {
        // All labels, as Grafana shows them.
        (None, _) => "__auto".to_owned(),
        (_, true) => metric,
        _ => format!("{metric}{{{}}}", tags.join(", ")),
    }
}

fn alias_legend(alias: &str) -> String {
    let mut legend = String::new();
    let mut rest = alias;
    while let Some(at) = rest.find(['$', '[']) {
        let (before, from) = rest.split_at(at);
        legend.push_str(before);
        match tag_reference(from) {
            Some((key, length)) => {
                legend.push_str(&format!("{{{{{key}}}}}"));
                rest = &from[length..];
            }
            None => {
                legend.push_str(&from[..1]);
                rest = &from[1..];
            }
        }
    }
    legend.push_str(rest);
    legend
}

/// The key of `$tag_key`, `${tag_key}` or `[[tag_key]]`, and the length of the reference.
fn tag_reference(text: &str) -> Option<(&str, usize)> {
    for (open, close) in [("${tag_", "}"), ("[[tag_", "]]")] {
        if let Some(inner) = text.strip_prefix(open) {
            let (key, _) = inner.split_once(close)?;
            return Some((key, open.len() + key.len() + close.len()));
        }
    }
    let inner = text.strip_prefix("$tag_")?;
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let end = inner.find(|c| !is_word(c)).unwrap_or(inner.len());
    (end > 0).then(|| (&inner[..end], "$tag_".len() + end))
}

fn replace(target: &mut Object<'_, '_>, translation: &Translation, step: Option<&str>, uid: &str) {
    target.0.retain(|(name, _)| KEPT.contains(&&**name));
    target.set("datasource", datasource("prometheus", uid));
    target.set_text("editorMode", "code");
    target.set_text("expr", translation.expr.clone());
    target.set_text("format", "time_series");
    let steps = &translation.steps;
    target.set("instant", Json::Bool(steps.is_instant));
    target.set("range", Json::Bool(!steps.is_instant));
    if let Some(step) = step {
        target.set_text("interval", step);
    }
    if let Some(legend) = &translation.legend {
        target.set_text("legendFormat", legend.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_tags_become_labels() {
        for (alias, legend) in [
            ("cpu of $tag_host", "cpu of {{host}}"),
            (
                "$tag_host: [[tag_dc]] ${tag_data.center}",
                "{{host}}: {{dc}} {{data.center}}",
            ),
            ("$host $tag_ [[x]] $", "$host $tag_ [[x]] $"),
        ] {
            assert_eq!(alias_legend(alias), legend);
        }
    }
}
