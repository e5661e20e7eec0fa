//! A registry as documents again.
//!
//! Holds always: what is rendered reads back as the same registry. Everything is said, defaults
//! included, so that a change of a default changes no registry that is there.

use serde_json::{Map, Value, json};

use icecore_model::event::{EventWindow, Reducer};
use icecore_settings::duration;

use super::document::API_VERSION;
use super::{
    Comparison, EventType, Field, Fold, FoldRule, Mask, Metric, MetricKind, OnMissing,
    PreviousStates, Registry, Service, StateExtractor, names, yaml_out,
};
use crate::Scalar;

impl Registry {
    /// The documents of a service as a stream of YAML. `None` if there is no such service.
    pub fn service_yaml(&self, service: &str) -> Option<String> {
        let known = self.services.get(service)?;
        let mut documents = Vec::new();
        for event_type in known.types.values() {
            documents.push(event(event_type));
            let own = event_type.metrics.iter().filter(|metric| !metric.built_in);
            documents.extend(own.map(|m| metric(service, &event_type.name, m)));
        }
        documents.extend(states(service, known));
        let documents: Vec<String> = documents.iter().map(yaml_out::document).collect();
        Some(documents.join("---\n"))
    }

    /// All documents as a stream of YAML.
    pub fn to_yaml(&self) -> String {
        let services = self.services.keys();
        let streams: Vec<String> = services
            .filter_map(|service| self.service_yaml(service))
            .filter(|stream| !stream.is_empty())
            .collect();
        streams.join("---\n")
    }

    /// All of a service in one JSON document. `None` if there is no such service.
    pub fn service_json(&self, service: &str) -> Option<Value> {
        let known = self.services.get(service)?;
        let events = known.types.values().map(|event_type| {
            let own = event_type.metrics.iter().filter(|metric| !metric.built_in);
            let metrics: Vec<Value> = own.map(|m| metric(service, &event_type.name, m)).collect();
            let mut document = event(event_type);
            document["metrics"] = Value::Array(metrics);
            document
        });
        let events: Vec<Value> = events.collect();
        let extractors: Vec<Value> = known.states.iter().map(extractor).collect();
        let mut document = json!({
            "service": service,
            "snapshotId": self.version.to_string(),
            "events": events,
            "stateExtractors": extractors,
        });
        if let Some(metrics) = &known.state_metrics {
            document["stateRetention"] = windows(&metrics.counts);
        }
        Some(document)
    }
}

/// A document of the kind `Event`.
pub(super) fn event(event_type: &EventType) -> Value {
    let mut metadata = Map::new();
    metadata.insert("service".into(), json!(event_type.service));
    metadata.insert("name".into(), json!(event_type.name));
    if let Some(display_name) = &event_type.display_name {
        metadata.insert("displayName".into(), json!(display_name));
    }
    if !event_type.labels.is_empty() {
        metadata.insert("labels".into(), json!(event_type.labels));
    }
    let mut spec = Map::new();
    let ttl = duration::show(&event_type.retention);
    spec.insert("retention".into(), json!({ "ttl": ttl }));
    spec.insert("schema".into(), schema(event_type));
    spec.insert("dimensions".into(), json!(event_type.dimensions));
    if !event_type.masking.is_empty() {
        let rules = event_type.masking.iter().map(|rule| {
            let action = match rule.mask {
                Mask::Drop => "drop",
                Mask::Hash => "hash",
            };
            json!({"path": rule.path, "action": action})
        });
        spec.insert("masking".into(), rules.collect());
    }
    document("Event", metadata, spec)
}

