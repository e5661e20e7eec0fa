//! Rolling up and culling in the real process: killed at each step, it loses nothing.

use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use icecore_storage::FAIL_POINT_VARIABLE;
use serde_json::Value as Json;

use crate::served::{Serve, TestServer, Workplace, check_is_clean};

const HOUR_S: i64 = 3600;
const DAY_S: i64 = 24 * HOUR_S;

/// The places where the process ends, and the how many-th time it is there: in the middle of
/// building windows, at their commits, before and after what they were made of goes, and when its
/// records are dropped.
const ENDS: [&str; 7] = [
    "coarsen.write:3",
    "coarsen.committed:2",
    "coarsen.committed:5",
    "cull.before",
    "cull.closed",
    "cull.committed",
    "retire.drained",
];

/// A run that waits for files to grow old would take most of the time of this test.
const SETTINGS: [(&str, &str); 1] = [("ICECORE_STORAGE_GC_MIN_AGE", "1s")];

fn now_s() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    now.as_secs() as i64 / HOUR_S * HOUR_S
}

/// Five days of a counter and a gauge that ended 40 days ago, and one day of yesterday.
fn samples(now_s: i64) -> String {
    let old = now_s - 45 * DAY_S..now_s - 40 * DAY_S;
    let new = now_s - 2 * DAY_S..now_s - DAY_S;
    let times: Vec<i64> = old.step_by(300).chain(new.step_by(300)).collect();
    let mut lines = String::new();
    for (name, period) in [("requests_total", 377), ("temperature", 23)] {
        let values: Vec<String> = (0..times.len()).map(|i| (i % period).to_string()).collect();
        let times: Vec<String> = times.iter().map(|time| (time * 1000).to_string()).collect();
        let (values, times) = (values.join(","), times.join(","));
        let metric = format!(r#"{{"__name__":"{name}"}}"#);
        let line = format!(r#"{{"metric":{metric},"values":[{values}],"timestamps":[{times}]}}"#);
        writeln!(lines, "{line}").unwrap();
    }
    lines
}

/// What dashboards ask, on the grid of windows.
fn answers(served: &TestServer, now_s: i64) -> Vec<Json> {
    let queries = [
        "sum_over_time(temperature[1h])",
        "max_over_time(temperature[6h])",
        "increase(requests_total[2h])",
        "count_over_time(requests_total[1d])",
        "temperature",
    ];
    let mut client = served.client();
    let ask = |query: &&str| {
        let (start, end) = (now_s - 46 * DAY_S, now_s - DAY_S);
        let form = format!("query={query}&start={start}&end={end}&step={HOUR_S}");
        let form = form.replace('[', "%5B").replace(']', "%5D");
        let answer = client.get(&format!("/api/v1/query_range?{form}")).unwrap();
        let answer: Json = serde_json::from_slice(&answer.body).unwrap();
        assert_eq!(answer["status"], "success", "{answer}");
        answer["data"]["result"].clone()
    };
    queries.iter().map(ask).collect()
}

fn serve(workplace: &Workplace, name: &str) -> Serve {
    let serve = Serve::new(workplace.path(name), workplace.path(&format!("{name}.log")));
    let settings = SETTINGS.iter();
    settings.fold(serve, |serve, (key, value)| serve.env(key, value))
}

fn run_maintenance(served: &TestServer) -> Option<Json> {
    let mut client = served.client().with_patience(Duration::from_secs(120));
    let answer = client
        .post("/api/v1/admin/maintenance/run", &[], b"")
        .ok()?;
    let answer: Json = serde_json::from_slice(&answer.body).ok()?;
    Some(answer["data"].clone())
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

#[test]
fn answers_survive_a_kill_at_each_step() {
    let workplace = Workplace::new();
    let now_s = now_s();
    let before = {
        let mut served = serve(&workplace, "data").start();
        let body = samples(now_s);
        let imported = served.client().post("/api/v1/import", &[], body.as_bytes());
        assert!(imported.unwrap().is_success());
        let before = answers(&served, now_s);
        served.terminate();
        served.wait_exit(Duration::from_secs(60));
        before
    };
    assert!(
        before
            .iter()
            .all(|answer| answer[0]["values"].as_array().is_some())
    );
    for (at, end) in ENDS.iter().enumerate() {
        let name = format!("data{at}");
        copy(&workplace.path("data"), &workplace.path(&name));
        let policy = ["--retention", "default"];
        let killed = serve(&workplace, &name).flags(policy);
        let mut killed = killed.env(FAIL_POINT_VARIABLE, end).start();
        let report = run_maintenance(&killed);
        assert!(report.is_none(), "{end} was not reached: {report:?}");
        killed.wait_exit(Duration::from_secs(60));

        let mut served = serve(&workplace, &name).flags(policy).start();
        assert_eq!(answers(&served, now_s), before, "after {end}");
        let report = run_maintenance(&served).expect("nothing ends it");
        assert_eq!(report["skipped"], Json::Array(Vec::new()), "{report}");
        assert_eq!(
            answers(&served, now_s),
            before,
            "after {end}, and all was done"
        );
        let status = served.client().get("/api/v1/status/maintenance").unwrap();
        let status: Json = serde_json::from_slice(&status.body).unwrap();
        let status = &status["data"];
        assert_eq!(
            (&status["waiting"], &status["keptBackCount"]),
            (&0.into(), &0.into())
        );
        let raw = &status["levels"][0];
        let culled_ms = raw["culledBeforeMs"]
            .as_i64()
            .expect("raw samples are culled");
        assert!(
            culled_ms <= (now_s - 21 * DAY_S) * 1000 && culled_ms > (now_s - 41 * DAY_S) * 1000
        );
        served.terminate();
        served.wait_exit(Duration::from_secs(60));
        check_is_clean(workplace.path(&name), &SETTINGS);
    }
}
