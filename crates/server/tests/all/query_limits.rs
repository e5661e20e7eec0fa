//! Queries that take long: time-outs, clients that go away, and those that wait for their turn.

use std::sync::Arc;
use std::time::{Duration, Instant};

use icecore_storage::Environment;
use icecore_storage::testing::{FaultPlan, FaultStore};

use crate::client::{Connection, encoded, request};
use crate::payload::{Payload, T0, series};
use crate::served::{TestServer, config, until};

const QUERY: &str = "/api/v1/query";

/// A process whose samples lie in a store that has become so slow that every query hangs.
struct Slow {
    served: TestServer,
    store: FaultStore,
    _directory: tempfile::TempDir,
}

impl Slow {
    async fn start(settings: &[(&str, &str)]) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let location = (
            "storage.location",
            directory.path().to_str().expect("UTF-8"),
        );
        let settings = [&[location], settings].concat();
        let filled = TestServer::start(&settings).await;
        let payload = Payload::v1(&[series("up", &[], &[(T0, 1.0)])]);
        assert_eq!(filled.write(&payload).await.status, 204);
        filled.stop().await.expect("a clean end");
        let plan = FaultPlan {
            delay: 1.0,
            delay_max: Duration::from_secs(3600),
            ..FaultPlan::quiet(7)
        };
        let store = FaultStore::local(directory.path(), plan).expect("a store");
        store.set_enabled(false);
        let environment = Environment {
            object_store: Some(Arc::new(store.clone())),
            ..Environment::default()
        };
        let served = TestServer::starting(config(&settings), environment).await;
        served.until_ready().await;
        store.set_enabled(true);
        Self {
            served,
            store,
            _directory: directory,
        }
    }

    /// Begins a query that hangs, and waits until it does.
    async fn hang(&self) -> Connection {
        let before = self.value("icecore_queries_running").await;
        let mut connection = Connection::open(self.served.address).await;
        let path = format!("{QUERY}?{}", encoded(&params(&[])));
        connection.send(&request("GET", &path, &[], b"")).await;
        self.until("icecore_queries_running", before + 1.0).await;
        connection
    }

    async fn value(&self, metric: &str) -> f64 {
        let answer = self.served.get("/metrics", &[]).await;
        let mut lines = answer.text().lines();
        let line = lines.find_map(|line| line.strip_prefix(metric)?.strip_prefix(' '));
        line.map_or(0.0, |value| value.parse().expect("a number"))
    }

    async fn until(&self, metric: &str, value: f64) {
        until(|| self.value(metric), |now| *now == value, metric).await;
    }

    async fn stop(self) {
        self.store.set_enabled(false);
        self.served.stop().await.expect("a clean end");
    }
}

