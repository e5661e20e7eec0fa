//! Events over HTTP: what is taken, what is refused and how it is said, who may do what.

mod faults;
mod states;
mod while_sealing;

use std::io::Write as _;

use serde_json::{Value, json};

use crate::client::Answer;
use crate::served::{TestServer, until};

const JSON: (&str, &str) = ("Content-Type", "application/json");
const YAML: (&str, &str) = ("Content-Type", "application/yaml");

const DOCUMENTS: &str = r#"
apiVersion: obsinity/v1
kind: Event
metadata: { service: shop, name: order.placed }
spec:
  schema:
    type: object
    required: [order.channel]
    properties:
      order:
        type: object
        properties:
          channel: { type: string, index: true }
          items: { type: integer, index: true }
---
apiVersion: obsinity/v1
kind: MetricCounter
metadata: { service: shop, event: order.placed, name: orders }
spec: { key: { dimensions: [order.channel] } }
"#;

fn id(number: u64) -> String {
    format!("0199a1c0-7d11-7a3e-9b44-{number:012x}")
}

fn now_ns() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    i64::try_from(since.unwrap().as_nanos()).unwrap()
}

fn order(number: u64) -> Value {
    json!({
        "eventId": id(number), "event": {"name": "order.placed"},
        "resource": {"service": {"id": "shop"}}, "time": {"startUnixNano": now_ns()},
        "attributes": {"order": {"channel": "web", "items": number}},
    })
}

async fn post(served: &TestServer, path: &str, document: &Value) -> Answer {
    let body = document.to_string();
    served.request("POST", path, &[JSON], body.as_bytes()).await
}

/// A server with the documents.
async fn with_documents(settings: &[(&str, &str)]) -> TestServer {
    let served = TestServer::start(settings).await;
    let path = "/api/admin/config/documents";
    let answer = served
        .request("POST", path, &[YAML], DOCUMENTS.as_bytes())
        .await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.json()["services"], json!(["shop"]));
    assert_eq!(answer.json()["registryVersion"], 1);
    served
}

/// Asserts a problem document and gives it.
#[track_caller]
fn problem(answer: &Answer, status: u16, code: &str) -> Value {
    assert_eq!(answer.status, status, "{}", answer.text());
    let content_type = answer.header("content-type");
    assert_eq!(content_type, Some("application/problem+json"));
    let problem: Value = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!(problem["code"], code, "{problem}");
    assert_eq!(problem["status"], status);
    for key in ["title", "detail", "timestamp", "path"] {
        assert!(problem[key].is_string(), "{key}: {problem}");
    }
    problem
}

#[tokio::test]
async fn events_are_taken_one_by_one_and_in_batches() {
    let served = with_documents(&[]).await;
    let answer = post(&served, "/events/publish", &order(1)).await;
    assert_eq!(answer.status, 202, "{}", answer.text());
    assert_eq!(answer.json(), json!({"status": "stored", "eventId": id(1)}));
    let mut wrong = order(3);
    wrong["attributes"]["order"]["items"] = json!("many");
    let mut unknown = order(4);
    unknown["event"]["name"] = json!("order.lost");
    let mut started = order(5);
    started["attributes"]["lifecycle"] = json!("STARTED");
    let batch = json!([order(1), order(2), wrong, unknown, started]);
    let answer = post(&served, "/events/publish/batch", &batch).await;
    assert_eq!(answer.status, 202, "{}", answer.text());
    let outcome = answer.json();
    for (key, count) in [
        ("received", 5),
        ("stored", 1),
        ("duplicates", 1),
        ("unconfigured", 1),
        ("ignored", 1),
    ] {
        assert_eq!(outcome[key], count, "{key}: {outcome}");
    }
    assert_eq!(outcome["rejected"][0]["index"], 2, "{outcome}");
    assert_eq!(outcome["rejected"][0]["code"], "ingest.attribute-type");
    // All or nothing.
    let mut wrong = order(7);
    wrong["attributes"] = json!({});
    let batch = json!([order(6), wrong]);
    let answer = post(&served, "/events/publish/batch?atomic=true", &batch).await;
    assert_eq!(answer.status, 400, "{}", answer.text());
    let one = served
        .get(&format!("/api/events/shop/{}", id(6)), &[])
        .await;
    problem(&one, 404, "query.unknown-event");
    let answer = post(&served, "/events/publish/batch", &json!([])).await;
    assert_eq!(
        (answer.status, &answer.json()["received"]),
        (202, &json!(0))
    );
    served.stop().await.unwrap();
}

