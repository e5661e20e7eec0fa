//! Requests that pages of other sites make browsers send: to every route that stores or changes
//! something, on every port, refused in the form of each protocol.

use icecore_server::{ROUTES, Role};
use tempfile::TempDir;

use crate::client::{Answer, Connection};
use crate::payload::{Payload, T0, series};
use crate::prometheus::Prometheus;
use crate::served::{TestServer, until};

const FOREIGN: [(&str, &str); 3] = [
    ("Origin", "http://evil.example"),
    ("Origin", "null"),
    ("Sec-Fetch-Site", "cross-site"),
];

/// Routes that take their questions by POST alone, and change nothing. All others that take no GET
/// do, whatever role they need.
const READS: [&str; 11] = [
    "/api/v1/read",
    "/api/search/events",
    "/api/objql/query",
    "/events/sql",
    "/api/query/counters",
    "/api/query/histograms",
    "/api/histograms/query",
    "/api/query/gauges",
    "/api/query/state-counts",
    "/api/query/state-transitions",
    "/api/query/state-count-timeseries",
];

/// A request with another host than the client would name.
async fn ask(
    served: &TestServer,
    (method, path): (&str, &str),
    host: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Answer {
    let mut text = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\n");
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str(&format!("Content-Length: {}\r\n\r\n", body.len()));
    let mut connection = Connection::open(served.address).await;
    connection.send(text.as_bytes()).await;
    connection.send(body).await;
    connection.answer(method).await
}

fn path_of(route: &str) -> String {
    let mut path = route.to_owned();
    while let (Some(begin), Some(end)) = (path.find('{'), path.find('}')) {
        path.replace_range(begin..=end, "some");
    }
    path
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_another_site_changes_nothing() {
    let files = TempDir::new().unwrap();
    let path = files.path().join("web.yml");
    let credentials = "icecore: {tokens: [{token: token-that-may-admin, roles: [admin]}]}";
    std::fs::write(&path, credentials).unwrap();
    let open = TestServer::start(&[]).await;
    let restricted = TestServer::start(&[("server.web_config", path.to_str().unwrap())]).await;
    let credential = ("Authorization", "Bearer token-that-may-admin");
    for path in READS {
        assert!(ROUTES.iter().any(|route| route.path == path), "{path}");
    }
    let paths = ROUTES
        .iter()
        .flat_map(|route| route.paths().map(move |path| (route, path_of(&path))));
    // A stream of notices has no end that a client could wait for.
    for (route, path) in paths.filter(|(_, path)| !path.ends_with("/live")) {
        let changes = !route.methods.contains(&"GET") && !READS.contains(&route.path);
        for method in route.methods.iter().filter(|method| **method != "ANY") {
            for foreign in FOREIGN {
                let headers = [foreign, credential];
                let request = (*method, path.as_str());
                for served in [&open, &restricted] {
                    let answer = ask(served, request, "localhost:9090", &headers, b"").await;
                    if changes {
                        assert_eq!(answer.status, 403, "{method} {path} {foreign:?}");
                        // One form is no text.
                        let text = String::from_utf8_lossy(&answer.body);
                        assert!(
                            text.contains("server.cors_origin"),
                            "{method} {path}: {text}"
                        );
                    } else if route.role != Role::Admin {
                        assert_ne!(answer.status, 403, "{method} {path} {foreign:?}");
                    }
                }
            }
        }
    }
    open.stop().await.unwrap();
    restricted.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_this_server_and_programs_go_on_working() {
    let served = TestServer::start(&[]).await;
    let delete = ("POST", "/api/v1/admin/tsdb/delete_series?match[]=up");
    for (host, headers) in [
        ("localhost:9090", &[] as &[(&str, &str)]),
        ("icecore:9090", &[]),
        ("127.0.0.1:9090", &[("Origin", "http://127.0.0.1:9090")]),
        ("[::1]:9090", &[("Origin", "http://[::1]:9090")]),
        (
            "icecore.local",
            &[
                ("Origin", "https://icecore.local"),
                ("Sec-Fetch-Site", "same-origin"),
            ],
        ),
    ] {
        let answer = ask(&served, delete, host, headers, b"").await;
        assert_eq!(answer.status, 204, "{host} {headers:?}: {}", answer.text());
    }
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn names_that_a_page_can_have_are_refused_without_access_control() {
    let served = TestServer::start(&[]).await;
    let rebound = "rebound.example:9090";
    for path in ["/api/v1/labels", "/ui/", "/federate?match[]=up"] {
        let answer = ask(&served, ("GET", path), rebound, &[], b"").await;
        assert_eq!(answer.status, 403, "{path}");
        let text = answer.text();
        assert!(
            text.contains("server.hosts") && text.contains("rebound.example"),
            "{text}"
        );
    }
    for (path, status) in [
        ("/-/healthy", 200),
        ("/-/ready", 200),
        ("/metrics", 200),
        // Errors tell nothing.
        ("/nothing", 404),
    ] {
        let answer = ask(&served, ("GET", path), rebound, &[], b"").await;
        assert_eq!(answer.status, status, "{path}");
    }
    // Prometheus in a cluster writes to a service of a namespace.
    let payload = Payload::v1(&[series("up", &[], &[(T0, 1.0)])]);
    let (headers, body) = (payload.headers(), payload.body());
    let write = ("POST", "/api/v1/write");
    let written = ask(&served, write, "icecore.monitoring:9090", &headers, &body).await;
    assert_eq!(written.status, 204, "{}", written.text());
    // A base URL with a slash at its end, and one behind the path.
    for (path, location) in [
        ("//api/v1/write", "/api/v1/write"),
        ("/api/v1/write/", "/api/v1/write"),
        ("/opentsdb//api/put", "/opentsdb/api/put"),
    ] {
        let post = ("POST", path);
        let sent = ask(&served, post, "icecore.monitoring:9090", &headers, &body).await;
        assert_eq!(sent.status, 307, "{path}: {}", sent.text());
        assert_eq!(sent.header("location"), Some(location));
    }
    let mut by_page = headers.clone();
    by_page.push(("Origin", "http://rebound.example:9090"));
    let refused = ask(&served, write, rebound, &by_page, &body).await;
    assert_eq!(refused.status, 403);
    served.stop().await.unwrap();

    let listed = TestServer::start(&[("server.hosts", "rebound.example,other.example")]).await;
    let answer = ask(&listed, ("GET", "/api/v1/labels"), rebound, &[], b"").await;
    assert_eq!(answer.status, 200);
    // A proxy that names this server by another host.
    let origin = [("Origin", "https://other.example")];
    let delete = ("POST", "/api/v1/admin/tsdb/delete_series?match[]=up");
    let answer = ask(&listed, delete, "icecore:9090", &origin, b"").await;
    assert_eq!(answer.status, 204, "{}", answer.text());
    listed.stop().await.unwrap();
}

/// OpenTSDB's clients send more than points, and the gRPC port is asked for what it does not have.
#[tokio::test(flavor = "multi_thread")]
async fn what_senders_send_is_not_asked_for_its_host() {
    let settings = [
        ("opentsdb.settings", "tsd.core.auto_create_metrics=true"),
        ("otlp.grpc_listen", "127.0.0.1:0"),
    ];
    let served = TestServer::start(&settings).await;
    let service = "icecore.monitoring:4242";
    let json = ("Content-Type", "application/json");
    let requests: [(&str, &str, &[u8]); 4] = [
        (
            "POST",
            "/opentsdb/api/annotation",
            br#"{"startTime":1500000000,"description":"x"}"#,
        ),
        (
            "POST",
            "/opentsdb/api/annotation/bulk",
            br#"[{"startTime":1500000001,"description":"x"}]"#,
        ),
        (
            "POST",
            "/opentsdb/api/uid/assign",
            br#"{"metric":["assigned"]}"#,
        ),
        ("PUT", "/opentsdb/api/uid/uidmeta", br#"{}"#),
    ];
    for (method, path, body) in requests {
        let request = (method, path);
        let sent = ask(&served, request, service, &[json], body).await;
        assert_ne!(sent.status, 403, "{path}: {}", sent.text());
        // A page under a name of its own says where it is from.
        let rebound = [json, ("Origin", "http://icecore.monitoring:4242")];
        let refused = ask(&served, request, service, &rebound, body).await;
        assert_eq!(refused.status, 403, "{path}: {}", refused.text());
    }
    // A browser that sends a GET for such a page says nothing.
    let assign = ("GET", "/opentsdb/api/uid/assign?metric=other");
    let refused = ask(&served, assign, service, &[], b"").await;
    assert_eq!(refused.status, 403, "{}", refused.text());
    let address = served.grpc_address.unwrap();
    let client = reqwest::Client::builder().http2_prior_knowledge();
    let client = client.no_proxy().resolve("icecore.monitoring", address);
    let traces = "opentelemetry.proto.collector.trace.v1.TraceService/Export";
    let url = format!("http://icecore.monitoring:{}/{traces}", address.port());
    let call = client.build().unwrap().post(url);
    let call = call.header("content-type", "application/grpc");
    let answer = call.send().await.unwrap();
    assert_eq!(answer.headers()["grpc-status"], "12", "it is unimplemented");
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_that_were_allowed_send_opentelemetry() {
    let allowed = "https://shop\\.example";
    let served = TestServer::start(&[("server.cors_origin", allowed)]).await;
    let json = ("Content-Type", "application/json");
    let metrics = br#"{"resourceMetrics":[]}"#;
    for path in ["/v1/metrics", "/api/v1/otlp/v1/metrics"] {
        for (origin, expected) in [("https://shop.example", 200), ("http://evil.example", 403)] {
            let headers = [("Origin", origin), ("Sec-Fetch-Site", "cross-site"), json];
            let answer = ask(&served, ("POST", path), "localhost", &headers, metrics).await;
            assert_eq!(
                answer.status,
                expected,
                "{path} {origin}: {}",
                answer.text()
            );
            let may_read = answer.header("access-control-allow-origin");
            assert_eq!(may_read, (expected == 200).then_some(origin), "{path}");
        }
        let preflight = [("Origin", "https://shop.example")];
        let answer = ask(&served, ("OPTIONS", path), "localhost", &preflight, b"").await;
        assert!([200, 204].contains(&answer.status), "{path}");
        let may_read = answer.header("access-control-allow-origin");
        assert_eq!(may_read, Some("https://shop.example"));
    }
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_have_the_form_of_their_protocol() {
    let served = TestServer::start(&[]).await;
    let foreign = FOREIGN[0];
    let refused = async |path: &str, content_type: &str| {
        let headers = [foreign, ("Content-Type", content_type)];
        ask(&served, ("POST", path), "localhost", &headers, b"").await
    };
    let json = "application/json";
    let api = refused("/-/reload", json).await;
    api.error(403, "forbidden");
    let text = refused("/api/v1/write", "application/x-protobuf").await;
    assert_eq!(
        (text.status, text.header("content-type")),
        (403, Some("text/plain; charset=utf-8"))
    );
    let otlp = refused("/v1/metrics", json).await;
    assert_eq!(
        (otlp.status, &otlp.json()["code"]),
        (403, &serde_json::json!(7))
    );
    let otlp = refused("/v1/logs", "application/x-protobuf").await;
    let content_type = otlp.header("content-type");
    assert_eq!(
        (otlp.status, content_type),
        (403, Some("application/x-protobuf"))
    );
    let event = refused("/events/publish", json).await;
    let content_type = event.header("content-type");
    assert_eq!(
        (event.status, content_type),
        (403, Some("application/problem+json"))
    );
    let put = refused("/opentsdb/api/put", json).await;
    let error: serde_json::Value = serde_json::from_slice(&put.body).unwrap();
    assert_eq!(
        (put.status, &error["error"]["code"]),
        (403, &serde_json::json!(403))
    );
    let call = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export";
    let grpc = refused(call, "application/grpc").await;
    assert_eq!((grpc.status, grpc.header("grpc-status")), (200, Some("7")));
    let message = grpc.header("grpc-message").unwrap();
    assert!(message.contains("server.cors_origin"), "{message}");
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn opentsdb_is_no_way_around() {
    let tsd = "tsd.core.auto_create_metrics=true,tsd.http.query.allow_delete=true";
    let settings = [
        ("opentsdb.listen", "127.0.0.1:0"),
        ("opentsdb.settings", tsd),
        ("opentsdb.get_overrides", "true"),
    ];
    let served = TestServer::start(&settings).await;
    let own_port = served.opentsdb_address.unwrap();
    let ask = async |method: &str, path: &str, headers: &[(&str, &str)], body: &str| {
        let mut connection = Connection::open(own_port).await;
        let answer = connection.request(method, path, headers, body.as_bytes());
        answer.await
    };
    let point = r#"{"metric":"m","timestamp":1500000000,"value":8,"tags":{"host":"b"}}"#;
    assert_eq!(ask("POST", "/api/put", &[], point).await.status, 204);
    let deleting = r#"{"start":1500000000,"delete":true,
                       "queries":[{"aggregator":"sum","metric":"m"}]}"#;
    let query = "/api/query?start=1500000000&m=sum:m";
    let deleting_get = format!("{query}&method_override=delete");
    let bulk = "/api/annotation/bulk?start_time=1&global&method_override=delete";
    for foreign in FOREIGN {
        let headers = [foreign];
        for (method, path, body) in [
            ("POST", "/api/put", point),
            ("GET", "/api/uid/assign?metric=x", ""),
            ("GET", "/api/uid/rename?metric=m&name=n", ""),
            ("GET", "/api/dropcaches", ""),
            ("GET", bulk, ""),
            ("GET", deleting_get.as_str(), ""),
            ("DELETE", query, ""),
            ("POST", "/api/tree?name=t", ""),
            // The head does not show what the body asks for.
            ("POST", "/api/query", deleting),
        ] {
            let answer = ask(method, path, &headers, body).await;
            assert_eq!(
                answer.status,
                403,
                "{method} {path} {foreign:?}: {}",
                answer.text()
            );
        }
        let answer = ask("GET", query, &headers, "").await;
        assert_eq!(answer.status, 200, "{foreign:?}: {}", answer.text());
        assert!(answer.text().contains("1500000000"), "{}", answer.text());
    }
    // A browser that sends an image's GET over plain HTTP to another machine says no more.
    let browser = [(
        "User-Agent",
        "Mozilla/5.0 (X11; Linux x86_64) Chrome/140.0.0.0",
    )];
    let rename = "/api/uid/rename?metric=m&name=n";
    assert_eq!(ask("GET", rename, &browser, "").await.status, 403);
    assert_eq!(
        ask("GET", rename, &[("User-Agent", "curl/8.5.0")], "")
            .await
            .status,
        200
    );
    served.stop().await.unwrap();

    let domains = format!("{tsd},tsd.http.request.cors_domains=http://evil.example");
    let settings = [("opentsdb.settings", domains.as_str())];
    let served = TestServer::start(&settings).await;
    let headers = [FOREIGN[0]];
    let path = "/opentsdb/api/put";
    let answer = served
        .request("POST", path, &headers, point.as_bytes())
        .await;
    assert_eq!(answer.status, 204, "{}", answer.text());
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn no_answer_is_taken_for_something_else() {
    let served = TestServer::start(&[]).await;
    for path in [
        "/api/v1/labels",
        "/metrics",
        "/ui/",
        "/nothing",
        "/opentsdb/api/version",
    ] {
        let answer = served.get(path, &[]).await;
        assert_eq!(
            answer.header("x-content-type-options"),
            Some("nosniff"),
            "{path}"
        );
    }
    let refused = served.request("POST", "/api/v1/write", &[], b"").await;
    assert_eq!(refused.header("x-content-type-options"), Some("nosniff"));
    served.stop().await.unwrap();
}

/// The name that a service of a namespace has in a cluster; the proxy stands for its name server.
#[tokio::test(flavor = "multi_thread")]
async fn a_real_prometheus_writes_to_a_service_of_a_namespace() {
    let served = TestServer::start(&[]).await;
    let config = format!(
        "global: {{scrape_interval: 1s}}
scrape_configs: [{{job_name: absent, static_configs: [{{targets: ['127.0.0.1:1']}}]}}]
remote_write:
- url: http://icecore.monitoring:9090/api/v1/write
  proxy_url: http://{}
  queue_config: {{batch_send_deadline: 1s}}
",
        served.address
    );
    let tested = "remote write by Prometheus to icecore.monitoring";
    let Some(_prometheus) = Prometheus::start(tested, &config).await else {
        return;
    };
    let written = || served.get("/api/v1/series", &[("match[]", "up{job=\"absent\"}")]);
    let is_there = |answer: &Answer| answer.data().as_array().is_some_and(|all| all.len() == 1);
    until(written, is_there, "a series of Prometheus").await;
    served.stop().await.unwrap();
}
