//! What one request may take.

use std::sync::atomic::Ordering::Relaxed;

use futures::executor::block_on;
use http::{HeaderMap, Method};
use icecore_model::MemoryBudget;
use icecore_opentsdb::api::{Request, handle};
use icecore_opentsdb::{Allowance, Config, NameLimits};
use serde_json::json;

use crate::query_examples::{B, Daemon};

fn daemon() -> Daemon {
    let daemon = Daemon::new(Config {
        tsuid_tracking: true,
        ..Config::default()
    });
    let points: Vec<_> = (0..10).map(|i| (i, json!(i))).collect();
    daemon.put(&[("host", "a")], &points);
    daemon
}

/// The answer to a request that may take so much.
fn ask(
    daemon: &Daemon,
    method: Method,
    target: &str,
    body: &str,
    allowance: &Allowance,
) -> (u16, String) {
    let mut request = Request::new(method, target, HeaderMap::new(), body.to_owned().into());
    request.allowance = allowance.clone();
    let response = block_on(handle(&daemon.tsd, &request));
    let text = String::from_utf8_lossy(&response.body).into_owned();
    (response.status.as_u16(), text)
}

#[test]
fn rules_of_trees_are_bounded_in_number_and_size() {
    let daemon = Daemon::new(Config::without_file());
    let allowance = Allowance::default();
    let post = |target: &str, body: serde_json::Value| {
        ask(&daemon, Method::POST, target, &body.to_string(), &allowance)
    };
    let rule = |tree: u32, order: usize, regex: &str| json!({"treeId": tree, "level": 0, "order": order, "type": "METRIC", "regex": regex});
    for name in ["a", "b"] {
        let (status, text) = post("/api/tree", json!({ "name": name }));
        assert_eq!(status, 200, "{text}");
    }
    assert_eq!(post("/api/tree/rule", rule(1, 0, r"^(\w+)\.(.*)$")).0, 200);
    // Megabytes when compiled.
    let (status, text) = post("/api/tree/rule", rule(1, 1, r"\pL{150}"));
    assert_eq!(status, 400, "{text}");
    assert!(text.contains("takes more than"), "{text}");
    let mut long = rule(1, 1, "x");
    long["notes"] = json!("x".repeat(65 << 10));
    let (status, text) = post("/api/tree/rule", long);
    assert_eq!(status, 400, "{text}");
    assert!(text.contains("The texts have"), "{text}");
    // The limit is that of all trees together.
    let rules = |tree: u32| (0..3_000).map(|order| rule(tree, order, "x")).collect();
    let (status, text) = post("/api/tree/rules", serde_json::Value::Array(rules(1)));
    assert_eq!(status, 204, "{text}");
    let (status, text) = post("/api/tree/rules", serde_json::Value::Array(rules(2)));
    assert_eq!(status, 400, "{text}");
    assert!(text.contains("4096 rules together"), "{text}");
    // So is that of what their expressions take.
    let large = |tree: u32| (0..600).map(|order| rule(tree, order, r"\w")).collect();
    let (status, text) = post("/api/tree/rules", serde_json::Value::Array(large(2)));
    assert_eq!(status, 400, "{text}");
    assert!(text.contains("take more than"), "{text}");
    for number in 2..256 {
        let (status, text) = post("/api/tree", json!({ "name": format!("t{number}") }));
        assert_eq!(status, 200, "{number}: {text}");
    }
    assert_eq!(post("/api/tree", json!({ "name": "more" })).0, 400);
}

/// One request for each kind of query.
fn queries() -> Vec<(Method, String, String)> {
    let window = format!("start={B}&end={}", B + 60);
    let get = |target: &str| {
        (
            Method::GET,
            target.replace("WINDOW", &window),
            String::new(),
        )
    };
    let exp = json!({
        "time": {"start": B.to_string(), "end": (B + 60).to_string(), "aggregator": "sum"},
        "metrics": [{"id": "a", "metric": "m"}],
        "expressions": [{"id": "e", "expr": "a * 2"}],
    });
    vec![
        get("/api/query?WINDOW&m=sum:m"),
        get("/api/query?WINDOW&m=sum:1s-sum:m"),
        get("/api/query/gexp?WINDOW&exp=scale(sum:m,2)"),
        get("/q?WINDOW&m=sum:m&ascii"),
        get("/q?WINDOW&m=sum:m&png"),
        (Method::POST, "/api/query/exp".into(), exp.to_string()),
        get("/api/query/last?timeseries=m&back_scan=0"),
        get("/api/search/lookup?m=m"),
        get("/api/uid/tsmeta?m=m"),
    ]
}

