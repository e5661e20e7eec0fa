//! Whole envelopes through the registry.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value as Json, json};

use super::*;
use crate::json_text::attributes_text;
use crate::time_text::parse_time;
use crate::{
    EventKind, Field, FieldType, Mask, MaskRule, Scalar, decode_events, dimension_hash,
    encode_events, nested_event_id, parse_envelope, parse_event_id,
};

const EXAMPLE: &str = r#"{
  "eventId": "0199a1c0-7d11-7a3e-9b44-0d8b1e6f2a01",
  "event":    { "name": "order.placed", "kind": "SERVER" },
  "resource": { "service": { "id": "shop", "version": "3.1.0" }, "host": { "name": "node-7" } },
  "trace":    { "traceId": "5b8aa5a2d2c872e8321cf37308d69df2", "spanId": "051581bf3cb55c13",
                "correlationId": "cart-778" },
  "time":     { "startedAt": "2026-11-09T10:00:01.250Z", "endedAt": "2026-11-09T10:00:01.310Z" },
  "status":   { "code": "OK" },
  "attributes": {
    "order":    { "channel": "web", "items": 3, "total": 41.5 },
    "customer": { "id": "c-19", "email": "a@example.org" },
    "stock.level": 17
  },
  "events": [
    { "name": "payment.authorised",
      "time": { "startedAt": "2026-11-09T10:00:01.270Z", "endedAt": "2026-11-09T10:00:01.300Z" },
      "attributes": { "payment": { "provider": "p1" } } }
  ]
}"#;

/// 2026-11-09T10:00:01.250Z
const STARTED_NS: i64 = 1_794_218_401_250_000_000;
const MS: i64 = 1_000_000;

fn field(path: &str, kind: FieldType, required: bool, indexed: bool) -> Field {
    Field {
        path: path.into(),
        kind,
        required,
        indexed,
    }
}

fn event_type(number: u32, name: &str, fields: Vec<Field>) -> EventType {
    EventType {
        number,
        service: "shop".into(),
        name: name.into(),
        display_name: None,
        labels: BTreeMap::new(),
        retention: Duration::from_secs(30 * 86_400),
        objects: Vec::new(),
        retired: Vec::new(),
        dimensions: Vec::new(),
        masking: Vec::new(),
        metrics: Vec::new(),
        fields,
    }
}

fn registry() -> Registry {
    let mut order = event_type(
        1,
        "order.placed",
        vec![
            field("customer.email", FieldType::String, false, false),
            field("customer.id", FieldType::String, false, true),
            field("order.channel", FieldType::String, true, true),
            field("order.items", FieldType::Integer, false, true),
            field("order.seen", FieldType::Timestamp, false, true),
            field("order.tags", FieldType::ArrayOfString, false, false),
            field("order.total", FieldType::Number, false, false),
            field("order.urgent", FieldType::Boolean, false, false),
        ],
    );
    order.dimensions = ["order.channel", "order.items", "customer.id", "order.seen"]
        .map(String::from)
        .to_vec();
    let rule = |path: &str, mask: Mask| MaskRule {
        path: path.into(),
        mask,
    };
    order.masking = vec![
        rule("customer.email", Mask::Drop),
        rule("customer.id", Mask::Hash),
    ];
    let mut payment = event_type(2, "payment.authorised", Vec::new());
    payment.masking = vec![rule("card", Mask::Drop)];
    payment.retention = Duration::from_secs(40 * 86_400);
    let types = [order, payment].map(|event_type| (event_type.name.clone(), Arc::new(event_type)));
    let service = Service {
        number: 9,
        types: BTreeMap::from(types),
        states: Vec::new(),
        state_metrics: None,
    };
    Registry {
        version: 4,
        next: crate::NextNumbers::default(),
        services: BTreeMap::from([("shop".into(), Arc::new(service))]),
    }
}

