//! What queries find.

use arrow::ipc::reader::StreamReader;
use icecore_event_sql::SqlLimits;
use icecore_events::{Attributes, Scalar, StoredEvent, Value};
use serde_json::{Value as Json, json};

use crate::events::{answer, event, rows, rows_of, view};

async fn check(query: &str, expected: Json) {
    let found = rows(query)
        .await
        .unwrap_or_else(|problem| panic!("{query}: {problem}"));
    assert_eq!(json!(found), expected, "{query}");
}

#[tokio::test]
async fn each_event_is_seen_once() {
    let all = "started_at >= '2026-11-09T00:00:00Z'";
    check(
        &format!(
            r#"SELECT count(*) a, sum("attr.order.items") b FROM shop."order.placed" WHERE {all}"#
        ),
        json!([[100, 4950]]),
    )
    .await;
    // Fifteen of the others are kept: five of the file, ten of the tail.
    check(
        &format!(
            "SELECT event_type, count(*) FROM events WHERE {all} GROUP BY event_type ORDER BY 1"
        ),
        json!([["cart.seen", 15], ["order.placed", 100]]),
    )
    .await;
    check(
        &format!("SELECT count(DISTINCT event_id) FROM events WHERE {all} AND service_id = 'shop' AND event_type = 'order.placed'"),
        json!([[100]]),
    )
    .await;
}

/// Whether an event is in a file or not yet, and however long the text is.
#[tokio::test]
async fn long_texts_are_compared_as_a_whole() {
    let long = |end: &str| format!("{}{end}", "x".repeat(5_000));
    let with_text = |n: u32, text: String| {
        let mut event = event(n);
        let leaves = vec![(
            "order.channel".into(),
            Value::Scalar(Scalar::Text(text.into())),
        )];
        event.attributes = Attributes::from_leaves(leaves).unwrap();
        event
    };
    let mut view = view();
    view.rows
        .push_file(vec![with_text(200, long("a")), with_text(201, long("b"))]);
    view.rows.push_tail(vec![with_text(202, long("b"))]);
    let query = format!(
        r#"SELECT event_id, length("attr.order.channel") FROM shop."order.placed"
           WHERE started_at >= '2026-11-09T00:00:00Z' AND "attr.order.channel" = '{}'
           ORDER BY started_at"#,
        long("b")
    );
    let found = rows_of(view, &query).await.unwrap();
    let lengths: Vec<_> = found.iter().map(|row| row[1].clone()).collect();
    assert_eq!(lengths, [json!(5_001), json!(5_001)]);
}

#[tokio::test]
async fn events_of_types_that_are_not_registered_are_among_all() {
    let view = || {
        let mut view = view();
        let other = |service: &'static str, event_type: &'static str, n: u32| StoredEvent {
            service: service.into(),
            event_type: event_type.into(),
            ..event(n)
        };
        let more = &mut view.rows;
        more.push_file((200..203).map(|n| other("shop", "unknown", n)).collect());
        more.push_file((210..215).map(|n| other("ghost", "seen", n)).collect());
        more.push_tail((220..227).map(|n| other("ghost", "seen", n)).collect());
        view
    };
    for (filter, expected) in [
        (
            "event_type <> 'cart.seen'",
            json!([
                ["ghost", "seen", 12],
                ["shop", "order.placed", 100],
                ["shop", "unknown", 3]
            ]),
        ),
        ("service_id = 'ghost'", json!([["ghost", "seen", 12]])),
        ("event_type = 'unknown'", json!([["shop", "unknown", 3]])),
    ] {
        let query = format!(
            "SELECT service_id, event_type, count(*) FROM events
             WHERE started_at >= '2026-11-09T00:00:00Z' AND {filter} GROUP BY 1, 2 ORDER BY 1, 2"
        );
        let found = rows_of(view(), &query).await.unwrap();
        assert_eq!(json!(found), expected, "{filter}");
    }
}

