//! Why a point was not written.

use std::borrow::Cow;

use icecore_wire::opentsdb::number::NumberError;
use icecore_wire::opentsdb::telnet::TagError;

use crate::java::map_text;
use crate::refusals::RefusalReason;
use crate::uid::UidKind;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PutError {
    /// The value, or the time of a line.
    Number(NumberError),
    /// Anything else about what was sent.
    Argument(String),
    /// An argument that would be taken under other settings; in the words of an argument.
    BySetting(RefusalReason, String),
    /// A name that does not exist and must not be created.
    UnknownName(UidKind, String),
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

    pub(crate) fn by_setting(reason: RefusalReason, message: impl Into<String>) -> Self {
        Self::BySetting(reason, message.into())
    }

    /// Returns the reason under which the point is counted.
    pub(crate) fn reason(&self) -> RefusalReason {
        match self {
            Self::Number(_) => RefusalReason::InvalidNumber,
            Self::Argument(_) | Self::Unreadable | Self::Unstorable(_) => {
                RefusalReason::InvalidPoint
            }
            Self::BySetting(reason, _) => *reason,
            Self::UnknownName(UidKind::Metric, _) => RefusalReason::UnknownMetric,
            Self::UnknownName(UidKind::Tagk, _) => RefusalReason::UnknownTagKey,
            Self::UnknownName(UidKind::Tagv, _) => RefusalReason::UnknownTagValue,
            Self::UnknownInterval(_) => RefusalReason::RollupNotConfigured,
            Self::UnknownCodec(_) => RefusalReason::HistogramNotConfigured,
        }
    }

    /// Returns what is wrong, as the log says it: more than clients are told.
    pub(crate) fn cause(&self) -> String {
        match self {
            Self::Number(error) => error.to_string(),
            Self::Argument(message)
            | Self::BySetting(_, message)
            | Self::UnknownName(_, message) => message.clone(),
            Self::UnknownInterval(interval) => {
                format!("no rollup is configured for the interval {interval}")
            }
            Self::UnknownCodec(_) | Self::Unstorable(_) => self.http_text().into_owned(),
            Self::Unreadable => "the histogram cannot be read".into(),
        }
    }

    /// As `/api/put` words it.
    pub(crate) fn http_text(&self) -> Cow<'_, str> {
        match self {
            Self::Number(_) => "Unable to parse value to a number".into(),
            Self::Argument(message) | Self::BySetting(_, message) => message.into(),
            Self::UnknownName(..) => "Unknown metric".into(),
            Self::UnknownInterval(_) | Self::Unreadable => "Unexpected exception".into(),
            Self::UnknownCodec(id) => format!("No codec found mapped to ID {id}").into(),
            Self::Unstorable(message) => format!("Storage exception: {message}").into(),
        }
    }

    /// As the telnet protocol words it.
    pub(crate) fn line_text(&self, command: &str) -> String {
        match self {
            Self::Number(error) => format!("{command}: invalid value: {error}\n"),
            Self::Argument(message) | Self::BySetting(_, message) => {
                format!("{command}: illegal argument: {message}\n")
            }
            Self::UnknownName(_, message) => format!("{command}: unknown metric: {message}\n"),
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