fn prepare_at(text: &str, now_ns: i64) -> Result<Prepared<'_>, Problem> {
    let key = MaskingKey::new(b"key");
    let ids = EventIdSource::with_seed(1, 2);
    let context = PrepareContext {
        now_ns,
        guarded_ns: now_ns,
        max_future_skew: Duration::from_secs(600),
        masking_key: Some(&key),
        ids: &ids,
    };
    prepare(parse_envelope(text.as_bytes())?, &registry(), &context)
}

fn family(text: &str) -> PreparedFamily<'_> {
    match prepare_at(text, STARTED_NS + 5).unwrap() {
        Prepared::Stored(family) => family,
        other => panic!("not stored: {other:?}"),
    }
}

/// The example with other values at JSON pointers.
fn example_with(changes: &[(&str, Json)]) -> String {
    let mut example: Json = serde_json::from_str(EXAMPLE).unwrap();
    for (pointer, value) in changes {
        let (outer, key) = pointer.rsplit_once('/').unwrap();
        example.pointer_mut(outer).unwrap()[key] = value.clone();
    }
    example.to_string()
}

#[test]
fn the_example_is_stored_with_what_follows_from_it() {
    let found = family(EXAMPLE);
    assert!(found.unconfigured.is_empty());
    let [parent, child] = &found.events[..] else {
        panic!("a parent and a child");
    };
    assert_eq!((parent.service, parent.event_type.number), (9, 1));
    let event = &parent.event;
    assert_eq!(
        Some(event.id),
        parse_event_id("0199a1c0-7d11-7a3e-9b44-0d8b1e6f2a01")
    );
    assert_eq!(
        (&*event.service, &*event.event_type, &*event.name),
        ("shop", "order.placed", "order.placed")
    );
    assert_eq!(
        (event.started_ns, event.received_ns),
        (STARTED_NS, STARTED_NS + 5)
    );
    assert_eq!(
        (event.ended_ns, event.duration_ns),
        (Some(STARTED_NS + 60 * MS), Some(60 * MS))
    );
    assert_eq!(
        (event.kind, &*event.outcome, event.parent),
        (Some(EventKind::Server), "SUCCESS", None)
    );
    assert_eq!((&event.error_code, &event.error_message), (&None, &None));
    assert_eq!(event.trace_id.map(|id| id[0]), Some(0x5b));
    assert_eq!(event.correlation_id.as_deref(), Some("cart-778"));
    let id = MaskingKey::new(b"key").hash("c-19");
    assert_eq!(
        attributes_text(&event.attributes),
        format!(
            r#"{{"customer":{{"id":"{id}"}},"order":{{"channel":"web","items":3,"total":41.5}},"stock":{{"level":17}}}}"#
        )
    );
    let dimensions = [
        ("order.channel", "web"),
        ("order.items", "3"),
        ("customer.id", &id),
    ];
    assert_eq!(event.dimensions, dimension_hash(dimensions));
    let rest: Json = serde_json::from_str(&event.rest).unwrap();
    let resource =
        json!({"service": {"id": "shop", "version": "3.1.0"}, "host": {"name": "node-7"}});
    assert_eq!(
        rest,
        json!({"resource": resource, "status": {"code": "OK"}})
    );

    assert_eq!(child.event_type.number, 2);
    let nested = &child.event;
    assert_eq!(
        (&*nested.event_type, nested.parent),
        ("payment.authorised", Some(event.id))
    );
    assert_eq!(
        nested.id,
        nested_event_id(event.id, 0, "payment.authorised", STARTED_NS + 20 * MS)
    );
    assert_eq!(nested.duration_ns, Some(30 * MS));
    assert_eq!(
        (nested.trace_id, nested.span_id),
        (event.trace_id, event.span_id)
    );
    assert_eq!(
        (nested.correlation_id.as_deref(), nested.kind),
        (Some("cart-778"), None)
    );
    assert_eq!((&*nested.outcome, &*nested.rest), ("UNKNOWN", ""));
    assert_eq!(nested.dimensions, dimension_hash([]));

    let events = found.events.iter().map(|prepared| &prepared.event);
    let block = encode_events(4, events.clone());
    let (version, read) = decode_events(&block).unwrap();
    assert_eq!(
        (version, read.iter().collect::<Vec<_>>()),
        (4, events.collect())
    );
}

