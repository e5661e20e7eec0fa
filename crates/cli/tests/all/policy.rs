//! `icecore policy`, and what a server says and does about a retention policy.

use std::path::Path;
use std::process::Output;

use serde_json::{Value as Json, json};

use crate::served::{Serve, TestServer, Workplace};
use crate::{icecore, text};

const POLICY: &str = r#"levels:
  - {resolution: raw, retain: 21d}
  - {resolution: 5m, retain: 90d}
  - {resolution: 1h, retain: inf}
overrides:
  - {match: '{__name__=~"debug_.*"}', raw: 3d, 5m: 0, 1h: 0}
"#;

const TABLE: &str = r#"series                  level  kept for  columns
{__name__=~"debug_.*"}  raw    3d
                        5m     not kept
                        1h     not kept
all others              raw    21d
                        5m     90d       lean
                        1h     forever   full

Buckets are rolled up 2h after their last hour has closed. Late samples of hours whose raw samples are gone are refused.
"#;

const NO_POLICY: &str = "No retention policy: nothing is rolled up or deleted.\n";

fn in_configuration(policy: &str) -> String {
    let indented: String = policy.lines().map(|line| format!("    {line}\n")).collect();
    format!("icecore:\n  retention:\n{indented}")
}

fn policy(arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    icecore(&[&["policy"], arguments].concat(), environment)
}

fn write(path: &Path, content: &str) -> String {
    std::fs::write(path, content).unwrap();
    path.to_str().unwrap().to_owned()
}

#[track_caller]
fn check_printed(output: &Output, code: i32, stdout: &str, stderr: &str) {
    assert_eq!(text(&output.stdout), stdout, "{output:?}");
    assert_eq!(text(&output.stderr), stderr, "{output:?}");
    assert_eq!(output.status.code(), Some(code), "{output:?}");
}

#[test]
fn a_policy_is_checked_alone_and_in_a_configuration() {
    let workplace = Workplace::new();
    let alone = write(&workplace.path("policy.yml"), POLICY);
    let within = write(&workplace.path("icecore.yml"), &in_configuration(POLICY));
    let without = write(&workplace.path("prometheus.yml"), "global: {}\n");
    check_printed(&policy(&["check", &alone], &[]), 0, TABLE, "");
    check_printed(&policy(&["check", &within], &[]), 0, TABLE, "");
    check_printed(&policy(&["check", &without], &[]), 0, NO_POLICY, "");
    let output = policy(&["check", "--json", &alone], &[]);
    let found: Json = serde_json::from_str(text(&output.stdout)).unwrap();
    assert_eq!(found["policy"]["levels"][2]["retain"], "inf");
    assert_eq!(found["policy"]["overrides"][0]["levels"][1]["retainMs"], 0);
}

