//! OpenTSDB's queries over samples that the server itself has rolled up and culled.

use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::client::encoded;
use crate::served::{TestServer, config};

const HOUR: i64 = 3600;
const DAY: i64 = 24 * HOUR;

/// A midnight, 60 days after which it is now: samples go after 21 days, and windows of 5 minutes
/// after 90.
const START: i64 = 1_699_920_000;
const NOW: i64 = START + 60 * DAY;

const ROLLUPS: &str = r#"{"aggregationIds":{"sum":0,"count":1,"min":2,"max":3},"intervals":[
    {"table":"tsdb","preAggregationTable":"tsdb-agg","interval":"1m","rowSpan":"1h","defaultInterval":true},
    {"table":"tsdb-1h","preAggregationTable":"tsdb-agg-1h","interval":"1h","rowSpan":"1d"}]}"#;

/// With or without rollups of clients, which answer what they are for.
async fn served(folder: &Path, has_rollups: bool) -> TestServer {
    std::fs::write(folder.join("rollups.json"), ROLLUPS).unwrap();
    let settings = format!(
        "tsd.core.auto_create_metrics = true\ntsd.http.request.enable_chunked = true\n\
         tsd.http.request.max_chunk = 1048576\ntsd.rollups.enable = {has_rollups}\n\
         tsd.rollups.config = rollups.json\n"
    );
    let file = folder.join("opentsdb.conf");
    std::fs::write(&file, settings).unwrap();
    let config = config(&[
        ("opentsdb.config", file.to_str().unwrap()),
        ("retention", "default"),
        ("storage.gc_min_age", "1s"),
    ]);
    TestServer::start_at(config, NOW * 1000).await
}

async fn post(served: &TestServer, path: &str, points: Vec<Value>) {
    let body = Value::from(points).to_string();
    let answer = served.request("POST", path, &[], body.as_bytes()).await;
    assert_eq!(answer.status, 204, "{}", answer.text());
}

/// Five days of about a point a minute, some of them on the minute, of two hosts, and an hour of
/// today.
async fn put(served: &TestServer) {
    for (host, factor) in [("a", 1.0), ("b", 0.25)] {
        let old = (0..5 * 1440).map(|i| START + i * 60 + i % 3);
        let new = (0..12).map(|i| NOW - 2 * HOUR + i * 300);
        let points = old.chain(new).enumerate().map(|(i, time)| {
            json!({"metric": "m", "timestamp": time, "value": (i * i % 977) as f64 * factor,
                   "tags": {"host": host}})
        });
        let points: Vec<Value> = points.collect();
        for part in points.chunks(2000) {
            post(served, "/opentsdb/api/put", part.to_vec()).await;
        }
    }
}

/// Sums, counts and greatest values of hours, and a sum over hosts.
async fn put_rollups(served: &TestServer) {
    let mut points = Vec::new();
    for hour in 0..5 * 24 {
        for (function, value) in [("SUM", hour * 7), ("COUNT", 12), ("MAX", 100 - hour)] {
            points.push(
                json!({"metric": "r", "timestamp": START + hour * HOUR, "value": value,
                       "interval": "1h", "aggregator": function, "tags": {"host": "a"}}),
            );
        }
        points.push(
            json!({"metric": "r", "timestamp": START + hour * HOUR, "value": hour,
                   "groupByAggregator": "SUM", "tags": {"dc": "x"}}),
        );
    }
    post(served, "/opentsdb/api/rollup", points).await;
}

async fn query(served: &TestServer, m: &str, more: &str) -> Value {
    let (start, end) = (START, NOW);
    let m = encoded(&[("m", m)]);
    let path = format!("/opentsdb/api/query?start={start}&end={end}&{m}{more}");
    let answer = served.get(&path, &[]).await;
    assert_eq!(answer.status, 200, "{m}: {}", answer.text());
    serde_json::from_slice(&answer.body).unwrap()
}

/// The points of all results.
fn points(results: &Value) -> Vec<(String, f64)> {
    let results = results.as_array().unwrap().iter();
    let points = results.flat_map(|result| result["dps"].as_object().unwrap());
    let points = points.map(|(time, value)| (time.clone(), value.as_f64().unwrap()));
    points.collect()
}

fn assert_near(found: &[(String, f64)], expected: &[(String, f64)], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (found, expected) in found.iter().zip(expected) {
        let near = (found.1 - expected.1).abs() <= 1e-9 * expected.1.abs().max(1.0);
        assert!(
            found.0 == expected.0 && near,
            "{what}: {found:?}, not {expected:?}"
        );
    }
}

/// On the grid of windows of 5 minutes, or of an hour.
const QUERIES: [&str; 14] = [
    "sum:1h-sum:m",
    "sum:1h-avg:m{host=*}",
    "max:5m-max:m",
    "min:15m-min:m{host=*}",
    "sum:1d-count:m",
    "zimsum:2h-last:m",
    "avg:1h-first:m",
    "sum:1h-dev:m{host=*}",
    "sum:3h-squareSum:m",
    "none:1h-diff:m",
    "sum:rate:1h-avg:m",
    "sum:1h-sum-zero:m",
    "sum:0all-sum:m",
    "mimmax:1dc-mimmin:m",
];

const CLIENT_QUERIES: [&str; 6] = [
    "sum:1h-sum:r",
    "sum:6h-avg:r",
    "sum:1d-max:r",
    "sum:2h-count:r",
    "sum:1h-sum:rollup_fallback:r",
    "sum:r{_aggregate=SUM}",
];

