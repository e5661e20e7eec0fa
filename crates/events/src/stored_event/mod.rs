//! An event as it is stored: checked, masked, with everything that follows from it.

mod codec;

use std::borrow::Cow;

use icecore_model::event::{DimensionHash, EventId};

use crate::Attributes;

pub use codec::{BlockError, EventBlock, decode_events, encode_events};

/// One event. Borrows from the request or the block that it was read from.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredEvent<'a> {
    pub service: Cow<'a, str>,
    pub event_type: Cow<'a, str>,
    /// The type, unless the attribute `span.name` says otherwise.
    pub name: Cow<'a, str>,
    pub id: EventId,
    /// The event that this one was nested in.
    pub parent: Option<EventId>,
    pub started_ns: i64,
    pub ended_ns: Option<i64>,
    /// When this server took it in.
    pub received_ns: i64,
    pub duration_ns: Option<i64>,
    pub kind: Option<EventKind>,
    /// Upper case.
    pub outcome: Cow<'a, str>,
    pub error_code: Option<Cow<'a, str>>,
    pub error_message: Option<Cow<'a, str>>,
    pub trace_id: Option<[u8; 16]>,
    pub span_id: Option<[u8; 8]>,
    pub parent_span_id: Option<[u8; 8]>,
    pub correlation_id: Option<Cow<'a, str>>,
    /// Of the type's dimensions, in their order.
    pub dimensions: DimensionHash,
    pub synthetic: bool,
    pub attributes: Attributes<'a>,
    /// What is kept and never asked for, as a JSON object: `resource`, `links`, `status`,
    /// `traceState`. Empty if there is nothing.
    pub rest: Cow<'a, str>,
}

/// As OpenTelemetry has kinds of spans. The numbers are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum EventKind {
    Internal = 1,
    Server = 2,
    Client = 3,
    Producer = 4,
    Consumer = 5,
}

impl EventKind {
    const ALL: [Self; 5] = [
        Self::Internal,
        Self::Server,
        Self::Client,
        Self::Producer,
        Self::Consumer,
    ];

    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number.checked_sub(1)?)).copied()
    }

    /// As envelopes and answers have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Internal => "INTERNAL",
            Self::Server => "SERVER",
            Self::Client => "CLIENT",
            Self::Producer => "PRODUCER",
            Self::Consumer => "CONSUMER",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

impl StoredEvent<'_> {
    /// About how much memory its texts and attributes take.
    pub(crate) fn heap_bytes(&self) -> usize {
        let optional = [&self.error_code, &self.error_message, &self.correlation_id];
        let optional = optional.into_iter().flatten().map(|text| text.len());
        let texts = [
            &self.service,
            &self.event_type,
            &self.name,
            &self.outcome,
            &self.rest,
        ];
        let texts = texts.into_iter().map(|text| text.len());
        texts.chain(optional).sum::<usize>() + self.attributes.heap_bytes()
    }

    pub fn into_owned(self) -> StoredEvent<'static> {
        let owned = |text: Cow<'_, str>| Cow::Owned(text.into_owned());
        StoredEvent {
            service: owned(self.service),
            event_type: owned(self.event_type),
            name: owned(self.name),
            outcome: owned(self.outcome),
            error_code: self.error_code.map(owned),
            error_message: self.error_message.map(owned),
            correlation_id: self.correlation_id.map(owned),
            attributes: self.attributes.into_owned(),
            rest: owned(self.rest),
            id: self.id,
            parent: self.parent,
            started_ns: self.started_ns,
            ended_ns: self.ended_ns,
            received_ns: self.received_ns,
            duration_ns: self.duration_ns,
            kind: self.kind,
            trace_id: self.trace_id,
            span_id: self.span_id,
            parent_span_id: self.parent_span_id,
            dimensions: self.dimensions,
            synthetic: self.synthetic,
        }
    }
}
