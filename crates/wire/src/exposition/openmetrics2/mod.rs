//! OpenMetrics text, 2.0.0.
//!
//! ```text
//! # TYPE requests_total counter
//! requests_total{a="b"} 5 1700000000 st@1690000000 # {trace_id="x"} 1 1700000000.1 # {…} …
//! # TYPE seconds histogram
//! seconds {count:3,sum:1.5,bucket:[0.1:2,+Inf:3]} st@1690000000
//! # EOF
//! ```
//!
//! As in 1.0.0: one space between the parts and none elsewhere, timestamps in seconds, `# EOF` at
//! the very end. New are composite values, start timestamps and several exemplars, each with a
//! timestamp. A type holds for samples of exactly its name, until a line has another name.
//!
//! A composite value becomes the series that it has in older formats; its exemplars belong to the
//! first of them, as in Prometheus. Stricter than there: bounds and quantiles are numbers, and the
//! names and labels of all series of a line have at most [`COMPOSITE_TEXT_BYTES_MAX`].
//!
//! Holds always:
//! - A line gives all of its series or an error.
//! - Of a composite value only the text of the current series is copied.

mod composite;

use std::borrow::Cow;
use std::collections::VecDeque;

use icecore_model::{Histogram, MetricType};
use memchr::memchr;

use super::exemplars::{ExemplarSource, TextExemplar};
use super::float::{format_float, parse_float, seconds_to_ms};
use super::labels::{self, BraceItem, Cursor, Pair, SEPARATOR, Syntax, unescape};
use super::openmetrics::family_and_text;
use super::text::closing_brace;
use super::{Entry, Fault, ParserOptions, Series, SeriesValue, excerpt};
use composite::{ClassicValue, HistogramValue, SummaryValue};

/// The most bytes of names and labels that the series of one composite value have in sum. A few
/// bytes of a bucket repeat all labels of the line, so the length of the line is no bound.
const COMPOSITE_TEXT_BYTES_MAX: usize = 256 << 20;

pub(super) struct OpenMetrics2Parser<'a> {
    body: &'a [u8],
    position: usize,
    /// Where the line of the last entry begins.
    start: usize,
    options: ParserOptions,
    /// The name of the last line, and its type.
    family: Cow<'a, str>,
    metric_type: MetricType,
    /// Series of a composite value that come next.
    parts: VecDeque<Part>,
    /// The name and labels of that value.
    identity: Identity,
    /// The text of the part returned last.
    text: Vec<u8>,
    times: Times,
    exemplars: Vec<TextExemplar<'a>>,
}

/// A series of a composite value, without the name and labels that all of them have. A line has
/// many, so they are small.
struct Part {
    suffix: &'static str,
    /// `le` or `quantile`.
    number: Option<(&'static str, f64)>,
    value: PartValue,
}

enum PartValue {
    Float(f64),
    Histogram(Box<Histogram>),
}

/// The name and labels of a composite value.
#[derive(Default)]
struct Identity {
    name: Vec<u8>,
    /// Label names and values, each after a [`SEPARATOR`].
    labels: Vec<u8>,
}

/// The times of a sample.
#[derive(Clone, Copy, Default)]
struct Times {
    timestamp_ms: Option<i64>,
    created_ms: Option<i64>,
}

impl<'a> OpenMetrics2Parser<'a> {
    pub(super) fn new(body: &'a [u8], options: ParserOptions) -> Self {
        Self {
            body,
            position: 0,
            start: 0,
            options,
            family: "".into(),
            metric_type: MetricType::Unknown,
            parts: VecDeque::new(),
            identity: Identity::default(),
            text: Vec::new(),
            times: Times::default(),
            exemplars: Vec::new(),
        }
    }

    pub(super) fn last_start(&self) -> usize {
        self.start
    }

