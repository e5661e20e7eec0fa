//! The one error of every decoder: which record, where, and why.

use std::borrow::Cow;

use thiserror::Error;

const UNMERGED: &str = "unmerged operands";

/// Bytes that are not what their key says.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{record}: {reason} at byte {offset}")]
pub struct DecodeError {
    /// The kind of record that was expected.
    pub record: &'static str,
    /// Where in the value (or key) reading stopped.
    pub offset: usize,
    pub reason: Cow<'static, str>,
}

impl DecodeError {
    pub(crate) fn new(
        record: &'static str,
        offset: usize,
        reason: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self {
            record,
            offset,
            reason: reason.into(),
        }
    }

    pub(crate) fn unmerged(record: &'static str) -> Self {
        Self::new(record, 0, UNMERGED)
    }

    /// Whether the value is a container in which the merge operator kept operands that it could not
    /// read. [`crate::merge::unmerged_parts`] takes it apart.
    pub fn is_unmerged(&self) -> bool {
        self.reason == UNMERGED
    }
}
