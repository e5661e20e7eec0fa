//! From an envelope to what is stored: checked and masked by the registry.
//!
//! ```text
//! envelope ─► times ─► registry ─► types ─► mask ─► outcome, error, duration, dimensions ─► stored
//!                         └► unconfigured                      nested events: the same, each
//! ```
//!
//! Holds always:
//! - Nothing but the check of types sees an attribute before it is masked; what is kept beside
//!   attributes is masked first.
//! - A parent comes before the events that were nested in it.
//! - An event that is refused refuses its parent, too; only an event of an unknown type does not.

mod nested;
mod rest;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use icecore_model::event::EventId;

use crate::dimension::DimensionHasher;
use crate::envelope::Inherited;
use crate::mask::{MaskingKey, mask, mask_kept};
use crate::outcome::{duration, error, is_lifecycle, outcome, text_of};
use crate::validate::{check_attributes, check_retention, duration_ns};
use crate::{
    Envelope, EventBody, EventIdSource, EventType, Problem, Registry, Service, StoredEvent,
};

/// What envelopes are checked with, besides the registry.
#[derive(Clone, Copy, Debug)]
pub struct PrepareContext<'c> {
    pub now_ns: i64,
    /// The guarded time: events that are too old by it are refused.
    pub guarded_ns: i64,
    /// How far ahead of this server's clock an event may be.
    pub max_future_skew: Duration,
    pub masking_key: Option<&'c MaskingKey>,
    /// Of events that come without an identity.
    pub ids: &'c EventIdSource,
}

/// What becomes of an envelope.
#[derive(Clone, Debug)]
pub enum Prepared<'a> {
    Stored(PreparedFamily<'a>),
    /// Service or type is not known. The envelope has its identity, for another attempt.
    Unconfigured {
        event: UnconfiguredEvent<'a>,
        envelope: Box<Envelope<'a>>,
    },
    /// It says that something has begun; what counts is its end.
    Ignored {
        id: EventId,
    },
}

/// An event and those that were nested in it.
#[derive(Clone, Debug, Default)]
pub struct PreparedFamily<'a> {
    /// The parent first.
    pub events: Vec<PreparedEvent<'a>>,
    /// Nested events of unknown types.
    pub unconfigured: Vec<UnconfiguredEvent<'a>>,
}

#[derive(Clone, Debug)]
pub struct PreparedEvent<'a> {
    pub event: StoredEvent<'a>,
    /// The number of its service.
    pub service: u32,
    pub event_type: Arc<EventType>,
}

/// An event that the registry does not know, as a quarantine keeps it.
#[derive(Clone, Debug, PartialEq)]
pub struct UnconfiguredEvent<'a> {
    pub reason: UnconfiguredReason,
    pub service: Cow<'a, str>,
    pub event_type: Cow<'a, str>,
    pub id: EventId,
    pub started_ns: i64,
    /// The JSON that it was read from, not masked; empty if it came in another way.
    pub text: Cow<'a, str>,
    /// Of a nested event: what it has from its parent.
    pub(crate) nested_in: Option<NestedIn<'a>>,
}

/// What an event that cannot be stored yet has from the one that it was nested in.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NestedIn<'a> {
    pub(crate) inherited: Inherited,
    pub(crate) trace_id: Option<[u8; 16]>,
    pub(crate) span_id: Option<[u8; 8]>,
    pub(crate) parent_span_id: Option<[u8; 8]>,
    pub(crate) correlation_id: Option<Cow<'a, str>>,
    pub(crate) synthetic: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnconfiguredReason {
    Service,
    EventType,
    NestedEventType,
}

impl UnconfiguredReason {
    /// As the quarantine lists it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Service => "UNCONFIGURED_SERVICE",
            Self::EventType => "UNCONFIGURED_EVENT_TYPE",
            Self::NestedEventType => "UNCONFIGURED_NESTED_EVENT_TYPE",
        }
    }
}

/// Checks and masks an envelope.
pub fn prepare<'a>(
    mut envelope: Envelope<'a>,
    registry: &Registry,
    context: &PrepareContext<'_>,
) -> Result<Prepared<'a>, Problem> {
    envelope.check()?;
    check_times(context, envelope.started_ns, envelope.ended_ns)?;
    let now_ms = context.now_ns.div_euclid(1_000_000);
    let id = *envelope.id.get_or_insert_with(|| context.ids.next(now_ms));
    if is_lifecycle(&envelope.body.attributes, "STARTED") {
        return Ok(Prepared::Ignored { id });
    }
    let service = registry.services.get(&*envelope.service);
    let event_type = service.and_then(|service| service.types.get(&*envelope.event_type));
    let (Some(service), Some(event_type)) = (service, event_type) else {
        let reason = if service.is_none() {
            UnconfiguredReason::Service
        } else {
            UnconfiguredReason::EventType
        };
        return Ok(Prepared::Unconfigured {
            event: UnconfiguredEvent {
                reason,
                service: envelope.service.clone(),
                event_type: envelope.event_type.clone(),
                id,
                started_ns: envelope.started_ns,
                text: envelope.body.text.clone(),
                nested_in: None,
            },
            envelope: Box::new(envelope),
        });
    };
    let mut preparation = Preparation {
        context,
        service,
        hasher: DimensionHasher::new(),
        family: PreparedFamily::default(),
    };
    preparation.parent(envelope, id, event_type)?;
    Ok(Prepared::Stored(preparation.family))
}

