//! Reads write nothing: every route, verb and role, and the store before and after each request.

use std::net::SocketAddr;

use icecore_server::{ROUTES, Role};
use tempfile::TempDir;

use crate::client::{Answer, Connection, encoded};
use crate::payload::{Payload, T0, series};
use crate::served::TestServer;

const VERBS: [&str; 7] = ["GET", "POST", "PUT", "DELETE", "HEAD", "PATCH", "OPTIONS"];

const READ: &str = "Bearer token-that-may-read";
const WRITE: &str = "Bearer token-that-may-write";
const ADMIN: &str = "Bearer token-that-may-admin";

const CREDENTIALS: &str = "\
icecore:
  tokens:
  - {token: token-that-may-read, roles: [read]}
  - {token: token-that-may-write, roles: [write]}
  - {token: token-that-may-admin, roles: [admin]}
";

/// Where each path of OpenTSDB's API begins.
const OPENTSDB: &str = "/opentsdb/api/";

/// Endpoints of OpenTSDB with parameters by which they find something, and if they are reads when
/// their verb is GET.
const ENDPOINTS: [(&str, bool); 31] = [
    ("put", false),
    ("rollup", false),
    ("histogram", false),
    ("uid/assign?metric=new.metric", false),
    ("uid/rename?metric=sys.cpu&name=sys.cpu2", false),
    ("dropcaches", false),
    ("uid/uidmeta?uid=000001&type=metric&description=x", true),
    ("uid/tsmeta?tsuid=000001000001000001&description=x", true),
    ("uid/tsmeta?m=sys.cpu%7Bhost=a%7D&description=x", true),
    ("annotation?start_time=1500000000&description=x", true),
    ("annotation/bulk?start_time=1&global", true),
    ("annotations?start_time=1500000000", true),
    ("tree?name=t", true),
    ("tree/branch?treeid=1", true),
    ("tree/rule?treeid=1&level=0&order=0&type=METRIC", true),
    ("tree/rules?treeid=1", true),
    ("tree/test?treeid=1&tsuids=000001000001000001", true),
    ("tree/collisions?treeid=1", true),
    ("tree/notmatched?treeid=1", true),
    ("tree/sync?treeid=1", false),
    ("query?start=1500000000&m=sum:up&show_tsuids", true),
    ("query?start=1500000000&m=sum:sys.cpu&show_tsuids", true),
    ("query/exp", true),
    ("query/gexp?start=1500000000&exp=scale(sum:up,1)", true),
    ("query/last?timeseries=up&back_scan=24", true),
    ("query/last?timeseries=up", true),
    ("search/lookup?m=up", true),
    ("suggest?type=metrics", true),
    ("config", true),
    ("stats/query", true),
    ("version", true),
];

