//! When queries end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use icecore_event_sql::{SqlEngine, SqlLimits, SqlRequest};
use serde_json::json;

use crate::events::{answer, rows, view};

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

/// Each call makes several times what it is given.
#[tokio::test]
async fn nested_functions_end_at_the_memory_of_a_query() {
    let nested = |outer: &dyn Fn(String) -> String| {
        (0..40).fold("'xxxxxxxx'".to_owned(), |inner, _| outer(inner))
    };
    // Of a column nothing is known before the query runs. Each has a name of its own: DataFusion
    // takes a projection that repeats the one below it for the same one.
    let of_column = |levels: usize, outer: &dyn Fn(&str) -> String| {
        let first = "SELECT metric AS x0 FROM rollup_5s".to_owned();
        let query = (0..levels).fold(first, |inner, i| {
            let made = outer(&format!("x{i}"));
            format!("SELECT {made} AS x{} FROM ({inner})", i + 1)
        });
        format!("SELECT max(octet_length(x{levels})) FROM ({query})")
    };
    let queries = [
        format!(
            "SELECT length({})",
            nested(&|x| format!("replace({x}, 'x', 'xxxx')"))
        ),
        format!(
            "SELECT length({})",
            nested(&|x| format!("regexp_replace({x}, 'x', 'xx', 'g')"))
        ),
        of_column(12, &|x| format!("{x} || {x}")),
        of_column(12, &|x| format!("concat({x}, {x})")),
        of_column(8, &|x| format!("concat_ws('-', {x}, {x}, {x})")),
        of_column(9, &|x| format!("replace({x}, 'o', 'oooo')")),
        of_column(12, &|x| format!("overlay({x} placing {x} from 1 for 0)")),
    ];
    let limits = SqlLimits {
        memory_bytes: 32 << 20,
        ..SqlLimits::default()
    };
    for query in queries {
        let began = Instant::now();
        let problem = answer(json!({ "q": query }), limits).await.unwrap_err();
        let (status, code) = (problem.status, problem.code);
        assert_eq!(
            (status, code),
            (422, "sql.limit"),
            "{query}: {}",
            problem.detail
        );
        assert!(!problem.detail.contains("written out"), "{query}");
        assert!(began.elapsed() < DEADLINE, "{query}");
    }
}

#[tokio::test]
async fn work_on_long_texts_ends_in_time() {
    let long = (0..12).fold("metric".to_owned(), |inner, _| {
        format!("replace({inner}, 'o', 'oo')")
    });
    let limits = SqlLimits {
        time: Duration::from_millis(300),
        memory_bytes: MUCH_MEMORY,
        ..SqlLimits::default()
    };
    let distances = format!(
        "SELECT sum(levenshtein(a.x, b.x)) FROM (SELECT {long} AS x FROM rollup_5s) a,
         (SELECT {long} AS x FROM rollup_5s) b, rollup_5s c"
    );
    let began = Instant::now();
    let problem = answer(json!({ "q": distances }), limits).await.unwrap_err();
    assert_eq!(
        (problem.status, problem.code),
        (422, "sql.limit"),
        "{}",
        problem.detail
    );
    assert!(began.elapsed() < DEADLINE, "{:?}", began.elapsed());
    // One row alone would take minutes.
    let doubled = (0..12).fold(format!("SELECT '{}' AS x0", "x".repeat(16)), |inner, i| {
        format!("SELECT x{i} || x{i} AS x{} FROM ({inner})", i + 1)
    });
    let query = format!("SELECT levenshtein(x12, x12) FROM ({doubled})");
    let problem = answer(json!({ "q": query }), limits).await.unwrap_err();
    assert_eq!(
        (problem.status, problem.code),
        (422, "sql.limit"),
        "{}",
        problem.detail
    );
    assert!(problem.detail.contains("too long"), "{}", problem.detail);
}

