//! The columns of a file: which there are, and their types.
//!
//! Names are those of answers, so that a program that reads a file sees what a search shows. Ids
//! are text for the same reason.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use icecore_events::{Field as Attribute, FieldType};

pub(crate) const EVENT_ID: &str = "event_id";
pub(crate) const STARTED_AT: &str = "started_at";
pub(crate) const ENDED_AT: &str = "ended_at";
pub(crate) const RECEIVED_AT: &str = "received_at";
pub(crate) const TRACE_ID: &str = "trace_id";
pub(crate) const SPAN_ID: &str = "span_id";
pub(crate) const ATTRIBUTES: &str = "attributes";
pub(crate) const REST: &str = "rest";

/// What the names of columns of attributes begin with.
const ATTRIBUTE_PREFIX: &str = "attr.";

#[derive(Clone, Copy)]
enum Kind {
    Text,
    Time,
    Integer,
    Boolean,
}

/// Name, type, and whether it may be absent.
const BASE: [(&str, Kind, bool); 19] = [
    ("service_id", Kind::Text, false),
    ("event_type", Kind::Text, false),
    ("name", Kind::Text, false),
    (EVENT_ID, Kind::Text, false),
    ("parent_event_id", Kind::Text, true),
    (STARTED_AT, Kind::Time, false),
    (ENDED_AT, Kind::Time, true),
    (RECEIVED_AT, Kind::Time, false),
    ("duration_nanos", Kind::Integer, true),
    ("kind", Kind::Text, true),
    ("outcome", Kind::Text, false),
    ("error_code", Kind::Text, true),
    ("error_message", Kind::Text, true),
    (TRACE_ID, Kind::Text, true),
    (SPAN_ID, Kind::Text, true),
    ("parent_span_id", Kind::Text, true),
    ("correlation_id", Kind::Text, true),
    ("dim_hash", Kind::Text, false),
    ("synthetic", Kind::Boolean, false),
];

/// All columns of events with these indexed attributes: those that every event has, one for each
/// attribute, all attributes as JSON, and the rest as JSON.
pub fn event_schema(indexed: &[Attribute]) -> SchemaRef {
    let base = BASE.iter().map(|(name, kind, nullable)| {
        let data_type = match kind {
            Kind::Text => DataType::Utf8,
            Kind::Time => time(),
            Kind::Integer => DataType::Int64,
            Kind::Boolean => DataType::Boolean,
        };
        Field::new(*name, data_type, *nullable)
    });
    let attributes = indexed.iter().map(|attribute| {
        let name = attribute_column(&attribute.path);
        Field::new(name, attribute_type(attribute.kind), true)
    });
    let text = [
        Field::new(ATTRIBUTES, DataType::Utf8, false),
        Field::new(REST, DataType::Utf8, true),
    ];
    Arc::new(Schema::new(
        base.chain(attributes).chain(text).collect::<Vec<_>>(),
    ))
}

/// The column of an indexed attribute.
pub fn attribute_column(path: &str) -> String {
    format!("{ATTRIBUTE_PREFIX}{path}")
}

/// The attribute that a column is of.
pub fn attribute_of(column: &str) -> Option<&str> {
    column.strip_prefix(ATTRIBUTE_PREFIX)
}

/// Nanoseconds since the epoch, UTC.
pub(crate) fn time() -> DataType {
    DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()))
}

fn attribute_type(kind: FieldType) -> DataType {
    let list = |item| DataType::List(Arc::new(Field::new_list_field(item, true)));
    match kind {
        FieldType::String => DataType::Utf8,
        FieldType::Integer => DataType::Int64,
        FieldType::Number => DataType::Float64,
        FieldType::Boolean => DataType::Boolean,
        FieldType::Timestamp => time(),
        FieldType::ArrayOfString => list(DataType::Utf8),
        FieldType::ArrayOfInteger => list(DataType::Int64),
        FieldType::ArrayOfNumber => list(DataType::Float64),
        FieldType::ArrayOfBoolean => list(DataType::Boolean),
        FieldType::ArrayOfTimestamp => list(time()),
    }
}
