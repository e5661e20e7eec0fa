//! The fields of an envelope while they are read, in whatever order they come.

use std::borrow::Cow;

use icecore_model::event::EventId;
use icecore_wire::json::JsonReader;

use super::attributes::read_attributes;
use super::scan::{Faults, Result, boolean, kept, object, skip, string, text};
use super::times::Moment;
use super::{Envelope, EventBody, NestedEvent, invalid_field, limit, limits, missing};
use crate::event_id::parse_event_id;
use crate::{EventKind, Problem};

/// An envelope or a nested event in the making.
#[derive(Debug, Default)]
pub(super) struct Fields<'a> {
    id: Option<EventId>,
    /// As it was sent, to name an envelope that is refused.
    pub(super) id_text: Option<Cow<'a, str>>,
    service_id: Option<Cow<'a, str>>,
    service_name: Option<Cow<'a, str>>,
    /// Of a nested event.
    name: Option<Cow<'a, str>>,
    event_name: Option<Cow<'a, str>>,
    started: Moment,
    ended: Moment,
    trace_id: Option<[u8; 16]>,
    span_id: Option<[u8; 8]>,
    parent_span_id: Option<[u8; 8]>,
    correlation_id: Option<Cow<'a, str>>,
    trace_state: Option<Cow<'a, str>>,
    synthetic: bool,
    resource: Cow<'a, str>,
    body: EventBody<'a>,
}

/// Reads the fields of an object that is next. `nested_left` counts the events that may still come
/// within the envelope.
pub(super) fn read_fields<'a>(
    json: &mut JsonReader<'a>,
    nested_left: &mut usize,
    faults: &mut Faults,
) -> Result<Fields<'a>> {
    let mut fields = Fields::default();
    let text =
        json.span(|json| json.object(|json, key| fields.read(json, key, nested_left, faults)))?;
    fields.body.text = Cow::Borrowed(text);
    Ok(fields)
}

impl<'a> Fields<'a> {
    fn read(
        &mut self,
        json: &mut JsonReader<'a>,
        key: &str,
        nested_left: &mut usize,
        faults: &mut Faults,
    ) -> Result<()> {
        match key {
            "eventId" => self.read_id(json, faults)?,
            "event" => object(json, key, faults, |json, key, faults| {
                match key {
                    "name" => self.event_name = text(json, "event.name", faults)?,
                    "kind" => self.read_kind(json, faults)?,
                    _ => skip(json, faults)?,
                }
                Ok(())
            })?,
            "name" => self.name = text(json, "name", faults)?,
            "kind" => self.read_kind(json, faults)?,
            "resource" => {
                self.resource = kept(json, key, b'{', faults, |json, faults| {
                    self.read_resource(json, faults)
                })?;
            }
            "time" => object(json, key, faults, |json, key, faults| {
                self.read_time(json, key, 0, faults)
            })?,
            "trace" => object(json, key, faults, |json, key, faults| {
                self.read_trace(json, key, faults)
            })?,
            "status" => object(json, key, faults, |json, key, faults| {
                match key {
                    "code" => self.body.status_code = status_code(json, faults)?,
                    "message" => self.body.status_message = text(json, "status.message", faults)?,
                    _ => skip(json, faults)?,
                }
                Ok(())
            })?,
            "outcome" => self.body.outcome = outcome(json, faults)?,
            "attributes" => self.body.attributes = read_attributes(json, faults)?,
            "events" => self.read_nested(json, nested_left, faults)?,
            "links" => self.body.links = kept(json, key, b'[', faults, skip)?,
            "synthetic" => self.synthetic = boolean(json, key, faults)?,
            _ => self.read_time(json, key, 1, faults)?,
        }
        Ok(())
    }

    fn read_id(&mut self, json: &mut JsonReader<'a>, faults: &mut Faults) -> Result<()> {
        let invalid = || Problem::new(400, "ingest.invalid-event-id", "eventId is no UUID");
        if json.peek()? != b'"' {
            if !json.null()? {
                faults.note(invalid);
                skip(json, faults)?;
            }
            return Ok(());
        }
        let text = string(json, "eventId", faults)?;
        if !text.trim().is_empty() {
            self.id = parse_event_id(&text);
            if self.id.is_none() {
                faults.note(invalid);
            }
            self.id_text = Some(text);
        }
        Ok(())
    }

    fn read_kind(&mut self, json: &mut JsonReader<'a>, faults: &mut Faults) -> Result<()> {
        if let Some(name) = text(json, "event.kind", faults)? {
            self.body.kind = EventKind::from_name(&name);
            if self.body.kind.is_none() {
                faults.note(|| {
                    let kinds = "INTERNAL, SERVER, CLIENT, PRODUCER or CONSUMER";
                    invalid_field(format!("event.kind must be {kinds}"))
                });
            }
        }
        Ok(())
    }

    fn read_resource(&mut self, json: &mut JsonReader<'a>, faults: &mut Faults) -> Result<()> {
        json.object(|json, key| {
            match key {
                "service" => object(json, "resource.service", faults, |json, key, faults| {
                    match key {
                        "id" => self.service_id = text(json, "resource.service.id", faults)?,
                        "name" => self.service_name = text(json, "resource.service.name", faults)?,
                        _ => skip(json, faults)?,
                    }
                    Ok(())
                })?,
                "service.id" => self.service_id = text(json, "resource.service.id", faults)?,
                "service.name" => self.service_name = text(json, "resource.service.name", faults)?,
                _ => skip(json, faults)?,
            }
            Ok(())
        })
    }

