//! One record of a log.
//!
//! ```text
//! LogRecord { fixed64 time_unix_nano = 1; SeverityNumber severity_number = 2;
//!             string severity_text = 3; AnyValue body = 5; KeyValue attributes = 6;
//!             uint32 dropped_attributes_count = 7; fixed32 flags = 8; bytes trace_id = 9;
//!             bytes span_id = 10; fixed64 observed_time_unix_nano = 11; string event_name = 12; }
//! ```

use std::borrow::Cow;

use super::LogFields;
use crate::otlp::value::push_any_json;
use crate::prometheus::protobuf::{Reader, Result, bytes_tag, fixed64_tag, known, varint_tag};

const TIME: u32 = fixed64_tag(1);
const SEVERITY_NUMBER: u32 = varint_tag(2);
const SEVERITY_TEXT: u32 = bytes_tag(3);
const BODY: u32 = bytes_tag(5);
const ATTRIBUTES: u32 = bytes_tag(6);
const DROPPED: u32 = varint_tag(7);
const FLAGS: u32 = 8 << 3 | 5;
const TRACE_ID: u32 = bytes_tag(9);
const SPAN_ID: u32 = bytes_tag(10);
const OBSERVED_TIME: u32 = fixed64_tag(11);
const EVENT_NAME: u32 = bytes_tag(12);
const FIELDS: u32 = known(&[1, 2, 3, 5, 6, 7, 8, 9, 10, 11, 12]);

/// The attribute that names an event where the record has no field for it.
const EVENT_NAME_ATTRIBUTE: &str = "event.name";

/// A record with the resource and the scope that it is from. Texts that are not there are empty,
/// times that are not there 0.
#[derive(Default)]
pub struct LogRecord<'a> {
    pub resource: LogFields<'a>,
    pub scope_name: Cow<'a, str>,
    pub scope_version: Cow<'a, str>,
    pub scope_attributes: LogFields<'a>,
    pub time_ns: u64,
    pub observed_ns: u64,
    /// 1 to 24, or 0.
    pub severity_number: u32,
    pub severity_text: Cow<'a, str>,
    /// JSON, or nothing.
    pub body: Vec<u8>,
    pub attributes: LogFields<'a>,
    pub trace_id: Option<[u8; 16]>,
    pub span_id: Option<[u8; 8]>,
    event_name: Cow<'a, str>,
    body_too_deep: bool,
}

impl LogRecord<'_> {
    /// The name of the event that this is: the field, or else the attribute `event.name`.
    pub fn event_name(&self) -> Option<Cow<'_, str>> {
        if !self.event_name.is_empty() {
            return Some(Cow::Borrowed(&self.event_name));
        }
        let name = self.attributes.text(EVENT_NAME_ATTRIBUTE);
        name.filter(|name| !name.is_empty())
    }

    /// Whether a value is nested so deep that it was left out.
    pub fn is_too_deep(&self) -> bool {
        let fields = [&self.resource, &self.scope_attributes, &self.attributes];
        self.body_too_deep || fields.into_iter().any(LogFields::is_too_deep)
    }

    pub(super) fn clear_scope(&mut self) {
        self.scope_name = Cow::Borrowed("");
        self.scope_version = Cow::Borrowed("");
        self.scope_attributes.clear();
    }

    fn clear(&mut self) {
        self.time_ns = 0;
        self.observed_ns = 0;
        self.severity_number = 0;
        self.severity_text = Cow::Borrowed("");
        self.body.clear();
        self.attributes.clear();
        self.trace_id = None;
        self.span_id = None;
        self.event_name = Cow::Borrowed("");
        self.body_too_deep = false;
    }
}

/// Reads a record in place of the one before.
pub(super) fn read_record<'a>(message: &'a [u8], record: &mut LogRecord<'a>) -> Result<()> {
    record.clear();
    let mut reader = Reader::new(message);
    while !reader.is_empty() {
        match reader.tag()? {
            TIME => record.time_ns = reader.fixed64()?,
            SEVERITY_NUMBER => {
                record.severity_number = u32::try_from(reader.varint()?).unwrap_or_default();
            }
            SEVERITY_TEXT => record.severity_text = String::from_utf8_lossy(reader.bytes()?),
            BODY => read_body(reader.bytes()?, record)?,
            ATTRIBUTES => record.attributes.read(reader.bytes()?)?,
            tag @ (DROPPED | FLAGS) => reader.skip(tag)?,
            TRACE_ID => record.trace_id = id(reader.bytes()?),
            SPAN_ID => record.span_id = id(reader.bytes()?),
            OBSERVED_TIME => record.observed_ns = reader.fixed64()?,
            EVENT_NAME => record.event_name = String::from_utf8_lossy(reader.bytes()?),
            other => reader.skip_unknown(other, FIELDS)?,
        }
    }
    record.resource.keep_last();
    record.scope_attributes.keep_last();
    record.attributes.keep_last();
    Ok(())
}

fn read_body(message: &[u8], record: &mut LogRecord<'_>) -> Result<()> {
    record.body.clear();
    // A message without a value is a body that is not there.
    if message.is_empty() {
        return Ok(());
    }
    if !push_any_json(message, &mut record.body)? {
        record.body.clear();
        record.body_too_deep = true;
    }
    Ok(())
}

/// An id of all zeros, or of another length, is none: as the specification says.
fn id<const N: usize>(bytes: &[u8]) -> Option<[u8; N]> {
    let id: [u8; N] = bytes.try_into().ok()?;
    id.iter().any(|byte| *byte != 0).then_some(id)
}
