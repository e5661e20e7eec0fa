//! The catalogue of values: which ones the indexed attributes of a service have had.
//!
//! It is for people who choose from a list. An attribute keeps its first `max_catalog_values`
//! values; of one with more, such as an id, a list would be of no use.

use std::collections::HashMap;
use std::sync::Arc;

use icecore_model::varint::{push_varint, push_zigzag, take_varint, unzigzag};
use icecore_model::{CatalogChange, CatalogRecord};

use crate::{Scalar, Value, catalog_key};

/// Longer values are nothing to choose from.
const VALUE_BYTES_MAX: usize = 256;

const VERSION: u8 = 1;

/// A value that an attribute has had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CataloguedValue {
    pub value: String,
    pub events: u64,
    /// When the first and the last event with it began.
    pub first_ns: i64,
    pub last_ns: i64,
}

/// How often, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    events: u64,
    first_ns: i64,
    last_ns: i64,
}

impl Seen {
    fn merge(&mut self, other: &Self) {
        self.events = self.events.saturating_add(other.events);
        self.first_ns = self.first_ns.min(other.first_ns);
        self.last_ns = self.last_ns.max(other.last_ns);
    }
}

/// Service and attribute.
type AttributeKey = (u32, Arc<str>);

/// Values that events have had, by service and attribute.
#[derive(Clone, Debug, Default)]
pub(crate) struct SeenValues {
    attributes: HashMap<AttributeKey, HashMap<Box<str>, Seen>>,
}

impl SeenValues {
    /// Takes note of the value of an event, or of each element of a list.
    pub(crate) fn see(&mut self, service: u32, path: &Arc<str>, value: &Value<'_>, at_ns: i64) {
        match value {
            Value::Scalar(scalar) => self.see_scalar(service, path, scalar, at_ns),
            Value::List(list) => {
                for scalar in list {
                    self.see_scalar(service, path, scalar, at_ns);
                }
            }
            Value::Null | Value::Json(_) => {}
        }
    }

    fn see_scalar(&mut self, service: u32, path: &Arc<str>, scalar: &Scalar<'_>, at_ns: i64) {
        let text = scalar.to_text();
        if text.len() > VALUE_BYTES_MAX {
            return;
        }
        let seen = Seen {
            events: 1,
            first_ns: at_ns,
            last_ns: at_ns,
        };
        let values = self.attributes.entry((service, path.clone())).or_default();
        match values.get_mut(&*text) {
            Some(known) => known.merge(&seen),
            None => {
                values.insert(text.into(), seen);
            }
        }
    }

    /// Adds what others have seen, as far as an attribute can have more values.
    pub(crate) fn merge(&mut self, other: Self, max_values: usize) {
        for (attribute, values) in other.attributes {
            let known = self.attributes.entry(attribute).or_default();
            for (value, seen) in values {
                if let Some(known) = known.get_mut(&value) {
                    known.merge(&seen);
                } else if known.len() < max_values {
                    known.insert(value, seen);
                }
            }
        }
    }
}

/// All values that records have.
#[derive(Debug, Default)]
pub(crate) struct ValueCatalog {
    known: SeenValues,
}

impl ValueCatalog {
    pub(crate) fn load(&mut self, record: &CatalogRecord) {
        let Some((service, attribute, value)) = catalog_key::read_attribute_value(&record.0) else {
            return;
        };
        if let Some(seen) = decode(&record.1) {
            let values = self.known.attributes.entry((service, attribute.into()));
            values.or_default().insert(value.into(), seen);
        }
    }

    /// The records of values with what was seen of them added. Changes nothing: the records may not
    /// come to be written.
    pub(crate) fn records(&self, more: &SeenValues, max_values: usize) -> Vec<CatalogChange> {
        let mut records = Vec::new();
        for (attribute, values) in &more.attributes {
            let known = self.known.attributes.get(attribute);
            let mut room = max_values.saturating_sub(known.map_or(0, HashMap::len));
            // In order, so that a second attempt takes the same ones.
            let mut values: Vec<_> = values.iter().collect();
            values.sort_unstable_by_key(|(value, _)| *value);
            for (value, seen) in values {
                let mut seen = *seen;
                match known.and_then(|known| known.get(value)) {
                    Some(known) => seen.merge(known),
                    None if room > 0 => room -= 1,
                    None => continue,
                }
                records.push(CatalogChange {
                    key: catalog_key::attribute_value(attribute.0, &attribute.1, value),
                    value: Some(encode(&seen)),
                });
            }
        }
        records
    }

    /// Takes over records that were written.
    pub(crate) fn apply(&mut self, records: &[CatalogChange]) {
        for record in records {
            if let Some(value) = &record.value {
                self.load(&(record.key.clone(), value.clone()));
            }
        }
    }
}

fn encode(seen: &Seen) -> Vec<u8> {
    let mut value = vec![VERSION];
    push_varint(&mut value, seen.events);
    push_zigzag(&mut value, seen.first_ns);
    push_zigzag(&mut value, seen.last_ns);
    value
}

fn decode(value: &[u8]) -> Option<Seen> {
    let (version, mut rest) = value.split_first()?;
    let seen = Seen {
        events: take_varint(&mut rest).ok()?,
        first_ns: unzigzag(take_varint(&mut rest).ok()?),
        last_ns: unzigzag(take_varint(&mut rest).ok()?),
    };
    (*version == VERSION).then_some(seen)
}

pub(crate) fn read((key, value): &CatalogRecord) -> Option<CataloguedValue> {
    let (_, _, text) = catalog_key::read_attribute_value(key)?;
    let seen = decode(value)?;
    Some(CataloguedValue {
        value: text.to_owned(),
        events: seen.events,
        first_ns: seen.first_ns,
        last_ns: seen.last_ns,
    })
}
