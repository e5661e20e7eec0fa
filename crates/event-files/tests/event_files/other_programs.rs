//! Files are opened by pyarrow and DuckDB.

use std::process::Command;

use icecore_events::StoredEvent;

use crate::events::{event, file_of};

const SCRIPT: &str = r#"
import sys, json, duckdb, pyarrow.parquet as pq
path = sys.argv[1]
file = pq.ParquetFile(path)
assert file.metadata.num_row_groups == 2, file.metadata
assert str(file.schema_arrow.field("started_at").type) == "timestamp[ns, tz=UTC]"
assert str(file.schema_arrow.field("attr.order.items").type) == "int64"
table = file.read()
assert table.num_rows == 120000
row = table.slice(7, 1).to_pylist()[0]
assert row["attr.order.channel"] == "app", row
assert json.loads(row["attributes"])["order"]["items"] == 7, row
one = duckdb.sql(f"""
    SELECT count(*), sum("attr.order.items"), min(started_at)::VARCHAR,
           count(*) FILTER (WHERE outcome = 'FAILURE'), count(DISTINCT event_id),
           count(*) FILTER (WHERE attributes->>'$.order.channel' = 'web')
    FROM read_parquet('{path}')""").fetchall()[0]
assert one[0] == 120000 and one[1] == sum(n % 50 for n in range(120000)), one
assert one[3] == 1200 and one[4] == 120000 and one[5] == 40000, one
print("fine")
"#;

#[test]
fn pyarrow_and_duckdb_read_files() {
    let python = |script: &str| Command::new("python3").args(["-c", script]).output();
    let has = python("import duckdb, pyarrow").is_ok_and(|output| output.status.success());
    if !has {
        skipped_tests::skip(
            "files of events in pyarrow and DuckDB",
            "pip install duckdb pyarrow",
        );
        return;
    }
    let events: Vec<StoredEvent<'static>> = (0..120_000).map(event).collect();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.parquet");
    std::fs::write(&path, file_of(&events)).unwrap();
    let output = Command::new("python3")
        .args(["-c", SCRIPT])
        .arg(&path)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "fine");
}