#[tokio::test]
async fn bodies_may_be_compressed() {
    let served = with_documents(&[]).await;
    let gzip = |text: &str| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    };
    let zstd = |text: &str| zstd::encode_all(text.as_bytes(), 1).unwrap();
    for (number, encoding, body) in [
        (1, "gzip", gzip(&order(1).to_string())),
        (2, "zstd", zstd(&order(2).to_string())),
    ] {
        let headers = [JSON, ("Content-Encoding", encoding)];
        let answer = served
            .request("POST", "/events/publish", &headers, &body)
            .await;
        assert_eq!(answer.status, 202, "{}", answer.text());
        assert_eq!(answer.json()["eventId"], id(number));
    }
    let headers = [JSON, ("Content-Encoding", "br")];
    let answer = served
        .request("POST", "/events/publish", &headers, b"{}")
        .await;
    problem(&answer, 415, "request.unsupported-media-type");
    // What is small as it is sent and large as it is meant.
    let bomb = gzip(&format!("[{}]", " ".repeat(17 << 20)));
    let headers = [JSON, ("Content-Encoding", "gzip")];
    let answer = served
        .request("POST", "/events/publish/batch", &headers, &bomb)
        .await;
    problem(&answer, 413, "ingest.limit-exceeded");
    served.stop().await.unwrap();
}

#[tokio::test]
async fn what_is_wrong_is_a_problem_document() {
    let served = with_documents(&[]).await;
    let publish = async |body: &[u8], headers: &[(&str, &str)]| {
        served
            .request("POST", "/events/publish", headers, body)
            .await
    };
    let answer = publish(b"{", &[JSON]).await;
    let found = problem(&answer, 400, "ingest.invalid-json");
    assert_eq!(found["path"], "/events/publish");
    assert_eq!(found["title"], "Bad Request");
    problem(&publish(b"[]", &[JSON]).await, 400, "ingest.invalid-body");
    problem(
        &publish(b"{}", &[]).await,
        415,
        "request.unsupported-media-type",
    );
    let text = ("Content-Type", "text/plain");
    problem(
        &publish(b"{}", &[text]).await,
        415,
        "request.unsupported-media-type",
    );
    let missing = publish(b"{}", &[JSON]).await;
    problem(&missing, 400, "ingest.required-field-missing");
    let mut early = order(1);
    early["time"] = json!({"startedAt": "2001-01-01T00:00:00Z"});
    let answer = post(&served, "/events/publish", &early).await;
    problem(&answer, 400, "ingest.outside-retention");
    let answer = served.get("/events/publish", &[]).await;
    problem(&answer, 405, "request.method-not-allowed");
    assert_eq!(answer.header("allow"), Some("OPTIONS, POST"));
    let many: Vec<Value> = vec![json!({}); 10_001];
    let answer = post(&served, "/events/publish/batch", &json!(many)).await;
    problem(&answer, 413, "ingest.limit-exceeded");
    let large = vec![b' '; (16 << 20) + 1];
    problem(
        &publish(&large, &[JSON]).await,
        413,
        "ingest.limit-exceeded",
    );
    let search = json!({"service": "shop", "event": "nothing", "period": {"previous": "1h"}});
    let answer = post(&served, "/api/search/events", &search).await;
    problem(&answer, 404, "query.unknown-type");
    let counters = json!({"serviceKey": "shop", "eventType": "order.placed", "counterName": "x"});
    let answer = post(&served, "/api/query/counters", &counters).await;
    assert_eq!(answer.status, 404, "{}", answer.text());
    served.stop().await.unwrap();
}

