//! Federation: which samples, in which order, in which format.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::payload::{Payload, Series, series};
use crate::served::TestServer;

const STALE: u64 = 0x7ff0_0000_0000_0002;
const PROTOBUF: &str =
    "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited";

fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.expect("it is after 1970");
    now.as_millis() as i64
}

async fn with_series(now: i64) -> TestServer {
    let served = TestServer::start(&[]).await;
    let (earlier, recent, old) = (now - 60_000, now - 30_000, now - 600_000);
    let ended = f64::from_bits(STALE);
    let native = Series {
        histograms: vec![(recent, 7)],
        ..series("latency", &[("job", "a")], &[])
    };
    let payload = Payload::v1(&[
        series(
            "up",
            &[("job", "b"), ("instance", "i")],
            &[(earlier, 0.0), (recent, 1.0)],
        ),
        series("up", &[("job", "a")], &[(recent, 0.5)]),
        series(
            "up",
            &[("job", "ended")],
            &[(earlier, 1.0), (recent, ended)],
        ),
        series("up", &[("job", "old")], &[(old, 1.0)]),
        series("http_total", &[("job", "a")], &[(recent, 1e6)]),
        series("disk.größe", &[("job", "a")], &[(recent, 3.0)]),
        native,
    ])
    .with_metadata("up", 2, "Whether it runs.", "")
    .with_metadata("http", 1, "Requests.", "");
    assert_eq!(served.write(&payload).await.status, 204);
    served
}

#[tokio::test(flavor = "multi_thread")]
async fn no_selector_selects_nothing() {
    let served = with_series(now_ms()).await;
    let answer = served.get("/federate", &[]).await;
    assert_eq!((answer.status, answer.text()), (200, ""));
    let content_type = answer.header("content-type").unwrap();
    assert!(content_type.starts_with("text/plain"), "{content_type}");
    served
        .get("/federate", &[("match[]", "{")])
        .await
        .error(400, "bad_data");
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn latest_samples_as_text() {
    let now = now_ms();
    let served = with_series(now).await;
    let params = [("match[]", "{job=~\".+\"}"), ("match[]", "up")];
    let answer = served.get("/federate", &params).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(
        answer.header("content-type"),
        Some("text/plain; version=0.0.4; charset=utf-8; escaping=underscores")
    );
    let at = now - 30_000;
    let expected = format!(
        "# TYPE disk_gr__e untyped\n\
         disk_gr__e{{job=\"a\",instance=\"\"}} 3 {at}\n\
         # TYPE http_total counter\n\
         http_total{{job=\"a\",instance=\"\"}} 1000000 {at}\n\
         # TYPE up gauge\n\
         up{{instance=\"i\",job=\"b\"}} 1 {at}\n\
         up{{job=\"a\",instance=\"\"}} 0.5 {at}\n"
    );
    assert_eq!(answer.text(), expected);

    let none = served.get("/federate", &[("match[]", "nothing")]).await;
    assert_eq!((none.status, none.text()), (200, ""));
    let refused = served.get("/federate", &[("match[]", "{")]).await;
    refused.error(400, "bad_data");
}

#[tokio::test(flavor = "multi_thread")]
async fn native_histograms_need_protobuf() {
    let served = with_series(now_ms()).await;
    let path = "/federate?match[]=latency";
    let plain = served.request("GET", path, &[], b"").await;
    assert_eq!(plain.text(), "");
    let accept = [("Accept", PROTOBUF)];
    let answer = served.request("GET", path, &accept, b"").await;
    let content_type = answer.header("content-type").unwrap();
    assert!(
        content_type.starts_with("application/vnd.google.protobuf; proto="),
        "{content_type}"
    );
    let length = usize::from(answer.body[0]);
    assert_eq!(answer.body.len(), length + 1);
    assert!(answer.body[1..].starts_with(b"\x0a\x07latency\x18\x04\x22"));
}
