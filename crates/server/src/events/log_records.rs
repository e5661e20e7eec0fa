//! Records of OpenTelemetry's logs as envelopes of events.
//!
//! | of the record | becomes |
//! | --- | --- |
//! | field `event_name`, or attribute `event.name` | `event.name` |
//! | time, or else the observed time | `time.startUnixNano` |
//! | trace and span id | `trace` |
//! | attributes, but `event.name` and `event.id` | `attributes` |
//! | body | attribute `body` |
//! | severity | attributes `severity.number` and `severity.text` |
//! | attributes of the resource, with `service.id` or `service.name` | `resource` |
//! | name and version of the scope | `resource`, as `otel.scope.name` and `otel.scope.version` |
//! | attribute `event.id`, or else `log.record.uid`, if it is a UUID | `eventId` |
//!
//! Holds always: a record without an id gets one that is made of all it says, and of how many equal
//! ones were before it in its request. So a request that is sent again is recognised, and two equal
//! records in one request are two events.

use std::borrow::Cow;
use std::collections::HashMap;

use aws_lc_rs::digest::{Context, SHA256};
use icecore_wire::otlp::LogRecord;
use icecore_wire::prometheus::api_json::write_string;

/// Attributes that may have the identity of an event, in the order in which they are looked at.
const IDENTITIES: [&str; 2] = ["event.id", "log.record.uid"];

/// Attributes that are fields of an envelope.
const OF_THE_ENVELOPE: [&str; 2] = ["event.name", "event.id"];

/// Envelopes that are published at once: as many as a batch may have.
const ENVELOPES_MAX: usize = 10_000;

/// Bytes of envelopes after which a batch ends. Far below what a body may have, so that one more
/// record rarely makes it too long.
const BATCH_BYTES_MAX: usize = 8 << 20;

/// The envelopes of a request, and what of it is none.
#[derive(Default)]
pub(crate) struct LogEnvelopes {
    /// JSON arrays of envelopes, with the number of envelopes in each.
    pub(crate) batches: Vec<(Vec<u8>, usize)>,
    /// Records without an event name.
    pub(crate) without_name: u64,
    /// Records with values that are nested too deep.
    pub(crate) too_deep: u64,
    seen: HashMap<[u8; 32], u32>,
    envelope: Vec<u8>,
}

impl LogEnvelopes {
    pub(crate) fn add(&mut self, record: &LogRecord<'_>) {
        let Some(name) = record.event_name() else {
            self.without_name += 1;
            return;
        };
        if record.is_too_deep() {
            self.too_deep += 1;
            return;
        }
        self.envelope.clear();
        write_content(&mut self.envelope, record, &name);
        let id = match identity(record) {
            Some(id) => id.into_owned(),
            None => self.made_identity(),
        };
        self.push(&id);
    }

    /// The number of records that became envelopes.
    pub(crate) fn len(&self) -> usize {
        self.batches.iter().map(|(_, count)| count).sum()
    }

    /// Appends the envelope to the last batch, or to a new one.
    fn push(&mut self, id: &str) {
        let is_full = |(batch, count): &(Vec<u8>, usize)| {
            *count >= ENVELOPES_MAX || batch.len() >= BATCH_BYTES_MAX
        };
        if self.batches.last().is_none_or(is_full) {
            self.batches.push((b"[]".to_vec(), 0));
        }
        if let Some((batch, count)) = self.batches.last_mut() {
            batch.pop();
            if *count > 0 {
                batch.push(b',');
            }
            batch.extend_from_slice(b"{\"eventId\":");
            write_string(batch, id);
            batch.push(b',');
            batch.extend_from_slice(&self.envelope);
            batch.extend_from_slice(b"}]");
            *count += 1;
        }
    }