#[tokio::test]
async fn documents_come_as_yaml_json_and_archives() {
    let served = with_documents(&[]).await;
    let bad = "kind: Event\nmetadata: {service: shop}\n";
    let path = "/api/admin/config/documents";
    let answer = served.request("POST", path, &[YAML], bad.as_bytes()).await;
    problem(&answer, 400, "config.invalid");
    let shown = served.get("/api/admin/config/service/shop", &[]).await;
    assert_eq!(shown.status, 200, "{}", shown.text());
    let document = shown.json();
    assert_eq!(document["service"], "shop");
    // The same again is no change.
    let answer = post(&served, "/api/admin/config/service", &document).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.json()["registryVersion"], 1);
    let archive = tar("other.yaml", &DOCUMENTS.replace("shop", "other"));
    let mut form =
        b"--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.tar\"\r\n\r\n"
            .to_vec();
    form.extend_from_slice(&archive);
    form.extend_from_slice(b"\r\n--x--\r\n");
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&archive).unwrap();
    let gzip = gzip.finish().unwrap();
    for (content_type, body) in [
        ("application/x-tar", &archive),
        ("application/gzip", &gzip),
        ("multipart/form-data; boundary=x", &form),
    ] {
        let path = "/api/admin/configs/import?mode=upsert";
        let headers = [("Content-Type", content_type)];
        let answer = served.request("POST", path, &headers, body).await;
        assert_eq!(answer.status, 200, "{content_type}: {}", answer.text());
        assert_eq!(answer.json()["services"], json!(["other"]));
        assert_eq!(answer.json()["registryVersion"], 2);
    }
    let ready = served.get("/api/admin/config/ready", &[]).await;
    assert_eq!((ready.status, ready.text()), (200, "OK"));
    served.stop().await.unwrap();
}

/// A tar of one file.
fn tar(name: &str, content: &str) -> Vec<u8> {
    let mut head = [0_u8; 512];
    let mut put = |at: usize, text: &[u8]| head[at..at + text.len()].copy_from_slice(text);
    put(0, name.as_bytes());
    put(100, b"0000644\0");
    put(124, format!("{:011o}\0", content.len()).as_bytes());
    put(148, b"        ");
    put(156, b"0");
    put(257, b"ustar\x0000");
    let sum: u32 = head.iter().copied().map(u32::from).sum();
    head[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    let mut archive = head.to_vec();
    archive.extend_from_slice(content.as_bytes());
    archive.resize(archive.len().next_multiple_of(512) + 1024, 0);
    archive
}

#[tokio::test]
async fn a_directory_of_documents_is_read_and_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("services/shop");
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join("all.yaml"), DOCUMENTS).unwrap();
    let location = folder.path().display().to_string();
    let served = TestServer::start(&[
        ("events.registry", &location),
        ("events.registry_interval", "1s"),
    ])
    .await;
    let services = async || served.get("/api/catalog/event-type", &[]).await.json();
    assert_eq!(services().await["count"], 1);
    let more = DOCUMENTS.replace("shop", "other");
    std::fs::write(directory.join("more.yaml"), more).unwrap();
    until(services, |read| read["count"] == 2, "the new document").await;
    served.stop().await.unwrap();
}

#[tokio::test]
async fn what_is_not_registered_waits_in_quarantine() {
    let served = TestServer::start(&[("events.keep_payload", "true")]).await;
    let answer = post(&served, "/events/publish", &order(1)).await;
    assert_eq!(answer.json()["status"], "unconfigured");
    let said = answer.json();
    let [unknown] = &said["notRegistered"].as_array().unwrap()[..] else {
        panic!("{said}")
    };
    assert_eq!(unknown["eventType"], "order.placed", "{unknown}");
    assert_eq!(unknown["contentKept"], true, "{unknown}");
    let answer = served
        .request("POST", "/events/publish", &[JSON], b"no JSON")
        .await;
    problem(&answer, 400, "ingest.invalid-json");
    let listed = served.get("/api/admin/quarantine", &[]).await.json();
    let [entry] = &listed["items"].as_array().unwrap()[..] else {
        panic!("{listed}")
    };
    assert_eq!(entry["reason"], "UNCONFIGURED_SERVICE", "{entry}");
    let letters = served.get("/api/admin/dead-letters", &[]).await.json();
    assert_eq!(
        letters["items"][0]["reason"], "JSON_PARSE_ERROR",
        "{letters}"
    );
    let path = "/api/admin/config/documents";
    let answer = served
        .request("POST", path, &[YAML], DOCUMENTS.as_bytes())
        .await;
    assert_eq!(answer.status, 200);
    let answer = served
        .request("POST", "/api/admin/quarantine/replay", &[], b"")
        .await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let one = served
        .get(&format!("/api/events/shop/{}", id(1)), &[])
        .await;
    assert_eq!(one.status, 200, "{}", one.text());
    let listed = served.get("/api/admin/quarantine", &[]).await.json();
    assert_eq!(listed["items"], json!([]), "{listed}");
    served.stop().await.unwrap();
}