/// The optimizer writes a text of a subquery wherever a query refers to it.
#[tokio::test]
async fn texts_and_columns_of_a_query_are_bounded() {
    let columns = |count: usize, of: &str| {
        let columns: Vec<String> = (0..count).map(|i| format!("{of} c{i}")).collect();
        columns.join(", ")
    };
    let text = "x".repeat(5_000);
    let repeated = format!(
        "SELECT {} FROM (SELECT '{text}' AS x, count AS n FROM rollup_5s)",
        columns(100, "x")
    );
    let computed: Vec<String> = (0..300)
        .map(|i| format!("upper(metric) || 'c{i}' c{i}"))
        .collect();
    let computed = format!("SELECT {} FROM rollup_5s", computed.join(", "));
    for query in [repeated, computed] {
        let problem = answer(json!({ "q": query }), SqlLimits::default())
            .await
            .unwrap_err();
        let (status, code) = (problem.status, problem.code);
        assert_eq!((status, code), (422, "sql.limit"), "{}", problem.detail);
    }
    let few = format!("SELECT {} FROM rollup_5s", columns(50, "upper(metric)"));
    assert!(
        answer(json!({ "q": few }), SqlLimits::default())
            .await
            .is_ok()
    );
}

#[tokio::test]
async fn functions_that_are_on_no_list_are_refused() {
    for query in [
        "SELECT arrow_cast(1, 'FixedSizeBinary(2000000000)')",
        "SELECT regexp_match('a', 'b')",
        "SELECT version()",
        "SELECT * FROM generate_series(1, 1000000000000)",
        "SELECT * FROM range(1, 1000000000000)",
        "SELECT approx_percentile_cont(count, 0.5, 2000000000) FROM rollup_5s",
        "SELECT approx_percentile_cont_with_weight(count, 1, 0.5) FROM rollup_5s",
        "SELECT regexp_like(metric, metric) FROM rollup_5s",
        "SELECT regexp_replace(metric, metric, 'x') FROM rollup_5s",
        "SELECT metric ~ metric FROM rollup_5s",
        "SELECT metric LIKE metric FROM rollup_5s",
        "SELECT regexp_like(metric, 'a', metric) FROM rollup_5s",
        "SELECT regexp_like(metric, '((((x{1,100}){1,100}){1,100}){1,100})') FROM rollup_5s",
        "SELECT regexp_count(metric, 'x{1,5000}') FROM rollup_5s",
        "SELECT metric LIKE '%a_________________' FROM rollup_5s",
        "SELECT metric SIMILAR TO 'a' FROM rollup_5s",
        "SELECT metric ~~ metric FROM rollup_5s",
        "SELECT array_agg(dims) OVER (ORDER BY count) FROM rollup_5s",
        "SELECT string_agg(dims, ',') OVER () FROM rollup_5s",
        "SELECT unnest(array_agg(count)) FROM rollup_5s",
    ] {
        let refused = answer(json!({ "q": query }), SqlLimits::default()).await;
        let problem = refused.unwrap_err();
        assert_eq!(problem.status, 400, "{query}: {}", problem.detail);
    }
}

/// Fails unless each query ends at a limit, and says so by all these words.
async fn check_limited(queries: &[String], limits: SqlLimits, words: &str) {
    for query in queries {
        let began = Instant::now();
        let problem = answer(json!({ "q": query }), limits).await.unwrap_err();
        let (status, code) = (problem.status, problem.code);
        let detail = &problem.detail;
        assert_eq!((status, code), (422, "sql.limit"), "{query}: {detail}");
        assert!(detail.contains(words), "{query}: {detail}");
        assert!(began.elapsed() < DEADLINE, "{query}");
    }
}

