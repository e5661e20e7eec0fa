//! `icecore query` against a running server, and `icecore test promql`.

use std::process::Output;

use crate::ledger::Value;
use crate::remote_write::{HEADERS, SentSeries, encode};
use crate::served::{Serve, TestServer, Workplace};
use crate::{icecore, text};

const T0: i64 = 1_700_000_000_000;

/// A server with `up{job="a"}` and `up{job="b,c"}`, 61 samples of each.
fn served(workplace: &Workplace) -> TestServer {
    let served = Serve::new(workplace.path("data"), workplace.path("log")).start();
    let labels = |job: &str| vec![("__name__".into(), "up".into()), ("job".into(), job.into())];
    let samples = |factor: i64| -> Vec<(i64, Value)> {
        let sample = |i: i64| {
            (
                T0 + i * 60_000,
                Value::Float(((i * factor) as f64).to_bits()),
            )
        };
        (0..=60).map(sample).collect()
    };
    let all = [(labels("a"), samples(1)), (labels("b,c"), samples(2))];
    let sent = all.iter().map(|(labels, samples)| SentSeries {
        labels,
        samples,
        exemplars: &[],
    });
    let answer = served
        .client()
        .post("/api/v1/write", HEADERS, &encode(sent));
    assert_eq!(answer.expect("an answer").status, 204);
    served
}

fn query(served: &TestServer, arguments: &[&str]) -> Output {
    let url = format!("http://{}", served.address().expect("it listens"));
    let all: Vec<&str> = ["query"]
        .iter()
        .chain(arguments)
        .chain(&["--server", &url])
        .copied()
        .collect();
    icecore(&all, &[])
}

#[track_caller]
fn stdout(output: &Output) -> &str {
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    text(&output.stdout)
}

#[test]
fn answers_in_every_format() {
    let workplace = Workplace::new();
    let served = served(&workplace);
    let at = (T0 / 1000 + 600).to_string();

    let table = query(&served, &["instant", "up", "--time", &at]);
    let expected = "series         value\nup{job=\"a\"}       10\nup{job=\"b,c\"}     20\n";
    assert_eq!(stdout(&table), expected);
    let csv = query(&served, &["instant", "up * 2", "--time", &at, "-o", "csv"]);
    let expected =
        "job,timestamp,value\na,2023-11-14T22:23:20Z,20\n\"b,c\",2023-11-14T22:23:20Z,40\n";
    assert_eq!(stdout(&csv), expected);
    let json = query(
        &served,
        &["instant", "sum(up)", "--time", &at, "-o", "json"],
    );
    let json: serde_json::Value = serde_json::from_str(stdout(&json)).unwrap();
    assert_eq!(json["resultType"], "vector");
    assert_eq!(json["result"][0]["value"][1], "30");
    let scalar = query(&served, &["instant", "1 + 1"]);
    assert_eq!(stdout(&scalar), "series  value\n{}          2\n");

    let (start, end) = (T0 / 1000, T0 / 1000 + 120);
    let (start, end) = (start.to_string(), end.to_string());
    let range = [
        "range",
        "up{job=\"a\"}",
        "--start",
        &start,
        "--end",
        &end,
        "--step",
        "1m",
    ];
    let expected = "up{job=\"a\"}\n  time                  value\n  2023-11-14T22:13:20Z      0\n  \
                    2023-11-14T22:14:20Z      1\n  2023-11-14T22:15:20Z      2\n";
    assert_eq!(stdout(&query(&served, &range)), expected);

    let series = query(&served, &["series", "up", "{job=\"a\"}"]);
    assert_eq!(stdout(&series), "up{job=\"a\"}\nup{job=\"b,c\"}\n");
    let names = query(&served, &["labels"]);
    assert_eq!(stdout(&names), "__name__\njob\n");
    let values = query(&served, &["labels", "job", "--match", "up", "-o", "csv"]);
    assert_eq!(stdout(&values), "job\na\n\"b,c\"\n");
    let limited = query(&served, &["labels", "job", "--limit", "1"]);
    assert_eq!(stdout(&limited), "a\n");
    assert!(
        text(&limited.stderr).contains("icecore: warning: results truncated"),
        "{limited:?}"
    );
}