    /// A UUID of version 8 for what the envelope says.
    fn made_identity(&mut self) -> String {
        let digest = |parts: &[&[u8]]| {
            let mut context = Context::new(&SHA256);
            parts.iter().for_each(|part| context.update(part));
            let mut bytes = [0; 32];
            bytes.copy_from_slice(context.finish().as_ref());
            bytes
        };
        let content = digest(&[&self.envelope]);
        let earlier = self.seen.entry(content).or_default();
        let digest = digest(&[&content, &earlier.to_be_bytes()]);
        *earlier += 1;
        uuid_v8(digest)
    }
}

fn uuid_v8(digest: [u8; 32]) -> String {
    let mut bytes: [u8; 16] = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    bytes[6] = bytes[6] & 0x0f | 0x80;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex = |bytes: &[u8]| {
        bytes
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>()
    };
    let [a, b, c, d, e] = [0..4, 4..6, 6..8, 8..10, 10..16].map(|range| hex(&bytes[range]));
    format!("{a}-{b}-{c}-{d}-{e}")
}

/// The identity that the sender gave, if it is one.
fn identity<'a>(record: &'a LogRecord<'_>) -> Option<Cow<'a, str>> {
    let given = |key: &&str| record.attributes.text(key).filter(|text| is_uuid(text));
    IDENTITIES.iter().find_map(given)
}

fn is_uuid(text: &str) -> bool {
    let is_right = |(at, byte): (usize, u8)| match at {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    text.len() == 36 && text.bytes().enumerate().all(is_right)
}

/// Everything of an envelope but its id and the braces around it.
fn write_content(out: &mut Vec<u8>, record: &LogRecord<'_>, name: &str) {
    out.extend_from_slice(b"\"event\":{\"name\":");
    write_string(out, name);
    out.push(b'}');
    let start_ns = match record.time_ns {
        0 => record.observed_ns,
        time_ns => time_ns,
    };
    if start_ns > 0 {
        let time = format!(",\"time\":{{\"startUnixNano\":{start_ns}}}");
        out.extend_from_slice(time.as_bytes());
    }
    write_trace(out, record);
    write_resource(out, record);
    write_attributes(out, record);
}

fn write_trace(out: &mut Vec<u8>, record: &LogRecord<'_>) {
    let ids = [
        ("traceId", record.trace_id.as_ref().map(|id| &id[..])),
        ("spanId", record.span_id.as_ref().map(|id| &id[..])),
    ];
    let mut object = Object::begin(out, "trace");
    for (key, id) in ids {
        if let Some(id) = id {
            let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
            object.text(key, &hex);
        }
    }
    object.end();
}

fn write_resource(out: &mut Vec<u8>, record: &LogRecord<'_>) {
    let mut object = Object::begin(out, "resource");
    for (key, value) in record.resource.iter() {
        object.json(key, value);
    }
    for (key, text) in [
        ("otel.scope.name", &record.scope_name),
        ("otel.scope.version", &record.scope_version),
    ] {
        if !text.is_empty() {
            object.text(key, text);
        }
    }
    object.end();
}

fn write_attributes(out: &mut Vec<u8>, record: &LogRecord<'_>) {
    let mut object = Object::begin(out, "attributes");
    if record.severity_number > 0 {
        let number = record.severity_number.to_string();
        object.json("severity.number", number.as_bytes());
    }
    if !record.severity_text.is_empty() {
        object.text("severity.text", &record.severity_text);
    }
    if !record.body.is_empty() {
        object.json("body", &record.body);
    }
    // Behind the others, so that an attribute of the same name counts.
    for (key, value) in record.attributes.iter() {
        if !OF_THE_ENVELOPE.contains(&key) {
            object.json(key, value);
        }
    }
    object.end();
}

/// An object that is a field of an envelope, and is left out if it has nothing.
struct Object<'a> {
    out: &'a mut Vec<u8>,
    name: &'static str,
    has_entries: bool,
}

impl<'a> Object<'a> {
    fn begin(out: &'a mut Vec<u8>, name: &'static str) -> Self {
        Self {
            out,
            name,
            has_entries: false,
        }
    }

