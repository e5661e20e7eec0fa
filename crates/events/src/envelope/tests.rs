//! Envelopes in all spellings, and what is refused with which code.

use serde_json::{Value as Json, json};

use super::*;
use crate::json_text::{attributes_json, attributes_text};
use crate::{Scalar, Value};

fn envelope() -> Json {
    json!({
        "event": { "name": "order.placed" },
        "resource": { "service": { "id": "shop" } },
        "time": { "startedAt": "2026-11-09T10:00:01.250Z" },
    })
}

/// The envelope with a field in place of the one it has.
fn with(field: &str, value: Json) -> String {
    let mut envelope = envelope();
    envelope[field] = value;
    envelope.to_string()
}

fn parse(text: &str) -> Envelope<'_> {
    parse_envelope(text.as_bytes()).unwrap()
}

fn code(text: &str) -> &'static str {
    let problem = parse_envelope(text.as_bytes()).unwrap_err();
    assert_eq!(problem.status, 400);
    problem.code
}

#[test]
fn refused_envelopes_have_their_codes() {
    let invalid_field = "ingest.invalid-field";
    let missing = "ingest.required-field-missing";
    let invalid_time = "ingest.invalid-timestamp";
    for (field, value, expected) in [
        ("resource", json!({}), missing),
        ("resource", json!(null), missing),
        ("resource", json!({"service": {"id": " "}}), missing),
        ("resource", json!({"service": {"id": 7}}), invalid_field),
        ("resource", json!("shop"), invalid_field),
        (
            "resource",
            json!({"service.id": "x".repeat(129)}),
            "ingest.limit-exceeded",
        ),
        (
            "resource",
            json!({"service.id": "x", "y": "z".repeat(65_536)}),
            "ingest.limit-exceeded",
        ),
        ("event", json!({}), missing),
        ("event", json!({"name": ""}), missing),
        (
            "event",
            json!({"name": "x".repeat(257)}),
            "ingest.limit-exceeded",
        ),
        (
            "event",
            json!({"name": "x", "kind": "server"}),
            invalid_field,
        ),
        ("event", json!({"name": "x", "kind": 1}), invalid_field),
        ("eventId", json!("0199a1c0"), "ingest.invalid-event-id"),
        ("eventId", json!(1), "ingest.invalid-event-id"),
        ("time", json!({}), missing),
        ("time", json!({"endedAt": "2026-11-09T10:00:01Z"}), missing),
        ("time", json!({"startedAt": "yesterday"}), invalid_time),
        ("time", json!({"startedAt": 1}), invalid_time),
        ("time", json!({"startUnixNano": "x"}), invalid_time),
        ("time", json!({"startUnixNano": 1.5}), invalid_time),
        ("time", json!({"startUnixNano": true}), invalid_time),
        ("time", json!({"startUnixNano": u64::MAX}), invalid_time),
        (
            "startUnixNano",
            json!(1_794_218_401_251_000_000_i64),
            invalid_time,
        ),
        (
            "trace",
            json!({"traceId": "5b8aa5a2d2c872e8321cf37308d69df"}),
            invalid_field,
        ),
        (
            "trace",
            json!({"traceId": "5B8AA5A2D2C872E8321CF37308D69DF2"}),
            invalid_field,
        ),
        ("trace", json!({"traceId": "0".repeat(32)}), invalid_field),
        (
            "trace",
            json!({"spanId": "zz1581bf3cb55c13"}),
            invalid_field,
        ),
        ("trace", json!({"parentSpanId": ""}), invalid_field),
        ("trace", json!({"correlationId": 5}), invalid_field),
        ("status", json!({"code": 2}), invalid_field),
        ("status", json!({"code": "no such status"}), invalid_field),
        ("status", json!([]), invalid_field),
        ("outcome", json!({}), invalid_field),
        ("synthetic", json!("yes"), invalid_field),
        ("links", json!({}), invalid_field),
        ("events", json!({}), invalid_field),
        ("events", json!([1]), invalid_field),
        ("attributes", json!([]), invalid_field),
        (
            "attributes",
            json!({"a": 1, "a.b": 2}),
            "ingest.attribute-conflict",
        ),
        (
            "attributes",
            json!({"a": "x".repeat(32_769)}),
            "ingest.limit-exceeded",
        ),
        (
            "attributes",
            json!({"a": ["x".repeat(32_769)]}),
            "ingest.limit-exceeded",
        ),
        (
            "attributes",
            json!({"a": vec![0; 4_097]}),
            "ingest.limit-exceeded",
        ),
        (
            "attributes",
            json!({"a.b.c.d.e.f.g.h.i": 1}),
            "ingest.limit-exceeded",
        ),
        (
            "attributes",
            json!({"a": [[[[[[[[1]]]]]]]]}),
            "ingest.limit-exceeded",
        ),
        (
            "events",
            json!(vec![json!({}); 65]),
            "ingest.limit-exceeded",
        ),
        (
            "events",
            json!([{"attributes": {"a": {"b": 1}, "a.b.c": 1}}]),
            "ingest.attribute-conflict",
        ),
        ("events", json!([{"timestamp": "soon"}]), invalid_time),
    ] {
        let text = with(field, value);
        assert_eq!(code(&text), expected, "{:.200}", text);
    }
}

