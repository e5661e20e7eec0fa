use super::*;
use crate::otlp::logs_json_to_protobuf;

/// Records as lines.
fn lines(body: &[u8]) -> Vec<String> {
    let mut lines = Vec::new();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    decode_logs(body, |record| {
        let fields = |fields: &LogFields<'_>| {
            let fields = fields
                .iter()
                .map(|(key, value)| format!("{key}={}", text(value)));
            fields.collect::<Vec<_>>().join(",")
        };
        lines.push(format!(
            "{:?} at {}/{} {}:{} body {} of [{}] scope {} {} [{}] attributes [{}] {:?} {:?}{}",
            record.event_name(),
            record.time_ns,
            record.observed_ns,
            record.severity_number,
            record.severity_text,
            text(&record.body),
            fields(&record.resource),
            record.scope_name,
            record.scope_version,
            fields(&record.scope_attributes),
            fields(&record.attributes),
            record.trace_id.map(|id| id[15]),
            record.span_id.map(|id| id[7]),
            if record.is_too_deep() {
                " too deep"
            } else {
                ""
            },
        ));
    })
    .unwrap();
    lines
}

#[track_caller]
fn check(json: &str, expected: &[&str]) {
    let protobuf = logs_json_to_protobuf(json.as_bytes(), 1 << 20).unwrap();
    assert_eq!(lines(&protobuf), expected);
}

#[test]
fn a_record_has_what_was_sent() {
    let json = r#"{"resourceLogs": [{
        "scopeLogs": [{
            "logRecords": [
                {"timeUnixNano": "1700000000000000001", "observedTimeUnixNano": 5,
                 "severityNumber": "SEVERITY_NUMBER_WARN", "severityText": "Warning",
                 "body": {"kvlistValue": {"values": [{"key": "a", "value": {"intValue": "7"}}]}},
                 "attributes": [{"key": "n", "value": {"doubleValue": 1.5}},
                                {"key": "l", "value": {"arrayValue": {"values": [{"boolValue": true}]}}},
                                {"key": "n", "value": {"stringValue": "a\"b"}}],
                 "eventName": "order.placed", "flags": 1,
                 "traceId": "00000000000000000000000000000009", "spanId": "0000000000000008"},
                {"attributes": [{"key": "event.name", "value": {"stringValue": "b\u0001c"}}]},
                {"body": {"stringValue": "only a line"}, "traceId": "", "spanId": "0000000000000000"}
            ],
            "scope": {"name": "lib", "version": "2", "attributes": [{"key": "s", "value": {}}]}
        }],
        "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "shop"}}]}
    }]}"#;
    let scope = r#"of [service.name="shop"] scope lib 2 [s=null]"#;
    check(
        json,
        &[
            &format!(
                r#"Some("order.placed") at 1700000000000000001/5 13:Warning body {{"a":7}} {scope} attributes [l=[true],n="a\"b"] Some(9) Some(8)"#
            ),
            &format!(
                r#"Some("b\u{{1}}c") at 0/0 0: body  {scope} attributes [event.name="b\u0001c"] None None"#
            ),
            &format!(r#"None at 0/0 0: body "only a line" {scope} attributes [] None None"#),
        ],
    );
}

#[test]
fn what_is_nested_too_deep_is_left_out_and_said() {
    let mut value = r#"{"intValue": 1}"#.to_owned();
    for _ in 0..17 {
        value = format!(r#"{{"arrayValue": {{"values": [{value}]}}}}"#);
    }
    let json = format!(
        r#"{{"resourceLogs": [{{"scopeLogs": [{{"logRecords": [{{"attributes":
            [{{"key": "a", "value": {value}}}, {{"key": "b", "value": {{"intValue": 2}}}}]}}]}}]}}]}}"#
    );
    check(
        &json,
        &["None at 0/0 0: body  of [] scope   [] attributes [b=2] None None too deep"],
    );
}

#[test]
fn a_request_that_breaks_off_is_an_error() {
    assert!(decode_logs(&[], |_| ()).is_ok());
    assert!(decode_logs(b"\x0a\x05ab", |_| ()).is_err());
    assert!(decode_logs(b"\x08\x05", |_| ()).is_err());
}