#[test]
fn a_query_that_nobody_waits_for_ends() {
    let daemon = daemon();
    for (method, target, body) in queries() {
        let allowance = Allowance::default();
        let (status, text) = ask(&daemon, method.clone(), &target, &body, &allowance);
        assert_eq!(status, 200, "{target}: {text}");
        allowance.canceled.store(true, Relaxed);
        let (status, text) = ask(&daemon, method, &target, &body, &allowance);
        assert_eq!(status, 408, "{target}: {text}");
    }
}

#[test]
fn memory_is_limited_by_a_setting_that_the_error_names() {
    let daemon = daemon();
    let allowance = Allowance::with_memory(MemoryBudget::new(100));
    for (method, target, body) in queries() {
        let (status, text) = ask(&daemon, method, &target, &body, &allowance);
        assert_eq!(status, 413, "{target}: {text}");
        assert!(text.contains("query.max_memory"), "{target}: {text}");
        assert_eq!(allowance.memory.used(), 0, "{target}");
    }
    // The pixels of a graph count, too.
    let allowance = Allowance::with_memory(MemoryBudget::new(1 << 20));
    let target = format!("/q?start={B}&end={}&m=sum:m&png&wxh=", B + 60);
    let status = |size: &str| {
        let target = target.clone() + size;
        ask(&daemon, Method::GET, &target, "", &allowance).0
    };
    assert_eq!(status("400x400"), 200);
    assert_eq!(status("1000x1000"), 413);
}

#[test]
fn annotations_count_for_those_who_read_them() {
    let daemon = Daemon::new(Config {
        enable_chunked: true,
        max_chunk: 1 << 20,
        ..Config::default()
    });
    daemon.put(&[("host", "a")], &[(0, json!(1))]);
    let post = |notes: usize, start: i64| {
        let note = json!({"startTime": start, "notes": "n".repeat(notes)});
        let target = "/api/annotation";
        ask(
            &daemon,
            Method::POST,
            target,
            &note.to_string(),
            &Allowance::default(),
        )
    };
    for start in 0..30 {
        assert_eq!(post(50_000, B + start).0, 200);
    }
    let (status, text) = post(70_000, B);
    assert_eq!(status, 400, "{text}");
    assert!(text.contains("70000 bytes, more than 65536"), "{text}");
    let window = format!("start_time={B}&end_time={}", B + 60);
    let targets = [
        format!("/api/annotations?{window}"),
        format!(
            "/api/query?start={B}&end={}&m=sum:m&global_annotations",
            B + 60
        ),
        format!(
            "/api/query/gexp?start={B}&end={}&exp=scale(sum:m,2)&global_annotations",
            B + 60
        ),
    ];
    for target in targets {
        let with = |bytes: usize| {
            let allowance = Allowance::with_memory(MemoryBudget::new(bytes));
            ask(&daemon, Method::GET, &target, "", &allowance)
        };
        let (status, text) = with(1 << 20);
        assert_eq!(status, 413, "{target}: {text}");
        assert!(text.contains("query.max_memory"), "{target}: {text}");
        assert_eq!(with(8 << 20).0, 200, "{target}");
    }
    // Deleting them needs their keys alone.
    let target = format!("/api/annotation/bulk?{window}&global=true");
    let little = Allowance::with_memory(MemoryBudget::new(100 << 10));
    let (status, text) = ask(&daemon, Method::DELETE, &target, "", &little);
    assert!(
        status == 200 && text.contains("\"totalDeleted\":30"),
        "{text}"
    );
}

