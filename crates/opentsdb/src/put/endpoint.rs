//! `/api/put`.

use std::time::Duration;

use http::{Method, StatusCode};
use icecore_model::WriteOutcome;
use icecore_wire::opentsdb::put_json::{PutPoint, parse_tags, read_points};

use super::append::append;
use super::{PointWriter, PutError, SeriesText};
use crate::error::Error;
use crate::json::push_text;
use crate::request::Request;
use crate::response::Response;
use crate::tsd::Tsd;

pub(crate) async fn put(tsd: &Tsd, request: &Request) -> Result<Response, Error> {
    let answer = Answer::of(request)?;
    let body = request.body.clone();
    let with_details = answer.details;
    let write = move |writer: &mut PointWriter<'_>| write_document(writer, &body, with_details);
    let appended = append(tsd, Duration::ZERO, write).await?;
    appended.durable.wait().await?;
    Ok(answer.response(appended.report, &appended.outcome))
}

fn write_document(
    writer: &mut PointWriter<'_>,
    body: &[u8],
    with_details: bool,
) -> Result<Report, Error> {
    let text = document_text(body)?;
    let mut points = Vec::new();
    read_points(text, &mut points)
        .map_err(|e| Error::bad_request("Unable to parse the given JSON").with_details(e.reason))?;
    if points.is_empty() {
        return Err(Error::bad_request("No datapoints found in content"));
    }
    let mut report = Report::new(points.len(), with_details);
    if let [Some(point)] = points.as_slice()
        && with_details
    {
        report.only = datapoint_json(point);
    }
    for point in &points {
        if let Err(error) = write_point(writer, point.as_ref()) {
            report.fail(error.http_text(), || match point {
                Some(point) => datapoint_json(point),
                None => "null".into(),
            });
        }
    }
    Ok(report)
}

/// The body, which must be an object or an array.
pub(super) fn document_text(body: &[u8]) -> Result<&str, Error> {
    let text = std::str::from_utf8(body)
        .map_err(|_| Error::bad_request("Unable to parse the given JSON"))?;
    if text.trim_start().starts_with(['{', '[']) {
        Ok(text)
    } else {
        let message = "The JSON must start as an object or an array";
        Err(Error::bad_request(message))
    }
}

fn write_point(writer: &mut PointWriter<'_>, point: Option<&PutPoint<'_>>) -> Result<(), PutError> {
    let refused = |message: &str| Err(PutError::argument(message));
    let Some(point) = point else {
        return refused("Unexpected null datapoint encountered in set.");
    };
    let metric = point.metric.as_deref().unwrap_or_default();
    if metric.is_empty() {
        return refused("Metric name was empty");
    }
    if point.timestamp <= 0 {
        return refused("Invalid timestamp");
    }
    let value = point.value.as_deref().unwrap_or_default();
    if value.is_empty() {
        return refused("Empty value");
    }
    let tags = point.tags;
    writer.write(SeriesText::Json { metric, tags }, point.timestamp, value)
}

/// A point as an error shows it.
fn datapoint_json(point: &PutPoint<'_>) -> String {
    let mut json = String::from("{");
    if let Some(metric) = &point.metric {
        json.push_str("\"metric\":");
        push_text(&mut json, metric);
        json.push(',');
    }
    json.push_str("\"timestamp\":");
    json.push_str(&point.timestamp.to_string());
    if let Some(value) = &point.value {
        json.push_str(",\"value\":");
        push_text(&mut json, value);
    }
    if let Some(tags) = point.tags.and_then(|tags| parse_tags(tags).ok()) {
        json.push_str(",\"tags\":{");
        for (i, (name, value)) in tags.iter().enumerate() {
            if i > 0 {
                json.push(',');
            }
            push_text(&mut json, name);
            json.push(':');
            match value {
                Some(value) => push_text(&mut json, value),
                None => json.push_str("null"),
            }
        }
        json.push('}');
    }
    json.push('}');
    json
}

/// What became of the points of a request.
pub(super) struct Report {
    points: usize,
    failed: usize,
    /// `{"datapoint":…,"error":…}` of each that failed, if they are wanted.
    errors: Option<Vec<String>>,
    /// The point, where there is one alone.
    only: String,
}

impl Report {
    pub(super) fn new(points: usize, with_details: bool) -> Self {
        Self {
            points,
            failed: 0,
            errors: with_details.then(Vec::new),
            only: "null".into(),
        }
    }

    pub(super) fn fail(&mut self, error: &str, datapoint: impl FnOnce() -> String) {
        self.failed += 1;
        if let Some(errors) = &mut self.errors {
            let mut entry = format!("{{\"datapoint\":{},\"error\":", datapoint());
            push_text(&mut entry, error);
            entry.push('}');
            errors.push(entry);
        }
    }

    /// Points that the store refused. It does not say which ones.
    fn refuse(&mut self, outcome: &WriteOutcome) {
        for rejection in &outcome.rejected {
            let count = usize::try_from(rejection.count).unwrap_or(usize::MAX);
            self.failed = self.failed.saturating_add(count).min(self.points);
            if let Some(errors) = &mut self.errors {
                let mut entry = format!("{{\"datapoint\":{},\"error\":", self.only);
                let reason = &rejection.reason;
                if self.points == 1 {
                    push_text(&mut entry, reason);
                } else {
                    push_text(&mut entry, &format!("{reason} (×{count})"));
                }
                entry.push('}');
                errors.push(entry);
            }
        }
    }
}

/// What kind of answer a request wants.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answer {
    pub(super) details: bool,
    summary: bool,
    /// `sync_timeout` is there. Every answer waits until points are durable, however long.
    timeouts: bool,
}

impl Answer {
    /// Also checks that there is something to be written.
    pub(super) fn of(request: &Request) -> Result<Self, Error> {
        if request.method != Method::POST {
            return Err(Error::method_not_allowed(&request.method));
        }
        if !request.has_content() {
            return Err(Error::bad_request("Missing request content"));
        }
        let timeout = match request.param("sync_timeout") {
            None => 0,
            Some(text) => text
                .parse::<i64>()
                .map_err(|_| Error::bad_request(format!("For input string: \"{text}\"")))?,
        };
        Ok(Self {
            details: request.flag("details"),
            summary: request.flag("summary"),
            timeouts: request.flag("sync") && timeout > 0,
        })
    }

    pub(super) fn response(self, mut report: Report, outcome: &WriteOutcome) -> Response {
        report.refuse(outcome);
        let status = if outcome.rejected.iter().any(|rejection| rejection.retryable) {
            StatusCode::SERVICE_UNAVAILABLE
        } else if report.failed > 0 {
            StatusCode::BAD_REQUEST
        } else if self.details || self.summary {
            StatusCode::OK
        } else {
            return Response::done();
        };
        if !self.details && !self.summary {
            let details = match outcome.rejection_reasons() {
                reasons if reasons.is_empty() => {
                    "Please see the TSD logs or append \"details\" to the put request".into()
                }
                reasons => reasons,
            };
            let message = "One or more data points had errors";
            return Response::error(&Error::new(status, message).with_details(details));
        }
        let Report { points, failed, .. } = report;
        let success = points - failed;
        let mut body = format!("{{\"success\":{success},\"failed\":{failed}");
        if self.timeouts {
            body.push_str(",\"timeouts\":0");
        }
        if let Some(errors) = report.errors {
            body.push_str(",\"errors\":[");
            body.push_str(&errors.join(","));
            body.push(']');
        }
        body.push('}');
        Response::json(body).with_status(status)
    }
}
