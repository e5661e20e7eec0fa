//! `icecore export` and `icecore import` as processes: killed in the middle, gone on with, equal.

use std::path::Path;
use std::process::Output;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::http::{Client, escape};
use crate::retention;
use crate::served::{PATIENCE, Serve, TestServer, Workplace, icecore};
use crate::text;

const ALL: &str = "{__name__=~\"moved_.+\"}";

/// Three days of thirty series, with a histogram, an exemplar and a marker of staleness.
fn lines() -> String {
    let start = 1_700_000_000_000_i64;
    let mut lines = String::new();
    for n in 0..30 {
        let times: Vec<i64> = (0..288).map(|i| start + i * 900_000).collect();
        let values: Vec<f64> = (0..288).map(|i| f64::from(i * n) / 3.0).collect();
        let metric = json!({"__name__": "moved_many", "n": n.to_string()});
        let line = json!({"metric": metric, "values": values, "timestamps": times});
        lines.push_str(&format!("{line}\n"));
    }
    lines.push_str(&format!(
        concat!(
            r#"{{"metric":{{"__name__":"moved_histogram"}},"values":["StaleNaN"],"timestamps":[{start}],"#,
            r#""histograms":[{{"timestamp":{later},"schema":0,"reset_hint":"reset","sum":1,"count":1,"zero_threshold":0,"zero_count":0,"positive_spans":[[0,1]],"positive_deltas":[1],"negative_spans":[],"negative_deltas":[]}}],"#,
            r#""exemplars":[{{"labels":{{"trace_id":"x"}},"timestamp":{later},"value":2}}]}}"#,
            "\n"
        ),
        start = start,
        later = start + 100_000_000,
    ));
    lines
}

pub(crate) fn start(workplace: &Workplace, name: &str) -> TestServer {
    let log = workplace.path(&format!("{name}.log"));
    Serve::new(workplace.path(name), log).start()
}

fn exported(served: &TestServer) -> String {
    let path = format!("/api/v1/export?match[]={}", escape(ALL));
    let response = client(served).get(&path).unwrap();
    assert!(response.is_success(), "{}", response.text());
    response.text()
}

fn client(served: &TestServer) -> Client {
    served.client()
}

fn command(served: &TestServer, arguments: &[&str]) -> std::process::Command {
    let mut command = icecore();
    let url = format!("http://{}", served.address().unwrap());
    command.args(arguments).args(["--url", &url]);
    command
}

pub(crate) fn run(served: &TestServer, arguments: &[&str]) -> Output {
    command(served, arguments).output().unwrap()
}

#[track_caller]
pub(crate) fn succeeds(served: &TestServer, arguments: &[&str]) {
    let output = run(served, arguments);
    assert!(
        output.status.success(),
        "{arguments:?}: {}",
        text(&output.stderr)
    );
}

/// Runs a command and kills it when a file is there. It may have ended before, which is as good.
pub(crate) fn killed_when(served: &TestServer, arguments: &[&str], file: &Path) {
    let mut command = command(served, arguments);
    let mut child = command.stderr(std::process::Stdio::null()).spawn().unwrap();
    let deadline = Instant::now() + PATIENCE;
    while !file.exists() && child.try_wait().unwrap().is_none() {
        assert!(Instant::now() < deadline, "{arguments:?} does nothing");
        std::thread::sleep(Duration::from_millis(1));
    }
    let _ = child.kill();
    child.wait().unwrap();
}

#[test]
fn what_is_killed_in_the_middle_is_gone_on_with() {
    let workplace = Workplace::new();
    let source = start(&workplace, "source");
    let input = workplace.path("input.json");
    std::fs::write(&input, lines()).unwrap();
    succeeds(&source, &["import", input.to_str().unwrap()]);
    let expected = exported(&source);
    assert_eq!(expected.lines().count(), 31);
    for (format, name) in [
        ("native", "out.native"),
        ("json", "out.json.gz"),
        ("json", "out.json.zst"),
    ] {
        let file = workplace.path(name);
        let path = file.to_str().unwrap();
        let state = workplace.path(&format!("{name}.state"));
        let export = [
            "export",
            "-o",
            path,
            "--match",
            ALL,
            "--format",
            format,
            "--slice",
            "1h",
            "--end",
            "2023-11-18T00:00:00Z",
        ];
        killed_when(&source, &export, &state);
        succeeds(&source, &[&export[..], &["--resume"]].concat());
        assert!(file.exists() && !state.exists());
        let target = start(&workplace, &format!("{name}.data"));
        let progress = workplace.path(&format!("{name}.progress"));
        let import = ["import", path, "--chunk-bytes", "5000"];
        killed_when(&target, &import, &progress);
        succeeds(&target, &[&import[..], &["--resume"]].concat());
        assert!(!progress.exists());
        // Lines of slices were united by the store.
        assert_eq!(exported(&target), expected, "{name}");
    }
}

/// How many requests of a route were answered.
fn answered(served: &TestServer, route: &str) -> u64 {
    let metrics = client(served).get("/metrics").unwrap().text();
    let line = format!("icecore_http_requests_total{{route=\"{route}\",code=\"200\"}} ");
    let value = metrics.lines().find_map(|text| text.strip_prefix(&line));
    value.map_or(0, |value| value.parse().unwrap())
}

