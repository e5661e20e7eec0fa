//! Documents of the kinds `MetricCounter`, `MetricHistogram` and `MetricGauge`: what they share,
//! counters and gauges.

use icecore_model::event::{EventWindow, Reducer};
use icecore_settings::{Fields, Spanned, Value};

use super::{
    Body, Inherited, checked_text, filter, histogram, names, optional_path, read_event_name,
    read_service, read_ttl, required_map,
};
use crate::registry::{Dimension, Metric, MetricKind, OnMissing, WindowRetention};

/// A series has few labels; more are a mistake.
const DIMENSIONS_MAX: usize = 32;

/// Reads the metadata and the spec. `None` only where a problem was reported.
pub(super) fn read(fields: &mut Fields<'_>, kind: &str, inherited: &Inherited) -> Option<Body> {
    let names =
        required_map(fields, "metadata").and_then(|metadata| read_names(metadata, inherited));
    // A counter of all events needs no more than its name.
    let spec = if kind == "MetricCounter" && fields.node("spec").is_none() {
        None
    } else {
        Some(required_map(fields, "spec")?)
    };
    let mut metric = Metric {
        number: 0,
        name: String::new(),
        series: String::new(),
        built_in: false,
        dimensions: Vec::new(),
        on_missing: OnMissing::Skip,
        filters: Vec::new(),
        fold: None,
        base: EventWindow::FiveSeconds,
        retention: inherited.window_retention,
        kind: MetricKind::Counter { sum_of: None },
    };
    if let Some(spec) = spec {
        read_spec(spec, kind, &mut metric)?;
    }
    let (service, event, name) = names?;
    metric.series = names::series_of(&name);
    metric.name = name;
    Some(Body::Metric {
        service,
        event,
        metric,
    })
}

fn read_names(mut metadata: Fields<'_>, inherited: &Inherited) -> Option<(String, String, String)> {
    let service = read_service(&mut metadata, inherited);
    let event = read_event_name(&mut metadata, inherited);
    let name = checked_text(&mut metadata, "name", names::check_metric_name);
    metadata.finish();
    Some((service?, event?, name?))
}

fn read_spec(mut spec: Fields<'_>, kind: &str, metric: &mut Metric) -> Option<()> {
    metric.dimensions = read_dimensions(&mut spec);
    metric.on_missing = read_on_missing(&mut spec);
    metric.filters = filter::read_filters(&mut spec);
    metric.fold = filter::read_fold(&mut spec);
    if let Some(ttl) = read_ttl(&mut spec) {
        metric.retention = WindowRetention::all(ttl);
    }
    let mut rollup = spec.map("rollup");
    if let Some(rollup) = &mut rollup {
        metric.base = read_base(rollup);
        read_retention(rollup, &mut metric.retention);
    }
    let read = match kind {
        "MetricHistogram" => histogram::read(&mut spec, rollup.as_mut()),
        "MetricGauge" => read_gauge(&mut spec),
        _ => read_counter(&mut spec, rollup.as_mut()),
    };
    if let Some(rollup) = rollup {
        rollup.finish();
    }
    spec.finish();
    metric.kind = read?;
    Some(())
}

/// `key: {dimensions, dynamic}` with the aliases of `attributeMapping`.
fn read_dimensions(spec: &mut Fields<'_>) -> Vec<Dimension> {
    let aliases = spec.free_map("attributeMapping");
    let mapping_path = spec.path_of("attributeMapping");
    let mut dimensions: Vec<Dimension> = Vec::new();
    if let Some(mut key) = spec.map("key") {
        for list in ["dimensions", "dynamic"] {
            let subject = key.path_of(list);
            for (index, path) in key.spanned_texts(list).into_iter().enumerate() {
                let subject = format!("{subject}[{index}]");
                add_dimension(&mut dimensions, path, &subject, &key);
            }
        }
        if dimensions.len() > DIMENSIONS_MAX {
            spec.report("key", format!("has more than {DIMENSIONS_MAX} dimensions"));
        }
        key.finish();
    }
    let mut with_alias: Vec<&str> = Vec::new();
    for entry in aliases {
        let subject = format!("{mapping_path}.{}", entry.key);
        let report = |at, reason: String| spec.source.report(at, &subject, reason);
        if let Err(reason) = names::check_label(&entry.key) {
            report(entry.key_at, format!("{:?} {reason}", entry.key));
        }
        let Value::Scalar { text: path, .. } = &entry.node.value else {
            report(entry.node.at, "expected the path of a dimension".into());
            continue;
        };
        if with_alias.contains(&path.as_str()) {
            report(entry.node.at, format!("{path:?} has another alias"));
        }
        with_alias.push(path);
        match dimensions.iter_mut().find(|known| known.path == *path) {
            Some(dimension) => dimension.label = entry.key.clone(),
            None => report(entry.node.at, format!("{path:?} is no dimension")),
        }
    }
    report_equal_labels(&dimensions, spec);
    dimensions
}

