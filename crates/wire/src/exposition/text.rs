//! The text formats 0.0.4 and 1.0.0.
//!
//! ```text
//! # HELP name text            # TYPE name counter            # anything else is a comment
//! name{a="b"} 1.5 1700000000000            {"any name",a="b"} 1
//! ```
//!
//! As in Prometheus: blanks are allowed before, between and after the parts; the last line needs no
//! line end; a carriage return is a character like any other, so `\r\n` ends no valid line;
//! timestamps are whole milliseconds. More lenient: timestamps before 1970.
//!
//! A line is not parsed to find where its labels end: its last brace is where they do. What that
//! gets wrong (a line end between the quotes of a label value) is detected by what follows the
//! brace, or by [`super::Series::labels`], and such a line is parsed again, quote by quote.

use std::borrow::Cow;

use icecore_model::MetricType;
use memchr::{memchr, memchr2, memrchr};

use super::exemplars::ExemplarSource;
use super::float::parse_float;
use super::labels::{Cursor, Syntax, unescape};
use super::{Entry, Fault, Series, SeriesValue, excerpt};

pub(super) struct TextParser<'a> {
    body: &'a [u8],
    position: usize,
    /// Where the line of the last entry begins.
    start: usize,
    /// Of the last `# TYPE` line, which decides how `le` and `quantile` are written.
    metric_type: MetricType,
    /// Whether line ends between quotes are not read.
    lines_only: bool,
}

/// What follows the labels of a line.
struct Tail {
    value: f64,
    timestamp_ms: Option<i64>,
}

impl<'a> TextParser<'a> {
    pub(super) fn new(body: &'a [u8]) -> Self {
        Self {
            body,
            position: 0,
            start: 0,
            metric_type: MetricType::Unknown,
            lines_only: false,
        }
    }

    /// Reads some lines of a longer body, each by itself.
    pub(super) fn of_lines(lines: &'a [u8], metric_type: MetricType) -> Self {
        Self {
            metric_type,
            lines_only: true,
            ..Self::new(lines)
        }
    }

    pub(super) fn metric_type(&self) -> MetricType {
        self.metric_type
    }

    /// Where the line of the last entry begins.
    pub(super) fn last_start(&self) -> usize {
        self.start
    }

