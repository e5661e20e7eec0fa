//! Which series there are of a metric, by name.
//!
//! ```text
//! counter    orders_total                       orders:5s … orders:7d
//! histogram  latency_bucket, _sum, _count       latency_bucket:5s …, _sum:5s …, _count:5s …
//! gauge      stock_level                        stock_level:5s …
//! ```

use std::sync::Arc;

use icecore_model::event::EventWindow;
use icecore_model::{METRIC_NAME, Matcher};

use crate::{Metric, MetricKind, Registry};

/// What a sample of a view is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum CellField {
    /// Events, or what a counter adds up.
    Total,
    /// The samples up to each bound of a histogram.
    Buckets,
    HistogramSum,
    HistogramCount,
    /// What a gauge shows.
    Value,
}

/// How samples follow from cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum ViewKind {
    /// What cells add up to since Monday.
    Cumulative,
    /// One sample for each cell.
    EachCell(EventWindow),
    /// One sample for each cell of the finest window that is kept.
    Latest,
}

/// The series of one name of one metric.
#[derive(Clone, Debug)]
pub(super) struct View {
    pub(super) name: String,
    pub(super) service: Arc<str>,
    /// Of metrics of states there is none.
    pub(super) event_type: Option<Arc<str>>,
    pub(super) metric: Arc<Metric>,
    pub(super) field: CellField,
    pub(super) kind: ViewKind,
}

/// The views whose names satisfy the matchers, sorted by name. Metrics that were replaced have
/// views, too: what they counted stays a part of the series.
pub(super) fn matching_views(registry: &Registry, matchers: &[Matcher]) -> Vec<View> {
    let is_wanted = |label: &str, value: &str| {
        let mut of_label = matchers.iter().filter(|matcher| matcher.name() == label);
        of_label.all(|matcher| matcher.matches(value))
    };
    let mut views = Vec::new();
    for (service_name, service) in &registry.services {
        if !is_wanted("service", service_name) {
            continue;
        }
        let service_name: Arc<str> = service_name.as_str().into();
        let mut add = |event_type: Option<&Arc<str>>, metric: &Arc<Metric>| {
            each_name(metric, |name, field, kind| {
                if is_wanted(METRIC_NAME, &name) {
                    views.push(View {
                        name,
                        service: Arc::clone(&service_name),
                        event_type: event_type.cloned(),
                        metric: Arc::clone(metric),
                        field,
                        kind,
                    });
                }
            });
        };
        for (type_name, event_type) in &service.types {
            if is_wanted("event_type", type_name) {
                let type_name = type_name.as_str().into();
                let metrics = event_type.metrics.iter().chain(&event_type.retired);
                metrics.for_each(|metric| add(Some(&type_name), metric));
            }
        }
        if let Some(states) = &service.state_metrics
            && is_wanted("event_type", "")
        {
            add(None, &states.counts);
            add(None, &states.transitions);
        }
    }
    views.sort_by(|a, b| a.name.cmp(&b.name));
    views
}

/// All names of a metric's series.
pub(super) fn each_name(metric: &Metric, mut each: impl FnMut(String, CellField, ViewKind)) {
    let series = &metric.series;
    let fields: &[(&str, CellField)] = match metric.kind {
        MetricKind::Counter { .. } => &[("", CellField::Total)],
        MetricKind::Histogram { .. } => &[
            ("_bucket", CellField::Buckets),
            ("_sum", CellField::HistogramSum),
            ("_count", CellField::HistogramCount),
        ],
        MetricKind::Gauge { .. } => &[("", CellField::Value)],
    };
    for (suffix, field) in fields {
        let plain = match field {
            CellField::Total => total_name(series),
            _ => format!("{series}{suffix}"),
        };
        let kind = match field {
            CellField::Value => ViewKind::Latest,
            _ => ViewKind::Cumulative,
        };
        each(plain, *field, kind);
        for window in metric.windows() {
            let name = format!("{series}{suffix}:{}", window.code());
            each(name, *field, ViewKind::EachCell(window));
        }
    }
}

/// `orders_total`, with one suffix.
pub(super) fn total_name(series: &str) -> String {
    if series.ends_with("_total") {
        series.to_owned()
    } else {
        format!("{series}_total")
    }
}
