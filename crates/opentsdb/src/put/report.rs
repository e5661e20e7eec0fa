//! What is answered to a request that writes.

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
    /// The point, where there is one alone.
    pub(super) only: String,
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