    fn json(&mut self, key: &str, value: &[u8]) {
        self.out.push(b',');
        if !self.has_entries {
            write_string(self.out, self.name);
            self.out.extend_from_slice(b":{");
            self.has_entries = true;
        }
        write_string(self.out, key);
        self.out.push(b':');
        self.out.extend_from_slice(value);
    }

    fn text(&mut self, key: &str, text: &str) {
        let mut value = Vec::new();
        write_string(&mut value, text);
        self.json(key, &value);
    }

    fn end(self) {
        if self.has_entries {
            self.out.push(b'}');
        }
    }
}

#[cfg(test)]
mod tests {
    use icecore_wire::otlp::{decode_logs, logs_json_to_protobuf};
    use serde_json::{Value, json};

    use super::*;

    fn envelopes(records: &Value) -> LogEnvelopes {
        let request = json!({"resourceLogs": [{
            "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "shop"}}]},
            "scopeLogs": [{"scope": {"name": "lib"}, "logRecords": records}],
        }]});
        let protobuf = logs_json_to_protobuf(request.to_string().as_bytes(), 1 << 20).unwrap();
        let mut envelopes = LogEnvelopes::default();
        decode_logs(&protobuf, |record| envelopes.add(record)).unwrap();
        envelopes
    }

    fn parsed(envelopes: &LogEnvelopes) -> Vec<Value> {
        let batches = envelopes.batches.iter();
        let parsed = batches.map(|(batch, count)| {
            let parsed: Vec<Value> = serde_json::from_slice(batch).unwrap();
            assert_eq!(parsed.len(), *count);
            parsed
        });
        parsed.flatten().collect()
    }

    #[test]
    fn a_record_becomes_an_envelope() {
        let id = "0199a1c0-7d11-7a3e-9b44-0d8b1e6f2a01";
        let found = envelopes(&json!([
            {"timeUnixNano": "5", "observedTimeUnixNano": "6", "eventName": "a", "severityNumber": 9,
             "body": {"stringValue": "x\"y"}, "traceId": "00000000000000000000000000000009",
             "attributes": [{"key": "event.id", "value": {"stringValue": id}},
                            {"key": "n.m", "value": {"intValue": 3}}]},
            {"observedTimeUnixNano": "6", "attributes":
                [{"key": "event.name", "value": {"stringValue": "b"}},
                 {"key": "log.record.uid", "value": {"stringValue": "no UUID"}}]},
            {"body": {"stringValue": "only a line"}},
        ]));
        assert_eq!((found.len(), found.without_name), (2, 1));
        let [first, second] = &parsed(&found)[..] else {
            panic!("two envelopes")
        };
        let resource = json!({"service.name": "shop", "otel.scope.name": "lib"});
        let expected = json!({
            "eventId": id, "event": {"name": "a"}, "time": {"startUnixNano": 5},
            "trace": {"traceId": "00000000000000000000000000000009"}, "resource": resource,
            "attributes": {"severity.number": 9, "body": "x\"y", "n.m": 3},
        });
        assert_eq!(*first, expected);
        assert_eq!(second["event"]["name"], "b");
        assert_eq!(second["time"]["startUnixNano"], 6);
        assert!(is_uuid(second["eventId"].as_str().unwrap()));
    }

    #[test]
    fn what_is_sent_again_has_the_same_id() {
        let record = |time: u64| json!({"timeUnixNano": time.to_string(), "eventName": "a"});
        let ids = |records: &Value| -> Vec<String> {
            let parsed = parsed(&envelopes(records));
            let ids = parsed
                .iter()
                .map(|one| one["eventId"].as_str().unwrap().to_owned());
            ids.collect()
        };
        let once = ids(&json!([record(1), record(1), record(2)]));
        assert_eq!(ids(&json!([record(1), record(1), record(2)])), once);
        let distinct: std::collections::HashSet<_> = once.iter().collect();
        assert_eq!(distinct.len(), 3);
        assert_eq!(once[0].as_bytes()[14], b'8');
    }
}
