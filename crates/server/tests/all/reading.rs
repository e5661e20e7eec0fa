//! Series, labels and exports: parameters, order, limits, and answers that break off.

use serde_json::{Value, json};

use crate::client::{Connection, encoded, request};
use crate::payload::{Payload, Series, T0, series};
use crate::scraper::Scraper;
use crate::served::TestServer;

const HOUR: i64 = 3_600_000;

/// Three metrics; `old` lies two hours before the others.
async fn with_three_metrics(settings: &[(&str, &str)]) -> TestServer {
    let served = TestServer::start(settings).await;
    let payload = Payload::v1(&[
        series("cpu", &[("host", "a"), ("mode", "idle")], &[(T0, 1.0)]),
        series(
            "cpu",
            &[("host", "b"), ("mode", "user")],
            &[(T0, 2.0), (T0 + 60_000, 3.0)],
        ),
        series("old", &[("host", "c")], &[(T0 - 2 * HOUR, 4.0)]),
        series("disk.größe", &[("disk.größe", "1")], &[(T0, 5.0)]),
    ]);
    assert_eq!(served.write(&payload).await.status, 204);
    served
}

fn seconds(ms: i64) -> String {
    format!("{}", ms as f64 / 1000.0)
}

#[tokio::test(flavor = "multi_thread")]
async fn series_by_selector_and_time() {
    let served = with_three_metrics(&[]).await;
    let path = "/api/v1/series";
    let a = json!({"__name__": "cpu", "host": "a", "mode": "idle"});
    let b = json!({"__name__": "cpu", "host": "b", "mode": "user"});
    let c = json!({"__name__": "old", "host": "c"});
    let both = served.read(path, &[("match[]", "cpu")]).await;
    assert_eq!(both.data(), json!([a, b]));
    let either = [
        ("match[]", "cpu{host=\"a\"}"),
        ("match[]", "{host=~\"a|c\"}"),
    ];
    assert_eq!(served.read(path, &either).await.data(), json!([a, c]));
    let (start, end) = (seconds(T0 - HOUR), seconds(T0 + HOUR));
    let recent = [
        ("match[]", "{host!=\"\"}"),
        ("start", &start),
        ("end", &end),
    ];
    assert_eq!(served.read(path, &recent).await.data(), json!([a, b]));
    let before = [("match[]", "{host!=\"\"}"), ("end", &start)];
    assert_eq!(served.read(path, &before).await.data(), json!([c]));
    let quoted = [("match[]", "{\"disk.größe\"}")];
    let found = served.read(path, &quoted).await.data();
    assert_eq!(
        found,
        json!([{"__name__": "disk.größe", "disk.größe": "1"}])
    );
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_cut_with_a_warning() {
    let served = with_three_metrics(&[]).await;
    let everything = ("match[]", "{__name__!=\"\"}");
    for (path, total) in [
        ("/api/v1/series", 4),
        ("/api/v1/labels", 4),
        ("/api/v1/label/host/values", 3),
    ] {
        for (limit, kept) in [("1", 1), ("2", 2), ("4", total), ("9", total), ("0", total)] {
            let answer = served.read(path, &[everything, ("limit", limit)]).await;
            assert_eq!(
                answer.data().as_array().unwrap().len(),
                kept,
                "{path} {limit}"
            );
            let expected = if kept < total {
                json!(["results truncated due to limit"])
            } else {
                Value::Null
            };
            assert_eq!(answer.json()["warnings"], expected, "{path} {limit}");
        }
    }
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn label_names_and_values() {
    let served = with_three_metrics(&[]).await;
    let names = served.read("/api/v1/labels", &[]).await.data();
    assert_eq!(names, json!(["__name__", "disk.größe", "host", "mode"]));
    let of_old = served.read("/api/v1/labels", &[("match[]", "old")]).await;
    assert_eq!(of_old.data(), json!(["__name__", "host"]));
    for (path, values) in [
        ("/api/v1/label/host/values", json!(["a", "b", "c"])),
        (
            "/api/v1/label/__name__/values",
            json!(["cpu", "disk.größe", "old"]),
        ),
        ("/api/v1/label/absent/values", json!([])),
        // Escaped as Prometheus 3 does, or only as URLs are.
        ("/api/v1/label/U__disk_2e_gr_f6__df_e/values", json!(["1"])),
        ("/api/v1/label/disk.gr%C3%B6%C3%9Fe/values", json!(["1"])),
    ] {
        assert_eq!(served.read(path, &[]).await.data(), values, "{path}");
    }
    let of_cpu = [("match[]", "cpu")];
    let hosts = served.read("/api/v1/label/host/values", &of_cpu).await;
    assert_eq!(hosts.data(), json!(["a", "b"]));
    let not_a_name = served.get("/api/v1/label/%ff/values", &[]).await;
    let message = not_a_name.error(400, "bad_data");
    assert!(message.starts_with("invalid label name: "), "{message}");
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_parameters_are_named() {
    let served = TestServer::start(&[]).await;
    for (path, params, reason) in [
        ("/api/v1/series", &[][..], "no match[] parameter provided"),
        ("/api/v1/export", &[], "no match[] parameter provided"),
        ("/api/v1/series", &[("match[]", "{a=")], "\"match[]\": 1:4"),
        // Prometheus names the parameter of series alone.
        (
            "/api/v1/labels",
            &[("match[]", "{a=~\"(\"}")],
            "parse error: error parsing regexp",
        ),
        (
            "/api/v1/export",
            &[("match[]", "{}")],
            "at least one non-empty matcher",
        ),
        (
            "/api/v1/labels",
            &[("start", "soon")],
            "\"start\": invalid time value for 'start': cannot parse \"soon\"",
        ),
        (
            "/api/v1/labels",
            &[("end", "1e99")],
            "\"end\": invalid time value for 'end': cannot parse \"1e99\"",
        ),
        (
            "/api/v1/labels",
            &[("start", "9"), ("end", "8")],
            "before start",
        ),
        (
            "/api/v1/labels",
            &[("limit", "-1")],
            "limit must be non-negative",
        ),
        ("/api/v1/label/a/values", &[("limit", "x")], "\"limit\""),
    ] {
        let message = served.read(path, params).await.error(400, "bad_data");
        assert!(message.contains(reason), "{path} {params:?}: {message}");
    }
    let json = [("Content-Type", "application/json")];
    let posted = served.request("POST", "/api/v1/labels", &json, b"{}").await;
    let message = posted.error(400, "bad_data");
    assert!(
        message.contains("application/x-www-form-urlencoded"),
        "{message}"
    );
    let long = format!("x={}", "y".repeat(2 << 20));
    let form = [("Content-Type", "application/x-www-form-urlencoded")];
    let posted = served
        .request("POST", "/api/v1/labels", &form, long.as_bytes())
        .await;
    posted.error(413, "bad_data");
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn exports_by_time_and_each_series_once() {
    let served = with_three_metrics(&[("read.batch_series", "1")]).await;
    let (start, end) = (seconds(T0 + 1), seconds(T0 + 60_000));
    let later = [("match[]", "cpu"), ("start", &start), ("end", &end)];
    let lines = served.export(&later).await;
    assert_eq!(lines.len(), 1);
    assert_eq!(lines[0]["values"], json!([3]));
    let twice = [
        ("match[]", "cpu{mode=\"user\"}"),
        ("match[]", "old"),
        ("match[]", "{host!=\"\"}"),
        ("match[]", "cpu"),
    ];
    let hosts: Vec<Value> = served
        .export(&twice)
        .await
        .iter()
        .map(|line| line["metric"]["host"].clone())
        .collect();
    assert_eq!(hosts, ["b", "c", "a"]);
    let nothing = served.export(&[("match[]", "absent")]).await;
    assert_eq!(nothing.len(), 0);
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_of_reading_are_a_422() {
    let served = with_three_metrics(&[("read.series_max", "3")]).await;
    for path in ["/api/v1/series", "/api/v1/export"] {
        let answer = served.read(path, &[("match[]", "{__name__!=\"\"}")]).await;
        let message = answer.error(422, "execution");
        assert!(message.contains("read.series_max"), "{message}");
    }
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_that_fails_midway_is_seen_to_be_incomplete() {
    let served = with_three_metrics(&[("read.batch_series", "1"), ("read.samples_max", "2")]).await;
    for _ in 0..20 {
        let mut connection = Connection::open(served.address).await;
        let asked = request("GET", "/api/v1/export?match[]=cpu", &[], b"");
        connection.send(&asked).await;
        // What was sent before the failure may have reached the client or not.
        let Some(answer) = connection.answer_if_any("GET").await else {
            continue;
        };
        assert_eq!(answer.status, 200);
        assert!(!answer.complete);
        let first = "{\"metric\":{\"__name__\":\"cpu\",\"host\":\"a\"";
        assert!(answer.body.is_empty() || answer.text().starts_with(first));
    }
    // What is within the limit is complete.
    assert_eq!(served.export(&[("match[]", "old")]).await.len(), 1);
    served.stop().await.unwrap();
}

/// Enough that no socket buffer holds all of it.
fn many_samples() -> Vec<Payload> {
    let of_series = |i: usize| {
        let samples: Vec<(i64, f64)> = (0..10_000i64)
            .map(|t| (T0 + t * 100, (t * 7919 % 10_007) as f64 / 7.0))
            .collect();
        Series {
            labels: vec![
                ("__name__".into(), "many".into()),
                ("i".into(), i.to_string()),
            ],
            samples,
            ..Series::default()
        }
    };
    (0..20)
        .map(|part| {
            Payload::v1(&[4 * part, 4 * part + 1, 4 * part + 2, 4 * part + 3].map(of_series))
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_reader_holds_its_place_and_others_are_told() {
    let scraper = Scraper::start_with("", &[("server.concurrent_reads_max", "1")]).await;
    let served = &scraper.served;
    for payload in many_samples() {
        assert_eq!(served.write(&payload).await.status, 204);
    }
    // Much more than either request takes before it waits.
    let reloaded = scraper
        .reload("icecore: {server: {request_timeout: 5s}}")
        .await;
    assert_eq!(reloaded.status, 200, "{}", reloaded.text());
    let form = [("Content-Type", "application/x-www-form-urlencoded")];
    let body = encoded(&[("match[]", "many")]);
    let asked = request("POST", "/api/v1/export", &form, body.as_bytes());
    let mut slow = Connection::open(served.address).await;
    slow.send(&asked).await;
    // Its answer has begun, so it has the place.
    assert_eq!(slow.head().await.expect("a head").0, 200);
    let waited = served.get("/api/v1/labels", &[]).await;
    let message = waited.error(503, "timeout");
    assert!(message.contains("server.request_timeout"), "{message}");
    assert!(waited.header("retry-after").is_some());
    // Reading on, the slow one gets all of it although it took longer than a request may.
    let mut body = Vec::new();
    slow.chunks(&mut body).await.expect("all of it");
    assert_eq!(body.iter().filter(|byte| **byte == b'\n').count(), 80);
    scraper.reload("").await;
    assert_eq!(served.get("/api/v1/labels", &[]).await.status, 200);

    // A reader that goes away gives its place back.
    let mut gone = Connection::open(served.address).await;
    gone.send(&asked).await;
    assert_eq!(gone.head().await.expect("a head").0, 200);
    drop(gone);
    assert_eq!(served.get("/api/v1/labels", &[]).await.status, 200);
    scraper.served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_storage_holds_for_an_answer_is_limited() {
    let served = TestServer::start(&[("query.max_memory", "1MiB")]).await;
    let long = "x".repeat(400);
    for some in 0..4 {
        let hosts: Vec<String> = (0..1000).map(|n| format!("{some}-{n:04}-{long}")).collect();
        let wide: Vec<Series> = hosts
            .iter()
            .map(|host| series("wide", &[("host", host)], &[(T0, 1.0)]))
            .collect();
        assert_eq!(served.write(&Payload::v1(&wide)).await.status, 204);
    }
    let few = [("match[]", "wide{host=~\"0-000.*\"}")];
    assert_eq!(served.read("/api/v1/series", &few).await.status, 200);
    let all = [("match[]", "wide")];
    for path in [
        "/api/v1/series",
        "/api/v1/label/host/values",
        "/api/v1/export",
        "/api/v1/status/tsdb",
    ] {
        let reason = served.read(path, &all).await.error(422, "execution");
        assert!(reason.contains("query.max_memory"), "{path}: {reason}");
    }
    let names = served.read("/api/v1/labels", &all).await.data();
    assert_eq!(names, json!(["__name__", "host"]), "that is not much");
    let time = seconds(T0);
    let query = [("query", "count(wide)"), ("time", time.as_str())];
    let answer = served.read("/api/v1/query", &query).await;
    let reason = answer.error(422, "execution");
    assert!(reason.contains("query.max_memory"), "{reason}");
    served.stop().await.unwrap();
}
