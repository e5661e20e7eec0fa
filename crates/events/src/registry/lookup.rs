//! Finding things in a registry.

use std::sync::Arc;

use icecore_model::event::EventWindow;

use super::{EventType, Field, FieldType, Mask, Metric, MetricKind, Registry, Service};

impl Registry {
    pub fn service(&self, service: &str) -> Option<&Arc<Service>> {
        self.services.get(service)
    }

    pub fn event_type(&self, service: &str, event_type: &str) -> Option<&Arc<EventType>> {
        self.services.get(service)?.types.get(event_type)
    }

    /// All types of all services.
    pub fn event_types(&self) -> impl Iterator<Item = &Arc<EventType>> {
        self.services
            .values()
            .flat_map(|service| service.types.values())
    }

    /// All metrics that have a number: those in use, retired ones, and those of states.
    pub fn metrics(&self) -> impl Iterator<Item = &Arc<Metric>> {
        self.services.values().flat_map(|service| {
            let of_types = service.types.values().flat_map(|t| t.all_metrics());
            let of_states = service.state_metrics.iter();
            of_types.chain(of_states.flat_map(|states| [&states.counts, &states.transitions]))
        })
    }
}

impl Service {
    /// A metric in use, and the type that it belongs to.
    pub fn metric(&self, name: &str) -> Option<(&Arc<EventType>, &Arc<Metric>)> {
        self.types.values().find_map(|event_type| {
            let metric = event_type.metric(name).filter(|metric| !metric.built_in)?;
            Some((event_type, metric))
        })
    }
}

impl EventType {
    /// A metric in use.
    pub fn metric(&self, name: &str) -> Option<&Arc<Metric>> {
        self.metrics.iter().find(|metric| metric.name == name)
    }

    /// Those in use, then the retired ones.
    pub fn all_metrics(&self) -> impl Iterator<Item = &Arc<Metric>> {
        self.metrics.iter().chain(&self.retired)
    }

    /// Retired metrics that had this name.
    pub fn retired<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Arc<Metric>> {
        self.retired
            .iter()
            .filter(move |metric| metric.name == name)
    }

    pub fn field(&self, path: &str) -> Option<&Field> {
        let found = self
            .fields
            .binary_search_by(|field| field.path.as_str().cmp(path));
        found.ok().map(|at| &self.fields[at])
    }

    /// What becomes of the attribute at a path.
    pub fn mask(&self, path: &str) -> Option<Mask> {
        let rules = self.masking.iter();
        let masks = rules.filter(|rule| is_within(path, &rule.path));
        // Dropped is dropped, whatever else is said of it.
        masks
            .map(|rule| rule.mask)
            .min_by_key(|mask| *mask != Mask::Drop)
    }

    /// The indexed attributes with the types that are stored: what is hashed is text.
    pub fn indexed_fields(&self) -> Vec<Field> {
        let indexed = self.fields.iter().filter(|field| field.indexed);
        let stored = indexed.map(|field| {
            let mut field = field.clone();
            if self.mask(&field.path) == Some(Mask::Hash) {
                field.kind = field.kind.hashed();
            }
            field
        });
        stored.collect()
    }
}

/// Whether a path is another one, or in the object that is there.
pub(super) fn is_within(path: &str, object: &str) -> bool {
    let rest = path.strip_prefix(object);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

impl FieldType {
    pub fn is_list(self) -> bool {
        self.element() != self
    }

    /// The type of the elements of a list, or the type itself.
    pub fn element(self) -> Self {
        match self {
            Self::ArrayOfString => Self::String,
            Self::ArrayOfInteger => Self::Integer,
            Self::ArrayOfNumber => Self::Number,
            Self::ArrayOfBoolean => Self::Boolean,
            Self::ArrayOfTimestamp => Self::Timestamp,
            scalar => scalar,
        }
    }

    /// A list of such elements.
    pub fn list(self) -> Self {
        match self {
            Self::String => Self::ArrayOfString,
            Self::Integer => Self::ArrayOfInteger,
            Self::Number => Self::ArrayOfNumber,
            Self::Boolean => Self::ArrayOfBoolean,
            Self::Timestamp => Self::ArrayOfTimestamp,
            list => list,
        }
    }

    /// The type of what is stored in place of a hashed value.
    pub fn hashed(self) -> Self {
        if self.is_list() {
            Self::ArrayOfString
        } else {
            Self::String
        }
    }

    /// As documents have it; of a list what its elements are.
    pub fn word(self) -> &'static str {
        match self.element() {
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
            Self::Timestamp => "timestamp",
            _ => "string",
        }
    }

    pub(super) fn from_word(word: &str) -> Option<Self> {
        let all = [
            Self::String,
            Self::Integer,
            Self::Number,
            Self::Boolean,
            Self::Timestamp,
        ];
        all.into_iter().find(|kind| kind.word() == word)
    }
}

impl Metric {
    /// The windows that are kept, from the finest to the coarsest.
    pub fn windows(&self) -> impl Iterator<Item = EventWindow> {
        let base = self.base;
        let all = EventWindow::ALL.into_iter();
        all.filter(move |window| *window >= base)
    }

    /// Whether cells of both can be merged: otherwise they need numbers of their own.
    pub(crate) fn has_cells_like(&self, other: &Self) -> bool {
        // Windows that were not kept from the beginning would lack what came before.
        self.kind.merges_with(&other.kind) && self.base == other.base
    }
}

impl MetricKind {
    /// Whether cells of one interval and both kinds mean something together.
    pub(crate) fn merges_with(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Counter { sum_of }, Self::Counter { sum_of: other }) => sum_of == other,
            (
                Self::Histogram { bounds, sketch, .. },
                Self::Histogram {
                    bounds: other_bounds,
                    sketch: other_sketch,
                    ..
                },
            ) => bounds == other_bounds && sketch == other_sketch,
            (Self::Gauge { reducer, .. }, Self::Gauge { reducer: other, .. }) => reducer == other,
            _ => false,
        }
    }

    pub fn word(&self) -> &'static str {
        match self {
            Self::Counter { .. } => "counter",
            Self::Histogram { .. } => "histogram",
            Self::Gauge { .. } => "gauge",
        }
    }
}