#[tokio::test]
async fn queries_have_a_size_before_they_are_planned() {
    let columns = |count: usize| {
        let columns: Vec<String> = (1..=count).map(|i| format!("count + {i}")).collect();
        columns.join(", ")
    };
    let cubes = [
        format!(
            "SELECT count(*) FROM rollup_5s GROUP BY CUBE({})",
            columns(32)
        ),
        format!(
            "EXPLAIN SELECT count(*) FROM rollup_5s GROUP BY metric, CUBE({})",
            columns(32)
        ),
    ];
    check_limited(&cubes, SqlLimits::default(), "grouping sets").await;
    let small = format!(
        "SELECT count(*) FROM rollup_5s GROUP BY CUBE({})",
        columns(3)
    );
    let found = answer(json!({ "q": small }), SqlLimits::default()).await;
    assert!(found.is_ok());
    let chain = |links: usize| {
        let links = (0..links).map(|i| {
            let next = i + 1;
            format!(", t{next} AS (SELECT c FROM t{i} UNION ALL SELECT c FROM t{i})")
        });
        let links: String = links.collect();
        format!("WITH t0 AS (SELECT 1 AS c){links}")
    };
    let chains = [
        format!("{} SELECT sum(c) FROM t30", chain(30)),
        format!("{} SELECT 1 WHERE 2 < (SELECT max(c) FROM t30)", chain(30)),
    ];
    check_limited(&chains, SqlLimits::default(), "WITH").await;
    let found = rows(&format!("{} SELECT sum(c) FROM t6", chain(6))).await;
    assert_eq!(json!(found.unwrap()), json!([[64]]));
}

/// A query of so many subqueries, each of which computes a column of the one in it.
fn in_subqueries(levels: usize, first: &str, outer: &dyn Fn(&str) -> String) -> String {
    let first = format!("SELECT {first} AS x0, count, metric, interval_start FROM rollup_5s");
    let query = (0..levels).fold(first, |inner, i| {
        let made = outer(&format!("x{i}"));
        let next = i + 1;
        format!("SELECT {made} AS x{next}, count, metric, interval_start FROM ({inner})")
    });
    format!("SELECT count(*) FROM ({query}) WHERE x{levels} IS NOT NULL")
}

/// A query of an expression that has another in it, and so on.
fn nested(levels: usize, first: &str, outer: &dyn Fn(String) -> String) -> String {
    let made = (0..levels).fold(first.to_owned(), |inner, _| outer(inner));
    format!("SELECT {made} FROM rollup_5s LIMIT 1")
}

/// A condition above a hundred tables.
fn above_unions(terms: usize) -> String {
    let ten = |table: &str| vec![format!("SELECT c FROM {table}"); 10].join(" UNION ALL ");
    let terms: Vec<String> = (0..terms).map(|i| format!("c < {i}")).collect();
    format!(
        "WITH t0 AS (SELECT count AS c FROM rollup_5s WHERE count < 10), t1 AS ({}), t2 AS ({})
         SELECT count(*) FROM t2 WHERE {}",
        ten("t0"),
        ten("t1"),
        terms.join(" OR ")
    )
}

/// Conditions on a column of the query around, which is two to this power of columns.
fn of_outer_column(levels: usize) -> String {
    let first = "SELECT count AS x0 FROM rollup_5s".to_owned();
    let sums = (0..levels).fold(first, |inner, i| {
        format!("SELECT x{i} + x{i} AS x{} FROM ({inner})", i + 1)
    });
    let terms: Vec<String> = (0..20).map(|i| format!("t.x{levels} > {i}")).collect();
    format!(
        "SELECT count(*) FROM ({sums}) t
         WHERE EXISTS (SELECT 1 FROM rollup_1d WHERE {})",
        terms.join(" OR ")
    )
}

/// Subqueries of a condition in each other, by the names of `WITH`.
fn in_conditions(levels: usize) -> String {
    let links = (0..levels).map(|i| {
        let next = i + 1;
        format!(", t{next} AS (SELECT count FROM rollup_1d WHERE count < 5 AND EXISTS (SELECT 1 FROM t{i}))")
    });
    let links: String = links.collect();
    format!(
        "WITH t0 AS (SELECT count FROM rollup_1d WHERE count < 5){links}
         SELECT count(*) FROM t{levels}"
    )
}

fn year(x: &str) -> String {
    format!("CASE WHEN date_part('year', {x}) = 2026 THEN interval_start END")
}