#[tokio::test]
async fn filters_on_times_and_attributes() {
    let table = r#"shop."order.placed""#;
    for (filter, expected) in [
        (
            "started_at >= '2026-11-09T10:00:30Z' AND started_at < '2026-11-09T10:00:32Z'",
            json!([[30], [31]]),
        ),
        (
            "started_at BETWEEN '2026-11-09T10:01:38Z' AND '2026-11-09T10:01:39Z'",
            json!([[98], [99]]),
        ),
        (
            r#"started_at >= '2026-11-09T10:00:00Z' AND "attr.order.items" IN (3, 41, 75, 1000)"#,
            json!([[3], [41], [75]]),
        ),
        (
            r#"started_at > '2026-11-09T10:01:36Z' AND "attr.order.channel" = 'web'"#,
            json!([[98]]),
        ),
        (
            r#"started_at > '2026-11-09T10:00:00Z' AND ("attr.order.total" > 49 OR outcome = 'FAILURE')"#,
            json!([[99]]),
        ),
        (
            "started_at > '2026-11-09T10:00:00Z' AND event_id = '00000000-0000-0000-0000-000000000029'",
            json!([[41]]),
        ),
        (
            "started_at > '2026-11-09T10:00:00Z' AND json_get(attributes, 'note.by') = 'n77'",
            json!([[77]]),
        ),
        (
            "started_at > '2026-11-09T10:01:37Z' AND event_type = 'order.placed'",
            json!([[98], [99]]),
        ),
        (
            r#"extract(year FROM started_at) = 2026 AND "attr.order.items" > 97"#,
            json!([[98], [99]]),
        ),
    ] {
        let query = format!(r#"SELECT "attr.order.items" FROM {table} WHERE {filter} ORDER BY 1"#);
        check(&query, expected).await;
    }
}

#[tokio::test]
async fn joins_windows_and_subqueries() {
    check(
        r#"WITH o AS (SELECT "attr.order.channel" c, "attr.order.total" t FROM shop."order.placed"
             WHERE started_at >= '2026-11-09T10:00:00Z')
           SELECT c, max(t), count(*) FROM o GROUP BY c ORDER BY c"#,
        json!([["app", 49.5, 50], ["web", 49.0, 50]]),
    )
    .await;
    check(
        r#"SELECT a.event_id = b.event_id x FROM events a JOIN events b ON a.event_id = b.event_id
           WHERE a.started_at = '2026-11-09T10:00:05Z' AND b.started_at = '2026-11-09T10:00:05Z'"#,
        json!([[true]]),
    )
    .await;
    // More rows than a batch of a join has.
    check(
        "SELECT count(*), sum(a.count) FROM rollup_5s a JOIN rollup_1m b ON a.count = b.count",
        json!([[20_000, 199_990_000]]),
    )
    .await;
    check(
        "SELECT count(*), sum(a.count) FROM rollup_5s a, rollup_1m b WHERE b.count < 2",
        json!([[40_000, 399_980_000]]),
    )
    .await;
    check(
        "SELECT max(m), count(*) FROM (SELECT max(dims) OVER (PARTITION BY service) m FROM rollup_5s)",
        json!([[r#"{"order.channel":"web"}"#, 20_000]]),
    )
    .await;
    check(
        "SELECT count((SELECT max(dims) FROM rollup_1m)) FROM rollup_5s",
        json!([[20_000]]),
    )
    .await;
    check(
        "WITH RECURSIVE n AS (SELECT 0 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 9)
         SELECT count(*) FROM n JOIN rollup_5s r ON n.i = r.count",
        json!([[10]]),
    )
    .await;
    let explained = rows("EXPLAIN SELECT 1").await.unwrap();
    assert!(!explained.is_empty());
}

#[tokio::test]
async fn answers_in_every_format() {
    let query = r#"SELECT event_type, "attr.order.items" items, started_at, ended_at
                   FROM shop."order.placed" WHERE started_at >= '2026-11-09T10:01:38Z'
                   ORDER BY started_at"#;
    let ask = async |format: &str, limit: usize| {
        let body = json!({ "q": query, "format": format, "limit": limit });
        answer(body, SqlLimits::default()).await.unwrap()
    };
    let columns: Json = serde_json::from_slice(&ask("columnar", 10).await.body).unwrap();
    assert_eq!(columns["data"]["data"]["items"], json!([98, 99]));
    assert_eq!(columns["data"]["data"]["ended_at"], json!([null, null]));
    assert_eq!(
        columns["data"]["data"]["started_at"][0],
        "2026-11-09T10:01:38Z"
    );
    let types: Vec<&str> = columns["data"]["schema"]["fields"]
        .as_array()
        .unwrap()
        .iter()
        .map(|field| field["type"].as_str().unwrap())
        .collect();
    assert_eq!(types, ["string", "integer", "datetime", "datetime"]);
    assert_eq!(
        (&columns["count"], &columns["truncated"]),
        (&json!(2), &json!(false))
    );
    let cut: Json = serde_json::from_slice(&ask("row", 1).await.body).unwrap();
    assert_eq!(
        (&cut["count"], &cut["truncated"]),
        (&json!(1), &json!(true))
    );
    let row = json!({
        "event_type": "order.placed", "items": 98,
        "started_at": "2026-11-09T10:01:38Z", "ended_at": null,
    });
    assert_eq!(cut["data"]["rows"], json!([row]));
    let csv = ask("csv", 10).await;
    let csv = String::from_utf8(csv.body).unwrap();
    assert!(
        csv.starts_with("event_type,items,started_at,ended_at\norder.placed,98,2026"),
        "{csv}"
    );
    let arrow = ask("arrow", 10).await;
    let reader = StreamReader::try_new(&arrow.body[..], None).unwrap();
    let rows: usize = reader.map(|batch| batch.unwrap().num_rows()).sum();
    assert_eq!(rows, 2);
}

/// Functions that are bounded answer as before, however they are written.
#[tokio::test]
async fn texts_are_computed() {
    for (query, expected) in [
        ("SELECT 'a' || 'b' || 1", json!([["ab1"]])),
        ("SELECT 'a' || NULL", json!([[null]])),
        (
            "SELECT concat('a', NULL, 'b'), concat_ws('-', 'a', NULL, 'b')",
            json!([["ab", "a-b"]]),
        ),
        (
            "SELECT upper('größe'), lower('ÄB'), initcap('a b')",
            json!([["GRÖSSE", "äb", "A B"]]),
        ),
        (
            "SELECT replace('banana', 'an', '<>'), reverse('abc')",
            json!([["b<><>a", "cba"]]),
        ),
        (
            "SELECT substring('abcdef' FROM 2 FOR 3), left('abc', 2), right('abc', 2)",
            json!([["bcd", "ab", "bc"]]),
        ),
        (
            "SELECT trim(' a '), ltrim(' a'), rtrim('a '), btrim('xax', 'x')",
            json!([["a", "a", "a", "a"]]),
        ),
        (
            "SELECT split_part('a.b.c', '.', 2), substr_index('a.b.c', '.', 2)",
            json!([["b", "a.b"]]),
        ),
        (
            "SELECT overlay('abcdef' PLACING 'XY' FROM 2 FOR 3), translate('abc', 'ab', 'xy')",
            json!([["aXYef", "xyc"]]),
        ),
        (
            "SELECT position('c' IN 'abc'), strpos('abc', 'b'), octet_length('ü')",
            json!([[3, 2, 2]]),
        ),
        (
            "SELECT levenshtein('kitten', 'sitting'), levenshtein('a', NULL)",
            json!([[3, null]]),
        ),
        (
            "SELECT regexp_replace('a1b2', '[0-9]', '#', 'g'), regexp_count('abab', 'a')",
            json!([["a#b#", 2]]),
        ),
        (
            "SELECT 'abc' ~ '^a', 'abc' ~* '^A', 'abc' !~ 'b', 'abc' !~* 'X', regexp_like('abc', 'C', 'i')",
            json!([[true, true, false, true, true]]),
        ),
        (
            "SELECT 'abc' LIKE 'a%', 'abc' ILIKE 'A_C', 'abc' NOT LIKE '%d'",
            json!([[true, true, true]]),
        ),
        (
            "SELECT to_char(TIMESTAMP '2026-11-09T10:00:00', '%Y-%m'), extract(hour FROM TIMESTAMP '2026-11-09T10:00:00')",
            json!([["2026-11", 10]]),
        ),
        (
            "SELECT make_time(10, 30, 0)::text, to_time('10:30:00')::text",
            json!([["10:30:00", "10:30:00"]]),
        ),
        (
            "SELECT arrow_cast(TIMESTAMP '2026-11-09T10:00:00.5', 'Timestamp(Second, None)')",
            json!([["2026-11-09T10:00:00"]]),
        ),
        (
            "SELECT 'abc' LIKE 'a' || '%', 'abc' ~ ('^' || 'b'), find_in_set('b', 'a,b,c')",
            json!([[true, false, 2]]),
        ),
        (
            "SELECT nth_value(count, 3 ORDER BY count) FROM rollup_5s",
            json!([[2]]),
        ),
    ] {
        check(query, expected).await;
    }
    let doubled = (0..10).fold("SELECT 'xxxxxxxx' AS x0".to_owned(), |inner, i| {
        format!("SELECT x{i} || x{i} AS x{} FROM ({inner})", i + 1)
    });
    let query = format!("SELECT length(x10), levenshtein(x10, x10 || 'y') FROM ({doubled})");
    check(&query, json!([[8192, 1]])).await;
    // Of columns, in subqueries, and in aggregations.
    check(
        "SELECT DISTINCT upper(metric) || '!' FROM rollup_5s WHERE metric IN (SELECT lower('ORDERS'))
         ORDER BY 1",
        json!([["ORDERS!"]]),
    )
    .await;
}
