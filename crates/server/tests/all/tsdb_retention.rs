//! `storage.tsdb.retention.time`: what a file of Prometheus says how long samples are kept.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::payload::{Payload, series};
use crate::served::{TestServer, config, until};

const DAY_MS: i64 = 86_400_000;

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(since.as_millis()).unwrap()
}

/// Starts on a directory and waits until the policy is decided.
async fn start(directory: &str, retain: &str) -> (TestServer, Value) {
    let settings = [
        ("storage.location", directory),
        ("storage.tsdb.retention.time", retain),
    ];
    let served = TestServer::start(&settings).await;
    let status = || async { served.get("/api/v1/status/retention", &[]).await.data() };
    let is_decided = |data: &Value| !data["policy"].is_null() || !data["pending"].is_null();
    let status = until(status, is_decided, "a decision").await;
    (served, status)
}

fn raw(status: &Value) -> &Value {
    &status["policy"]["levels"][0]["retain"]
}

#[tokio::test(flavor = "multi_thread")]
async fn older_data_stays_until_an_operator_confirms_once() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path().to_str().unwrap();
    let served = TestServer::start(&[("storage.location", directory)]).await;
    let times = [40, 25, 0].map(|days| (now_ms() - days * DAY_MS, 1.0));
    let payload = Payload::v1(&[series("up", &[], &times)]);
    assert_eq!(served.write(&payload).await.status, 204);
    served.stop().await.unwrap();

    let (served, status) = start(directory, "30d").await;
    assert_eq!(status["policy"], Value::Null);
    assert_eq!(status["pending"]["retain"], "30d");
    assert!(
        status["pending"]["buckets"].as_u64().unwrap() > 0,
        "{status}"
    );
    let oldest_ms = status["pending"]["oldestMs"].as_i64().unwrap();
    assert!(oldest_ms <= now_ms() - 40 * DAY_MS, "{status}");
    let values = |lines: &[Value]| lines[0]["values"].as_array().unwrap().len();
    assert_eq!(values(&served.export_all().await), 3);
    let path = "/api/v1/admin/retention/apply";
    let confirmed = served.request("POST", path, &[], b"").await.data();
    assert_eq!(raw(&confirmed), "30d");
    assert_eq!(confirmed["pending"], Value::Null);
    served.stop().await.unwrap();

    // It is remembered, and counts for longer times as well.
    let (served, status) = start(directory, "30d").await;
    assert_eq!(
        (raw(&status), &status["pending"]),
        (&"30d".into(), &Value::Null)
    );
    served.stop().await.unwrap();
    // A shorter one needs another; what was confirmed holds meanwhile.
    let (served, status) = start(directory, "20d").await;
    assert_eq!(raw(&status), "30d");
    assert_eq!(status["pending"]["retain"], "20d");
    served.stop().await.unwrap();
    // Without the setting the confirmation is forgotten.
    let served = TestServer::start(&[("storage.location", directory)]).await;
    served.stop().await.unwrap();
    let (served, status) = start(directory, "20d").await;
    assert_eq!(status["policy"], Value::Null);
    served.stop().await.unwrap();
}

/// A machine without a clock of its own begins in the past, and would find nothing old.
#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_is_behind_confirms_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path().to_str().unwrap();
    let served = TestServer::start(&[("storage.location", directory)]).await;
    let times = [100, 95].map(|days| (now_ms() - days * DAY_MS, 1.0));
    let payload = Payload::v1(&[series("up", &[], &times)]);
    assert_eq!(served.write(&payload).await.status, 204);
    served.stop().await.unwrap();
    let settings = config(&[
        ("storage.location", directory),
        ("storage.tsdb.retention.time", "30d"),
    ]);
    for behind_ms in [90 * DAY_MS, now_ms()] {
        let served = TestServer::start_at(settings.clone(), now_ms() - behind_ms).await;
        let status = || async { served.get("/api/v1/status/retention", &[]).await.data() };
        let is_decided = |data: &Value| !data["policy"].is_null() || !data["pending"].is_null();
        let status = until(status, is_decided, "a decision").await;
        assert_eq!(status["policy"], Value::Null, "{status}");
        served.stop().await.unwrap();
    }
    let (served, status) = start(directory, "30d").await;
    assert_eq!(status["pending"]["retain"], "30d", "{status}");
    let values = |lines: &[Value]| lines[0]["values"].as_array().unwrap().len();
    assert_eq!(values(&served.export_all().await), 2);
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_database_has_the_retention_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path().to_str().unwrap();
    let (served, status) = start(directory, "90m").await;
    // In whole hours.
    assert_eq!(
        (raw(&status), &status["pending"]),
        (&"2h".into(), &Value::Null)
    );
    served.stop().await.unwrap();
    // A policy says more than Prometheus' setting.
    let served = TestServer::start(&[
        ("storage.location", directory),
        ("storage.tsdb.retention.time", "90m"),
        ("retention", "3h"),
    ])
    .await;
    let status = || async { served.get("/api/v1/status/retention", &[]).await.data() };
    until(status, |status| raw(status) == "3h", "the policy").await;
    served.stop().await.unwrap();
}
