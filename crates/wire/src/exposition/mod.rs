//! What scrape targets expose: a pull parser for the text formats, OpenMetrics and protobuf.
//!
//! ```text
//! body ─► text | openmetrics ── lines ──┐
//!      ├► openmetrics2                  │
//!      └► protobuf ─ metric families ───┴─► created, custom_bounds
//!                                             └─► Entry::{Type, Help, Unit, Series}
//!                                                   └ labels() on demand
//! ```
//!
//! Holds always:
//! - What Prometheus refuses is refused, and what it accepts means the same here; where we are more
//!   lenient, a comment says so. No input panics, and memory is in proportion to the body.
//! - The identity of a series (`Series::text`) is found without parsing its labels. Whether they
//!   are valid is checked by [`Series::labels`], which a cache of known texts never needs to call.
//! - After an error or the end, the parser returns nothing more.
//!
//! Elsewhere: fetching, limits, relabelling and staleness (`scrape`).

mod classic;
mod created;
mod custom_bounds;
mod exemplars;
mod float;
mod format;
mod import;
mod labels;
mod lines;
mod openmetrics;
mod openmetrics2;
mod protobuf;
mod text;

use std::borrow::Cow;

use icecore_model::{Histogram, MetricType};
use thiserror::Error;

use custom_bounds::CustomBounds;
use exemplars::ExemplarSource;
pub use exemplars::{Exemplars, ExposedExemplar};
pub use format::{Escaping, Format, FormatError, Protocol, accept_header};
pub use import::{ImportCounts, ImportOptions, LINE_BYTES_MAX, TextImport, import_text};
pub use labels::LabelsError;
use labels::Syntax;
use lines::LineParser;
use openmetrics::OpenMetricsParser;
use openmetrics2::OpenMetrics2Parser;
use protobuf::ProtobufParser;
use text::TextParser;

/// Where and why a body does not parse.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{}{reason}", if *line == 0 { String::new() } else { format!("line {line}: ") })]
pub struct ExpositionError {
    /// From 1; 0 for protobuf, which has no lines: there the reason names the metric family.
    pub line: u64,
    pub reason: String,
}

/// One entry of a body.
#[derive(Clone, Debug, PartialEq)]
#[expect(
    clippy::large_enum_variant,
    reason = "entries are handed on one by one, and most are series"
)]
pub enum Entry<'p> {
    Type {
        family: Cow<'p, str>,
        metric_type: MetricType,
    },
    Help {
        family: Cow<'p, str>,
        text: Cow<'p, str>,
    },
    Unit {
        family: Cow<'p, str>,
        unit: Cow<'p, str>,
    },
    Series(Series<'p>),
}

/// A sample of one series.
#[derive(Clone, Debug, PartialEq)]
pub struct Series<'p> {
    /// Name and labels as they are exposed. Equal texts after equal types are equal labels, so that
    /// a cache can compare texts.
    pub text: &'p [u8],
    pub value: SeriesValue,
    pub timestamp_ms: Option<i64>,
    /// When the counter began to count, if the format and the options provide it.
    pub created_ms: Option<i64>,
    syntax: Syntax,
    /// The label whose value is a number in this family: `le` or `quantile`.
    number_label: Option<&'static str>,
    exemplars: ExemplarSource<'p>,
}

/// The value of a sample.
#[derive(Clone, Debug, PartialEq)]
pub enum SeriesValue {
    Float(f64),
    Histogram(Histogram),
}

impl<'p> Series<'p> {
    /// Parses name and labels and appends them, the name first as `__name__`, the others in the
    /// order of the text. Values may be empty, which means "absent". Buckets and quantiles are
    /// written as Prometheus 3 does (`le="1"` is `le="1.0"`).
    pub fn labels(&self, pairs: &mut Vec<(Cow<'p, str>, Cow<'p, str>)>) -> Result<(), LabelsError> {
        labels::parse(self.text, self.syntax, self.number_label, pairs)
    }

    pub fn exemplars(&self) -> Exemplars<'p> {
        Exemplars::new(self.exemplars)
    }
}

