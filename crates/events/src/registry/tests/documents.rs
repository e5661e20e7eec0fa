//! What documents say.

use icecore_model::event::{EventWindow, Reducer};

use super::*;
use crate::Scalar;

/// The one metric of a spec, of an event without a schema.
#[track_caller]
fn metric(kind: &str, spec: &str) -> Arc<Metric> {
    let text = format!(
        "kind: Event\nmetadata: {{service: s, name: e}}\n---\n\
         kind: {kind}\nmetadata: {{service: s, event: e, name: m}}\nspec: {spec}\n"
    );
    registry(&text)
        .service("s")
        .unwrap()
        .metric("m")
        .unwrap()
        .1
        .clone()
}

fn bounds(spec: &str) -> Vec<f64> {
    match &metric("MetricHistogram", spec).kind {
        MetricKind::Histogram { bounds, .. } => bounds.to_vec(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_specified_event_is_read() {
    let registry = registry(ORDER_PLACED);
    assert_eq!(registry.version, 1);
    let event_type = registry.event_type("shop", "order.placed").unwrap();
    assert_eq!(event_type.display_name.as_deref(), Some("Order placed"));
    assert_eq!(event_type.labels["category"], "sales");
    assert_eq!(event_type.retention, days(30));
    let field = |path: &str, kind, required, indexed| Field {
        path: path.into(),
        kind,
        required,
        indexed,
    };
    assert_eq!(
        event_type.fields,
        [
            field("customer.email", FieldType::String, false, false),
            field("customer.id", FieldType::String, false, true),
            field("order.channel", FieldType::String, true, true),
            field("order.items", FieldType::Integer, false, true),
            field("order.total", FieldType::Number, false, false),
        ]
    );
    assert_eq!(event_type.objects, ["customer", "order"]);
    let dimensions = ["order.channel", "order.items", "customer.id"];
    assert_eq!(event_type.dimensions, dimensions);
    assert_eq!(event_type.mask("customer.email"), Some(Mask::Drop));
    assert_eq!(event_type.mask("customer.id"), Some(Mask::Hash));
    assert_eq!(event_type.mask("customer"), None);
    let [stored] = &event_type.metrics[..] else {
        panic!("{:?}", event_type.metrics);
    };
    assert_eq!(stored.name, "events_stored_total");
    assert_eq!(stored.series_names(), ["events_stored_total"]);
    assert_eq!(stored.dimensions[0].label, "outcome");
    assert!(stored.built_in);
}

#[test]
fn the_specified_metrics_are_read() {
    let registry = registry(&spec_stream());
    let service = registry.service("shop").unwrap();
    let (event_type, orders) = service.metric("orders").unwrap();
    assert_eq!(event_type.name, "order.placed");
    assert_eq!(orders.kind, MetricKind::Counter { sum_of: None });
    assert_eq!(orders.series_names(), ["orders_total"]);
    assert_eq!(orders.dimensions[0].label, "order_channel");
    assert_eq!(orders.on_missing, OnMissing::Skip);
    assert_eq!(orders.retention, WindowRetention::all(days(90)));
    assert_eq!(orders.windows().count(), 5);
    let filter = Filter {
        path: "order.items".into(),
        comparison: Comparison::GreaterOrEqual(1.0),
    };
    assert_eq!(orders.filters, [filter]);

    let latency = service.metric("order_latency_ms").unwrap().1;
    assert_eq!(
        latency.kind,
        MetricKind::Histogram {
            value: Some("order.latency_ms".into()),
            bounds: [10.0, 20.0, 50.0, 100.0, 250.0, 1000.0].into(),
            sketch: None,
            percentiles: vec![0.5, 0.9, 0.95, 0.99],
        }
    );
    let of = |window| latency.retention.of(window);
    let retention = EventWindow::ALL.map(of);
    assert_eq!(retention, [7, 30, 400, 1830, 1830].map(days));
    let suffixes = ["bucket", "sum", "count"];
    let series = suffixes.map(|suffix| format!("order_latency_ms_{suffix}"));
    assert_eq!(latency.series_names(), series);

    let stock = service.metric("stock_level").unwrap().1;
    assert_eq!(
        stock.kind,
        MetricKind::Gauge {
            value: "stock.level".into(),
            reducer: Reducer::Latest,
            observed_at: Some("stock.seen_at".into()),
        }
    );
    let numbers: Vec<u32> = registry.metrics().map(|metric| metric.number).collect();
    assert_eq!(numbers, [1, 3, 2, 4, 5, 6]);
}

#[test]
fn states_are_read_from_a_file_and_from_a_stream() {
    let file = registry(STATES);
    let indented: String = STATES.lines().skip(1).map(|l| format!("  {l}\n")).collect();
    let document = format!("kind: StateExtractors\nmetadata: {{service: shop}}\nspec:\n{indented}");
    assert_eq!(registry(&document), file);
    let service = file.service("shop").unwrap();
    let expected = StateExtractor {
        event_type: "order.updated".into(),
        object_type: "Order".into(),
        object_id: "order.id".into(),
        attributes: vec!["order.status".into()],
        previous: PreviousStates::Additional(vec!["NEW".into()]),
    };
    assert_eq!(service.states, [expected]);
    assert!(service.state_metrics.is_some());
    let only = STATES.replace("{ additional: [NEW] }", "{ only: ['?', '*', X] }");
    let previous = &registry(&only).service("shop").unwrap().states[0]
        .previous
        .clone();
    let tokens = ["?", "*", "X"].map(str::to_owned).to_vec();
    assert_eq!(*previous, PreviousStates::Only(tokens));
    let none = registry("service: shop\nstateExtractors: []\n");
    assert!(none.service("shop").unwrap().state_metrics.is_none());
}

#[test]
fn buckets_follow_their_formulas() {
    assert_eq!(bounds("{}").len(), 14);
    assert_eq!(bounds("{buckets: {}}")[..3], [5.0, 10.0, 25.0]);
    assert_eq!(
        bounds("{buckets: {bounds: [-1, 0, 2.5]}}"),
        [-1.0, 0.0, 2.5]
    );
    let fixed = bounds("{buckets: {strategy: fixed, count: 4, min: 0, max: 100}}");
    assert_eq!(fixed, [25.0, 50.0, 75.0, 100.0]);
    let log = bounds("{buckets: {strategy: log, count: 3, min: 1, max: 1000}}");
    let expected = [1.0, 10.0, 100.0, 1000.0];
    assert_eq!(log.len(), 4);
    for (bound, expected) in log.iter().zip(expected) {
        assert!((bound - expected).abs() < 1e-9 * expected, "{log:?}");
    }
    assert_eq!(log[3], 1000.0);
}

#[test]
fn everything_else_of_a_metric_is_read() {
    let counter = metric(
        "MetricCounter",
        "{key: {dimensions: [a.b], dynamic: [c, band]}, attributeMapping: {x: a.b}, onMissing: empty,
          rollup: {operation: sum, value: v, windowing: {granularities: [1m, 1h]},
                   retention: {5s: 1d, 7d: 9w}},
          retention: {ttl: 2d},
          filters: [{path: p, op: eq, value: '1'}, {path: p, op: ne, value: 1},
                    {path: p, op: in, value: [true, x, 1.5]}, {path: p, op: lt, value: -2}],
          fold: {sourceAttribute: s, foldedAttribute: band,
                 rules: [{when: {gte: 500, lt: 600}, output: 5xx}, {output: other}]}}",
    );
    let labels: Vec<&str> = counter.dimensions.iter().map(|d| &*d.label).collect();
    assert_eq!(labels, ["x", "c", "band"]);
    assert_eq!(counter.on_missing, OnMissing::Empty);
    assert_eq!(
        counter.kind,
        MetricKind::Counter {
            sum_of: Some("v".into())
        }
    );
    assert_eq!(counter.base, EventWindow::Minute);
    assert_eq!(counter.windows().count(), 4);
    let retention = EventWindow::ALL.map(|window| counter.retention.of(window));
    assert_eq!(retention, [1, 2, 2, 2, 63].map(days));
    let comparisons: Vec<_> = counter
        .filters
        .iter()
        .map(|f| f.comparison.clone())
        .collect();
    let text = |text: &'static str| Scalar::Text(text.into());
    assert_eq!(
        comparisons,
        [
            Comparison::Equal(text("1")),
            Comparison::NotEqual(Scalar::Integer(1)),
            Comparison::In(vec![Scalar::Boolean(true), text("x"), Scalar::Number(1.5)]),
            Comparison::Less(-2.0),
        ]
    );
    let fold = counter.fold.clone().unwrap();
    let rule = |from, below, output: &str| FoldRule {
        from,
        below,
        output: output.into(),
    };
    let rules = [
        rule(Some(500.0), Some(600.0), "5xx"),
        rule(None, None, "other"),
    ];
    assert_eq!(fold.rules, rules);

    let sketch = metric("MetricHistogram", "{sketch: {kind: ddsketch}}");
    let MetricKind::Histogram { sketch, value, .. } = &sketch.kind else {
        panic!("{sketch:?}");
    };
    assert_eq!(sketch.unwrap().relative_accuracy, 0.01);
    assert_eq!(*value, None);
    let gauge = metric("MetricGauge", "{value: v, reducer: max}");
    assert!(matches!(
        gauge.kind,
        MetricKind::Gauge {
            reducer: Reducer::Max,
            ..
        }
    ));
}

#[test]
fn all_of_a_service_is_one_json_document() {
    let json = r#"{
      "service": "shop", "snapshotId": "7", "createdAt": "2026-11-09T10:00:00Z",
      "defaults": {"retention": {"ttl": "14d"}, "rollup": {"retention": {"5s": "1d"}}},
      "events": [
        {"metadata": {"name": "order.placed"},
         "spec": {"schema": {"properties": {"a": {"type": "string", "index": true},
                                            "l": {"type": "array", "items": {"type": "integer"}}}}},
         "metrics": [
           {"kind": "MetricCounter", "metadata": {"name": "orders"},
            "spec": {"key": {"dimensions": ["a"]}}},
           {"kind": "MetricGauge", "metadata": {"name": "g"}, "spec": {"value": "v"}}]}],
      "stateExtractors": [{"rawType": "order.placed", "objectType": "O", "objectIdField": "a",
                           "stateAttributes": ["b"]}]
    }"#;
    let registry = registry(json);
    let service = registry.service("shop").unwrap();
    let event_type = &service.types["order.placed"];
    assert_eq!(event_type.retention, days(14));
    assert_eq!(
        event_type.field("l").unwrap().kind,
        FieldType::ArrayOfInteger
    );
    assert_eq!(event_type.dimensions, ["a"]);
    let names: Vec<&str> = event_type.metrics.iter().map(|m| &*m.name).collect();
    assert_eq!(names, ["events_stored_total", "g", "orders"]);
    let orders = service.metric("orders").unwrap().1;
    assert_eq!(orders.retention.of(EventWindow::FiveSeconds), days(1));
    assert_eq!(service.states.len(), 1);
    let states = service.state_metrics.as_ref().unwrap();
    assert_eq!(
        states.transitions.retention.of(EventWindow::FiveSeconds),
        days(1)
    );
    // Without the key nothing is said of states.
    let changed = with(&registry, r#"{"service": "shop", "events": []}"#);
    assert_eq!(changed, registry);
}

#[test]
fn dotted_and_nested_names_are_the_same_path() {
    let schema = |properties: &str| {
        let text = format!(
            "kind: Event\nmetadata: {{service: s, name: e}}\n\
             spec: {{schema: {{properties: {properties}}}}}\n"
        );
        registry(&text).event_type("s", "e").unwrap().clone()
    };
    let dotted = schema("{http.status: {type: integer, index: true}}");
    let nested = schema("{http: {properties: {status: {type: integer, index: true}}}}");
    assert_eq!(dotted, nested);
    assert_eq!(dotted.objects, ["http"]);
    let required = schema("{http: {required: [status], properties: {status: {type: integer}}}}");
    assert!(required.field("http.status").unwrap().required);
}
