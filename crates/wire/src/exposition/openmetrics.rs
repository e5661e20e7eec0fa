//! OpenMetrics text, 0.0.1 and 1.0.0.
//!
//! ```text
//! # TYPE name counter        # UNIT name_seconds seconds        # HELP name text
//! name_total{a="b"} 1.5 1700000000.123 # {trace_id="x"} 0.5 1700000000.1
//! # EOF
//! ```
//!
//! As in Prometheus: exactly one space between the parts and none elsewhere, no blank lines, no
//! comments but the four kinds above, timestamps in seconds with decimals, and `# EOF` at the very
//! end. Exemplars may follow any sample. More lenient: escapes in the labels of exemplars are
//! undone.

use std::borrow::Cow;

use icecore_model::MetricType;
use memchr::{memchr, memchr2, memrchr};

use super::created::CreatedIndex;
use super::exemplars::{ExemplarSource, TextExemplar};
use super::float::{parse_float, seconds_to_ms};
use super::labels::{BraceItem, Cursor, Syntax, unescape};
use super::text::{closing_brace, number_label};
use super::{Entry, Fault, Series, SeriesValue, excerpt};

pub(super) struct OpenMetricsParser<'a> {
    body: &'a [u8],
    position: usize,
    /// Where the line of the last entry begins.
    start: usize,
    metric_type: MetricType,
    /// The family of the last metadata line.
    family: Cow<'a, str>,
    /// Where `_created` lines are not series.
    created: Option<CreatedIndex<'a>>,
    /// Whether these are some lines of a longer body, whose end is elsewhere.
    lines_only: bool,
}

/// What follows the labels of a line.
struct Tail<'a> {
    value: f64,
    timestamp_ms: Option<i64>,
    exemplar: Option<TextExemplar<'a>>,
}

impl<'a> OpenMetricsParser<'a> {
    pub(super) fn new(body: &'a [u8], created_timestamps: bool) -> Self {
        Self {
            body,
            position: 0,
            start: 0,
            metric_type: MetricType::Unknown,
            family: "".into(),
            created: created_timestamps.then(CreatedIndex::default),
            lines_only: false,
        }
    }

    /// Reads some lines of a longer body, each by itself.
    pub(super) fn of_lines(lines: &'a [u8], metric_type: MetricType) -> Self {
        Self {
            metric_type,
            lines_only: true,
            ..Self::new(lines, false)
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
            self.start = self.position;
            let rest = self.body.get(self.position..).unwrap_or_default();
            if rest == b"# EOF" || rest == b"# EOF\n" {
                return Ok(None);
            }
            if self.lines_only && rest.is_empty() {
                return Ok(None);
            }
            let Some(length) = memchr(b'\n', rest) else {
                self.position = self.body.len();
                return Err(self.fault("data does not end with # EOF"));
            };
            let line = rest.get(..length).unwrap_or(rest);
            self.position += length + 1;
            if self.lines_only && line == b"# EOF" {
                continue;
            }
            if let Some(comment) = line.strip_prefix(b"# ") {
                return self.metadata(comment).map(Some);
            }
            if let Some(series) = self.series(line)? {
                return Ok(Some(Entry::Series(series)));
            }
        }
    }

