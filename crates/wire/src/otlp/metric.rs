//! One metric: its name, what it is, and where its points are.
//!
//! ```text
//! Metric { string name = 1; string description = 2; string unit = 3; Gauge gauge = 5; Sum sum = 7;
//!          Histogram histogram = 9; ExponentialHistogram exponential_histogram = 10;
//!          Summary summary = 11; KeyValue metadata = 12; }
//! Gauge, Summary, Histogram, ExponentialHistogram, Sum
//!     { DataPoint data_points = 1; AggregationTemporality temporality = 2;
//!       bool is_monotonic = 3; }
//! ```

use icecore_model::{METRIC_NAME, Metadata, MetricType, SampleSink, Temporality};

use super::labels::push_label;
use super::names::{NameKind, metric_name, unit_words};
use super::request::Decoder;
use super::translation::Strategy;
use crate::prometheus::protobuf::{Reader, Result, bytes_tag, known, varint_tag};

const NAME: u32 = bytes_tag(1);
const DESCRIPTION: u32 = bytes_tag(2);
const UNIT: u32 = bytes_tag(3);
const GAUGE: u32 = bytes_tag(5);
const SUM: u32 = bytes_tag(7);
const HISTOGRAM: u32 = bytes_tag(9);
const EXPONENTIAL: u32 = bytes_tag(10);
const SUMMARY: u32 = bytes_tag(11);
const METADATA: u32 = bytes_tag(12);
const FIELDS: u32 = known(&[1, 2, 3, 5, 7, 9, 10, 11, 12]);

const DATA_POINTS: u32 = bytes_tag(1);
const TEMPORALITY: u32 = varint_tag(2);
const MONOTONIC: u32 = varint_tag(3);

/// What the points of a metric share. The buffers are reused from metric to metric.
#[derive(Default)]
pub(super) struct Metric<'a> {
    name: &'a [u8],
    description: &'a [u8],
    unit: &'a [u8],
    /// The data field, by its tag; 0 for none.
    data: u32,
    /// Whether there is a field that may be data of a type that is newer than this program.
    has_unknown: bool,
    pub(super) temporality: Temporality,
    monotonic: bool,
    /// The name in Prometheus; the original one while there is none.
    pub(super) family: String,
    /// Why all its points are refused.
    pub(super) refusal: Option<String>,
    pub(super) labels: NameLabels,
}

/// The encoded labels `__name__` of the series of a family.
#[derive(Default)]
pub(super) struct NameLabels {
    pub(super) plain: Vec<u8>,
    pub(super) bucket: Vec<u8>,
    pub(super) sum: Vec<u8>,
    pub(super) count: Vec<u8>,
}

impl<'a, S: SampleSink> Decoder<'a, '_, S> {
    pub(super) fn decode_metric(&mut self, message: &'a [u8]) -> Result<()> {
        let mut metric = self.metric.take().unwrap_or_default();
        let decoded = self.decode_metric_into(message, &mut metric);
        self.metric = Some(metric);
        decoded
    }

    fn decode_metric_into(&mut self, message: &'a [u8], metric: &mut Metric<'a>) -> Result<()> {
        metric.read(message)?;
        if metric.data == 0 && metric.has_unknown {
            self.sink.point();
            self.points += 1;
            let name = String::from_utf8_lossy(metric.name);
            self.sink
                .reject(format!("{name}: metric of a type that is not known here"));
        }
        if !metric.read_data_settings(message)? {
            return Ok(());
        }
        metric.set_names(self.translation.strategy);
        if metric.refusal.is_none() {
            let metadata = metric.metadata(self.translation.strategy);
            self.sink.metadata(&metric.family, metadata);
        }
        let mut reader = Reader::new(message);
        while !reader.is_empty() {
            let tag = reader.tag()?;
            if tag == metric.data {
                self.data_points(reader.bytes()?, metric)?;
            } else {
                reader.skip(tag)?;
            }
        }
        Ok(())
    }

    fn data_points(&mut self, data: &'a [u8], metric: &Metric<'a>) -> Result<()> {
        let mut reader = Reader::new(data);
        while !reader.is_empty() {
            let tag = reader.tag()?;
            if tag != DATA_POINTS {
                reader.skip(tag)?;
                continue;
            }
            let point = reader.bytes()?;
            match metric.data {
                HISTOGRAM => self.histogram_point(point, metric)?,
                EXPONENTIAL => self.exponential_point(point, metric)?,
                SUMMARY => self.summary_point(point, metric)?,
                _ => self.number_point(point, metric)?,
            }
        }
        Ok(())
    }
}