#[test]
fn problems_have_a_place() {
    let workplace = Workplace::new();
    let wrong = POLICY.replace("retain: 90d", "retain: 9d, column: 5");
    let file = write(&workplace.path("policy.yml"), &wrong);
    let problems = format!(
        "{file}:3:30: levels[1].retain: must not be shorter than raw is kept, which is 21d\n\
         {file}:3:34: levels[1].column: unknown key; did you mean columns?\n"
    );
    let failed = format!("icecore: error: 2 problems in {file}\n");
    check_printed(&policy(&["check", &file], &[]), 1, &problems, &failed);

    let file = write(&workplace.path("icecore.yml"), &in_configuration(&wrong));
    let output = policy(&["check", &file], &[]);
    let first = format!("{file}:5:34: icecore.retention.levels[1].retain: must not be shorter");
    assert!(text(&output.stdout).starts_with(&first), "{output:?}");
    assert_eq!(output.status.code(), Some(1));
    // A server does not start with it.
    let output = icecore(&["serve", "--config", &file], &[]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(text(&output.stderr).contains("at line 5 column 34 of"));

    let output = policy(&["check", "not/here.yml"], &[]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(text(&output.stderr).contains("not/here.yml"), "{output:?}");
    let file = write(&workplace.path("no.yml"), "levels: [");
    let output = policy(&["check", &file], &[]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(
        text(&output.stdout).starts_with(&format!("{file}:2:1: ")),
        "{output:?}"
    );
}

#[test]
fn a_file_is_shown_as_a_server_would_use_it() {
    let workplace = Workplace::new();
    let file = write(&workplace.path("icecore.yml"), &in_configuration(POLICY));
    let arguments = ["show", "--config", &file];
    check_printed(&policy(&arguments, &[]), 0, TABLE, "");
    let none = [("ICECORE_RETENTION", "none")];
    check_printed(&policy(&arguments, &none), 0, NO_POLICY, "");
    let wrong = [("ICECORE_RETENTION", "long")];
    let output = policy(&arguments, &wrong);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let said = "icecore: error: ICECORE_RETENTION: expected none, default, a time such as 90d";
    assert!(text(&output.stderr).starts_with(said), "{output:?}");
    let both = policy(&["show", "--config", &file, "--server", "http://x"], &[]);
    assert_eq!(both.status.code(), Some(2), "{both:?}");
}

fn status(served: &TestServer) -> Json {
    let answer = served.client().get("/api/v1/status/retention").unwrap();
    let answer: Json = serde_json::from_slice(&answer.body).unwrap();
    answer["data"].clone()
}

fn shown(served: &TestServer, flags: &[&str]) -> Output {
    let url = format!("http://{}", served.address().expect("it listens"));
    policy(&[&["show", "--server", &url], flags].concat(), &[])
}

fn reload(served: &TestServer) -> (u16, String) {
    let answer = served.client().post("/-/reload", &[], b"").unwrap();
    (answer.status, answer.text())
}

#[test]
fn a_server_without_a_policy_says_so_and_takes_one_over_by_a_reload() {
    let workplace = Workplace::new();
    let path = workplace.path("icecore.yml");
    let file = write(&path, "");
    let serve = Serve::new(workplace.path("data"), workplace.path("log"));
    let served = serve.flags(["--config", &file]).start();
    let first_lines: Vec<String> = served.log().lines().take(5).map(str::to_owned).collect();
    let said =
        "  keep   everything: without a policy (--retention) nothing is rolled up or deleted";
    assert!(
        first_lines.iter().any(|line| line == said),
        "{first_lines:?}"
    );
    assert_eq!(status(&served), json!({"policy": null}));
    check_printed(&shown(&served, &[]), 0, NO_POLICY, "");

    write(&path, &in_configuration(POLICY));
    let applied = (200, "Reloaded.\napplied: retention\n".to_owned());
    assert_eq!(reload(&served), applied);
    check_printed(&shown(&served, &[]), 0, TABLE, "");
    assert!(
        served.log().contains("raw 21d, 5m 90d, 1h inf, 1 override"),
        "{}",
        served.log()
    );

    // A wrong policy changes nothing.
    let wrong = POLICY.replace("retain: 90d", "retain: 9d");
    write(&path, &in_configuration(&wrong));
    let (code, reason) = reload(&served);
    assert_eq!(code, 500, "{reason}");
    assert!(reason.contains("retention.levels[1].retain"), "{reason}");
    check_printed(&shown(&served, &[]), 0, TABLE, "");
    let output = shown(&served, &["--json"]);
    let json: Json = serde_json::from_str(text(&output.stdout)).unwrap();
    assert_eq!(json, status(&served));
    let config = served.client().get("/api/v1/status/config").unwrap().text();
    assert!(config.contains("resolution: 5m\\n"), "{config}");
}

#[test]
fn a_flag_is_a_short_form() {
    let workplace = Workplace::new();
    for (flag, line, table) in [
        (
            "default",
            "  keep   raw 21d, 5m 90d, 1h 365d",
            "series  level  kept for  columns\nall     raw    21d\n        5m     90d       lean\n        1h     365d      full\n",
        ),
        (
            "90d",
            "  keep   raw 90d",
            "series  level  kept for  columns\nall     raw    90d\n",
        ),
    ] {
        let serve = Serve::new(workplace.path(flag), workplace.path("log"));
        let served = serve.flags(["--retention", flag]).start();
        let log = served.log();
        assert!(log.lines().any(|said| said == line), "{log}");
        let output = shown(&served, &[]);
        assert!(text(&output.stdout).starts_with(table), "{output:?}");
        let info = served.client().get("/api/v1/status/runtimeinfo").unwrap();
        let info: Json = serde_json::from_slice(&info.body).unwrap();
        assert_eq!(
            info["data"]["storageRetention"],
            line.trim_start_matches("  keep   ")
        );
        let flags = served.client().get("/api/v1/status/flags").unwrap();
        let flags: Json = serde_json::from_slice(&flags.body).unwrap();
        assert_eq!(flags["data"]["retention"], flag);
    }
    let output = icecore(&["serve", "--retention", "90m"], &[]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let said = "icecore: error: --retention: expected a whole number of hours, found \"90m\"";
    assert!(text(&output.stderr).starts_with(said), "{output:?}");
}
