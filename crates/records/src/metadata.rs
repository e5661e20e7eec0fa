//! Metric metadata in the catalog: type, unit and help of one family, as they came last.
//!
//! ```text
//! version u8 = 1 | type u8 | varint length, unit | varint length, help
//! type    bits 0–3: the metric type; bits 4–5: temporality (0 unspecified, 1 cumulative, 2 delta);
//!         bit 6: an OpenTelemetry sum that only grows
//! ```
//!
//! Protocols without temporality leave the upper bits zero, which is how the byte was
//! before it had them.

use icecore_model::{Metadata, MetricType, Temporality};

use crate::DecodeError;
use crate::reader::{Reader, push_text};

const RECORD: &str = "MetricMetadata";
const VERSION: u8 = 1;

const TYPE_MASK: u8 = 0xf;
const TEMPORALITY_SHIFT: u32 = 4;
const TEMPORALITY_MASK: u8 = 0b11;
const MONOTONIC: u8 = 1 << 6;

pub fn encode(metadata: &Metadata) -> Vec<u8> {
    let mut value = vec![VERSION];
    push_metadata(&mut value, metadata);
    value
}

pub fn decode(value: &[u8]) -> Result<Metadata, DecodeError> {
    let mut reader = Reader::new(RECORD, value);
    reader.version(VERSION)?;
    let metadata = read_metadata(&mut reader)?;
    reader.finish()?;
    Ok(metadata)
}

pub(crate) fn push_metadata(buffer: &mut Vec<u8>, metadata: &Metadata) {
    let temporality = match metadata.temporality {
        Temporality::Unspecified => 0,
        Temporality::Cumulative => 1,
        Temporality::Delta => 2,
    };
    let monotonic = if metadata.monotonic { MONOTONIC } else { 0 };
    buffer.push(metadata.metric_type.number() | temporality << TEMPORALITY_SHIFT | monotonic);
    push_text(buffer, &metadata.unit);
    push_text(buffer, &metadata.help);
}

pub(crate) fn read_metadata(reader: &mut Reader<'_>) -> Result<Metadata, DecodeError> {
    let byte = reader.u8()?;
    let temporality = match byte >> TEMPORALITY_SHIFT & TEMPORALITY_MASK {
        0 => Temporality::Unspecified,
        1 => Temporality::Cumulative,
        2 => Temporality::Delta,
        _ => return Err(reader.error("unknown temporality")),
    };
    // The highest bit is reserved: a value that sets it is from a newer version.
    let metric_type = MetricType::from_number((byte & (TYPE_MASK | 0x80)).into());
    let metric_type = metric_type.ok_or_else(|| reader.error("unknown metric type"))?;
    let unit = reader.text()?.to_owned();
    let help = reader.text()?.to_owned();
    Ok(Metadata {
        metric_type,
        unit,
        help,
        temporality,
        monotonic: byte & MONOTONIC != 0,
    })
}