#[test]
fn names_are_bounded_in_length_and_number() {
    let daemon = Daemon::new(Config {
        auto_create_metrics: true,
        enable_chunked: true,
        max_chunk: 1 << 20,
        name_limits: NameLimits {
            uid_bytes_max: 5000,
            ..NameLimits::default()
        },
        ..Config::default()
    });
    let assign = |names: &[String]| {
        let body = json!({"tagv": names}).to_string();
        let target = "/api/uid/assign";
        ask(&daemon, Method::POST, target, &body, &Allowance::default())
    };
    let (status, text) = assign(&["y".repeat(5000)]);
    assert_eq!(status, 400, "{text}");
    assert!(
        text.contains("limits.label_value_bytes_max = 4096"),
        "{text}"
    );
    daemon.put(&[("host", "a")], &[(0, json!(1))]);
    let names: Vec<String> = (0..30).map(|i| format!("name{i}")).collect();
    let (status, text) = assign(&names);
    assert_eq!(status, 400);
    assert!(
        text.contains("\"name0\":\"") && text.contains("opentsdb.uid_bytes_max = 5000"),
        "{text}"
    );
    let put = |host: &str| {
        let point = json!({"metric": "m", "timestamp": B, "value": 1, "tags": {"host": host}});
        let target = "/api/put?details";
        ask(
            &daemon,
            Method::POST,
            target,
            &point.to_string(),
            &Allowance::default(),
        )
    };
    assert_eq!(daemon.tsd.name_bytes_max(), 5000);
    // A name takes its text and 200 bytes, so that there is no room for another one.
    let used = daemon.tsd.name_bytes();
    assert!((4800..=5000).contains(&used), "{used}");
    assert_eq!(put("a").0, 200);
    assert_eq!(daemon.tsd.name_bytes(), used);
    let (status, text) = put("another");
    assert_eq!(status, 400);
    assert!(text.contains("opentsdb.uid_bytes_max"), "{text}");
    let rename = json!({"tagv": "a", "name": "b".repeat(5000)}).to_string();
    let (status, text) = ask(
        &daemon,
        Method::POST,
        "/api/uid/rename",
        &rename,
        &Allowance::default(),
    );
    assert_eq!(status, 400);
    assert!(text.contains("limits.label_value_bytes_max"), "{text}");
}

#[test]
fn what_is_sent_counts_and_chunks_need_a_setting() {
    let point = json!({"metric": "m", "timestamp": B, "value": 1, "tags": {"host": "a"}});
    let long = format!("[{point}{}]", " ".repeat(16 << 10));
    // Bytes that were sent, in chunks or not, and what the body is.
    for (enable_chunked, sent_bytes, chunks, body, expected) in [
        (false, 1 << 10, false, &long, 204),
        (false, 9 << 10, false, &long, 400),
        (false, 1 << 10, true, &point.to_string(), 400),
        (true, 1 << 10, true, &long, 204),
        (true, 5 << 10, false, &long, 204),
        // In chunks there are no 8 KiB that are taken in any case.
        (true, 5 << 10, true, &long, 413),
    ] {
        let daemon = Daemon::new(Config {
            enable_chunked,
            ..Config::default()
        });
        let mut headers = HeaderMap::new();
        if chunks {
            headers.insert("transfer-encoding", "gzip, Chunked".parse().unwrap());
        }
        let mut request = Request::new(Method::POST, "/api/put", headers, body.clone().into());
        request.sent_bytes = sent_bytes;
        let response = block_on(handle(&daemon.tsd, &request));
        let found = response.status.as_u16();
        assert_eq!(found, expected, "{enable_chunked} {sent_bytes} {chunks}");
    }
}

#[test]
fn bodies_are_as_long_as_the_settings_allow() {
    let point = |padding: usize| {
        let point = json!({"metric": "m", "timestamp": B, "value": 1, "tags": {"host": "a"}});
        format!("[{point}{}]", " ".repeat(padding))
    };
    for (enable_chunked, max_chunk, padding, expected) in [
        (false, 1 << 20, 4 << 10, 204),
        (false, 1 << 20, 16 << 10, 400),
        (true, 4 << 10, 6 << 10, 204),
        (true, 4 << 10, 16 << 10, 413),
        (true, 1 << 20, 16 << 10, 204),
    ] {
        let daemon = Daemon::new(Config {
            enable_chunked,
            max_chunk,
            ..Config::default()
        });
        let (status, text) = daemon.ask(Method::POST, "/api/put", &point(padding));
        assert_eq!(
            status, expected,
            "{enable_chunked} {max_chunk} {padding}: {text}"
        );
        let names_setting = text.contains("tsd.http.request.max_chunk");
        assert_eq!(names_setting, expected == 413, "{text}");
    }
}
