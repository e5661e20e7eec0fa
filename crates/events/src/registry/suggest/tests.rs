use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::registry::{Documents, Registry, UpdateOptions};

fn sample(index: usize) -> Value {
    let channel = ["web", "app"][index % 2];
    json!({
        "event": {"name": "order.placed"},
        "resource": {"service": {"id": "shop"}},
        "time": {"startedAt": "2026-11-09T10:00:01Z", "endedAt": "2026-11-09T10:00:02Z"},
        "attributes": {
            "order": {"channel": channel, "items": index, "total": 1.5},
            "customer": {"id": format!("c-{}", index % 3), "email": format!("{index}@example.org")},
            "stock.level": 17 + index * 3,
            "seen_at": "2026-11-09T10:00:01Z",
            "tags": ["a", "b"],
            "mixed": if index.is_multiple_of(2) { json!(1) } else { json!("x") },
            "express": true,
        },
        "events": [{"name": "Payment  Done", "attributes": {"provider": "p1"}}],
    })
}

#[track_caller]
fn suggested(samples: &str) -> (String, Registry) {
    let text = suggest(samples).unwrap();
    let documents = Documents::parse_yaml(&text);
    let documents = documents.unwrap_or_else(|faults| panic!("{text}\n{faults:#?}"));
    let registry = Registry::default().with(&documents, UpdateOptions::default());
    let registry = registry.unwrap_or_else(|problem| panic!("{text}\n{problem}"));
    (text, registry)
}

#[test]
fn a_registry_is_guessed_from_samples() {
    let samples: Vec<Value> = (0..10).map(sample).collect();
    let array = serde_json::to_string(&samples).unwrap();
    let (text, registry) = suggested(&array);
    let lines: Vec<String> = samples.iter().map(ToString::to_string).collect();
    assert_eq!(suggest(&lines.join("\n")).unwrap(), text);

    let order = registry.event_type("shop", "order.placed").unwrap();
    let kind = |path: &str| order.field(path).map(|field| field.kind);
    assert_eq!(kind("order.channel"), Some(FieldType::String));
    assert_eq!(kind("order.items"), Some(FieldType::Integer));
    assert_eq!(kind("order.total"), Some(FieldType::Number));
    assert_eq!(kind("seen_at"), Some(FieldType::Timestamp));
    assert_eq!(kind("tags"), Some(FieldType::ArrayOfString));
    assert_eq!(kind("mixed"), None);
    assert_eq!(order.dimensions, ["express", "order.channel"]);
    assert!(order.field("customer.id").unwrap().indexed);
    assert!(!order.field("customer.email").unwrap().indexed);
    let names: Vec<&str> = order.metrics.iter().map(|metric| &*metric.name).collect();
    let expected = [
        "events_stored_total",
        "order_placed",
        "order_placed_duration_ms",
        "stock_level",
    ];
    assert_eq!(names, expected);
    assert!(registry.event_type("shop", "payment_done").is_some());
    for comment in [
        "# 10 samples of order.placed\n",
        "# customer.email may be personal",
        "# \"mixed\" is left out",
        "# all samples have: customer.email",
    ] {
        assert!(text.contains(comment), "{comment}\n{text}");
    }
}

#[test]
fn names_that_would_clash_are_told_apart() {
    let event = |name: &str, attributes: Value| json!({"event": {"name": name}, "resource": {"service.name": "s"}, "attributes": attributes});
    let samples = json!([
        event(
            "a.b",
            json!({"x.level": 1, "service": true, "p.q": true, "p_q": false})
        ),
        event("a_b", json!({"x.level": 1, "x": 2})),
        event("events_stored", json!({})),
    ]);
    let (text, registry) = suggested(&samples.to_string());
    let service = registry.service("s").unwrap();
    for name in ["a_b", "a_b_2", "x_level", "x_level_2", "events_stored_2"] {
        assert!(service.metric(name).is_some(), "{name}\n{text}");
    }
}

#[test]
fn what_is_no_sample_is_refused_with_its_place() {
    for (samples, reason) in [
        ("", "there are no samples"),
        ("[]", "there are no samples"),
        ("{\"event\": 5", "line 1: EOF"),
        ("\n{}", "line 2: it has no resource.service.id"),
        (
            r#"[{"resource": {"service.id": "s"}}]"#,
            "sample 0: it has no event.name",
        ),
    ] {
        let problem = suggest(samples).unwrap_err();
        assert_eq!(problem.code, "config.invalid");
        assert!(problem.detail.starts_with(reason), "{problem}");
    }
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3..3_i64).prop_map(Value::from),
        (-2.0..2.0_f64).prop_map(Value::from),
        "\\PC{0,4}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::Array),
            proptest::collection::hash_map("[a-c.]{1,3}|level|id|\\PC{1,3}|le", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn suggestions_pass_every_check(
        events in proptest::collection::vec(("[a-c._]{1,3}|\\PC{1,4}", any_value(), any_value()), 1..8),
    ) {
        let samples = events.into_iter().map(|(name, attributes, nested)| json!({
            "event": {"name": name.trim()}, "resource": {"service": {"id": "s"}},
            "endUnixNano": 5, "attributes": attributes, "events": [{"attributes": nested}],
        }));
        let samples: Vec<Value> = samples.filter(|s| s["event"]["name"] != "").collect();
        if !samples.is_empty() {
            suggested(&Value::Array(samples).to_string());
        }
    }
}
