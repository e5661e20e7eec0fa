//! A registry with documents put into it.
//!
//! Holds always:
//! - All documents are taken, or none; their order does not matter, except for the numbers.
//! - Documents that change nothing leave the version as it is.
//! - A metric whose cells could not be merged with those it has gets another number; the one before
//!   is retired, and comes back if its document does.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use icecore_settings::Problem as Fault;

use super::built_in::stored_events;
use super::document::{Body, Documents, Places};
use super::{
    EventType, Metric, Registry, Service, StateExtractor, StateMetrics, WindowRetention, check,
    compatible,
};
use crate::Problem;

/// More are a program's mistake, and every flush goes through them.
const SERVICES_MAX: usize = 10_000;
const METRICS_MAX: usize = 100_000;
const RETIRED_OF_TYPE_MAX: usize = 1_000;

/// In one answer.
const FAULTS_SHOWN_MAX: usize = 100;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UpdateOptions {
    /// Also changes that are not compatible.
    pub force: bool,
    /// Whether there is a key to hash with.
    pub has_masking_key: bool,
}

impl Registry {
    /// This registry with all documents put into it; existing ones are replaced.
    pub fn with(&self, documents: &Documents, options: UpdateOptions) -> Result<Self, Problem> {
        let mut draft = Draft::new(self.clone());
        draft.put_all(documents);
        check::check_all(&draft.registry, &draft.given, options, &mut draft.faults);
        draft.check_limits();
        if !draft.faults.is_empty() {
            return Err(Problem::invalid_documents(&draft.faults));
        }
        if !options.force && !draft.breaks.is_empty() {
            let problem = Problem::new(400, "config.incompatible", shown_all(&draft.breaks));
            return Err(problem.with_hint("`force=true` makes the change all the same"));
        }
        let mut registry = draft.registry;
        if registry != *self {
            registry.version = self.version.saturating_add(1);
        }
        Ok(registry)
    }
}

impl Problem {
    /// Documents that cannot be used, with every fault in them.
    pub fn invalid_documents(faults: &[Fault]) -> Self {
        Self::new(400, "config.invalid", shown_all(faults))
    }
}

fn shown_all(faults: &[Fault]) -> String {
    let mut shown: Vec<String> = faults.iter().take(FAULTS_SHOWN_MAX).map(shown).collect();
    if faults.len() > FAULTS_SHOWN_MAX {
        shown.push(format!("and {} more", faults.len() - FAULTS_SHOWN_MAX));
    }
    shown.join("; ")
}

fn shown(fault: &Fault) -> String {
    let mut text = String::new();
    if !fault.subject.is_empty() {
        text.push_str(&format!("{}: ", fault.subject));
    }
    text.push_str(&fault.reason);
    if let Some((file, at)) = &fault.location {
        text.push_str(&format!(", at {at}"));
        if !file.as_os_str().is_empty() {
            text.push_str(&format!(" of {}", file.display()));
        }
    }
    if let Some(hint) = &fault.hint {
        text.push_str(&format!(" ({hint})"));
    }
    text
}

/// Where the documents of a change were written.
#[derive(Default)]
pub(super) struct Given<'a> {
    /// By service and event.
    pub(super) events: BTreeMap<(&'a str, &'a str), &'a Places>,
    /// By service and name.
    pub(super) metrics: BTreeMap<(&'a str, &'a str), &'a Places>,
    /// By service.
    pub(super) states: BTreeMap<&'a str, &'a Places>,
}

impl Given<'_> {
    pub(super) fn services(&self) -> BTreeSet<&str> {
        let events = self.events.keys().map(|(service, _)| *service);
        let metrics = self.metrics.keys().map(|(service, _)| *service);
        events
            .chain(metrics)
            .chain(self.states.keys().copied())
            .collect()
    }
}

struct Draft<'a> {
    registry: Registry,
    given: Given<'a>,
    /// The event that each metric belongs to, by service and name.
    owners: BTreeMap<(String, String), String>,
    faults: Vec<Fault>,
    /// Changes that need force.
    breaks: Vec<Fault>,
}

impl<'a> Draft<'a> {
    fn new(registry: Registry) -> Self {
        let mut owners = BTreeMap::new();
        for event_type in registry.event_types() {
            for metric in event_type.metrics.iter().filter(|metric| !metric.built_in) {
                let key = (event_type.service.clone(), metric.name.clone());
                owners.insert(key, event_type.name.clone());
            }
        }
        Self {
            registry,
            given: Given::default(),
            owners,
            faults: Vec::new(),
            breaks: Vec::new(),
        }
    }

