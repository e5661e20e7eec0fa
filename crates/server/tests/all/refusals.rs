//! What is not taken, and what the client is told.

use std::sync::Arc;
use std::time::Duration;

use icecore_storage::Environment;
use icecore_storage::testing::{FaultPlan, FaultStore};

use crate::client::{Connection, request};
use crate::payload::{Payload, T0, compressed, series};
use crate::served::{TestServer, config, until};

const WRITE: &str = "/api/v1/write";

fn one_sample() -> Payload {
    Payload::v1(&[series("up", &[], &[(T0, 1.0)])])
}

#[tokio::test(flavor = "multi_thread")]
async fn other_content_is_a_415() {
    let served = TestServer::start(&[]).await;
    let body = one_sample().body();
    for headers in [
        [("Content-Type", "application/json"), ("X", "y")],
        [
            (
                "Content-Type",
                "application/x-protobuf;proto=io.prometheus.write.v3.Request",
            ),
            ("Content-Encoding", "snappy"),
        ],
        [
            ("Content-Type", "application/x-protobuf"),
            ("Content-Encoding", "gzip"),
        ],
        [("Content-Type", "text/\u{fc}"), ("X", "y")],
    ] {
        let answer = served.request("POST", WRITE, &headers, &body).await;
        assert_eq!(answer.status, 415, "{headers:?}: {}", answer.text());
        assert!(
            answer.text().contains("is not accepted, expected"),
            "{}",
            answer.text()
        );
    }
    // Old clients send no header at all.
    let answer = served.request("POST", WRITE, &[], &body).await;
    assert_eq!(answer.status, 204);
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn too_much_is_a_413() {
    let served = TestServer::start(&[
        ("server.write_body_bytes_max", "4KiB"),
        ("server.write_decompressed_bytes_max", "8KiB"),
    ])
    .await;
    let small = one_sample();
    let long_body = vec![0; 3_000_000];
    let answer = served
        .request("POST", WRITE, &small.headers(), &long_body)
        .await;
    assert_eq!(answer.status, 413);
    assert!(
        answer.text().contains("server.write_body_bytes_max = 4096"),
        "{}",
        answer.text()
    );

    let mut chunked = Connection::open(served.address).await;
    let head = format!("POST {WRITE} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
    chunked.send(head.as_bytes()).await;
    for _ in 0..100 {
        chunked
            .send(format!("400\r\n{}\r\n", "x".repeat(1024)).as_bytes())
            .await;
    }
    chunked.send(b"0\r\n\r\n").await;
    assert_eq!(chunked.answer("POST").await.status, 413);

    let bomb = compressed(&vec![0; 9 << 10]);
    let answer = served.request("POST", WRITE, &small.headers(), &bomb).await;
    assert_eq!(answer.status, 413, "{}", answer.text());
    assert_eq!(served.write(&small).await.status, 204);
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn malformed_is_a_400_and_nothing_is_stored() {
    let served = TestServer::start(&[]).await;
    let good = one_sample();
    let body = good.body();
    let cut = &body[..body.len() - 3];
    let in_protobuf = compressed(&[&[0x0a, 0x05][..], b"abc"].concat());
    for (body, reason) in [
        (&b"not snappy at all"[..], "snappy"),
        (b"", "snappy"),
        (cut, "snappy"),
        (&in_protobuf, "protobuf"),
    ] {
        let answer = served.request("POST", WRITE, &good.headers(), body).await;
        assert_eq!(answer.status, 400, "{}", answer.text());
        assert!(answer.text().contains(reason), "{}", answer.text());
    }
    let as_v2 = Payload::v2(&[]).headers();
    let answer = served.request("POST", WRITE, &as_v2, &good.body()).await;
    assert_eq!(answer.status, 400, "{}", answer.text());
    let written = answer.header("x-prometheus-remote-write-samples-written");
    assert_eq!(written, Some("0"));
    assert_eq!(served.export_all().await.len(), 0);
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_as_a_whole_can_be_too_much() {
    let served = TestServer::start(&[
        ("limits.samples_per_request_max", "3"),
        ("limits.open_buckets_max", "1"),
    ])
    .await;
    let four = series("up", &[], &[(T0, 1.0); 4]);
    let answer = served.write(&Payload::v1(&[four])).await;
    assert_eq!(answer.status, 400);
    assert!(answer.text().contains("limits.samples_per_request_max"));
    let hour = |i: i64| series("up", &[], &[(T0 + i * 3_600_000, 1.0)]);
    // While there is room for one hour a request may open two; then there is none until some are
    // flushed, which happens within seconds, so this one may be repeated.
    let answer = served.write(&Payload::v2(&[hour(0), hour(1)])).await;
    assert_eq!(answer.status, 204, "{}", answer.text());
    let answer = served.write(&Payload::v2(&[hour(2)])).await;
    if answer.status != 204 {
        assert_eq!(answer.status, 503, "{}", answer.text());
        assert!(answer.header("retry-after").is_some());
        let written = answer.header("x-prometheus-remote-write-samples-written");
        assert_eq!(written, Some("0"));
    }
    let status = || async { served.write(&Payload::v2(&[hour(2)])).await.status };
    until(status, |status| *status == 204, "a flush of an hour").await;
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_beyond_the_limit_are_told_to_come_back() {
    let directory = tempfile::tempdir().unwrap();
    let plan = FaultPlan {
        delay: 1.0,
        delay_max: Duration::from_secs(600),
        ..FaultPlan::quiet(7)
    };
    let store = FaultStore::local(directory.path(), plan).unwrap();
    store.set_enabled(false);
    let environment = Environment {
        object_store: Some(Arc::new(store.clone())),
        ..Environment::default()
    };
    let settings = [
        ("storage.location", directory.path().to_str().unwrap()),
        ("server.concurrent_writes_max", "1"),
        ("journal.commit_timeout", "1h"),
    ];
    let served = TestServer::starting(config(&settings), environment).await;
    served.until_ready().await;
    let payload = one_sample();
    // Its commit does not end, so that it keeps its place.
    store.set_enabled(true);
    let mut slow = Connection::open(served.address).await;
    let whole = request("POST", WRITE, &payload.headers(), &payload.body());
    slow.send(&whole).await;
    served
        .until_metrics(&["icecore_journal_lag_requests 1"])
        .await;
    let refused = served.write(&payload).await;
    assert_eq!(refused.status, 503);
    assert!(refused.header("retry-after").is_some());
    assert!(refused.text().contains("server.concurrent_writes_max"));
    store.set_enabled(false);
    assert_eq!(slow.answer("POST").await.status, 204);
    assert_eq!(served.write(&payload).await.status, 204);
    served.stop().await.unwrap();
}

/// A sender whose body does not arrive takes a place from nobody, whatever the protocol.
#[tokio::test(flavor = "multi_thread")]
async fn idle_uploads_keep_nobody_from_writing() {
    let served = TestServer::start(&[("server.concurrent_writes_max", "1")]).await;
    let payload = one_sample();
    let whole = request("POST", WRITE, &payload.headers(), &payload.body());
    let (first, rest) = whole.split_at(whole.len() - 5);
    let otlp = [("Content-Type", "application/x-protobuf")];
    let otlp = request("POST", "/v1/metrics", &otlp, &[0; 100]);
    let mut idle = Vec::new();
    for _ in 0..8 {
        for begun in [first, &otlp[..otlp.len() - 50]] {
            let mut connection = Connection::open(served.address).await;
            connection.send(begun).await;
            idle.push(connection);
        }
    }
    let all = "icecore_http_requests_in_flight 17";
    served.until_metrics(&[all]).await;
    let written = served.write(&payload).await;
    assert_eq!(written.status, 204, "{}", written.text());
    idle[0].send(rest).await;
    assert_eq!(idle[0].answer("POST").await.status, 204);
    drop(idle);
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn write_bodies_have_a_common_memory() {
    let served = TestServer::start(&[
        ("server.write_body_bytes_max", "1KiB"),
        ("server.write_decompressed_bytes_max", "1KiB"),
    ])
    .await;
    // Both together may take four KiB: five bodies that have nearly arrived are too many.
    let payload = one_sample();
    let mut slow = Vec::new();
    for _ in 0..5 {
        let mut connection = Connection::open(served.address).await;
        let whole = request("POST", WRITE, &payload.headers(), &[0; 1000]);
        connection.send(&whole[..whole.len() - 1]).await;
        slow.push(connection);
    }
    let all_began = [
        "icecore_write_body_bytes_max 4096",
        "icecore_http_requests_in_flight 6",
        "icecore_write_body_bytes 3996",
    ];
    served.until_metrics(&all_began).await;
    let mut answers = Vec::new();
    for connection in slow.iter_mut().rev() {
        connection.send(&[0]).await;
        answers.push(connection.answer("POST").await.status);
    }
    answers.sort_unstable();
    assert_eq!(answers, [400, 400, 400, 400, 503]);
    served.until_metrics(&["icecore_write_body_bytes 0"]).await;
    assert_eq!(served.write(&payload).await.status, 204);
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_paths_and_methods() {
    let served = TestServer::start(&[]).await;
    let message = served
        .get("/api/v1/nothing", &[])
        .await
        .error(404, "not_found");
    assert!(message.contains("/api/v1/nothing"), "{message}");
    for (method, path, allow) in [
        ("GET", WRITE, "OPTIONS, POST"),
        ("DELETE", "/api/v1/series", "GET, OPTIONS, POST"),
        ("POST", "/api/v1/metadata", "GET, OPTIONS"),
        ("GET", "/-/flush", "OPTIONS, POST, PUT"),
        ("POST", "/metrics", "GET, OPTIONS"),
        ("POST", "/-/healthy", "GET, HEAD, OPTIONS"),
    ] {
        let answer = served.request(method, path, &[], b"").await;
        answer.error(405, "bad_data");
        assert_eq!(answer.header("allow"), Some(allow), "{method} {path}");
    }
    for (method, path, status, allow) in [
        ("HEAD", "/-/ready", 200, None),
        ("HEAD", "/-/healthy", 200, None),
        (
            "HEAD",
            "/api/v1/query?query=1",
            405,
            Some("GET, OPTIONS, POST"),
        ),
        ("HEAD", "/metrics", 405, Some("GET, OPTIONS")),
        ("HEAD", "/", 405, Some("GET, OPTIONS")),
        ("HEAD", "/nothing", 404, None),
        ("OPTIONS", "/metrics", 200, Some("GET, OPTIONS")),
        ("OPTIONS", "/api/v1/query", 204, Some("GET, OPTIONS, POST")),
        ("OPTIONS", "/api/v1/nothing", 204, None),
    ] {
        let answer = served.request(method, path, &[], b"").await;
        assert_eq!(answer.status, status, "{method} {path}");
        assert_eq!(answer.header("allow"), allow, "{method} {path}");
    }
    served.stop().await.unwrap();
}

/// As in Prometheus 3.14, but for `/api/v1/…/`, whose `Location` has lost `/api/v1` there.
#[tokio::test(flavor = "multi_thread")]
async fn paths_that_are_nearly_right_are_redirected() {
    let served = TestServer::start(&[]).await;
    for (method, path, status, location) in [
        (
            "GET",
            "//api/v1/query?query=1",
            307,
            Some("/api/v1/query?query=1"),
        ),
        ("POST", "//api/v1/query", 307, Some("/api/v1/query")),
        ("PUT", "//api/v1/query", 307, Some("/api/v1/query")),
        ("GET", "/api/v1//query", 307, Some("/api/v1/query")),
        ("GET", "/api/v1/../v1/query", 307, Some("/api/v1/query")),
        ("GET", "/api/v1/./query", 307, Some("/api/v1/query")),
        (
            "GET",
            "/api/v1/label//values",
            307,
            Some("/api/v1/label/values"),
        ),
        ("GET", "//", 307, Some("/")),
        ("GET", "//-/ready", 307, Some("/-/ready")),
        ("GET", "//nothing", 307, Some("/nothing")),
        (
            "GET",
            "/api/v1/query/?query=1",
            301,
            Some("/api/v1/query?query=1"),
        ),
        ("POST", "/api/v1/query/", 307, Some("/api/v1/query")),
        ("GET", "/federate/", 301, Some("/federate")),
        ("GET", "/metrics/", 301, Some("/metrics")),
        ("GET", "/-/healthy/", 301, Some("/-/healthy")),
        (
            "GET",
            "/api/v1/label/job/values/",
            301,
            Some("/api/v1/label/job/values"),
        ),
        ("POST", "/federate/", 404, None),
        ("PUT", "/api/v1/query/", 404, None),
        ("GET", "/nothing/", 404, None),
        ("GET", "/api/v1/", 404, None),
        ("GET", "/api/v1/query/x", 404, None),
    ] {
        let answer = served.request(method, path, &[], b"").await;
        assert_eq!(answer.status, status, "{method} {path}");
        assert_eq!(answer.header("location"), location, "{method} {path}");
    }
    // A client that is given a base URL with a slash at its end gets its answer, forms included.
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let url = format!("http://{}//api/v1/query", served.address);
    let form = "application/x-www-form-urlencoded";
    let asked = client.post(url).header("content-type", form);
    let asked = asked.body("query=1%2B1").send().await;
    let answer = asked.unwrap().text().await.unwrap();
    assert!(answer.contains("\"2\""), "{answer}");
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_other_origins_may_read() {
    let served = TestServer::start(&[]).await;
    let origin = [("Origin", "http://elsewhere")];
    let asked = served
        .request("OPTIONS", "/api/v1/series", &origin, b"")
        .await;
    assert_eq!(asked.status, 204);
    let labels = served.request("GET", "/api/v1/labels", &origin, b"").await;
    let wrong = served.request("GET", "/api/v1/series", &origin, b"").await;
    assert_eq!((labels.status, wrong.status), (200, 400));
    for answer in [asked, labels, wrong] {
        for (name, value) in [
            ("access-control-allow-origin", "*"),
            ("access-control-allow-methods", "GET, POST, OPTIONS"),
            (
                "access-control-allow-headers",
                "Accept, Authorization, Content-Type, Origin",
            ),
            ("access-control-expose-headers", "Date"),
        ] {
            assert_eq!(answer.header(name), Some(value));
        }
    }
    let same_origin = served.get("/api/v1/labels", &[]).await;
    assert_eq!(same_origin.header("access-control-allow-origin"), None);
    let not_api = served.request("GET", "/metrics", &origin, b"").await;
    assert_eq!(not_api.header("access-control-allow-origin"), None);
    served.stop().await.unwrap();
}