    pub(super) fn next(&mut self) -> Result<Option<Entry<'_>>, Fault> {
        loop {
            if let Some(part) = self.parts.pop_front() {
                // The exemplars went to the first one.
                self.exemplars.clear();
                return Ok(Some(self.part(part)));
            }
            self.start = self.position;
            let rest = self.body.get(self.position..).unwrap_or_default();
            if rest == b"# EOF" || rest == b"# EOF\n" {
                return Ok(None);
            }
            let Some(length) = memchr(b'\n', rest) else {
                self.position = self.body.len();
                return Err(self.fault("data does not end with # EOF"));
            };
            self.position += length + 1;
            let line = rest.get(..length).unwrap_or(rest);
            let Ok(line) = str::from_utf8(line) else {
                return Err(self.fault("line is not valid UTF-8"));
            };
            if let Some(comment) = line.strip_prefix("# ") {
                return match self.metadata(comment) {
                    Ok(entry) => Ok(Some(entry)),
                    Err(reason) => Err(self.fault(reason)),
                };
            }
            match self.sample(line) {
                Ok(Some(series)) => return Ok(Some(self.plain(series))),
                Ok(None) => {}
                Err(reason) => return Err(self.fault(reason)),
            }
            if let Some(part) = self.parts.pop_front() {
                return Ok(Some(self.part(part)));
            }
        }
    }

