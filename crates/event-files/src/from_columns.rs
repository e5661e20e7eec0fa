//! Columns as events. Whatever a damaged file says, the outcome is an event or an error.

use std::borrow::Cow;

use arrow_array::cast::AsArray as _;
use arrow_array::types::{Int64Type, TimestampNanosecondType};
use arrow_array::{
    Array, BooleanArray, Int64Array, RecordBatch, StringArray, TimestampNanosecondArray,
};
use icecore_events::{EventKind, StoredEvent};
use icecore_model::StoreError;
use icecore_model::event::{DimensionHash, EventId};

use crate::id_text::{parse_hex, parse_uuid};
use crate::{attributes_json, columns};

/// The events of a batch that has all base columns and those with JSON.
pub(crate) fn from_columns(batch: &RecordBatch) -> Result<Vec<StoredEvent<'static>>, StoreError> {
    let service = text(batch, "service_id")?;
    let event_type = text(batch, "event_type")?;
    let name = text(batch, "name")?;
    let id = text(batch, columns::EVENT_ID)?;
    let parent = text(batch, "parent_event_id")?;
    let started = times(batch, columns::STARTED_AT)?;
    let ended = times(batch, columns::ENDED_AT)?;
    let received = times(batch, columns::RECEIVED_AT)?;
    let duration = integers(batch, "duration_nanos")?;
    let kind = text(batch, "kind")?;
    let outcome = text(batch, "outcome")?;
    let error_code = text(batch, "error_code")?;
    let error_message = text(batch, "error_message")?;
    let trace_id = text(batch, columns::TRACE_ID)?;
    let span_id = text(batch, columns::SPAN_ID)?;
    let parent_span_id = text(batch, "parent_span_id")?;
    let correlation_id = text(batch, "correlation_id")?;
    let dimensions = text(batch, "dim_hash")?;
    let synthetic = booleans(batch, "synthetic")?;
    let attributes = text(batch, columns::ATTRIBUTES)?;
    let rest = text(batch, columns::REST)?;
    let event = |at: usize| -> Result<StoredEvent<'static>, StoreError> {
        Ok(StoredEvent {
            service: owned(service.value(at)),
            event_type: owned(event_type.value(at)),
            name: owned(name.value(at)),
            id: EventId(parsed(id.value(at), parse_uuid)?),
            parent: optional(parent, at, parse_uuid)?.map(EventId),
            started_ns: started.value(at),
            ended_ns: ended.is_valid(at).then(|| ended.value(at)),
            received_ns: received.value(at),
            duration_ns: duration.is_valid(at).then(|| duration.value(at)),
            kind: optional(kind, at, EventKind::from_name)?,
            outcome: owned(outcome.value(at)),
            error_code: optional_text(error_code, at),
            error_message: optional_text(error_message, at),
            trace_id: optional(trace_id, at, parse_hex)?,
            span_id: optional(span_id, at, parse_hex)?,
            parent_span_id: optional(parent_span_id, at, parse_hex)?,
            correlation_id: optional_text(correlation_id, at),
            dimensions: DimensionHash(parsed(dimensions.value(at), parse_hex)?),
            synthetic: synthetic.value(at),
            attributes: attributes_json::from_json(attributes.value(at))
                .map_err(|error| StoreError(format!("attributes of a file: {}", error.reason)))?,
            rest: optional_text(rest, at).unwrap_or_default(),
        })
    };
    (0..batch.num_rows()).map(event).collect()
}

fn owned(text: &str) -> Cow<'static, str> {
    Cow::Owned(text.to_owned())
}

fn optional_text(column: &StringArray, at: usize) -> Option<Cow<'static, str>> {
    column.is_valid(at).then(|| owned(column.value(at)))
}

fn optional<T>(
    column: &StringArray,
    at: usize,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<Option<T>, StoreError> {
    let value = column.is_valid(at).then(|| column.value(at));
    value.map(|text| parsed(text, parse)).transpose()
}

fn parsed<T>(text: &str, parse: impl Fn(&str) -> Option<T>) -> Result<T, StoreError> {
    parse(text).ok_or_else(|| StoreError(format!("a file of events has the id {text:?}")))
}

fn text<'a>(batch: &'a RecordBatch, name: &str) -> Result<&'a StringArray, StoreError> {
    column(batch, name, |array| array.as_string_opt())
}

fn times<'a>(
    batch: &'a RecordBatch,
    name: &str,
) -> Result<&'a TimestampNanosecondArray, StoreError> {
    column(batch, name, |array| {
        array.as_primitive_opt::<TimestampNanosecondType>()
    })
}

fn integers<'a>(batch: &'a RecordBatch, name: &str) -> Result<&'a Int64Array, StoreError> {
    column(batch, name, |array| array.as_primitive_opt::<Int64Type>())
}

fn booleans<'a>(batch: &'a RecordBatch, name: &str) -> Result<&'a BooleanArray, StoreError> {
    column(batch, name, |array| array.as_boolean_opt())
}

fn column<'a, T>(
    batch: &'a RecordBatch,
    name: &str,
    cast: impl Fn(&'a dyn Array) -> Option<&'a T>,
) -> Result<&'a T, StoreError> {
    let array = batch.column_by_name(name);
    array
        .and_then(|array| cast(array.as_ref()))
        .ok_or_else(|| StoreError(format!("a file of events has no column {name} of its type")))
}
