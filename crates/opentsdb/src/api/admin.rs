//! Endpoints about the daemon itself.

use http::Method;

use crate::aggregator_names::AGGREGATOR_NAMES;
use crate::error::Error;
use crate::json::push_text;
use crate::query_log::LoggedQuery;
use crate::request::Request;
use crate::response::Response;
use crate::tsd::Tsd;
use crate::{stats, version};

/// Refuses other verbs.
fn allow(request: &Request, methods: &[Method]) -> Result<(), Error> {
    if methods.contains(&request.method) {
        Ok(())
    } else {
        Err(Error::method_not_allowed(&request.method))
    }
}

const GET_OR_POST: [Method; 2] = [Method::GET, Method::POST];

pub(super) fn aggregators(request: &Request) -> Result<Response, Error> {
    allow(request, &GET_OR_POST)?;
    Ok(Response::json(format!(
        "[\"{}\"]",
        AGGREGATOR_NAMES.join("\",\"")
    )))
}

pub(super) fn version(request: &Request) -> Result<Response, Error> {
    allow(request, &GET_OR_POST)?;
    Ok(Response::json(object(version::FIELDS)))
}

/// `/version`, which is text unless JSON is asked for.
pub(super) fn version_page(request: &Request) -> Result<Response, Error> {
    if request.flag("json") {
        return version(request);
    }
    allow(request, &GET_OR_POST)?;
    Ok(Response::text(version::text()))
}

pub(super) async fn drop_caches(tsd: &Tsd, request: &Request) -> Result<Response, Error> {
    allow(request, &[Method::GET, Method::DELETE])?;
    tsd.series_cache.clear();
    tsd.label_names.forget().await;
    let fields = [("status", "200"), ("message", "Caches dropped")];
    Ok(Response::json(object(fields)))
}

pub(super) fn config(tsd: &Tsd, request: &Request) -> Result<Response, Error> {
    allow(request, &GET_OR_POST)?;
    let entries = tsd.config.entries();
    let entries = entries.iter().map(|(key, value)| {
        let is_secret = key.to_ascii_uppercase().contains("PASS");
        (
            *key,
            if is_secret {
                "********"
            } else {
                value.as_str()
            },
        )
    });
    Ok(Response::json(object(entries)))
}

pub(super) fn filters(request: &Request) -> Result<Response, Error> {
    allow(request, &GET_OR_POST)?;
    let mut body = String::from("{");
    for (i, (name, examples, description)) in FILTERS.iter().enumerate() {
        body.push_str(if i == 0 { "" } else { "," });
        push_text(&mut body, name);
        body.push(':');
        body.push_str(&object([
            ("examples", *examples),
            ("description", *description),
        ]));
    }
    body.push('}');
    Ok(Response::json(body))
}

pub(super) fn statistics(tsd: &Tsd, request: &Request, rest: &[&str]) -> Result<Response, Error> {
    allow(request, &GET_OR_POST)?;
    let now_s = tsd.clock.now_ms() / 1000;
    Ok(Response::json(match rest {
        ["query", ..] => queries(tsd),
        // What follows is of Java and HBase, which are not here.
        ["jvm", ..] => r#"{"gc":{},"memory":{},"os":{},"pools":{},"runtime":{}}"#.into(),
        ["threads" | "region_clients", ..] => "[]".into(),
        _ => stats::to_json(&stats::collect(tsd), now_s),
    }))
}

/// Queries that run and that ran.
fn queries(tsd: &Tsd) -> String {
    let now_ms = tsd.clock.elapsed_ms();
    let shown = |query: &LoggedQuery| {
        let mut remote = String::new();
        push_text(&mut remote, &query.remote);
        let end_ms = query.end_elapsed_ms.unwrap_or(now_ms);
        format!(
            "{{\"query\":{},\"remote\":{remote},\"user\":null,\"headers\":{{}},\
             \"queryStart\":{},\"elapsed\":{},\"httpResponse\":{}}}",
            query.query,
            query.start_ms,
            end_ms - query.start_elapsed_ms,
            query.status
        )
    };
    let list = |queries: &[LoggedQuery]| queries.iter().map(shown).collect::<Vec<_>>().join(",");
    let (running, completed) = tsd.query_log.queries();
    format!(
        "{{\"completed\":[{}],\"running\":[{}]}}",
        list(&completed),
        list(&running)
    )
}