/// A document of a metric.
pub(super) fn metric(service: &str, event: &str, metric: &Metric) -> Value {
    let mut metadata = Map::new();
    metadata.insert("service".into(), json!(service));
    metadata.insert("event".into(), json!(event));
    metadata.insert("name".into(), json!(metric.name));

    let paths: Vec<&str> = metric.dimensions.iter().map(|d| d.path.as_str()).collect();
    let aliases = metric.dimensions.iter();
    let aliases = aliases.filter(|d| names::label_of(&d.path) != d.label);
    let aliases: Map<String, Value> = aliases.map(|d| (d.label.clone(), json!(d.path))).collect();
    let on_missing = match metric.on_missing {
        OnMissing::Skip => "skip",
        OnMissing::Empty => "empty",
    };
    let granularities: Vec<&str> = metric.windows().map(EventWindow::code).collect();

    let mut spec = Map::new();
    spec.insert("key".into(), json!({ "dimensions": paths }));
    if !aliases.is_empty() {
        spec.insert("attributeMapping".into(), aliases.into());
    }
    spec.insert("onMissing".into(), json!(on_missing));
    if !metric.filters.is_empty() {
        let filters = metric.filters.iter();
        let filters = filters.map(|filter| comparison(&filter.path, &filter.comparison));
        spec.insert("filters".into(), filters.collect());
    }
    if let Some(rules) = &metric.fold {
        spec.insert("fold".into(), fold(rules));
    }
    let mut rollup = Map::new();
    rollup.insert(
        "windowing".into(),
        json!({ "granularities": granularities }),
    );
    rollup.insert("retention".into(), windows(metric));
    let kind = put_kind(&metric.kind, &mut spec, &mut rollup);
    spec.insert("rollup".into(), rollup.into());
    document(kind, metadata, spec)
}

fn put_kind(
    kind: &MetricKind,
    spec: &mut Map<String, Value>,
    rollup: &mut Map<String, Value>,
) -> &'static str {
    match kind {
        MetricKind::Counter { sum_of } => {
            let operation = if sum_of.is_some() { "sum" } else { "count" };
            rollup.insert("operation".into(), json!(operation));
            if let Some(path) = sum_of {
                spec.insert("value".into(), json!(path));
            }
            "MetricCounter"
        }
        MetricKind::Histogram {
            value,
            bounds,
            sketch,
            percentiles,
        } => {
            if let Some(path) = value {
                spec.insert("value".into(), json!(path));
            }
            let bounds: Vec<Value> = bounds.iter().map(|bound| number(*bound)).collect();
            let buckets = json!({"strategy": "custom", "bounds": bounds});
            spec.insert("buckets".into(), buckets);
            if let Some(sketch) = sketch {
                let accuracy = number(sketch.relative_accuracy);
                let sketch = json!({"kind": "ddsketch", "relativeAccuracy": accuracy});
                spec.insert("sketch".into(), sketch);
            }
            if !percentiles.is_empty() {
                let percentiles = percentiles.iter().map(|q| number(*q));
                rollup.insert("percentiles".into(), percentiles.collect());
            }
            "MetricHistogram"
        }
        MetricKind::Gauge {
            value,
            reducer,
            observed_at,
        } => {
            let reducer = match reducer {
                Reducer::Latest => "latest",
                Reducer::Min => "min",
                Reducer::Max => "max",
            };
            spec.insert("value".into(), json!(value));
            spec.insert("reducer".into(), json!(reducer));
            if let Some(path) = observed_at {
                spec.insert("observedAt".into(), json!(path));
            }
            "MetricGauge"
        }
    }
}

/// The retention of a metric by window.
fn windows(metric: &Metric) -> Value {
    let retention = EventWindow::ALL.into_iter().map(|window| {
        let kept = duration::show(&metric.retention.of(window));
        (window.code().to_owned(), json!(kept))
    });
    Value::Object(retention.collect())
}