impl<'a> Metric<'a> {
    /// Everything but the content of the data field.
    fn read(&mut self, message: &'a [u8]) -> Result<()> {
        (self.name, self.description, self.unit) = (&[], &[], &[]);
        (self.data, self.has_unknown) = (0, false);
        let mut reader = Reader::new(message);
        while !reader.is_empty() {
            match reader.tag()? {
                NAME => self.name = reader.bytes()?,
                DESCRIPTION => self.description = reader.bytes()?,
                UNIT => self.unit = reader.bytes()?,
                data @ (GAUGE | SUM | HISTOGRAM | EXPONENTIAL | SUMMARY) => {
                    self.data = data;
                    reader.skip(data)?;
                }
                METADATA => reader.skip(METADATA)?,
                other => {
                    self.has_unknown = true;
                    reader.skip_unknown(other, FIELDS)?;
                }
            }
        }
        Ok(())
    }

    /// Temporality and monotonicity, wherever they stand. False when there are no points.
    fn read_data_settings(&mut self, message: &[u8]) -> Result<bool> {
        (self.monotonic, self.refusal) = (false, None);
        let (mut number, mut has_points) = (0, false);
        let mut reader = Reader::new(message);
        while !reader.is_empty() {
            let tag = reader.tag()?;
            if tag != self.data {
                reader.skip(tag)?;
                continue;
            }
            let mut data = Reader::new(reader.bytes()?);
            while !data.is_empty() {
                match data.tag()? {
                    DATA_POINTS => {
                        has_points = true;
                        data.skip(DATA_POINTS)?;
                    }
                    TEMPORALITY => number = data.varint()?,
                    MONOTONIC => self.monotonic = data.varint()? != 0,
                    other => data.skip_unknown(other, known(&[1, 2, 3]))?,
                }
            }
        }
        let has_temporality = matches!(self.data, SUM | HISTOGRAM | EXPONENTIAL);
        self.monotonic &= self.data == SUM;
        self.temporality = match number {
            1 if has_temporality => Temporality::Delta,
            2 if has_temporality => Temporality::Cumulative,
            _ => Temporality::Unspecified,
        };
        if has_temporality && self.temporality == Temporality::Unspecified {
            self.refusal = Some(format!(
                "{}: neither cumulative nor delta (aggregation temporality {number})",
                String::from_utf8_lossy(self.name)
            ));
        }
        Ok(has_points)
    }

    fn set_names(&mut self, strategy: Strategy) {
        let kind = match self.data {
            GAUGE => NameKind::Gauge,
            SUM if self.monotonic => NameKind::MonotonicSum,
            _ => NameKind::Other,
        };
        let unit = str::from_utf8(self.unit).unwrap_or_default();
        let name = str::from_utf8(self.name);
        let family = name
            .map_err(|_| "metric name is not valid UTF-8".to_owned())
            .and_then(|name| metric_name(strategy, name, unit, kind));
        match family {
            Ok(family) => self.family = family,
            Err(reason) => {
                self.family = String::from_utf8_lossy(self.name).into();
                self.refusal.get_or_insert(reason);
            }
        }
        let NameLabels {
            plain,
            bucket,
            sum,
            count,
        } = &mut self.labels;
        let is_classic = matches!(self.data, HISTOGRAM | EXPONENTIAL | SUMMARY);
        let stem = self.family.len();
        for (label, suffix) in [
            (plain, ""),
            (bucket, "_bucket"),
            (sum, "_sum"),
            (count, "_count"),
        ] {
            label.clear();
            if is_classic || suffix.is_empty() {
                self.family.push_str(suffix);
                push_label(label, METRIC_NAME.as_bytes(), self.family.as_bytes());
                self.family.truncate(stem);
            }
        }
    }

    fn metadata(&self, strategy: Strategy) -> Metadata {
        let unit = str::from_utf8(self.unit).unwrap_or_default();
        Metadata {
            metric_type: match self.data {
                SUM if self.monotonic => MetricType::Counter,
                HISTOGRAM | EXPONENTIAL => MetricType::Histogram,
                SUMMARY => MetricType::Summary,
                _ => MetricType::Gauge,
            },
            unit: unit_words(strategy, unit),
            help: String::from_utf8_lossy(self.description).into(),
            temporality: self.temporality,
            monotonic: self.monotonic,
        }
    }

    /// The temporality of this metric's numbers: the total of a sum that may fall is a gauge.
    pub(super) fn number_temporality(&self) -> Temporality {
        match self.temporality {
            Temporality::Cumulative if !self.monotonic => Temporality::Unspecified,
            temporality => temporality,
        }
    }
}
