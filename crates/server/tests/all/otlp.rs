//! OTLP over HTTP: what is sent is answered by PromQL, and what is refused is told as the protocol
//! says.

use std::io::Write as _;

use icecore_wire::otlp::json_to_protobuf;
use serde_json::{Value, json};

use crate::client::Answer;
use crate::payload::T0;
use crate::served::TestServer;

const PROTOBUF: (&str, &str) = ("Content-Type", "application/x-protobuf");
const JSON: (&str, &str) = ("Content-Type", "application/json");

const CUMULATIVE: u64 = 2;
const DELTA: u64 = 1;

/// Nanoseconds, as JSON has them.
fn ns(ms: i64) -> String {
    format!("{ms}000000")
}

fn attributes(pairs: &[(&str, &str)]) -> Value {
    pairs
        .iter()
        .map(|(key, value)| json!({"key": key, "value": {"stringValue": value}}))
        .collect()
}

/// A request of the service `shop` with these metrics.
fn request(metrics: Value) -> Value {
    let resource = attributes(&[("service.name", "shop"), ("host.name", "h")]);
    json!({"resourceMetrics": [{
        "resource": {"attributes": resource},
        "scopeMetrics": [{"scope": {"name": "test"}, "metrics": metrics}],
    }]})
}

fn number(value: f64, start_ms: i64, at_ms: i64) -> Value {
    json!({
        "attributes": attributes(&[("http.method", "GET")]),
        "startTimeUnixNano": ns(start_ms), "timeUnixNano": ns(at_ms), "asDouble": value,
    })
}

fn gauge(name: &str, points: &[Value]) -> Value {
    json!({"name": name, "gauge": {"dataPoints": points}})
}

fn sum(name: &str, temporality: u64, points: &[Value]) -> Value {
    json!({"name": name, "unit": "By", "description": "Sent.", "sum": {
        "dataPoints": points, "aggregationTemporality": temporality, "isMonotonic": true,
    }})
}

async fn post(served: &TestServer, request: &Value) -> Answer {
    let body = request.to_string();
    served
        .request("POST", "/v1/metrics", &[JSON], body.as_bytes())
        .await
}

#[track_caller]
fn assert_stored(answer: &Answer) {
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.json(), json!({}));
}