#[test]
fn refused_events_have_their_codes() {
    let (missing, kind) = ("ingest.attribute-missing", "ingest.attribute-type");
    for (pointer, value, expected) in [
        (
            "/time/endedAt",
            json!("2026-11-09T10:00:01.249Z"),
            "ingest.invalid-time-range",
        ),
        (
            "/events/0/time/endedAt",
            json!("2026-11-09T10:00:01.249Z"),
            "ingest.invalid-time-range",
        ),
        (
            "/time/endedAt",
            json!("2026-11-09T10:10:01.260Z"),
            "ingest.timestamp-in-future",
        ),
        (
            "/time",
            json!({"startedAt": "2026-11-09T10:10:01.260Z"}),
            "ingest.timestamp-in-future",
        ),
        (
            "/time",
            json!({"startedAt": "2026-10-10T10:00:01.249Z"}),
            "ingest.outside-retention",
        ),
        (
            "/time",
            json!({"startedAt": "1969-12-31T23:59:59Z"}),
            "ingest.outside-retention",
        ),
        (
            "/events/0/time/startedAt",
            json!("2026-09-20T00:00:00Z"),
            "ingest.outside-retention",
        ),
        ("/attributes/order", json!({}), missing),
        ("/attributes/order/channel", json!(null), missing),
        ("/attributes/order/channel", json!(5), kind),
        ("/attributes/order/channel", json!(["web"]), kind),
        ("/attributes/order/channel", json!({"name": "web"}), kind),
        ("/attributes/order", json!("web"), kind),
        ("/attributes/order/items", json!("3"), kind),
        ("/attributes/order/items", json!(3.5), kind),
        ("/attributes/order/items", json!(1e19), kind),
        ("/attributes/order/total", json!("41.5"), kind),
        ("/attributes/order/total", json!(true), kind),
        ("/attributes/order/urgent", json!(1), kind),
        ("/attributes/order/seen", json!("today"), kind),
        ("/attributes/order/tags", json!("one"), kind),
        ("/attributes/order/tags", json!(["one", 2]), kind),
        ("/attributes/order/tags", json!(["one", null]), kind),
        ("/attributes/customer/email", json!(1), kind),
        ("/outcome", json!("x".repeat(129)), "ok"),
        (
            "/events/0/name",
            json!("x".repeat(257)),
            "ingest.limit-exceeded",
        ),
    ] {
        let text = example_with(&[(pointer, value.clone())]);
        let found = prepare_at(&text, STARTED_NS);
        let found = found.map_or_else(|problem| problem.code, |_| "ok");
        assert_eq!(found, expected, "{pointer} {value:.80}");
    }
    let text = example_with(&[("/attributes/order/items", json!("3"))]);
    let problem = prepare_at(&text, STARTED_NS).unwrap_err();
    assert_eq!(problem.detail, "attribute order.items must be integer");
    // An end that equals the start, the oldest and the latest that are accepted.
    let fine = "2026-11-09T10:00:01.250Z";
    let text = example_with(&[("/time/endedAt", json!(fine)), ("/events", json!([]))]);
    let month_ns = 30 * 86_400 * 1_000 * MS;
    for now_ns in [STARTED_NS, STARTED_NS - 600_000 * MS, STARTED_NS + month_ns] {
        assert!(prepare_at(&text, now_ns).is_ok());
        assert!(prepare_at(&text, now_ns).is_ok());
    }
    assert!(prepare_at(&text, STARTED_NS - 600_000 * MS - 1).is_err());
    assert!(prepare_at(&text, STARTED_NS + month_ns + 1).is_err());
}

