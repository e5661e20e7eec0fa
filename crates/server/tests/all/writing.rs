//! What was written comes back: both protocol versions, before and after a flush and a restart.

use serde_json::json;

use crate::client::Connection;
use crate::payload::{Payload, Series, T0, series};
use crate::served::TestServer;

const WRITTEN: [&str; 3] = [
    "x-prometheus-remote-write-samples-written",
    "x-prometheus-remote-write-histograms-written",
    "x-prometheus-remote-write-exemplars-written",
];

fn everything() -> Vec<Series> {
    vec![
        series("up", &[("job", "a")], &[(T0, 1.0), (T0 + 15_000, -0.5)]),
        series("http.größe", &[("späte.zeile", "ja\n")], &[(T0, 7.0)]),
        Series {
            histograms: vec![(T0, 42)],
            exemplars: vec![(T0, 0.25)],
            ..series("latency", &[], &[])
        },
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn remote_write_1_comes_back() {
    let served = TestServer::start(&[]).await;
    let answer = served.write(&Payload::v1(&everything())).await;
    assert_eq!(answer.status, 204, "{}", answer.text());
    assert_eq!(answer.header(WRITTEN[0]), None);
    check_everything(&served.export_all().await, &json!(null));
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn remote_write_2_comes_back_with_start_timestamps() {
    let served = TestServer::start(&[]).await;
    let mut all = everything();
    all[0].start_ms = T0 - 1000;
    let answer = served.write(&Payload::v2(&all)).await;
    assert_eq!(answer.status, 204, "{}", answer.text());
    let written = WRITTEN.map(|name| answer.header(name).unwrap());
    assert_eq!(written, ["3", "1", "1"]);
    let starts = json!([[T0, T0 - 1000], [T0 + 15_000, T0 - 1000]]);
    check_everything(&served.export_all().await, &starts);
    served.stop().await.unwrap();
}

#[track_caller]
fn check_everything(lines: &[serde_json::Value], starts: &serde_json::Value) {
    let of = |name: &str| {
        let found = lines.iter().find(|l| l["metric"]["__name__"] == name);
        found.unwrap_or_else(|| panic!("{name} is not in {lines:?}"))
    };
    assert_eq!(lines.len(), 3);
    let up = of("up");
    assert_eq!(up["metric"], json!({"__name__": "up", "job": "a"}));
    assert_eq!(up["values"], json!([1, -0.5]));
    assert_eq!(up["timestamps"], json!([T0, T0 + 15_000]));
    assert_eq!(up["start_timestamps"], *starts);
    assert_eq!(of("http.größe")["metric"]["späte.zeile"], "ja\n");
    let histogram = &of("latency")["histograms"][0];
    assert_eq!(histogram["count"], 42, "{histogram}");
    assert_eq!(histogram["timestamp"], T0, "{histogram}");
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_there_after_a_flush_and_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let settings = [("storage.location", directory.path().to_str().unwrap())];
    let served = TestServer::start(&settings).await;
    served.write(&Payload::v1(&everything())).await;
    let before = served.export_all().await;
    for method in ["POST", "PUT"] {
        let flushed = served.request(method, "/-/flush", &[], b"").await;
        assert_eq!(flushed.status, 200, "{}", flushed.text());
    }
    assert_eq!(served.export_all().await, before);
    served.stop().await.unwrap();

    let served = TestServer::start(&settings).await;
    assert_eq!(served.export_all().await, before);
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn stopping_flushes() {
    let directory = tempfile::tempdir().unwrap();
    let settings = [("storage.location", directory.path().to_str().unwrap())];
    let served = TestServer::start(&settings).await;
    served.write(&Payload::v1(&everything())).await;
    served.stop().await.unwrap();
    let served = TestServer::start(&settings).await;
    let metrics = served.get("/metrics", &[]).await;
    assert!(
        metrics
            .text()
            .contains("\nicecore_replay_samples_total 0\n")
    );
    assert!(metrics.text().contains("\nicecore_buckets 1\n"));
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_good_part_of_a_bad_request_is_stored() {
    let served = TestServer::start(&[]).await;
    let far = 4_102_444_800_000;
    let mixed = [
        series("good", &[], &[(T0, 1.0), (far, 2.0)]),
        series("", &[("no", "name")], &[(T0, 3.0)]),
        series("also_good", &[], &[(T0, 4.0)]),
    ];
    for (payload, counts) in [
        (Payload::v1(&mixed), [None; 3]),
        (Payload::v2(&mixed), [Some("2"), Some("0"), Some("0")]),
    ] {
        let answer = served.write(&payload).await;
        assert_eq!(answer.status, 400);
        assert_eq!(WRITTEN.map(|name| answer.header(name)), counts);
        assert_eq!(answer.header("retry-after"), None);
        let text = answer.text();
        assert!(text.starts_with("2 refused, 2 stored: "), "{text}");
        assert!(
            text.contains("limits.future_max") && text.contains("__name__"),
            "{text}"
        );
        assert_eq!(text.trim_end().lines().count(), 1, "{text}");
    }
    let lines = served.export_all().await;
    let values: Vec<_> = lines.iter().map(|line| line["values"].clone()).collect();
    assert_eq!(values, [json!([4]), json!([1])]);
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quota_is_a_429_and_the_rest_is_stored() {
    let served = TestServer::start(&[("limits.series_max", "2")]).await;
    let three = ["a", "b", "c"].map(|name| series(name, &[], &[(T0, 1.0)]));
    let answer = served.write(&Payload::v2(&three)).await;
    assert_eq!(answer.status, 429, "{}", answer.text());
    assert!(answer.header("retry-after").is_some());
    assert_eq!(answer.header(WRITTEN[0]), Some("2"));
    assert!(
        answer.text().contains("limits.series_max"),
        "{}",
        answer.text()
    );
    assert_eq!(served.export_all().await.len(), 2);
    // Something that stays wrong makes it a 400, or the sender would repeat that for ever.
    let mut with_nameless = three.to_vec();
    with_nameless.push(series("", &[], &[(T0, 1.0)]));
    assert_eq!(served.write(&Payload::v1(&with_nameless)).await.status, 400);
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_serves_many_requests() {
    let served = TestServer::start(&[]).await;
    let mut connection = Connection::open(served.address).await;
    for i in 0..5 {
        let payload = Payload::v1(&[series("up", &[], &[(T0 + i * 1000, i as f64)])]);
        let answer = connection
            .request("POST", "/api/v1/write", &payload.headers(), &payload.body())
            .await;
        assert_eq!(answer.status, 204);
    }
    // Without a length, in chunks that cut the body anywhere.
    let payload = Payload::v1(&[series("up", &[], &[(T0 + 9000, 9.0)])]);
    let mut request =
        b"POST /api/v1/write HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    for piece in payload.body().chunks(7) {
        request.extend(format!("{:x}\r\n", piece.len()).bytes());
        request.extend(piece);
        request.extend(b"\r\n");
    }
    request.extend(b"0\r\n\r\n");
    connection.send(&request).await;
    assert_eq!(connection.answer("POST").await.status, 204);
    let lines = served.export_all().await;
    assert_eq!(lines[0]["values"], json!([0, 1, 2, 3, 4, 9]));
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn metadata_is_kept() {
    let served = TestServer::start(&[]).await;
    let payload = Payload::v1(&[])
        .with_metadata("up", 2, "Whether it \"runs\".", "")
        .with_metadata("bytes_total", 1, "How many.", "bytes");
    assert_eq!(served.write(&payload).await.status, 204);
    let path = "/api/v1/metadata";
    let bytes = json!([{"type": "counter", "help": "How many.", "unit": "bytes"}]);
    let up = json!([{"type": "gauge", "help": "Whether it \"runs\".", "unit": ""}]);
    let all = served.get(path, &[]).await;
    assert_eq!(all.data(), json!({"bytes_total": bytes, "up": up}));
    let first = served.get(path, &[("limit", "1"), ("limit_per_metric", "1")]);
    assert_eq!(first.await.data(), json!({"bytes_total": bytes}));
    let one = served.get(path, &[("metric", "up")]).await;
    assert_eq!(one.data(), json!({"up": up}));
    let none = served.get(path, &[("metric", "down")]).await;
    assert_eq!(none.data(), json!({}));
    for name in ["limit", "limit_per_metric"] {
        let message = served
            .get(path, &[(name, "x")])
            .await
            .error(400, "bad_data");
        assert_eq!(message, format!("{name} must be a number"));
    }
    served.stop().await.unwrap();
}
