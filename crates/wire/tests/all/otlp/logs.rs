//! A logs request of the OpenTelemetry Python SDK, see `testdata/wire/README.md`.

use icecore_wire::otlp::{LogFields, decode_logs, logs_json_to_protobuf};

macro_rules! testdata {
    ($name:literal) => {
        include_bytes!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../testdata/wire/otlp-python-logs.",
            $name
        ))
    };
}

fn object(fields: &LogFields<'_>) -> String {
    let text = |value: &[u8]| String::from_utf8(value.to_vec()).expect("JSON is text");
    let fields = fields
        .iter()
        .map(|(key, value)| format!("{key:?}:{}", text(value)));
    format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
}

/// One line of JSON for each record, as the capture writes it.
fn lines(body: &[u8]) -> Vec<String> {
    let mut lines = Vec::new();
    let hex = |id: &[u8]| {
        id.iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>()
    };
    decode_logs(body, |record| {
        lines.push(format!(
            r#"{{"name":{},"time":{},"severity":{},"text":{:?},"body":{},"resource":{},"scope":{:?},"version":{:?},"attributes":{},"trace":{:?},"span":{:?}}}"#,
            record.event_name().map_or("null".into(), |name| format!("{name:?}")),
            record.time_ns,
            record.severity_number,
            record.severity_text,
            str::from_utf8(&record.body).expect("JSON is text"),
            object(&record.resource),
            record.scope_name,
            record.scope_version,
            object(&record.attributes),
            hex(record.trace_id.as_ref().map_or(&[][..], |id| id)),
            hex(record.span_id.as_ref().map_or(&[][..], |id| id)),
        ));
    })
    .expect("it is valid");
    lines
}

#[test]
fn what_the_sdk_sends_is_read_as_google_reads_it() {
    let expected = str::from_utf8(testdata!("expected")).expect("it is text");
    let expected: Vec<&str> = expected.lines().collect();
    assert_eq!(lines(testdata!("pb")), expected);
    let rewritten = logs_json_to_protobuf(testdata!("json"), 1 << 20).expect("it is valid");
    assert_eq!(lines(&rewritten), expected);
}
