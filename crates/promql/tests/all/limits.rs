//! Queries over their limits fail before they allocate.

use std::sync::atomic::AtomicBool;

use futures::executor::block_on;
use icecore_model::Labels;
use icecore_promql::script::{LoadedSample, LoadedValue};
use icecore_promql::{Answer, Engine, EngineOptions, Error, MemorySource, QueryTime, Request};

/// Small, so that a query that allocates before it checks would still be fast.
const MEMORY_MAX: usize = 1 << 20;

fn source() -> MemorySource {
    let mut source = MemorySource::default();
    for id in 0..10 {
        let labels = Labels::from_pairs([("__name__", "counter"), ("id", &id.to_string())]);
        for second in 0..2000 {
            let sample = LoadedSample {
                timestamp_ms: second * 1000,
                value: LoadedValue::Float(f64::from(id) + second as f64),
                start_ms: None,
            };
            source.add(&labels, sample);
        }
    }
    source
}

fn execute(
    engine: &Engine,
    source: &MemorySource,
    query: &str,
    time: QueryTime,
) -> Result<Answer, Error> {
    let request = Request {
        query: query.to_string(),
        time,
        lookback_ms: Some(i64::MAX),
        limit: None,
        timeout: None,
        counts_touched: false,
        max_source_resolution: None,
        rollup_strict: false,
    };
    block_on(engine.execute(source, &request, &AtomicBool::new(false)))
}

/// Times whose distance does not fit an `i64`.
#[test]
fn ends_of_time_are_in_range() {
    let mut source = MemorySource::default();
    for (timestamp_ms, value) in [(i64::MIN, 1.0), (i64::MAX, 3.0)] {
        let sample = LoadedSample {
            timestamp_ms,
            value: LoadedValue::Float(value),
            start_ms: None,
        };
        source.add(&Labels::from_pairs([("__name__", "counter")]), sample);
    }
    let engine = Engine::default();
    let range = |start_ms, end_ms, step_ms| QueryTime::Range {
        start_ms,
        end_ms,
        step_ms,
    };
    for query in [
        "counter smoothed",
        "rate(counter[292y])",
        "counter @ end() - counter",
    ] {
        for time_ms in [i64::MIN, -1, 0, 1, i64::MAX] {
            let _ = execute(&engine, &source, query, QueryTime::Instant { time_ms });
        }
        let _ = execute(&engine, &source, query, range(i64::MIN, i64::MAX, i64::MAX));
        let refused = execute(&engine, &source, query, range(i64::MIN, i64::MAX, 1));
        assert!(
            matches!(refused, Err(Error::Invalid(_))),
            "{query}: {refused:?}"
        );
    }
}

#[test]
fn memory_is_asked_for_first() {
    let engine = Engine::new(EngineOptions {
        memory_max: MEMORY_MAX,
        ..EngineOptions::default()
    });
    let source = source();
    let queries = [
        // A row for each value, with a slot for each step.
        "count_values(\"value\", counter)",
        "sum_over_time(count_values(\"value\", counter)[1000s:1s])",
        // Rows of a million steps, of which few have a sample.
        "sum(sum_over_time(counter[900000s:1s]))",
        "sum(sum_over_time(rate(counter[1m])[900000s:1s]))",
        // One step that is repeated a million times.
        "sum(sum_over_time((counter @ 1000)[900000s:1s]))",
        "sum_over_time(vector(time())[900000s:1s])",
        "sum_over_time(topk(2, missing)[900000s:1s])",
    ];
    for query in queries {
        let time = QueryTime::Range {
            start_ms: 0,
            end_ms: 2_000_000,
            step_ms: 1000,
        };
        let answer = execute(&engine, &source, query, time);
        assert!(
            matches!(&answer, Err(Error::LimitReached(why)) if why.contains("memory")),
            "{query}: {answer:?}"
        );
    }
}

#[test]
fn joins_share_the_labels_that_they_keep() {
    const SERIES: usize = 100;
    let mut source = MemorySource::default();
    let long = "x".repeat(1 << 10);
    for id in 0..SERIES {
        let labels = [("__name__", "x"), ("id", &id.to_string()), ("long", &long)];
        let sample = LoadedSample {
            timestamp_ms: 0,
            value: LoadedValue::Float(1.0),
            start_ms: None,
        };
        source.add(&Labels::from_pairs(labels), sample);
    }
    let engine = Engine::default();
    let time = QueryTime::Instant { time_ms: 0 };
    let peak = |query: &str| {
        let answer = execute(&engine, &source, query, time).unwrap();
        answer.stats.memory_peak_bytes
    };
    let (kept, made) = (peak("x >= x"), peak("x - x"));
    assert!(
        kept + (SERIES as u64) * (1 << 10) <= made,
        "{kept} and {made} bytes"
    );
}

/// Each call repeats a label four times: sixteen of them would make 32 GiB of eight bytes.
#[test]
fn nested_label_functions_end_at_their_limit() {
    let engine = Engine::new(EngineOptions {
        memory_max: MEMORY_MAX,
        ..EngineOptions::default()
    });
    let source = source();
    let time = QueryTime::Instant { time_ms: 100_000 };
    let nested = |outer: &dyn Fn(String) -> String, times: usize| {
        let first = "label_replace(counter, \"a\", \"xxxxxxxx\", \"\", \"\")".to_string();
        (0..times).fold(first, |inner, _| outer(inner))
    };
    let join = |v: String| format!("label_join({v}, \"a\", \"\", \"a\", \"a\", \"a\", \"a\")");
    let replace = |v: String| format!("label_replace({v}, \"a\", \"$1$1$1$1\", \"a\", \"(.+)\")");
    for (query, reason) in [
        (nested(&join, 16), "query.label_value_bytes_max"),
        (nested(&replace, 16), "query.label_value_bytes_max"),
        // Ten rows whose values are as long as they may be, several times.
        (
            (0..5).fold(nested(&join, 6), |inner, i| {
                format!("label_join({inner}, \"b{i}\", \"\", \"a\")")
            }),
            "query.max_memory",
        ),
        // The labels of one row for each of ten.
        (
            format!(
                "counter * on () group_left (b, c, d, e, f) {}",
                ["b", "c", "d", "e", "f"].iter().fold(
                    nested(&join, 6).replace("counter", "counter{id=\"0\"}"),
                    |inner, label| format!("label_join({inner}, \"{label}\", \"\", \"a\")"),
                )
            ),
            "query.max_memory",
        ),
    ] {
        let answer = execute(&engine, &source, &query, time);
        assert!(
            matches!(&answer, Err(Error::LimitReached(why)) if why.contains(reason)),
            "{query}: {answer:?}"
        );
    }
    assert!(execute(&engine, &source, &nested(&join, 6), time).is_ok());
}

/// A single row can take hours, so cancellation is checked between its windows.
#[test]
fn a_long_row_ends_with_the_time_of_its_query() {
    let engine = Engine::new(EngineOptions {
        timeout: std::time::Duration::from_millis(200),
        ..EngineOptions::default()
    });
    let query =
        "sum(quantile_over_time(0.5, quantile_over_time(0.5, vector(time())[5d:1s])[5d:1s]))";
    let source = MemorySource::default();
    let outcome = execute(&engine, &source, query, QueryTime::Instant { time_ms: 0 });
    let error = outcome.expect_err("hours of work were done in no time");
    assert_eq!(
        error.to_string(),
        "query timed out in expression evaluation"
    );
}
