//! `icecore snapshot` and `icecore restore`: a snapshot becomes a database of its own, and the
//! original may go.

use std::path::Path;
use std::process::Output;

use serde_json::Value as Json;

use crate::http::escape;
use crate::ledger::Value;
use crate::remote_write::{HEADERS, SentSeries, encode};
use crate::retention::{self, LONGER, SETTINGS, answers, run_maintenance};
use crate::served::{PATIENCE, Serve, TestServer, Workplace, check_is_clean};
use crate::{icecore, text};

const T0: i64 = 1_699_948_800_000;
const HOUR_MS: i64 = 3_600_000;

fn write(served: &TestServer, hours: std::ops::Range<i64>, series: i64) {
    let samples: Vec<(i64, Value)> = hours
        .flat_map(|hour| (0..4).map(move |i| T0 + hour * HOUR_MS + i * 15_000))
        .map(|time| (time, Value::Float((time as f64 / 7.0).to_bits())))
        .collect();
    let labels = |n: i64| vec![("__name__".into(), "m".into()), ("n".into(), n.to_string())];
    let labels: Vec<Vec<(String, String)>> = (0..series).map(labels).collect();
    let sent = labels.iter().map(|labels| SentSeries {
        labels,
        samples: &samples,
        exemplars: &[],
    });
    let answer = served
        .client()
        .post("/api/v1/write", HEADERS, &encode(sent));
    assert_eq!(answer.expect("an answer").status, 204);
}

/// The bytes of an export of everything.
fn export(served: &TestServer) -> Vec<u8> {
    let path = format!("/api/v1/export?match[]={}", escape("{__name__=\"m\"}"));
    let answer = served.client().get(&path).expect("an answer");
    assert!(answer.is_success(), "{}", answer.text());
    answer.body
}

fn post(served: &TestServer, path: &str) {
    let answer = served.client().post(path, &[], b"").expect("an answer");
    assert!(answer.is_success(), "{path}: {}", answer.text());
}

fn snapshot(served: &TestServer, arguments: &[&str]) -> Output {
    let url = format!("http://{}", served.address().expect("it listens"));
    icecore(
        &[&["snapshot"], arguments, &["--server", &url]].concat(),
        &[],
    )
}

fn restore(from: &Path, name: &str, to: &Path) -> Output {
    let (from, to) = (from.to_str().unwrap(), to.to_str().unwrap());
    icecore(
        &["restore", "--from", from, "--snapshot", name, "--to", to],
        &[],
    )
}

#[track_caller]
fn stdout(output: &Output) -> &str {
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    text(&output.stdout)
}

#[track_caller]
fn fails(output: &Output, word: &str) {
    assert_ne!(output.status.code(), Some(0), "{output:?}");
    assert!(text(&output.stderr).contains(word), "{word}: {output:?}");
}

