//! Protobuf: `io.prometheus.client.MetricFamily` messages, each after its length.
//!
//! ```text
//! MetricFamily { string name = 1; string help = 2; MetricType type = 3; Metric metric = 4;
//!                string unit = 5; }
//! Metric       { LabelPair label = 1; Gauge gauge = 2; Counter counter = 3; Summary summary = 4;
//!                Untyped untyped = 5; int64 timestamp_ms = 6; Histogram histogram = 7; }
//! ```
//!
//! A metric becomes the series it has in text: `_count`, `_sum` and quantiles or buckets; a
//! histogram with native buckets becomes one of those. Prometheus' reading holds here, too: a
//! timestamp of 0 is none, a missing value is 0, families without metrics are skipped.
//!
//! Holds always: only the text of the current series is copied; the parts of a metric are decoded
//! from its message on demand.

pub(super) mod exemplar;
mod histogram;
mod metric;
mod value;

use icecore_model::MetricType;

use super::exemplars::ExemplarSource;
use super::labels::Syntax;
use super::openmetrics::has_unit;
use super::{Entry, ExpositionError, ParserOptions, Series, excerpt};
use crate::prometheus::protobuf::{ProtobufError, Reader, bytes_tag, known, varint_tag};
use metric::{Family, Metric};

const NAME: u32 = bytes_tag(1);
const HELP: u32 = bytes_tag(2);
const TYPE: u32 = varint_tag(3);
const METRIC: u32 = bytes_tag(4);
const UNIT: u32 = bytes_tag(5);
const FIELDS: u32 = known(&[1, 2, 3, 4, 5]);

pub(super) struct ProtobufParser<'a> {
    body: Reader<'a>,
    options: ParserOptions,
    family: Family<'a>,
    /// From 1.
    family_number: u64,
    /// What is left of the family's message.
    metrics: Reader<'a>,
    next: Next<'a>,
    /// The series returned last.
    text: Vec<u8>,
}

/// What comes next.
enum Next<'a> {
    Family,
    Unit,
    Type,
    Metric,
    Part(Metric<'a>),
}

impl<'a> ProtobufParser<'a> {
    pub(super) fn new(body: &'a [u8], options: ParserOptions) -> Self {
        Self {
            body: Reader::new(body),
            options,
            family: Family::default(),
            family_number: 0,
            metrics: Reader::new(&[]),
            next: Next::Family,
            text: Vec::new(),
        }
    }