fn in_list(x: &str) -> String {
    format!("CASE WHEN {x} IN (1, 2, 3) THEN count END")
}

fn compared(x: &str) -> String {
    format!("CASE WHEN {x} = 'a' THEN 'a' WHEN metric = 'b' THEN 'b' ELSE 'c' END")
}

fn cased_text(x: &str) -> String {
    format!("CASE WHEN count > 1 THEN upper({x}) ELSE metric END")
}

fn case(x: String) -> String {
    format!("CASE WHEN {x} THEN count > 1 ELSE count > 2 END")
}

fn coalesced(x: String) -> String {
    format!("coalesce({x}, count > 1, count > 2)")
}

fn of_subquery(x: String) -> String {
    format!("coalesce((SELECT max(count) + {x} FROM rollup_1d), 1)")
}

fn of_any(x: String) -> String {
    format!("1 < ANY (SELECT count FROM rollup_1d WHERE {x})")
}

/// The optimizer writes columns out, some expressions twice or more, and conditions for each table.
#[tokio::test]
async fn expressions_have_a_size_before_they_are_optimized() {
    let queries = [
        in_subqueries(20, "count", &|x| format!("{x} + {x}")),
        nested(30, "count", &|x| format!("coalesce({x}, count)")),
        nested(30, "(count > 1)", &|x| {
            format!("({x} BETWEEN false AND true)")
        }),
        nested(15, "(count > 1)", &case),
        nested(8, "(count > 1)", &coalesced),
        nested(15, "(count > 1)", &|x| {
            format!("nvl2({x}, count > 1, count > 2)")
        }),
        in_subqueries(7, "interval_start", &year),
        in_subqueries(7, "count", &in_list),
        in_subqueries(10, "metric", &compared),
        in_subqueries(20, "metric", &cased_text),
        nested(6, "1", &of_subquery),
        format!(
            "SELECT count(*) FROM rollup_5s WHERE {}",
            (0..6).fold("count > 1".into(), |x, _| of_any(x))
        ),
        above_unions(1_000),
        of_outer_column(13),
        in_conditions(9),
    ];
    check_limited(&queries, SqlLimits::default(), "written out").await;
}

/// Columns of columns, as questions have them.
const STEP_BY_STEP: &str = "
    WITH a AS (
        SELECT count, coalesce(json_get(dims, 'order.channel'), 'none') AS channel,
            CASE WHEN extract(month FROM interval_start) < 4 THEN 'spring'
                WHEN extract(month FROM interval_start) < 7 THEN 'summer'
                WHEN extract(month FROM interval_start) < 10 THEN 'autumn'
                ELSE 'winter' END AS season
        FROM rollup_5s WHERE extract(year FROM interval_start) = 2026
    ), b AS (
        SELECT *, CASE WHEN season = 'winter' AND channel = 'web' THEN 'a'
            WHEN season = 'summer' THEN 'b' WHEN season IN ('spring', 'autumn') THEN 'c'
            ELSE 'd' END AS kind
        FROM a
    ), c AS (
        SELECT *, CASE WHEN kind = 'a' THEN count * 2 WHEN kind IN ('b', 'c') THEN count * 3
            ELSE count END AS value
        FROM b
    )
    SELECT kind, count(*) FROM c WHERE value > 10 AND kind <> 'c' GROUP BY kind ORDER BY kind";

/// Queries within the limits are planned and answered soon.
#[tokio::test]
async fn expressions_within_their_size_are_answered() {
    let queries = [
        in_subqueries(10, "count", &|x| format!("{x} + {x}")),
        nested(10, "(count > 1)", &case),
        nested(6, "(count > 1)", &coalesced),
        in_subqueries(4, "interval_start", &year),
        in_subqueries(4, "count", &in_list),
        in_subqueries(6, "metric", &compared),
        in_subqueries(10, "metric", &cased_text),
        nested(3, "1", &of_subquery),
        above_unions(100),
        of_outer_column(7),
        in_conditions(8),
        STEP_BY_STEP.to_owned(),
    ];
    for query in queries {
        let began = Instant::now();
        let found = rows(&query).await;
        assert!(found.is_ok(), "{query}: {found:?}");
        assert!(began.elapsed() < DEADLINE, "{query}: {:?}", began.elapsed());
    }
}