    /// A series as it is written.
    fn plain(&self, (text, value): (&'a str, f64)) -> Entry<'_> {
        Entry::Series(Series {
            text: text.as_bytes(),
            value: SeriesValue::Float(value),
            timestamp_ms: self.times.timestamp_ms,
            created_ms: self.times.created_ms,
            syntax: Syntax::OpenMetrics,
            number_label: None,
            exemplars: ExemplarSource::TextList(&self.exemplars),
        })
    }

    fn part(&mut self, part: Part) -> Entry<'_> {
        self.identity
            .write(part.suffix, part.number, &mut self.text);
        Entry::Series(Series {
            text: &self.text,
            value: match part.value {
                PartValue::Float(value) => SeriesValue::Float(value),
                PartValue::Histogram(histogram) => SeriesValue::Histogram(*histogram),
            },
            timestamp_ms: self.times.timestamp_ms,
            created_ms: self.times.created_ms,
            syntax: Syntax::Separated,
            number_label: None,
            exemplars: ExemplarSource::TextList(&self.exemplars),
        })
    }

    /// Reads a sample: a plain one is returned, the series of a composite one are queued.
    fn sample(&mut self, line: &'a str) -> Result<Option<(&'a str, f64)>, String> {
        let end = match line.find([' ', '{']) {
            Some(at) if line.as_bytes().get(at) == Some(&b'{') => closing_brace(line.as_bytes()),
            other => other,
        };
        let (text, mut rest) = line
            .split_at_checked(end.unwrap_or(line.len()))
            .unwrap_or((line, ""));
        self.enter(name_of(text)?);
        let value = take_word(&mut rest, "value after metric")?;
        self.read_times(rest)?;
        if value.starts_with('{') {
            self.composite(text, value)?;
            return Ok(None);
        }
        let number = parse_float(value.as_bytes());
        let number = number.ok_or_else(|| format!("expected a number, got {}", shown(value)))?;
        match self.metric_type {
            MetricType::Histogram | MetricType::GaugeHistogram | MetricType::Summary => {
                let name = self.metric_type.name();
                return Err(format!("composite value required for metric type {name:?}"));
            }
            MetricType::Counter if number.is_nan() => {
                return Err("counter sample value must not be NaN".into());
            }
            MetricType::StateSet => self.check_state(text, number)?,
            _ => {}
        }
        Ok(Some((text, number)))
    }

    /// A line has a name: that of another family ends what was said of the last one.
    fn enter(&mut self, name: Cow<'a, str>) {
        if self.family != name {
            self.metric_type = MetricType::Unknown;
            self.family = name;
        }
    }

    fn check_state(&self, text: &str, value: f64) -> Result<(), String> {
        if value != 0.0 && value != 1.0 {
            return Err(format!("stateset sample value must be 0 or 1, got {value}"));
        }
        let labels = pairs_of(text)?;
        if labels.iter().skip(1).any(|(name, _)| *name == self.family) {
            return Ok(());
        }
        let family = shown(&self.family);
        Err(format!(
            "stateset sample must have a label matching the metric family name {family}"
        ))
    }

    fn composite(&mut self, text: &str, value: &str) -> Result<(), String> {
        self.identity.set(&pairs_of(text)?);
        match self.metric_type {
            MetricType::Histogram => self.histogram(value, false)?,
            MetricType::GaugeHistogram => self.histogram(value, true)?,
            MetricType::Summary => {
                let summary = SummaryValue::read(value)?;
                self.push("_count", None, summary.count);
                self.push("_sum", None, summary.sum);
                for (quantile, value) in summary.quantiles {
                    self.push("", Some(("quantile", quantile)), value);
                }
            }
            other => {
                let name = other.name();
                return Err(format!(
                    "composite value not supported for metric type {name:?}"
                ));
            }
        }
        let (parts, bytes) = (self.parts.len(), self.identity.length());
        if parts.saturating_mul(bytes) > COMPOSITE_TEXT_BYTES_MAX {
            self.parts.clear();
            return Err(format!(
                "name and labels of {bytes} bytes for each of {parts} series exceed \
                 {COMPOSITE_TEXT_BYTES_MAX} bytes: shorten them, or expose fewer buckets or \
                 quantiles"
            ));
        }
        Ok(())
    }

    fn histogram(&mut self, value: &str, gauge: bool) -> Result<(), String> {
        let HistogramValue { native, classic } = HistogramValue::read(value, gauge)?;
        let native = native.filter(|_| !self.options.ignore_native);
        let converted = match (&native, &classic) {
            // Those of gauges stay as they are, as in Prometheus.
            (None, Some(classic)) if self.options.classic_to_custom_bounds && !gauge => {
                classic.converted()
            }
            _ => None,
        };
        let histogram = native.or(converted);
        let with_classic = histogram.is_none() || self.options.classic_beside_native;
        if let Some(histogram) = histogram {
            self.parts.push_back(Part {
                suffix: "",
                number: None,
                value: PartValue::Histogram(Box::new(histogram)),
            });
        }
        if let Some(classic) = classic.filter(|_| with_classic) {
            self.classic(&classic, gauge);
        }
        Ok(())
    }

    fn classic(&mut self, classic: &ClassicValue, gauge: bool) {
        let (count, sum) = if gauge {
            ("_gcount", "_gsum")
        } else {
            ("_count", "_sum")
        };
        self.push(count, None, classic.count);
        self.push(sum, None, classic.sum);
        for (bound, count) in &classic.buckets {
            self.push("_bucket", Some(("le", *bound)), *count);
        }
    }

    fn push(&mut self, suffix: &'static str, number: Option<(&'static str, f64)>, value: f64) {
        self.parts.push_back(Part {
            suffix,
            number,
            value: PartValue::Float(value),
        });
    }

    /// Reads the times and exemplars after a value.
    fn read_times(&mut self, mut rest: &'a str) -> Result<(), String> {
        self.times = Times::default();
        self.exemplars.clear();
        while !rest.is_empty() {
            if let Some(exemplars) = rest.strip_prefix(" # {") {
                return self.read_exemplars(exemplars);
            }
            let word = take_word(&mut rest, "timestamp")?;
            let Times {
                timestamp_ms,
                created_ms,
            } = &mut self.times;
            if let Some(start) = word.strip_prefix("st@") {
                if created_ms.is_some() {
                    return Err("duplicate start timestamp".into());
                }
                *created_ms = Some(milliseconds(start, "start timestamp")?);
            } else if timestamp_ms.is_some() {
                return Err("duplicate timestamp".into());
            } else if created_ms.is_some() {
                return Err("timestamp must precede start timestamp".into());
            } else {
                *timestamp_ms = Some(milliseconds(word, "timestamp")?);
            }
        }
        Ok(())
    }

