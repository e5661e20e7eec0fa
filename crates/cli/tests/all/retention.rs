//! Rolling up and culling in the real process: killed at each step, it loses nothing.

use std::fmt::Write as _;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use icecore_storage::FAIL_POINT_VARIABLE;
use serde_json::Value as Json;

use crate::served::{PATIENCE, Serve, TestServer, Workplace, check_is_clean};

pub(crate) const HOUR_S: i64 = 3600;
pub(crate) const DAY_S: i64 = 24 * HOUR_S;

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
pub(crate) const SETTINGS: [(&str, &str); 1] = [("ICECORE_STORAGE_GC_MIN_AGE", "1s")];

pub(crate) fn now_s() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    now.as_secs() as i64 / HOUR_S * HOUR_S
}

/// Five days of a counter and a gauge that ended 40 days ago, and one day of yesterday.
pub(crate) fn samples(now_s: i64) -> String {
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
pub(crate) fn answers(served: &TestServer, now_s: i64) -> Vec<Json> {
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

pub(crate) fn serve(workplace: &Workplace, name: &str) -> Serve {
    let serve = Serve::new(workplace.path(name), workplace.path(&format!("{name}.log")));
    let settings = SETTINGS.iter();
    settings.fold(serve, |serve, (key, value)| serve.env(key, value))
}

pub(crate) fn run_maintenance(served: &TestServer) -> Option<Json> {
    let mut client = served.client();
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

/// A policy that keeps raw samples of one series for longer than those of the other, and merges
/// what comes late.
pub(crate) const LONGER: &str = "{levels: [{resolution: raw, retain: 7d}, {resolution: 5m, retain: 90d}, \
     {resolution: 1h, retain: 365d}], late_data: merge, \
     overrides: [{match: '{__name__=\"temperature\"}', raw: 60d}]}";

/// The places where the process ends when it moves series that are kept for longer, and when it
/// merges late samples: before and after each write.
const REMNANT_ENDS: [&str; 2] = ["remnant.commit", "cull.committed"];
const MERGE_ENDS: [&str; 4] = [
    "merge.write",
    "merge.written",
    "merge.write:2",
    "merge.committed",
];

/// What is checked after a kill and all that follows it.
struct Killed<'t> {
    workplace: &'t Workplace,
    /// The store that is copied for each kill.
    store: &'t str,
    policy: &'t str,
    now_s: i64,
    before: &'t [Json],
}

impl Killed<'_> {
    /// Ends the process at a place; the next one gives the same answers, before and after it has
    /// done the rest. Returns it.
    fn survives(&self, end: &str) -> TestServer {
        let name = format!("{}-{}", self.store, end.replace([':', '.'], "-"));
        copy(
            &self.workplace.path(self.store),
            &self.workplace.path(&name),
        );
        let policy = ["--retention", self.policy];
        let killed = serve(self.workplace, &name).flags(policy);
        let mut killed = killed.env(FAIL_POINT_VARIABLE, end).start();
        let report = run_maintenance(&killed);
        assert!(report.is_none(), "{end} was not reached: {report:?}");
        killed.wait_exit(PATIENCE);

        let served = serve(self.workplace, &name).flags(policy).start();
        assert_eq!(answers(&served, self.now_s), self.before, "after {end}");
        let report = run_maintenance(&served).expect("nothing ends it");
        assert_eq!(report["skipped"], Json::Array(Vec::new()), "{report}");
        let done = answers(&served, self.now_s);
        assert_eq!(done, self.before, "after {end}, and all was done");
        served
    }

    /// Ends a process, and finds nothing wrong with its store.
    fn check(&self, mut served: TestServer, end: &str) {
        let name = format!("{}-{}", self.store, end.replace([':', '.'], "-"));
        served.terminate();
        served.wait_exit(PATIENCE);
        check_is_clean(self.workplace.path(&name), &SETTINGS);
    }
}

pub(crate) fn status(served: &TestServer) -> Json {
    let status = served.client().get("/api/v1/status/maintenance").unwrap();
    let status: Json = serde_json::from_slice(&status.body).unwrap();
    status["data"].clone()
}

pub(crate) fn import(served: &TestServer, body: &str) {
    let imported = served.client().post("/api/v1/import", &[], body.as_bytes());
    assert!(imported.unwrap().is_success());
}

/// Imports what comes late of both series, among it one of an hour that had nothing.
pub(crate) fn import_late(served: &TestServer, now_s: i64) {
    let times = [now_s - 44 * DAY_S + 7, now_s - 40 * DAY_S + 11];
    let times = times.map(|time| (time * 1000).to_string()).join(",");
    for name in ["requests_total", "temperature"] {
        let metric = format!(r#"{{"__name__":"{name}"}}"#);
        let late = format!(r#"{{"metric":{metric},"values":[7,9],"timestamps":[{times}]}}"#);
        import(served, &late);
    }
}

/// A store with samples, and the answers that it gives.
fn imported(workplace: &Workplace, now_s: i64) -> Vec<Json> {
    let mut served = serve(workplace, "data").start();
    import(&served, &samples(now_s));
    let before = answers(&served, now_s);
    served.terminate();
    served.wait_exit(PATIENCE);
    let has_values = |answer: &Json| answer[0]["values"].as_array().is_some();
    assert!(before.iter().all(has_values));
    before
}

#[test]
fn answers_survive_a_kill_at_each_step() {
    let workplace = Workplace::new();
    let now_s = now_s();
    let before = imported(&workplace, now_s);
    let killed = Killed {
        workplace: &workplace,
        store: "data",
        policy: "default",
        now_s,
        before: &before,
    };
    for end in ENDS {
        let served = killed.survives(end);
        let status = status(&served);
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
        killed.check(served, end);
    }
}

/// The same where some series are kept for longer, and where late samples are merged.
#[test]
fn what_is_kept_for_longer_and_what_comes_late_survive_a_kill() {
    let workplace = Workplace::new();
    let now_s = now_s();
    let before = imported(&workplace, now_s);
    let mut killed = Killed {
        workplace: &workplace,
        store: "data",
        policy: LONGER,
        now_s,
        before: &before,
    };
    for end in REMNANT_ENDS {
        let served = killed.survives(end);
        let raw = status(&served)["levels"][0].clone();
        assert!(raw["remnants"].as_i64() > Some(0), "{raw}");
        killed.check(served, end);
    }
    let late_before = {
        let mut served = serve(&workplace, "data")
            .flags(["--retention", LONGER])
            .start();
        run_maintenance(&served).expect("nothing ends it");
        import_late(&served, now_s);
        let late = answers(&served, now_s);
        assert_ne!(late, before, "they are seen");
        served.terminate();
        served.wait_exit(PATIENCE);
        late
    };
    killed.before = &late_before;
    for end in MERGE_ENDS {
        let served = killed.survives(end);
        killed.check(served, end);
    }
}