    pub(super) fn next(&mut self) -> Result<Option<Entry<'_>>, ExpositionError> {
        loop {
            match std::mem::replace(&mut self.next, Next::Family) {
                Next::Family => match self.next_family() {
                    Ok(true) => {
                        self.next = Next::Unit;
                        return Ok(Some(Entry::Help {
                            family: self.family.name.into(),
                            text: self.family.help.into(),
                        }));
                    }
                    Ok(false) => return Ok(None),
                    Err(reason) => return Err(self.error(&reason)),
                },
                Next::Unit => {
                    self.next = Next::Type;
                    if !self.family.unit.is_empty() {
                        return Ok(Some(Entry::Unit {
                            family: self.family.name.into(),
                            unit: self.family.unit.into(),
                        }));
                    }
                }
                Next::Type => {
                    self.next = Next::Metric;
                    return Ok(Some(Entry::Type {
                        family: self.family.name.into(),
                        metric_type: self.family.metric_type,
                    }));
                }
                Next::Metric => match self.next_metric() {
                    Ok(Some(metric)) => self.next = Next::Part(metric),
                    Ok(None) => {}
                    Err(reason) => return Err(self.error(&reason)),
                },
                Next::Part(mut metric) => {
                    let sample = match metric.next_sample(&self.family, &mut self.text) {
                        Ok(Some(sample)) => sample,
                        Ok(None) => {
                            self.next = Next::Metric;
                            continue;
                        }
                        Err(reason) => return Err(self.error(&reason)),
                    };
                    let series = Series {
                        text: &self.text,
                        value: sample.value,
                        timestamp_ms: metric.timestamp_ms,
                        created_ms: metric.created_ms,
                        syntax: Syntax::Separated,
                        number_label: None,
                        exemplars: sample.exemplars,
                    };
                    self.next = Next::Part(metric);
                    return Ok(Some(Entry::Series(series)));
                }
            }
        }
    }

    /// Goes on to the next family that has metrics; false at the end.
    fn next_family(&mut self) -> Result<bool, String> {
        self.family = Family::default();
        while !self.body.is_empty() {
            self.family_number += 1;
            let message = self.body.bytes().map_err(broken)?;
            let (family, has_metrics) = read_family(message)?;
            if has_metrics {
                self.family = family;
                self.metrics = Reader::new(message);
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn next_metric(&mut self) -> Result<Option<Metric<'a>>, String> {
        while !self.metrics.is_empty() {
            match self.metrics.tag().map_err(broken)? {
                METRIC => {
                    let message = self.metrics.bytes().map_err(broken)?;
                    return Metric::read(message, &self.family, self.options).map(Some);
                }
                other => self.metrics.skip(other).map_err(broken)?,
            }
        }
        Ok(None)
    }

    /// What is wrong with the labels of the last series, with its family.
    pub(super) fn error(&self, reason: &str) -> ExpositionError {
        let (number, name) = (self.family_number, self.family.name);
        let name = if name.is_empty() {
            String::new()
        } else {
            format!(" ({})", excerpt(name.as_bytes()))
        };
        ExpositionError {
            line: 0,
            reason: format!("metric family {number}{name}: {reason}"),
        }
    }
}

fn broken(error: ProtobufError) -> String {
    format!("protobuf: {error}")
}

/// Reads the fields of a family besides its metrics, and whether it has any.
fn read_family(message: &[u8]) -> Result<(Family<'_>, bool), String> {
    let mut family = Family::default();
    let mut type_number = 0;
    let mut has_metrics = false;
    let mut reader = Reader::new(message);
    while !reader.is_empty() {
        match reader.tag().map_err(broken)? {
            NAME => family.name = utf8(reader.bytes().map_err(broken)?, "metric name")?,
            HELP => family.help = utf8(reader.bytes().map_err(broken)?, "help")?,
            UNIT => family.unit = utf8(reader.bytes().map_err(broken)?, "unit")?,
            TYPE => type_number = reader.varint().map_err(broken)?,
            METRIC => {
                has_metrics = true;
                reader.skip(METRIC).map_err(broken)?;
            }
            other => reader.skip_unknown(other, FIELDS).map_err(broken)?,
        }
    }
    if !has_metrics {
        return Ok((family, false));
    }
    family.metric_type = match type_number {
        0 => MetricType::Counter,
        1 => MetricType::Gauge,
        2 => MetricType::Summary,
        3 => MetricType::Unknown,
        4 => MetricType::Histogram,
        5 => MetricType::GaugeHistogram,
        other => return Err(format!("unknown metric type {other}")),
    };
    if family.name.is_empty() {
        return Err("invalid metric name: it is empty".into());
    }
    let without_total = match family.metric_type {
        MetricType::Counter => family.name.strip_suffix("_total").unwrap_or(family.name),
        _ => family.name,
    };
    if !has_unit(without_total, family.unit) {
        let (unit, name) = (
            excerpt(family.unit.as_bytes()),
            excerpt(family.name.as_bytes()),
        );
        return Err(format!("unit {unit} not a suffix of metric {name}"));
    }
    Ok((family, true))
}

fn utf8<'a>(bytes: &'a [u8], what: &str) -> Result<&'a str, String> {
    str::from_utf8(bytes).map_err(|_| format!("{what} is not valid UTF-8: {}", excerpt(bytes)))
}