#[test]
fn years_without_data_cost_nothing() {
    let workplace = Workplace::new();
    let served = start(&workplace, "data");
    let input = workplace.path("input.txt");
    // 2005, two days in 2015, and 2023.
    let times = [
        1_120_000_000_000_i64,
        1_430_000_000_000,
        1_430_090_000_000,
        1_700_000_000_000,
    ];
    let lines = times.map(|time| format!("moved_seldom {time} {time}\n"));
    std::fs::write(&input, lines.concat()).unwrap();
    succeeds(&served, &["import", input.to_str().unwrap()]);
    for (name, format, since, slice) in [
        ("all.json", "json", None, "1d"),
        ("all.native", "native", None, "1d"),
        ("hours.native", "native", Some("1990-01-01T00:00:00Z"), "1h"),
    ] {
        let (slices, questions) = (
            answered(&served, "/api/v1/export"),
            answered(&served, "/api/v1/series"),
        );
        let file = workplace.path(name);
        let path = file.to_str().unwrap();
        let mut export = vec!["export", "-o", path, "--match", ALL, "--format", format];
        export.extend(["--slice", slice]);
        export.extend(since.iter().flat_map(|since| ["--start", since]));
        succeeds(&served, &export);
        let slices = answered(&served, "/api/v1/export") - slices;
        let questions = answered(&served, "/api/v1/series") - questions;
        // Four with data, and an empty one in front of each gap.
        assert!(slices <= 12, "{name}: {slices} slices");
        assert!(questions <= 160, "{name}: {questions} questions");
        let target = start(&workplace, &format!("{name}.data"));
        succeeds(&target, &["import", path]);
        assert_eq!(exported(&target), exported(&served), "{name}");
    }
}

#[test]
fn standard_streams_text_and_what_goes_wrong() {
    let workplace = Workplace::new();
    let served = start(&workplace, "data");
    let file = workplace.path("metrics.txt");
    let path = file.to_str().unwrap();
    std::fs::write(
        &file,
        "moved_text{a=\"b\"} 1 1700000000000\nmoved_text{a=\"b\"} 2 1700000015000\n",
    )
    .unwrap();
    succeeds(&served, &["import", path, "--extra-label", "job=j"]);
    let output = run(
        &served,
        &["export", "-o", "-", "--format", "json", "--match", ALL],
    );
    assert_eq!(
        text(&output.stdout),
        "{\"metric\":{\"__name__\":\"moved_text\",\"a\":\"b\",\"job\":\"j\"},\"values\":[1,2],\"timestamps\":[1700000000000,1700000015000]}\n"
    );
    std::fs::write(&file, "moved_text 1 1\n\n\nmoved_text{ 1 1\n").unwrap();
    let output = run(&served, &["import", path, "--chunk-bytes", "5"]);
    assert_eq!(output.status.code(), Some(1));
    let error = text(&output.stderr);
    assert!(error.contains("line 4: "), "{error}");
    // What cures it is named, and a state only where there is one.
    assert!(
        error.contains("; --skip-errors passes over what"),
        "{error}"
    );
    assert!(!error.contains("--resume"), "{error}");
    let good: String = (0..20_000).map(|i| format!("moved_text 1 {i}\n")).collect();
    std::fs::write(&file, format!("{good}moved_text{{ 1 1\n")).unwrap();
    let output = run(&served, &["import", path, "--chunk-bytes", "1000"]);
    assert_eq!(output.status.code(), Some(1));
    let error = text(&output.stderr);
    assert!(error.contains("line 20001: "), "{error}");
    assert!(
        error.contains("; --skip-errors passes over what"),
        "{error}"
    );
    assert!(
        error.contains("; --resume continues it (state in "),
        "{error}"
    );
    succeeds(&served, &["import", path, "--skip-errors"]);
    // Samples that the server refuses have an exit code of their own.
    std::fs::write(&file, "moved_text 1 1\nmoved_text 1 9000000000000\n").unwrap();
    let output = run(&served, &["import", path]);
    let report = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{report}");
    assert!(
        report.contains("icecore: warning: 1 not stored: "),
        "{report}"
    );
    assert!(
        report.contains("1 samples or lines were not stored"),
        "{report}"
    );
    succeeds(&served, &["import", path, "--skip-errors"]);
    std::fs::write(&file, "# HELP moved_text Help.\n").unwrap();
    let output = run(&served, &["import", path]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let line = r#"{"metric":{"__name__":"moved_text"},"value":[1,"2"]}"#;
    std::fs::write(&file, format!("{line}\n")).unwrap();
    let output = run(&served, &["import", path]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(
        text(&output.stderr).contains("line 1: no samples"),
        "{output:?}"
    );
    let output = run(&served, &["import", "not/here"]);
    assert_eq!(output.status.code(), Some(1));
    let output = run(&served, &["export", "-o", "-", "--match", "{"]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    let output = run(&served, &["import", "-", "--resume"]);
    assert_eq!(output.status.code(), Some(2));
    let token = workplace.path("token");
    std::fs::write(&token, " secret\n").unwrap();
    // Where nobody asks for a credential, one does no harm.
    succeeds(
        &served,
        &["query", "labels", "--token-file", token.to_str().unwrap()],
    );
}

/// Of rolled-up time a file has what is left, and whoever made it is told.
#[test]
fn an_export_says_which_time_was_rolled_up() {
    let workplace = Workplace::new();
    let now_s = retention::now_s();
    let served = retention::serve(&workplace, "data")
        .flags(["--retention", "default"])
        .start();
    retention::import(&served, &retention::samples(now_s));
    let file = workplace.path("all.native");
    let export = [
        "export",
        "-o",
        file.to_str().unwrap(),
        "--match",
        "temperature",
    ];
    let before = run(&served, &export);
    assert!(before.status.success(), "{before:?}");
    assert!(!text(&before.stderr).contains("rolled-up"), "{before:?}");
    retention::run_maintenance(&served).expect("it runs");
    let output = run(&served, &export);
    assert!(output.status.success(), "{output:?}");
    let told = "icecore: note: only the first and last samples of windows are left of rolled-up \
                time: 5m from ";
    assert!(text(&output.stderr).contains(told), "{output:?}");
}