/// `CASE` in the condition of another, with operators between them: planning looks for the type of
/// each from each level down.
#[tokio::test]
async fn case_has_a_depth_before_it_is_planned() {
    let of_sum = |x: String| format!("CASE WHEN {x} + 1 + 1 + 1 + 1 + 1 > 1 THEN sum END");
    let queries = [
        nested(7, "count", &of_sum),
        nested(22, "interval_start", &|x| year(&x)),
    ];
    check_limited(&queries, SqlLimits::default(), "deeply").await;
    let found = rows(&nested(3, "count", &of_sum)).await;
    assert!(found.is_ok(), "{found:?}");
}

/// Texts of the store, and those that aggregations make, are counted where operators repeat them.
#[tokio::test]
async fn rows_that_operators_repeat_are_counted() {
    let long = "SELECT string_agg(dims, ',') AS x FROM rollup_5s";
    let repeated = [
        format!("SELECT a.x, b.count FROM ({long}) a CROSS JOIN rollup_5s b"),
        format!(
            "SELECT a.x, b.count FROM rollup_5s b LEFT JOIN ({long}) a ON length(a.x) > b.count"
        ),
        format!("SELECT ({long}), count FROM rollup_5s"),
    ];
    check_limited(&repeated, SqlLimits::default(), "texts of rows").await;
    let limits = SqlLimits {
        memory_bytes: 1_000_000,
        // Nothing else takes memory for rows.
        threads: 1,
        ..SqlLimits::default()
    };
    let columns: Vec<String> = (0..20)
        .map(|i| format!("sum(octet_length(CASE WHEN count > {i} THEN dims ELSE metric END)) c{i}"))
        .collect();
    let few = [
        "SELECT max(y) FROM (SELECT max(dims) OVER () AS y, count FROM rollup_5s)".to_owned(),
        format!("SELECT {} FROM rollup_5s", columns.join(", ")),
    ];
    check_limited(&few, limits, "texts of rows").await;
    for query in few {
        let found = answer(json!({ "q": query }), SqlLimits::default()).await;
        assert!(found.is_ok(), "{query}");
    }
}

#[tokio::test]
async fn texts_of_functions_have_a_length() {
    let text = "x".repeat(8_000);
    let (few, many) = ("y".repeat(10), "y".repeat(200));
    let constants = [format!(
        "SELECT count(*) FROM rollup_5s WHERE dims = replace('{text}', 'x', '{few}')"
    )];
    check_limited(&constants, SqlLimits::default(), "of constants").await;
    let longer = [format!(
        "SELECT max(octet_length(replace(replace(metric, 'o', '{text}'), 'x', '{many}')))
         FROM rollup_5s"
    )];
    let limits = SqlLimits {
        memory_bytes: MUCH_MEMORY,
        ..SqlLimits::default()
    };
    check_limited(&longer, limits, "longer than").await;
    // The work for one row alone would be too long.
    let matched = [
        "regexp_count(x, 'a*b|c')",
        "regexp_instr(x, 'a*b|c')",
        "regexp_replace(x, 'a*b|c', '', 'g')",
    ];
    let matched = matched.map(|call| {
        format!("SELECT {call} FROM (SELECT replace(metric, 'o', '{text}') AS x FROM rollup_5s)")
    });
    check_limited(&matched, SqlLimits::default(), "too long").await;
    let once = format!(
        "SELECT count(*) FROM (SELECT replace(metric, 'o', '{text}') AS x FROM rollup_5s LIMIT 9)
         WHERE regexp_replace(x, 'x+', '') = 'rders' AND strpos(x, 'd') = 8002"
    );
    assert_eq!(json!(rows(&once).await.unwrap()), json!([[9]]));
}