/// Requests of OpenTSDB whose bodies ask for reads, of names with UIDs and of names without.
const READING: [(&str, &str, &str); 9] = [
    (
        "POST",
        "query",
        r#"{"start":1500000000,"end":1500000100,"showTSUIDs":true,
            "queries":[{"aggregator":"sum","metric":"sys.cpu"}]}"#,
    ),
    (
        "POST",
        "query",
        r#"{"start":1500000000,"showTSUIDs":true,"queries":[{"aggregator":"sum","metric":"up"}]}"#,
    ),
    (
        "POST",
        "query/exp",
        r#"{"time":{"start":"1500000000","end":"1500000100","aggregator":"sum"},
            "metrics":[{"id":"a","metric":"sys.cpu"}],
            "expressions":[{"id":"e","expr":"a * 2"}]}"#,
    ),
    (
        "GET",
        "query/gexp?start=1500000000&end=1500000100&exp=scale(sum:sys.cpu,2)",
        "",
    ),
    (
        "POST",
        "query/last",
        r#"{"queries":[{"metric":"sys.cpu","tags":{"host":"a"}}],"resolveNames":true}"#,
    ),
    (
        "POST",
        "query/last",
        r#"{"queries":[{"metric":"up","tags":{"job":"node","instance":"h-9100"}}]}"#,
    ),
    ("POST", "search/lookup", r#"{"metric":"sys.cpu"}"#),
    (
        "POST",
        "search/lookup",
        r#"{"metric":"up","tags":[{"key":"job","value":"*"}],"useMeta":false}"#,
    ),
    ("POST", "suggest", r#"{"type":"metrics","q":"sys"}"#),
];

/// Requests of OpenTSDB whose bodies ask for changes.
const CHANGING: [(&str, &str, &str); 12] = [
    (
        "POST",
        "put",
        r#"{"metric":"sys.cpu","timestamp":1500000060,"value":9,"tags":{"host":"a"}}"#,
    ),
    (
        "POST",
        "rollup",
        r#"{"metric":"sys.cpu","timestamp":1500000000,"value":9,"tags":{"host":"a"},
            "interval":"1h","aggregator":"SUM"}"#,
    ),
    (
        "POST",
        "histogram",
        r#"{"metric":"sys.latency","timestamp":1500000000,"tags":{"host":"a"},
            "buckets":{"0,1.75":12},"underflow":0,"overflow":1}"#,
    ),
    ("POST", "uid/assign", r#"{"metric":["new.metric"]}"#),
    (
        "POST",
        "uid/rename",
        r#"{"metric":"sys.cpu","name":"sys.cpu2"}"#,
    ),
    (
        "PUT",
        "uid/uidmeta",
        r#"{"uid":"000001","type":"metric","description":"x"}"#,
    ),
    (
        "POST",
        "annotation",
        r#"{"startTime":1500000000,"description":"x"}"#,
    ),
    (
        "POST",
        "annotation/bulk",
        r#"[{"startTime":1500000000,"description":"x"}]"#,
    ),
    (
        "DELETE",
        "annotation/bulk",
        r#"{"startTime":1,"global":true}"#,
    ),
    ("POST", "tree", r#"{"name":"second"}"#),
    (
        "POST",
        "tree/rule",
        r#"{"treeId":1,"level":0,"order":0,"type":"METRIC"}"#,
    ),
    (
        "POST",
        "query",
        r#"{"start":1500000000,"delete":true,"queries":[{"aggregator":"sum","metric":"sys.cpu"}]}"#,
    ),
];

/// Values of `method_override`; empty for none.
const OVERRIDES: [&str; 6] = [
    "",
    "get",
    "post",
    "PUT",
    "delete",
    "get&method_override=delete",
];

struct Served {
    server: TestServer,
    /// HTTP and OpenTSDB's own port.
    addresses: [SocketAddr; 2],
    _files: TempDir,
}

impl Served {
    async fn start() -> Self {
        let files = TempDir::new().unwrap();
        let path = files.path().join("web.yml");
        std::fs::write(&path, CREDENTIALS).unwrap();
        let tsd = "tsd.core.auto_create_metrics=true,tsd.core.meta.enable_realtime_uid=true,\
                   tsd.core.meta.enable_realtime_ts=true,\
                   tsd.core.meta.enable_tsuid_tracking=true,tsd.http.query.allow_delete=true";
        let server = TestServer::start(&[
            ("server.web_config", path.to_str().unwrap()),
            ("opentsdb.listen", "127.0.0.1:0"),
            ("opentsdb.settings", tsd),
            ("opentsdb.get_overrides", "true"),
        ])
        .await;
        let addresses = [server.address, server.opentsdb_address.unwrap()];
        let served = Self {
            server,
            addresses,
            _files: files,
        };
        let point = r#"{"metric":"sys.cpu","timestamp":1500000000,"value":8,"tags":{"host":"a"}}"#;
        let put = served.ask("POST", "/opentsdb/api/put", WRITE, point.as_bytes());
        assert_eq!(put.await.status, 204);
        // Names that have no UID.
        let labels = [("job", "node"), ("instance", "h-9100")];
        let payload = Payload::v1(&[series("up", &labels, &[(T0, 1.0)])]);
        let mut headers = payload.headers();
        headers.push(("Authorization", WRITE));
        let body = payload.body();
        let written = served
            .server
            .request("POST", "/api/v1/write", &headers, &body);
        assert_eq!(written.await.status, 204);
        let tree = "/opentsdb/api/tree?name=first&method_override=post";
        assert_eq!(served.ask("GET", tree, WRITE, b"").await.status, 200);
        served
    }

    async fn ask(&self, method: &str, path: &str, credential: &str, body: &[u8]) -> Answer {
        let headers = [("Authorization", credential)];
        self.server.request(method, path, &headers, body).await
    }

    /// Everything that requests can have changed: what the journal has, samples, and names with
    /// what is said of them.
    async fn content(&self) -> Vec<String> {
        let metrics = self.ask("GET", "/metrics", ADMIN, b"").await;
        let counter = "icecore_journal_committed_requests_total ";
        let counted = metrics
            .text()
            .lines()
            .find(|line| line.starts_with(counter));
        let mut content = vec![counted.expect("what is committed is counted").to_owned()];
        let everything = ("match[]", "{__name__!=\"\"}");
        for (path, params) in [
            ("/api/v1/export", vec![everything]),
            (
                "/api/v1/export/opentsdb",
                vec![everything, ("format", "cells"), ("part", "tables")],
            ),
        ] {
            let path = format!("{path}?{}", encoded(&params));
            let answer = self.ask("GET", &path, ADMIN, b"").await;
            assert_eq!(answer.status, 200, "{path}: {}", answer.text());
            content.push(answer.text().to_owned());
        }
        content
    }
}

/// A path of a route, with something for its variables.
fn path_of(route: &str) -> String {
    let mut path = route.to_owned();
    while let (Some(begin), Some(end)) = (path.find('{'), path.find('}')) {
        path.replace_range(begin..=end, "some");
    }
    path
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_changes_nothing_by_any_route_and_verb() {
    let served = Served::start().await;
    let before = served.content().await;
    let everything = encoded(&[("match[]", "{__name__!=\"\"}"), ("format", "cells")]);
    let query = encoded(&[
        ("query", "up"),
        ("start", "1500000000"),
        ("end", "1500000600"),
        ("step", "60"),
        ("assign_uids", "true"),
    ]);
    let paths = ROUTES
        .iter()
        .flat_map(|route| route.paths().map(move |path| (route, path_of(&path))));
    // A stream of notices has no end that a client could wait for.
    for (route, path) in paths.filter(|(_, path)| !path.ends_with("/live")) {
        for verb in VERBS {
            for query in ["", &everything, &query] {
                let target = format!("{path}?{query}");
                let answer = served.ask(verb, &target, READ, b"").await;
                assert!(
                    answer.status < 500 || answer.status == 501,
                    "{verb} {target}"
                );
                let is_read = matches!(route.role, Role::Open | Role::Read);
                if !is_read && route.methods.contains(&verb) {
                    assert_eq!(answer.status, 403, "{verb} {target}");
                }
            }
        }
        assert_eq!(served.content().await, before, "{path}");
    }
    served.server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn roles_of_opentsdb_follow_the_verb_that_counts() {
    let served = Served::start().await;
    let before = served.content().await;
    for (endpoint, reads) in ENDPOINTS {
        for verb in VERBS {
            for named in OVERRIDES {
                let mut target = format!("{OPENTSDB}{endpoint}");
                if !named.is_empty() {
                    let separator = if endpoint.contains('?') { '&' } else { '?' };
                    target.push_str(&format!("{separator}method_override={named}"));
                }
                let effective = match named {
                    "" => verb.to_owned(),
                    "get&method_override=delete" => "DELETE".to_owned(),
                    named => named.to_ascii_uppercase(),
                };
                // Queries go by the verb of the request, too.
                let deletes = verb == "DELETE" && endpoint.starts_with("query");
                let reader = served.ask(verb, &target, READ, b"").await;
                if reads && !deletes && ["GET", "HEAD", "OPTIONS"].contains(&effective.as_str()) {
                    assert_ne!(reader.status, 403, "{verb} {target}: {}", reader.text());
                    served.ask(verb, &target, ADMIN, b"").await;
                    let writer = served.ask(verb, &target, WRITE, b"").await;
                    assert_eq!(writer.status, 403, "{verb} {target}: {}", writer.text());
                }
            }
            assert_eq!(served.content().await, before, "{verb} {endpoint}");
        }
    }
    // The port of its own goes by the same rules.
    let lookup = "/api/search/lookup?m=up";
    for (credential, expected) in [(READ, 200), (WRITE, 403), (ADMIN, 200)] {
        let mut connection = Connection::open(served.addresses[1]).await;
        let headers = [("Authorization", credential)];
        let answer = connection.request("GET", lookup, &headers, b"").await;
        assert_eq!(answer.status, expected, "{credential}");
    }
    assert_eq!(served.content().await, before);
    served.server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_of_readers_change_nothing() {
    let served = Served::start().await;
    let before = served.content().await;
    for (verb, endpoint, body) in READING {
        let path = format!("{OPENTSDB}{endpoint}");
        // A read gives no UIDs to names, also for administrators.
        for credential in [READ, ADMIN] {
            let answer = served.ask(verb, &path, credential, body.as_bytes()).await;
            assert_eq!(answer.status, 200, "{path} {body}: {}", answer.text());
        }
        assert_eq!(served.content().await, before, "{path} {body}");
    }
    for (verb, endpoint, body) in CHANGING {
        let path = format!("{OPENTSDB}{endpoint}");
        let answer = served.ask(verb, &path, READ, body.as_bytes()).await;
        assert_eq!(answer.status, 403, "{path} {body}: {}", answer.text());
        assert_eq!(served.content().await, before, "{path} {body}");
    }
    served.server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn exports_give_uids_only_to_administrators_who_ask_for_them() {
    let served = Served::start().await;
    let before = served.content().await;
    let params = [
        ("match[]", "{__name__!=\"\"}"),
        ("format", "cells"),
        ("report", "true"),
    ];
    let path = format!("/api/v1/export/opentsdb?{}", encoded(&params));
    let plain = served.ask("POST", &path, ADMIN, b"").await;
    assert!(
        plain.text().contains("names without UIDs"),
        "{}",
        plain.text()
    );
    assert_eq!(served.content().await, before);
    let assigning = format!("{path}&assign_uids=true");
    for (method, credential, expected) in [
        ("POST", READ, 403),
        ("POST", WRITE, 403),
        ("GET", READ, 400),
        ("GET", ADMIN, 400),
    ] {
        let answer = served.ask(method, &assigning, credential, b"").await;
        assert_eq!(answer.status, expected, "{method} {}", answer.text());
    }
    let form = [
        ("Authorization", READ),
        ("Content-Type", "application/x-www-form-urlencoded"),
    ];
    let in_body = served
        .server
        .request("POST", &path, &form, b"assign_uids=true");
    assert_eq!(in_body.await.status, 400);
    assert_eq!(served.content().await, before);
    let all = served.ask("POST", &assigning, ADMIN, b"").await;
    assert_eq!(all.status, 200, "{}", all.text());
    assert!(!all.text().contains("names without UIDs"), "{}", all.text());
    assert_ne!(served.content().await, before);
    served.server.stop().await.unwrap();
}