/// Options of a parser, all off by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ParserOptions {
    /// OpenMetrics: `_created` series of counters, summaries and histograms are no series of their
    /// own, but the created timestamps of those. Protobuf always has them.
    pub created_timestamps: bool,
    /// The classic series of a histogram also where there is a native one.
    pub classic_beside_native: bool,
    /// Classic histograms become native ones with custom bounds.
    pub classic_to_custom_bounds: bool,
    /// A histogram is what its classic buckets say, even where it has native ones.
    pub ignore_native: bool,
}

/// Reads a body entry by entry.
pub struct Parser<'a> {
    body: &'a [u8],
    inner: Inner<'a>,
    /// After the end or an error.
    ended: bool,
}

enum Inner<'a> {
    Lines(LineParser<'a>),
    CustomBounds(Box<CustomBounds<'a>>),
    OpenMetrics2(Box<OpenMetrics2Parser<'a>>),
    Protobuf(Box<ProtobufParser<'a>>),
}

impl<'a> Parser<'a> {
    pub fn new(body: &'a [u8], format: Format) -> Self {
        Self::with_options(body, format, ParserOptions::default())
    }

    pub fn with_options(body: &'a [u8], format: Format, options: ParserOptions) -> Self {
        let lines = match format {
            Format::Text004 | Format::Text100 => LineParser::Text(TextParser::new(body)),
            Format::OpenMetrics => {
                LineParser::OpenMetrics(OpenMetricsParser::new(body, options.created_timestamps))
            }
            Format::OpenMetrics2 => {
                let inner = Inner::OpenMetrics2(OpenMetrics2Parser::new(body, options).into());
                return Self::reading(body, inner);
            }
            Format::Protobuf => {
                let inner = Inner::Protobuf(ProtobufParser::new(body, options).into());
                return Self::reading(body, inner);
            }
        };
        if options.classic_to_custom_bounds {
            let histograms = CustomBounds::new(lines, options.classic_beside_native);
            return Self::reading(body, Inner::CustomBounds(histograms.into()));
        }
        Self::reading(body, Inner::Lines(lines))
    }

    fn reading(body: &'a [u8], inner: Inner<'a>) -> Self {
        Self {
            body,
            inner,
            ended: false,
        }
    }

    /// The next entry; `None` at the end.
    #[expect(
        clippy::should_implement_trait,
        reason = "an entry may borrow from the parser, which an iterator cannot say"
    )]
    #[inline]
    pub fn next(&mut self) -> Result<Option<Entry<'_>>, ExpositionError> {
        if self.ended {
            return Ok(None);
        }
        let body = self.body;
        let at_line = |fault: Fault| fault.at_line_of(body);
        let result = match &mut self.inner {
            Inner::Lines(parser) => parser.next().map_err(at_line),
            Inner::CustomBounds(parser) => parser.next().map_err(at_line),
            Inner::OpenMetrics2(parser) => parser.next().map_err(at_line),
            Inner::Protobuf(parser) => parser.next(),
        };
        self.ended = !matches!(result, Ok(Some(_)));
        result
    }

    /// What is wrong with the labels of the last series, with its line.
    pub fn labels_error(&self, error: &LabelsError) -> ExpositionError {
        let start = match &self.inner {
            Inner::Lines(parser) => parser.last_start(),
            Inner::CustomBounds(parser) => parser.last_start(),
            Inner::OpenMetrics2(parser) => parser.last_start(),
            Inner::Protobuf(parser) => return parser.error(&error.to_string()),
        };
        Fault::new(start, error.to_string()).at_line_of(self.body)
    }
}

/// What is wrong, and where in the body.
struct Fault {
    offset: usize,
    reason: String,
}

impl Fault {
    fn new(offset: usize, reason: impl Into<String>) -> Self {
        Self {
            offset,
            reason: reason.into(),
        }
    }

    /// Lines are counted only for errors.
    fn at_line_of(self, body: &[u8]) -> ExpositionError {
        let before = body.get(..self.offset).unwrap_or(body);
        ExpositionError {
            line: 1 + memchr::memchr_iter(b'\n', before).count() as u64,
            reason: self.reason,
        }
    }
}

/// An excerpt of input for an error message: short and printable.
fn excerpt(bytes: &[u8]) -> String {
    const SHOWN_MAX: usize = 64;
    let cut = bytes.get(..SHOWN_MAX).unwrap_or(bytes);
    let dots = if cut.len() < bytes.len() { "…" } else { "" };
    format!("{:?}{dots}", String::from_utf8_lossy(cut))
}

#[cfg(test)]
mod tests;
