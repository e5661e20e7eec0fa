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

/// Most bytes of an expression that is read, or written: more than anybody reads.
const TEXT_BYTES_MAX: usize = 64 << 10;

/// Refuses an expression that would be too long. Where one is made of copies of others this is
/// asked before: each call around it may double it.
pub(super) fn check_length(bytes: usize) -> Result<(), Refusal> {
    if bytes > TEXT_BYTES_MAX {
        let reason = format!("the expression has more than {TEXT_BYTES_MAX} bytes");
        return Err(Refusal(reason));
    }
    Ok(())
}
