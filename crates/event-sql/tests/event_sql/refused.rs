//! What is refused.

use icecore_event_sql::{SqlLimits, SqlRequest};
use serde_json::json;

use crate::events::{answer, rows};

#[tokio::test]
async fn only_reading_is_allowed() {
    for query in [
        "INSERT INTO events VALUES (1)",
        "DELETE FROM events",
        "UPDATE events SET name = 'x'",
        "DROP TABLE events",
        "CREATE TABLE t AS SELECT 1",
        "CREATE VIEW v AS SELECT 1",
        "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION '/etc/passwd'",
        "COPY (SELECT 1) TO '/tmp/x.csv'",
        "SET datafusion.execution.batch_size = 1",
        "EXPLAIN DELETE FROM events",
        "BEGIN",
        "SELECT 1 INTO t",
    ] {
        let problem = rows(query).await.unwrap_err();
        assert_eq!(
            (problem.status, problem.code),
            (400, "sql.read-only"),
            "{query}"
        );
    }
    for query in [
        "SELECT",
        "SELECT 1; SELECT 2",
        "SELECT x FROM nowhere",
        "SELECT nothing(1)",
        ";",
    ] {
        let problem = rows(query).await.unwrap_err();
        assert_eq!(
            (problem.status, problem.code),
            (400, "sql.invalid"),
            "{query}"
        );
    }
    for query in [
        "SELECT * FROM '/etc/passwd'",
        "SELECT * FROM \"/etc/passwd\"",
    ] {
        assert_eq!(rows(query).await.unwrap_err().status, 400);
    }
}

#[tokio::test]
async fn events_need_a_range_of_time() {
    for table in ["events", r#"shop."order.placed""#] {
        let query = format!("SELECT count(*) FROM {table} WHERE outcome = 'SUCCESS'");
        let problem = rows(&query).await.unwrap_err();
        assert_eq!(
            (problem.status, problem.code),
            (400, "sql.time-range-required")
        );
        let body = json!({ "q": query, "allowFullScan": true });
        answer(body, SqlLimits::default()).await.unwrap();
    }
    // A part of the query is enough to read all events.
    let query = "SELECT count(*) FROM events a JOIN events b ON a.event_id = b.event_id
                 WHERE a.started_at >= '2026-11-09T10:00:00Z'";
    assert_eq!(
        rows(query).await.unwrap_err().code,
        "sql.time-range-required"
    );
}

#[test]
fn bodies_are_checked() {
    for (body, code) in [
        ("", "sql.invalid-json"),
        ("[]", "sql.invalid-body"),
        ("{}", "sql.required-field-missing"),
        (r#"{"q":1}"#, "sql.invalid-field"),
        (r#"{"q":"x","limit":0}"#, "sql.invalid-field"),
        (r#"{"q":"x","format":"table"}"#, "sql.invalid-field"),
        (r#"{"q":"x","allowFullScan":1}"#, "sql.invalid-field"),
    ] {
        let problem = SqlRequest::parse(body.as_bytes()).unwrap_err();
        assert_eq!((problem.status, problem.code), (400, code), "{body}");
    }
    let request = SqlRequest::parse(br#"{"q":"x","limit":10000000}"#).unwrap();
    assert_eq!(request.limit, 100_000);
}
