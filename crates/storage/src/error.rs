//! What can go wrong in storage, grouped by what the caller can do about it.

use icecore_model::{Discard, OutOfMemory, StoreError};
use slatedb::{CloseReason, ErrorKind};
use thiserror::Error;

/// What is said when another process has taken the database over.
pub(crate) const FENCED: &str = "another process has opened the same storage for writing";

/// The one error of this crate.
#[derive(Debug, Error)]
pub enum Error {
    /// The caller asked for something that can never work: repeat it and it fails again.
    #[error("{0}")]
    Invalid(String),
    /// A configured limit: works again when there is less of it.
    #[error("{0}")]
    LimitReached(String),
    /// Memory or the store is the reason: worth a retry.
    #[error("{0}")]
    Unavailable(String),
    /// Stored bytes that cannot be read, with the key they lie under.
    #[error("{0}")]
    Corrupt(String),
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

impl From<WriteError<Discard>> for StoreError {
    fn from(error: WriteError<Discard>) -> Self {
        match error {
            WriteError::Decode(discard) => discard.into(),
            WriteError::Storage(error) => error.into(),
        }
    }
}

impl From<Error> for StoreError {
    fn from(error: Error) -> Self {
        Self(error.to_string())
    }
}

impl Error {
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

/// Servers answer with a document of XML or HTML of many lines, whose one useful word, the status, is
/// said before it. A message is one line.
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
