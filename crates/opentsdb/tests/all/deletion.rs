//! Queries that delete what they read.

use http::Method;
use icecore_opentsdb::Config;
use serde_json::{Value, json};

use crate::query_examples::{B, Daemon};

const ROLLUPS: &str = r#"{"aggregationIds":{"sum":0,"count":1},"intervals":[
    {"interval":"1m","rowSpan":"1h","defaultInterval":true},{"interval":"1h","rowSpan":"1d"}]}"#;

fn daemon() -> Daemon {
    let daemon = Daemon::new(Config {
        rollups_enabled: true,
        rollups_document: Some(ROLLUPS.into()),
        allow_delete: true,
        ..Config::default()
    });
    daemon.put(&[("host", "a")], &[(0, json!(1)), (3600, json!(2))]);
    for host in ["a", "b"] {
        for (second, aggregator, value) in [
            (0, "sum", 10),
            (0, "count", 4),
            (86_400, "sum", 20),
            (86_400, "count", 5),
        ] {
            let point = json!({"metric": "m", "timestamp": B + second, "value": value,
                "tags": {"host": host}, "interval": "1h", "aggregator": aggregator});
            let (status, text) = daemon.ask(Method::POST, "/api/rollup", &point.to_string());
            assert_eq!(status, 204, "{text}");
        }
    }
    daemon
}

fn query(daemon: &Daemon, verb: &Method, end: i64, m: &str) -> Value {
    let target = format!("/api/query?start={B}&end={}&m={m}", B + end);
    let (status, text) = daemon.ask(verb.clone(), &target, "");
    assert_eq!(status, 200, "{text}");
    let results: Value = serde_json::from_str(&text).unwrap();
    results
        .as_array()
        .unwrap()
        .iter()
        .map(|result| result["dps"].clone())
        .collect()
}

#[test]
fn rollups_that_answer_are_deleted() {
    let daemon = daemon();
    let (first, second) = (B.to_string(), (B + 86_400).to_string());
    let sums = "sum:1h-sum:m{host=a}";
    let before = json!([{&first: 10.0}]);
    assert_eq!(query(&daemon, &Method::DELETE, 100, sums), before);
    assert_eq!(query(&daemon, &Method::GET, 100, sums), json!([]));
    // Neither other times, nor other series, nor counts, nor points.
    let other_time = json!([{&second: 20.0}]);
    assert_eq!(query(&daemon, &Method::GET, 86_500, sums), other_time);
    assert_eq!(
        query(&daemon, &Method::GET, 100, "sum:1h-sum:m{host=b}"),
        before
    );
    let counts = "sum:1h-count:m{host=a}";
    assert_eq!(
        query(&daemon, &Method::GET, 100, counts),
        json!([{&first: 4.0}])
    );
    assert_eq!(
        query(&daemon, &Method::GET, 100, "sum:m"),
        json!([{&first: 1}])
    );
}

#[test]
fn an_average_takes_sums_and_counts_along() {
    let daemon = daemon();
    let first = B.to_string();
    let average = query(&daemon, &Method::DELETE, 100, "sum:1h-avg:m{host=b}");
    assert_eq!(average, json!([{&first: 2.5}]));
    for m in [
        "sum:1h-avg:m{host=b}",
        "sum:1h-sum:m{host=b}",
        "sum:1h-count:m{host=b}",
    ] {
        assert_eq!(query(&daemon, &Method::GET, 100, m), json!([]), "{m}");
    }
    assert_eq!(
        query(&daemon, &Method::GET, 100, "sum:1h-avg:m{host=a}"),
        json!([{&first: 2.5}])
    );
}

#[test]
fn points_are_deleted_without_what_was_rolled_up_of_them() {
    let daemon = daemon();
    let first = B.to_string();
    assert_eq!(
        query(&daemon, &Method::DELETE, 100, "sum:m"),
        json!([{&first: 1}])
    );
    assert_eq!(query(&daemon, &Method::GET, 100, "sum:m"), json!([]));
    let sums = query(&daemon, &Method::GET, 100, "sum:1h-sum:m{host=a}");
    assert_eq!(sums, json!([{&first: 10.0}]));
}
