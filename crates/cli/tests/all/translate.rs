//! `icecore opentsdb translate`.

use crate::served::Workplace;
use crate::{icecore, text};

#[track_caller]
fn check(arguments: &[&str], code: i32, stdout: &str, stderr: &[&str]) {
    let output = icecore(&[&["opentsdb", "translate"], arguments].concat(), &[]);
    assert_eq!(text(&output.stdout), stdout, "{output:?}");
    for expected in stderr {
        assert!(text(&output.stderr).contains(expected), "{output:?}");
    }
    assert_eq!(output.status.code(), Some(code), "{output:?}");
}

#[test]
fn queries_are_printed_and_conditions_are_said() {
    check(
        &["zimsum:1m-avg:sys.cpu{host=*}"],
        0,
        "sum by (host) (avg_over_time({\"sys.cpu\",host!=\"\"}[1m] offset -59s999ms))\n",
        &["zimsum:1m-avg:sys.cpu{host=*}: step 1m, start and end multiples of it\n"],
    );
    check(
        &[
            "sum:1m-avg:m",
            "--start",
            "1500001230",
            "--end",
            "1500001500",
        ],
        0,
        "sum(avg_over_time({\"m\"}[1m] offset -59s999ms))\n",
        &[
            "step 1m, start 1500001260, end 1500001500\n",
            "sum:1m-avg:m: the same if every series has a point in every interval",
        ],
    );
    check(
        &["sum:1m-avg:m", "--strict"],
        1,
        "",
        &[
            "sum:1m-avg:m: not translated: the numbers are the same only if",
            "icecore: error: 1 of 1 not translated",
        ],
    );
    check(
        &["mult:m", "none:1m-max:m", "-o", "json"],
        1,
        "[{\"name\":\"mult:m\",\"refused\":\"PromQL has no product over the series of a group\"},\
         {\"conditions\":[],\"end\":null,\"expr\":\"max_over_time({\\\"m\\\"}[1m] offset \
         -59s999ms)\",\"legend\":null,\"name\":\"none:1m-max:m\",\"notes\":[],\"start\":null,\
         \"step\":\"1m\"}]\n",
        &["icecore: error: 1 of 2 not translated"],
    );
}

#[test]
fn bodies_and_dashboards_are_files() {
    let workplace = Workplace::new();
    let write = |name: &str, content: &str| {
        let path = workplace.path(name);
        std::fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let body = r#"{"start": "1h-ago", "queries": [
        {"aggregator": "zimsum", "metric": "m", "downsample": "10s-sum"}]}"#;
    check(
        &["--body", &write("body.json", body)],
        0,
        "sum(sum_over_time({\"m\"}[10s] offset -9s999ms))\n",
        &["queries[0]: step 10s, start "],
    );
    let dashboard = r#"{"panels": [{"title": "P", "datasource": {"type": "opentsdb"}, "targets": [
        {"refId": "A", "metric": "m", "aggregator": "mult", "disableDownsampling": true}]}]}"#;
    let file = write("dashboard.json", dashboard);
    let output = icecore(
        &[
            "opentsdb",
            "translate",
            "--dashboard",
            &file,
            "--datasource",
            "x",
        ],
        &[],
    );
    let printed: serde_json::Value = serde_json::from_str(text(&output.stdout)).unwrap();
    let given: serde_json::Value = serde_json::from_str(dashboard).unwrap();
    assert_eq!(printed, given);
    let said = "panel \"P\", query A: not translated: PromQL has no product";
    assert!(text(&output.stderr).starts_with(said), "{output:?}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn wrong_usage_is_told() {
    check(&[], 2, "", &["give a QUERY, --body or --dashboard"]);
    check(
        &["--dashboard", "x"],
        2,
        "",
        &["--dashboard needs --datasource"],
    );
    check(&["--body", "/nowhere"], 1, "", &["cannot read /nowhere"]);
}
