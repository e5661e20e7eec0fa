//! ForwardIndex: the labels of a series, and the nearest of five metric types.
//!
//! ```text
//! unit: Utf8 | metric type u8 | flags u8 | label count u16 | (name: Utf8 | value: Utf8)*
//! Utf8 = u16 length, bytes; labels sorted by name
//! ```
//!
//! The tail from the label count on ("bindings") is the same for equal label sets, whatever the
//! rest says, so readers intern label sets by these bytes without decoding them. Journal
//! definitions and exemplars use the same bindings.

use icecore_model::{Labels, Metadata, MetricType, Temporality as SentTemporality};

use crate::DecodeError;
use crate::reader::Reader;

const RECORD: &str = "ForwardIndex";
const MONOTONIC: u8 = 0b100;

/// Bytes of an empty name and an empty value, the least a binding takes.
const MIN_BINDING_LEN: usize = 4;

/// The most labels of a series or an exemplar.
pub const MAX_LABELS: usize = u16::MAX as usize;

/// The most bytes of a label name, a label value or a unit.
pub const MAX_TEXT_BYTES: usize = u16::MAX as usize;

/// The metric types, numbered as in `docs/storage-format.md`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum StoredType {
    #[default]
    Unknown = 0,
    Gauge = 1,
    Sum = 2,
    Histogram = 3,
    ExponentialHistogram = 4,
    Summary = 5,
}

impl StoredType {
    pub fn number(self) -> u8 {
        self as u8
    }

    pub fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            0 => Self::Unknown,
            1 => Self::Gauge,
            2 => Self::Sum,
            3 => Self::Histogram,
            4 => Self::ExponentialHistogram,
            5 => Self::Summary,
            _ => return None,
        })
    }
}

/// Whether a sum counts from a fixed start or from the last report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Temporality {
    #[default]
    Unspecified = 0,
    Cumulative = 1,
    Delta = 2,
}

/// Metric type, temporality and monotonicity: the two bytes before the labels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct MetricMeta {
    pub metric_type: StoredType,
    pub temporality: Temporality,
    pub monotonic: bool,
}

impl MetricMeta {
    pub fn flags(self) -> u8 {
        self.temporality as u8 | if self.monotonic { MONOTONIC } else { 0 }
    }

    fn from_bytes(metric_type: u8, flags: u8) -> Option<Self> {
        let temporality = match flags & !MONOTONIC {
            0 => Temporality::Unspecified,
            1 => Temporality::Cumulative,
            2 => Temporality::Delta,
            _ => return None,
        };
        let metric_type = StoredType::from_number(metric_type)?;
        Some(Self {
            metric_type,
            temporality,
            monotonic: flags & MONOTONIC != 0,
        })
    }
}

impl MetricMeta {
    /// What is stored of a series, by the metadata of its metric and by whether it has native
    /// histograms with exponential buckets.
    ///
    /// Deltas are stored as running totals, so that series are cumulative where they were sent as
    /// deltas; the catalog keeps the metadata as sent. A gauge with a temporality is what
    /// Prometheus makes of an OpenTelemetry sum that may fall.
    pub fn of(metadata: &Metadata, exponential: bool) -> Self {
        let mut meta = Self::from(metadata.metric_type);
        if metadata.temporality != SentTemporality::Unspecified {
            meta.temporality = Temporality::Cumulative;
            if metadata.metric_type == MetricType::Gauge {
                meta.metric_type = StoredType::Sum;
            }
        }
        if meta.metric_type == StoredType::Sum {
            meta.monotonic |= metadata.monotonic;
        }
        if meta.metric_type == StoredType::Histogram && exponential {
            meta.metric_type = StoredType::ExponentialHistogram;
        }
        meta
    }
}