#[test]
fn declared_values_have_one_form() {
    let seen = "2026-11-09T11:00:00+01:00";
    let text = example_with(&[
        ("/attributes/order/items", json!(3.0)),
        ("/attributes/order/seen", json!(seen)),
        ("/attributes/order/total", json!(7)),
    ]);
    let found = family(&text);
    let event = &found.events[0].event;
    let ns = parse_time(seen).unwrap();
    assert_eq!(
        event.attributes.scalar("order.items"),
        Some(&Scalar::Integer(3))
    );
    assert_eq!(
        event.attributes.scalar("order.seen"),
        Some(&Scalar::Integer(ns))
    );
    assert_eq!(
        event.attributes.scalar("order.total"),
        Some(&Scalar::Integer(7))
    );
    let other = example_with(&[("/attributes/order/seen", json!(ns))]);
    assert_eq!(family(&other).events[0].event.dimensions, event.dimensions);
    let large = example_with(&[("/attributes/order/total", json!((1_i64 << 53) + 1))]);
    let large = family(&large).events[0]
        .event
        .attributes
        .scalar("order.total")
        .cloned();
    assert_eq!(
        large.map(|total| total.to_text().into_owned()),
        Some("9007199254740992".into())
    );
}

#[test]
fn unknown_services_and_types_are_unconfigured() {
    for (pointer, reason) in [
        ("/resource/service/id", UnconfiguredReason::Service),
        ("/event/name", UnconfiguredReason::EventType),
    ] {
        let text = example_with(&[(pointer, json!("other")), ("/eventId", json!(""))]);
        let Prepared::Unconfigured { event, envelope } = prepare_at(&text, STARTED_NS).unwrap()
        else {
            panic!("unconfigured");
        };
        assert_eq!((event.reason, event.started_ns), (reason, STARTED_NS));
        assert_eq!((Some(event.id), &*event.text), (envelope.id, &*text));
    }
    assert_eq!(UnconfiguredReason::Service.name(), "UNCONFIGURED_SERVICE");
    let nested = json!([{"name": "Odd one", "events": [{"name": "payment.authorised"}]}]);
    let text = example_with(&[("/events", nested)]);
    let found = family(&text);
    let [odd] = &found.unconfigured[..] else {
        panic!("one is unconfigured");
    };
    assert_eq!(
        (&*odd.event_type, odd.reason),
        ("odd_one", UnconfiguredReason::NestedEventType)
    );
    assert_eq!(odd.reason.name(), "UNCONFIGURED_NESTED_EVENT_TYPE");
    assert!(odd.text.contains("Odd one"));
    // What is nested in it is known, and stored.
    assert_eq!(found.events.len(), 2);
    assert_eq!(found.events[1].event.parent, Some(odd.id));
}

#[test]
fn what_has_only_begun_is_ignored() {
    let text = example_with(&[("/attributes/lifecycle", json!("STARTED"))]);
    let id = parse_event_id("0199a1c0-7d11-7a3e-9b44-0d8b1e6f2a01").unwrap();
    let found = prepare_at(&text, STARTED_NS).unwrap();
    assert!(matches!(found, Prepared::Ignored { id: found } if found == id));
    let text = example_with(&[("/events/0/attributes/lifecycle", json!("STARTED"))]);
    assert_eq!(family(&text).events.len(), 1);
}