    /// Reads exemplars up to the end of the line; the opening brace of the first is consumed.
    fn read_exemplars(&mut self, mut rest: &'a str) -> Result<(), String> {
        loop {
            let mut cursor = Cursor {
                rest,
                blanks: false,
            };
            while let Some(item) = cursor.next_item().map_err(|error| error.to_string())? {
                if let BraceItem::Name(_) = item {
                    let reason = "expected a label of the exemplar, got a name without a value";
                    return Err(reason.into());
                }
            }
            let mut tail = cursor.rest;
            let value = take_word(&mut tail, "exemplar value")?;
            let value = parse_float(value.as_bytes())
                .ok_or_else(|| format!("expected exemplar value, got {}", shown(value)))?;
            let timestamp = take_word(&mut tail, "exemplar timestamp")?;
            self.exemplars.push(TextExemplar {
                labels: rest,
                value,
                timestamp_ms: Some(milliseconds(timestamp, "exemplar timestamp")?),
            });
            if tail.is_empty() {
                return Ok(());
            }
            rest = tail.strip_prefix(" # {").ok_or_else(|| {
                format!("expected end of line or next exemplar, got {}", shown(tail))
            })?;
        }
    }

    fn metadata(&mut self, comment: &'a str) -> Result<Entry<'a>, String> {
        if comment.starts_with("EOF") {
            return Err("unexpected data after # EOF".into());
        }
        let keyword = ["HELP ", "TYPE ", "UNIT "]
            .into_iter()
            .find(|keyword| comment.starts_with(keyword))
            .ok_or_else(|| format!("expected HELP, TYPE, UNIT or EOF, got {}", shown(comment)))?;
        let (family, text) = family_and_text(comment.get(keyword.len()..).unwrap_or_default())?;
        if family.is_empty() {
            return Err("metric name must not be empty".into());
        }
        self.enter(family.clone());
        Ok(match keyword {
            "HELP " => Entry::Help {
                family,
                text: if text.contains('\\') {
                    unescape(text, true).into()
                } else {
                    text.into()
                },
            },
            "TYPE " => {
                let named = MetricType::ALL.iter().find(|known| known.name() == text);
                let Some(metric_type) = named.copied() else {
                    return Err(format!("invalid metric type {}", shown(text)));
                };
                self.metric_type = metric_type;
                Entry::Type {
                    family,
                    metric_type,
                }
            }
            // Names need not end with their unit any more.
            _ => Entry::Unit {
                family,
                unit: text.into(),
            },
        })
    }

    fn fault(&self, reason: impl Into<String>) -> Fault {
        Fault::new(self.start, reason)
    }
}

impl Identity {
    fn set(&mut self, pairs: &[Pair<'_>]) {
        self.name.clear();
        self.labels.clear();
        if let Some(((_, name), labels)) = pairs.split_first() {
            self.name.extend_from_slice(name.as_bytes());
            for piece in labels.iter().flat_map(|(name, value)| [name, value]) {
                self.labels.push(SEPARATOR);
                self.labels.extend_from_slice(piece.as_bytes());
            }
        }
    }

    fn length(&self) -> usize {
        self.name.len() + self.labels.len()
    }

    /// Writes the text of a series to `text`, which is emptied first.
    fn write(&self, suffix: &str, number: Option<(&str, f64)>, text: &mut Vec<u8>) {
        text.clear();
        text.extend_from_slice(&self.name);
        text.extend_from_slice(suffix.as_bytes());
        text.extend_from_slice(&self.labels);
        if let Some((name, number)) = number {
            text.push(SEPARATOR);
            text.extend_from_slice(name.as_bytes());
            text.push(SEPARATOR);
            text.extend_from_slice(format_float(number).as_bytes());
        }
    }
}

/// The metric name of a series. Within braces it comes first, in quotes.
fn name_of(text: &str) -> Result<Cow<'_, str>, String> {
    let Some(inside) = text.strip_prefix('{') else {
        let name = text.split('{').next().unwrap_or_default();
        return match name {
            "" => Err("expected a metric name".into()),
            name => Ok(name.into()),
        };
    };
    let mut cursor = Cursor {
        rest: inside,
        blanks: false,
    };
    let name = cursor.quoted("a metric name in quotes");
    let name = name.map_err(|error| error.to_string())?;
    if !cursor.rest.starts_with([',', '}']) {
        return Err("metric name must be the first item in the label set".into());
    }
    if name.is_empty() {
        return Err("metric name must not be empty".into());
    }
    Ok(name)
}

fn pairs_of(text: &str) -> Result<Vec<Pair<'_>>, String> {
    let mut pairs = Vec::new();
    labels::parse(text.as_bytes(), Syntax::OpenMetrics, None, &mut pairs)
        .map_err(|error| error.to_string())?;
    Ok(pairs)
}

