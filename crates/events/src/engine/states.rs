//! States of objects: the latest one of each, how many are in each, and how they change.
//!
//! Holds always:
//! - An event that did not begin after the one that an object's state is from changes nothing. Of
//!   equal times the greater id is the later one.
//! - The count of a state is the number of objects whose record has it.

use std::sync::Arc;

use icecore_model::event::EventId;
use icecore_model::varint::{push_varint, push_zigzag, take_varint, unzigzag};
use icecore_model::{CatalogChange, CatalogRecord};

use crate::{Metric, PreviousStates, catalog_key};

/// Earlier states of an object that are remembered: the newest.
const EARLIER_MAX: usize = 1_000;

/// Where the transition into an object's first state comes from.
pub const NO_STATE: &str = "(none)";

const VERSION: u8 = 1;

/// An object, by one of its attributes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ObjectKey {
    pub(crate) service: u32,
    pub(crate) object_type: Arc<str>,
    pub(crate) attribute: Arc<str>,
    pub(crate) id: Box<str>,
}

impl ObjectKey {
    pub(crate) fn record_key(&self) -> Vec<u8> {
        catalog_key::object_state(self.service, &self.object_type, &self.attribute, &self.id)
    }

    pub(crate) fn in_state(&self, state: &Arc<str>) -> StateKey {
        StateKey {
            service: self.service,
            object_type: self.object_type.clone(),
            attribute: self.attribute.clone(),
            state: state.clone(),
        }
    }
}

/// A state that objects of a type can be in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct StateKey {
    pub(crate) service: u32,
    pub(crate) object_type: Arc<str>,
    pub(crate) attribute: Arc<str>,
    pub(crate) state: Arc<str>,
}

impl StateKey {
    pub(crate) fn is_of(&self, service: u32, object_type: &str, attribute: &str) -> bool {
        self.service == service
            && *self.object_type == *object_type
            && *self.attribute == *attribute
    }
}

/// What an event says about an object.
#[derive(Clone, Debug)]
pub(crate) struct StateObservation {
    pub(crate) object: ObjectKey,
    pub(crate) state: Arc<str>,
    pub(crate) started_ns: i64,
    pub(crate) event: EventId,
    pub(crate) previous: Arc<PreviousStates>,
    pub(crate) transitions: Arc<Metric>,
}

/// What is known of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ObjectState {
    pub(crate) state: Arc<str>,
    pub(crate) started_ns: i64,
    pub(crate) event: EventId,
    /// States that it had before, each once, the latest last.
    pub(crate) earlier: Vec<Arc<str>>,
}

/// What an observation does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StateChange {
    /// The event is not later than what is known.
    Late,
    /// The object is still in its state, as of the event's time.
    Confirmed(ObjectState),
    Changed {
        object: ObjectState,
        /// The states that transitions into the new one are counted from.
        from: Vec<Arc<str>>,
    },
}

impl StateObservation {
    pub(crate) fn change(&self, known: Option<&ObjectState>) -> StateChange {
        let mut object = ObjectState {
            state: self.state.clone(),
            started_ns: self.started_ns,
            event: self.event,
            earlier: Vec::new(),
        };
        let Some(known) = known else {
            let from = match &*self.previous {
                PreviousStates::Only(states) if !states.iter().any(|state| state == "?") => {
                    Vec::new()
                }
                _ => vec![Arc::from(NO_STATE)],
            };
            return StateChange::Changed { object, from };
        };
        if (self.started_ns, self.event) <= (known.started_ns, known.event) {
            return StateChange::Late;
        }
        object.earlier = known.earlier.clone();
        if self.state == known.state {
            return StateChange::Confirmed(object);
        }
        object.earlier.retain(|state| *state != known.state);
        object.earlier.push(known.state.clone());
        let surplus = object.earlier.len().saturating_sub(EARLIER_MAX);
        object.earlier.drain(..surplus);
        let from = counted_from(&self.previous, &known.state, &object.earlier, &self.state);
        StateChange::Changed { object, from }
    }
}

fn counted_from(
    policy: &PreviousStates,
    latest: &Arc<str>,
    earlier: &[Arc<str>],
    new: &Arc<str>,
) -> Vec<Arc<str>> {
    let is_counted = |state: &Arc<str>| match policy {
        PreviousStates::Latest => state == latest,
        PreviousStates::Additional(names) => {
            state == latest || names.iter().any(|name| **name == **state)
        }
        PreviousStates::Only(names) => names.iter().any(|name| match name.as_str() {
            "*" => true,
            "?" => state == latest,
            name => *name == **state,
        }),
    };
    let states = earlier.iter();
    states
        .filter(|state| *state != new && is_counted(state))
        .cloned()
        .collect()
}

impl ObjectState {
    pub(crate) fn record(&self, key: &ObjectKey) -> CatalogChange {
        let mut value = vec![VERSION];
        push_zigzag(&mut value, self.started_ns);
        value.extend_from_slice(&self.event.0);
        push_text(&mut value, &self.state);
        for state in &self.earlier {
            push_text(&mut value, state);
        }
        CatalogChange {
            key: key.record_key(),
            value: Some(value),
        }
    }

    pub(crate) fn decode(value: &[u8]) -> Option<Self> {
        let (version, mut rest) = value.split_first()?;
        if *version != VERSION {
            return None;
        }
        let started_ns = unzigzag(take_varint(&mut rest).ok()?);
        let (event, mut rest) = rest.split_first_chunk::<16>()?;
        let state = take_text(&mut rest)?;
        let mut earlier = Vec::new();
        while !rest.is_empty() {
            earlier.push(take_text(&mut rest)?);
        }
        Some(Self {
            state,
            started_ns,
            event: EventId(*event),
            earlier,
        })
    }
}

fn push_text(bytes: &mut Vec<u8>, text: &str) {
    push_varint(bytes, text.len() as u64);
    bytes.extend_from_slice(text.as_bytes());
}

fn take_text(rest: &mut &[u8]) -> Option<Arc<str>> {
    let length = usize::try_from(take_varint(rest).ok()?).ok()?;
    let (text, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(Arc::from(std::str::from_utf8(text).ok()?))
}

/// The record of a count; none for 0.
pub(crate) fn count_record(key: &StateKey, count: i64) -> CatalogChange {
    let mut value = vec![VERSION];
    push_zigzag(&mut value, count);
    CatalogChange {
        key: catalog_key::state_count(key.service, &key.object_type, &key.attribute, &key.state),
        value: (count != 0).then_some(value),
    }
}

pub(crate) fn read_count((key, value): &CatalogRecord) -> Option<(StateKey, i64)> {
    let (service, object_type, attribute, state) = catalog_key::read_state_count(key)?;
    let (version, mut rest) = value.split_first()?;
    let count = unzigzag(take_varint(&mut rest).ok()?);
    let key = StateKey {
        service,
        object_type: object_type.into(),
        attribute: attribute.into(),
        state: state.into(),
    };
    (*version == VERSION).then_some((key, count))
}
