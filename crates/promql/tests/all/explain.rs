//! EXPLAIN: what each rule changes, and plans without rules.
//!
//! A file of `testdata/explain` is named after its rule and holds queries with their plans, with
//! the rule and without it. `ICECORE_BLESS=1 cargo test -p icecore-promql --test all explain`
//! rewrites them.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use futures::executor::block_on;
use icecore_model::Labels;
use icecore_promql::script::{LoadedSample, LoadedValue};
use icecore_promql::{Engine, EngineOptions, MemorySource, QueryTime, Request, Rules};

const QUERY: &str = "query: ";

fn plan(query: &str, rules: Rules) -> String {
    let engine = Engine::new(EngineOptions {
        rules,
        ..EngineOptions::default()
    });
    engine.explain(&request(query)).unwrap()
}

const START_MS: i64 = 1_700_000_000_000;

fn request(query: &str) -> Request {
    Request {
        query: query.to_string(),
        time: QueryTime::Range {
            start_ms: START_MS,
            end_ms: START_MS + 3_600_000,
            step_ms: 60_000,
        },
        lookback_ms: None,
        limit: None,
        timeout: None,
        counts_touched: false,
        max_source_resolution: None,
        rollup_strict: false,
    }
}

/// The plans of all queries of a file, with the rule and without it.
fn check(rule: &str, change: fn(&mut Rules)) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../testdata/explain")
        .join(format!("{rule}.txt"));
    let expected = fs::read_to_string(&path).unwrap();
    let mut off = Rules::ALL;
    change(&mut off);
    let mut found = String::new();
    for query in expected.lines().filter_map(|line| line.strip_prefix(QUERY)) {
        let (with, without) = (plan(query, Rules::ALL), plan(query, off));
        let separator = if found.is_empty() { "" } else { "\n\n" };
        writeln!(found, "{separator}{QUERY}{query}").unwrap();
        if with == without {
            write!(found, "\nwith {rule} and without it, a {with}").unwrap();
        } else {
            write!(found, "\nwith {rule}, a {with}").unwrap();
            write!(found, "\nwithout {rule}, a {without}").unwrap();
        }
    }
    if std::env::var_os("ICECORE_BLESS").is_some() {
        fs::write(&path, &found).unwrap();
    } else {
        assert_eq!(found, expected, "{}", path.display());
    }
}

/// An end that is no step makes no subquery longer, and so no read.
#[test]
fn subqueries_end_with_the_last_step() {
    let plan = |seconds: i64| {
        let query = "max_over_time(rate(m[1m])[1m:5s]) + max_over_time(m[1m:5s] offset 7s)";
        let mut request = request(query);
        request.time = QueryTime::Range {
            start_ms: START_MS,
            end_ms: START_MS + seconds * 1000,
            step_ms: 10_000,
        };
        Engine::default().explain(&request).unwrap()
    };
    assert_eq!(plan(60), plan(69));
    assert_ne!(plan(60), plan(70));
}

#[test]
fn fold_constants() {
    check("fold_constants", |rules| rules.fold_constants = false);
}

#[test]
fn push_matchers() {
    check("push_matchers", |rules| rules.push_matchers = false);
}

#[test]
fn merge_scans() {
    check("merge_scans", |rules| rules.merge_scans = false);
}

#[test]
fn fuse_selection() {
    check("fuse_selection", |rules| rules.fuse_selection = false);
}

#[test]
fn share_expressions() {
    check("share_expressions", |rules| rules.share_expressions = false);
}

/// Every kind of node, so that its text is covered.
#[test]
fn rules() {
    check("rules", |rules| *rules = Rules::NONE);
}

/// A plan that has run says what each part took, yielded and read; the plan itself is the same.
#[test]
fn costs() {
    let mut source = MemorySource::default();
    for id in 0..20 {
        let id = id.to_string();
        let job = if id.len() == 1 { "a" } else { "b" };
        let labels = [("__name__", "requests_total"), ("id", &id), ("job", job)];
        let labels = Labels::from_pairs(labels);
        for minute in 0..60 {
            let sample = LoadedSample {
                timestamp_ms: START_MS + minute * 60_000,
                value: LoadedValue::Float(minute as f64),
                start_ms: None,
            };
            source.add(&labels, sample);
        }
    }
    let request = request("sum by (job) (rate(requests_total[5m])) / 2");
    let engine = Engine::default();
    let (answer, explained) =
        block_on(engine.execute_explained(&source, &request, &AtomicBool::new(false))).unwrap();
    assert_eq!(answer.stats.samples_read, 1200);
    let expected = "\
range query: 61 steps every 1m from 2023-11-14 22:13:20 to 2023-11-14 23:13:20
└─ / [… ms, 2 rows]
   ├─ sum by (job) [… ms, 2 rows]
   │  └─ rate over 5m [… ms, 20 rows]
   │     └─ scan 0
   └─ 2

reads
  scan 0: requests_total after 2023-11-14 22:08:20 to 2023-11-14 23:13:20 (1h5m) \
[… ms, 20 series, 1200 samples]
";
    let without_times = |cost: &str| {
        let (_, counts) = cost.split_once(" ms").unwrap();
        format!(" [… ms{counts}]")
    };
    assert_eq!(with_costs(&explained, without_times), expected);
    let plan = engine.explain(&request).unwrap();
    assert_eq!(with_costs(&explained, |_| String::new()), plan);
}

/// The text with other words in place of what is in brackets.
fn with_costs(text: &str, replace: impl Fn(&str) -> String) -> String {
    let mut parts = text.split(" [");
    let mut out = parts.next().unwrap_or_default().to_string();
    for part in parts {
        let (cost, rest) = part.split_once(']').unwrap();
        write!(out, "{}{rest}", replace(cost)).unwrap();
    }
    out
}
