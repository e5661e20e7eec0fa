//! Queries in a JSON document.

use super::filter::TagFilter;
use super::get::{FILTERS_MAX, push_filter};
use super::rate::RateOptions;
use super::request::{QueryRequest, RollupUsage, SubQuery};
use crate::error::Error;
use crate::json::Json;

/// What is wrong with a document, for the details of the answer.
type Result<T> = std::result::Result<T, String>;

/// Reads a query.
pub(crate) fn parse(document: &Json<'_>) -> std::result::Result<QueryRequest, Error> {
    query(document).map_err(|problem| {
        Error::bad_request("Unable to parse the given JSON").with_details(problem)
    })
}

fn query(document: &Json<'_>) -> Result<QueryRequest> {
    let mut query = QueryRequest::default();
    for (name, value) in members(document, "a query")? {
        match &**name {
            "start" => query.start = text(value)?.unwrap_or_default(),
            "end" => query.end = text(value)?.unwrap_or_default(),
            "timezone" => query.timezone = text(value)?,
            "queries" => {
                query.sub_queries.clear();
                for element in list(value, "queries")? {
                    query.push(sub_query(element)?)?;
                }
            }
            "noAnnotations" => query.no_annotations = boolean(value)?,
            "globalAnnotations" => query.global_annotations = boolean(value)?,
            "msResolution" => query.ms_resolution = boolean(value)?,
            "showTSUIDs" => query.show_tsuids = boolean(value)?,
            "showSummary" => query.show_summary = boolean(value)?,
            "showStats" => query.show_stats = boolean(value)?,
            "showQuery" => query.show_query = boolean(value)?,
            "delete" => query.delete = boolean(value)?,
            "useCalendar" => query.use_calendar = boolean(value)?,
            // Limits are not lifted: by default the original does not allow that either.
            "padding" | "overrideByteLimit" | "overrideDataPointLimit" => {
                boolean(value)?;
            }
            _ => {}
        }
    }
    Ok(query)
}

fn sub_query(document: &Json<'_>) -> Result<SubQuery> {
    let mut found = SubQuery::default();
    for (name, value) in members(document, "a sub query")? {
        match &**name {
            "aggregator" => found.aggregator = text(value)?.unwrap_or_default(),
            "metric" => found.metric = text(value)?,
            "tsuids" => found.tsuids = texts(value)?,
            "downsample" => found.downsample = text(value)?,
            "rate" => found.rate = boolean(value)?,
            "rateOptions" => found.rate_options = rate_options(value)?,
            // Of tags and filters the later one counts.
            "tags" => found.filters = tags(value)?,
            "filters" => {
                let list = list(value, "filters")?;
                if list.len() > FILTERS_MAX {
                    return Err(format!("more than {FILTERS_MAX} filters"));
                }
                found.filters = list.iter().map(filter).collect::<Result<_>>()?;
            }
            "explicitTags" => found.explicit_tags = boolean(value)?,
            "percentiles" => found.set_percentiles(percentiles(value)?),
            "showHistogramBuckets" => found.show_histogram_buckets = boolean(value)?,
            "rollupUsage" => {
                // A `null` is a name that is not known.
                let name = text(value)?.unwrap_or_default();
                found.rollup_usage = Some(RollupUsage::parse(&name));
            }
            "preAggregate" => found.pre_aggregate = boolean(value)?,
            "useFuzzyFilter" => found.without_fuzzy_filter = !boolean(value)?,
            "useMultiGets" => found.without_multi_gets = !boolean(value)?,
            _ => {}
        }
    }
    Ok(found)
}

fn rate_options(document: &Json<'_>) -> Result<Option<RateOptions>> {
    if document.is_null() {
        return Ok(None);
    }
    let mut options = RateOptions::default();
    for (name, value) in members(document, "rateOptions")? {
        match &**name {
            "counter" | "isCounter" => options.counter = boolean(value)?,
            "counterMax" => options.counter_max = integer(value)?,
            "resetValue" => options.reset_value = integer(value)?,
            "dropResets" => options.drop_resets = boolean(value)?,
            _ => return Err(format!("Unrecognized field \"{name}\"")),
        }
    }
    Ok(Some(options))
}

fn tags(document: &Json<'_>) -> Result<Vec<TagFilter>> {
    let mut filters = Vec::new();
    for (key, value) in members(document, "tags")? {
        let value = text(value)?.unwrap_or_default();
        push_filter(TagFilter::short(key, &value, true)?, &mut filters)?;
    }
    Ok(filters)
}

pub(crate) fn filter(document: &Json<'_>) -> Result<TagFilter> {
    let (mut kind, mut tagk, mut value, mut group_by) = (None, None, None, false);
    for (name, member) in members(document, "a filter")? {
        match &**name {
            "type" => kind = text(member)?,
            "tagk" => tagk = text(member)?,
            "filter" => value = text(member)?,
            "groupBy" | "group_by" => group_by = boolean(member)?,
            _ => {}
        }
    }
    let [kind, tagk, value] = [kind, tagk, value].map(Option::unwrap_or_default);
    TagFilter::new(&kind, &tagk, &value, group_by)
}

