//! Events as columns.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, BooleanArray, Int64Array, RecordBatch, RecordBatchOptions, StringArray,
    TimestampNanosecondArray,
};
use arrow_schema::ArrowError;
use arrow_schema::{Field, SchemaRef};
use icecore_events::json_text::attributes_text;
use icecore_events::{EventKind, StoredEvent};

use crate::attribute_values::{Texts, attribute_values};
use crate::columns::{self, attribute_of};
use crate::id_text::{hex, uuid};

/// The columns of `schema`, which are some of those that [`crate::event_schema`] has, with whole
/// texts.
pub fn events_to_batch(
    schema: &SchemaRef,
    events: &[&StoredEvent<'_>],
) -> Result<RecordBatch, ArrowError> {
    to_columns(schema, Texts::Whole, events).map(|(batch, _)| batch)
}

/// The same, with the positions of columns that do not have all values.
pub(crate) fn to_columns(
    schema: &SchemaRef,
    texts: Texts,
    events: &[&StoredEvent<'_>],
) -> Result<(RecordBatch, Vec<usize>), ArrowError> {
    let mut incomplete = Vec::new();
    let mut arrays = Vec::with_capacity(schema.fields().len());
    for (at, field) in schema.fields().iter().enumerate() {
        let unknown = || ArrowError::SchemaError(format!("events have no column {field}"));
        let array = match attribute_of(field.name()) {
            None => base_column(field, events).ok_or_else(unknown)?,
            Some(path) => {
                let values = events.iter().map(|event| event.attributes.get(path));
                let column = attribute_values(field.data_type(), texts, values);
                let (array, complete) = column.ok_or_else(unknown)?;
                if !complete {
                    incomplete.push(at);
                }
                array
            }
        };
        arrays.push(array);
    }
    // A batch without columns still has rows: counting reads nothing else.
    let options = RecordBatchOptions::new().with_row_count(Some(events.len()));
    let batch = RecordBatch::try_new_with_options(schema.clone(), arrays, &options)?;
    Ok((batch, incomplete))
}

fn base_column(field: &Field, events: &[&StoredEvent<'_>]) -> Option<ArrayRef> {
    let column: ArrayRef = match field.name().as_str() {
        "service_id" => text(events, |event| &*event.service),
        "event_type" => text(events, |event| &*event.event_type),
        "name" => text(events, |event| &*event.name),
        columns::EVENT_ID => owned(events, |event| Some(uuid(&event.id.0))),
        "parent_event_id" => owned(events, |event| event.parent.map(|id| uuid(&id.0))),
        columns::STARTED_AT => times(events, |event| Some(event.started_ns)),
        columns::ENDED_AT => times(events, |event| event.ended_ns),
        columns::RECEIVED_AT => times(events, |event| Some(event.received_ns)),
        "duration_nanos" => Arc::new(Int64Array::from_iter(
            events.iter().map(|event| event.duration_ns),
        )),
        "kind" => optional(events, |event| event.kind.map(EventKind::name)),
        "outcome" => text(events, |event| &*event.outcome),
        "error_code" => optional(events, |event| event.error_code.as_deref()),
        "error_message" => optional(events, |event| event.error_message.as_deref()),
        columns::TRACE_ID => owned(events, |event| event.trace_id.map(|id| hex(&id))),
        columns::SPAN_ID => owned(events, |event| event.span_id.map(|id| hex(&id))),
        "parent_span_id" => owned(events, |event| event.parent_span_id.map(|id| hex(&id))),
        "correlation_id" => optional(events, |event| event.correlation_id.as_deref()),
        "dim_hash" => owned(events, |event| Some(hex(&event.dimensions.0))),
        "synthetic" => Arc::new(BooleanArray::from_iter(
            events.iter().map(|event| Some(event.synthetic)),
        )),
        columns::ATTRIBUTES => owned(events, |event| Some(attributes_text(&event.attributes))),
        columns::REST => optional(events, |event| {
            (!event.rest.is_empty()).then_some(&*event.rest)
        }),
        _ => return None,
    };
    Some(column)
}

fn text<'a>(
    events: &[&'a StoredEvent<'_>],
    of: impl Fn(&'a StoredEvent<'_>) -> &'a str,
) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(
        events.iter().map(|event| of(event)),
    ))
}

fn optional<'a>(
    events: &[&'a StoredEvent<'_>],
    of: impl Fn(&'a StoredEvent<'_>) -> Option<&'a str>,
) -> ArrayRef {
    Arc::new(StringArray::from_iter(events.iter().map(|event| of(event))))
}

fn owned(events: &[&StoredEvent<'_>], of: impl Fn(&StoredEvent<'_>) -> Option<String>) -> ArrayRef {
    Arc::new(StringArray::from_iter(events.iter().map(|event| of(event))))
}

fn times(events: &[&StoredEvent<'_>], of: impl Fn(&StoredEvent<'_>) -> Option<i64>) -> ArrayRef {
    let times = TimestampNanosecondArray::from_iter(events.iter().map(|event| of(event)));
    Arc::new(times.with_timezone("UTC"))
}
