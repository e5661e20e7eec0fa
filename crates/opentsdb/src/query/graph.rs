//! `/q`: results as a graph, as lines of text, or how many points a graph would have.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY};
use icecore_wire::opentsdb::number::Number;
use jiff::tz::TimeZone;

use super::downsampler::Interval;
use super::endpoint::parse_get;
use super::group::ResultSeries;
use super::request::{PlannedQuery, PlannedSubQuery, QueryRequest};
use super::rolled::RolledReport;
use super::run::{RunOptions, run};
use super::window::Window;
use crate::allowance::Allowance;
use crate::error::Error;
use crate::java::push_double;
use crate::json::push_text;
use crate::plot::{Figure, PlotOptions};
use crate::request::Request;
use crate::response::{PNG, Response, SVG};
use crate::time::find_zone;
use crate::tsd::Tsd;

/// How long answers about the past can be kept, in seconds.
const PAST_AGE_S: i64 = 86_400;

/// Rows may still be written so long after their end, in milliseconds.
const WRITTEN_MS: i64 = 3_600_000;

/// What a browser may do with a graph: show it.
const NO_SCRIPTS: &str = "default-src 'none'; style-src 'unsafe-inline'";

/// What is answered, in the order in which formats count if there are several.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
    Lines,
    Summary,
    Svg,
    Png,
}

/// Whether a request names what it wants as its answer.
pub(crate) fn names_format(request: &Request) -> bool {
    Format::of(request).is_some()
}

impl Format {
    fn of(request: &Request) -> Option<Self> {
        let formats = [
            ("ascii", Self::Lines),
            ("json", Self::Summary),
            ("svg", Self::Svg),
            ("png", Self::Png),
        ];
        let named = formats.into_iter().find(|(name, _)| request.flag(name));
        named.map(|(_, format)| format)
    }
}

pub(crate) async fn graph(tsd: &Tsd, request: &Request) -> Result<Response, Error> {
    let started_ms = tsd.clock.elapsed_ms();
    let now_ms = tsd.clock.now_ms();
    let allowance = &request.allowance;
    let mut asked = parse_get(request)?;
    asked.timezone = request.param("tz").map(String::from);
    let planned = asked.plan(&tsd.config, now_ms)?;
    let mut response = match Format::of(request).unwrap_or(Format::Png) {
        Format::Lines => {
            let results = read(tsd, &planned, allowance).await?;
            Response::text(lines(&results)).with_warning(warning(&results))
        }
        Format::Summary => {
            let results = read(tsd, &planned, allowance).await?;
            let elapsed_ms = tsd.clock.elapsed_ms() - started_ms;
            let summary = summary(&results, planned.window, elapsed_ms);
            Response::json(summary).with_warning(warning(&results))
        }
        format => drawn(tsd, request, &asked, &planned, format).await?,
    };
    let is_relative = [&asked.start, &asked.end]
        .iter()
        .any(|time| time.to_lowercase().ends_with("-ago"));
    let age_s = max_age_s(planned.window, now_ms, is_relative);
    let age = format!("max-age={age_s}");
    response.headers.push((CACHE_CONTROL, age));
    Ok(response)
}

/// What there is to say about results.
fn warning(results: &[Vec<ResultSeries>]) -> Option<String> {
    RolledReport::of_all(results.iter().flatten())?.warning()
}

/// The results of each sub query.
async fn read(
    tsd: &Tsd,
    planned: &PlannedQuery,
    allowance: &Allowance,
) -> Result<Vec<Vec<ResultSeries>>, Error> {
    let mut results = Vec::new();
    for sub_query in &planned.sub_queries {
        results.push(read_one(tsd, sub_query, planned.window, allowance).await?);
    }
    Ok(results)
}

async fn read_one(
    tsd: &Tsd,
    sub_query: &PlannedSubQuery,
    window: Window,
    allowance: &Allowance,
) -> Result<Vec<ResultSeries>, Error> {
    let options = RunOptions {
        whole_hours: true,
        ..RunOptions::new(tsd, allowance)
    };
    let interval = sub_query.downsampler.as_ref().map(|d| &d.interval);
    // The original's one interval for all begins before every window.
    let is_empty = interval == Some(&Interval::All);
    let mut found = run(tsd, sub_query, window, options).await?;
    if is_empty {
        found.clear();
    }
    Ok(found)
}

