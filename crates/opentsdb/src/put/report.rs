//! What is answered to a request that writes.

use std::collections::BTreeMap;

use http::{Method, StatusCode};
use icecore_model::WriteOutcome;

use crate::error::Error;
use crate::json::push_text;
use crate::request::Request;
use crate::response::{JSON, Response};

/// What became of the points of a request.
pub(super) struct Report {
    points: usize,
    failed: usize,
    /// `{"datapoint":…,"error":…}` of each that failed, if they are wanted.
    errors: Option<Vec<String>>,
    /// Points as errors show them, by the numbers under which the store was given them.
    pub(super) shown: BTreeMap<u32, String>,
}

impl Report {
    pub(super) fn new(points: usize, with_details: bool) -> Self {
        Self {
            points,
            failed: 0,
            errors: with_details.then(Vec::new),
            shown: BTreeMap::new(),
        }
    }

    pub(super) fn fail(&mut self, error: &str, datapoint: impl FnOnce() -> String) {
        self.failed += 1;
        if self.errors.is_some() {
            self.push_error(&datapoint(), error);
        }
    }

    /// Returns `true` if the points that the store refused have to be shown.
    pub(super) fn shows(&self, outcome: &WriteOutcome) -> bool {
        self.errors.is_some() && !outcome.rejected.is_empty()
    }

    /// The numbers of the points that the store refused for a reason, as far as it says so.
    pub(super) fn refused(&self, outcome: &WriteOutcome, reason: usize) -> Vec<u32> {
        if self.points == 1 {
            return vec![0];
        }
        let points = outcome.refused_points.iter();
        let points = points.filter(|refused| refused.reason as usize == reason);
        points.map(|refused| refused.point).collect()
    }

    /// Adds the points that the store refused.
    fn refuse(&mut self, outcome: &WriteOutcome) {
        for (at, rejection) in outcome.rejected.iter().enumerate() {
            let count = usize::try_from(rejection.count).unwrap_or(usize::MAX);
            self.failed = self.failed.saturating_add(count).min(self.points);
            if self.errors.is_none() {
                continue;
            }
            let reason = &rejection.reason;
            let points = self.refused(outcome, at);
            for point in &points {
                let shown = self.shown.remove(point);
                self.push_error(shown.as_deref().unwrap_or("null"), reason);
            }
            let others = count.saturating_sub(points.len());
            if others > 0 {
                self.push_error("null", &format!("{reason} (×{others})"));
            }
        }
    }

    fn push_error(&mut self, datapoint: &str, error: &str) {
        if let Some(errors) = &mut self.errors {
            let mut entry = format!("{{\"datapoint\":{datapoint},\"error\":");
            push_text(&mut entry, error);
            entry.push('}');
            errors.push(entry);
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
            // Clients find a content type although there is none.
            return Response::new(StatusCode::NO_CONTENT, JSON, Vec::new());
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