async fn promql(served: &TestServer, query: &str, time: i64) -> Value {
    let time = time.to_string();
    let params = [("query", query), ("time", &time)];
    served.get("/api/v1/query", &params).await.data()["result"].clone()
}

/// The points of queries.
async fn ask_all(served: &TestServer, queries: &[&str]) -> Vec<Vec<(String, f64)>> {
    let mut all = Vec::new();
    for m in queries {
        let found = points(&query(served, m, "").await);
        assert!(!found.is_empty(), "{m}");
        all.push(found);
    }
    all
}

/// Rolls up and culls what is old.
async fn grow_old(served: &TestServer) {
    let report = served.request("POST", "/api/v1/admin/maintenance/run", &[], b"");
    let report = report.await.data();
    assert!(report["rolledUp"] != 0 && report["culled"] != 0, "{report}");
    let status = served.get("/api/v1/status/maintenance", &[]).await.data();
    let culled_ms = status["levels"][0]["culledBeforeMs"].as_i64().unwrap();
    assert!(culled_ms >= (START + 5 * DAY) * 1000, "{status}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rollups_of_clients_outlive_their_samples() {
    let folder = TempDir::new().unwrap();
    let served = served(folder.path(), true).await;
    put_rollups(&served).await;
    let before = ask_all(&served, &CLIENT_QUERIES).await;
    grow_old(&served).await;
    assert_eq!(ask_all(&served, &CLIENT_QUERIES).await, before);
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_outlive_the_points() {
    let folder = TempDir::new().unwrap();
    let served = served(folder.path(), false).await;
    put(&served).await;
    let before = ask_all(&served, &QUERIES).await;
    let everything = points(&query(&served, "none:m{host=a}", "").await);
    grow_old(&served).await;
    let after = ask_all(&served, &QUERIES).await;
    for (m, (after, before)) in QUERIES.iter().zip(after.iter().zip(&before)) {
        assert_near(after, before, m);
    }
    // Really gone: of points there is today, and of windows what is left of them.
    let raw = points(&query(&served, "none:1h-sum:rollup_raw:m{host=a}", "").await);
    assert_eq!(raw.len(), 1);
    let left = points(&query(&served, "none:m{host=a}", "").await);
    assert!(left.len() < everything.len());
    assert!(left.iter().all(|point| everything.contains(point)));
    // The levels are named.
    let shown = query(&served, "sum:1h-sum:m", "&show_summary").await;
    let levels = &shown[1]["statsSummary"]["rollup"];
    assert_eq!(levels[0]["resolution"], "1h");
    assert_eq!(levels[0]["start"], START);
    let shown = query(&served, "sum:1m-max:m{host=a}", "&show_stats").await;
    assert_eq!(shown[0]["stats"]["rollup"][0]["interval"], "5m");
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_stands_for_others_counts_twice() {
    let folder = TempDir::new().unwrap();
    let served = served(folder.path(), true).await;
    let point = |metric: &str, tags: Value| json!({"metric": metric, "timestamp": NOW - 60, "value": 1, "tags": tags});
    let points = vec![
        point("r", json!({"host": "a"})),
        point("r", json!({"host": "b"})),
        point("r", json!({"dc": "x", "_aggregate": "SUM"})),
    ];
    post(&served, "/opentsdb/api/put", points).await;
    let rolled = vec![
        json!({"metric": "r", "timestamp": NOW, "value": 2, "interval": "1h",
               "aggregator": "SUM", "tags": {"host": "a"}}),
        json!({"metric": "r", "timestamp": NOW, "value": 2, "interval": "1h",
               "aggregator": "SUM", "groupByAggregator": "SUM", "tags": {"dc": "x"}}),
        json!({"metric": "r", "timestamp": NOW, "value": 2, "groupByAggregator": "SUM",
               "tags": {"dc": "x"}}),
    ];
    post(&served, "/opentsdb/api/rollup", rolled).await;
    for (query, expected) in [
        ("count(r)", Some("2")),
        (r#"count({host=~".+"})"#, Some("2")),
        (r#"count({__name__=~"r.*"})"#, Some("2")),
        (r#"count(r{_aggregate="SUM"})"#, Some("1")),
        (r#"count({_aggregate="SUM"})"#, Some("2")),
        (r#"count({_aggregate="SUM",__rollup__=""})"#, Some("1")),
        (r#"count({__rollup__="1h-sum"})"#, Some("1")),
        (r#"count({"r:1h-sum"})"#, Some("1")),
        (r#"count({__rollup__=~".+",_aggregate=~".*"})"#, Some("3")),
        (r#"count({"r:groupby"})"#, None),
        (r#"count({"r:groupby",_aggregate="SUM"})"#, Some("1")),
    ] {
        let found = promql(&served, query, NOW).await;
        assert_eq!(found[0]["value"][1].as_str(), expected, "{query}: {found}");
    }
    let federated = served
        .get("/federate", &[("match[]", r#"{host=~".+"}"#)])
        .await;
    assert_eq!(
        federated.text().matches("host=").count(),
        2,
        "{}",
        federated.text()
    );
    // What there is can be found out, and taken elsewhere.
    let series = served
        .get("/api/v1/series", &[("match[]", r#"{host="a"}"#)])
        .await
        .data();
    assert_eq!(series.as_array().unwrap().len(), 2, "{series}");
    assert_eq!(served.export_all().await.len(), 6);
    served.stop().await.unwrap();
}