/// A picture. The results of a sub query are thinned before the next one is read.
async fn drawn(
    tsd: &Tsd,
    request: &Request,
    asked: &QueryRequest,
    planned: &PlannedQuery,
    format: Format,
) -> Result<Response, Error> {
    let allowance = &request.allowance;
    let options = PlotOptions::parse(request, zone(tsd, asked)?)?;
    let curves = options.curves(request, asked.sub_queries.len())?;
    let mut figure = Figure::new(options, planned.window.start_ms, planned.window.end_ms);
    for sub_query in &planned.sub_queries {
        // Of sub queries that are equal, the options of the first count.
        let index = asked.sub_queries.iter().position(|s| *s == sub_query.asked);
        let curve = index.map(|index| curves[index]).unwrap_or_default();
        for series in read_one(tsd, sub_query, planned.window, allowance).await? {
            let points = series.points.times.iter().zip(&series.points.values);
            let points = points.map(|(time, value)| (*time, value.to_f64()));
            figure.add(name_of(&series), points, curve)?;
        }
    }
    allowance.check()?;
    if format == Format::Svg {
        let mut response = Response::new(StatusCode::OK, SVG, figure.svg()?.into_bytes());
        let policy = (CONTENT_SECURITY_POLICY, NO_SCRIPTS.to_owned());
        response.headers.push(policy);
        return Ok(response);
    }
    let _pixels = allowance.reserve(figure.png_bytes())?;
    Ok(Response::new(StatusCode::OK, PNG, figure.png()?))
}

/// The time zone of a graph.
fn zone(tsd: &Tsd, asked: &QueryRequest) -> Result<TimeZone, Error> {
    let asked = asked.timezone.as_deref().filter(|name| !name.is_empty());
    match asked.or(tsd.config.timezone.as_deref()) {
        None => Ok(TimeZone::UTC),
        Some(name) => find_zone(name)
            .ok_or_else(|| Error::bad_request(format!("Invalid timezone name: {name}"))),
    }
}

/// The name of a series in a key: `metric{host=web01, dc=lga}`.
fn name_of(series: &ResultSeries) -> String {
    let tags = series.tags.iter();
    let tags: Vec<String> = tags.map(|(key, value)| format!("{key}={value}")).collect();
    format!("{}{{{}}}", series.metric, tags.join(", "))
}

/// How long an answer can be kept, in seconds.
fn max_age_s(window: Window, now_ms: i64, is_relative: bool) -> i64 {
    if window.end_ms > now_ms {
        0
    } else if window.end_ms < now_ms - WRITTEN_MS && !is_relative {
        PAST_AGE_S
    } else {
        ((window.end_ms - window.start_ms) / 1000) >> 10
    }
}

/// `metric seconds value key=value …` for each point.
fn lines(results: &[Vec<ResultSeries>]) -> String {
    let mut text = String::new();
    for series in results.iter().flatten() {
        let tags = series.tags.iter();
        let tags: String = tags.map(|(key, value)| format!(" {key}={value}")).collect();
        let points = series.points.times.iter().zip(&series.points.values);
        for (time, value) in points {
            if matches!(value, Number::Float(value) if value.is_nan()) {
                continue;
            }
            let _ = write!(text, "{} {} ", series.metric, time / 1000);
            match *value {
                Number::Integer(value) => {
                    let _ = write!(text, "{value}");
                }
                Number::Float(value) => push_double(&mut text, value),
            }
            text.push_str(&tags);
            text.push('\n');
        }
    }
    text
}

/// Points that were read and that lie in the window, and the aggregated tags of each sub query.
fn summary(results: &[Vec<ResultSeries>], window: Window, elapsed_ms: i64) -> String {
    let times = || results.iter().flatten().flat_map(|s| &s.points.times);
    let plotted = times().filter(|time| window.contains(**time)).count();
    let points = times().count();
    let mut json = format!("{{\"plotted\":{plotted},\"points\":{points},\"etags\":[");
    for (i, of_query) in results.iter().enumerate() {
        json.push_str(if i == 0 { "[" } else { ",[" });
        let tags = of_query.iter().flat_map(|series| &series.aggregate_tags);
        let tags: BTreeSet<&String> = tags.collect();
        for (i, tag) in tags.into_iter().enumerate() {
            json.push_str(if i == 0 { "" } else { "," });
            push_text(&mut json, tag);
        }
        json.push(']');
    }
    let _ = write!(json, "],\"timing\":{elapsed_ms}}}");
    json
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_about_the_past_can_be_kept() {
        let hour = 3_600_000;
        let window = Window {
            start_ms: 0,
            end_ms: 24 * hour,
        };
        assert_eq!(max_age_s(window, 23 * hour, false), 0);
        assert_eq!(max_age_s(window, 26 * hour, false), 86_400);
        assert_eq!(max_age_s(window, 26 * hour, true), 84);
        assert_eq!(max_age_s(window, 24 * hour, false), 84);
    }
}
