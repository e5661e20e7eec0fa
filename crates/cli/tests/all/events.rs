//! Events as services and people meet them: published over HTTP, counted in five windows, found by
//! search, SQL, PromQL and in files that other programs read; also after crashes.

mod commands;
mod crash;
mod flow;
mod others;
mod shards;
mod stored;
mod tutorial;

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value as Json, json};

use crate::http::Client;
use crate::served::{Serve, TestServer, Workplace, icecore};

/// The windows, finest first.
const WINDOWS: [&str; 5] = ["5s", "1m", "1h", "1d", "7d"];

const JSON: (&str, &str) = ("Content-Type", "application/json");

/// One type with a metric of each kind.
const DOCUMENTS: &str = r#"
apiVersion: obsinity/v1
kind: Event
metadata: { service: shop, name: order.placed }
spec:
  retention: { ttl: 30d }
  schema:
    type: object
    required: [order.channel]
    properties:
      order:
        type: object
        properties:
          channel: { type: string, index: true }
          items: { type: integer, index: true }
          latency_ms: { type: number }
      stock:
        type: object
        properties:
          level: { type: integer }
      customer:
        type: object
        properties:
          email: { type: string }
  dimensions: [order.channel]
  masking:
    - { path: customer.email, action: drop }
---
apiVersion: obsinity/v1
kind: MetricCounter
metadata: { service: shop, event: order.placed, name: orders }
spec:
  key: { dimensions: [order.channel] }
---
apiVersion: obsinity/v1
kind: MetricHistogram
metadata: { service: shop, event: order.placed, name: order_latency_ms }
spec:
  value: order.latency_ms
  key: { dimensions: [order.channel] }
  buckets: { strategy: custom, bounds: [10, 20, 50] }
---
apiVersion: obsinity/v1
kind: MetricGauge
metadata: { service: shop, event: order.placed, name: stock_level }
spec:
  value: stock.level
  reducer: latest
"#;

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    i64::try_from(since.expect("it is after 1970").as_millis()).expect("a time of this age")
}

/// The identity of the event with this number.
fn id(number: u64) -> String {
    format!("0199a1c0-7d11-7a3e-9b44-{number:012x}")
}

/// An order through one of two channels.
fn order(number: u64, at_ms: i64) -> Json {
    let channel = if number.is_multiple_of(2) {
        "web"
    } else {
        "app"
    };
    json!({
        "eventId": id(number),
        "event": {"name": "order.placed", "kind": "SERVER"},
        "resource": {"service": {"id": "shop"}},
        "time": {"startUnixNano": at_ms * 1_000_000, "endUnixNano": (at_ms + 5) * 1_000_000},
        "status": {"code": "OK"},
        "attributes": {
            "order": {"channel": channel, "items": number % 7, "latency_ms": number % 60},
            "stock.level": number,
            "customer": {"email": "somebody@example.org"},
        },
    })
}

/// Starts a server on a directory, with these settings.
fn serve(workplace: &Workplace, flags: &[&str]) -> TestServer {
    Serve::new(workplace.path("data"), workplace.path("log"))
        .flags(flags)
        .start()
}

/// Registers the documents, as people do.
fn register(workplace: &Workplace, served: &TestServer) {
    let file = workplace.path("shop.yaml");
    std::fs::write(&file, DOCUMENTS).expect("a file can be written");
    let output = events(served, &["apply", path_text(&file)]);
    assert!(output.contains("shop"), "{output}");
}

fn path_text(path: &Path) -> &str {
    path.to_str().expect("paths of tests are text")
}

/// The Parquet files below a directory.
fn files_in(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut rest = vec![directory.to_path_buf()];
    while let Some(directory) = rest.pop() {
        for entry in std::fs::read_dir(&directory)
            .into_iter()
            .flatten()
            .flatten()
        {
            let path = entry.path();
            if path.is_dir() {
                rest.push(path);
            } else if path.extension().is_some_and(|ending| ending == "parquet") {
                found.push(path);
            }
        }
    }
    found
}

/// What `icecore events …` prints.
#[track_caller]
fn events(served: &TestServer, arguments: &[&str]) -> String {
    let url = format!("http://{}", served.address().expect("it listens"));
    let output = icecore()
        .arg("events")
        .args(arguments)
        .args(["--server", &url])
        .output()
        .expect("the binary was built for this test");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {error}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Posts a document and gives the answer, which must have this status.
#[track_caller]
fn post(client: &mut Client, path: &str, document: &Json, status: u16) -> Json {
    let response = client.post(path, &[JSON], document.to_string().as_bytes());
    let response = response.expect("an answer");
    assert_eq!(response.status, status, "{path}: {}", response.text());
    serde_json::from_slice(&response.body).expect("JSON")
}

#[track_caller]
fn get(client: &mut Client, path: &str, status: u16) -> Json {
    let response = client.get(path).expect("an answer");
    assert_eq!(response.status, status, "{path}: {}", response.text());
    serde_json::from_slice(&response.body).expect("JSON")
}

fn flush(client: &mut Client) {
    let response = client
        .post("/api/admin/flush", &[], b"")
        .expect("an answer");
    assert_eq!(response.status, 200, "{}", response.text());
}

/// What the counter of orders adds up to in intervals of this length, and the window that was read.
#[track_caller]
fn counted(client: &mut Client, interval: &str, start_ms: i64, end_ms: i64) -> (i64, String) {
    let question = json!({
        "serviceKey": "shop", "eventType": "order.placed", "counterName": "orders",
        "interval": interval, "start": time_text(start_ms), "end": time_text(end_ms),
        "limits": {"offset": 0, "limit": 11_000},
    });
    let answer = post(client, "/api/query/counters", &question, 200);
    let intervals = answer["data"]["intervals"].as_array().expect("intervals");
    let counts = intervals
        .iter()
        .flat_map(|interval| interval["counts"].as_array().expect("counts"))
        .map(|count| count["count"].as_i64().expect("a number"));
    let window = answer["window"].as_str().expect("a window").to_owned();
    (counts.sum(), window)
}

/// UTC as RFC 3339 has it, to the second.
fn time_text(ms: i64) -> String {
    let time = chrono::DateTime::from_timestamp_millis(ms).expect("a time of this age");
    time.format("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Compares the rows of an answer in SQL. A binary without SQL has to say that it has none.
#[track_caller]
fn check_sql(client: &mut Client, query: &str, expected: &[Json]) {
    let question = json!({"q": query, "limit": 100_000, "format": "row", "allowFullScan": true});
    if !has_sql() {
        let answer = post(client, "/events/sql", &question, 501);
        assert_eq!(answer["code"], "sql.not-built", "{answer}");
        return;
    }
    let answer = post(client, "/events/sql", &question, 200);
    let rows = answer["data"]["rows"].as_array();
    assert_eq!(rows.map(Vec::as_slice), Some(expected), "{answer}");
}

fn has_sql() -> bool {
    let has_sql = cfg!(feature = "sql");
    if !has_sql {
        skipped_tests::skip(
            "SQL over events in the real process",
            "cargo test -p icecore --features sql --test all events (builds DataFusion: minutes)",
        );
    }
    has_sql
}