    /// A field that may be a time. Those of `time` have rank 0, others follow.
    fn read_time(
        &mut self,
        json: &mut JsonReader<'a>,
        key: &str,
        rank: u8,
        faults: &mut Faults,
    ) -> Result<()> {
        match key {
            "startedAt" => self.started.read_text(json, key, rank, faults),
            "startUnixNano" => self.started.read_unix(json, key, rank, faults),
            "endedAt" => self.ended.read_text(json, key, rank, faults),
            "endUnixNano" => self.ended.read_unix(json, key, rank, faults),
            "occurredAt" if rank > 0 => self.started.read_text(json, key, 2, faults),
            "timestamp" if rank > 0 => self.started.read_text(json, key, 3, faults),
            _ => skip(json, faults),
        }
    }

    fn read_trace(
        &mut self,
        json: &mut JsonReader<'a>,
        key: &str,
        faults: &mut Faults,
    ) -> Result<()> {
        match key {
            "traceId" => self.trace_id = hex(json, "trace.traceId", faults)?,
            "spanId" => self.span_id = hex(json, "trace.spanId", faults)?,
            "parentSpanId" => self.parent_span_id = hex(json, "trace.parentSpanId", faults)?,
            "correlationId" => self.correlation_id = text(json, "trace.correlationId", faults)?,
            "state" => self.trace_state = text(json, "trace.state", faults)?,
            _ => skip(json, faults)?,
        }
        if self.trace_id == Some([0; 16]) {
            faults.note(|| invalid_field("trace.traceId must not be zero"));
        }
        Ok(())
    }

    fn read_nested(
        &mut self,
        json: &mut JsonReader<'a>,
        nested_left: &mut usize,
        faults: &mut Faults,
    ) -> Result<()> {
        if json.peek()? != b'[' {
            if !json.null()? {
                faults.note(|| invalid_field("events must be an array"));
                skip(json, faults)?;
            }
            return Ok(());
        }
        self.body.nested.clear();
        json.array(|json| {
            let Some(left) = nested_left.checked_sub(1) else {
                let max = limits::MAX_NESTED_EVENTS;
                faults.note(|| limit(format!("more than {max} nested events")));
                return skip(json, faults);
            };
            *nested_left = left;
            if json.peek()? != b'{' {
                faults.note(|| invalid_field("a nested event must be an object"));
                return skip(json, faults);
            }
            let fields = read_fields(json, nested_left, faults)?;
            self.body.nested.push(fields.into_nested(faults));
            Ok(())
        })
    }

    pub(super) fn into_envelope(self, faults: &mut Faults) -> Envelope<'a> {
        let started_ns = self.started.resolve("start", faults);
        let ended_ns = self.ended.resolve("end", faults);
        if started_ns.is_none() {
            faults.note(|| missing("time.startedAt"));
        }
        let not_blank = |text: &Cow<'_, str>| !text.trim().is_empty();
        let service_id = self.service_id.filter(not_blank);
        let envelope = Envelope {
            id: self.id,
            service: service_id.or(self.service_name).unwrap_or_default(),
            event_type: self.event_name.unwrap_or_default(),
            started_ns: started_ns.unwrap_or_default(),
            ended_ns,
            trace_id: self.trace_id,
            span_id: self.span_id,
            parent_span_id: self.parent_span_id,
            correlation_id: self.correlation_id.filter(not_blank),
            trace_state: self.trace_state.filter(not_blank),
            synthetic: self.synthetic,
            resource: self.resource,
            inherited: None,
            body: self.body,
        };
        if let Err(problem) = envelope.check() {
            faults.note(|| problem);
        }
        envelope
    }

    fn into_nested(self, faults: &mut Faults) -> NestedEvent<'a> {
        NestedEvent {
            name: self.name.or(self.event_name),
            started_ns: self.started.resolve("start of a nested event", faults),
            ended_ns: self.ended.resolve("end of a nested event", faults),
            body: self.body,
        }
    }
}

/// A status other than those of OpenTelemetry becomes the outcome, so it is a word.
fn status_code<'a>(json: &mut JsonReader<'a>, faults: &mut Faults) -> Result<Option<Cow<'a, str>>> {
    let code = text(json, "status.code", faults)?;
    let is_word_byte =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    Ok(code.filter(|code| {
        let code = code.trim();
        if code.len() > limits::MAX_OUTCOME_BYTES || !code.bytes().all(is_word_byte) {
            faults.note(|| invalid_field("status.code must be UNSET, OK or ERROR"));
        }
        !code.is_empty()
    }))
}

fn outcome<'a>(json: &mut JsonReader<'a>, faults: &mut Faults) -> Result<Option<Cow<'a, str>>> {
    let outcome = text(json, "outcome", faults)?;
    Ok(outcome.filter(|outcome| !outcome.trim().is_empty()))
}

/// An identifier of so many bytes in lower hex.
fn hex<const N: usize>(
    json: &mut JsonReader<'_>,
    field: &str,
    faults: &mut Faults,
) -> Result<Option<[u8; N]>> {
    let Some(text) = text(json, field, faults)? else {
        return Ok(None);
    };
    let id = parse_hex(text.as_bytes());
    if id.is_none() {
        faults.note(|| invalid_field(format!("{field} must be {} digits of lower hex", 2 * N)));
    }
    Ok(id)
}

fn parse_hex<const N: usize>(text: &[u8]) -> Option<[u8; N]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut id = [0; N];
    let (pairs, odd) = text.as_chunks::<2>();
    if pairs.len() != N || !odd.is_empty() {
        return None;
    }
    for (byte, [high, low]) in id.iter_mut().zip(pairs) {
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(id)
}
