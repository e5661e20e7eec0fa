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
//! first of them, as in Prometheus. Stricter than there: bounds and quantiles are numbers.
//!
//! Holds always: a line gives all of its series or an error.

mod composite;

use std::borrow::Cow;
use std::collections::VecDeque;

use icecore_model::MetricType;
use memchr::memchr;

use super::exemplars::{ExemplarSource, TextExemplar};
use super::float::{format_float, parse_float, seconds_to_ms};
use super::labels::{self, BraceItem, Cursor, Pair, SEPARATOR, Syntax, unescape};
use super::openmetrics::family_and_text;
use super::text::closing_brace;
use super::{Entry, Fault, ParserOptions, Series, SeriesValue, excerpt};
use composite::{ClassicValue, HistogramValue, SummaryValue};

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
    /// The text of the last of them.
    text: Vec<u8>,
    times: Times,
    exemplars: Vec<TextExemplar<'a>>,
}

/// A series of a composite value.
struct Part {
    text: Vec<u8>,
    value: SeriesValue,
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
        self.text = part.text;
        Entry::Series(Series {
            text: &self.text,
            value: part.value,
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
        let pairs = pairs_of(text)?;
        match self.metric_type {
            MetricType::Histogram => self.histogram(&pairs, value, false),
            MetricType::GaugeHistogram => self.histogram(&pairs, value, true),
            MetricType::Summary => {
                let summary = SummaryValue::read(value)?;
                self.push(&pairs, "_count", None, summary.count);
                self.push(&pairs, "_sum", None, summary.sum);
                for (quantile, value) in summary.quantiles {
                    self.push(&pairs, "", Some(("quantile", quantile)), value);
                }
                Ok(())
            }
            other => {
                let name = other.name();
                Err(format!(
                    "composite value not supported for metric type {name:?}"
                ))
            }
        }
    }

    fn histogram(&mut self, pairs: &[Pair<'_>], value: &str, gauge: bool) -> Result<(), String> {
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
                text: part_text(pairs, "", None),
                value: SeriesValue::Histogram(histogram),
            });
        }
        if let Some(classic) = classic.filter(|_| with_classic) {
            self.classic(pairs, &classic, gauge);
        }
        Ok(())
    }

    fn classic(&mut self, pairs: &[Pair<'_>], classic: &ClassicValue, gauge: bool) {
        let (count, sum) = if gauge {
            ("_gcount", "_gsum")
        } else {
            ("_count", "_sum")
        };
        self.push(pairs, count, None, classic.count);
        self.push(pairs, sum, None, classic.sum);
        for (bound, count) in &classic.buckets {
            self.push(pairs, "_bucket", Some(("le", *bound)), *count);
        }
    }

    fn push(&mut self, pairs: &[Pair<'_>], suffix: &str, number: Option<(&str, f64)>, value: f64) {
        self.parts.push_back(Part {
            text: part_text(pairs, suffix, number),
            value: SeriesValue::Float(value),
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

/// The text of a series of a composite value, whose own name and labels are `pairs`.
fn part_text(pairs: &[Pair<'_>], suffix: &str, number: Option<(&str, f64)>) -> Vec<u8> {
    let mut text = Vec::new();
    if let Some(((_, name), labels)) = pairs.split_first() {
        text.extend_from_slice(name.as_bytes());
        text.extend_from_slice(suffix.as_bytes());
        for piece in labels.iter().flat_map(|(name, value)| [name, value]) {
            text.push(SEPARATOR);
            text.extend_from_slice(piece.as_bytes());
        }
    }
    if let Some((name, number)) = number {
        text.push(SEPARATOR);
        text.extend_from_slice(name.as_bytes());
        text.push(SEPARATOR);
        text.extend_from_slice(format_float(number).as_bytes());
    }
    text
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
