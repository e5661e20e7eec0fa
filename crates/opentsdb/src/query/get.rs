//! Queries in a query string: `m=sum:1m-avg:rate:sys.cpu{host=*}`, `tsuid=sum:000001000001000001`.

use super::filter::TagFilter;
use super::rate::RateOptions;
use super::request::{RollupUsage, SubQuery};
use crate::error::Error;

/// Most parts of a sub query, the aggregator and the metric among them.
const PARTS_MAX: usize = 5;

/// Filters of one sub query.
pub(crate) const FILTERS_MAX: usize = 64;

/// A sub query by metric.
pub(crate) fn parse_m(text: &str) -> Result<SubQuery, Error> {
    if text.is_empty() {
        return Err(Error::bad_request("The query string was empty"));
    }
    let (aggregator, options, metric) = parts(text)?;
    let mut filters = Vec::new();
    let metric = parse_metric(metric, &mut filters).map_err(Error::bad_request)?;
    if metric.is_empty() {
        return Err(Error::bad_request("Metric cannot be null or empty"));
    }
    let mut sub_query = SubQuery {
        aggregator: aggregator.to_owned(),
        metric: Some(metric),
        filters,
        ..SubQuery::default()
    };
    for option in options {
        let is_known = sub_query.apply_common_option(option)?;
        if !is_known {
            sub_query.apply_metric_option(option);
        }
    }
    Ok(sub_query)
}

/// A sub query by TSUIDs.
pub(crate) fn parse_tsuid(text: &str) -> Result<SubQuery, Error> {
    if text.is_empty() {
        return Err(Error::bad_request("The tsuid query string was empty"));
    }
    let (aggregator, options, tsuids) = parts(text)?;
    let tsuids = tsuids.trim_end_matches(',').split(',');
    let mut sub_query = SubQuery {
        aggregator: aggregator.to_owned(),
        tsuids: Some(tsuids.map(String::from).collect()),
        ..SubQuery::default()
    };
    for option in options {
        sub_query.apply_common_option(option)?;
    }
    Ok(sub_query)
}

/// The aggregator, the options, and what is asked for.
fn parts(text: &str) -> Result<(&str, Vec<&str>, &str), Error> {
    let mut parts: Vec<&str> = text.split(':').collect();
    let problem = if parts.len() > PARTS_MAX {
        "too many"
    } else {
        "not enough"
    };
    let message = || format!("Invalid parameter m={text} ({problem} :-separated parts)");
    if parts.len() > PARTS_MAX {
        return Err(Error::bad_request(message()));
    }
    let last = parts.pop().filter(|_| !parts.is_empty());
    let last = last.ok_or_else(|| Error::bad_request(message()))?;
    let options = parts.split_off(1);
    Ok((parts[0], options, last))
}

