//! Requests of the OpenTelemetry Python SDK, see `testdata/wire/README.md`.

use icecore_wire::otlp::json_to_protobuf;

use super::line_sink::lines;

macro_rules! testdata {
    ($name:literal) => {
        include_bytes!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../testdata/wire/otlp-python-",
            $name
        ))
    };
}

#[track_caller]
fn check(protobuf: &[u8], json: &[u8], expected: &[u8]) {
    let calls = lines(protobuf);
    let rewritten = json_to_protobuf(json, 1 << 20).expect("it is valid");
    assert_eq!(lines(&rewritten), calls);
    let exemplars = calls
        .iter()
        .filter(|line| line.contains(" exemplar "))
        .count();
    assert_eq!(exemplars, 5);
    let ids = r#"{span_id="0123456789abcdef",trace_id="0123456789abcdef0123456789abcdef"}"#;
    assert_eq!(calls.iter().filter(|line| line.contains(ids)).count(), 5);
    let values = calls.iter().filter(|line| {
        *line != "point" && !line.starts_with("meta ") && !line.contains(" exemplar ")
    });
    let mut values: Vec<_> = values.map(|line| with_bucket_map(line)).collect();
    values.sort_unstable();
    let expected = str::from_utf8(expected).expect("it is text");
    assert_eq!(values, expected.lines().collect::<Vec<_>>());
}

/// Shows the buckets of a native histogram by their index, as the capture does.
fn with_bucket_map(line: &str) -> String {
    let Some((before, rest)) = line.split_once(" +[") else {
        return line.into();
    };
    let (spans, rest) = rest.split_once("][").expect("a line of the recording sink");
    let (deltas, rest) = rest
        .split_once("] -[][] bounds=[]")
        .expect("a line of the recording sink");
    let mut deltas = deltas
        .split(',')
        .map(|delta| delta.parse::<i64>().expect("a line of the recording sink"));
    let (mut index, mut count) = (0, 0);
    let mut buckets = Vec::new();
    for span in spans.split(',') {
        let (offset, length) = span.split_once(':').expect("a line of the recording sink");
        index += offset.parse::<i64>().expect("a line of the recording sink");
        for _ in 0..length.parse::<i64>().expect("a line of the recording sink") {
            count += deltas.next().expect("a line of the recording sink");
            if count != 0 {
                buckets.push(format!("{index}: {count}"));
            }
            index += 1;
        }
    }
    format!("{before} {{{}}}{rest}", buckets.join(", "))
}

#[test]
fn every_instrument_cumulative() {
    check(
        testdata!("cumulative.pb"),
        testdata!("cumulative.json"),
        testdata!("cumulative.expected"),
    );
}

#[test]
fn every_instrument_delta() {
    check(
        testdata!("delta.pb"),
        testdata!("delta.json"),
        testdata!("delta.expected"),
    );
}
