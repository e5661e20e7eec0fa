//! Why a request was not answered: a status, a code that programs read, and a reason for people.

use std::fmt;

use icecore_model::StoreError;
use icecore_model::event::CellMismatch;

/// Becomes a document of `application/problem+json`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The HTTP status.
    pub status: u16,
    /// For example `ingest.attribute-type`.
    pub code: &'static str,
    pub detail: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl Problem {
    pub fn new(status: u16, code: &'static str, detail: impl Into<String>) -> Self {
        Self {
            status,
            code,
            detail: detail.into(),
            hint: None,
        }
    }

    /// The store could not be read or written.
    pub fn from_store(error: StoreError) -> Self {
        Self::new(503, "store.unavailable", error.0)
    }

    /// What is stored contradicts itself.
    pub fn corrupt(error: CellMismatch) -> Self {
        Self::new(500, "store.corrupt", error.to_string())
    }

    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.detail)
    }
}

impl std::error::Error for Problem {}
