//! Series that Prometheus clients have written, as OpenTSDB's clients see them.

use http::Method;
use icecore_model::{Labels, METRIC_NAME};
use icecore_opentsdb::Config;
use serde_json::{Value, json};

use crate::query_examples::{B, Daemon, append};

fn write(daemon: &Daemon, metric: &str, labels: &[(&str, &str)], samples: &[(i64, f64)]) {
    let pairs = std::iter::once((METRIC_NAME, metric)).chain(labels.iter().copied());
    append(&daemon.stores, &Labels::from_pairs(pairs), samples);
}

fn suggest(daemon: &Daemon, query: &str) -> Value {
    let (status, text) = daemon.ask(Method::GET, &format!("/api/suggest?{query}"), "");
    assert_eq!(status, 200, "{text}");
    serde_json::from_str(&text).unwrap()
}

#[test]
fn their_names_are_suggested() {
    let daemon = Daemon::new(Config::default());
    daemon.put(&[("host", "web01")], &[(0, json!(1))]);
    write(
        &daemon,
        "mem_free",
        &[("instance", "web02"), ("host", "db01")],
        &[(0, 1.0)],
    );
    write(&daemon, "m2", &[("host", "web01")], &[(0, 1.0)]);
    assert_eq!(
        suggest(&daemon, "type=metrics"),
        json!(["m", "m2", "mem_free"])
    );
    assert_eq!(suggest(&daemon, "type=metrics&q=me"), json!(["mem_free"]));
    assert_eq!(suggest(&daemon, "type=metrics&max=2"), json!(["m", "m2"]));
    assert_eq!(suggest(&daemon, "type=tagk"), json!(["host", "instance"]));
    assert_eq!(suggest(&daemon, "type=tagv&q=w"), json!(["web01", "web02"]));
    assert_eq!(
        suggest(&daemon, "type=tagv"),
        json!(["db01", "web01", "web02"])
    );
    assert_eq!(suggest(&daemon, "type=tagv&q=z"), json!([]));
    // Names of this API's clients are there at once, others after a while.
    daemon.put(&[("host", "web00")], &[(0, json!(1))]);
    write(&daemon, "late", &[("host", "web00")], &[(0, 1.0)]);
    assert_eq!(suggest(&daemon, "type=tagv&q=web00"), json!(["web00"]));
    assert_eq!(suggest(&daemon, "type=metrics&q=l"), json!([]));
    assert_eq!(daemon.ask(Method::GET, "/api/dropcaches", "").0, 200);
    assert_eq!(suggest(&daemon, "type=metrics&q=l"), json!(["late"]));
}

#[test]
fn renamed_names_and_rollups_are_not_suggested() {
    let rollups = r#"{"aggregationIds":{"sum":0},"intervals":[
        {"interval":"1m","rowSpan":"1h","defaultInterval":true},{"interval":"1h","rowSpan":"1d"}]}"#;
    let daemon = Daemon::new(Config {
        rollups_enabled: true,
        rollups_document: Some(rollups.into()),
        ..Config::default()
    });
    daemon.put(&[("host", "a")], &[(0, json!(1))]);
    let point = json!({"metric": "m", "timestamp": B, "value": 1, "tags": {"host": "a"},
                       "interval": "1h", "aggregator": "sum"});
    assert_eq!(
        daemon
            .ask(Method::POST, "/api/rollup", &point.to_string())
            .0,
        204
    );
    assert_eq!(suggest(&daemon, "type=metrics"), json!(["m"]));
    let target = "/api/uid/rename?metric=m&name=n";
    assert_eq!(daemon.ask(Method::GET, target, "").0, 200);
    assert_eq!(suggest(&daemon, "type=metrics"), json!(["n"]));
    assert_eq!(suggest(&daemon, "type=tagk"), json!(["host"]));
}

/// Looking at a series changes nothing, not even how its numbers are shown.
#[test]
fn numbers_stay_floats_when_they_are_looked_at() {
    let daemon = Daemon::new(Config::default());
    let labels = [("instance", "a")];
    write(&daemon, "up", &labels, &[(0, 1.0), (10, 0.5), (20, 2.0)]);
    let dps = |daemon: &Daemon, m: &str| {
        let (status, results) = daemon.query((0, 60), m);
        assert_eq!(status, 200, "{results}");
        results[0]["dps"].to_string()
    };
    let floats = format!(r#"{{"{B}":1.0,"{}":0.5,"{}":2.0}}"#, B + 10, B + 20);
    assert_eq!(dps(&daemon, "m=sum:up"), floats);
    assert_eq!(dps(&daemon, "m=sum:up&show_tsuids"), floats);
    assert_eq!(dps(&daemon, "m=sum:up"), floats);
    assert_eq!(dps(&daemon, "m=sum:up&show_tsuids"), floats);
    // Also by a daemon that reads from the catalog what was done.
    let again = Daemon::over(daemon.stores.clone(), Config::default());
    assert_eq!(dps(&again, "m=sum:up&show_tsuids"), floats);
    // Once a point was put, whole numbers are integers where they can be.
    let point = json!({"metric": "up", "timestamp": B, "value": 7, "tags": {"instance": "b"}});
    assert_eq!(
        again.ask(Method::POST, "/api/put", &point.to_string()).0,
        204
    );
    let (_, results) = again.query((0, 60), "m=none:up{instance=b}");
    assert_eq!(results[0]["dps"].to_string(), format!(r#"{{"{B}":7}}"#));
    let last = Daemon::over(daemon.stores.clone(), Config::default());
    let (_, results) = last.query((0, 60), "m=none:up{instance=b}&show_tsuids");
    assert_eq!(results[0]["dps"].to_string(), format!(r#"{{"{B}":7}}"#));
}
