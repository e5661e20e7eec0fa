//! What can go wrong in storage, grouped by what the caller can do about it.

use icecore_model::OutOfMemory;
use slatedb::{CloseReason, ErrorKind};
use thiserror::Error;

use crate::slate::engine::Closed;

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
    /// The store failed.
    #[error("{what}: {source}")]
    Store {
        what: &'static str,
        #[source]
        source: slatedb::Error,
    },
}

pub type Result<T, E = Error> = std::result::Result<T, E>;

impl From<OutOfMemory> for Error {
    fn from(cause: OutOfMemory) -> Self {
        Self::LimitReached(cause.to_string())
    }
}

impl Error {
    /// For `map_err`: says what was being done when the store failed. That another writer has taken
    /// over shows in whatever is done next, and is said in plain words wherever that is.
    pub(crate) fn store(what: &'static str) -> impl FnOnce(slatedb::Error) -> Self {
        move |source| match source.kind() {
            ErrorKind::Closed(CloseReason::Fenced) => Self::Closed(Closed::Fenced.to_string()),
            _ => Self::Store { what, source },
        }
    }
}
