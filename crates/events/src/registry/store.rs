//! A registry as records of the catalog: each document as text, with the numbers that were given.
//!
//! ```text
//! 0x30 | 1 | service                           number, numbers of its state metrics (0: none)
//! 0x30 | 2 | service 0 type                    number, number of its built-in counter, document
//! 0x30 | 3 | service 0 type 0 name             number, document
//! 0x30 | 4 | service 0 type 0 name 0 number    number, document of a retired metric
//! 0x30 | 5 | service                           document of its state extractors
//! 0x31                                         version, next numbers
//! ```
//! A value begins with the version of its form. Numbers are big-endian.
//!
//! Holds always: what was stored is read without being checked again, so that a rule that comes
//! later cannot keep a database from being opened.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use serde_json::Value;

use icecore_model::{CatalogChange, CatalogRecord, StoreError};

use super::built_in::stored_events;
use super::document::{Body, Documents};
use super::update::sort;
use super::{
    EventType, Metric, NextNumbers, Registry, Service, StateMetrics, WindowRetention, render,
};

const DOCUMENT: u8 = 0x30;
const VERSION: u8 = 0x31;

const SERVICE: u8 = 1;
const EVENT: u8 = 2;
const METRIC: u8 = 3;
const RETIRED: u8 = 4;
const STATES: u8 = 5;

/// The form of values.
const FORM: u8 = 1;

/// The keys of all records of a registry.
pub fn registry_keys() -> Range<Vec<u8>> {
    vec![DOCUMENT]..vec![VERSION + 1]
}

impl Registry {
    /// All records, in the order of their keys.
    pub fn records(&self) -> Vec<CatalogRecord> {
        let mut records = Records::default();
        for (name, service) in &self.services {
            records.add_service(name, service);
        }
        records.add_version(self);
        records.0.into_iter().collect()
    }

    /// What has to be written where the records of another registry are stored.
    pub fn changes_from(&self, before: &Self) -> Vec<CatalogChange> {
        let (after, earlier) = (self.records_unlike(before), before.records_unlike(self));
        let removed = earlier.keys().filter(|key| !after.contains_key(*key));
        let removed = removed.map(|key| CatalogChange {
            key: key.clone(),
            value: None,
        });
        let written = after
            .iter()
            .filter(|(key, value)| earlier.get(*key) != Some(value));
        let written = written.map(|(key, value)| CatalogChange {
            key: key.clone(),
            value: Some(value.clone()),
        });
        removed.chain(written).collect()
    }

    /// The records of services that are not the very same in another registry, and of the version.
    fn records_unlike(&self, other: &Self) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let mut records = Records::default();
        for (name, service) in &self.services {
            let other = other.services.get(name);
            if !other.is_some_and(|other| Arc::ptr_eq(other, service)) {
                records.add_service(name, service);
            }
        }
        records.add_version(self);
        records.0
    }

    /// The registry of records; an empty one if there are none.
    pub fn from_records(
        records: impl IntoIterator<Item = CatalogRecord>,
    ) -> Result<Self, StoreError> {
        // Services come before their types, and types before their metrics.
        let records: BTreeMap<Vec<u8>, Vec<u8>> = records.into_iter().collect();
        let mut registry = Self::default();
        for (key, value) in &records {
            let read = Reader::of(value).and_then(|value| registry.take(key, value));
            read.ok_or_else(|| {
                let shown = key.escape_ascii();
                StoreError(format!(
                    "the record {shown} of the event registry is damaged"
                ))
            })?;
        }
        for service in registry.services.values_mut() {
            for event_type in Arc::make_mut(service).types.values_mut() {
                sort(&mut Arc::make_mut(event_type).metrics);
            }
        }
        Ok(registry)
    }

    /// Takes over one record. `None` where it cannot be read.
    fn take(&mut self, key: &[u8], mut value: Reader<'_>) -> Option<()> {
        if key == [VERSION] {
            self.version = value.u64()?;
            self.next = NextNumbers {
                service: value.u32()?,
                event_type: value.u32()?,
                metric: value.u32()?,
            };
            return Some(());
        }
        let [DOCUMENT, kind, name @ ..] = key else {
            return None;
        };
        match *kind {
            SERVICE => {
                let number = value.u32()?;
                let (counts, transitions) = (value.u32()?, value.u32()?);
                let has_states = counts != 0;
                // The document of the extractors says how long they are kept.
                let kept = WindowRetention::default();
                let service = Service {
                    number,
                    state_metrics: has_states.then(|| StateMetrics::new(counts, transitions, kept)),
                    ..Service::default()
                };
                let name = str::from_utf8(name).ok()?.to_owned();
                self.services.insert(name, Arc::new(service));
            }
            EVENT => {
                let (number, counter) = (value.u32()?, value.u32()?);
                let Body::Event(mut event_type) = value.document()? else {
                    return None;
                };
                event_type.number = number;
                event_type.metrics.push(Arc::new(stored_events(counter)));
                let service = self.stored_service(&event_type.service)?;
                let name = event_type.name.clone();
                service.types.insert(name, Arc::new(event_type));
            }
            METRIC | RETIRED => {
                let number = value.u32()?;
                let Body::Metric {
                    service,
                    event,
                    metric,
                } = value.document()?
                else {
                    return None;
                };
                let event_type = self.stored_service(&service)?.types.get_mut(&event)?;
                let event_type = Arc::make_mut(event_type);
                let metric = Arc::new(Metric { number, ..metric });
                if *kind == METRIC {
                    event_type.metrics.push(metric);
                } else {
                    event_type.retired.push(metric);
                    event_type.retired.sort_by_key(|metric| metric.number);
                }
            }
            STATES => {
                let Body::States {
                    service,
                    extractors,
                    retention,
                } = value.document()?
                else {
                    return None;
                };
                let service = self.stored_service(&service)?;
                service.states = extractors;
                if let Some(metrics) = &mut service.state_metrics {
                    metrics.keep(retention);
                }
            }
            _ => return None,
        }
        Some(())
    }

    fn stored_service(&mut self, name: &str) -> Option<&mut Service> {
        self.services.get_mut(name).map(Arc::make_mut)
    }
}