    /// A sample; `None` for a `_created` line.
    #[inline]
    fn series(&mut self, line: &'a [u8]) -> Result<Option<Series<'a>>, Fault> {
        let (text, tail) = split_series(line);
        let tail = match parse_tail(tail) {
            Ok(tail) => tail,
            Err(reason) => return Err(self.fault(reason)),
        };
        let mut series = Series {
            text,
            value: SeriesValue::Float(tail.value),
            timestamp_ms: tail.timestamp_ms,
            created_ms: None,
            syntax: Syntax::OpenMetrics,
            number_label: number_label(self.metric_type),
            exemplars: match tail.exemplar {
                Some(exemplar) => ExemplarSource::Text(exemplar),
                None => ExemplarSource::None,
            },
        };
        if let Some(created) = &mut self.created
            && has_created(self.metric_type)
        {
            let rest = self.body.get(self.start..).unwrap_or_default();
            created.look_ahead(self.start, rest, &self.family);
            if created.is_created(text) {
                return Ok(None);
            }
            series.created_ms = created.of(&series, &self.family);
        }
        Ok(Some(series))
    }

    fn metadata(&mut self, comment: &'a [u8]) -> Result<Entry<'a>, Fault> {
        let (keyword, content) = comment.split_at_checked(5).unwrap_or((comment, &[]));
        if comment.starts_with(b"EOF") {
            return Err(self.fault("unexpected data after # EOF"));
        }
        if !matches!(keyword, b"HELP " | b"TYPE " | b"UNIT ") {
            let reason = format!("expected HELP, TYPE, UNIT or EOF, got {}", excerpt(comment));
            return Err(self.fault(reason));
        }
        let Ok(content) = str::from_utf8(content) else {
            return Err(self.fault("help text is not a valid utf8 string"));
        };
        let (family, text) = match family_and_text(content) {
            Ok(parts) => parts,
            Err(reason) => return Err(self.fault(reason)),
        };
        if *self.family != *family {
            self.family = family.clone();
        }
        match keyword {
            b"HELP " => Ok(Entry::Help {
                family,
                text: if text.contains('\\') {
                    unescape(text, true).into()
                } else {
                    text.into()
                },
            }),
            b"TYPE " => {
                let named = MetricType::ALL.iter().find(|known| known.name() == text);
                let Some(metric_type) = named.copied() else {
                    let text = excerpt(text.as_bytes());
                    return Err(self.fault(format!("invalid metric type {text}")));
                };
                self.metric_type = metric_type;
                Ok(Entry::Type {
                    family,
                    metric_type,
                })
            }
            _ => {
                if !has_unit(&family, text) {
                    let (unit, family) = (excerpt(text.as_bytes()), excerpt(family.as_bytes()));
                    return Err(self.fault(format!("unit {unit} not a suffix of metric {family}")));
                }
                let unit = text.into();
                Ok(Entry::Unit { family, unit })
            }
        }
    }

    fn fault(&self, reason: impl Into<String>) -> Fault {
        Fault::new(self.start, reason)
    }
}

/// Whether a family may have `_created` lines.
fn has_created(metric_type: MetricType) -> bool {
    matches!(
        metric_type,
        MetricType::Counter | MetricType::Summary | MetricType::Histogram
    )
}

/// Whether a metric's name ends with its unit. No unit is fine.
pub(super) fn has_unit(family: &str, unit: &str) -> bool {
    unit.is_empty()
        || family
            .strip_suffix(unit)
            .is_some_and(|rest| rest.ends_with('_'))
}

pub(super) fn family_and_text(content: &str) -> Result<(Cow<'_, str>, &str), String> {
    let mut cursor = Cursor {
        rest: content,
        blanks: false,
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
    match cursor.rest.strip_prefix(' ') {
        Some(text) => Ok((family, text)),
        None => Err("expected a space and text after the metric name".into()),
    }
}

/// Name and labels, and what follows them. An exemplar has braces, too, so the last brace ends the
/// labels only where there is none.
#[inline]
pub(super) fn split_series(line: &[u8]) -> (&[u8], &[u8]) {
    let end = if memchr(b'#', line).is_none() {
        match memrchr(b'}', line) {
            Some(brace) => Some(brace + 1),
            None => memchr(b' ', line),
        }
    } else {
        match memchr2(b' ', b'{', line) {
            Some(at) if line.get(at) == Some(&b'{') => closing_brace(line),
            other => other,
        }
    };
    line.split_at_checked(end.unwrap_or(line.len()))
        .unwrap_or((line, &[]))
}

#[inline]
fn parse_tail(tail: &[u8]) -> Result<Tail<'_>, String> {
    let mut rest = tail;
    let value = number(&mut rest, "value after metric")?;
    let mut timestamp_ms = None;
    if !rest.is_empty() && !rest.starts_with(b" # {") {
        timestamp_ms = Some(seconds(&mut rest, "timestamp")?);
    }
    let exemplar = match rest.strip_prefix(b" # {") {
        Some(exemplar) => Some(parse_exemplar(exemplar)?),
        None if rest.is_empty() => None,
        None => {
            return Err(format!(
                "expected next entry after timestamp, got {}",
                excerpt(rest)
            ));
        }
    };
    Ok(Tail {
        value,
        timestamp_ms,
        exemplar,
    })
}

/// Reads an exemplar, of which the opening brace was consumed.
fn parse_exemplar(text: &[u8]) -> Result<TextExemplar<'_>, String> {
    let text = str::from_utf8(text).map_err(|_| "exemplar is not valid UTF-8")?;
    let mut cursor = Cursor {
        rest: text,
        blanks: false,
    };
    while let Some(part) = cursor.next_item().map_err(|error| error.to_string())? {
        if let BraceItem::Name(_) = part {
            return Err("expected a label of the exemplar, got a name without a value".into());
        }
    }
    let mut rest = cursor.rest.as_bytes();
    let value = number(&mut rest, "value after exemplar labels")?;
    let mut timestamp_ms = None;
    if !rest.is_empty() {
        timestamp_ms = Some(seconds(&mut rest, "exemplar timestamp")?);
    }
    if !rest.is_empty() {
        return Err(format!(
            "expected next entry after exemplar timestamp, got {}",
            excerpt(rest)
        ));
    }
    Ok(TextExemplar {
        labels: text,
        value,
        timestamp_ms,
    })
}

/// Takes a space and a number.
#[inline]
fn number(rest: &mut &[u8], what: &str) -> Result<f64, String> {
    let Some(after) = rest.strip_prefix(b" ") else {
        return Err(format!("expected {what}, got {}", excerpt(rest)));
    };
    let end = after.iter().position(|byte| *byte == b' ');
    let (word, tail) = after
        .split_at_checked(end.unwrap_or(after.len()))
        .unwrap_or((after, &[]));
    *rest = tail;
    parse_float(word).ok_or_else(|| format!("expected {what}, got {}", excerpt(word)))
}

fn seconds(rest: &mut &[u8], what: &str) -> Result<i64, String> {
    let seconds = number(rest, what)?;
    seconds_to_ms(seconds).ok_or_else(|| format!("invalid {what} {seconds}"))
}
