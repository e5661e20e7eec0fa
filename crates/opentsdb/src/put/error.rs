//! Why a point was not written.

use std::borrow::Cow;

use icecore_wire::opentsdb::number::NumberError;
use icecore_wire::opentsdb::telnet::TagError;

use crate::java::map_text;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PutError {
    /// The value, or the time of a line.
    Number(NumberError),
    /// Anything else about what was sent.
    Argument(String),
    /// A name that does not exist and must not be created.
    UnknownName(String),
    /// An interval that no rollup is configured for.
    UnknownInterval(String),
    /// A histogram whose format is not configured.
    UnknownCodec(i64),
    /// A histogram of a line that cannot be read, about which the original says nothing.
    Unreadable,
    /// A point that the original takes and then fails to store.
    Unstorable(&'static str),
}

impl PutError {
    pub(crate) fn argument(message: impl Into<String>) -> Self {
        Self::Argument(message.into())
    }

    /// As `/api/put` words it.
    pub(crate) fn http_text(&self) -> Cow<'_, str> {
        match self {
            Self::Number(_) => "Unable to parse value to a number".into(),
            Self::Argument(message) => message.into(),
            Self::UnknownName(_) => "Unknown metric".into(),
            Self::UnknownInterval(_) | Self::Unreadable => "Unexpected exception".into(),
            Self::UnknownCodec(id) => format!("No codec found mapped to ID {id}").into(),
            Self::Unstorable(message) => format!("Storage exception: {message}").into(),
        }
    }

    /// As the telnet protocol words it.
    pub(crate) fn line_text(&self, command: &str) -> String {
        match self {
            Self::Number(error) => format!("{command}: invalid value: {error}\n"),
            Self::Argument(message) => format!("{command}: illegal argument: {message}\n"),
            Self::UnknownName(message) => format!("{command}: unknown metric: {message}\n"),
            Self::UnknownInterval(interval) => format!(
                "{command}: No such rollup: No rollups configured for the interval: {interval}\n"
            ),
            Self::UnknownCodec(_) => format!("{command}: HBase error: {}\n", self.http_text()),
            Self::Unreadable => String::new(),
            Self::Unstorable(message) => format!("{command}: HBase error: {message}\n"),
        }
    }

    /// What is wrong with the tags of a line, of which these could be read.
    pub(super) fn of_tag(error: &TagError<'_>, tags: &[(&str, &str)]) -> Self {
        Self::Argument(match error {
            TagError::Malformed(word) => format!("invalid tag: {word}"),
            TagError::Duplicate(word) => {
                let tags = map_text(tags.iter().copied());
                format!("duplicate tag: {word}, tags={tags}")
            }
        })
    }
}

impl From<NumberError> for PutError {
    fn from(error: NumberError) -> Self {
        Self::Number(error)
    }
}