/// `/stats`, which is text unless JSON is asked for.
pub(super) fn statistics_page(tsd: &Tsd, request: &Request) -> Result<Response, Error> {
    if request.flag("json") {
        return statistics(tsd, request, &[]);
    }
    allow(request, &GET_OR_POST)?;
    let now_s = tsd.clock.now_ms() / 1000;
    let text = stats::to_text(&stats::collect(tsd), now_s);
    Ok(Response::text(text))
}

/// An object of texts.
fn object<'a>(members: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let mut json = String::from("{");
    for (i, (name, value)) in members.into_iter().enumerate() {
        json.push_str(if i == 0 { "" } else { "," });
        push_text(&mut json, name);
        json.push(':');
        push_text(&mut json, value);
    }
    json.push('}');
    json
}

/// Filters with their examples and descriptions, as user interfaces show them.
const FILTERS: [(&str, &str, &str); 7] = [
    (
        "regexp",
        "host=regexp(.*)  \
         {\"type\":\"regexp\",\"tagk\":\"host\",\"filter\":\".*\",\"groupBy\":false}",
        "Provides full, POSIX compliant regular expression using the built in Java Pattern \
         class. Note that an expression containing curly braces {} will not parse properly in \
         URLs. If the pattern is not a valid regular expression then an exception will be \
         raised.",
    ),
    (
        "iwildcard",
        "host=iwildcard(web*),  host=iwildcard(web*.tsdb.net)  \
         {\"type\":\"iwildcard\",\"tagk\":\"host\",\"filter\":\"web*.tsdb.net\",\"groupBy\":false}",
        "Performs pre, post and in-fix glob matching of values. The globs are case \
         insensitive and multiple wildcards can be used. The wildcard character is the * \
         (asterisk). Case insensitivity is achieved by dropping all values to lower case. At \
         least one wildcard must be present in the filter value. A wildcard by itself can be \
         used as well to match on any value for the tag key.",
    ),
    (
        "iliteral_or",
        "host=iliteral_or(web01),  host=iliteral_or(web01|web02|web03)  \
         {\"type\":\"iliteral_or\",\"tagk\":\"host\",\"filter\":\"web01|web02|web03\",\"groupBy\":false}",
        "Accepts one or more exact values and matches if the series contains any of them. \
         Multiple values can be included and must be separated by the | (pipe) character. The \
         filter is case insensitive and will not allow characters that TSDB does not allow at \
         write time.",
    ),
    (
        "not_iliteral_or",
        "host=not_iliteral_or(web01),  host=not_iliteral_or(web01|web02|web03)  \
         {\"type\":\"not_iliteral_or\",\"tagk\":\"host\",\"filter\":\"web01|web02|web03\",\"groupBy\":false}",
        "Accepts one or more exact values and matches if the series does NOT contain any of \
         them. Multiple values can be included and must be separated by the | (pipe) \
         character. The filter is case insensitive and will not allow characters that TSDB \
         does not allow at write time.",
    ),
    (
        "not_literal_or",
        "host=not_literal_or(web01),  host=not_literal_or(web01|web02|web03)  \
         {\"type\":\"not_literal_or\",\"tagk\":\"host\",\"filter\":\"web01|web02|web03\",\"groupBy\":false}",
        "Accepts one or more exact values and matches if the series does NOT contain any of \
         them. Multiple values can be included and must be separated by the | (pipe) \
         character. The filter is case sensitive and will not allow characters that TSDB does \
         not allow at write time.",
    ),
    (
        "literal_or",
        "host=literal_or(web01),  host=literal_or(web01|web02|web03)  \
         {\"type\":\"literal_or\",\"tagk\":\"host\",\"filter\":\"web01|web02|web03\",\"groupBy\":false}",
        "Accepts one or more exact values and matches if the series contains any of them. \
         Multiple values can be included and must be separated by the | (pipe) character. The \
         filter is case sensitive and will not allow characters that TSDB does not allow at \
         write time.",
    ),
    (
        "wildcard",
        "host=wildcard(web*),  host=wildcard(web*.tsdb.net)  \
         {\"type\":\"wildcard\",\"tagk\":\"host\",\"filter\":\"web*.tsdb.net\",\"groupBy\":false}",
        "Performs pre, post and in-fix glob matching of values. The globs are case sensitive \
         and multiple wildcards can be used. The wildcard character is the * (asterisk). At \
         least one wildcard must be present in the filter value. A wildcard by itself can be \
         used as well to match on any value for the tag key.",
    ),
];
