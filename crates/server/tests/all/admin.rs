//! Deletion and snapshots as an operator meets them.

use std::sync::Arc;

use icecore_storage::{Environment, ManualClock};
use serde_json::{Value, json};

use crate::payload::{Payload, T0, series};
use crate::served::{TestServer, config};

const DELETE: &str = "/api/v1/admin/tsdb/delete_series";
const CLEAN: &str = "/api/v1/admin/tsdb/clean_tombstones";
const SNAPSHOT: &str = "/api/v1/admin/tsdb/snapshot";
const SNAPSHOTS: &str = "/api/v1/admin/tsdb/snapshots";

const HOUR_MS: i64 = 3_600_000;

async fn write(served: &TestServer) {
    let samples = |add: f64| -> Vec<(i64, f64)> {
        let times = (0..3).flat_map(|hour| [T0 + hour * HOUR_MS, T0 + hour * HOUR_MS + 15_000]);
        times.map(|time| (time, add)).collect()
    };
    let payload = Payload::v1(&[
        series("cpu", &[("host", "a")], &samples(1.0)),
        series("cpu", &[("host", "b")], &samples(2.0)),
        series("up", &[("host", "a")], &samples(3.0)),
    ]);
    assert_eq!(served.write(&payload).await.status, 204);
}

/// Names and labels of what an export has, with the number of samples.
async fn counts(served: &TestServer) -> Vec<(String, usize)> {
    let lines = served.export_all().await;
    let line = |line: &Value| {
        let metric = &line["metric"];
        let name = metric["__name__"].as_str().unwrap();
        let host = metric["host"].as_str().unwrap();
        let samples = line["values"].as_array().unwrap().len();
        (format!("{name} {host}"), samples)
    };
    lines.iter().map(line).collect()
}

fn named(counts: &[(&str, usize)]) -> Vec<(String, usize)> {
    counts.iter().map(|(n, c)| ((*n).to_owned(), *c)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_deleted_is_gone_and_can_come_back() {
    // Soon after the samples: older ones would be in one coarse bucket, which is cleaned by itself.
    let environment = Environment {
        clock: Some(Arc::new(ManualClock::at(T0 + 4 * HOUR_MS))),
        ..Environment::default()
    };
    let served = TestServer::starting(config(&[]), environment).await;
    served.until_ready().await;
    write(&served).await;
    // In the URL or in a form, with either method.
    let path = format!("{DELETE}?match[]=up");
    let answer = served.request("PUT", &path, &[], b"").await;
    assert_eq!((answer.status, answer.body.len()), (204, 0));
    assert_eq!(counts(&served).await, named(&[("cpu a", 6), ("cpu b", 6)]));
    let names = served
        .get("/api/v1/label/__name__/values", &[])
        .await
        .data();
    assert_eq!(names, json!(["cpu"]));
    let found = served.get("/api/v1/series", &[("match[]", "up")]).await;
    assert_eq!(found.data(), json!([]));

    // A range that ends inside an hour.
    let (start, end) = (T0 / 1000 + 15, T0 / 1000 + 3600);
    let range = [
        ("match[]", "{host=\"b\"}"),
        ("match[]", "nothing"),
        ("start", &start.to_string()),
        ("end", &end.to_string()),
    ];
    assert_eq!(served.post_form(DELETE, &range).await.status, 204);
    let after = named(&[("cpu a", 6), ("cpu b", 4)]);
    assert_eq!(counts(&served).await, after);
    let query = [
        ("query", "count_over_time(cpu[3h])"),
        ("time", &(T0 / 1000 + 7300).to_string()),
    ];
    let result = served.get("/api/v1/query", &query).await.data();
    assert_eq!(result["result"][1]["value"][1], "4", "{result}");
    let metrics = served.get("/metrics", &[]).await;
    assert!(metrics.text().contains("icecore_tombstone_buckets 3\n"));

    let cleaned = served.request("POST", CLEAN, &[], b"").await;
    assert_eq!(cleaned.status, 204, "{}", cleaned.text());
    assert_eq!(counts(&served).await, after);
    let metrics = served.get("/metrics", &[]).await;
    assert!(metrics.text().contains("icecore_tombstone_buckets 0\n"));

    // The same once more: what is written after a deletion counts.
    write(&served).await;
    let all = named(&[("cpu a", 6), ("cpu b", 6), ("up a", 6)]);
    assert_eq!(counts(&served).await, all);
    served.request("POST", "/-/flush", &[], b"").await;
    assert_eq!(counts(&served).await, all);
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_deleted_is_said() {
    let served = TestServer::start(&[]).await;
    write(&served).await;
    let error = |params: &'static [(&'static str, &'static str)]| {
        let served = &served;
        async move {
            served
                .post_form(DELETE, params)
                .await
                .error(400, "bad_data")
        }
    };
    assert_eq!(error(&[]).await, "no match[] parameter provided");
    assert!(error(&[("match[]", "{")]).await.contains("match[]"));
    assert!(error(&[("match[]", "{}")]).await.contains("match[]"));
    assert!(
        error(&[("match[]", "up"), ("start", "yesterday")])
            .await
            .contains("start")
    );
    let reversed = error(&[("match[]", "up"), ("start", "9"), ("end", "1")]).await;
    assert!(reversed.contains("must not be before"), "{reversed}");
    let many: Vec<(&str, &str)> = vec![("match[]", "up"); 300];
    let many = served.post_form(DELETE, &many).await.error(400, "bad_data");
    assert!(many.contains("300 selectors"), "{many}");
    for path in [DELETE, CLEAN, SNAPSHOT] {
        assert_eq!(served.get(path, &[]).await.status, 405, "{path}");
    }
    assert_eq!(counts(&served).await.len(), 3);
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn snapshots_are_made_listed_and_deleted() {
    let served = TestServer::start(&[]).await;
    write(&served).await;
    assert_eq!(served.get(SNAPSHOTS, &[]).await.data(), json!([]));
    let made = served
        .post_form(SNAPSHOT, &[("name", "nightly"), ("ttl", "7d")])
        .await
        .data();
    assert_eq!(made["name"], "nightly");
    let life = made["expiresMs"].as_i64().unwrap() - made["createdMs"].as_i64().unwrap();
    assert!((life - 7 * 24 * HOUR_MS).abs() <= 2000, "{made}");
    let unnamed = served.request("PUT", SNAPSHOT, &[], b"").await.data();
    let name = unnamed["name"].as_str().unwrap().to_owned();
    assert!(name.len() > 20 && name.contains("T"), "{unnamed}");
    assert_eq!(unnamed["expiresMs"], Value::Null);
    let listed = served.get(SNAPSHOTS, &[]).await.data();
    assert_eq!(listed, json!([made, unnamed]));

    for (params, told) in [
        (&[("name", "nightly")][..], "already"),
        (&[("name", "a/b")], "letters"),
        (&[("ttl", "soon")], "ttl"),
        (&[("ttl", "0s")], "ttl"),
    ] {
        let error = served
            .post_form(SNAPSHOT, params)
            .await
            .error(400, "bad_data");
        assert!(error.contains(told), "{error}");
    }
    let path = format!("{SNAPSHOT}/{name}");
    assert_eq!(served.request("DELETE", &path, &[], b"").await.status, 204);
    let again = served.request("DELETE", &path, &[], b"").await;
    assert!(again.error(404, "not_found").contains(&name));
    assert_eq!(served.get(SNAPSHOTS, &[]).await.data(), json!([made]));
    served.stop().await.unwrap();
}