#[test]
fn limits_are_the_last_that_is_accepted() {
    let leaves: serde_json::Map<_, _> = (0..512).map(|at| (format!("k{at}"), json!(at))).collect();
    let mut more = leaves.clone();
    parse(&with("attributes", Json::Object(leaves)));
    more.insert("one.more".into(), json!(true));
    assert_eq!(
        code(&with("attributes", Json::Object(more))),
        "ingest.limit-exceeded"
    );
    for value in [
        json!({"a": {"b.c": {"d.e.f": {"g": {"h": 1}}}}}),
        json!({"a": "x".repeat(32_768)}),
        json!({"a": vec![0; 4_096]}),
    ] {
        parse(&with("attributes", value));
    }
    // Nested events count wherever they are.
    let family = |inner: usize| json!([{ "events": vec![json!({}); inner] }, {}]);
    assert_eq!(parse(&with("events", family(62))).body.nested.len(), 2);
    assert_eq!(code(&with("events", family(63))), "ingest.limit-exceeded");
    let deep = format!("{}1{}", "{\"a\":".repeat(1_000), "}".repeat(1_000));
    assert_eq!(
        code(&with("attributes", json!(7)).replace('7', &deep)),
        "ingest.limit-exceeded"
    );
}

#[test]
fn what_is_no_json() {
    let good = envelope().to_string();
    for length in 0..good.len() {
        assert_eq!(code(&good[..length]), "ingest.invalid-json");
    }
    let attribute = |text: &str| with("attributes", json!({"a": 12_345})).replace("12345", text);
    for bad in [
        "01", "+1", "1.", ".5", "1e", "--1", "nul", "tru", "'a'", "\"\\x\"", "\"\n\"", "[1,]",
        "{,}", "NaN",
    ] {
        assert_eq!(code(&attribute(bad)), "ingest.invalid-json", "{bad}");
        let skipped = attribute(bad).replace("attributes", "other");
        assert_eq!(code(&skipped), "ingest.invalid-json", "{bad}");
    }
    assert_eq!(code(&attribute("1e999")), "ingest.limit-exceeded");
    assert_eq!(code(&format!("{good} {good}")), "ingest.invalid-json");
    assert_eq!(
        parse_envelope(b"{\"a\":\"\xff\"}").unwrap_err().code,
        "ingest.invalid-json"
    );
    for other in ["[]", "7", "null", "\"x\""] {
        assert_eq!(code(other), "ingest.invalid-body");
    }
}

