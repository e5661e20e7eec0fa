//! `icecore maintenance`, of a running server and of a stopped database.

use std::path::Path;
use std::process::Output;

use icecore_server::CLOCK_VARIABLE;
use serde_json::Value as Json;

use crate::ledger::Value;
use crate::remote_write::{HEADERS, SentSeries, encode};
use crate::served::{Serve, TestServer, Workplace, check_is_clean};
use crate::{icecore, text};

/// The beginning of an hour that is a multiple of sixteen hours.
const T0: i64 = 1_699_948_800_000;

const HOUR_MS: i64 = 3_600_000;

/// Of older samples coarse buckets are made at once.
const NOW_MS: &str = "1700020800000";

fn start(workplace: &Workplace) -> TestServer {
    let serve = Serve::new(workplace.path("data"), workplace.path("log"));
    serve.env(CLOCK_VARIABLE, NOW_MS).start()
}

/// Writes six hours of one series.
fn write(served: &TestServer) {
    let labels = [("__name__".into(), "up".into())];
    let sample = |i: i64| (T0 + i * HOUR_MS / 4, Value::Float((i as f64).to_bits()));
    let samples: Vec<(i64, Value)> = (0..24).map(sample).collect();
    let sent = SentSeries {
        labels: &labels,
        samples: &samples,
        exemplars: &[],
    };
    let answer = served
        .client()
        .post("/api/v1/write", HEADERS, &encode([sent].into_iter()));
    assert_eq!(answer.expect("an answer").status, 204);
}

fn of_server(served: &TestServer, arguments: &[&str]) -> Output {
    let url = format!("http://{}", served.address().expect("it listens"));
    icecore(
        &[&["maintenance"], arguments, &["--server", &url]].concat(),
        &[],
    )
}

fn of_stopped(directory: &Path, arguments: &[&str]) -> Output {
    let storage = ["--storage", directory.to_str().expect("UTF-8")];
    let now = [(CLOCK_VARIABLE, NOW_MS)];
    icecore(&[&["maintenance"], arguments, &storage].concat(), &now)
}

#[track_caller]
fn stdout(output: &Output) -> &str {
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    text(&output.stdout)
}

#[track_caller]
fn json(output: &Output) -> Json {
    serde_json::from_str(stdout(output)).expect("one JSON object")
}

#[track_caller]
fn fails(output: &Output, code: i32, words: &[&str]) {
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    assert!(output.stdout.is_empty(), "{output:?}");
    for word in words {
        assert!(text(&output.stderr).contains(word), "{word}: {output:?}");
    }
}

#[test]
fn a_server_is_asked() {
    let workplace = Workplace::new();
    let served = start(&workplace);
    let status = of_server(&served, &["status"]);
    for row in ["coarsening", "running", "waiting", "buckets", "retired"] {
        assert!(stdout(&status).contains(row), "{row} in {status:?}");
    }
    let idle = of_server(&served, &["run"]);
    assert!(
        stdout(&idle).contains("Nothing was left to do."),
        "{idle:?}"
    );

    write(&served);
    let report = json(&of_server(&served, &["run", "--json"]));
    assert_ne!(report["coarsened"], 0, "{report}");
    let status = json(&of_server(&served, &["status", "--json"]));
    assert_eq!(status["enabled"], true, "{status}");
    assert_eq!(status["waiting"], 0, "{status}");
    let all = serde_json::json!([{"hours": 16, "count": 1}]);
    assert_eq!(status["buckets"], all, "{status}");
    let status = of_server(&served, &["status"]);
    assert!(stdout(&status).contains("1 of 16 h"), "{status:?}");
}

#[test]
fn a_stopped_database_is_worked_on() {
    let workplace = Workplace::new();
    let data = workplace.path("data");
    {
        let mut served = start(&workplace);
        write(&served);
        // What is only in the journal counts, too.
        served.kill();
    }
    let report = of_stopped(&data, &["run"]);
    assert!(stdout(&report).contains("Coarsened: "), "{report:?}");
    let again = of_stopped(&data, &["run"]);
    assert!(
        stdout(&again).contains("Nothing was left to do."),
        "{again:?}"
    );
    let status = of_stopped(&data, &["status"]);
    for part in ["only when a run is asked for", "1 of 16 h"] {
        assert!(stdout(&status).contains(part), "{part} in {status:?}");
    }
    check_is_clean(&data, &[]);

    let served = start(&workplace);
    let url = format!("http://{}", served.address().expect("it listens"));
    let at = (T0 / 1000 + 6 * 3600).to_string();
    let query = ["query", "instant", "sum_over_time(up[6h])", "--time", &at];
    let counted = icecore(&[&query[..], &["--server", &url]].concat(), &[]);
    // All but the first, which lies outside of the window: 1 + 2 + … + 23.
    assert!(stdout(&counted).contains("276"), "{counted:?}");
}

#[test]
fn complaints_name_cause_and_cure() {
    let workplace = Workplace::new();
    let nothing = workplace.path("nothing");
    let empty = workplace.path("empty");
    std::fs::create_dir(&empty).unwrap();
    for what in ["status", "run"] {
        fails(
            &of_stopped(&nothing, &[what]),
            1,
            &["icecore: error: cannot open", nothing.to_str().unwrap()],
        );
        assert!(!nothing.exists());
        fails(
            &of_stopped(&empty, &[what]),
            1,
            &["icecore: error: ", "there is no database"],
        );
        assert_eq!(std::fs::read_dir(&empty).unwrap().count(), 0);
        let nowhere = ["maintenance", what, "--server", "http://127.0.0.1:1"];
        fails(
            &icecore(&nowhere, &[]),
            1,
            &["cannot connect to http://127.0.0.1:1", "--server"],
        );
        let both = ["--server", "http://127.0.0.1:1"];
        fails(
            &of_stopped(&nothing, &[&[what], &both[..]].concat()),
            2,
            &["cannot be used with"],
        );
        let alone = ["maintenance", what, "--storage.compression", "zstd"];
        fails(&icecore(&alone, &[]), 2, &["--storage <PATH_OR_URL>"]);
    }
    fails(&icecore(&["maintenance"], &[]), 2, &["status", "run"]);
}