/// The value of a query that has one, at a time.
async fn value(served: &TestServer, query: &str, at_ms: i64) -> String {
    let time = format!("{}", at_ms as f64 / 1000.0);
    let params = [("query", query), ("time", time.as_str())];
    let data = served.get("/api/v1/query", &params).await.data();
    match data["result"].as_array().map(Vec::as_slice) {
        Some([one]) => one["value"][1].as_str().unwrap_or_default().to_owned(),
        _ => panic!("{query}: {data}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_type_is_answered_by_promql() {
    let served = TestServer::start(&[]).await;
    let times = json!({"startTimeUnixNano": ns(T0 - 1000), "timeUnixNano": ns(T0)});
    let with = |more: Value| {
        let mut point = times.clone();
        let all = point.as_object_mut().unwrap();
        all.extend(more.as_object().unwrap().clone());
        point
    };
    let histogram = with(json!({
        "count": 6, "sum": 7.5, "bucketCounts": ["1", 2, 3], "explicitBounds": [0.5, 1],
        "exemplars": [{"asDouble": 0.75, "timeUnixNano": ns(T0), "traceId": "0123456789abcdef0123456789abcdef"}],
    }));
    let exponential = with(json!({
        "count": 4, "sum": 10, "scale": 0, "zeroCount": 1,
        "positive": {"offset": 0, "bucketCounts": ["2", 1]},
    }));
    let summary = with(json!({
        "count": 3, "sum": 1.5, "quantileValues": [{"quantile": 0.5, "value": 0.25}],
    }));
    let answer = post(
        &served,
        &request(json!([
            // What has no points keeps nothing else from being stored.
            gauge("empty", &[]),
            sum("empty.sum", CUMULATIVE, &[]),
            {"name": "empty.histogram", "histogram": {"aggregationTemporality": 2}},
            {"name": "empty.exponential", "exponentialHistogram": {}},
            {"name": "empty.summary", "summary": {"dataPoints": []}},
            gauge("room.temperature", &[number(21.5, 0, T0)]),
            sum("sent", CUMULATIVE, &[number(5.0, T0 - 1000, T0)]),
            {"name": "latency", "unit": "s", "histogram": {"dataPoints": [histogram], "aggregationTemporality": 2}},
            {"name": "size", "exponentialHistogram": {"dataPoints": [exponential], "aggregationTemporality": 2}},
            {"name": "rpc", "summary": {"dataPoints": [summary]}},
        ])),
    )
    .await;
    assert_stored(&answer);
    for (query, expected) in [
        (r#"room_temperature{job="shop",http_method="GET"}"#, "21.5"),
        ("sent_bytes_total", "5"),
        (r#"latency_seconds_bucket{le="0.5"}"#, "1"),
        (r#"latency_seconds_bucket{le="1"}"#, "3"),
        (r#"latency_seconds_bucket{le="+Inf"}"#, "6"),
        ("latency_seconds_sum", "7.5"),
        ("latency_seconds_count", "6"),
        ("histogram_count(size)", "4"),
        ("histogram_sum(size)", "10"),
        ("histogram_fraction(1, 2, size)", "0.5"),
        (r#"rpc{quantile="0.5"}"#, "0.25"),
        ("rpc_sum", "1.5"),
        ("rpc_count", "3"),
        (r#"target_info{job="shop",host_name="h"}"#, "1"),
        (
            r#"sent_bytes_total * on (job) group_left (host_name) target_info{host_name="h"}"#,
            "5",
        ),
    ] {
        assert_eq!(value(&served, query, T0).await, expected, "{query}");
    }
    let metadata = served.get("/api/v1/metadata", &[]).await.data();
    let of = |family: &str| metadata[family][0].clone();
    assert_eq!(
        of("sent_bytes_total"),
        json!({"type": "counter", "unit": "bytes", "help": "Sent."})
    );
    assert_eq!(of("latency_seconds")["type"], "histogram");
    assert_eq!(of("rpc")["type"], "summary");
    let exemplars = served
        .get(
            "/api/v1/query_exemplars",
            &[
                ("query", "latency_seconds_bucket"),
                ("start", "1699999000"),
                ("end", "1700000000"),
            ],
        )
        .await
        .data();
    assert_eq!(exemplars[0]["seriesLabels"]["le"], "1", "{exemplars}");
    assert_eq!(
        exemplars[0]["exemplars"][0]["labels"],
        json!({"trace_id": "0123456789abcdef0123456789abcdef"})
    );
    let lines = served.export(&[("match[]", "sent_bytes_total")]).await;
    assert_eq!(lines[0]["start_timestamps"], json!([[T0, T0 - 1000]]));
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn deltas_become_running_totals() {
    let served = TestServer::start(&[]).await;
    for (i, change) in [3.0, 4.0, 5.0].into_iter().enumerate() {
        let start = T0 + 10_000 * i as i64;
        let end = start + 10_000;
        let histogram = json!({
            "startTimeUnixNano": ns(start), "timeUnixNano": ns(end),
            "count": 3, "sum": change, "bucketCounts": [1, 2], "explicitBounds": [1],
        });
        let exponential = json!({
            "startTimeUnixNano": ns(start), "timeUnixNano": ns(end),
            "count": 2, "sum": change, "positive": {"bucketCounts": [2]},
        });
        let metrics = json!([
            sum("sent", DELTA, &[number(change, start, end)]),
            {"name": "latency", "histogram": {"dataPoints": [histogram], "aggregationTemporality": 1}},
            {"name": "size", "exponentialHistogram": {
                "dataPoints": [exponential], "aggregationTemporality": "AGGREGATION_TEMPORALITY_DELTA",
            }},
        ]);
        assert_stored(&post(&served, &request(metrics)).await);
    }
    let end = T0 + 30_000;
    for (query, expected) in [
        ("sent_bytes_total", "12"),
        (r#"latency_bucket{le="1"}"#, "3"),
        (r#"latency_bucket{le="+Inf"}"#, "9"),
        ("latency_sum", "12"),
        ("latency_count", "9"),
        ("histogram_count(size)", "6"),
        ("histogram_sum(size)", "12"),
    ] {
        assert_eq!(value(&served, query, end).await, expected, "{query}");
    }
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn both_paths_forms_and_every_compression() {
    let served = TestServer::start(&[]).await;
    let gzip = |bytes: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    };
    let zstd = |bytes: &[u8]| zstd::encode_all(bytes, 1).unwrap();
    let mut at = T0;
    for path in ["/v1/metrics", "/api/v1/otlp/v1/metrics"] {
        for form in [PROTOBUF, JSON] {
            for encoding in ["identity", "gzip", "zstd"] {
                at += 1000;
                let text = request(json!([gauge("g", &[number(at as f64, 0, at)])])).to_string();
                let body = match form {
                    PROTOBUF => json_to_protobuf(text.as_bytes(), 1 << 20).unwrap(),
                    _ => text.into_bytes(),
                };
                let body = match encoding {
                    "gzip" => gzip(&body),
                    "zstd" => zstd(&body),
                    _ => body,
                };
                let headers = [form, ("Content-Encoding", encoding)];
                let answer = served.request("POST", path, &headers, &body).await;
                assert_eq!(
                    answer.status,
                    200,
                    "{path} {form:?} {encoding}: {}",
                    answer.text()
                );
                assert_eq!(answer.header("content-type"), Some(form.1));
                let expected: &[u8] = if form == JSON { b"{}" } else { b"" };
                assert_eq!(answer.body, expected);
                assert_eq!(value(&served, "g", at).await, at.to_string());
            }
        }
    }
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_refused_is_counted_and_the_rest_is_stored() {
    let served = TestServer::start(&[]).await;
    let timeless = json!({"asDouble": 1});
    let mixed = request(json!([
        gauge("good", &[number(1.0, 0, T0), timeless]),
        sum("vague", 0, &[number(1.0, 0, T0), number(2.0, 0, T0)]),
    ]));
    let answer = post(&served, &mixed).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let partial = &answer.json()["partialSuccess"];
    assert_eq!(partial["rejectedDataPoints"], "3");
    assert_eq!(
        partial["errorMessage"],
        "3 of 4 data points refused: good: data point without a timestamp (×1); \
         vague: neither cumulative nor delta (aggregation temporality 0) (×2)"
    );
    let body = json_to_protobuf(mixed.to_string().as_bytes(), 1 << 20).unwrap();
    let answer = served
        .request("POST", "/v1/metrics", &[PROTOBUF], &body)
        .await;
    assert_eq!(answer.status, 200);
    // partial_success { rejected_data_points: 3, … }
    assert_eq!(answer.body[0], 0x0a);
    assert!(answer.body.windows(3).any(|bytes| bytes == [0x08, 3, 0x12]));
    assert_eq!(value(&served, "good", T0).await, "1");

    // A classic histogram is one point, however many of its series are refused.
    let far = 4_102_444_800_000;
    let histogram = json!({"timeUnixNano": ns(far), "count": 1, "sum": 1, "bucketCounts": [1, 0], "explicitBounds": [1]});
    let metrics = json!([
        gauge("good", &[number(2.0, 0, T0)]),
        {"name": "late", "histogram": {"dataPoints": [histogram], "aggregationTemporality": 2}},
    ]);
    let answer = post(&served, &request(metrics)).await;
    assert_eq!(
        answer.json()["partialSuccess"]["rejectedDataPoints"],
        "1",
        "{}",
        answer.text()
    );
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_are_statuses_in_the_form_of_the_request() {
    let served = TestServer::start(&[
        ("server.write_decompressed_bytes_max", "1MiB"),
        ("server.write_body_bytes_max", "64KiB"),
    ])
    .await;
    let send = async |headers: &[(&str, &str)], body: &[u8]| {
        served.request("POST", "/v1/metrics", headers, body).await
    };
    let answer = send(&[JSON], b"{\"resourceMetrics\":5}").await;
    assert_eq!(answer.status, 400);
    assert_eq!(answer.header("retry-after"), None);
    assert_eq!(
        answer.json(),
        json!({"code": 3, "message": "JSON: expected an array (at byte 19)"})
    );
    let answer = send(&[PROTOBUF], b"\x0a\x05").await;
    assert_eq!(answer.status, 400);
    assert_eq!(
        answer.header("content-type"),
        Some("application/x-protobuf")
    );
    assert!(
        answer.body.starts_with(b"\x08\x03\x12"),
        "{:?}",
        answer.body
    );
    assert!(answer.text().contains("message ends inside a field"));
    // Every point is refused: that is an error, because some clients overlook a partial success.
    let answer = post(
        &served,
        &request(json!([sum("vague", 0, &[number(1.0, 0, T0)])])),
    )
    .await;
    assert_eq!(answer.status, 400);
    assert_eq!(answer.json()["code"], 3);
    assert!(answer.text().contains("1 of 1 data points refused"));
    for headers in [
        &[("Content-Type", "text/plain")][..],
        &[],
        &[PROTOBUF, ("Content-Encoding", "br")],
        &[JSON, ("Content-Encoding", "gzip, gzip")],
    ] {
        assert_eq!(send(headers, b"").await.status, 415, "{headers:?}");
    }
    // A bomb is refused while it is decompressed.
    let bomb = zstd::encode_all(&vec![0u8; 8 << 20][..], 1).unwrap();
    assert!(bomb.len() < 64 << 10);
    let answer = send(&[PROTOBUF, ("Content-Encoding", "zstd")], &bomb).await;
    assert_eq!(answer.status, 413, "{}", answer.text());
    let answer = send(&[PROTOBUF], &vec![0; 65 << 10]).await;
    assert_eq!(answer.status, 413);
    let answer = send(&[PROTOBUF, ("Content-Encoding", "gzip")], b"no gzip").await;
    assert_eq!(answer.status, 400);
    assert_stored(&send(&[JSON], b"{}").await);
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quota_says_when_to_come_back() {
    let served = TestServer::start(&[("limits.series_max", "1")]).await;
    assert_stored(&post(&served, &json!({"resourceMetrics": [{"scopeMetrics": [{"metrics": [gauge("a", &[number(1.0, 0, T0)])]}]}]})).await);
    let second = json!({"resourceMetrics": [{"scopeMetrics": [{"metrics": [gauge("b", &[number(1.0, 0, T0)])]}]}]});
    let answer = post(&served, &second).await;
    assert_eq!(answer.status, 429, "{}", answer.text());
    assert!(answer.header("retry-after").is_some());
    assert_eq!(answer.json()["code"], 8);
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_decide_names_and_labels() {
    let served = TestServer::start(&[
        ("otlp.translation_strategy", "NoTranslation"),
        ("otlp.promote_resource_attributes", "host.name"),
        ("otlp.promote_scope_metadata", "true"),
        ("otlp.exponential_histograms", "classic"),
        ("otlp.convert_histograms_to_nhcb", "true"),
    ])
    .await;
    let point =
        json!({"timeUnixNano": ns(T0), "count": 3, "sum": 5, "positive": {"bucketCounts": [1, 2]}});
    let explicit = json!({"timeUnixNano": ns(T0), "count": 3, "sum": 5, "bucketCounts": [1, 2], "explicitBounds": [1]});
    let metrics = json!([
        sum("sent", CUMULATIVE, &[number(5.0, 0, T0)]),
        {"name": "size", "exponentialHistogram": {"dataPoints": [point], "aggregationTemporality": 2}},
        {"name": "latency", "histogram": {"dataPoints": [explicit], "aggregationTemporality": 2}},
    ]);
    assert_stored(&post(&served, &request(metrics)).await);
    for (query, expected) in [
        (
            r#"sent{"http.method"="GET","host.name"="h",otel_scope_name="test"}"#,
            "5",
        ),
        (r#"size_bucket{le="2"}"#, "1"),
        (r#"size_bucket{le="4"}"#, "3"),
        ("histogram_count(latency)", "3"),
    ] {
        assert_eq!(value(&served, query, T0).await, expected, "{query}");
    }
    served.stop().await.unwrap();
}