#[derive(Default)]
struct Records(BTreeMap<Vec<u8>, Vec<u8>>);

impl Records {
    fn add_service(&mut self, name: &str, service: &Service) {
        let states = service.state_metrics.as_ref();
        let numbers = [
            service.number,
            states.map_or(0, |states| states.counts.number),
            states.map_or(0, |states| states.transitions.number),
        ];
        self.add(SERVICE, &[name], None, &numbers, None);
        for event_type in service.types.values() {
            self.add_type(name, event_type);
        }
        if let Some(document) = render::states(name, service) {
            self.add(STATES, &[name], None, &[], Some(document));
        }
    }

    fn add_type(&mut self, service: &str, event_type: &EventType) {
        let event = event_type.name.as_str();
        let counter = event_type.metrics.iter().find(|metric| metric.built_in);
        let counter = counter.map_or(0, |counter| counter.number);
        let numbers = [event_type.number, counter];
        let document = render::event(event_type);
        self.add(EVENT, &[service, event], None, &numbers, Some(document));
        let own = event_type.metrics.iter().filter(|metric| !metric.built_in);
        for metric in own {
            let document = render::metric(service, event, metric);
            let names = [service, event, &metric.name];
            self.add(METRIC, &names, None, &[metric.number], Some(document));
        }
        for metric in &event_type.retired {
            let document = render::metric(service, event, metric);
            let (names, number) = ([service, event, &metric.name], metric.number);
            self.add(RETIRED, &names, Some(number), &[number], Some(document));
        }
    }

    fn add(
        &mut self,
        kind: u8,
        names: &[&str],
        key_number: Option<u32>,
        numbers: &[u32],
        document: Option<Value>,
    ) {
        // No name has a zero in it.
        let mut key = vec![DOCUMENT, kind];
        key.extend_from_slice(names.join("\0").as_bytes());
        if let Some(number) = key_number {
            key.push(0);
            key.extend_from_slice(&number.to_be_bytes());
        }
        let mut value = vec![FORM];
        for number in numbers {
            value.extend_from_slice(&number.to_be_bytes());
        }
        if let Some(document) = document {
            value.extend_from_slice(document.to_string().as_bytes());
        }
        self.0.insert(key, value);
    }

    fn add_version(&mut self, registry: &Registry) {
        let mut value = vec![FORM];
        value.extend_from_slice(&registry.version.to_be_bytes());
        let NextNumbers {
            service,
            event_type,
            metric,
        } = registry.next;
        for number in [service, event_type, metric] {
            value.extend_from_slice(&number.to_be_bytes());
        }
        self.0.insert(vec![VERSION], value);
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn of(value: &'a [u8]) -> Option<Self> {
        let (form, rest) = value.split_first()?;
        (*form == FORM).then_some(Self(rest))
    }

    fn u32(&mut self) -> Option<u32> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_be_bytes(*number))
    }

    fn u64(&mut self) -> Option<u64> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_be_bytes(*number))
    }

    fn document(&self) -> Option<Body> {
        let text = str::from_utf8(self.0).ok()?;
        let mut documents = Documents::parse_yaml(text).ok()?;
        let only = documents.items.pop().filter(|_| documents.items.is_empty());
        only.map(|document| document.body)
    }
}
