//! What can go wrong in storage, grouped by what the caller can do about it.

use std::fmt;

use icecore_model::{AppendError, Discard, OutOfMemory, StoreError};
use slatedb::{CloseReason, ErrorKind};
use thiserror::Error;

/// What is said when another process has taken the database over.
pub(crate) const FENCED: &str = "another process has opened the same storage for writing";

/// The one error of this crate.
#[derive(Debug, Error)]
pub enum Error {
    /// The caller asked for something that can never work: repeat it and it fails again.
    #[error(transparent)]
    Invalid(Reason),
    /// A configured limit: works again when there is less of it.
    #[error("{0}")]
    LimitReached(String),
    /// Memory or the store is the reason: worth a retry.
    #[error(transparent)]
    Unavailable(Reason),
    /// Stored bytes that cannot be read, with the key they lie under.
    #[error(transparent)]
    Corrupt(Reason),
    /// The database is closed or another writer has taken over.
    #[error("{0}")]
    Closed(String),
    /// The store failed. SlateDB shows one of its sources; what helps is often further down.
    #[error("{what}: {}", without_document(&with_sources(source)))]
    Store {
        what: &'static str,
        #[source]
        source: slatedb::Error,
    },
}

/// What went wrong, in words, and the error that caused it, if there is one.
#[derive(Debug)]
pub struct Reason {
    text: String,
    cause: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Reason {
    /// What was being done, or to what, when something else failed.
    pub(crate) fn caused(
        what: impl Into<String>,
        cause: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self {
            text: what.into(),
            cause: Some(cause.into()),
        }
    }
}

impl<T: Into<String>> From<T> for Reason {
    fn from(text: T) -> Self {
        Self {
            text: text.into(),
            cause: None,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cause {
            Some(cause) => write!(f, "{}: {cause}", self.text),
            None => f.write_str(&self.text),
        }
    }
}

impl std::error::Error for Reason {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause.as_deref().map(|cause| cause as _)
    }
}

/// Why a request was not acknowledged.
#[derive(Debug, Error)]
pub enum WriteError<E> {
    /// The request could not be decoded; nothing of it is stored.
    #[error("{0}")]
    Decode(E),
    #[error(transparent)]
    Storage(#[from] Error),
}

pub type Result<T, E = Error> = std::result::Result<T, E>;

impl From<OutOfMemory> for Error {
    fn from(cause: OutOfMemory) -> Self {
        Self::LimitReached(cause.to_string())
    }
}

impl From<WriteError<Discard>> for AppendError<Discard> {
    fn from(error: WriteError<Discard>) -> Self {
        match error {
            WriteError::Decode(discard) => Self::Fill(discard),
            WriteError::Storage(error @ Error::Invalid(_)) => Self::Refused(error.into()),
            WriteError::Storage(error) => Self::Store(error.into()),
        }
    }
}

impl From<Error> for StoreError {
    fn from(error: Error) -> Self {
        Self(error.to_string())
    }
}

impl Error {
    /// For `map_err`: says what could not be read.
    pub(crate) fn corrupt<E>(what: impl Into<String>) -> impl FnOnce(E) -> Self
    where
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        move |cause| Self::Corrupt(Reason::caused(what, cause))
    }

    /// For `map_err`: says which work ended, by a panic for example.
    pub(crate) fn ended_abnormally(what: &str) -> impl FnOnce(tokio::task::JoinError) -> Self {
        let text = format!("{what} ended abnormally");
        move |cause| Self::Unavailable(Reason::caused(text, cause))
    }

    /// For `map_err`: says what was being done when the store failed. That another writer has taken
    /// over shows in whatever is done next, and is said in plain words wherever that is.
    pub(crate) fn store(what: &'static str) -> impl FnOnce(slatedb::Error) -> Self {
        move |source| match source.kind() {
            ErrorKind::Closed(CloseReason::Fenced) => Self::Closed(FENCED.into()),
            _ => Self::Store { what, source },
        }
    }
}

/// An error with its sources, because the outermost alone often says only "generic error".
pub(crate) fn with_sources(cause: &dyn std::error::Error) -> String {
    let mut text = cause.to_string();
    let mut source = cause.source();
    while let Some(inner) = source {
        let shown = inner.to_string();
        if !text.contains(&shown) {
            text.push_str(": ");
            text.push_str(&shown);
        }
        source = inner.source();
    }
    text
}

/// Servers answer with a document of XML or HTML of many lines, whose one useful word, the status,
/// is said before it. A message is one line.
pub(crate) fn without_document(told: &str) -> String {
    let before = told.split_once(['<', '\n']).map_or(told, |split| split.0);
    before.trim_end_matches([':', ' ']).to_owned()
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Arc;

    use super::*;

    #[test]
    fn the_innermost_reason_is_said() {
        // As SlateDB wraps what the store says when a file of its log cannot be written.
        let removed = io::Error::other("/data was removed while the database was in use");
        let stored = slatedb::Error::unavailable("object store error".into());
        let stored = stored.with_source(Box::new(Arc::new(removed)));
        let logged = slatedb::Error::unavailable("wal unavailable".into());
        let hidden = slatedb::object_store::Error::Generic {
            store: "local",
            source: Box::new(stored),
        };
        let logged = logged.with_source(Box::new(hidden));
        let told = Error::store("the journal cannot be written")(logged).to_string();
        assert!(told.contains("was removed while"), "{told}");
    }
}
