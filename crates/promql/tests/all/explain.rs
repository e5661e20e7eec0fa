//! EXPLAIN: what each rule changes, and plans without rules.
//!
//! A file of `testdata/explain` is named after its rule and holds queries with their plans, with
//! the rule and without it. `ICECORE_BLESS=1 cargo test -p icecore-promql --test all explain`
//! rewrites them.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use icecore_promql::{Engine, EngineOptions, QueryTime, Request, Rules};

const QUERY: &str = "query: ";

fn plan(query: &str, rules: Rules) -> String {
    let engine = Engine::new(EngineOptions {
        rules,
        ..EngineOptions::default()
    });
    let start_ms = 1_700_000_000_000;
    let request = Request {
        query: query.to_string(),
        time: QueryTime::Range {
            start_ms,
            end_ms: start_ms + 3_600_000,
            step_ms: 60_000,
        },
        lookback_ms: None,
        limit: None,
        timeout: None,
        counts_touched: false,
        max_source_resolution: None,
        rollup_strict: false,
    };
    engine.explain(&request).unwrap()
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