    fn put_all(&mut self, documents: &'a Documents) {
        // Metrics may be written before their event.
        for document in &documents.items {
            if let Body::Event(event_type) = &document.body {
                self.put_event(event_type, &document.places);
            }
        }
        for document in &documents.items {
            match &document.body {
                Body::Event(_) => {}
                Body::Metric {
                    service,
                    event,
                    metric,
                } => self.put_metric(service, event, metric, &document.places),
                Body::States {
                    service,
                    extractors,
                    retention,
                } => self.put_states(service, extractors, *retention, &document.places),
            }
        }
    }

    fn put_event(&mut self, event_type: &'a EventType, places: &'a Places) {
        let EventType { service, name, .. } = event_type;
        if self.given.events.insert((service, name), places).is_some() {
            let reason = format!("event {name:?} of service {service:?} is given twice");
            self.fault(places, "metadata.name", name, reason);
            return;
        }
        let Some(known) = self.service(service).types.get(name).cloned() else {
            let (Some(number), Some(counter)) = (self.type_number(), self.metric_number()) else {
                return;
            };
            let mut event_type = event_type.clone();
            event_type.number = number;
            event_type.metrics.push(Arc::new(stored_events(counter)));
            let types = &mut self.service(service).types;
            types.insert(name.clone(), Arc::new(event_type));
            return;
        };
        compatible::compare(&known, event_type, |path, reason| {
            let fault = places.problem("spec.schema", path, reason);
            self.breaks.push(fault);
        });
        for rule in &known.masking {
            if let Some(reason) = compatible::weaker_mask(rule, event_type) {
                let fault = places.problem("spec.masking", &rule.path, reason);
                self.breaks.push(fault);
            }
        }
        let event_type = EventType {
            number: known.number,
            metrics: known.metrics.clone(),
            retired: known.retired.clone(),
            ..event_type.clone()
        };
        if event_type != *known {
            let types = &mut self.service(service).types;
            types.insert(name.clone(), Arc::new(event_type));
        }
    }

    fn put_metric(
        &mut self,
        service: &'a str,
        event: &str,
        metric: &'a Metric,
        places: &'a Places,
    ) {
        let name = &metric.name;
        if self.given.metrics.insert((service, name), places).is_some() {
            let reason = format!("metric {name:?} of service {service:?} is given twice");
            return self.fault(places, "metadata.name", name, reason);
        }
        if self.registry.event_type(service, event).is_none() {
            let reason = format!("service {service:?} has no event {event:?}");
            return self.fault(places, "metadata.event", event, reason);
        }
        let key = (service.to_owned(), name.clone());
        let owner = self.owners.insert(key, event.to_owned());
        if let Some(owner) = owner.filter(|owner| owner != event) {
            let reason = format!("{name:?} is a metric of event {owner:?}");
            self.breaks
                .push(places.problem("metadata.event", event, reason));
            self.edit(service, &owner, |event_type| retire(event_type, name));
        }
        let known = self.registry.event_type(service, event);
        let known = known
            .and_then(|event_type| event_type.metric(name))
            .cloned();
        if let Some(known) = &known
            && known.kind.word() != metric.kind.word()
        {
            let reason = format!("{name:?} is a {} already", known.kind.word());
            self.breaks.push(places.problem("kind", "", reason));
        }
        let number = match self.number_for(service, event, metric, known.as_deref()) {
            Some(number) => number,
            None => return,
        };
        let metric = Arc::new(Metric {
            number,
            ..metric.clone()
        });
        if known.as_ref() != Some(&metric) {
            self.edit(service, event, |event_type| place(event_type, metric));
        }
    }

    /// The number of a metric: the one that it has or had, or a new one.
    fn number_for(
        &mut self,
        service: &str,
        event: &str,
        metric: &Metric,
        known: Option<&Metric>,
    ) -> Option<u32> {
        if let Some(known) = known.filter(|known| known.has_cells_like(metric)) {
            return Some(known.number);
        }
        let event_type = self.registry.event_type(service, event)?;
        let same_name = event_type.retired(&metric.name);
        let same_cells = same_name.filter(|retired| retired.has_cells_like(metric));
        let retired = same_cells.map(|retired| retired.number).next();
        retired.or_else(|| self.metric_number())
    }

