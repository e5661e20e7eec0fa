//! What must hold between documents: between a metric and its event, and among the metrics of a
//! service.

use std::collections::BTreeMap;

use icecore_settings::Problem as Fault;

use super::names::is_built_in;
use super::update::{Given, UpdateOptions};
use super::{
    Comparison, EventType, FieldType, Mask, Metric, MetricKind, Registry, Service, StateExtractor,
};

/// Checks everything that a change may have touched.
pub(super) fn check_all(
    registry: &Registry,
    given: &Given<'_>,
    options: UpdateOptions,
    faults: &mut Vec<Fault>,
) {
    for ((service, event), places) in &given.events {
        let Some(event_type) = registry.event_type(service, event) else {
            continue;
        };
        let hashes = event_type
            .masking
            .iter()
            .any(|rule| rule.mask == Mask::Hash);
        if hashes && !options.has_masking_key {
            let reason = "needs a key to hash with: the setting events.masking_key".into();
            faults.push(places.problem("spec.masking", "hash", reason));
        }
    }
    for name in given.services() {
        let Some(service) = registry.services.get(name) else {
            continue;
        };
        check_service(name, service, given, faults);
    }
}

fn check_service(name: &str, service: &Service, given: &Given<'_>, faults: &mut Vec<Fault>) {
    for event_type in service.types.values() {
        let event_places = given.events.get(&(name, &event_type.name));
        for metric in event_type.metrics.iter().filter(|metric| !metric.built_in) {
            let metric_places = given.metrics.get(&(name, &metric.name));
            if metric_places.is_none() && event_places.is_none() {
                continue;
            }
            check_metric(event_type, metric, |within, text, reason| {
                let fault = match (metric_places, event_places) {
                    (Some(places), _) => places.problem(within, text, reason),
                    (None, Some(places)) => {
                        let reason = format!("metric {:?}: {reason}", metric.name);
                        places.problem("spec", text, reason)
                    }
                    (None, None) => return,
                };
                faults.push(fault);
            });
        }
    }
    let state_places = given.states.get(name);
    for extractor in &service.states {
        let Some(event_type) = service.types.get(&extractor.event_type) else {
            continue;
        };
        let event_places = given.events.get(&(name, &event_type.name));
        check_extractor(event_type, extractor, |text, reason| {
            let fault = match (state_places, event_places) {
                (Some(places), _) => places.problem("", text, reason),
                (None, Some(places)) => {
                    let reason = format!("states of {:?}: {reason}", extractor.object_type);
                    places.problem("spec", text, reason)
                }
                (None, None) => return,
            };
            faults.push(fault);
        });
    }
    check_series(name, service, given, faults);
}

/// No two metrics of a service may make one series, nor one that is built in.
fn check_series(name: &str, service: &Service, given: &Given<'_>, faults: &mut Vec<Fault>) {
    let mut owners: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    let metrics = service.types.values().flat_map(|t| &t.metrics);
    for metric in metrics.filter(|metric| !metric.built_in) {
        // The rollups of a metric are called by its name without a suffix.
        let mut names = metric.series_names();
        names.push(format!("{}:", metric.series));
        for series in names {
            owners.entry(series).or_default().push(&metric.name);
        }
    }
    for (series, owners) in owners {
        let shown = series.trim_end_matches(':');
        for (index, metric) in owners.iter().enumerate() {
            let Some(places) = given.metrics.get(&(name, *metric)) else {
                continue;
            };
            let other = owners.iter().enumerate().find(|(at, _)| *at != index);
            let reason = match other {
                _ if is_built_in(&series) => {
                    format!("{metric:?} makes the series {shown}, which is built in")
                }
                Some((_, other)) => {
                    format!("{metric:?} makes the series {shown}, as metric {other:?} does")
                }
                None => continue,
            };
            faults.push(places.problem("metadata.name", metric, reason));
        }
    }
}

