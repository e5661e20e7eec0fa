//! The memory of names with UIDs, over a restart.

use super::serve;
use crate::served::{PATIENCE, TestServer, Workplace};

/// The value of a metric without labels.
#[track_caller]
fn metric(served: &TestServer, name: &str) -> f64 {
    let answer = served.client().get("/metrics").unwrap();
    let text = answer.text();
    let value = text.lines().find_map(|line| line.strip_prefix(name));
    value.expect(name).trim().parse().expect(name)
}

#[test]
fn names_that_come_near_their_limit_are_warned_of() {
    const WARNING: &str = "names with UIDs are near opentsdb.uid_bytes_max";
    let workplace = Workplace::new();
    let start = || {
        let settings = "tsd.core.auto_create_metrics = true\n";
        let served = serve(&workplace, "names", settings);
        served.flags(["--opentsdb.uid-bytes-max", "1MiB"]).start()
    };
    let mut served = start();
    // Each takes 205 bytes.
    let line = |i: u32| format!("m 1600000000 1 host=n{i:04}\n");
    let lines: String = (0..4300).map(line).collect();
    let path = "/api/v1/import/opentsdb";
    let answer = served.client().post(path, &[], lines.as_bytes()).unwrap();
    assert!(answer.is_success(), "{}", answer.text());
    let used = metric(&served, "icecore_opentsdb_name_bytes ");
    assert!((4300.0 * 205.0..890_000.0).contains(&used), "{used}");
    let max = metric(&served, "icecore_opentsdb_name_bytes_max ");
    assert_eq!(max, 1_048_576.0);
    assert!(!served.log().contains(WARNING), "{}", served.log());
    served.terminate();
    assert!(served.wait_exit(PATIENCE).success(), "{}", served.log());
    let served = start();
    assert!(served.log().contains(WARNING), "{}", served.log());
    assert_eq!(metric(&served, "icecore_opentsdb_name_bytes "), used);
}