    fn put_states(
        &mut self,
        service: &'a str,
        extractors: &[StateExtractor],
        retention: WindowRetention,
        places: &'a Places,
    ) {
        if self.given.states.insert(service, places).is_some() {
            let reason = format!("states of service {service:?} are given twice");
            return self.fault(places, "metadata.service", service, reason);
        }
        let known = self.service(service);
        if known.states != extractors {
            known.states = extractors.to_vec();
        }
        if let Some(metrics) = &mut known.state_metrics {
            metrics.keep(retention);
        } else if !extractors.is_empty()
            && let (Some(counts), Some(transitions)) = (self.metric_number(), self.metric_number())
        {
            let metrics = StateMetrics::new(counts, transitions, retention);
            self.service(service).state_metrics = Some(metrics);
        }
    }

    fn fault(&mut self, places: &Places, within: &str, text: &str, reason: String) {
        self.faults.push(places.problem(within, text, reason));
    }

    /// The service, a new one if there is none.
    fn service(&mut self, name: &str) -> &mut Service {
        if !self.registry.services.contains_key(name) {
            let number = self.registry.next.service;
            // Numbers outlast any limit on services.
            self.registry.next.service = number.saturating_add(1);
            let service = Service {
                number,
                ..Service::default()
            };
            let services = &mut self.registry.services;
            services.insert(name.to_owned(), Arc::new(service));
        }
        let service = self.registry.services.entry(name.to_owned());
        Arc::make_mut(service.or_default())
    }

    fn edit(&mut self, service: &str, event: &str, edit: impl FnOnce(&mut EventType)) {
        if let Some(event_type) = self.service(service).types.get_mut(event) {
            edit(Arc::make_mut(event_type));
        }
    }

    fn type_number(&mut self) -> Option<u32> {
        let number = take(&mut self.registry.next.event_type);
        self.known_number(number)
    }

    fn metric_number(&mut self) -> Option<u32> {
        let number = take(&mut self.registry.next.metric);
        self.known_number(number)
    }

    fn known_number(&mut self, number: Option<u32>) -> Option<u32> {
        if number.is_none() {
            let reason = "all numbers of types and metrics are used up";
            self.faults.push(Fault::new("", reason));
        }
        number
    }

    fn check_limits(&mut self) {
        let services = self.registry.services.len();
        let metrics = self.registry.metrics().count();
        for (what, count, max) in [
            ("services", services, SERVICES_MAX),
            ("metrics", metrics, METRICS_MAX),
        ] {
            if count > max {
                let reason = format!("there would be {count} {what}, more than {max}");
                self.faults.push(Fault::new("", reason));
            }
        }
        for event_type in self.registry.event_types() {
            if event_type.retired.len() > RETIRED_OF_TYPE_MAX {
                let reason = format!(
                    "event {:?} would have more than {RETIRED_OF_TYPE_MAX} retired metrics",
                    event_type.name
                );
                self.faults.push(Fault::new("", reason));
            }
        }
    }
}

/// The next number, as long as there are some.
fn take(next: &mut u32) -> Option<u32> {
    let number = *next;
    *next = number.checked_add(1)?;
    Some(number)
}

/// Puts a metric in its place; one of its name and another number is retired.
fn place(event_type: &mut EventType, metric: Arc<Metric>) {
    let known = event_type.metric(&metric.name);
    if known.is_some_and(|known| known.number != metric.number) {
        retire(event_type, &metric.name);
    }
    let is_other = |other: &Arc<Metric>| other.number != metric.number;
    event_type.metrics.retain(is_other);
    event_type.retired.retain(is_other);
    event_type.metrics.push(metric);
    sort(&mut event_type.metrics);
}

fn retire(event_type: &mut EventType, name: &str) {
    let at = event_type
        .metrics
        .iter()
        .position(|metric| metric.name == name);
    if let Some(at) = at {
        event_type.retired.push(event_type.metrics.remove(at));
        event_type.retired.sort_by_key(|metric| metric.number);
    }
}

/// What is built in comes first, others follow by name.
pub(super) fn sort(metrics: &mut [Arc<Metric>]) {
    metrics.sort_by(|a, b| (!a.built_in, &a.name).cmp(&(!b.built_in, &b.name)));
}