/// Calls `report` with where the fault is, the text that is wrong there, and the reason.
fn check_metric(
    event_type: &EventType,
    metric: &Metric,
    mut report: impl FnMut(&'static str, &str, String),
) {
    let is_made = |path: &str| metric.fold.as_ref().is_some_and(|fold| fold.target == path);
    for dimension in &metric.dimensions {
        let path = &dimension.path;
        if let Some(reason) = why_no_dimension(event_type, path).filter(|_| !is_made(path)) {
            report("spec.key", path, reason);
        }
    }
    for filter in metric
        .filters
        .iter()
        .filter(|filter| !is_made(&filter.path))
    {
        let path = &filter.path;
        let compares_numbers = !matches!(
            filter.comparison,
            Comparison::Equal(_) | Comparison::NotEqual(_) | Comparison::In(_)
        );
        let reason = if compares_numbers {
            why_no_number(event_type, path, &[FieldType::Timestamp])
        } else {
            why_absent(event_type, path)
        };
        if let Some(reason) = reason {
            report("spec.filters", path, reason);
        }
    }
    if let Some(fold) = &metric.fold {
        if let Some(reason) = why_no_number(event_type, &fold.source, &[]) {
            report("spec.fold", &fold.source, reason);
        }
        let target = &fold.target;
        if event_type.field(target).is_some() || event_type.objects.contains(target) {
            let reason = format!("{target:?} is among the properties of the event");
            report("spec.fold", target, reason);
        }
    }
    let value = match &metric.kind {
        MetricKind::Counter { sum_of } => sum_of.as_ref(),
        MetricKind::Histogram { value, .. } => value.as_ref(),
        MetricKind::Gauge { value, .. } => Some(value),
    };
    if let Some(path) = value
        && let Some(reason) = why_no_number(event_type, path, &[FieldType::String])
    {
        report("spec", path, reason);
    }
    if let MetricKind::Gauge {
        observed_at: Some(path),
        ..
    } = &metric.kind
    {
        let also = [FieldType::Timestamp, FieldType::String];
        if let Some(reason) = why_no_number(event_type, path, &also) {
            report("spec.observedAt", path, reason);
        }
    }
}

fn check_extractor(
    event_type: &EventType,
    extractor: &StateExtractor,
    mut report: impl FnMut(&str, String),
) {
    for path in extractor.attributes.iter().chain([&extractor.object_id]) {
        if let Some(reason) = why_no_dimension(event_type, path) {
            report(path, reason);
        }
    }
}

/// Why no event has an attribute at a path when it is counted.
fn why_absent(event_type: &EventType, path: &str) -> Option<String> {
    if event_type.mask(path) == Some(Mask::Drop) {
        return Some(format!("{path:?} is dropped by masking"));
    }
    let is_object = event_type.objects.iter().any(|object| object == path);
    is_object.then(|| format!("{path:?} is an object"))
}

fn why_no_dimension(event_type: &EventType, path: &str) -> Option<String> {
    why_absent(event_type, path).or_else(|| {
        let field = event_type
            .field(path)
            .filter(|field| field.kind.is_list())?;
        Some(format!("{:?} is a list", field.path))
    })
}

/// Why an attribute is no number, nor one of the types that may be read as one.
fn why_no_number(event_type: &EventType, path: &str, also: &[FieldType]) -> Option<String> {
    if let Some(reason) = why_absent(event_type, path) {
        return Some(reason);
    }
    if event_type.mask(path) == Some(Mask::Hash) {
        return Some(format!("{path:?} is hashed by masking, and so no number"));
    }
    let kind = event_type.field(path)?.kind;
    let is_number = matches!(kind, FieldType::Integer | FieldType::Number) || also.contains(&kind);
    let list = if kind.is_list() { "a list of " } else { "" };
    (!is_number).then(|| format!("{path:?} is {list}{}, and so no number", kind.word()))
}
