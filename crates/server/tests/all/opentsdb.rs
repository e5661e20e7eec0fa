//! OpenTSDB's protocols at a live server: HTTP on two ports, telnet lines, access.

use std::io::Write as _;
use std::net::SocketAddr;

use flate2::Compression;
use flate2::write::GzEncoder;
use futures::StreamExt as _;
use icecore_storage::Environment;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::client::{Answer, Connection};
use crate::payload::{Payload, T0, series};
use crate::served::TestServer;

const AUTO_CREATE: &str = "tsd.core.auto_create_metrics=true";

async fn served(settings: &[(&str, &str)]) -> (TestServer, SocketAddr) {
    let mut all = vec![("opentsdb.listen", "127.0.0.1:0")];
    all.extend(settings);
    let served = TestServer::start(&all).await;
    let address = served.opentsdb_address.expect("OpenTSDB is listened for");
    (served, address)
}

/// Starts a server with settings of an `opentsdb.conf`: the original's defaults hold.
async fn served_with_file(settings: &[&str]) -> (TestServer, SocketAddr, TempDir) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("opentsdb.conf");
    std::fs::write(&path, settings.join("\n")).unwrap();
    let path = path.display().to_string();
    let (served, address) = served(&[("opentsdb.config", path.as_str())]).await;
    (served, address, folder)
}

async fn request(address: SocketAddr, method: &str, path: &str, body: &str) -> Answer {
    let mut connection = Connection::open(address).await;
    connection.request(method, path, &[], body.as_bytes()).await
}

fn parsed(answer: &Answer) -> Value {
    serde_json::from_slice(&answer.body).unwrap_or_else(|e| panic!("{e}: {}", answer.text()))
}

