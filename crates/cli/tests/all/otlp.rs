//! A client that is not ours: the OpenTelemetry SDK of Python, every instrument, cumulative and
//! delta.

use std::process::{Command, Stdio};

use serde_json::Value as Json;

use crate::http::{Client, escape};
use crate::served::{Serve, Workplace, free_address};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/all/otlp/instruments.py");

/// What queries answer after both rounds of the script, whatever the temporality.
const EXPECTED: &[(&str, &str)] = &[
    (r#"requests_total{http_method="GET"}"#, "12"),
    ("queue", "7"),
    (r#"latency_seconds_bucket{le="0.1"}"#, "1"),
    (r#"latency_seconds_bucket{le="1"}"#, "3"),
    (r#"latency_seconds_bucket{le="+Inf"}"#, "4"),
    ("latency_seconds_sum", "6.05"),
    ("latency_seconds_count", "4"),
    ("histogram_count(payload_bytes)", "4"),
    ("histogram_sum(payload_bytes)", "104"),
    (r#"temperature_celsius{room="kitchen"}"#, "21.5"),
    ("cpu_seconds_total", "8"),
    ("heap_bytes", "2"),
    ("load", "0.5"),
    (r#"target_info{host_name="here"}"#, "1"),
];

/// Whether Python and these modules of it are there; said so where they are not.
pub(crate) fn python_has(modules: &str) -> bool {
    let found = Command::new("python3")
        .args(["-c", &format!("import {modules}")])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    let there = found.is_ok_and(|status| status.success());
    if !there {
        let cure = "pip install opentelemetry-sdk opentelemetry-exporter-otlp";
        skipped_tests::skip(&format!("Python with {modules}"), cure);
    }
    there
}

/// Sends both rounds of both temporalities, and checks what is there then.
pub(crate) fn check_instruments(protocol: &str, endpoint: &str, client: &mut Client) {
    for temporality in ["cumulative", "delta"] {
        let output = Command::new("python3")
            .args([SCRIPT, protocol, endpoint, temporality])
            .output()
            .expect("python3 is there");
        assert!(
            output.status.success(),
            "{protocol} {temporality}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        let job = format!(r#"job="python-{protocol}-{temporality}""#);
        for (query, expected) in EXPECTED {
            let query = with_job(query, &job);
            assert_eq!(value(client, &query), *expected, "{query}");
        }
    }
}

/// The query with one more matcher in its only selector.
fn with_job(query: &str, job: &str) -> String {
    match (query.split_once('}'), query.split_once(')')) {
        (Some((before, after)), _) => format!("{before},{job}}}{after}"),
        (None, Some((before, after))) => format!("{before}{{{job}}}){after}"),
        (None, None) => format!("{query}{{{job}}}"),
    }
}

fn value(client: &mut Client, query: &str) -> String {
    let path = format!("/api/v1/query?query={}", escape(query));
    let response = client.get(&path).expect("an answer");
    let answer: Json = serde_json::from_str(&response.text()).expect("JSON");
    match answer["data"]["result"].as_array().map(Vec::as_slice) {
        Some([one]) => one["value"][1].as_str().unwrap_or_default().to_owned(),
        _ => panic!("{query}: {answer}"),
    }
}

#[test]
fn every_instrument_over_http() {
    if !python_has("opentelemetry.sdk.metrics, opentelemetry.exporter.otlp.proto.http") {
        return;
    }
    let workplace = Workplace::new();
    let served = Serve::new(workplace.path("data"), workplace.path("log")).start();
    let address = served.address().expect("it listens");
    let endpoint = format!("http://{address}/v1/metrics");
    check_instruments("http", &endpoint, &mut served.client());
}

#[test]
fn every_instrument_over_grpc() {
    if !python_has("opentelemetry.sdk.metrics, opentelemetry.exporter.otlp.proto.grpc") {
        return;
    }
    let workplace = Workplace::new();
    let address = free_address().to_string();
    let served = Serve::new(workplace.path("data"), workplace.path("log"))
        .flags(["--otlp.grpc.listen", &address])
        .start();
    let endpoint = format!("http://{address}");
    check_instruments("grpc", &endpoint, &mut served.client());
}
