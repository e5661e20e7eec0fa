//! Metric metadata in the catalog: type, unit and help of one family, as they came last.
//!
//! ```text
//! version u8 = 1 | type u8 | varint length, unit | varint length, help
//! version u8 = 2 | varint hour | the rest as in version 1
//! hour    hours since 1970 when somebody last said it
//! type    bits 0–3: the metric type; bits 4–5: temporality (0 unspecified, 1 cumulative, 2 delta);
//!         bit 6: an OpenTelemetry sum that only grows
//! ```
//!
//! Protocols without temporality leave the upper bits zero, which is how the byte was
//! before it had them.

use icecore_model::varint::push_varint;
use icecore_model::{Metadata, MetricType, Temporality};

use crate::DecodeError;
use crate::reader::{Reader, push_text};

const RECORD: &str = "MetricMetadata";
/// Without and with the hour in which it was last said.
const VERSION: u8 = 1;
const VERSION_SEEN: u8 = 2;

const TYPE_MASK: u8 = 0xf;
const TEMPORALITY_SHIFT: u32 = 4;
const TEMPORALITY_MASK: u8 = 0b11;
const MONOTONIC: u8 = 1 << 6;

pub fn encode(metadata: &Metadata) -> Vec<u8> {
    let mut value = vec![VERSION];
    push_metadata(&mut value, metadata);
    value
}

/// The same with the hour, since 1970, in which somebody last said it.
pub fn encode_seen(metadata: &Metadata, seen_hour: u32) -> Vec<u8> {
    let mut value = vec![VERSION_SEEN];
    push_varint(&mut value, seen_hour.into());
    push_metadata(&mut value, metadata);
    value
}

/// Of either version.
pub fn decode(value: &[u8]) -> Result<Metadata, DecodeError> {
    decode_seen(value).map(|(metadata, _)| metadata)
}

/// The same, with the hour if it has one.
pub fn decode_seen(value: &[u8]) -> Result<(Metadata, Option<u32>), DecodeError> {
    let mut reader = Reader::new(RECORD, value);
    let seen_hour = match reader.u8()? {
        VERSION => None,
        VERSION_SEEN => Some(reader.varint32()?),
        _ => return Err(reader.error("unknown version")),
    };
    let metadata = read_metadata(&mut reader)?;
    reader.finish()?;
    Ok((metadata, seen_hour))
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
