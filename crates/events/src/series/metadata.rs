//! Type and help of the families of views.

use std::collections::BTreeMap;

use icecore_model::{Metadata, MetricType};

use super::views::{CellField, ViewKind, each_name};
use crate::{EventType, Metric, MetricKind, Registry};

/// What is known of families by name, of one or of all; sorted. Of several metrics with one name
/// the first is described.
pub fn view_metadata(registry: &Registry, family: Option<&str>) -> Vec<(String, Metadata)> {
    let mut families = BTreeMap::new();
    let mut add = |name: String, metadata: Metadata| {
        if family.is_none_or(|family| family == name) {
            families.entry(name).or_insert(metadata);
        }
    };
    for (service_name, service) in &registry.services {
        for event_type in service.types.values() {
            let of = events_of(event_type);
            event_type
                .metrics
                .iter()
                .for_each(|metric| describe(metric, &of, &mut add));
        }
        if let Some(states) = &service.state_metrics {
            let of = format!("objects of service {service_name}");
            describe(&states.counts, &of, &mut add);
            describe(&states.transitions, &of, &mut add);
        }
    }
    families.into_iter().collect()
}

fn events_of(event_type: &EventType) -> String {
    format!(
        "events {} of service {}",
        event_type.name, event_type.service
    )
}

fn describe(metric: &Metric, of: &str, add: &mut impl FnMut(String, Metadata)) {
    let metadata = |metric_type, help| Metadata {
        metric_type,
        help,
        ..Metadata::default()
    };
    let name = &metric.name;
    if let MetricKind::Histogram { value, .. } = &metric.kind {
        let what = match value {
            Some(path) => format!("of {path}"),
            None => "of durations in milliseconds".to_owned(),
        };
        let help = format!("Histogram {what} of {of}, since Monday.");
        add(metric.series.clone(), metadata(MetricType::Histogram, help));
    }
    each_name(metric, |series, field, kind| {
        let (metric_type, help) = match (kind, field, &metric.kind) {
            (ViewKind::EachCell(window), ..) => {
                let help = format!("{name} of {of}, for each interval of {}.", window.code());
                (MetricType::Gauge, help)
            }
            (ViewKind::Latest, ..) => (MetricType::Gauge, format!("{name} of {of}.")),
            (_, CellField::Total, MetricKind::Counter { sum_of: Some(path) }) => (
                MetricType::Counter,
                format!("Sum of {path} of {of}, since Monday."),
            ),
            (_, CellField::Total, _) => (
                MetricType::Counter,
                format!("Number of {of}, since Monday."),
            ),
            // Described by their histogram.
            _ => return,
        };
        add(series, metadata(metric_type, help));
    });
}
