//! Metric metadata in the catalog: type, unit and help of one family, as they came last.
//!
//! ```text
//! version u8 = 1 | type u8 | varint length, unit | varint length, help
//! ```

use icecore_model::{Metadata, MetricType};

use crate::DecodeError;
use crate::reader::{Reader, push_text};

const RECORD: &str = "MetricMetadata";
const VERSION: u8 = 1;

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
    buffer.push(metadata.metric_type.number());
    push_text(buffer, &metadata.unit);
    push_text(buffer, &metadata.help);
}

pub(crate) fn read_metadata(reader: &mut Reader<'_>) -> Result<Metadata, DecodeError> {
    let metric_type = MetricType::from_number(reader.u8()?.into());
    let metric_type = metric_type.ok_or_else(|| reader.error("unknown metric type"))?;
    let unit = reader.text()?.to_owned();
    let help = reader.text()?.to_owned();
    Ok(Metadata {
        metric_type,
        unit,
        help,
        ..Metadata::default()
    })
}