fn percentiles(value: &Json<'_>) -> Result<Option<Vec<f32>>> {
    let Some(texts) = texts(value)? else {
        return Ok(None);
    };
    let number = |text: &String| text.parse().map_err(|_| format!("not a number: {text}"));
    texts.iter().map(number).collect::<Result<_>>().map(Some)
}

pub(crate) fn members<'a, 'b>(
    value: &'b Json<'a>,
    what: &str,
) -> Result<&'b [(std::borrow::Cow<'a, str>, Json<'a>)]> {
    value
        .as_object()
        .ok_or_else(|| format!("{what} must be an object"))
}

/// The elements of a list; none of `null`.
pub(crate) fn list<'a, 'b>(value: &'b Json<'a>, what: &str) -> Result<&'b [Json<'a>]> {
    if value.is_null() {
        return Ok(&[]);
    }
    value
        .as_array()
        .ok_or_else(|| format!("{what} must be a list"))
}

fn texts(value: &Json<'_>) -> Result<Option<Vec<String>>> {
    if value.is_null() {
        return Ok(None);
    }
    let element = |element| text(element).map(Option::unwrap_or_default);
    let elements = list(value, "texts")?.iter().map(element);
    elements.collect::<Result<_>>().map(Some)
}

pub(crate) fn text(value: &Json<'_>) -> Result<Option<String>> {
    if value.is_null() {
        return Ok(None);
    }
    let text = value.text().ok_or("a text was expected")?;
    Ok(Some(text.to_owned()))
}

/// `true`, also as a text, or a number other than 0.
pub(crate) fn boolean(value: &Json<'_>) -> Result<bool> {
    match value {
        Json::Null => Ok(false),
        Json::Bool(value) => Ok(*value),
        Json::Number(number) => Ok(number != "0"),
        Json::Text(text) => match text.trim() {
            "" | "false" | "False" | "FALSE" => Ok(false),
            "true" | "True" | "TRUE" => Ok(true),
            other => Err(format!(
                "only \"true\" or \"false\" recognized, not {other}"
            )),
        },
        _ => Err("a boolean was expected".into()),
    }
}

/// An integer; the fraction of a number is cut off.
fn integer(value: &Json<'_>) -> Result<i64> {
    match value {
        Json::Null => Ok(0),
        Json::Number(text) => {
            let float = || text.parse::<f64>().ok().filter(|f| f.is_finite());
            let integer = text.parse().ok().or_else(|| float().map(|f| f as i64));
            integer.ok_or_else(|| format!("not an integer: {text}"))
        }
        Json::Text(text) if text.trim().is_empty() => Ok(0),
        Json::Text(text) => {
            let integer = text.trim().parse();
            integer.map_err(|_| format!("not a valid long value: {text}"))
        }
        _ => Err("a number was expected".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> std::result::Result<QueryRequest, Error> {
        parse(&Json::parse(text).unwrap())
    }

    #[test]
    fn everything_of_a_document() {
        let query = parsed(
            r#"{"start": 1356998400, "end": "1h-ago", "msResolution": "true", "unknown": {},
                "timezone": "UTC", "useCalendar": true, "queries": [
                {"aggregator": "sum", "metric": "m", "rate": 1, "downsample": "1m-avg",
                 "rateOptions": {"counter": true, "counterMax": "100", "resetValue": 5.7},
                 "tags": {"host": "a|b"},
                 "filters": [{"type": "wildcard", "tagk": "dc", "filter": "*", "groupBy": true}],
                 "percentiles": [99.9, 5, "50"], "rollupUsage": "rollup_raw",
                 "explicitTags": true, "useFuzzyFilter": false, "useMultiGets": true},
                {"aggregator": "none", "tsuids": ["01"], "filters": null, "tags": {"x": 5}}]}"#,
        );
        let query = query.unwrap();
        assert_eq!((&*query.start, &*query.end), ("1356998400", "1h-ago"));
        assert!(query.ms_resolution && query.use_calendar && !query.delete);
        let [first, second] = query.sub_queries.as_slice() else {
            panic!("two sub queries")
        };
        let options = first.rate_options.unwrap();
        assert_eq!((options.counter_max, options.reset_value), (100, 5));
        assert_eq!(first.filters.len(), 1);
        assert_eq!(first.filters[0].tagk, "dc");
        assert_eq!(first.rollup_usage, Some(RollupUsage::Raw));
        assert_eq!(first.percentiles, Some(vec![5.0, 50.0, 99.9]));
        assert!(first.without_fuzzy_filter && !first.without_multi_gets);
        assert_eq!(second.tsuids, Some(vec!["01".into()]));
        assert_eq!(second.filters[0].text, "5");
    }

    #[test]
    fn documents_of_another_shape_are_refused() {
        for text in [
            "[]",
            r#"{"queries": {}}"#,
            r#"{"queries": [{"tags": null}]}"#,
            r#"{"queries": [{"tags": {"host": null}}]}"#,
            r#"{"queries": [{"filters": [{}]}]}"#,
            r#"{"queries": [{"rate": "yes"}]}"#,
            r#"{"queries": [{"rateOptions": {"foo": 1}}]}"#,
            r#"{"start": []}"#,
        ] {
            let error = parsed(text).unwrap_err();
            assert_eq!(error.message, "Unable to parse the given JSON", "{text}");
        }
    }
}