impl SubQuery {
    /// Whether it is an option that sub queries of both kinds have.
    fn apply_common_option(&mut self, option: &str) -> Result<bool, Error> {
        if option.is_empty() {
            // The original looks at the first letter, and fails.
            return Err(Error::bad_request("String index out of range: 0"));
        }
        let lower = option.to_lowercase();
        if lower.starts_with("rate") {
            self.rate = true;
            if option.contains('{') {
                self.rate_options = Some(parse_rate_options(option)?);
            }
        } else if option.starts_with(|c: char| c.is_ascii_digit()) {
            self.downsample = Some(option.to_owned());
        } else if lower.starts_with("percentiles") {
            self.set_percentiles(Some(parse_percentiles(option)?));
        } else if lower.starts_with("show-histogram-buckets") {
            self.show_histogram_buckets = true;
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    fn apply_metric_option(&mut self, option: &str) {
        let lower = option.to_lowercase();
        if lower == "pre-agg" {
            self.pre_aggregate = true;
        } else if lower.starts_with("rollup_") {
            self.rollup_usage = Some(RollupUsage::parse(option));
        } else if lower.starts_with("explicit_tags") {
            self.explicit_tags = true;
        }
    }
}

/// `rate{counter,max,reset}`
fn parse_rate_options(text: &str) -> Result<RateOptions, Error> {
    let inner = text.get("rate{".len()..text.len() - 1);
    let inner = inner.filter(|_| text.len() >= "rate{}".len());
    let inner = inner
        .ok_or_else(|| Error::bad_request(format!("Invalid rate options specification: {text}")))?;
    let parts: Vec<&str> = inner.split(',').collect();
    let number = |index: usize, what: &str, default: i64| {
        let text = parts.get(index).filter(|text| !text.is_empty());
        text.map_or(Ok(default), |text| {
            text.parse().map_err(|_| {
                let problem = format!("{what} value of counter was not a number");
                Error::bad_request(format!("{problem}, received '{text}'"))
            })
        })
    };
    if parts.len() > 3 {
        return Err(Error::bad_request(format!(
            "Incorrect number of values in rate options specification, must be \
             counter[,counter max value,reset value], recieved: {} parts",
            parts.len()
        )));
    }
    Ok(RateOptions {
        counter: parts[0].ends_with("counter"),
        counter_max: number(1, "Max", i64::MAX)?,
        reset_value: number(2, "Reset", 0)?,
        drop_resets: parts[0] == "dropcounter",
    })
}

/// `percentiles[99.9,50]`
fn parse_percentiles(text: &str) -> Result<Vec<f32>, Error> {
    let malformed =
        || Error::bad_request(format!("Malformated percentile query paramater: {text}"));
    let (_, rest) = text.split_once('[').ok_or_else(malformed)?;
    let (inner, _) = rest.split_once(']').ok_or_else(malformed)?;
    let number = |text: &str| match text.trim() {
        "" => Err(Error::bad_request("empty String")),
        number => number
            .parse()
            .map_err(|_| Error::bad_request(format!("For input string: \"{text}\""))),
    };
    inner.split(',').map(number).collect()
}

/// A metric with filters that group and, in a second pair of braces, filters that do not.
pub(crate) fn parse_metric(text: &str, filters: &mut Vec<TagFilter>) -> Result<String, String> {
    let Some((metric, rest)) = text.split_once('{') else {
        return Ok(text.to_owned());
    };
    let Some(inner) = rest.strip_suffix('}') else {
        return Err(format!("Missing '}}' at the end of: {text}"));
    };
    // The first pair ends at the first brace that closes, the second begins at the last that opens.
    if let Some((grouping, _)) = inner.split_once('}') {
        let plain = inner.rsplit_once('{').map_or(inner, |(_, plain)| plain);
        add_filters(plain, false, filters)?;
        add_filters(grouping, true, filters)?;
    } else if !inner.is_empty() {
        for tag in inner.split(',') {
            add_filter(tag, true, filters)?;
        }
    }
    Ok(metric.to_owned())
}

/// Filters up to the first that is empty.
fn add_filters(text: &str, group_by: bool, filters: &mut Vec<TagFilter>) -> Result<(), String> {
    for tag in text.split(',').take_while(|tag| !tag.is_empty()) {
        add_filter(tag, group_by, filters)?;
    }
    Ok(())
}

fn add_filter(tag: &str, group_by: bool, filters: &mut Vec<TagFilter>) -> Result<(), String> {
    let parsed = match tag.split_once('=') {
        Some((key, value)) if !key.is_empty() && !value.is_empty() && !value.contains('=') => {
            TagFilter::short(key, value, group_by)
        }
        _ => Err(format!("invalid tag: {tag}")),
    };
    let filter = parsed.map_err(|problem| format!("When parsing tag '{tag}': {problem}"))?;
    push_filter(filter, filters)
}

/// Adds a filter, unless it is there; then it groups if either does.
pub(crate) fn push_filter(filter: TagFilter, filters: &mut Vec<TagFilter>) -> Result<(), String> {
    if filters.len() == FILTERS_MAX {
        return Err(format!("more than {FILTERS_MAX} filters"));
    }
    match filters
        .iter_mut()
        .find(|known| known.tests_the_same(&filter))
    {
        Some(known) => known.group_by |= filter.group_by,
        None => filters.push(filter),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_with_options_and_filters() {
        let text = "sum:1m-avg:rate{counter,100,5}:explicit_tags:m{host=*}{dc=lga}";
        let found = parse_m(text).unwrap();
        assert_eq!(found.aggregator, "sum");
        assert_eq!(found.metric.as_deref(), Some("m"));
        assert_eq!(found.downsample.as_deref(), Some("1m-avg"));
        let options = found.rate_options.unwrap();
        assert!(found.rate && found.explicit_tags && options.counter);
        assert_eq!((options.counter_max, options.reset_value), (100, 5));
        let filters: Vec<_> = found
            .filters
            .iter()
            .map(|f| (&*f.tagk, f.group_by))
            .collect();
        assert_eq!(filters, [("dc", false), ("host", true)]);
        let found = parse_m("sum:rate{dropcounter,,1000}:m").unwrap();
        let options = found.rate_options.unwrap();
        assert!(options.counter && options.drop_resets);
        assert_eq!((options.counter_max, options.reset_value), (i64::MAX, 1000));
        let found = parse_m("sum:percentiles[99.9, 50]:rollup_raw:pre-agg:m").unwrap();
        assert_eq!(found.percentiles, Some(vec![50.0, 99.9]));
        assert_eq!(found.rollup_usage, Some(RollupUsage::Raw));
        assert!(found.pre_aggregate);
        let found = parse_tsuid("max:10s-sum:0001,0002,").unwrap();
        assert_eq!(found.tsuids, Some(vec!["0001".into(), "0002".into()]));
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, message) in [
            ("", "The query string was empty"),
            ("m", "Invalid parameter m=m (not enough :-separated parts)"),
            (
                "a:b:c:d:e:m",
                "Invalid parameter m=a:b:c:d:e:m (too many :-separated parts)",
            ),
            ("sum:", "Metric cannot be null or empty"),
            ("sum:m{host=a", "Missing '}' at the end of: m{host=a"),
            ("sum:m{host}", "When parsing tag 'host': invalid tag: host"),
            ("sum:m{a=b,}", "When parsing tag '': invalid tag: "),
            ("sum:rate{:m", "Invalid rate options specification: rate{"),
            (
                "sum:rate{counter,x}:m",
                "Max value of counter was not a number, received 'x'",
            ),
            (
                "sum:percentiles[5:m",
                "Malformated percentile query paramater: percentiles[5",
            ),
            ("sum::m", "String index out of range: 0"),
            ("sum:1m-avg::m", "String index out of range: 0"),
        ] {
            assert_eq!(parse_m(text).unwrap_err().message, message);
        }
        let error = parse_tsuid("sum::000001000001000001").unwrap_err();
        assert_eq!(error.message, "String index out of range: 0");
        for text in [
            "sum::m",
            "::::",
            "sum:{}{}",
            "sum:m{}}{",
            "sum:rateä:m",
            "rate{ä",
        ] {
            let _ = parse_m(text);
            let _ = parse_tsuid(text);
        }
    }
}