fn add_dimension(
    dimensions: &mut Vec<Dimension>,
    path: Spanned<String>,
    subject: &str,
    key: &Fields<'_>,
) {
    if let Err(reason) = names::check_path(&path.value) {
        key.source.report(path.at, subject, reason);
    }
    if dimensions.iter().any(|known| known.path == path.value) {
        let reason = format!("{:?} is given twice", path.value);
        key.source.report(path.at, subject, reason);
        return;
    }
    let label = names::label_of(&path.value);
    let path = path.value;
    dimensions.push(Dimension { path, label });
}

fn report_equal_labels(dimensions: &[Dimension], spec: &Fields<'_>) {
    for (index, dimension) in dimensions.iter().enumerate() {
        let Dimension { path, label } = dimension;
        let earlier = &dimensions[..index];
        if let Some(other) = earlier.iter().find(|other| other.label == *label) {
            let reason = format!("{:?} and {path:?} both make the label {label}", other.path);
            spec.report("key", reason);
        }
        // Aliases were checked where they are written.
        if names::label_of(path) == *label
            && let Err(reason) = names::check_label(label)
        {
            let reason = format!("{path:?} {reason}; attributeMapping can name another");
            spec.report("key", reason);
        }
    }
}

fn read_on_missing(spec: &mut Fields<'_>) -> OnMissing {
    let word = spec.parsed("onMissing", |word| match word {
        "skip" => Ok(OnMissing::Skip),
        "empty" => Ok(OnMissing::Empty),
        _ => Err("skip or empty".into()),
    });
    word.unwrap_or(OnMissing::Skip)
}

/// `windowing: {granularities: [5s, …]}`: the finest of them.
fn read_base(rollup: &mut Fields<'_>) -> EventWindow {
    let default = EventWindow::FiveSeconds;
    let Some(mut windowing) = rollup.map("windowing") else {
        return default;
    };
    let subject = windowing.path_of("granularities");
    let mut finest = None;
    for (index, code) in windowing.spanned_texts("granularities").iter().enumerate() {
        match EventWindow::from_code(&code.value) {
            Some(window) => finest = finest.max(Some(std::cmp::Reverse(window))),
            None => {
                let codes = EventWindow::ALL.map(EventWindow::code).join(", ");
                let reason = format!("expected one of {codes}, found {:?}", code.value);
                let subject = format!("{subject}[{index}]");
                windowing.source.report(code.at, &subject, reason);
            }
        }
    }
    let base = finest.map_or(default, |std::cmp::Reverse(window)| window);
    if base > EventWindow::Minute {
        windowing.report("granularities", "the finest must be 5s or 1m");
    }
    windowing.finish();
    base
}

/// `retention: {5s: 7d, 1m: 30d, …}`.
pub(super) fn read_retention(rollup: &mut Fields<'_>, retention: &mut WindowRetention) {
    if let Some(windows) = rollup.map("retention") {
        read_windows(windows, retention);
    }
}

/// `{5s: 7d, 1m: 30d, …}`.
pub(super) fn read_windows(mut map: Fields<'_>, retention: &mut WindowRetention) {
    for window in EventWindow::ALL {
        if let Some(given) = super::read_positive_duration(&mut map, window.code()) {
            retention.set(window, given);
        }
    }
    map.finish();
}

/// `rollup: {operation: sum}` adds up `value`.
fn read_counter(spec: &mut Fields<'_>, rollup: Option<&mut Fields<'_>>) -> Option<MetricKind> {
    let value = optional_path(spec, "value");
    let Some(rollup) = rollup else {
        if value.is_some() {
            spec.report("value", "is only for `operation: sum`");
        }
        return Some(MetricKind::Counter { sum_of: None });
    };
    let operation = rollup.text("operation");
    let inner = optional_path(rollup, "value");
    if inner.is_some() && value.is_some() {
        rollup.report("value", "is given twice");
    }
    let value = value.or(inner);
    match operation.as_deref() {
        None | Some("count") => {
            if value.is_some() {
                rollup.report("operation", "a value is only for `operation: sum`");
            }
            Some(MetricKind::Counter { sum_of: None })
        }
        Some("sum") => {
            if value.is_none() {
                spec.report("value", "is missing: `operation: sum` adds it up");
            }
            Some(MetricKind::Counter {
                sum_of: Some(value?),
            })
        }
        Some(other) => {
            rollup.report(
                "operation",
                format!("expected count or sum, found {other:?}"),
            );
            None
        }
    }
}

fn read_gauge(spec: &mut Fields<'_>) -> Option<MetricKind> {
    let value = checked_text(spec, "value", names::check_path);
    let reducer = spec.parsed("reducer", |word| match word {
        "latest" => Ok(Reducer::Latest),
        "min" => Ok(Reducer::Min),
        "max" => Ok(Reducer::Max),
        _ => Err("latest, min or max".into()),
    });
    let observed_at = optional_path(spec, "observedAt");
    Some(MetricKind::Gauge {
        value: value?,
        reducer: reducer.unwrap_or(Reducer::Latest),
        observed_at,
    })
}
