//! Records of logs, one after the other.
//!
//! ```text
//! ExportLogsServiceRequest { ResourceLogs resource_logs = 1; }
//! ResourceLogs { Resource resource = 1; ScopeLogs scope_logs = 2; string schema_url = 3; }
//! ScopeLogs { InstrumentationScope scope = 1; LogRecord log_records = 2; string schema_url = 3; }
//! ```
//!
//! Values are handed over as JSON, because an attribute may be a list or a map.
//!
//! Holds always:
//! - Resource and scope are read before their records, in whatever order they come.
//! - One record is in memory at a time, and its JSON is at most some times as long as its bytes.
//! - Of equal keys the last one counts.

mod fields;
mod record;

pub use fields::LogFields;
pub use record::LogRecord;

use record::read_record;

use crate::WireError;
use crate::prometheus::protobuf::{Reader, Result, bytes_tag, known, varint_tag};

const REQUEST_RESOURCE_LOGS: u32 = bytes_tag(1);

const RESOURCE: u32 = bytes_tag(1);
const SCOPE_LOGS: u32 = bytes_tag(2);

const SCOPE: u32 = bytes_tag(1);
const LOG_RECORDS: u32 = bytes_tag(2);
const SCHEMA_URL: u32 = bytes_tag(3);
const FIELDS: u32 = known(&[1, 2, 3]);

const RESOURCE_ATTRIBUTES: u32 = bytes_tag(1);
const RESOURCE_DROPPED: u32 = varint_tag(2);

const SCOPE_NAME: u32 = bytes_tag(1);
const SCOPE_VERSION: u32 = bytes_tag(2);
const SCOPE_ATTRIBUTES: u32 = bytes_tag(3);
const SCOPE_DROPPED: u32 = varint_tag(4);

/// Decodes an `ExportLogsServiceRequest`, and hands over each of its records. On an error some have
/// been handed over, which must not be kept.
pub fn decode_logs(
    body: &[u8],
    mut each: impl FnMut(&LogRecord<'_>),
) -> std::result::Result<(), WireError> {
    let mut record = LogRecord::default();
    let mut request = Reader::new(body);
    while !request.is_empty() {
        let offset = body.len() - request.len();
        request_field(&mut request, &mut record, &mut each)
            .map_err(|error| WireError::Protobuf { offset, error })?;
    }
    Ok(())
}

fn request_field<'a>(
    request: &mut Reader<'a>,
    record: &mut LogRecord<'a>,
    each: &mut impl FnMut(&LogRecord<'_>),
) -> Result<()> {
    match request.tag()? {
        REQUEST_RESOURCE_LOGS => resource_logs(request.bytes()?, record, each),
        other => request.skip_unknown(other, known(&[1])),
    }
}

fn resource_logs<'a>(
    message: &'a [u8],
    record: &mut LogRecord<'a>,
    each: &mut impl FnMut(&LogRecord<'_>),
) -> Result<()> {
    record.resource.clear();
    let mut reader = Reader::new(message);
    while !reader.is_empty() {
        match reader.tag()? {
            RESOURCE => read_resource(reader.bytes()?, &mut record.resource)?,
            tag @ (SCOPE_LOGS | SCHEMA_URL) => reader.skip(tag)?,
            other => reader.skip_unknown(other, FIELDS)?,
        }
    }
    let mut reader = Reader::new(message);
    while !reader.is_empty() {
        match reader.tag()? {
            SCOPE_LOGS => scope_logs(reader.bytes()?, record, each)?,
            other => reader.skip(other)?,
        }
    }
    Ok(())
}

fn read_resource<'a>(message: &'a [u8], resource: &mut LogFields<'a>) -> Result<()> {
    let mut reader = Reader::new(message);
    while !reader.is_empty() {
        match reader.tag()? {
            RESOURCE_ATTRIBUTES => resource.read(reader.bytes()?)?,
            RESOURCE_DROPPED => reader.skip(RESOURCE_DROPPED)?,
            other => reader.skip_unknown(other, known(&[1, 2]))?,
        }
    }
    Ok(())
}

fn scope_logs<'a>(
    message: &'a [u8],
    record: &mut LogRecord<'a>,
    each: &mut impl FnMut(&LogRecord<'_>),
) -> Result<()> {
    record.clear_scope();
    let mut reader = Reader::new(message);
    while !reader.is_empty() {
        match reader.tag()? {
            SCOPE => read_scope(reader.bytes()?, record)?,
            tag @ (LOG_RECORDS | SCHEMA_URL) => reader.skip(tag)?,
            other => reader.skip_unknown(other, FIELDS)?,
        }
    }
    let mut reader = Reader::new(message);
    while !reader.is_empty() {
        match reader.tag()? {
            LOG_RECORDS => {
                read_record(reader.bytes()?, record)?;
                each(record);
            }
            other => reader.skip(other)?,
        }
    }
    Ok(())
}

fn read_scope<'a>(message: &'a [u8], record: &mut LogRecord<'a>) -> Result<()> {
    let mut reader = Reader::new(message);
    while !reader.is_empty() {
        match reader.tag()? {
            SCOPE_NAME => record.scope_name = String::from_utf8_lossy(reader.bytes()?),
            SCOPE_VERSION => record.scope_version = String::from_utf8_lossy(reader.bytes()?),
            SCOPE_ATTRIBUTES => record.scope_attributes.read(reader.bytes()?)?,
            SCOPE_DROPPED => reader.skip(SCOPE_DROPPED)?,
            other => reader.skip_unknown(other, known(&[1, 2, 3, 4]))?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
