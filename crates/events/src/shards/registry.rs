//! One registry for all shards, by names.
//!
//! Holds always:
//! - What the own instance has keeps its numbers, and is described as it is there. What only others
//!   have gets numbers behind them.
//! - Metrics are one if cells of them can be merged. One that differs on another shard, for example
//!   in the bounds of a histogram, is to this registry what a change has retired: queries treat
//!   both cases alike.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::{EventType, Field, Metric, Registry, Service, StateMetrics};

/// The registries of shards as one.
pub(super) struct UnionRegistry {
    registry: Arc<Registry>,
    numbers: Vec<Arc<Numbers>>,
    /// What it was made of.
    of: Vec<Arc<Registry>>,
}

/// The numbers of one shard, by those of the union.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    services: HashMap<u32, u32>,
    types: HashMap<u32, u32>,
    /// The other way round.
    union_types: HashMap<u32, u32>,
    /// A shard may have several whose cells can be merged.
    metrics: HashMap<u32, Vec<u32>>,
}

impl UnionRegistry {
    /// The first one is the own instance's.
    pub(super) fn of(registries: &[&Arc<Registry>]) -> Self {
        let mut union = Registry::default();
        if let Some(own) = registries.first() {
            // Numbers behind those that it has given.
            union.version = own.version;
            union.next = own.next;
        }
        let mut numbers = Vec::with_capacity(registries.len());
        for (at, registry) in registries.iter().enumerate() {
            let mut adding = Adding {
                next: union.next,
                keeps_numbers: at == 0,
                numbers: Numbers::default(),
            };
            for (name, service) in &registry.services {
                let known = union.services.entry(name.clone()).or_default();
                adding.service(Arc::make_mut(known), service);
            }
            union.next = adding.next;
            numbers.push(Arc::new(adding.numbers));
        }
        Self {
            registry: Arc::new(union),
            numbers,
            of: registries.iter().map(|one| Arc::clone(one)).collect(),
        }
    }

    pub(super) fn is_of(&self, registries: &[&Arc<Registry>]) -> bool {
        let same = |(a, b): (&Arc<Registry>, &&Arc<Registry>)| Arc::ptr_eq(a, b);
        self.of.len() == registries.len() && self.of.iter().zip(registries).all(same)
    }

    pub(super) fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// Of each shard, in their order.
    pub(super) fn numbers(&self) -> &[Arc<Numbers>] {
        &self.numbers
    }
}

impl Numbers {
    pub(super) fn service(&self, union: u32) -> Option<u32> {
        self.services.get(&union).copied()
    }

    pub(super) fn event_type(&self, union: u32) -> Option<u32> {
        self.types.get(&union).copied()
    }

    pub(super) fn union_type(&self, event_type: u32) -> Option<u32> {
        self.union_types.get(&event_type).copied()
    }

    pub(super) fn metrics(&self, union: u32) -> &[u32] {
        self.metrics.get(&union).map_or(&[], Vec::as_slice)
    }
}

/// Puts what one shard has into the union.
struct Adding {
    next: crate::NextNumbers,
    keeps_numbers: bool,
    numbers: Numbers,
}

impl Adding {
    fn service(&mut self, known: &mut Service, service: &Service) {
        if known.number == 0 {
            known.number = self.number(service.number, |next| &mut next.service);
        }
        self.numbers.services.insert(known.number, service.number);
        for (name, event_type) in &service.types {
            let of_union = known.types.entry(name.clone()).or_insert_with(|| {
                Arc::new(EventType {
                    number: self.number(event_type.number, |next| &mut next.event_type),
                    metrics: Vec::new(),
                    retired: Vec::new(),
                    ..EventType::clone(event_type)
                })
            });
            self.event_type(Arc::make_mut(of_union), event_type);
        }
        for extractor in &service.states {
            if !known.states.contains(extractor) {
                known.states.push(extractor.clone());
            }
        }
        if let Some(states) = &service.state_metrics {
            let of_union = known.state_metrics.get_or_insert_with(|| StateMetrics {
                counts: self.numbered(&states.counts),
                transitions: self.numbered(&states.transitions),
            });
            self.map_metric(of_union.counts.number, states.counts.number);
            self.map_metric(of_union.transitions.number, states.transitions.number);
        }
    }

    fn event_type(&mut self, known: &mut EventType, event_type: &EventType) {
        let (union, number) = (known.number, event_type.number);
        self.numbers.types.insert(union, number);
        self.numbers.union_types.insert(number, union);
        unite_fields(&mut known.fields, &event_type.fields);
        for metric in &event_type.metrics {
            let is_new = known.metric(&metric.name).is_none();
            self.metric(known, metric, is_new);
        }
        for metric in &event_type.retired {
            self.metric(known, metric, false);
        }
        // What is built in comes first, others follow by name.
        known
            .metrics
            .sort_by(|a, b| (!a.built_in, &a.name).cmp(&(!b.built_in, &b.name)));
    }

    fn metric(&mut self, known: &mut EventType, metric: &Arc<Metric>, is_in_use: bool) {
        let is_alike = |one: &&Arc<Metric>| one.name == metric.name && one.has_cells_like(metric);
        let alike = known.all_metrics().find(is_alike).map(|one| one.number);
        // Those of the own instance stay apart, as they are there.
        let union = match alike.filter(|_| !self.keeps_numbers) {
            Some(number) => number,
            None => {
                let numbered = self.numbered(metric);
                let number = numbered.number;
                let list = if is_in_use {
                    &mut known.metrics
                } else {
                    &mut known.retired
                };
                list.push(numbered);
                number
            }
        };
        self.map_metric(union, metric.number);
    }

    fn map_metric(&mut self, union: u32, number: u32) {
        self.numbers.metrics.entry(union).or_default().push(number);
    }

    /// A metric with a number of the union.
    fn numbered(&mut self, metric: &Arc<Metric>) -> Arc<Metric> {
        let number = self.number(metric.number, |next| &mut next.metric);
        if number == metric.number {
            return Arc::clone(metric);
        }
        Arc::new(Metric {
            number,
            ..Metric::clone(metric)
        })
    }

    fn number(
        &mut self,
        given: u32,
        next: impl FnOnce(&mut crate::NextNumbers) -> &mut u32,
    ) -> u32 {
        if self.keeps_numbers {
            return given;
        }
        let next = next(&mut self.next);
        let number = *next;
        *next += 1;
        number
    }
}

/// Attributes of any shard, sorted by path: of those that several have, the first says what it is.
fn unite_fields(known: &mut Vec<Field>, others: &[Field]) {
    let of_union = known.drain(..).map(|field| (field.path.clone(), field));
    let mut by_path: BTreeMap<String, Field> = of_union.collect();
    for field in others {
        let known = by_path.entry(field.path.clone());
        let known = known.or_insert_with(|| field.clone());
        known.indexed |= field.indexed;
        // An event of another shard may lack it.
        known.required &= field.required;
    }
    known.extend(by_path.into_values());
}