#[test]
fn nested_events_get_what_they_lack_from_their_parent() {
    let nested = json!([
        {"name": "payment.authorised"},
        {"name": "payment.authorised"},
        {"name": "payment.authorised", "timestamp": "2026-11-09T10:00:02Z", "status": {"code": "ERROR", "message": "late"}},
        {"name": "payment.authorised", "attributes": {"duration.nanos": 5, "card": {"number": 1}, "span.name": "auth"}},
    ]);
    let text = example_with(&[("/events", nested), ("/synthetic", json!(true))]);
    let found = family(&text);
    let events: Vec<_> = found
        .events
        .iter()
        .map(|prepared| &prepared.event)
        .collect();
    let [parent, first, second, late, timed] = &events[..] else {
        panic!("four children");
    };
    assert_ne!(first.id, second.id);
    assert_eq!(
        (first.started_ns, first.ended_ns),
        (parent.started_ns, parent.ended_ns)
    );
    assert_eq!((first.duration_ns, first.synthetic), (Some(60 * MS), true));
    // The parent had ended before: that is no end for it, and no fault of the client.
    assert_eq!(
        (late.started_ns, late.ended_ns),
        (STARTED_NS + 750 * MS, None)
    );
    assert_eq!(
        (&*late.outcome, late.error_message.as_deref()),
        ("FAILURE", Some("late"))
    );
    assert_eq!(late.rest, r#"{"status":{"code":"ERROR","message":"late"}}"#);
    assert_eq!((timed.duration_ns, &*timed.name), (Some(5), "auth"));
    assert!(!timed.attributes.has("card"));
    let again = family(&text);
    let ids = |family: &PreparedFamily<'_>| -> Vec<EventId> {
        family
            .events
            .iter()
            .map(|prepared| prepared.event.id)
            .collect()
    };
    assert_eq!(ids(&found), ids(&again));
}

#[test]
fn new_identities_are_of_version_seven() {
    let text = example_with(&[("/eventId", json!(" "))]);
    let id = family(&text).events[0].event.id;
    assert_eq!(id.0[6] >> 4, 7);
}

#[test]
fn masked_values_are_nowhere() {
    let secret = "secret-c-19";
    let text = example_with(&[
        ("/attributes/customer/id", json!(secret)),
        ("/attributes/customer/email", json!(secret)),
        ("/events/0/attributes/card", json!(secret)),
    ]);
    let found = family(&text);
    let block = encode_events(1, found.events.iter().map(|prepared| &prepared.event));
    assert!(
        !block
            .windows(secret.len())
            .any(|bytes| bytes == secret.as_bytes())
    );
}

/// The text of an object in one of many spellings: members in any order, some dotted.
fn spelled(leaves: &[(Vec<&str>, Json)], order: &[usize], dotted: &[usize]) -> String {
    let members = order.iter().map(|at| {
        let (path, value) = &leaves[*at];
        let (together, nested) = path.split_at(dotted[*at] % path.len());
        let mut json = value.clone();
        for key in nested[1..].iter().rev() {
            json = json!({ *key: json });
        }
        let key = [together, &nested[..1]].concat().join(".");
        format!("{}:{json}", Json::String(key))
    });
    format!("{{{}}}", members.collect::<Vec<_>>().join(","))
}

proptest! {
    #[test]
    fn neither_order_nor_spelling_of_attributes_matters(
        order in Just((0..6).collect::<Vec<_>>()).prop_shuffle(),
        dotted in prop::collection::vec(0..3usize, 6),
        items in 0..100_i64,
        channel in "[a-z\u{1b}-\u{1f}]{0,5}",
    ) {
        let leaves = [
            (vec!["order", "channel"], json!(channel)),
            (vec!["order", "items"], json!(items)),
            (vec!["customer", "id"], json!("c-19")),
            (vec!["order", "total"], json!(41.5)),
            (vec!["stock", "level", "now"], json!(17)),
            (vec!["x"], json!([1, 2])),
        ];
        let plain = spelled(&leaves, &[0, 1, 2, 3, 4, 5], &[0; 6]);
        let other = spelled(&leaves, &order, &dotted);
        let text = |attributes: &str| {
            let text = example_with(&[("/attributes", json!("HERE"))]);
            text.replace("\"HERE\"", attributes)
        };
        let (plain, other) = (text(&plain), text(&other));
        let (plain, other) = (family(&plain), family(&other));
        let (plain, other) = (&plain.events[0].event, &other.events[0].event);
        prop_assert_eq!(&plain.dimensions, &other.dimensions);
        prop_assert_eq!(&plain.attributes, &other.attributes);
        let (id, items) = (MaskingKey::new(b"key").hash("c-19"), items.to_string());
        let values = [("order.channel", &*channel), ("order.items", &items), ("customer.id", &id)];
        prop_assert_eq!(plain.dimensions, dimension_hash(values));
    }

    #[test]
    fn any_bytes_are_an_answer(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut bytes = EXAMPLE.as_bytes().to_vec();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Ok(text) = String::from_utf8(bytes) {
            let _ = prepare_at(&text, STARTED_NS);
        }
    }
}

