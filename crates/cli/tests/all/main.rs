//! The binary as people meet it: arguments in; output, complaints and exit code out. The modules
//! start it as a process.

#![allow(
    clippy::unwrap_used,
    reason = "everything here is a test, also what is outside of test functions"
)]

mod architecture;
mod azure;
mod clocks;
mod crash;
mod deploy;
mod events;
mod export;
mod failing_store;
mod fencing;
mod health;
mod http;
mod inspect;
mod ledger;
mod load;
mod maintenance;
mod opentsdb;
mod opentsdb_transfer;
mod otlp;
mod permissions;
mod policy;
mod process;
mod protocols;
mod query;
mod random;
mod remote_write;
mod retention;
mod s3;
mod scrape;
mod served;
mod snapshot;
mod transfer;
mod translate;
mod web;

use std::process::{Command, Output};

fn icecore(arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_icecore"))
        .args(arguments)
        .env_clear()
        .envs(environment.iter().copied())
        .output()
        .expect("the binary was built for this test")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("all output is UTF-8")
}

#[track_caller]
fn check(arguments: &[&str], code: i32, stdout: &str, stderr: &str) {
    let output = icecore(arguments, &[]);
    assert!(
        text(&output.stdout).contains(stdout),
        "{arguments:?}: {output:?}"
    );
    assert!(
        text(&output.stderr).contains(stderr),
        "{arguments:?}: {output:?}"
    );
    assert_eq!(
        output.status.code(),
        Some(code),
        "{arguments:?}: {output:?}"
    );
}

#[test]
fn help_and_version_are_answers() {
    check(
        &["--version"],
        0,
        concat!("icecore ", env!("CARGO_PKG_VERSION")),
        "",
    );
    check(&["--help"], 0, "icecore serve --config prometheus.yml", "");
    check(&["serve", "-h"], 0, "--storage <PATH_OR_URL>", "");
    check(
        &["serve", "--help"],
        0,
        "--storage.block-cache-bytes <SIZE>",
        "",
    );
    let short = icecore(&["serve", "-h"], &[]);
    let lines = text(&short.stdout).lines().count();
    assert!(lines < 50, "the short help has {lines} lines");
}

#[test]
fn wrong_usage_is_told_from_failure() {
    check(&[], 2, "", "Usage: icecore");
    check(&["sing"], 2, "", "icecore: error: unrecognized subcommand");
    check(
        &["config", "--storage.fsink", "x"],
        2,
        "",
        "--storage.fsync",
    );
    check(
        &["config", "--storage.fsync", "maybe"],
        2,
        "",
        "icecore: error: --storage.fsync: expected true or false, found \"maybe\"",
    );
    check(
        &["serve", "--config", "not/here.yml"],
        2,
        "",
        "icecore: error: cannot read the configuration file not/here.yml",
    );
}

#[test]
fn config_shows_values_and_where_they_came_from() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("prometheus.yml");
    std::fs::write(
        &file,
        "rule_files: [a.yml]\nicecore: {log: {format: json}}\n",
    )
    .unwrap();
    let output = icecore(
        &[
            "config",
            "--config",
            file.to_str().unwrap(),
            "--storage.location",
            "/data",
            "--storage.fsync=false",
            "--journal.strict-recovery",
            "--listen",
            ":80",
        ],
        &[
            ("ICECORE_STORAGE_SECRET_ACCESS_KEY", "hunter2"),
            ("ICECORE_LOG_LEVEL", "debug"),
        ],
    );
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let shown: Vec<String> = text(&output.stdout)
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    let from_file = format!("format: json # {} line 2 column 25", file.display());
    for line in [
        "location: /data # --storage",
        "fsync: false # --storage.fsync",
        "strict_recovery: true # --journal.strict-recovery",
        "listen: 0.0.0.0:80 # --listen",
        "level: debug # ICECORE_LOG_LEVEL",
        "secret_access_key: \"<secret>\" # ICECORE_STORAGE_SECRET_ACCESS_KEY",
        "block_bytes: 16KiB # default",
        from_file.as_str(),
    ] {
        assert!(
            shown.iter().any(|shown| shown == line),
            "{line} is not in {shown:#?}"
        );
    }
    assert!(!text(&output.stdout).contains("hunter2"));
    let warning = text(&output.stderr);
    let place = format!(
        "icecore: warning: rule_files is not supported, at line 1 column 1 of {}: ",
        file.display()
    );
    assert!(warning.contains(&place), "{warning}");
}

#[test]
fn a_check_lists_what_is_not_supported() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("prometheus.yml");
    std::fs::write(
        &file,
        "scrape_configs:\n- job_name: pods\n  kubernetes_sd_configs:\n  - role: pod\n",
    )
    .unwrap();
    let path = file.to_str().unwrap();
    let checked = icecore(&["config", "check", path], &[]);
    assert_eq!(checked.status.code(), Some(0), "{checked:?}");
    let shown = text(&checked.stdout);
    let expected = format!(
        "scrape_configs[0].kubernetes_sd_configs is not supported, at line 3 column 3 of {path}: \
         the job \"pods\" is left out; use http_sd_configs with the target allocator of \
         OpenTelemetry, dns_sd_configs of headless services, or file_sd_configs\n\
         {path} is valid; 1 part of it is not supported\n"
    );
    assert_eq!(shown, expected);
    let strict = icecore(&["config", "check", path, "--config.strict"], &[]);
    assert_eq!(strict.status.code(), Some(2), "{strict:?}");
    let error = text(&strict.stderr);
    assert!(
        error.starts_with("icecore: error: scrape_configs[0].kubernetes_sd_configs: is not supp"),
        "{error}"
    );
    std::fs::write(&file, "global: {}\n").unwrap();
    let checked = icecore(&["config", "check", path], &[]);
    assert_eq!(
        text(&checked.stdout),
        format!("{path} is valid, and all of it is supported\n")
    );
}
