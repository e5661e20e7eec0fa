//! Why there is no translation.

use icecore_wire::json::SyntaxError;
use thiserror::Error;

use crate::error::Error as QueryError;

/// Why there is no translation.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{0}")]
pub struct Refusal(pub String);

impl Refusal {
    pub(super) fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

/// A document that cannot be read.
impl From<SyntaxError> for Refusal {
    fn from(error: SyntaxError) -> Self {
        let SyntaxError { offset, reason } = error;
        Self(format!("it is not JSON: {reason} at byte {offset}"))
    }
}

/// What OpenTSDB itself refuses.
impl From<QueryError> for Refusal {
    fn from(error: QueryError) -> Self {
        let problem = if error.details.is_empty() || error.details == error.message {
            error.message
        } else {
            format!("{}: {}", error.message, error.details)
        };
        Self(format!("OpenTSDB refuses it: {problem}"))
    }
}