#[test]
fn plots_and_plans() {
    let workplace = Workplace::new();
    let served = served(&workplace);
    let (start, end) = ((T0 / 1000).to_string(), (T0 / 1000 + 3600).to_string());
    let plot = [
        "range", "up", "--start", &start, "--end", &end, "-o", "plot", "--width", "60",
    ];
    let drawn = query(&served, &plot);
    let drawn = stdout(&drawn);
    for part in [
        "120 ┤",
        "  0 ┤",
        "└",
        "22:30",
        "a up{job=\"a\"}  min 0  max 60  last 60",
        "b up{job=\"b,c\"}",
    ] {
        assert!(drawn.contains(part), "{part} is not in\n{drawn}");
    }
    assert!(
        drawn
            .lines()
            .take(20)
            .all(|line| line.chars().count() <= 60),
        "{drawn}"
    );
    let explained = query(&served, &["instant", "sum(up)", "--explain"]);
    stdout(&explained);
    assert!(text(&explained.stderr).contains("sum"), "{explained:?}");
}

#[test]
fn complaints_name_cause_and_cure() {
    let workplace = Workplace::new();
    let served = served(&workplace);
    let fails = |output: Output, code: i32, words: &[&str]| {
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        assert!(output.stdout.is_empty(), "{output:?}");
        for word in words {
            assert!(text(&output.stderr).contains(word), "{word}: {output:?}");
        }
    };
    fails(
        query(&served, &["instant", "sum(up"]),
        2,
        &["icecore: error: ", "parse error", "sum(up\n", "^"],
    );
    fails(
        query(&served, &["instant", "up", "--time", "soon"]),
        2,
        &["--time: \"soon\" is no time", "-1h30m"],
    );
    fails(
        query(&served, &["range", "up", "--start", "now", "--end", "-1h"]),
        2,
        &["exchange them"],
    );
    fails(
        query(&served, &["range", "up", "--step", "0"]),
        2,
        &["--step"],
    );
    fails(query(&served, &["series", "{"]), 2, &["match[]"]);
    fails(
        query(&served, &["range", "up", "-o", "image"]),
        2,
        &["plot"],
    );
    let nowhere = icecore(&["query", "labels", "--server", "http://127.0.0.1:1"], &[]);
    fails(
        nowhere,
        1,
        &["cannot connect to http://127.0.0.1:1", "--server"],
    );
    let tls = icecore(&["query", "labels", "--server", "ftp://x"], &[]);
    fails(tls, 2, &["only http:// and https://"]);
}

#[test]
fn scripts_are_run_and_differences_shown() {
    let workplace = Workplace::new();
    let script = |value: &str| {
        format!(
            "load 1m\n  x 0+60x10\n\neval instant at 10m rate(x[5m])\n  {{}} 1\n\neval instant at 5m x\n  x {value}\n"
        )
    };
    std::fs::create_dir(workplace.path("scripts")).unwrap();
    let good = workplace.path("scripts/good.test");
    std::fs::write(&good, script("300")).unwrap();
    let passed = icecore(&["test", "promql", good.to_str().unwrap()], &[]);
    let expected = format!("{}: 2 passed, 0 failed\n", good.display());
    assert_eq!(stdout(&passed), expected);

    let bad = workplace.path("scripts/bad.test");
    std::fs::write(&bad, script("301")).unwrap();
    let both = icecore(
        &[
            "test",
            "promql",
            workplace.path("scripts").to_str().unwrap(),
        ],
        &[],
    );
    assert_eq!(both.status.code(), Some(1), "{both:?}");
    let shown = text(&both.stdout);
    assert!(
        shown.contains(&format!("{}: 1 passed, 1 failed", bad.display())),
        "{shown}"
    );
    assert!(
        shown.contains("bad.test:7: x") && shown.contains("301"),
        "{shown}"
    );
    assert!(shown.contains(&expected), "{shown}");
    assert!(
        text(&both.stderr).contains("1 failures in 1 of 2 files, 4 evaluations"),
        "{both:?}"
    );

    let missing = icecore(&["test", "promql", "not/here.test"], &[]);
    assert_eq!(missing.status.code(), Some(2), "{missing:?}");
    assert!(text(&missing.stderr).contains("cannot read not/here.test"));
}
