//! Answers: JSON, errors as JSON, wrapped for JSONP.

use http::header::WARNING;
use http::{HeaderName, StatusCode};

use crate::error::Error;
use crate::json::push_text;
use crate::request::Request;

pub(crate) const JSON: &str = "application/json; charset=UTF-8";
pub(crate) const PLAIN: &str = "text/plain";
pub(crate) const HTML: &str = "text/html; charset=UTF-8";

pub(crate) const PNG: &str = "image/png";
pub(crate) const SVG: &str = "image/svg+xml";

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    pub status: StatusCode,
    /// Empty where there is no body.
    pub content_type: &'static str,
    pub headers: Vec<(HeaderName, String)>,
    pub body: Vec<u8>,
}

impl Response {
    pub(crate) fn json(body: impl Into<Vec<u8>>) -> Self {
        Self::new(StatusCode::OK, JSON, body.into())
    }

    pub(crate) fn new(status: StatusCode, content_type: &'static str, body: Vec<u8>) -> Self {
        Self {
            status,
            content_type,
            headers: Vec::new(),
            body,
        }
    }

    pub(crate) fn text(body: String) -> Self {
        Self::new(StatusCode::OK, PLAIN, body.into_bytes())
    }

    /// With something to say about the answer, if there is.
    pub(crate) fn with_warning(mut self, warning: Option<String>) -> Self {
        self.headers.extend(warning.map(|text| (WARNING, text)));
        self
    }

    /// 204.
    pub(crate) fn done() -> Self {
        Self::new(StatusCode::NO_CONTENT, "", Vec::new())
    }

    /// 304: nothing was changed.
    pub(crate) fn unchanged() -> Self {
        Self::new(StatusCode::NOT_MODIFIED, "", Vec::new())
    }

    pub(crate) fn with_status(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }

    pub(crate) fn error(error: &Error) -> Self {
        let mut body = format!(
            "{{\"error\":{{\"code\":{},\"message\":",
            error.status.as_u16()
        );
        push_text(&mut body, &error.message);
        if !error.details.is_empty() {
            body.push_str(",\"details\":");
            push_text(&mut body, &error.details);
        }
        body.push_str("}}");
        Self::json(body).with_status(error.status)
    }

    /// The body as an argument of the function that the request names.
    pub(crate) fn wrapped(mut self, request: &Request) -> Self {
        let Ok(Some(function)) = request.callback() else {
            return self;
        };
        if self.content_type == JSON {
            let mut body = function.as_bytes().to_vec();
            body.push(b'(');
            body.append(&mut self.body);
            body.push(b')');
            self.body = body;
        }
        self
    }
}
