//! The process dies inside a deletion, or while what was deleted is removed.
//!
//! ```text
//! start, armed ─► write ─► delete series ─► delete a range ─► clean ─► dies somewhere in between
//!    ─► icecore check ─► start: what was answered holds ─► the same again
//!    ─► comes back when it is written again
//! ```

use std::os::unix::process::ExitStatusExt as _;

use icecore_server::CLOCK_VARIABLE;

use super::SIGABRT;
use crate::export::select;
use crate::http::escape;
use crate::ledger::{Found, LabelSet, Samples, Value};
use crate::remote_write::{HEADERS, SentSeries, encode};
use crate::served::{PATIENCE, Serve, TestServer, Workplace, check_is_clean};

const T0: i64 = 1_699_948_800_000;
const HOUR_MS: i64 = 3_600_000;
const HOURS: i64 = 3;

/// A range that ends inside the first and the last hour.
const FIRST_MS: i64 = T0 + HOUR_MS / 2;
const LAST_MS: i64 = T0 + 2 * HOUR_MS + HOUR_MS / 2 + 500;

#[test]
fn deletions_survive_each_of_their_steps() {
    for (point, passes) in [
        ("delete.before", 1),
        ("delete.written", 1),
        ("delete.before", 2),
        ("delete.written", 2),
        ("clean.samples", 1),
        ("clean.samples", 4),
        ("clean.index", 1),
        ("clean.series", 2),
        ("clean.done", 1),
        ("clean.done", 3),
    ] {
        dies_at(point, passes);
    }
}

fn dies_at(point: &str, passes: u32) {
    let workplace = Workplace::new();
    let data = workplace.path("data");
    let armed = Serve::new(&data, workplace.path("log-1"));
    let armed = armed.flags(["--maintenance.enabled=false"]);
    // Of older samples one coarse bucket would be made.
    let now_ms = (T0 + 20 * HOUR_MS).to_string();
    let armed = armed.env(CLOCK_VARIABLE, &now_ms);
    let armed = armed.env("ICECORE_FAILPOINT", &format!("{point}:{passes}"));
    let mut served = armed.start();
    write(&served);
    let whole = delete(&served, r#"{__name__="doomed"}"#, None);
    let range = whole && delete(&served, r#"{__name__="cut"}"#, Some((FIRST_MS, LAST_MS)));
    let cleaned = range && post(&served, "/api/v1/admin/tsdb/clean_tombstones");
    assert!(!cleaned, "{point} was never passed {passes} times");
    let status = served.wait_exit(PATIENCE);
    assert_eq!(status.signal(), Some(SIGABRT), "{}", served.log());
    check_is_clean(&data, &[]);

    let again = Serve::new(&data, workplace.path("log-2"));
    let again = again.env(CLOCK_VARIABLE, &now_ms);
    let mut served = again.flags(["--maintenance.enabled=false"]).start();
    let found = everything(&served);
    for (name, answered) in [("doomed", whole), ("cut", range)] {
        let left: Vec<_> = found
            .iter()
            .filter(|(l, _)| l.iter().any(|p| p.1 == name))
            .collect();
        let samples: usize = left.iter().map(|(_, samples)| samples.len()).sum();
        let (all, rest) = (3 * HOURS as usize * 4, if name == "cut" { 9 } else { 0 });
        assert!(
            samples == rest || (samples == all && !answered),
            "{point}: {name} {samples}"
        );
    }
    assert!(delete(&served, r#"{__name__="doomed"}"#, None));
    assert!(delete(
        &served,
        r#"{__name__="cut"}"#,
        Some((FIRST_MS, LAST_MS))
    ));
    let expected = expected();
    assert_eq!(everything(&served), expected, "{point}");
    assert!(post(&served, "/api/v1/admin/tsdb/clean_tombstones"));
    assert_eq!(everything(&served), expected, "{point}");
    write(&served);
    let all = everything(&served);
    assert_eq!(all.values().map(Vec::len).sum::<usize>(), 9 * 12);
    assert!(post(&served, "/-/flush"));
    assert_eq!(everything(&served), all, "{point}");
    served.terminate();
    assert!(served.wait_exit(PATIENCE).success(), "{}", served.log());
    check_is_clean(&data, &[]);
}

fn series() -> impl Iterator<Item = (LabelSet, Samples)> {
    ["cut", "doomed", "kept"].into_iter().flat_map(|name| {
        (0..3).map(move |n: i64| {
            let labels = vec![
                ("__name__".into(), name.into()),
                ("n".into(), n.to_string()),
            ];
            let sample = |i| (T0 + i * HOUR_MS / 4 + n, Value::Float((i as f64).to_bits()));
            (labels, (0..HOURS * 4).map(sample).collect())
        })
    })
}

fn expected() -> Found {
    let mut found = Found::new();
    for (labels, mut samples) in series() {
        let name = labels[0].1.clone();
        if name == "cut" {
            samples.retain(|(time, _)| !(FIRST_MS..=LAST_MS).contains(time));
        }
        if name != "doomed" {
            found.insert(labels.into_iter().collect(), samples);
        }
    }
    found
}

fn everything(served: &TestServer) -> Found {
    let selector = r#"{__name__=~"cut|doomed|kept"}"#;
    select(&mut served.client(), selector).expect("an answer")
}

fn write(served: &TestServer) {
    let all: Vec<_> = series().collect();
    let sent = all.iter().map(|(labels, samples)| SentSeries {
        labels,
        samples,
        exemplars: &[],
    });
    let answer = served
        .client()
        .post("/api/v1/write", HEADERS, &encode(sent));
    assert_eq!(answer.expect("an answer").status, 204);
}

/// Whether it was answered; false when the process is gone.
fn delete(served: &TestServer, selector: &str, range_ms: Option<(i64, i64)>) -> bool {
    let mut path = format!(
        "/api/v1/admin/tsdb/delete_series?match[]={}",
        escape(selector)
    );
    if let Some((first, last)) = range_ms {
        path.push_str(&format!(
            "&start={}&end={}",
            first as f64 / 1e3,
            last as f64 / 1e3
        ));
    }
    post(served, &path)
}

fn post(served: &TestServer, path: &str) -> bool {
    let Ok(answer) = served.client().post(path, &[], b"") else {
        return false;
    };
    assert!(answer.is_success(), "{path}: {}", answer.text());
    true
}