#[test]
fn all_spellings_of_the_service() {
    for (resource, service) in [
        (json!({"service": {"id": "shop", "name": "other"}}), "shop"),
        (json!({"service": {"name": "shop"}}), "shop"),
        (
            json!({"service.id": "shop", "service.name": "other"}),
            "shop",
        ),
        (json!({"service.name": "shop"}), "shop"),
        (json!({"service": {"id": "", "name": "shop"}}), "shop"),
        (
            json!({"service": {"name": "other"}, "service.id": "shop"}),
            "shop",
        ),
    ] {
        let text = with("resource", resource.clone());
        let parsed = parse(&text);
        assert_eq!(parsed.service, service);
        assert_eq!(parsed.resource, resource.to_string());
    }
}

#[test]
fn all_spellings_of_times() {
    let ns = 1_794_218_401_250_000_000;
    let iso = "2026-11-09T10:00:01.250Z";
    let check = |fields: Json, started_ns: i64, ended_ns: Option<i64>| {
        let mut envelope = envelope();
        envelope["time"] = Json::Null;
        for (field, value) in fields.as_object().unwrap() {
            envelope[field] = value.clone();
        }
        let text = envelope.to_string();
        let parsed = parse(&text);
        assert_eq!(
            (parsed.started_ns, parsed.ended_ns),
            (started_ns, ended_ns),
            "{text}"
        );
    };
    check(
        json!({"time": {"startedAt": iso, "endedAt": iso}}),
        ns,
        Some(ns),
    );
    check(
        json!({"time": {"startUnixNano": ns + 1, "endUnixNano": ns + 3}}),
        ns + 1,
        Some(ns + 3),
    );
    check(
        json!({"time": {"startUnixNano": (ns + 1).to_string()}}),
        ns + 1,
        None,
    );
    check(
        json!({"time": {"startUnixNano": ns + 999_999, "startedAt": iso}}),
        ns,
        None,
    );
    check(json!({"startedAt": iso, "endedAt": null}), ns, None);
    check(json!({"startUnixNano": ns}), ns, None);
    check(json!({"occurredAt": iso}), ns, None);
    check(json!({"timestamp": iso}), ns, None);
    let other = "2026-11-09T10:00:00Z";
    check(json!({"timestamp": other, "occurredAt": iso}), ns, None);
    check(
        json!({"startedAt": other, "time": {"startedAt": iso}}),
        ns,
        None,
    );
    check(
        json!({"receivedAt": "never", "time": {"startedAt": iso}}),
        ns,
        None,
    );
}

#[test]
fn dotted_and_nested_are_the_same() {
    let spellings = [
        r#"{"http":{"status":200,"route":{"x":"y"}},"a":[1,2.5]}"#,
        r#"{"http.status":200,"a":[1,2.5],"http":{"route.x":"y"}}"#,
        r#"{"http.route":{"x":"z"},"http.route.x":"y","a":0,"a":[1,2.5],"http.status":200}"#,
    ];
    let expected = r#"{"a":[1,2.5],"http":{"route":{"x":"y"},"status":200}}"#;
    for text in spellings {
        let attributes = parse_attributes(text).unwrap();
        assert_eq!(attributes_text(&attributes), expected);
        assert_eq!(attributes_json(&attributes).to_string(), expected);
    }
}