/// One envelope on its way.
struct Preparation<'a, 'r> {
    context: &'r PrepareContext<'r>,
    service: &'r Service,
    hasher: DimensionHasher,
    family: PreparedFamily<'a>,
}

/// What an event has that is not in its body.
#[derive(Clone)]
struct Frame<'a> {
    service: Cow<'a, str>,
    event_type: Cow<'a, str>,
    id: EventId,
    parent: Option<EventId>,
    started_ns: i64,
    ended_ns: Option<i64>,
    /// What it took, if neither its attributes nor its times say so.
    duration_ns: Option<i64>,
    trace_id: Option<[u8; 16]>,
    span_id: Option<[u8; 8]>,
    parent_span_id: Option<[u8; 8]>,
    correlation_id: Option<Cow<'a, str>>,
    synthetic: bool,
}

impl<'a> Preparation<'a, '_> {
    fn parent(
        &mut self,
        mut envelope: Envelope<'a>,
        id: EventId,
        event_type: &Arc<EventType>,
    ) -> Result<(), Problem> {
        let nested = std::mem::take(&mut envelope.body.nested);
        let key = self.context.masking_key;
        let (resource, body) = (&mut envelope.resource, &mut envelope.body);
        mask_kept(&event_type.masking, key, resource, body)?;
        let rest = rest::of_envelope(&envelope);
        let body = envelope.body;
        let inherited = envelope.inherited;
        let inherited_end = inherited.and_then(|inherited| inherited.ended_ns);
        let own_end = envelope.ended_ns;
        let mut frame = Frame {
            service: envelope.service,
            event_type: envelope.event_type,
            id,
            parent: inherited.map(|inherited| inherited.parent),
            started_ns: envelope.started_ns,
            ended_ns: own_end.or(inherited_end),
            duration_ns: inherited.and_then(|inherited| inherited.duration_ns),
            trace_id: envelope.trace_id,
            span_id: envelope.span_id,
            parent_span_id: envelope.parent_span_id,
            correlation_id: envelope.correlation_id,
            synthetic: envelope.synthetic,
        };
        frame.duration_ns = self.store(&frame, own_end, body, rest, event_type)?;
        self.nested(&frame, nested)
    }

    /// Stores one event; returns how long it took. `own_end` is the end that it was sent with.
    fn store(
        &mut self,
        frame: &Frame<'a>,
        own_end: Option<i64>,
        body: EventBody<'a>,
        rest: String,
        event_type: &Arc<EventType>,
    ) -> Result<Option<i64>, Problem> {
        let context = self.context;
        check_retention(
            event_type,
            context.guarded_ns,
            frame.started_ns,
            frame.ended_ns,
        )?;
        let mut attributes = body.attributes;
        check_attributes(event_type, &mut attributes)?;
        mask(&event_type.masking, context.masking_key, &mut attributes)?;
        let outcome = outcome(
            body.status_code.as_deref(),
            body.outcome.as_deref(),
            &attributes,
        )?;
        let (error_code, error_message) = error(&outcome, body.status_message, &attributes);
        let duration_ns = duration(&attributes, frame.started_ns, own_end).or(frame.duration_ns);
        let span_name = text_of(&attributes, "span.name").filter(|name| !name.trim().is_empty());
        let paths = event_type.dimensions.iter().map(|path| &**path);
        let event = StoredEvent {
            service: frame.service.clone(),
            event_type: frame.event_type.clone(),
            name: span_name.unwrap_or_else(|| frame.event_type.clone()),
            id: frame.id,
            parent: frame.parent,
            started_ns: frame.started_ns,
            ended_ns: frame.ended_ns,
            received_ns: context.now_ns,
            duration_ns,
            kind: body.kind,
            outcome,
            error_code,
            error_message,
            trace_id: frame.trace_id,
            span_id: frame.span_id,
            parent_span_id: frame.parent_span_id,
            correlation_id: frame.correlation_id.clone(),
            dimensions: self.hasher.hash_attributes(&attributes, paths),
            synthetic: frame.synthetic,
            attributes,
            rest: Cow::Owned(rest),
        };
        self.family.events.push(PreparedEvent {
            event,
            service: self.service.number,
            event_type: Arc::clone(event_type),
        });
        Ok(duration_ns)
    }
}

/// Checks what needs no type.
fn check_times(
    context: &PrepareContext<'_>,
    started_ns: i64,
    ended_ns: Option<i64>,
) -> Result<(), Problem> {
    if ended_ns.is_some_and(|ended_ns| ended_ns < started_ns) {
        return Err(Problem::new(
            400,
            "ingest.invalid-time-range",
            "the event ends before it starts",
        ));
    }
    let skew_ns = duration_ns(context.max_future_skew);
    if ended_ns.unwrap_or(started_ns) > context.now_ns.saturating_add(skew_ns) {
        return Err(Problem::new(
            400,
            "ingest.timestamp-in-future",
            "the event lies further in the future than clocks may differ",
        ));
    }
    Ok(())
}