    #[inline]
    pub(super) fn next(&mut self) -> Result<Option<Entry<'a>>, Fault> {
        loop {
            let rest = self.body.get(self.position..).unwrap_or_default();
            let Some(blanks) = rest.iter().position(|byte| !is_blank(*byte)) else {
                return Ok(None);
            };
            let start = self.position + blanks;
            let rest = rest.get(blanks..).unwrap_or_default();
            let length = memchr(b'\n', rest).unwrap_or(rest.len());
            let line = rest.get(..length).unwrap_or(rest);
            self.position = start + length + 1;
            self.start = start;
            match line.first() {
                None => {}
                Some(b'#') => {
                    if let Some(entry) = self.comment(line)? {
                        return Ok(Some(entry));
                    }
                }
                Some(_) => return self.series(line).map(Some),
            }
        }
    }

    #[inline]
    fn series(&mut self, line: &'a [u8]) -> Result<Entry<'a>, Fault> {
        let end = match memrchr(b'}', line) {
            Some(brace) => brace + 1,
            None => memchr2(b' ', b'\t', line).unwrap_or(line.len()),
        };
        let (text, tail) = line.split_at_checked(end).unwrap_or((line, &[]));
        match parse_tail(tail) {
            Ok(tail) => Ok(self.entry(text, tail)),
            Err(reason) => self.long_series(line, reason),
        }
    }

    /// A series whose first line did not parse: it may have line ends in its label values.
    #[cold]
    fn long_series(&mut self, line: &'a [u8], reason: String) -> Result<Entry<'a>, Fault> {
        let start = self.start;
        let fault = |reason| Fault::new(start, reason);
        if self.lines_only {
            return Err(fault(reason));
        }
        let rest = self.body.get(start..).unwrap_or_default();
        let Some(end) = closing_brace(rest).filter(|end| *end > line.len()) else {
            return Err(fault(reason));
        };
        let (text, tail) = rest.split_at_checked(end).unwrap_or((rest, &[]));
        let length = memchr(b'\n', tail).unwrap_or(tail.len());
        self.position = start + end + length + 1;
        let tail = tail.get(..length).unwrap_or(tail);
        let tail = parse_tail(tail).map_err(fault)?;
        Ok(self.entry(text, tail))
    }

    #[inline]
    fn entry(&self, text: &'a [u8], tail: Tail) -> Entry<'a> {
        Entry::Series(Series {
            text,
            value: SeriesValue::Float(tail.value),
            timestamp_ms: tail.timestamp_ms,
            created_ms: None,
            syntax: Syntax::Prometheus,
            number_label: number_label(self.metric_type),
            exemplars: ExemplarSource::None,
        })
    }

    /// A line that begins with `#`; `None` for a plain comment.
    fn comment(&mut self, line: &'a [u8]) -> Result<Option<Entry<'a>>, Fault> {
        let start = self.start;
        let fault = |reason: String| Fault::new(start, reason);
        let after = line.get(1..).unwrap_or_default();
        let word = trim_blanks(after);
        if word.len() == after.len() {
            return Ok(None);
        }
        let (keyword, content) = word.split_at_checked(4).unwrap_or((word, &[]));
        let content = match (keyword, content.first()) {
            (b"HELP" | b"TYPE", Some(b' ' | b'\t')) => trim_blanks(content),
            _ => return Ok(None),
        };
        let content = str::from_utf8(content)
            .map_err(|_| fault("help text is not a valid utf8 string".into()))?;
        let (family, content) = family_and_text(content).map_err(fault)?;
        if keyword == b"HELP" {
            let text = unescape_help(content);
            return Ok(Some(Entry::Help { family, text }));
        }
        let metric_type = match content {
            "counter" => MetricType::Counter,
            "gauge" => MetricType::Gauge,
            "histogram" => MetricType::Histogram,
            "summary" => MetricType::Summary,
            "untyped" => MetricType::Unknown,
            other => {
                let other = excerpt(other.as_bytes());
                return Err(fault(format!("invalid metric type {other}")));
            }
        };
        self.metric_type = metric_type;
        Ok(Some(Entry::Type {
            family,
            metric_type,
        }))
    }
}

/// The label of a family's series whose value is a number.
pub(super) fn number_label(metric_type: MetricType) -> Option<&'static str> {
    match metric_type {
        MetricType::Histogram => Some("le"),
        MetricType::Summary => Some("quantile"),
        _ => None,
    }
}

/// Splits what follows `HELP` or `TYPE`. One byte between name and text belongs to neither.
fn family_and_text(content: &str) -> Result<(Cow<'_, str>, &str), String> {
    let mut cursor = Cursor {
        rest: content,
        blanks: true,
    };
    let family = if content.starts_with('"') {
        cursor.quoted("a metric name").map_err(|e| e.to_string())?
    } else {
        let name = cursor.identifier(true);
        name.ok_or_else(|| {
            format!(
                "expected a metric name, got {}",
                excerpt(content.as_bytes())
            )
        })?
        .into()
    };
    let mut text = cursor.rest.chars();
    if text.next().is_some_and(|c| !c.is_ascii()) {
        return Err("expected a blank after the metric name".into());
    }
    // Blanks alone are no text.
    let all_blank = cursor.rest.bytes().all(is_blank);
    Ok((family, if all_blank { "" } else { text.as_str() }))
}

/// Help texts keep their quotes.
fn unescape_help(text: &str) -> Cow<'_, str> {
    if text.contains('\\') {
        unescape(text, false).into()
    } else {
        text.into()
    }
}

/// Value and timestamp.
#[inline]
fn parse_tail(tail: &[u8]) -> Result<Tail, String> {
    let tail = trim_blanks(tail);
    let end = tail.iter().position(|byte| is_blank(*byte));
    let (number, rest) = tail
        .split_at_checked(end.unwrap_or(tail.len()))
        .unwrap_or((tail, &[]));
    let Some(value) = parse_float(number) else {
        return Err(bad_value(number));
    };
    let rest = trim_blanks(rest);
    if rest.is_empty() {
        return Ok(Tail {
            value,
            timestamp_ms: None,
        });
    }
    let end = rest.iter().position(|byte| is_blank(*byte));
    let (number, rest) = rest
        .split_at_checked(end.unwrap_or(rest.len()))
        .unwrap_or((rest, &[]));
    let Some(timestamp_ms) = parse_milliseconds(number) else {
        return Err(format!(
            "expected timestamp or new record, got {}",
            excerpt(number)
        ));
    };
    let rest = trim_blanks(rest);
    if !rest.is_empty() {
        return Err(format!(
            "expected next entry after timestamp, got {}",
            excerpt(rest)
        ));
    }
    Ok(Tail {
        value,
        timestamp_ms: Some(timestamp_ms),
    })
}

#[cold]
fn bad_value(number: &[u8]) -> String {
    match number {
        [] => "expected value after metric".into(),
        [.., b'\r'] => format!(
            "expected a number, got {}: lines end with a line feed alone",
            excerpt(number)
        ),
        _ => format!("expected a number, got {}", excerpt(number)),
    }
}

fn parse_milliseconds(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    str::from_utf8(text).ok()?.parse().ok()
}

/// How far a series reaches whose labels begin at the first brace: the position after the closing
/// brace outside of quotes.
pub(super) fn closing_brace(text: &[u8]) -> Option<usize> {
    let mut position = memchr(b'{', text)? + 1;
    let mut quoted = false;
    loop {
        let rest = text.get(position..)?;
        let at = if quoted {
            memchr2(b'"', b'\\', rest)?
        } else {
            memchr2(b'"', b'}', rest)?
        };
        position += at + 1;
        match rest.get(at)? {
            b'"' => quoted = !quoted,
            b'\\' => position += 1,
            _ => return Some(position),
        }
    }
}

#[inline]
fn is_blank(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

#[inline]
fn trim_blanks(text: &[u8]) -> &[u8] {
    let blanks = text.iter().position(|byte| !is_blank(*byte));
    text.get(blanks.unwrap_or(text.len())..).unwrap_or_default()
}