#[test]
fn rules_reach_what_is_kept_beside_attributes() {
    let masked = |path: &str, mask: Mask| {
        let text = example_with(&[
            (
                "/resource",
                json!({ "service.id": "shop", "host": { "name": "c-19" } }),
            ),
            ("/status", json!({ "code": "ERROR", "message": "c-19" })),
            (
                "/links",
                json!([{ "traceId": "ab", "attributes": { "who": "c-19" } }]),
            ),
            (
                "/events",
                json!([{ "name": "order.placed", "status": { "message": "c-19" },
                                 "attributes": { "order.channel": "web" } }]),
            ),
        ]);
        let mut registry = registry();
        let service = Arc::make_mut(registry.services.get_mut("shop").unwrap());
        let order = Arc::make_mut(service.types.get_mut("order.placed").unwrap());
        let path = path.to_owned();
        order.masking = vec![MaskRule { path, mask }];
        let key = MaskingKey::new(b"key");
        let ids = EventIdSource::with_seed(1, 2);
        let context = PrepareContext {
            now_ns: STARTED_NS + 5,
            guarded_ns: STARTED_NS + 5,
            max_future_skew: Duration::from_secs(600),
            masking_key: Some(&key),
            ids: &ids,
        };
        let envelope = parse_envelope(text.as_bytes()).unwrap();
        let Prepared::Stored(family) = prepare(envelope, &registry, &context).unwrap() else {
            panic!("not stored");
        };
        let event = |at: usize| {
            let event = &family.events[at].event;
            let rest: Json = serde_json::from_str(&event.rest).unwrap_or_default();
            (rest, event.error_message.clone().map(Cow::into_owned))
        };
        (event(0), event(1).0)
    };
    let hash = "f67fdd1b10c5f0e4904ce3f22b19cff1";
    let ((rest, _), _) = masked("resource.host.name", Mask::Hash);
    assert_eq!(rest["resource"]["host"]["name"], json!(hash));
    let ((rest, _), _) = masked("resource.host", Mask::Drop);
    assert_eq!(rest["resource"], json!({ "service.id": "shop" }));
    let ((rest, message), _) = masked("resource", Mask::Drop);
    assert_eq!(
        (&rest["resource"], message.as_deref()),
        (&Json::Null, Some("c-19"))
    );
    let ((rest, message), nested) = masked("status.message", Mask::Drop);
    assert_eq!(
        (&rest["status"], message),
        (&json!({ "code": "ERROR" }), None)
    );
    assert_eq!(nested, Json::Null);
    let ((rest, message), nested) = masked("status.message", Mask::Hash);
    assert_eq!(
        (&rest["status"]["message"], message.as_deref()),
        (&json!(hash), Some(hash))
    );
    assert_eq!(nested["status"]["message"], json!(hash));
    let ((rest, _), _) = masked("links.attributes.who", Mask::Hash);
    assert_eq!(rest["links"][0]["attributes"]["who"], json!(hash));
    // Names that only begin like these.
    let ((rest, _), _) = masked("resources", Mask::Drop);
    assert_eq!(rest["resource"]["host"]["name"], json!("c-19"));
}
