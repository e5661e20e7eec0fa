//! What is done with the events of each type, made once for each version of the registry, so that
//! an event costs two look-ups by name and nothing is searched for.

use std::collections::HashMap;
use std::sync::Arc;

use crate::{EventType, Metric, MetricKind, PreviousStates, Registry, Service};

#[derive(Debug, Default)]
pub(crate) struct FoldPlan {
    services: HashMap<String, HashMap<String, Arc<TypePlan>>>,
}

/// What the events of one type are folded into.
#[derive(Debug)]
pub(crate) struct TypePlan {
    pub(crate) service: u32,
    pub(crate) metrics: Vec<MetricPlan>,
    /// Indexed paths: their values are catalogued.
    pub(crate) catalogued: Vec<Arc<str>>,
    pub(crate) states: Vec<StatePlan>,
}

#[derive(Debug)]
pub(crate) struct MetricPlan {
    pub(crate) metric: Arc<Metric>,
    /// The logarithm of the ratio between neighbouring bounds of the sketch.
    pub(crate) sketch_ln_ratio: Option<f64>,
}

/// One attribute whose values are states of objects.
#[derive(Debug)]
pub(crate) struct StatePlan {
    pub(crate) object_type: Arc<str>,
    pub(crate) object_id: String,
    pub(crate) attribute: Arc<str>,
    pub(crate) previous: Arc<PreviousStates>,
    pub(crate) transitions: Arc<Metric>,
}

impl FoldPlan {
    pub(crate) fn new(registry: &Registry) -> Self {
        let services = registry.services.iter().map(|(name, service)| {
            let types = service.types.iter().map(|(name, event_type)| {
                let plan = TypePlan::new(service, event_type);
                (name.clone(), Arc::new(plan))
            });
            (name.clone(), types.collect())
        });
        Self {
            services: services.collect(),
        }
    }

    pub(crate) fn of(&self, service: &str, event_type: &str) -> Option<&Arc<TypePlan>> {
        self.services.get(service)?.get(event_type)
    }
}

impl TypePlan {
    fn new(service: &Service, event_type: &Arc<EventType>) -> Self {
        let metrics = event_type.metrics.iter().map(|metric| MetricPlan {
            metric: metric.clone(),
            sketch_ln_ratio: sketch_ln_ratio(&metric.kind),
        });
        let indexed = event_type.fields.iter().filter(|field| field.indexed);
        Self {
            service: service.number,
            metrics: metrics.collect(),
            catalogued: indexed.map(|field| Arc::from(&*field.path)).collect(),
            states: states_of(service, &event_type.name),
        }
    }
}

fn sketch_ln_ratio(kind: &MetricKind) -> Option<f64> {
    match kind {
        MetricKind::Histogram {
            sketch: Some(sketch),
            ..
        } => {
            let accuracy = sketch.relative_accuracy;
            Some(((1.0 + accuracy) / (1.0 - accuracy)).ln())
        }
        _ => None,
    }
}

fn states_of(service: &Service, event_type: &str) -> Vec<StatePlan> {
    let Some(metrics) = &service.state_metrics else {
        return Vec::new();
    };
    let extractors = service.states.iter();
    let of_type = extractors.filter(|extractor| extractor.event_type == event_type);
    let plans = of_type.flat_map(|extractor| {
        let object_type: Arc<str> = Arc::from(&*extractor.object_type);
        let previous = Arc::new(extractor.previous.clone());
        extractor.attributes.iter().map(move |attribute| StatePlan {
            object_type: object_type.clone(),
            object_id: extractor.object_id.clone(),
            attribute: Arc::from(&**attribute),
            previous: previous.clone(),
            transitions: metrics.transitions.clone(),
        })
    });
    plans.collect()
}