/// A query for what only the store has.
fn params<'a>(more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    [&[("query", "up"), ("time", "1699999200")], more].concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_has_only_so_much_time() {
    let slow = Slow::start(&[("query.timeout", "10m")]).await;
    let began = Instant::now();
    let answer = slow
        .served
        .get(QUERY, &params(&[("timeout", "300ms")]))
        .await;
    let message = answer.error(503, "timeout");
    assert_eq!(message, "query timed out in expression evaluation");
    assert!(answer.header("retry-after").is_some());
    assert!(began.elapsed() >= Duration::from_millis(300));
    slow.until("icecore_queries_running", 0.0).await;
    let counted = "icecore_queries_total{kind=\"instant\",result=\"timeout\"}";
    slow.until(counted, 1.0).await;
    slow.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_cannot_have_more_time_than_the_setting() {
    let slow = Slow::start(&[("query.timeout", "200ms")]).await;
    let answer = slow.served.get(QUERY, &params(&[("timeout", "1h")])).await;
    answer.error(503, "timeout");
    slow.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_goes_away_cancels_its_query() {
    let slow = Slow::start(&[]).await;
    let connection = slow.hang().await;
    drop(connection);
    slow.until("icecore_queries_running", 0.0).await;
    let counted = "icecore_queries_total{kind=\"instant\",result=\"canceled\"}";
    slow.until(counted, 1.0).await;
    let requests = "icecore_http_requests_total{route=\"/api/v1/query\",code=\"499\"}";
    slow.until(requests, 1.0).await;
    slow.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_goes_away_while_it_waits_gives_up_its_place() {
    let slow = Slow::start(&[("query.max_concurrency", "1")]).await;
    let running = slow.hang().await;
    let mut waiting = Connection::open(slow.served.address).await;
    let path = format!("{QUERY}?{}", encoded(&params(&[])));
    waiting.send(&request("GET", &path, &[], b"")).await;
    slow.until("icecore_queries_waiting", 1.0).await;
    drop(waiting);
    slow.until("icecore_queries_waiting", 0.0).await;
    assert_eq!(slow.value("icecore_queries_running").await, 1.0);
    drop(running);
    slow.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn queries_wait_for_their_turn() {
    let settings = [("query.max_concurrency", "1"), ("query.max_queue", "1")];
    let slow = Slow::start(&settings).await;
    let running = slow.hang().await;
    assert_eq!(slow.value("icecore_queries_running_max").await, 1.0);
    // One may wait, for as long as it has.
    let late = slow
        .served
        .get(QUERY, &params(&[("timeout", "200ms")]))
        .await;
    let message = late.error(503, "timeout");
    assert_eq!(message, "query timed out in query queue");
    // The next one is refused at once.
    let mut waiting = Connection::open(slow.served.address).await;
    let path = format!("{QUERY}?{}", encoded(&params(&[])));
    waiting.send(&request("GET", &path, &[], b"")).await;
    slow.until("icecore_queries_waiting", 1.0).await;
    let refused = slow.served.get(QUERY, &params(&[])).await;
    assert_eq!(
        refused.error(503, "unavailable"),
        "query.max_concurrency queries run and query.max_queue = 1 wait for their turn: try again"
    );
    assert!(refused.header("retry-after").is_some());
    // What does not need a turn is answered all the while.
    assert_eq!(slow.served.get("/-/ready", &[]).await.status, 200);
    // Whoever waits is next.
    drop(running);
    slow.until("icecore_queries_waiting", 0.0).await;
    slow.until("icecore_queries_running", 1.0).await;
    drop(waiting);
    slow.until("icecore_queries_running", 0.0).await;
    slow.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_that_computes_is_canceled_as_well() {
    // So that nothing else ends it.
    let unlimited = [
        ("query.max_samples", "1000000000000"),
        ("query.timeout", "1h"),
    ];
    let served = TestServer::start(&unlimited).await;
    // Hours of work in one row: windows of half a million values at half a million steps.
    let query =
        "sum(quantile_over_time(0.5, quantile_over_time(0.5, vector(time())[5d:1s])[5d:1s]))";
    let path = format!("{QUERY}?{}", encoded(&[("query", query)]));
    let mut connection = Connection::open(served.address).await;
    connection.send(&request("GET", &path, &[], b"")).await;
    served.until_metrics(&["icecore_queries_running 1"]).await;
    // No event tells that a thread computes: on a machine that has not begun by now, the query is
    // cancelled before.
    tokio::time::sleep(Duration::from_millis(100)).await;
    drop(connection);
    served.until_metrics(&["icecore_queries_running 0"]).await;
    served.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_opened_answers_later() {
    let directory = tempfile::tempdir().unwrap();
    let settings = [
        ("storage.location", directory.path().to_str().unwrap()),
        ("storage.open_timeout", "1h"),
    ];
    let plan = FaultPlan {
        delay: 1.0,
        delay_max: Duration::from_secs(3600),
        ..FaultPlan::quiet(7)
    };
    let store = FaultStore::local(directory.path(), plan).unwrap();
    let environment = Environment {
        object_store: Some(Arc::new(store)),
        ..Environment::default()
    };
    let served = TestServer::starting(config(&settings), environment).await;
    for path in [
        "/api/v1/query?query=up",
        "/api/v1/query_range?query=up&start=0&end=1&step=1",
        "/api/v1/query_exemplars?query=up",
        "/api/v1/format_query?query=up",
        "/api/v1/parse_query?query=up",
    ] {
        let answer = served.get(path, &[]).await;
        let message = answer.error(503, "unavailable");
        assert_eq!(message, "the database is being opened: try again");
        assert!(answer.header("retry-after").is_some(), "{path}");
    }
    served.stop().await.unwrap();
}

const OPENTSDB_QUERY: &str = "/opentsdb/api/query";

/// A query of OpenTSDB for what only the store has.
const OPENTSDB_PARAMS: [(&str, &str); 3] = [
    ("start", "1699999000"),
    ("end", "1699999300"),
    ("m", "sum:up"),
];

#[tokio::test(flavor = "multi_thread")]
async fn a_query_of_opentsdb_has_as_much_time_as_its_own_setting_says() {
    let setting = ("opentsdb.settings", "tsd.query.timeout=300");
    let slow = Slow::start(&[setting]).await;
    let began = Instant::now();
    let answer = slow.served.get(OPENTSDB_QUERY, &OPENTSDB_PARAMS).await;
    assert_eq!(answer.status, 408, "{}", answer.text());
    let said = "Time limit: 300 ms (tsd.query.timeout)";
    assert!(answer.text().contains(said), "{}", answer.text());
    assert!(began.elapsed() >= Duration::from_millis(300));
    slow.until("icecore_queries_running", 0.0).await;
    slow.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_of_opentsdb_may_be_forbidden_to_run_twice() {
    let setting = (
        "opentsdb.settings",
        "tsd.query.allow_simultaneous_duplicates=false",
    );
    let slow = Slow::start(&[setting]).await;
    let mut first = Connection::open(slow.served.address).await;
    let path = format!("{OPENTSDB_QUERY}?{}", encoded(&OPENTSDB_PARAMS));
    first.send(&request("GET", &path, &[], b"")).await;
    slow.until("icecore_queries_running", 1.0).await;
    let second = slow.served.get(OPENTSDB_QUERY, &OPENTSDB_PARAMS).await;
    assert_eq!(second.status, 400, "{}", second.text());
    let said = "Query is already executing for endpoint: 127.0.0.1";
    assert!(second.text().contains(said), "{}", second.text());
    drop(first);
    slow.until("icecore_queries_running", 0.0).await;
    slow.stop().await;
}
