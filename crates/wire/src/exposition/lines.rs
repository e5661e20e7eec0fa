//! One parser for both line formats. Its entries borrow from the body alone.

use icecore_model::MetricType;

use super::openmetrics::OpenMetricsParser;
use super::text::TextParser;
use super::{Entry, Fault};

pub(super) enum LineParser<'a> {
    Text(TextParser<'a>),
    OpenMetrics(OpenMetricsParser<'a>),
}

impl<'a> LineParser<'a> {
    #[inline]
    pub(super) fn next(&mut self) -> Result<Option<Entry<'a>>, Fault> {
        match self {
            Self::Text(parser) => parser.next(),
            Self::OpenMetrics(parser) => parser.next(),
        }
    }

    /// Where the line of the last entry begins.
    pub(super) fn last_start(&self) -> usize {
        match self {
            Self::Text(parser) => parser.last_start(),
            Self::OpenMetrics(parser) => parser.last_start(),
        }
    }

    pub(super) fn metric_type(&self) -> MetricType {
        match self {
            Self::Text(parser) => parser.metric_type(),
            Self::OpenMetrics(parser) => parser.metric_type(),
        }
    }
}
