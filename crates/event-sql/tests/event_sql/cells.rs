//! Rollup tables.

use serde_json::json;

use crate::events::rows;

#[tokio::test]
async fn cells_are_rows() {
    let found = rows(
        "SELECT interval_start, dims, count FROM rollup_1m WHERE metric = 'orders'
         AND service = 'shop' AND interval_start >= '2026-11-09T10:01:00Z'
         AND interval_start < '2026-11-09T10:02:00Z' ORDER BY count",
    );
    let at = "2026-11-09T10:01:00Z";
    let expected = json!([
        [at, r#"{"order.channel":"web"}"#, 2],
        [at, r#"{"order.channel":"app"}"#, 3],
    ]);
    assert_eq!(json!(found.await.unwrap()), expected);
}

#[tokio::test]
async fn all_pages_are_read() {
    for window in ["5s", "1m", "1h", "1d", "7d"] {
        let query =
            format!("SELECT count(*), sum(count) FROM rollup_{window} WHERE metric = 'orders'");
        let expected = json!([[20_000, 199_990_000]]);
        assert_eq!(json!(rows(&query).await.unwrap()), expected);
    }
}
