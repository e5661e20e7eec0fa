//! When queries end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use icecore_event_sql::{SqlEngine, SqlLimits, SqlRequest};
use serde_json::json;

use crate::events::{answer, view};

/// More than a quick machine fills before a query of these tests ends.
const MUCH_MEMORY: usize = 1 << 30;

/// Longest wait for the end of a query that takes minutes if nothing ends it.
const DEADLINE: Duration = Duration::from_secs(60);

/// A product of rollup tables that nobody waits for to the end.
const LONG: &str = "SELECT count(*) FROM rollup_5s a, rollup_5s b, rollup_5s c
                    WHERE a.count + b.count + c.count > 5";

#[tokio::test]
async fn a_query_has_an_end() {
    let limits = SqlLimits {
        time: Duration::from_millis(50),
        memory_bytes: MUCH_MEMORY,
        ..SqlLimits::default()
    };
    let began = Instant::now();
    let problem = answer(json!({ "q": LONG }), limits).await.unwrap_err();
    assert_eq!((problem.status, problem.code), (422, "sql.limit"));
    assert!(problem.detail.contains("took longer"), "{}", problem.detail);
    assert!(began.elapsed() < DEADLINE);
}

/// The product that is collected for the last join comes from memory: nobody waits for anything
/// while it is made, and there is memory for minutes of it.
#[tokio::test]
async fn time_is_looked_at_while_a_join_collects_its_left_side() {
    let limits = SqlLimits {
        time: Duration::from_millis(50),
        memory_bytes: 1 << 40,
        ..SqlLimits::default()
    };
    let query =
        "SELECT count(*) FROM rollup_5s a, rollup_5s b, rollup_5s c, rollup_5s d, rollup_5s e
                 WHERE a.count + b.count + c.count + d.count + e.count > 5";
    let began = Instant::now();
    let problem = answer(json!({ "q": query }), limits).await.unwrap_err();
    assert_eq!((problem.status, problem.code), (422, "sql.limit"));
    assert!(problem.detail.contains("took longer"), "{}", problem.detail);
    assert!(began.elapsed() < DEADLINE, "{:?}", began.elapsed());
}

#[tokio::test]
async fn memory_has_an_end() {
    let limits = SqlLimits {
        memory_bytes: 1_000_000,
        ..SqlLimits::default()
    };
    let query = "SELECT array_agg(a.dims || b.dims) FROM rollup_5s a JOIN rollup_1m b
                 ON a.count = b.count GROUP BY a.count ORDER BY 1";
    let problem = answer(json!({ "q": query }), limits).await.unwrap_err();
    assert_eq!((problem.status, problem.code), (422, "sql.limit"));
}

#[tokio::test]
async fn a_query_that_nobody_waits_for_ends() {
    let limits = SqlLimits {
        time: Duration::from_secs(3600),
        memory_bytes: MUCH_MEMORY,
        ..SqlLimits::default()
    };
    let engine = SqlEngine::new(limits).unwrap();
    let source = Arc::new(view());
    let weak = Arc::downgrade(&source);
    let request = SqlRequest::parse(json!({ "q": LONG }).to_string().as_bytes()).unwrap();
    let running = engine.query(source, request);
    let waited = tokio::time::timeout(Duration::from_millis(30), running).await;
    let ended = waited.map(|answer| answer.map(drop));
    assert!(ended.is_err(), "{ended:?}");
    let began = Instant::now();
    // What the query read from is let go of when its tasks have ended.
    while weak.upgrade().is_some() {
        assert!(began.elapsed() < DEADLINE, "the query still runs");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Plans are as deep as a chain of operators is long, and planning calls itself for each.
#[tokio::test]
async fn long_chains_are_answered_and_longer_ones_refused() {
    let chain = |links: usize| format!("SELECT 1{}", "+1".repeat(links));
    let answered = answer(json!({ "q": chain(300) }), SqlLimits::default()).await;
    assert!(answered.is_ok());
    let refused = answer(json!({ "q": chain(10_000) }), SqlLimits::default()).await;
    assert_eq!(refused.unwrap_err().code, "sql.invalid");
}

#[tokio::test]
async fn functions_that_make_much_of_little_are_refused() {
    for function in [
        "repeat('x', 2147483647)",
        "lpad('x', 2147483647)",
        "rpad('x', 2147483647)",
    ] {
        let query = format!("SELECT length({function})");
        let refused = answer(json!({ "q": query }), SqlLimits::default()).await;
        assert_eq!(refused.unwrap_err().status, 400, "{function}");
    }
}
