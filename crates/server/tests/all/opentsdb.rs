//! OpenTSDB's protocols at a live server: HTTP on two ports, telnet lines, access.

use std::net::SocketAddr;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::client::{Answer, Connection};
use crate::served::TestServer;

const AUTO_CREATE: &str = "tsd.core.auto_create_metrics=true";

async fn served(settings: &[(&str, &str)]) -> (TestServer, SocketAddr) {
    let mut all = vec![("opentsdb.listen", "127.0.0.1:0")];
    all.extend(settings);
    let served = TestServer::start(&all).await;
    let address = served.opentsdb_address.expect("OpenTSDB is listened for");
    (served, address)
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

#[tokio::test(flavor = "multi_thread")]
async fn metrics_are_not_made_by_points_unless_somebody_says_so() {
    let (served, address) = served(&[]).await;
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
  - {name: admin, token: token-that-may-administrate, roles: [admin]}
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
    let status = async |token: &str, method: &str, path: &str, body: &str| {
        let mut connection = Connection::open(address).await;
        let token = format!("Bearer {token}");
        let headers = [("Authorization", token.as_str())];
        let answer = connection.request(method, path, &headers, body.as_bytes());
        answer.await.status
    };
    assert_eq!(
        request(address, "POST", "/api/put", point).await.status,
        401
    );
    assert_eq!(
        status("token-that-may-read", "POST", "/api/put", point).await,
        403
    );
    assert_eq!(
        status("token-that-may-write", "POST", "/api/put", point).await,
        204
    );
    assert_eq!(
        status("token-that-may-write", "POST", "/api/query", query).await,
        403
    );
    assert_eq!(
        status("token-that-may-read", "POST", "/api/query", query).await,
        200
    );
    let by_verb = "/api/query?start=1500000000&m=sum:m&method_override=delete";
    assert_eq!(status("token-that-may-read", "GET", by_verb, "").await, 403);
    // The body of a query asks for what its sender may not do.
    assert_eq!(
        status("token-that-may-read", "POST", "/api/query", deleting).await,
        403
    );
    assert_eq!(
        status("token-that-may-read", "POST", "/api/query", query).await,
        200
    );
    let reply = telnet(address, "put m 1500000000 1 host=a\n").await;
    assert!(reply.starts_with("access denied"), "{reply}");
    served.stop().await.unwrap();
}