/// A document of the kind `StateExtractors`, for a service that follows states or has done so.
pub(super) fn states(service: &str, known: &Service) -> Option<Value> {
    let metrics = known.state_metrics.as_ref()?;
    let metadata = Map::from_iter([("service".to_owned(), json!(service))]);
    let extractors: Vec<Value> = known.states.iter().map(extractor).collect();
    let spec = Map::from_iter([
        ("stateExtractors".to_owned(), Value::Array(extractors)),
        (
            "rollup".to_owned(),
            json!({ "retention": windows(&metrics.counts) }),
        ),
    ]);
    Some(document("StateExtractors", metadata, spec))
}

fn document(kind: &str, metadata: Map<String, Value>, spec: Map<String, Value>) -> Value {
    json!({"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec})
}

/// The tree of properties.
fn schema(event_type: &EventType) -> Value {
    let mut root = json!({"type": "object", "properties": {}});
    let objects = event_type.objects.iter();
    let objects = objects.map(|path| (path, json!({"type": "object", "properties": {}})));
    let fields = event_type.fields.iter();
    let fields = fields.map(|field| (&field.path, property(field)));
    // Objects come before what is in them, because their paths are shorter.
    for (path, value) in objects.chain(fields) {
        let mut at = &mut root;
        for name in path.split('.') {
            at = &mut at["properties"][name];
        }
        *at = value;
    }
    let required = event_type.fields.iter().filter(|field| field.required);
    let required: Vec<&str> = required.map(|field| field.path.as_str()).collect();
    if !required.is_empty() {
        root["required"] = json!(required);
    }
    root
}

fn property(field: &Field) -> Value {
    let mut property = json!({"type": field.kind.word()});
    if field.kind.is_list() {
        property = json!({"type": "array", "items": property});
    }
    if field.indexed {
        property["index"] = json!(true);
    }
    property
}

fn comparison(path: &str, comparison: &Comparison) -> Value {
    let (op, value) = match comparison {
        Comparison::Equal(value) => ("eq", scalar(value)),
        Comparison::NotEqual(value) => ("ne", scalar(value)),
        Comparison::Greater(value) => ("gt", number(*value)),
        Comparison::GreaterOrEqual(value) => ("gte", number(*value)),
        Comparison::Less(value) => ("lt", number(*value)),
        Comparison::LessOrEqual(value) => ("lte", number(*value)),
        Comparison::In(values) => ("in", values.iter().map(scalar).collect()),
    };
    json!({"path": path, "op": op, "value": value})
}

fn scalar(scalar: &Scalar<'_>) -> Value {
    match scalar {
        Scalar::Text(text) => json!(text),
        Scalar::Integer(integer) => json!(integer),
        Scalar::Number(number) => json!(number),
        Scalar::Boolean(boolean) => json!(boolean),
    }
}

/// Without a fraction where there is none.
fn number(number: f64) -> Value {
    // Up to here every whole number is one that a double has.
    const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;
    if number.fract() == 0.0 && number.abs() <= WHOLE_MAX {
        json!(number as i64)
    } else {
        json!(number)
    }
}

fn fold(fold: &Fold) -> Value {
    let rules = fold.rules.iter().map(|rule| {
        let FoldRule {
            from,
            below,
            output,
        } = rule;
        let mut when = Map::new();
        when.extend(from.map(|from| ("gte".to_owned(), number(from))));
        when.extend(below.map(|below| ("lt".to_owned(), number(below))));
        json!({"when": when, "output": output})
    });
    let rules: Vec<Value> = rules.collect();
    json!({"sourceAttribute": fold.source, "foldedAttribute": fold.target, "rules": rules})
}

fn extractor(extractor: &StateExtractor) -> Value {
    let mut value = json!({
        "rawType": extractor.event_type,
        "objectType": extractor.object_type,
        "objectIdField": extractor.object_id,
        "stateAttributes": extractor.attributes,
    });
    match &extractor.previous {
        PreviousStates::Latest => {}
        PreviousStates::Additional(states) => {
            value["transitionPolicy"] = json!({ "additional": states });
        }
        PreviousStates::Only(states) => value["transitionPolicy"] = json!({ "only": states }),
    }
    value
}
