//! `icecore inspect` and `icecore check`: what they print, as text and JSON, and how they end.

use std::path::Path;
use std::sync::Arc;

use icecore_model::{RawLabels, Sample, SampleSink, push_raw_label};
use icecore_storage::{Database, Environment, ManualClock, Options};
use serde_json::Value;

use crate::{icecore, text};

const T0: i64 = 1_700_000_000_000;

/// One series with two samples in a bucket, closed.
fn make_database(directory: &Path) {
    let mut options = Options::default();
    options.store.location = directory.to_string_lossy().into();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        // Of older samples a coarse bucket would be made.
        let environment = Environment {
            clock: Some(Arc::new(ManualClock::at(T0 + 60_000))),
            ..Environment::default()
        };
        let db = Database::open(options, environment).await.unwrap();
        db.write(|batch| {
            let mut labels = Vec::new();
            push_raw_label(&mut labels, "__name__", "up");
            push_raw_label(&mut labels, "job", "api");
            batch.series(RawLabels(&labels));
            for timestamp_ms in [T0, T0 + 15_000] {
                batch.sample(Sample {
                    timestamp_ms,
                    value: 1.5,
                    start_timestamp_ms: 0,
                });
            }
            Ok::<(), ()>(())
        })
        .await
        .unwrap();
        db.close().await.unwrap();
    });
}

struct Looked {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

fn look(directory: &Path, arguments: &[&str]) -> Looked {
    let storage = ["--storage", directory.to_str().unwrap()];
    let output = icecore(&[arguments, &storage].concat(), &[]);
    Looked {
        code: output.status.code(),
        stdout: text(&output.stdout).to_owned(),
        stderr: text(&output.stderr).to_owned(),
    }
}

#[track_caller]
fn shows(directory: &Path, arguments: &[&str], expected: &[&str]) {
    let Looked {
        code,
        stdout,
        stderr,
    } = look(directory, arguments);
    assert_eq!(code, Some(0), "{arguments:?}: {stderr}");
    for part in expected {
        assert!(stdout.contains(part), "{part:?} is not in\n{stdout}");
    }
}

fn json(directory: &Path, arguments: &[&str]) -> Value {
    let looked = look(directory, arguments);
    serde_json::from_str(&looked.stdout).expect("one JSON object")
}

#[test]
fn people_and_programs_can_look() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    make_database(at);
    let bucket = "1h@28333320";
    shows(
        at,
        &["inspect"],
        &["Buckets: 1", bucket, "2023-11-14T22:00:00Z"],
    );
    shows(
        at,
        &["inspect", "stats"],
        &["1 series, 2 samples", "up", "job"],
    );
    let forward = [
        "inspect",
        "records",
        "--type",
        "forwardindex",
        "--bucket",
        bucket,
    ];
    shows(
        at,
        &forward,
        &["013101b0550800000000", r#"labels=up{job="api"}"#],
    );
    let samples = ["inspect", "records", "--prefix", "0151", "-v", "--hex"];
    shows(
        at,
        &samples,
        &[
            "samples=2",
            "first=2023-11-14T22:13:20Z",
            "1700000015000 1.5",
            "value 02",
        ],
    );
    shows(
        at,
        &["check"],
        &["1 buckets", "2 float samples", "No problems."],
    );

    assert_eq!(
        json(at, &["inspect", "-o", "json"])["buckets"][0]["floatSamples"],
        2
    );
    assert_eq!(
        json(at, &["inspect", "stats", "-o", "json"])["metrics"][0]["name"],
        "up"
    );
    let record = json(
        at,
        &["inspect", "records", "--type", "TimeSeries", "-o", "json"],
    );
    assert_eq!(record["facts"]["samples"], 2);
    let report = json(at, &["check", "--json"]);
    assert_eq!(
        (&report["clean"], &report["counts"]["series"]),
        (&Value::Bool(true), &1.into())
    );
}

#[test]
fn exit_codes_tell_problems_from_wrong_usage() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let missing = look(at, &["check"]);
    assert_eq!(missing.code, Some(1), "{}", missing.stderr);
    assert!(
        missing.stderr.contains("there is no database"),
        "{}",
        missing.stderr
    );
    make_database(at);
    for wrong in [
        &["inspect", "buckets", "--hex"][..],
        &["inspect", "records", "--start", "0"],
        &["inspect", "stats", "--type", "Journal"],
        &["inspect", "records", "--type", "Nothing"],
        &["inspect", "records", "--prefix", "0"],
        &["inspect", "stats", "--end", "soon"],
        &["check", "--what"],
    ] {
        let looked = look(at, wrong);
        assert_eq!(looked.code, Some(2), "{wrong:?}: {}", looked.stderr);
    }
    for file in std::fs::read_dir(at.join("db/compacted")).unwrap() {
        std::fs::remove_file(file.unwrap().path()).unwrap();
    }
    let damaged = look(at, &["check"]);
    assert_eq!(damaged.code, Some(1), "{}", damaged.stderr);
    assert!(
        damaged.stdout.contains("Problem (store)"),
        "{}",
        damaged.stdout
    );
    assert!(
        damaged.stderr.contains("icecore: error: "),
        "{}",
        damaged.stderr
    );
    assert_eq!(json(at, &["check", "--json"])["clean"], false);
}