/// What is answered to lines until the server closes.
async fn telnet(address: SocketAddr, lines: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(lines.as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut replies = String::new();
    stream.read_to_string(&mut replies).await.unwrap();
    replies
}

#[tokio::test(flavor = "multi_thread")]
async fn points_come_by_line_and_by_document_and_are_seen_by_all() {
    let (served, address) = served(&[("opentsdb.settings", AUTO_CREATE)]).await;
    let lines = "put sys.cpu 1500000000 42 host=a\r\nput sys.cpu 1500000060 44.5 host=a\nput bad\n";
    let replies = telnet(address, lines).await;
    let error = "put: illegal argument: not enough arguments (need least 4, got 1)\n";
    assert_eq!(replies, error);
    let point = r#"{"metric":"sys.cpu","timestamp":1500000000,"value":8,"tags":{"host":"b"}}"#;
    // A base URL with a slash at its end leads to the path of the port that was asked.
    let redirect = request(address, "POST", "//api/put", point).await;
    assert_eq!(redirect.status, 307);
    assert_eq!(redirect.header("location"), Some("/api/put"));
    // Both ports have the API.
    let put = request(served.address, "POST", "/opentsdb/api/put", point).await;
    assert_eq!((put.status, put.text()), (204, ""));
    let query = "/api/query?start=1500000000&end=1500000100&m=sum:sys.cpu{host=*}";
    let at_port = request(address, "GET", query, "").await;
    let expected = json!([
        {"metric": "sys.cpu", "tags": {"host": "a"}, "aggregateTags": [],
         "dps": {"1500000000": 42.0, "1500000060": 44.5}},
        {"metric": "sys.cpu", "tags": {"host": "b"}, "aggregateTags": [],
         "dps": {"1500000000": 8}},
    ]);
    assert_eq!(parsed(&at_port), expected);
    let below = request(served.address, "GET", &format!("/opentsdb{query}"), "").await;
    assert_eq!(parsed(&below), expected);
    let promql = [("query", r#"sum({"sys.cpu"})"#), ("time", "1500000000")];
    let promql = served.read("/api/v1/query", &promql).await.data();
    assert_eq!(promql["result"][0]["value"][1], "50");
    let unknown = request(address, "GET", "/api/query?start=1h-ago&m=sum:nobody", "").await;
    assert_eq!(unknown.status, 400);
    let message = "No such name for 'metrics': 'nobody'";
    assert_eq!(parsed(&unknown)["error"]["message"], message);
    served.stop().await.unwrap();
}

/// What `/api/stats` says of errors of the store.
async fn storage_errors(address: SocketAddr) -> u64 {
    let stats = parsed(&request(address, "GET", "/api/stats", "").await);
    let is_asked = |stat: &&Value| {
        stat["metric"] == "tsd.rpc.errors" && stat["tags"]["type"] == "hbase_errors"
    };
    let found = stats.as_array().unwrap().iter().find(is_asked);
    found.unwrap()["value"].as_str().unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_connections_lose_nothing_while_the_store_is_busy() {
    const CONNECTIONS: usize = 1000;
    const POINTS: usize = 4;
    let (served, address) = served(&[
        ("opentsdb.settings", AUTO_CREATE),
        // The queue holds the points of a few dozen connections.
        ("journal.queue_bytes_max", "64KiB"),
        ("journal.commit_interval", "100ms"),
    ])
    .await;
    let send = move |number: usize| async move {
        // Of names that do not compress.
        let noise = (0..40).fold(String::new(), |noise, i: usize| {
            let word = (number * 40 + i + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            noise + &format!("{word:016x}")
        });
        let line = |second: usize| {
            let time = 1_500_000_000 + second;
            format!("put load {time} {number} conn=c{number} noise={noise}\n")
        };
        let lines: String = (0..POINTS).map(line).collect();
        telnet(address, &(lines + "exit\n")).await
    };
    // As many at once as there are file descriptors for everywhere.
    let sent = futures::stream::iter(0..CONNECTIONS).map(|number| tokio::spawn(send(number)));
    let replies: Vec<_> = sent.buffer_unordered(250).collect().await;
    for reply in replies {
        assert_eq!(reply.unwrap(), "");
    }
    assert!(
        storage_errors(address).await > 0,
        "the store was never busy"
    );
    let query = "/api/query?start=1500000000&end=1500000100&m=none:load";
    let found = parsed(&request(address, "GET", query, "").await);
    let found = found.as_array().unwrap();
    assert_eq!(found.len(), CONNECTIONS);
    for series in found {
        let number: f64 = series["tags"]["conn"].as_str().unwrap()[1..]
            .parse()
            .unwrap();
        let points = series["dps"].as_object().unwrap();
        assert_eq!(points.len(), POINTS, "{series}");
        assert!(points.values().all(|value| value.as_f64() == Some(number)));
    }
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn compressed_bodies_count_as_they_are_sent() {
    let (served, address, _folder) = served_with_file(&[AUTO_CREATE]).await;
    let point = |i: i64| {
        let time = 1_500_000_000 + i;
        json!({"metric": "m", "timestamp": time, "value": i, "tags": {"host": "web01"}})
    };
    let batch = |points: i64| Value::Array((0..points).map(point).collect()).to_string();
    let headers = [
        ("Content-Type", "application/json"),
        ("Content-Encoding", "gzip"),
    ];
    let put = async |body: &[u8], headers: &[(&str, &str)]| {
        let mut connection = Connection::open(address).await;
        connection.request("POST", "/api/put", headers, body).await
    };
    // As scollector sends it: 500 points are some 40 kB, of which few are sent.
    let body = batch(500);
    assert!(body.len() > 4 * 8192, "{}", body.len());
    let sent = gzip(body.as_bytes());
    assert!(sent.len() < 8192, "{}", sent.len());
    assert_eq!(put(&sent, &headers).await.status, 204);
    let refused = put(body.as_bytes(), &headers[..1]).await;
    assert_eq!(refused.status, 400);
    assert!(refused.text().contains("Chunked request not supported."));
    // Chunks are refused however few bytes they have.
    let mut chunked = Connection::open(address).await;
    let body = batch(1);
    let length = body.len();
    let head = "POST /api/put HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
    let chunks = format!("{head}{length:x}\r\n{body}\r\n0\r\n\r\n");
    chunked.send(chunks.as_bytes()).await;
    let refused = chunked.answer("POST").await;
    assert_eq!(refused.status, 400);
    assert!(refused.text().contains("Chunked request not supported."));
    served.stop().await.unwrap();
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn other_widths_of_uids_are_refused_once_there_are_some() {
    let folder = TempDir::new().unwrap();
    let location = folder.path().display().to_string();
    let settings =
        |tagv: u8| format!("tsd.core.auto_create_metrics=true,tsd.storage.uid.width.tagv={tagv}");
    let started = async |tagv: u8| {
        let settings = settings(tagv);
        let config = crate::served::config(&[
            ("storage.location", location.as_str()),
            ("opentsdb.listen", "127.0.0.1:0"),
            ("opentsdb.settings", settings.as_str()),
        ]);
        TestServer::starting(config, Environment::default()).await
    };
    let first = started(4).await;
    first.until_ready().await;
    let address = first.opentsdb_address.unwrap();
    assert_eq!(telnet(address, "put a 1500000000 5 h=x\nexit\n").await, "");
    first.stop().await.unwrap();
    let error = started(3).await.ended().await.unwrap_err().to_string();
    for part in ["tsd.storage.uid.width.tagv is 3", "4 bytes: set it to 4"] {
        assert!(error.contains(part), "{error}");
    }
    let again = started(4).await;
    again.until_ready().await;
    again.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_file_of_the_original_brings_its_defaults() {
    let (served, address, _folder) = served_with_file(&["tsd.mode=rw"]).await;
    let reply = telnet(address, "put sys.cpu 1500000000 42 host=a\n").await;
    assert_eq!(
        reply,
        "put: unknown metric: No such name for 'metrics': 'sys.cpu'\n"
    );
    let assigned = request(address, "GET", "/api/uid/assign?metric=sys.cpu", "").await;
    assert_eq!(parsed(&assigned), json!({"metric": {"sys.cpu": "000001"}}));
    assert_eq!(
        telnet(address, "put sys.cpu 1500000000 42 host=a\n").await,
        ""
    );
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_first_client_is_served_as_it_comes() {
    let (served, address) = served(&[("server.write_body_bytes_max", "1MiB")]).await;
    assert_eq!(
        telnet(address, "put sys.cpu 1500000000 42 host=a\n").await,
        ""
    );
    // As Netdata sends it: 170 kB in one piece.
    let point = |i: i64| {
        let time = 1_500_000_000 + i;
        json!({"metric": format!("m{}", i % 7), "timestamp": time, "value": i,
               "tags": {"host": "web01"}})
    };
    let batch = |points: i64| Value::Array((0..points).map(point).collect()).to_string();
    let body = batch(2000);
    assert!(body.len() > 150_000, "{}", body.len());
    assert_eq!(
        request(address, "POST", "/api/put", &body).await.status,
        204
    );
    let mut chunked = Connection::open(address).await;
    let body = batch(100);
    let head = "POST /api/put HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
    let chunks = format!("{head}{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    chunked.send(chunks.as_bytes()).await;
    assert_eq!(chunked.answer("POST").await.status, 204);
    // More than the server takes of anybody.
    let refused = request(address, "POST", "/api/put", &batch(20_000)).await;
    assert_eq!(refused.status, 413, "{}", refused.text());
    assert!(refused.text().contains("server.write_body_bytes_max"));
    // And points of more hours than one request may touch: sent again, they fail again.
    let hours = (0..1001).map(|hour| {
        let time = 1_500_000_000 + 3600 * hour;
        json!({"metric": "m", "timestamp": time, "value": 1, "tags": {"host": "a"}})
    });
    let hours = Value::Array(hours.collect()).to_string();
    let refused = request(address, "POST", "/api/put?details", &hours).await;
    assert_eq!(refused.status, 400, "{}", refused.text());
    let message = "one request touches 1001 hours, more than limits.buckets_per_request_max = 1000";
    assert!(refused.text().contains(message), "{}", refused.text());
    let reply = telnet(
        address,
        "put sys.cpu 1500000000 x host=a\nput sys.cpu 1 1 a=b:c\n",
    )
    .await;
    assert_eq!(reply.lines().count(), 2, "{reply}");
    let metrics = request(served.address, "GET", "/metrics", "").await;
    for (reason, count) in [
        ("body_too_long", 1),
        ("request_too_large", 1),
        ("invalid_number", 1),
        ("illegal_character", 1),
        ("unknown_metric", 0),
    ] {
        let line = format!("icecore_opentsdb_refused_total{{reason=\"{reason}\"}} {count}\n");
        assert!(metrics.text().contains(&line), "{line}{}", metrics.text());
    }
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn names_and_forms_of_numbers_survive_a_restart() {
    let folder = TempDir::new().unwrap();
    let location = folder.path().display().to_string();
    let settings = [
        ("storage.location", location.as_str()),
        ("opentsdb.settings", AUTO_CREATE),
    ];
    let lines = "put a 1500000000 5 h=x\nput a 1500000001 7 h=x\nput a 1500000002 5.0 h=x\n\
                 put a 1500000003 7 h=x\nput a 1500000004 9007199254740993 h=x\n";
    let query = "/api/query?start=1500000000&end=1500000100&m=sum:a&show_tsuids";
    // A number is shown as a float where the next one is.
    let expected = json!([{
        "metric": "a", "tags": {"h": "x"}, "aggregateTags": [], "tsuids": ["000001000001000001"],
        "dps": {"1500000000": 5, "1500000001": 7.0, "1500000002": 5.0, "1500000003": 7,
                "1500000004": 9_007_199_254_740_993_i64},
    }]);
    {
        let (served, address) = served(&settings).await;
        assert_eq!(telnet(address, lines).await, "");
        assert_eq!(parsed(&request(address, "GET", query, "").await), expected);
        served.stop().await.unwrap();
    }
    let (served, address) = served(&settings).await;
    assert_eq!(parsed(&request(address, "GET", query, "").await), expected);
    let next = request(address, "GET", "/api/uid/assign?metric=b&tagk=k&tagv=y", "").await;
    let next = parsed(&next);
    assert_eq!(next["metric"]["b"], "000002");
    assert_eq!(next["tagk"]["k"], "000002");
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn roles_hold_and_lines_need_a_certificate() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("web.yml");
    let credentials = "icecore:
  tokens:
  - {name: read, token: token-that-may-read, roles: [read]}
  - {name: write, token: token-that-may-write, roles: [write]}
  - {name: admin, token: token-that-may-admin, roles: [admin]}
";
    std::fs::write(&path, credentials).unwrap();
    let path = path.display().to_string();
    let settings = [
        ("server.web_config", path.as_str()),
        (
            "opentsdb.settings",
            "tsd.core.auto_create_metrics=true,tsd.http.query.allow_delete=true",
        ),
    ];
    // The readiness check has no credentials.
    let (served, address) = served(&settings).await;
    let point = r#"{"metric":"m","timestamp":1500000000,"value":8,"tags":{"host":"b"}}"#;
    let query = r#"{"start":1500000000,"queries":[{"aggregator":"sum","metric":"m"}]}"#;
    let deleting = r#"{"start":1500000000,"delete":true,
                       "queries":[{"aggregator":"sum","metric":"m"}]}"#;
    let status = async |role: &str, method: &str, path: &str, body: &str| {
        let mut connection = Connection::open(address).await;
        let token = format!("Bearer token-that-may-{role}");
        let token = ("Authorization", token.as_str());
        let headers: &[_] = if role.is_empty() { &[] } else { &[token] };
        let answer = connection.request(method, path, headers, body.as_bytes());
        answer.await.status
    };
    let by_verb = "/api/query?start=1500000000&m=sum:m&method_override=delete";
    for (role, method, path, body, expected) in [
        ("", "POST", "/api/put", point, 401),
        ("nobody", "POST", "/api/put", point, 401),
        ("read", "POST", "/api/put", point, 403),
        ("write", "POST", "/api/put", point, 204),
        ("write", "POST", "/api/query", query, 403),
        ("read", "POST", "/api/query", query, 200),
        ("read", "GET", by_verb, "", 403),
        // The body of a query asks for what its sender may not do.
        ("read", "POST", "/api/query", deleting, 403),
        ("read", "POST", "/api/query", query, 200),
    ] {
        let status = status(role, method, path, body).await;
        assert_eq!(status, expected, "{role}: {method} {path} {body}");
    }
    let reply = telnet(address, "put m 1500000000 1 host=a\n").await;
    assert!(reply.starts_with("access denied"), "{reply}");
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn names_of_prometheus_clients_are_suggested_and_drawn() {
    let (served, address) = served(&[("opentsdb.settings", AUTO_CREATE)]).await;
    let payload = Payload::v1(&[series(
        "up",
        &[("job", "node")],
        &[(T0, 1.0), (T0 + 15_000, 0.5)],
    )]);
    assert_eq!(served.write(&payload).await.status, 204);
    assert_eq!(
        telnet(address, "put sys.cpu 1500000000 42 host=a\n").await,
        ""
    );
    for (kind, expected) in [
        ("metrics", json!(["sys.cpu", "up"])),
        ("tagk", json!(["host", "job"])),
        ("tagv", json!(["a", "node"])),
    ] {
        let path = format!("/api/suggest?type={kind}");
        assert_eq!(
            parsed(&request(address, "GET", &path, "").await),
            expected,
            "{kind}"
        );
    }
    let (start, end) = (T0 / 1000, T0 / 1000 + 60);
    let query = format!("/q?start={start}&end={end}&m=sum:up%7Bjob=*%7D");
    let graph = request(address, "GET", &format!("{query}&svg"), "").await;
    assert_eq!(graph.status, 200, "{}", graph.text());
    assert_eq!(graph.header("content-type"), Some("image/svg+xml"));
    assert!(graph.header("content-security-policy").is_some());
    assert!(graph.text().contains("up{job=node}"), "{}", graph.text());
    let graph = request(address, "GET", &format!("{query}&png&wxh=200x100"), "").await;
    assert_eq!(graph.header("content-type"), Some("image/png"));
    assert!(graph.body.starts_with(b"\x89PNG"));
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn data_goes_in_and_out_by_routes_of_its_own() {
    let (served, address, _folder) = served_with_file(&[]).await;
    let post = async |path: &str, body: &str| request(served.address, "POST", path, body).await;
    let line = "sys.cpu 1356998430 42 host=web01\n";
    let refused = post("/api/v1/import/opentsdb", line).await;
    assert_eq!(refused.status, 400);
    let error = parsed(&refused)["error"].clone();
    assert!(
        error.as_str().unwrap().starts_with("line 1: unknown name"),
        "{error}"
    );
    let stored = post("/api/v1/import/opentsdb?auto_metric=true", line).await;
    assert_eq!(parsed(&stored)["data"]["samples"], 1, "{}", stored.text());
    let bad = format!("{line}nothing\n{line}");
    let skipped = post("/api/v1/import/opentsdb?skip_errors=true", &bad).await;
    let data = parsed(&skipped)["data"].clone();
    assert_eq!((&data["lines"], &data["samples"]), (&json!(3), &json!(2)));
    assert_eq!(data["rejected"][0]["line"], 2);
    // A point of the same series at another time, as HBase has it.
    let cell = json!({
        "table": "tsdb", "row": "00000150E22700000001000001", "family": "t",
        "qualifier": "02D1", "value": "012C",
    });
    let cells = "/api/v1/import/opentsdb/cells";
    let stored = post(cells, &cell.to_string()).await;
    assert_eq!(parsed(&stored)["data"]["samples"], 1, "{}", stored.text());
    let query = "/api/query?start=1356998400&end=1357002000&m=sum:sys.cpu";
    let answer = parsed(&request(address, "GET", query, "").await);
    assert_eq!(
        answer[0]["dps"],
        json!({"1356998430": 42, "1356998445": 300})
    );
    // The id has another name there.
    let name = json!({
        "table": "tsdb-uid", "row": "000001", "family": "name", "qualifier": hex_of("metrics"),
        "value": hex_of("other"),
    });
    let conflict = post(cells, &name.to_string()).await;
    assert_eq!(conflict.status, 409, "{}", conflict.text());
    for wrong in ["uid_widths=3", "salt_width=9", "skip_errors=perhaps"] {
        let refused = post(&format!("{cells}?{wrong}"), "").await;
        assert_eq!(refused.status, 400, "{wrong}");
    }
    let all = ("match[]", "{__name__!=\"\"}");
    let export = async |params: &[(&str, &str)]| {
        let mut params = params.to_vec();
        params.push(all);
        served.get("/api/v1/export/opentsdb", &params).await
    };
    let points = export(&[("report", "true")]).await;
    let lines: Vec<&str> = points.text().lines().collect();
    assert_eq!(
        lines[..2],
        [
            "sys.cpu 1356998430 42 host=web01",
            "sys.cpu 1356998445 300 host=web01"
        ]
    );
    let report: Value = serde_json::from_str(lines[2].strip_prefix('#').unwrap()).unwrap();
    assert_eq!(report["samples"], 2);
    let tables = export(&[("format", "cells"), ("part", "tables")]).await;
    let tables = tables.text();
    assert!(
        !tables.contains("\"tsdb\"") && tables.contains("\"tsdb-uid\""),
        "{tables}"
    );
    let everything = export(&[("format", "cells")]).await;
    let everything = everything.text();
    assert!(
        everything.ends_with(tables) && everything.contains("\"tsdb\""),
        "{everything}"
    );
    for wrong in [
        ("format", "xml"),
        ("part", "tables"),
        ("uid_widths", "4,4,4"),
    ] {
        assert_eq!(export(&[wrong]).await.status, 400, "{wrong:?}");
    }
    served.stop().await.unwrap();
}

fn hex_of(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn queries_are_translated_or_refused_with_a_reason() {
    let served = TestServer::start(&[]).await;
    let path = "/api/v1/opentsdb/translate";
    let time = [("start", "1700000000"), ("end", "1700003600")];
    let ask = async |queries: &[&str]| {
        let queries = queries.iter().map(|query| ("m", *query));
        let params: Vec<_> = queries.chain(time).collect();
        served.read(path, &params).await.data()
    };
    let one = ask(&["zimsum:1m-avg:sys.cpu{host=*}"]).await;
    let [promql] = &one["promql"].as_array().unwrap()[..] else {
        panic!("{one}");
    };
    assert_eq!(one["step"], "1m");
    assert_eq!(one["reason"], serde_json::Value::Null);
    assert_eq!(one["queries"][0]["promql"], *promql);
    assert_eq!(one["queries"][0]["start"], 1_700_000_040.0);
    // What it says is PromQL.
    let parsed = [("query", promql.as_str().unwrap())];
    assert_eq!(served.get("/api/v1/parse_query", &parsed).await.status, 200);

    let mixed = ask(&["zimsum:1m-avg:sys.cpu", "nonsense:sys.cpu"]).await;
    assert_eq!(mixed["promql"].as_array().unwrap().len(), 1);
    let reason = mixed["reason"].as_str().expect("a reason");
    assert!(reason.starts_with("nonsense:sys.cpu: "), "{reason}");
    assert!(mixed["queries"][1]["reason"].is_string());
    let steps = ask(&["zimsum:1m-avg:sys.cpu", "zimsum:5m-avg:sys.cpu"]).await;
    assert_eq!(steps["step"], serde_json::Value::Null);
    assert_eq!(steps["queries"][1]["step"], "5m");

    served.read(path, &time).await.error(400, "bad_data");
    let many = vec![("m", "zimsum:1m-avg:sys.cpu"); 65];
    served.read(path, &many).await.error(400, "bad_data");
    served.stop().await.unwrap();
}
