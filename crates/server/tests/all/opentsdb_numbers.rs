//! Integers and floats of OpenTSDB's clients in a real store: in whatever order points come, and
//! whatever becomes of them, each is what it was.

use std::collections::BTreeMap;
use std::path::Path;

use proptest::prelude::*;
use proptest::test_runner::{Config, FileFailurePersistence};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::served::{TestServer, config};

const HOUR: i64 = 3600;

/// Where a window of 16 hours begins.
const START: i64 = 1_699_948_800;

/// Soon after that window: of older samples a coarse bucket would be made at once.
const NOW: i64 = START + 18 * HOUR;

/// An integer that no float is.
const BIG: i64 = (1 << 53) + 1;

/// A host, a number of half hours after [`START`], and a number.
type Point = (bool, i64, Value);

#[derive(Clone, Debug)]
enum Step {
    Put(Vec<Point>),
    Restart,
    /// Flushes and coarsens.
    Maintain,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let number = prop_oneof![
        3 => (-3i64..3).prop_map(|whole| json!(whole)),
        3 => (-3i64..3).prop_map(|whole| json!(whole as f64)),
        1 => (-3i64..3).prop_map(|whole| json!(whole as f64 + 0.5)),
        1 => Just(json!(BIG)),
    ];
    let point = (any::<bool>(), 0i64..24, number);
    let step = prop_oneof![
        4 => prop::collection::vec(point, 1..30).prop_map(Step::Put),
        1 => Just(Step::Restart),
        1 => Just(Step::Maintain),
    ];
    prop::collection::vec(step, 4..12)
}

async fn served(folder: &Path) -> TestServer {
    let location = folder.display().to_string();
    let config = config(&[
        ("storage.location", location.as_str()),
        ("opentsdb.settings", "tsd.core.auto_create_metrics=true"),
    ]);
    TestServer::start_at(config, NOW * 1000).await
}

/// Points as the text export writes them, by host and time.
type Written = BTreeMap<(String, i64), String>;

fn host_of(host: bool) -> &'static str {
    if host { "a" } else { "b" }
}

fn time_of(half_hours: i64) -> i64 {
    START + half_hours * HOUR / 2
}

async fn put(served: &TestServer, points: &[Point], written: &mut Written) {
    let document = points.iter().map(|(host, half_hours, value)| {
        json!({"metric": "m", "timestamp": time_of(*half_hours), "value": value,
               "tags": {"host": host_of(*host)}})
    });
    let body = Value::from(document.collect::<Vec<_>>()).to_string();
    let path = "/opentsdb/api/put";
    let answer = served.request("POST", path, &[], body.as_bytes()).await;
    assert_eq!(answer.status, 204, "{}", answer.text());
    for (host, half_hours, value) in points {
        let place = (host_of(*host).to_owned(), time_of(*half_hours));
        written.insert(place, value.to_string());
    }
}

async fn check(served: &TestServer, written: &Written, step: usize) {
    let all = ("match[]", r#"{__name__="m"}"#);
    let answer = served.get("/api/v1/export/opentsdb", &[all]).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let mut found = Written::new();
    for line in answer.text().lines() {
        let [_, time, value, tag] = line.split(' ').collect::<Vec<_>>()[..] else {
            panic!("not a point: {line}");
        };
        let host = tag.strip_prefix("host=").unwrap().to_owned();
        found.insert((host, time.parse().unwrap()), value.to_owned());
    }
    assert_eq!(&found, written, "after step {step}");
    // To Prometheus' clients forms are nothing.
    for line in served.export_once(&[all]).await {
        assert_eq!(line.get("start_timestamps"), None, "after step {step}");
    }
}

async fn run(steps: Vec<Step>) {
    let folder = TempDir::new().unwrap();
    let mut server = served(folder.path()).await;
    let mut written = Written::new();
    for (number, step) in steps.into_iter().enumerate() {
        match step {
            Step::Put(points) => put(&server, &points, &mut written).await,
            Step::Restart => {
                server.stop().await.unwrap();
                server = served(folder.path()).await;
            }
            Step::Maintain => {
                let path = "/api/v1/admin/maintenance/run";
                let report = server.request("POST", path, &[], b"").await;
                assert_eq!(report.status, 200, "{}", report.text());
            }
        }
        check(&server, &written, number).await;
    }
    server.stop().await.unwrap();
}

proptest! {
    #![proptest_config(Config {
        failure_persistence: Some(Box::new(FileFailurePersistence::Off)),
        ..Config::with_cases(5)
    })]

    #[test]
    fn numbers_are_as_they_were_written(steps in steps()) {
        Runtime::new().unwrap().block_on(run(steps));
    }
}

#[test]
fn forms_are_in_buckets_of_hours_and_in_coarse_ones() {
    let integers = |from: i64| (from..from + 8).map(|i| (true, i, json!(i)));
    let floats = |from: i64| (from..from + 8).rev().map(|i| (true, i, json!(i as f64)));
    let replaced = [(true, 2, json!(7.0)), (true, 10, json!(7))];
    let steps = vec![
        Step::Put(integers(0).chain(floats(8)).collect()),
        Step::Restart,
        Step::Maintain,
        Step::Put(floats(16).collect()),
        Step::Put(replaced.to_vec()),
        Step::Restart,
        Step::Maintain,
        Step::Restart,
    ];
    Runtime::new().unwrap().block_on(run(steps));
}
