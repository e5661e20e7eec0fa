//! Coarsening as its operator meets it: what it says, and a run that is asked for.

use std::sync::Arc;

use icecore_storage::{Environment, ManualClock};
use serde_json::{Value, json};

use crate::payload::{Payload, T0, series};
use crate::served::{TestServer, config};

const STATUS: &str = "/api/v1/status/maintenance";
const RUN: &str = "/api/v1/admin/maintenance/run";

const HOUR_MS: i64 = 3_600_000;

async fn run(served: &TestServer) -> Value {
    served.request("POST", RUN, &[], b"").await.data()
}

fn keys(object: &Value) -> Vec<&str> {
    let keys = object.as_object().expect("an object").keys();
    keys.map(String::as_str).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_database_has_nothing_to_do() {
    let served = TestServer::start(&[]).await;
    let report = run(&served).await;
    for key in [
        "coarsened",
        "retired",
        "folded",
        "rolledUp",
        "culled",
        "metadataCulled",
        "bytesRead",
        "bytesWritten",
    ] {
        assert_eq!(report[key], 0, "{key} in {report}");
    }
    assert!(report["seconds"].as_f64().unwrap() >= 0.0, "{report}");
    assert_eq!(keys(&report).len(), 14, "{report}");

    let answer = served.get(STATUS, &[]).await;
    assert_eq!(answer.header("content-type"), Some("application/json"));
    let status = answer.data();
    let mut expected = vec![
        "enabled",
        "paused",
        "running",
        "waiting",
        "waitingSeconds",
        "lagSeconds",
        "buckets",
        "retired",
        "run",
        "dirty",
        "tombstones",
        "quarantined",
        "overlapping",
        "skipped",
        "levels",
        "keptBackCount",
        "keptBack",
        "lastError",
    ];
    expected.sort_unstable();
    assert_eq!(keys(&status), expected);
    for (key, value) in [
        ("running", Value::Null),
        ("lastError", Value::Null),
        ("waiting", json!(0)),
        ("waitingSeconds", Value::Null),
        ("buckets", json!([])),
        ("retired", json!(0)),
        ("dirty", json!(0)),
        ("overlapping", json!(0)),
        ("skipped", json!([])),
    ] {
        assert_eq!(status[key], value, "{key} in {status}");
    }
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_changes_no_answer() {
    // Soon after the two windows: of older samples a coarse bucket would be made at once.
    let environment = Environment {
        clock: Some(Arc::new(ManualClock::at(1_700_064_600_000))),
        ..Environment::default()
    };
    let served = TestServer::starting(config(&[]), environment).await;
    served.until_ready().await;
    let hour = |h: i64| {
        [
            (T0 + h * HOUR_MS, h as f64),
            (T0 + h * HOUR_MS + 15_000, 0.5),
        ]
    };
    let samples: Vec<(i64, f64)> = (0..6).flat_map(hour).collect();
    let payload = Payload::v1(&[
        series("up", &[("job", "a")], &samples),
        series("up", &[("job", "b")], &samples[3..]),
    ]);
    assert_eq!(served.write(&payload).await.status, 204);
    let before = served.export_all().await;
    assert_eq!(before.len(), 2);
    let report = run(&served).await;
    assert_ne!(report["coarsened"], 0, "{report}");
    assert_eq!(served.export_all().await, before);
    // Six hours in two windows.
    let status = served.get(STATUS, &[]).await.data();
    let all = json!([{"hours": 16, "count": 2}]);
    assert_eq!(status["buckets"], all, "{status}");
    let metrics = served.get("/metrics", &[]).await;
    for line in [
        "icecore_buckets_by_size{hours=\"16\"} 2\n",
        "icecore_maintenance_jobs_total{kind=\"coarsen\",result=\"failed\"} 0\n",
        "icecore_maintenance_dirty_buckets 0\n",
    ] {
        assert!(metrics.text().contains(line), "{line}");
    }

    // Late samples, some over stored ones.
    let late = Payload::v1(&[series(
        "up",
        &[("job", "a")],
        &[(T0 + 1000, 7.0), (T0 + 15_000, 8.0)],
    )]);
    assert_eq!(served.write(&late).await.status, 204);
    let with_late = served.export_all().await;
    assert_ne!(with_late, before);
    run(&served).await;
    assert_eq!(served.export_all().await, with_late);
    let again = run(&served).await;
    assert_eq!(again["coarsened"], 0, "{again}");
    assert_eq!(again["folded"], 0, "{again}");
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_at_once_are_all_answered() {
    let served = TestServer::start(&[]).await;
    let payload = Payload::v1(&[series("up", &[], &[(T0, 1.0)])]);
    assert_eq!(served.write(&payload).await.status, 204);
    let (a, b, c) = tokio::join!(run(&served), run(&served), run(&served));
    for report in [a, b, c] {
        assert!(report["seconds"].is_number(), "{report}");
    }
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn only_with_the_right_method() {
    let served = TestServer::start(&[]).await;
    served.get(RUN, &[]).await.error(405, "bad_data");
    let posted = served.request("POST", STATUS, &[], b"").await;
    posted.error(405, "bad_data");
    let put = served.request("PUT", RUN, &[], b"").await;
    assert_eq!(put.status, 200, "{}", put.text());
    served.stop().await.unwrap();
}