impl From<MetricType> for MetricMeta {
    /// The nearest stored type. The catalog keeps the type as it came.
    fn from(metric_type: MetricType) -> Self {
        let (metric_type, temporality, monotonic) = match metric_type {
            MetricType::Unknown => (StoredType::Unknown, Temporality::Unspecified, false),
            MetricType::Counter => (StoredType::Sum, Temporality::Cumulative, true),
            MetricType::Gauge | MetricType::Info | MetricType::StateSet => {
                (StoredType::Gauge, Temporality::Unspecified, false)
            }
            MetricType::Histogram => (StoredType::Histogram, Temporality::Cumulative, false),
            MetricType::GaugeHistogram => (StoredType::Histogram, Temporality::Unspecified, false),
            MetricType::Summary => (StoredType::Summary, Temporality::Unspecified, false),
        };
        Self {
            metric_type,
            temporality,
            monotonic,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForwardRecord {
    /// Empty where the client did not name one.
    pub unit: String,
    pub meta: MetricMeta,
    pub labels: Labels,
}

pub fn encode(record: &ForwardRecord) -> Vec<u8> {
    let mut value = Vec::new();
    encode_into(&mut value, &record.unit, record.meta, record.labels.iter());
    value
}

/// Appends a record without building [`Labels`]. The labels must be sorted by name, unique and
/// without empty values. A unit too long for its length field is left out; the catalog keeps it.
pub fn encode_into<'a>(
    buffer: &mut Vec<u8>,
    unit: &str,
    meta: MetricMeta,
    labels: impl Iterator<Item = (&'a str, &'a str)>,
) {
    let unit = if u16::try_from(unit.len()).is_ok() {
        unit
    } else {
        ""
    };
    push_text16(buffer, unit);
    buffer.extend_from_slice(&[meta.metric_type.number(), meta.flags()]);
    push_bindings(buffer, labels);
}

pub fn decode(value: &[u8]) -> Result<ForwardRecord, DecodeError> {
    let mut reader = Reader::new(RECORD, value);
    let unit = reader.text16()?.to_owned();
    let meta = MetricMeta::from_bytes(reader.u8()?, reader.u8()?);
    let meta = meta.ok_or_else(|| reader.error("unknown metric type or flags"))?;
    let labels = read_bindings(&mut reader)?;
    reader.finish()?;
    Ok(ForwardRecord { unit, meta, labels })
}

/// The tail of a record that holds its labels, not checked further.
pub fn label_bindings(value: &[u8]) -> Result<&[u8], DecodeError> {
    let mut reader = Reader::new(RECORD, value);
    let unit_len = reader.u16()?;
    reader.bytes(usize::from(unit_len) + 2)?;
    Ok(reader.rest())
}

/// Reads what [`label_bindings`] returns.
pub fn decode_bindings(bindings: &[u8]) -> Result<Labels, DecodeError> {
    let mut reader = Reader::new(RECORD, bindings);
    let labels = read_bindings(&mut reader)?;
    reader.finish()?;
    Ok(labels)
}

pub(crate) fn push_bindings<'a>(
    buffer: &mut Vec<u8>,
    labels: impl Iterator<Item = (&'a str, &'a str)>,
) {
    let count_at = buffer.len();
    buffer.extend_from_slice(&[0, 0]);
    let mut count = 0usize;
    let mut previous = None;
    for (name, value) in labels {
        // What cannot be read back must not be written.
        assert!(
            previous.is_none_or(|previous| previous < name) && !value.is_empty(),
            "labels must be sorted, unique and not empty"
        );
        push_text16(buffer, name);
        push_text16(buffer, value);
        previous = Some(name);
        count += 1;
    }
    let count = u16::try_from(count).expect("ingest refuses more than MAX_LABELS labels");
    buffer[count_at..count_at + 2].copy_from_slice(&count.to_le_bytes());
}

pub(crate) fn read_bindings(reader: &mut Reader<'_>) -> Result<Labels, DecodeError> {
    let mut pairs = Vec::new();
    read_pairs(reader, &mut pairs)?;
    Ok(Labels::from_sorted(pairs.iter().copied()))
}

/// The same into a buffer of the caller's.
pub(crate) fn read_pairs<'a>(
    reader: &mut Reader<'a>,
    pairs: &mut Vec<(&'a str, &'a str)>,
) -> Result<(), DecodeError> {
    pairs.clear();
    let count = usize::from(reader.u16()?);
    if count > reader.remaining() / MIN_BINDING_LEN {
        return Err(reader.error("more labels than bytes"));
    }
    pairs.reserve(count);
    for _ in 0..count {
        let (name, value) = (reader.text16()?, reader.text16()?);
        if pairs.last().is_some_and(|(previous, _)| *previous >= name) {
            return Err(reader.error("label names are not sorted"));
        }
        if value.is_empty() {
            return Err(reader.error("empty label value"));
        }
        pairs.push((name, value));
    }
    Ok(())
}

fn push_text16(buffer: &mut Vec<u8>, text: &str) {
    let len = u16::try_from(text.len()).expect("ingest limits labels to 32 KiB");
    buffer.extend_from_slice(&len.to_le_bytes());
    buffer.extend_from_slice(text.as_bytes());
}
