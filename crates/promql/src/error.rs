//! Errors of queries, by what the caller can do about them.

use icecore_model::{OutOfMemory, SourceError};
use thiserror::Error;

use crate::parse::ParseError;

#[derive(Debug, Error)]
pub enum Error {
    /// The text is not a valid query.
    #[error("{0}")]
    Parse(#[from] ParseError),
    /// The request is invalid: a bad step, too many points.
    #[error("{0}")]
    Invalid(String),
    /// The query is well formed but its evaluation failed, in the words of Prometheus.
    #[error("{0}")]
    Execution(String),
    /// A limit of the query was reached: samples, memory, series.
    #[error("{0}")]
    LimitReached(String),
    #[error("query timed out in {0}")]
    Timeout(&'static str),
    #[error("query was canceled in {0}")]
    Canceled(&'static str),
    #[error("{0}")]
    Source(#[from] SourceError),
}

impl From<OutOfMemory> for Error {
    fn from(cause: OutOfMemory) -> Self {
        Self::LimitReached(cause.to_string())
    }
}

impl Error {
    /// The answer would contain a series twice.
    pub(crate) fn same_labelset() -> Self {
        Self::Execution("vector cannot contain metrics with the same labelset".to_string())
    }
}

pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;