#[test]
fn values_keep_their_types() {
    let text = r#"{"a":9223372036854775807,"b":-9223372036854775808,"c":9223372036854775808,
        "d":200.0,"e":1e3,"f":"\u00e9\n","g":true,"h":null,"i":[],"j":[1,null],"k":[{"l":[1]}],"l":-0,"m":{}}"#;
    let attributes = parse_attributes(text).unwrap();
    let scalar = |path: &str| attributes.scalar(path).cloned().unwrap();
    assert_eq!(scalar("a"), Scalar::Integer(i64::MAX));
    assert_eq!(scalar("b"), Scalar::Integer(i64::MIN));
    assert_eq!(scalar("c"), Scalar::Number(9_223_372_036_854_775_808.0));
    assert_eq!(scalar("d"), Scalar::Number(200.0));
    assert_eq!(scalar("e"), Scalar::Number(1_000.0));
    assert_eq!(scalar("f"), Scalar::Text("é\n".into()));
    assert_eq!(attributes.get("h"), Some(&Value::Null));
    assert_eq!(attributes.get("i"), Some(&Value::List(vec![])));
    assert_eq!(attributes.get("j"), Some(&Value::Json("[1,null]".into())));
    assert_eq!(
        attributes.get("k"),
        Some(&Value::Json("[{\"l\":[1]}]".into()))
    );
    assert_eq!(scalar("l"), Scalar::Integer(0));
    assert!(!attributes.has("m"));
    let written = attributes_text(&attributes);
    assert_eq!(parse_attributes(&written).unwrap(), attributes);
    assert_eq!(attributes.clone().into_owned(), attributes);
}

#[test]
fn a_bad_item_is_refused_alone() {
    let id = "0199a1c0-7d11-7a3e-9b44-0d8b1e6f2a01";
    let mut wrong = envelope();
    wrong["attributes"] = json!(7);
    wrong["eventId"] = json!(id);
    let body = json!([envelope(), wrong, 5, envelope(), {"eventId": "x"}]).to_string();
    let items = parse_batch(body.as_bytes()).unwrap();
    let codes: Vec<_> = items
        .iter()
        .map(|item| item.envelope.as_ref().err().map(|problem| problem.code))
        .collect();
    assert_eq!(
        codes,
        [
            None,
            Some("ingest.invalid-field"),
            Some("ingest.invalid-body"),
            None,
            Some("ingest.invalid-event-id"),
        ]
    );
    assert_eq!(items[1].event_id.as_deref(), Some(id));
    assert_eq!(items[4].event_id.as_deref(), Some("x"));
    assert!(parse_batch(b" [] ").unwrap().is_empty());
}

#[test]
fn a_batch_that_is_none_is_refused_as_a_whole() {
    let batch_code = |body: &str| {
        let problem = parse_batch(body.as_bytes()).unwrap_err();
        (problem.status, problem.code)
    };
    assert_eq!(batch_code("{}"), (400, "ingest.invalid-body"));
    assert_eq!(batch_code("null"), (400, "ingest.invalid-body"));
    for text in ["", "{", "[", "[{}", "[{},]", "[{} {}]", "[] x", "{} x"] {
        assert_eq!(batch_code(text), (400, "ingest.invalid-json"), "{text}");
    }
    let many = format!("[{}7]", "7,".repeat(10_000));
    assert_eq!(batch_code(&many), (413, "ingest.limit-exceeded"));
    let all = format!("[{}7]", "7,".repeat(9_999));
    assert_eq!(parse_batch(all.as_bytes()).unwrap().len(), 10_000);
}

#[test]
fn an_owned_envelope_is_the_same() {
    let mut full = envelope();
    full["trace"] = json!({"traceId": "5b8aa5a2d2c872e8321cf37308d69df2", "spanId": "051581bf3cb55c13",
        "parentSpanId": "051581bf3cb55c14", "correlationId": "cart", "state": "a=b"});
    full["status"] = json!({"code": "ERROR", "message": "no"});
    full["outcome"] = json!("x");
    full["links"] = json!([{}]);
    full["synthetic"] = json!(true);
    full["events"] = json!([{"name": "n", "kind": "CLIENT", "events": [{}]}]);
    let text = full.to_string();
    let parsed = parse(&text);
    assert_eq!(
        parsed.span_id,
        Some([0x05, 0x15, 0x81, 0xbf, 0x3c, 0xb5, 0x5c, 0x13])
    );
    assert_eq!(parsed.body.nested[0].body.kind, Some(EventKind::Client));
    assert_eq!(parsed.body.text, text);
    assert_eq!(parsed.clone().into_owned(), parsed);
}
