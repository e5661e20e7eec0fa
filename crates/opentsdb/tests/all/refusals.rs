//! Records that the store refuses once: nothing is remembered as stored that is not.

use std::sync::Arc;

use futures::executor::block_on;
use http::{HeaderMap, Method};
use icecore_model::ManualClock;
use icecore_opentsdb::api::{Request, handle};
use icecore_opentsdb::telnet::Session;
use icecore_opentsdb::testing::MemoryStore;
use icecore_opentsdb::{Config, Tsd};
use serde_json::{Value, json};

const NOW_MS: i64 = 1_700_000_000_000;

const ROOT: &str = "/api/tree/branch?treeid=1";

struct Server {
    store: Arc<MemoryStore>,
    tsd: Tsd,
}

impl Server {
    fn new() -> Self {
        Self::with(Config {
            auto_create_metrics: true,
            realtime_uid: true,
            realtime_ts: true,
            tsuid_tracking: true,
            tree_processing: true,
            ..Config::default()
        })
    }

    fn with(config: Config) -> Self {
        let store = Arc::new(MemoryStore::default());
        let clock = Arc::new(ManualClock::at(NOW_MS));
        let tsd = block_on(Tsd::open(config, store.clone().all(), clock)).unwrap();
        Self { store, tsd }
    }

    fn ask(&self, method: Method, target: &str, body: &Value) -> (u16, Value) {
        let body = match body {
            Value::Null => String::new(),
            body => body.to_string(),
        };
        let request = Request::new(method, target, HeaderMap::new(), body.into());
        let response = block_on(handle(&self.tsd, &request));
        let body = serde_json::from_slice(&response.body).unwrap_or(Value::Null);
        (response.status.as_u16(), body)
    }

    /// Returns the refusals that were counted for a reason.
    fn refused_points(&self, reason: &str) -> u64 {
        let mut counts = self.tsd.refusals().counts();
        let found = counts.find(|(known, _)| known.name() == reason);
        found.expect("there is such a reason").1
    }

    fn get(&self, target: &str) -> (u16, Value) {
        self.ask(Method::GET, target, &Value::Null)
    }

    /// A request that is refused at first. Sent again, it succeeds.
    fn refused_once(&self, method: &Method, target: &str, body: &Value) {
        self.refused(method, target, body);
        let (status, answer) = self.ask(method.clone(), target, body);
        assert!(status < 300, "{target}: {status} {answer}");
    }

    fn refused(&self, method: &Method, target: &str, body: &Value) {
        self.store.refuse_next(1);
        let (status, answer) = self.ask(method.clone(), target, body);
        assert_eq!(status, 503, "{target}: {answer}");
        let message = "Storage exception: appends are refused";
        assert_eq!(answer["error"]["message"], message, "{target}");
    }

    fn put(&self, host: &str) -> u16 {
        let point = json!({
            "metric": "m", "timestamp": NOW_MS / 1000, "value": 1, "tags": {"host": host},
        });
        self.ask(Method::POST, "/api/put", &point).0
    }

    /// A tree of metrics with a leaf for each host.
    fn make_tree(&self) {
        let post = |target: &str, body: Value| {
            let (status, answer) = self.ask(Method::POST, target, &body);
            assert_eq!(status, 200, "{target}: {answer}");
        };
        post("/api/tree", json!({"name": "t", "enabled": true}));
        post(
            "/api/tree/rule",
            json!({"treeId": 1, "level": 0, "order": 0, "type": "METRIC"}),
        );
        post(
            "/api/tree/rule",
            json!({"treeId": 1, "level": 1, "order": 0, "type": "TAGK", "field": "host"}),
        );
    }

    /// The names of the leaves below the only branch of the root.
    fn leaves(&self) -> Vec<Value> {
        let (status, root) = self.get(ROOT);
        assert_eq!(status, 200, "{root}");
        let branch = root["branches"][0]["branchId"].as_str().unwrap();
        let (status, branch) = self.get(&format!("/api/tree/branch?branch={branch}"));
        assert_eq!(status, 200, "{branch}");
        let leaves = branch["leaves"].as_array().unwrap().iter();
        leaves.map(|leaf| leaf["displayName"].clone()).collect()
    }
}

#[test]
fn meta_data_and_leaves_of_a_refused_request_are_made_by_the_next() {
    // Either the points are refused, or what is stored behind them.
    for skipped in [0, 1] {
        let server = Server::new();
        server.make_tree();
        server.store.refuse_after(skipped);
        assert_eq!(server.put("a"), 503);
        assert_eq!(
            server.get("/api/uid/tsmeta?tsuid=000001000001000001").0,
            404
        );
        assert_eq!(server.put("a"), 204);
        for kind in ["metric", "tagk", "tagv"] {
            let (status, meta) = server.get(&format!("/api/uid/uidmeta?uid=000001&type={kind}"));
            assert_eq!(
                (status, &meta["created"]),
                (200, &json!(NOW_MS / 1000)),
                "{kind}"
            );
        }
        assert_eq!(
            server.get("/api/uid/tsmeta?tsuid=000001000001000001").0,
            200
        );
        assert_eq!(server.leaves(), ["a"]);
    }
}

