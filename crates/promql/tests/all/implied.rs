//! Labels that selectors do not name: series that stand for others are left out.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use futures::executor::block_on;
use icecore_model::{ImpliedMatchers, Labels};
use icecore_promql::script::{LoadedSample, LoadedValue};
use icecore_promql::{Engine, EngineOptions, MemorySource, QueryTime, QueryValue, Request};

fn engine(implied: ImpliedMatchers) -> Engine {
    Engine::new(EngineOptions {
        implied: Arc::new(implied),
        ..EngineOptions::default()
    })
}

/// Each with one sample, 1 at time 0.
fn source() -> MemorySource {
    let mut source = MemorySource::default();
    for labels in [
        &[("__name__", "m"), ("host", "a")][..],
        &[("__name__", "m"), ("host", "b"), ("_aggregate", "RAW")],
        &[("__name__", "m"), ("_aggregate", "SUM")],
        &[
            ("__name__", "m:1h-sum"),
            ("host", "a"),
            ("__rollup__", "1h-sum"),
        ],
        &[
            ("__name__", "m:groupby"),
            ("_aggregate", "SUM"),
            ("__rollup__", "groupby"),
        ],
        &[
            ("__name__", "m:1h-sum-groupby"),
            ("_aggregate", "SUM"),
            ("__rollup__", "1h-sum-groupby"),
        ],
    ] {
        let sample = LoadedSample {
            timestamp_ms: 0,
            value: LoadedValue::Float(1.0),
            start_ms: None,
        };
        source.add(&Labels::from_pairs(labels.iter().copied()), sample);
    }
    source
}

fn answer(engine: &Engine, query: &str) -> QueryValue {
    let request = Request {
        query: query.to_string(),
        time: QueryTime::Instant { time_ms: 0 },
        lookback_ms: None,
        limit: None,
        timeout: None,
        counts_touched: false,
        max_source_resolution: None,
        rollup_strict: false,
    };
    let (source, canceled) = (source(), AtomicBool::new(false));
    let answer = engine.execute(&source, &request, &canceled);
    block_on(answer).unwrap().value
}

fn series(engine: &Engine, query: &str) -> usize {
    match answer(engine, query) {
        QueryValue::Vector(samples) => samples.len(),
        other => panic!("{query}: {other:?}"),
    }
}

#[test]
fn rollups_are_found_by_name_or_label_only() {
    let engine = engine(ImpliedMatchers::default());
    for (query, expected) in [
        ("m", 3),
        (r#"{"m:1h-sum"}"#, 1),
        (r#"{__name__=~"m.*"}"#, 3),
        (r#"{host="a"}"#, 1),
        (r#"{host="a",__rollup__=~".*"}"#, 2),
        (r#"{_aggregate="SUM"}"#, 2),
        (r#"{_aggregate="SUM",__rollup__=~".*"}"#, 3),
        (
            r#"sum without (host) (count_over_time({__name__=~"m.*"}[5m]))"#,
            3,
        ),
    ] {
        assert_eq!(series(&engine, query), expected, "{query}");
    }
}

#[test]
fn aggregates_are_left_out_if_somebody_wants_that() {
    let implied = ImpliedMatchers::default().without_aggregates("RAW");
    let engine = engine(implied);
    for (query, expected) in [
        ("m", 2),
        (r#"m{_aggregate="SUM"}"#, 1),
        (r#"m{_aggregate=~".*"}"#, 3),
        (r#"{host=~".+"}"#, 2),
        (r#"{_aggregate="SUM"}"#, 2),
        (r#"{"m:groupby"}"#, 0),
        ("count_over_time(m[5m])", 2),
        // What is implied says nothing about the labels of what is absent.
        ("absent(m)", 0),
        (r#"absent(n{host="a"})"#, 1),
    ] {
        assert_eq!(series(&engine, query), expected, "{query}");
    }
    let QueryValue::Vector(absent) = answer(&engine, r#"absent(n{host="a"})"#) else {
        panic!("a vector")
    };
    assert_eq!(absent[0].labels, Labels::from_pairs([("host", "a")]));
}