#[tokio::test]
async fn partitions_and_retention() {
    let served = with_documents(&[]).await;
    post(&served, "/events/publish", &order(1)).await;
    let listed = served.get("/api/admin/partitions", &[]).await.json();
    let partition = &listed["items"][0];
    assert_eq!(partition["service"], "shop", "{listed}");
    assert_eq!(partition["events"], 1, "{listed}");
    let name = partition["partition"].as_str().unwrap();
    assert!(name.starts_with("events_raw_srv_shop_20"), "{name}");
    // A time that has not come lets nothing expire.
    assert_eq!(
        post(&served, "/api/admin/flush", &json!({})).await.status,
        200
    );
    let path = "/api/admin/retention/run?now=2100-01-01T00:00:00Z";
    let answer = served.request("POST", path, &[], b"").await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let nothing = json!({
        "files": 0, "events": 0, "cellWeeks": 0, "identityWeeks": 0, "dimensionSets": 0,
        "quarantined": 0,
    });
    assert_eq!(answer.json(), nothing);
    let listed = served.get("/api/admin/partitions", &[]).await.json();
    assert_eq!(listed["items"][0]["events"], 1, "{listed}");
    let path = "/api/admin/retention/run?now=soon";
    let answer = served.request("POST", path, &[], b"").await;
    problem(&answer, 400, "request.invalid");
    served.stop().await.unwrap();
}

