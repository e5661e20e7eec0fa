//! `/api/put`.

use std::time::Duration;

use icecore_model::WriteOutcome;
use icecore_wire::opentsdb::put_json::{PutPoint, parse_tags, read_points};

use super::append::append;
use super::report::{Answer, Report};
use super::{PointWriter, PutError, SeriesText};
use crate::error::Error;
use crate::json::push_text;
use crate::refusals::RefusalReason;
use crate::request::Request;
use crate::response::Response;
use crate::tsd::Tsd;

pub(crate) async fn put(tsd: &Tsd, request: &Request) -> Result<Response, Error> {
    let answer = Answer::of(request)?;
    let body = request.body.clone();
    let with_details = answer.details;
    let write = move |writer: &mut PointWriter<'_>| write_document(writer, &body, with_details);
    let mut appended = append(tsd, Duration::ZERO, write).await?;
    tsd.note_refusals(appended.refusals);
    appended.durable.wait().await?;
    if appended.report.shows(&appended.outcome) {
        show_refused(&request.body, &appended.outcome, &mut appended.report)?;
    }
    Ok(answer.response(appended.report, &appended.outcome))
}

/// Reads the points once more that the store refused: while they are written, it is not known
/// which.
fn show_refused(body: &[u8], outcome: &WriteOutcome, report: &mut Report) -> Result<(), Error> {
    let points = read_document(body)?;
    for reason in 0..outcome.rejected.len() {
        for number in report.refused(outcome, reason) {
            if let Some(Some(point)) = points.get(number as usize) {
                report.shown.insert(number, datapoint_json(point));
            }
        }
    }
    Ok(())
}

fn read_document(body: &[u8]) -> Result<Vec<Option<PutPoint<'_>>>, Error> {
    let mut points = Vec::new();
    read_points(document_text(body)?, &mut points).map_err(|error| unparsable(error.reason))?;
    Ok(points)
}

fn write_document(
    writer: &mut PointWriter<'_>,
    body: &[u8],
    with_details: bool,
) -> Result<Report, Error> {
    let points = read_document(body)?;
    if points.is_empty() {
        return Err(Error::bad_request("No datapoints found in content"));
    }
    let mut report = Report::new(points.len(), with_details);
    for point in &points {
        if with_details {
            writer.sink.point();
        }
        if let Err(error) = write_point(writer, point.as_ref()) {
            let shown = || point.as_ref().map_or("null".into(), datapoint_json);
            writer.refuse(&error, shown);
            report.fail(&error.http_text(), shown);
        }
    }
    Ok(report)
}

/// The body, which must be an object or an array.
pub(super) fn document_text(body: &[u8]) -> Result<&str, Error> {
    let text = std::str::from_utf8(body).map_err(|_| unparsable(""))?;
    if text.trim_start().starts_with(['{', '[']) {
        Ok(text)
    } else {
        let message = "The JSON must start as an object or an array";
        Err(Error::bad_request(message).with_refusal(RefusalReason::MalformedRequest))
    }
}

/// The error of a document that cannot be read as a whole.
pub(super) fn unparsable(reason: &str) -> Error {
    Error::bad_request("Unable to parse the given JSON")
        .with_details(reason)
        .with_refusal(RefusalReason::MalformedRequest)
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