#[test]
fn definitions_of_trees_are_as_they_are_stored() {
    let server = Server::new();
    let tree = json!({"name": "t"});
    server.refused(&Method::POST, "/api/tree", &tree);
    assert_eq!(server.get("/api/tree").1, json!([]));
    server.make_tree();
    let renamed = json!({"treeId": 1, "name": "other"});
    server.refused(&Method::POST, "/api/tree", &renamed);
    assert_eq!(server.get("/api/tree?treeid=1").1["name"], "t");
    let rule = json!({"treeId": 1, "level": 2, "order": 0, "type": "METRIC"});
    server.refused(&Method::POST, "/api/tree/rule", &rule);
    assert_eq!(server.get("/api/tree/rule?treeid=1&level=2&order=0").0, 404);
    server.refused_once(&Method::POST, "/api/tree/rule", &rule);
    let gone = "/api/tree?treeid=1&definition=true";
    server.refused(&Method::DELETE, gone, &Value::Null);
    assert_eq!(server.get("/api/tree?treeid=1").0, 200);
    server.refused_once(&Method::DELETE, gone, &Value::Null);
    assert_eq!(server.get("/api/tree?treeid=1").0, 404);
}

#[test]
fn a_busy_store_is_503_for_every_kind_of_record() {
    let server = Server::new();
    assert_eq!(server.put("a"), 204);
    let tsuid = "000001000001000001";
    for (target, body) in [
        ("/api/uid/assign", json!({"metric": ["x"]})),
        ("/api/uid/rename", json!({"metric": "m", "name": "n"})),
        (
            "/api/uid/uidmeta",
            json!({"uid": "000001", "type": "METRIC", "notes": "x"}),
        ),
        ("/api/uid/tsmeta", json!({"tsuid": tsuid, "notes": "x"})),
        (
            "/api/annotation",
            json!({"startTime": 1_500_000_000, "notes": "x"}),
        ),
        (
            "/api/annotation/bulk",
            json!([{"startTime": 1_500_000_000, "notes": "y"}]),
        ),
    ] {
        server.refused(&Method::POST, target, &body);
    }
}

#[test]
fn series_that_were_there_before_a_tree_are_added_on_request() {
    let server = Server::new();
    assert_eq!(server.put("a"), 204);
    assert_eq!(server.put("b"), 204);
    server.make_tree();
    // They are known: writing them makes no leaves.
    assert_eq!(server.put("a"), 204);
    assert_eq!(server.get(ROOT).0, 404);
    let sync = |tree: u32| {
        let target = format!("/api/tree/sync?treeid={tree}");
        server.ask(Method::POST, &target, &Value::Null)
    };
    server.refused(&Method::POST, "/api/tree/sync?treeid=1", &Value::Null);
    for _ in 0..2 {
        assert_eq!(sync(1), (200, json!({"series": 2})));
        assert_eq!(server.leaves(), ["a", "b"]);
    }
    assert_eq!(sync(2).0, 404);
    let off = json!({"treeId": 1, "enabled": false});
    assert_eq!(server.ask(Method::POST, "/api/tree", &off).0, 200);
    assert_eq!(sync(1).0, 400);
    assert_eq!(server.get("/api/tree/sync?treeid=1").0, 400);
}

#[test]
fn a_request_that_is_too_much_is_refused_for_good() {
    let server = Server::new();
    server.store.limit_samples(2);
    let points = |count: i64| -> Value {
        let point = |i| {
            json!({
                "metric": "m", "timestamp": NOW_MS / 1000 + i, "value": 1, "tags": {"host": "a"},
            })
        };
        (0..count).map(point).collect()
    };
    let (status, answer) = server.ask(Method::POST, "/api/put", &points(3));
    assert_eq!(status, 400, "{answer}");
    assert_eq!(answer["error"]["message"], "too many samples: split it");
    assert_eq!(server.refused_points("request_too_large"), 1);
    // In parts it is taken.
    assert_eq!(server.ask(Method::POST, "/api/put", &points(2)).0, 204);
    // While the store is busy, sending again helps.
    server.refused(&Method::POST, "/api/put", &points(1));
    assert_eq!(server.refused_points("store_unavailable"), 1);
}

#[test]
fn what_is_refused_is_counted_by_reason() {
    let server = Server::with(Config::default());
    let post = |target: &str, body: &str| {
        let body = body.to_owned().into();
        let request = Request::new(Method::POST, target, HeaderMap::new(), body);
        block_on(handle(&server.tsd, &request)).status.as_u16()
    };
    let point = r#"{"metric":"m","timestamp":1500000000,"value":1,"tags":{"host":"a"}}"#;
    let number = point.replace(":1,", ":\"x\",");
    let rollup = point.replacen('{', r#"{"interval":"1h","aggregator":"sum","#, 1);
    let batch = format!("[{point},{point},{number},null]");
    for (target, body, expected) in [
        ("/api/put", batch.as_str(), 400),
        ("/api/put", "[", 400),
        ("/api/put", "[]", 400),
        ("/api/put", &" ".repeat(9000), 400),
        ("/api/rollup", &rollup, 400),
        ("/api/histogram", point, 503),
    ] {
        assert_eq!(post(target, body), expected, "{target} {body:.100}");
    }
    let mut session = Session::new(&server.tsd);
    let mut feed = |lines: &str| block_on(session.feed(lines.as_bytes())).text;
    feed("put m 1500000000 1 host=a\nput m 1500000000 1 host=a:b\nPING\n");
    feed(&format!("put m 1500000000 1 host={}", "x".repeat(20_000)));
    // Nothing is refused here.
    feed("\nversion\nstats\n");
    let counts = server.tsd.refusals().counts();
    let counts: Vec<(&str, u64)> = counts
        .filter(|(_, count)| *count > 0)
        .map(|(reason, count)| (reason.name(), count))
        .collect();
    assert_eq!(
        counts,
        [
            ("unknown_metric", 3),
            ("illegal_character", 1),
            ("invalid_number", 1),
            ("invalid_point", 1),
            ("rollup_not_configured", 1),
            ("histogram_not_configured", 1),
            ("chunked_body", 1),
            ("malformed_request", 1),
            ("line_too_long", 1),
            ("unknown_command", 1),
        ]
    );
}