/// The answer to a GET by a process of its own, perhaps of another user; `None` if there is no such
/// process.
fn asked_by(user: Option<u32>, served: &TestServer, path: &str) -> Option<String> {
    use std::os::unix::process::CommandExt as _;
    let port = served.address.port();
    let script = format!(
        "exec 3<>/dev/tcp/127.0.0.1/{port}; printf 'GET {path} HTTP/1.1\\r\\nHost: localhost\\r\\n\
         Connection: close\\r\\n\\r\\n' >&3; cat <&3"
    );
    let mut command = std::process::Command::new("bash");
    command.args(["-c", &script]).current_dir("/");
    if let Some(user) = user {
        command.uid(user);
    }
    let output = command.output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_of_other_users_are_not_local() {
    const OTHER: u32 = 65534;
    let served = with_documents(&[]).await;
    let path = "/api/admin/partitions";
    let Some(own) = asked_by(None, &served, path) else {
        skipped_tests::skip("administration by other users", "bash");
        return;
    };
    assert!(own.starts_with("HTTP/1.1 200 "), "{own}");
    let Some(other) = asked_by(Some(OTHER), &served, path) else {
        skipped_tests::skip(
            "administration by other users",
            "root, to become another user",
        );
        return;
    };
    // As a proxy does that says nothing about its clients.
    assert!(other.starts_with("HTTP/1.1 403 "), "{other}");
    assert!(other.contains("user id 65534"), "{other}");
    served.stop().await.unwrap();
}

#[tokio::test]
async fn sql_is_answered_or_said_not_to_be_built() {
    let served = with_documents(&[]).await;
    post(&served, "/events/publish", &order(1)).await;
    let question = json!({
        "q": "SELECT count(*) AS n FROM events", "allowFullScan": true, "limit": 10, "format": "row",
    });
    let answer = post(&served, "/events/sql", &question).await;
    if cfg!(feature = "sql") {
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(answer.json()["data"]["rows"], json!([{"n": 1}]));
    } else {
        let found = problem(&answer, 501, "sql.not-built");
        let detail = found["detail"].as_str().unwrap();
        assert!(detail.contains("--features sql"), "{detail}");
    }
    served.stop().await.unwrap();
}

#[tokio::test]
async fn metrics_of_events_are_shown() {
    let served = with_documents(&[]).await;
    post(&served, "/events/publish", &order(1)).await;
    post(&served, "/events/publish", &order(1)).await;
    let page = served.get("/metrics", &[]).await;
    for line in [
        "icecore_events_total{status=\"stored\"} 1",
        "icecore_events_total{status=\"duplicate\"} 1",
        "icecore_events_registry_version 1",
    ] {
        assert!(page.text().contains(line), "{line}");
    }
    served.stop().await.unwrap();
}

#[tokio::test]
async fn exemplars_of_histograms_name_events() {
    let served = with_documents(&[]).await;
    let histogram = "
apiVersion: obsinity/v1
kind: MetricHistogram
metadata: { service: shop, event: order.placed, name: items }
spec:
  value: order.items
  key: { dimensions: [order.channel] }
  buckets: { strategy: custom, bounds: [10] }
";
    let path = "/api/admin/config/documents";
    let body = histogram.as_bytes();
    let answer = served.request("POST", path, &[YAML], body).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let trace = "5b8aa5a2d2c872e8321cf37308d69df2";
    for number in [7, 77] {
        let mut event = order(number);
        event["trace"] = json!({"traceId": trace});
        let answer = post(&served, "/events/publish", &event).await;
        assert_eq!(answer.status, 202, "{}", answer.text());
    }
    // From memory, and from the store.
    for _ in 0..2 {
        let path = "/api/v1/query_exemplars?query=items_bucket";
        let found = served.get(path, &[]).await.data();
        let found: Vec<_> = found
            .as_array()
            .unwrap()
            .iter()
            .map(|series| {
                let labels = &series["seriesLabels"];
                assert_eq!(labels["order_channel"], "web", "{series}");
                let exemplar = &series["exemplars"][0];
                assert_eq!(exemplar["labels"]["trace_id"], trace, "{series}");
                let event = exemplar["labels"]["event_id"].clone();
                (labels["le"].clone(), event, exemplar["value"].clone())
            })
            .collect();
        let expected = [
            (json!("+Inf"), json!(id(77)), json!("77")),
            (json!("10"), json!(id(7)), json!("7")),
        ];
        assert_eq!(found, expected);
        let flushed = served.request("POST", "/api/admin/flush", &[], b"").await;
        assert_eq!(flushed.status, 200, "{}", flushed.text());
    }
    served.stop().await.unwrap();
}

#[tokio::test]
async fn without_memory_events_are_to_be_sent_again_later() {
    let served = with_documents(&[
        ("events.memory_limit", "1MiB"),
        ("events.seal_bytes", "1MiB"),
    ])
    .await;
    let mut large = order(1);
    for attribute in 0..40 {
        large["attributes"][format!("text{attribute}")] = json!("x".repeat(30_000));
    }
    let answer = post(&served, "/events/publish", &large).await;
    problem(&answer, 503, "ingest.unavailable");
    let seconds: u64 = answer.header("retry-after").unwrap().parse().unwrap();
    assert!(seconds > 0);
    let answer = post(&served, "/events/publish", &order(2)).await;
    assert_eq!(answer.status, 202, "{}", answer.text());
    served.stop().await.unwrap();
}

#[tokio::test]
async fn roles_are_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("web.yml");
    let text = "icecore:\n  tokens:\n    - {name: reader, token: token-of-the-reader, roles: [read]}\n    - {name: writer, token: token-of-the-writer, roles: [write]}\n    - {name: boss, token: token-of-the-boss, roles: [admin]}\n";
    std::fs::write(&file, text).unwrap();
    let location = file.display().to_string();
    let served = TestServer::start(&[("server.web_config", &location)]).await;
    let send = async |token: &str, path: &str| {
        let bearer = format!("Bearer token-of-the-{token}");
        let headers = [JSON, ("Authorization", bearer.as_str())];
        let answer = served.request("POST", path, &headers, b"{}").await;
        if answer.status >= 400 {
            let content_type = answer.header("content-type");
            assert_eq!(content_type, Some("application/problem+json"), "{path}");
        }
        answer.status
    };
    assert_eq!(send("nobody", "/events/publish").await, 401);
    assert_eq!(send("reader", "/events/publish").await, 403);
    assert_eq!(send("writer", "/events/publish").await, 400);
    assert_eq!(send("writer", "/api/search/events").await, 403);
    assert_eq!(send("reader", "/api/search/events").await, 400);
    assert_eq!(send("reader", "/api/admin/flush").await, 403);
    assert_eq!(send("boss", "/api/admin/flush").await, 200);
    served.stop().await.unwrap();
}