#[test]
fn a_restored_snapshot_is_the_original_byte_for_byte() {
    let workplace = Workplace::new();
    let (data, copy) = (workplace.path("data"), workplace.path("copy"));
    let mut served = Serve::new(&data, workplace.path("log-1")).start();
    write(&served, 0..5, 30);
    post(&served, "/-/flush");
    // Over stored samples, and only in the journal.
    write(&served, 4..6, 40);
    let before = export(&served);
    assert_eq!(
        stdout(&snapshot(&served, &["create", "nightly"])),
        "nightly\n"
    );
    let made = snapshot(&served, &["create", "--ttl", "1h", "--json"]);
    let made: Json = serde_json::from_str(stdout(&made)).unwrap();
    let name = made["name"].as_str().unwrap();

    // What the snapshot needs is replaced in every way there is.
    let doomed = escape("{n=~\"1.*\"}");
    post(
        &served,
        &format!("/api/v1/admin/tsdb/delete_series?match[]={doomed}"),
    );
    post(&served, "/api/v1/admin/maintenance/run");
    assert_ne!(export(&served), before);
    let listed = snapshot(&served, &["list"]);
    for word in ["nightly", "never", name] {
        assert!(stdout(&listed).contains(word), "{listed:?}");
    }
    fails(&snapshot(&served, &["create", "nightly"]), "already");
    assert_eq!(stdout(&snapshot(&served, &["delete", name])), "");
    fails(&snapshot(&served, &["delete", name]), "no snapshot");

    // Beside the running server.
    fails(&restore(&data, "weekly", &copy), "there are nightly");
    fails(&restore(&data, "nightly", &data), "not empty");
    let restored = restore(&data, "nightly", &copy);
    assert!(
        stdout(&restored).contains("Restored nightly"),
        "{restored:?}"
    );
    fails(&restore(&data, "nightly", &copy), "not empty");

    served.terminate();
    assert!(served.wait_exit(PATIENCE).success(), "{}", served.log());
    std::fs::remove_dir_all(&data).unwrap();
    check_is_clean(&copy, &[]);
    let mut served = Serve::new(&copy, workplace.path("log-2")).start();
    assert!(export(&served) == before, "the exports differ");
    write(&served, 0..7, 3);
    post(&served, "/-/flush");
    served.terminate();
    assert!(served.wait_exit(PATIENCE).success(), "{}", served.log());
    check_is_clean(&copy, &[]);
}

/// Samples that have grown old: windows at two levels, raw samples of a series that is kept for
/// longer, and late ones that are not merged yet.
#[test]
fn a_restored_snapshot_has_all_levels_and_goes_on() {
    let workplace = Workplace::new();
    let now_s = retention::now_s();
    let start = |name: &str| {
        let serve = retention::serve(&workplace, name);
        serve.flags(["--retention", LONGER]).start()
    };
    let mut served = start("data");
    retention::import(&served, &retention::samples(now_s));
    run_maintenance(&served).expect("it runs");
    retention::import_late(&served, now_s);
    post(&served, "/-/flush");
    let before = answers(&served, now_s);
    let exported = export_named(&served);
    assert_eq!(stdout(&snapshot(&served, &["create", "old"])), "old\n");
    // Nothing of what the snapshot has is left of the original.
    let all = escape("{__name__!=\"\"}");
    let path = format!("/api/v1/admin/tsdb/delete_series?match[]={all}");
    post(&served, &path);
    run_maintenance(&served).expect("it runs");
    assert_ne!(answers(&served, now_s), before);
    let (data, copy) = (workplace.path("data"), workplace.path("copy"));
    let restored = restore(&data, "old", &copy);
    assert!(stdout(&restored).contains("Restored old"), "{restored:?}");
    served.terminate();
    assert!(served.wait_exit(PATIENCE).success(), "{}", served.log());
    std::fs::remove_dir_all(&data).unwrap();

    check_is_clean(&copy, &SETTINGS);
    let mut served = start("copy");
    assert_eq!(answers(&served, now_s), before);
    assert!(export_named(&served) == exported, "the exports differ");
    let raw = retention::status(&served)["levels"][0].clone();
    assert!(raw["remnants"].as_i64() > Some(0), "{raw}");
    let report = run_maintenance(&served).expect("it runs");
    assert!(report["merged"].as_i64() > Some(0), "{report}");
    assert_eq!(report["skipped"], Json::Array(Vec::new()), "{report}");
    assert_eq!(answers(&served, now_s), before);
    served.terminate();
    assert!(served.wait_exit(PATIENCE).success(), "{}", served.log());
    check_is_clean(&copy, &SETTINGS);
}

/// The bytes of an export of both series.
fn export_named(served: &TestServer) -> Vec<u8> {
    let all = escape("{__name__=~\"requests_total|temperature\"}");
    let answer = served
        .client()
        .get(&format!("/api/v1/export?match[]={all}"));
    let answer = answer.expect("an answer");
    assert!(answer.is_success(), "{}", answer.text());
    answer.body
}