/// Takes a space and what follows up to the next one.
fn take_word<'t>(rest: &mut &'t str, what: &str) -> Result<&'t str, String> {
    let Some(after) = rest.strip_prefix(' ') else {
        return Err(format!("expected {what}, got {}", shown(rest)));
    };
    let (word, tail) = after.split_at(after.find(' ').unwrap_or(after.len()));
    if word.is_empty() {
        return Err(format!("expected {what}, got {}", shown(after)));
    }
    *rest = tail;
    Ok(word)
}

fn milliseconds(word: &str, what: &str) -> Result<i64, String> {
    let seconds = parse_float(word.as_bytes());
    let milliseconds = seconds.and_then(seconds_to_ms);
    milliseconds.ok_or_else(|| format!("invalid {what} {}", shown(word)))
}

fn shown(text: &str) -> String {
    excerpt(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram(label_bytes: usize, buckets: usize) -> String {
        let label = "x".repeat(label_bytes);
        let finite: String = (1..buckets).map(|bound| format!("{bound}:1,")).collect();
        format!(
            "# TYPE h histogram\n\
             h{{a=\"{label}\"}} {{count:1,sum:1,bucket:[{finite}+Inf:1]}}\n# EOF\n"
        )
    }

    /// The bytes that a parser holds for the series of a composite value.
    fn held(parser: &OpenMetrics2Parser<'_>) -> usize {
        let identity = &parser.identity;
        parser.parts.capacity() * size_of::<Part>()
            + identity.name.capacity()
            + identity.labels.capacity()
            + parser.text.capacity()
    }

    /// Reads a body and returns the number of its entries and the most bytes that were held.
    fn read(body: &str) -> Result<(usize, usize), String> {
        let mut parser = OpenMetrics2Parser::new(body.as_bytes(), ParserOptions::default());
        let (mut entries, mut held_max) = (0, 0_usize);
        loop {
            match parser.next() {
                Ok(Some(_)) => entries += 1,
                Ok(None) => return Ok((entries, held_max)),
                Err(fault) => return Err(fault.reason),
            }
            held_max = held_max.max(held(&parser));
        }
    }

    #[test]
    fn a_line_keeps_its_labels_once() {
        // Copies for all buckets would have 200 MB.
        let body = histogram(20_000, 10_000);
        let (entries, held_max) = read(&body).unwrap();
        // The type, the count, the sum and the buckets.
        assert_eq!(entries, 3 + 10_000);
        assert!(held_max < 16 * body.len(), "{held_max} of {}", body.len());
    }

    #[test]
    fn labels_times_series_have_a_limit() {
        // The text before `le` is `h`, a separator, `a`, a separator and the value: 64 KiB.
        let value_bytes = (64 << 10) - 4;
        let series = COMPOSITE_TEXT_BYTES_MAX / (64 << 10);
        let (entries, _) = read(&histogram(value_bytes, series - 2)).unwrap();
        assert_eq!(entries, 1 + series);
        let error = read(&histogram(value_bytes, series - 1)).unwrap_err();
        assert!(error.contains("for each of 4097 series exceed"), "{error}");
    }
}
