//! An answer that is an error, as OpenTSDB words it.

use http::StatusCode;
use thiserror::Error;

use crate::refusals::RefusalReason;

/// Why a request was not answered.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{message}")]
pub struct Error {
    pub status: StatusCode,
    pub message: String,
    /// Empty where there is nothing to add; it is left out then.
    pub details: String,
    /// The reason under which a request is counted whose points it refuses.
    pub(crate) refusal: Option<RefusalReason>,
}

impl Error {
    pub fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
            details: String::new(),
            refusal: None,
        }
    }

    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, message)
    }

    pub fn with_details(mut self, details: impl Into<String>) -> Self {
        self.details = details.into();
        self
    }

    /// Says that points are refused, and why.
    pub(crate) fn with_refusal(mut self, reason: RefusalReason) -> Self {
        self.refusal = Some(reason);
        self
    }

    /// The verb is none of the endpoint's.
    pub fn method_not_allowed(method: &http::Method) -> Self {
        let details = format!("The HTTP method [{method}] is not permitted for this endpoint");
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "Method not allowed").with_details(details)
    }
}
