//! Envelopes: events as clients send them, before the registry is asked.
//!
//! ```text
//! JSON text ─► parse: one pass, no tree ─► Envelope, which borrows ─► prepare
//! ```
//!
//! Holds always:
//! - A text that is no JSON is refused as a whole; of a batch, an item that is no envelope is
//!   refused alone, and the rest of it is still read.
//! - Attributes and times are within the limits of [`limits`].
//!
//! Numbers without fraction and exponent are integers where 64 bits hold them; all others are
//! doubles, and those that no double can hold are refused.

mod attributes;
mod fields;
pub mod limits;
mod parse;
mod scan;
#[cfg(test)]
mod tests;
mod times;

use std::borrow::Cow;

use icecore_model::event::EventId;

use crate::{Attributes, EventKind, Problem};

pub use attributes::parse_attributes;
pub use parse::{BatchItem, parse_batch, parse_envelope};

/// One event as it was sent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Envelope<'a> {
    /// Made here, if none was sent.
    pub id: Option<EventId>,
    pub service: Cow<'a, str>,
    pub event_type: Cow<'a, str>,
    pub started_ns: i64,
    pub ended_ns: Option<i64>,
    pub trace_id: Option<[u8; 16]>,
    pub span_id: Option<[u8; 8]>,
    pub parent_span_id: Option<[u8; 8]>,
    pub correlation_id: Option<Cow<'a, str>>,
    /// W3C tracestate.
    pub trace_state: Option<Cow<'a, str>>,
    pub synthetic: bool,
    /// A JSON object; empty if there is none.
    pub resource: Cow<'a, str>,
    /// What it has from the event that it was nested in, if it comes alone for a second time.
    pub(crate) inherited: Option<Inherited>,
    pub body: EventBody<'a>,
}

/// What a nested event has from its parent beside ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Inherited {
    pub(crate) parent: EventId,
    /// Its end, if it was sent without one.
    pub(crate) ended_ns: Option<i64>,
    /// What it took, if neither its attributes nor its times say so.
    pub(crate) duration_ns: Option<i64>,
}

/// An event within another one. What it does not have it gets from its parent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NestedEvent<'a> {
    /// As it was sent.
    pub name: Option<Cow<'a, str>>,
    pub started_ns: Option<i64>,
    pub ended_ns: Option<i64>,
    pub body: EventBody<'a>,
}

/// What all events have of their own.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EventBody<'a> {
    pub kind: Option<EventKind>,
    /// `OK`, `ERROR`, or a text of the client's own.
    pub status_code: Option<Cow<'a, str>>,
    pub status_message: Option<Cow<'a, str>>,
    pub outcome: Option<Cow<'a, str>>,
    pub attributes: Attributes<'a>,
    pub nested: Vec<NestedEvent<'a>>,
    /// A JSON array; empty if there is none.
    pub links: Cow<'a, str>,
    /// The JSON that it was read from; empty if it came in another way.
    pub text: Cow<'a, str>,
}

impl Envelope<'_> {
    /// Checks what must be there, whichever way it came.
    pub fn check(&self) -> Result<(), Problem> {
        for (field, text, bytes_max) in [
            (
                "resource.service.id",
                &self.service,
                limits::MAX_SERVICE_BYTES,
            ),
            ("event.name", &self.event_type, limits::MAX_TYPE_BYTES),
        ] {
            if text.trim().is_empty() {
                return Err(missing(field));
            }
            if text.len() > bytes_max {
                return Err(limit(format!("{field} is longer than {bytes_max} bytes")));
            }
        }
        Ok(())
    }

    pub fn into_owned(self) -> Envelope<'static> {
        Envelope {
            id: self.id,
            service: owned(self.service),
            event_type: owned(self.event_type),
            started_ns: self.started_ns,
            ended_ns: self.ended_ns,
            trace_id: self.trace_id,
            span_id: self.span_id,
            parent_span_id: self.parent_span_id,
            correlation_id: self.correlation_id.map(owned),
            trace_state: self.trace_state.map(owned),
            synthetic: self.synthetic,
            resource: owned(self.resource),
            inherited: self.inherited,
            body: self.body.into_owned(),
        }
    }
}

impl EventBody<'_> {
    pub fn into_owned(self) -> EventBody<'static> {
        let nested = self.nested.into_iter().map(|event| NestedEvent {
            name: event.name.map(owned),
            started_ns: event.started_ns,
            ended_ns: event.ended_ns,
            body: event.body.into_owned(),
        });
        EventBody {
            kind: self.kind,
            status_code: self.status_code.map(owned),
            status_message: self.status_message.map(owned),
            outcome: self.outcome.map(owned),
            attributes: self.attributes.into_owned(),
            nested: nested.collect(),
            links: owned(self.links),
            text: owned(self.text),
        }
    }
}

fn owned(text: Cow<'_, str>) -> Cow<'static, str> {
    Cow::Owned(text.into_owned())
}

pub(crate) fn missing(field: &str) -> Problem {
    let detail = format!("{field} is missing");
    Problem::new(400, "ingest.required-field-missing", detail)
}

pub(crate) fn limit(detail: impl Into<String>) -> Problem {
    Problem::new(400, "ingest.limit-exceeded", detail)
}

pub(crate) fn invalid_field(detail: impl Into<String>) -> Problem {
    Problem::new(400, "ingest.invalid-field", detail)
}
