//! `/q`: results as lines of text, and how many points a graph would have. Nothing is drawn.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use http::header::CACHE_CONTROL;
use icecore_wire::opentsdb::number::Number;

use super::downsampler::Interval;
use super::endpoint::parse_get;
use super::execution::Limits;
use super::group::ResultSeries;
use super::run::{RunOptions, run};
use super::window::Window;
use crate::error::Error;
use crate::java::push_double;
use crate::json::push_text;
use crate::request::Request;
use crate::response::Response;
use crate::tsd::Tsd;

/// How long answers about the past can be kept, in seconds.
const PAST_AGE_S: i64 = 86_400;

/// Rows may still be written so long after their end, in milliseconds.
const WRITTEN_MS: i64 = 3_600_000;

pub(crate) async fn graph(tsd: &Tsd, request: &Request) -> Result<Response, Error> {
    if !request.flag("ascii") && !request.flag("json") {
        let message = "Graphs are not drawn here: ask for ascii or json";
        return Err(Error::bad_request(message));
    }
    let started_ms = tsd.clock.elapsed_ms();
    let now_ms = tsd.clock.now_ms();
    let mut asked = parse_get(request)?;
    asked.timezone = request.param("tz").map(String::from);
    let planned = asked.plan(&tsd.config, now_ms)?;
    let options = RunOptions {
        limits: Limits {
            points: tsd.config.query_points_max,
            bytes: tsd.config.query_bytes_max,
        },
        whole_hours: true,
        ..RunOptions::default()
    };
    let mut results = Vec::new();
    for sub_query in &planned.sub_queries {
        let interval = sub_query.downsampler.as_ref().map(|d| &d.interval);
        // The original's one interval for all begins before every window.
        let is_empty = interval == Some(&Interval::All);
        let mut found = run(tsd, sub_query, planned.window, options).await?;
        if is_empty {
            found.clear();
        }
        results.push(found);
    }
    let mut response = if request.flag("ascii") {
        Response::text(lines(&results))
    } else {
        let elapsed_ms = tsd.clock.elapsed_ms() - started_ms;
        Response::json(summary(&results, planned.window, elapsed_ms))
    };
    let is_relative = [&asked.start, &asked.end]
        .iter()
        .any(|time| time.to_lowercase().ends_with("-ago"));
    let age_s = max_age_s(planned.window, now_ms, is_relative);
    let age = format!("max-age={age_s}");
    response.headers.push((CACHE_CONTROL, age));
    Ok(response)
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
