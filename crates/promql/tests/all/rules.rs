//! Rules change what a query costs, not what it answers.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use futures::executor::block_on;
use icecore_model::Labels;
use icecore_promql::script::{LoadedSample, LoadedValue};
use icecore_promql::{Engine, EngineOptions, MemorySource, QueryTime, Request, Rules};
use proptest::prelude::*;

use crate::conformance::{given_scripts, own_scripts, run_all, script_options};

/// Queries in which a careless rule would change the answer. The metrics are `a`, `b` and
/// `c_total`.
const QUERIES: [&str; 57] = [
    // Matchers that may be pushed to the other side, and those that may not.
    r#"a{host="x"} / b"#,
    r#"a{host="x"} * on (host) group_left sum by (host) (b)"#,
    r#"a{host="x", code="1"} * on (host) group_right b"#,
    r#"a{host=~"x|y"} - ignoring (code) group_left sum without (code) (b{host!="x"})"#,
    r#"a{host="x"} and b"#,
    r#"a and b{host="x"}"#,
    r#"a unless b{host="x"}"#,
    r#"a{host="x"} unless b"#,
    r#"a{host="x"} or b"#,
    r#"a or b{host="x"}"#,
    r#"a{host="x"} and on (code) b"#,
    r#"a{host=""} + on (host) group_left sum by (host) (b)"#,
    r#"sum by (host) (a{host!="x"}) + sum by (host) (b)"#,
    r#"sum by (host) (a{host="x"}) + fill (0) sum by (host) (b)"#,
    r#"sum by (host) (a{host="x"}) + fill_left (0) sum by (host) (b)"#,
    r#"sum by (host) (a{host="x"}) + fill_right (0) sum by (host) (b)"#,
    r#"a{host="x"} * on (code) group_left (host) sum by (code, host) (b{host="y"})"#,
    r#"count_values by (host) ("host", a{host="x"}) * on (host) sum by (host) (b)"#,
    r#"sum by (host) (a{host="1"}) + on (host) count_values("host", b)"#,
    r#"sum by (host) (a{host="x"}) + on (host) label_replace(sum by (code) (b), "host", "x", "code", "1")"#,
    r#"sum by (host) (a{host="x"}) + on (host) absent(b{host="x", code="9"})"#,
    r#"sum by (host) (a{host="x"}) + on (host) (sum by (host) (b) or on (host) sum by (host, code) (b))"#,
    r#"sum by (host) (a{host="x"}) + on (host) (sum by (host) (b) unless on (host) a{host="y"})"#,
    r#"sum by (host) (a{host="x"}) + (sum by (host) (b) * sum by (host) (c_total))"#,
    r#"sum by (host) (a) * sum by (host) (b{host=~"x|y"}) * sum by (host) (c_total{host!="y"})"#,
    r#"a{host="x"} * on (host, code) topk(1, b)"#,
    r#"a{host="x"} * on (host, code) topk by (host) (1, b)"#,
    r#"a{host="x"} * on (host, code) limitk by (host) (1, b)"#,
    r#"a{host="x"} * on (host, code) limit_ratio(0.5, b)"#,
    r#"a{host="x"} > bool on (host, code) -abs(b) * 2"#,
    r#"a{host="x"} + on (host, code) max_over_time(b[2m:30s])"#,
    r#"(a{host="x"} + on (host) group_left sum by (host) (b)) / on (code) group_left sum by (code) (c_total)"#,
    r#"scalar(a{host="x", code="1"}) * b"#,
    r#"sum by (host) (a) == sum by (host) (b{host="x"}) * 0 + sum by (host) (a)"#,
    // Scans that serve several selectors.
    r#"sum(rate(c_total{code="1"}[1m])) / sum(rate(c_total[1m]))"#,
    r#"sum(c_total) - sum(c_total offset 1m)"#,
    r#"max_over_time(a[3m]) - ignoring (code) group_left sum without (code) (a{code="1"})"#,
    r#"a{code="1"} - ignoring (code) sum without (code) (a{code=~"1|2", host=~".+"})"#,
    r#"{host="x"} and on (code) {host="x", code="1"}"#,
    r#"topk(0, a) or a"#,
    r#"timestamp(a) - a + rate(a[2m])"#,
    r#"a @ 60 + a + a offset -30s"#,
    r#"sum(last_over_time(a[1m:])) "#,
    // Vectors that occur twice.
    r#"sum(rate(c_total[1m])) / (1 + sum(rate(c_total[1m])))"#,
    r#"rate(a[1m]) + rate(a[1m]) * rate(a[1m])"#,
    r#"max_over_time(rate(c_total[1m])[2m:30s]) - rate(c_total[1m])"#,
    r#"max_over_time(rate(c_total[1m])[2m:30s]) - max_over_time(rate(c_total[1m])[2m:30s])"#,
    r#"sum(a @ 60) - sum(a @ 60) + max_over_time(sum(a @ 60)[2m:30s])"#,
    r#"(avg(a) + 1) / (avg(a) + 1)"#,
    r#"sort(sum by (host) (a)) or sort(sum by (host) (a))"#,
    r#"scalar(sum(a)) + sum(a) + scalar(sum(a))"#,
    r#"rate(a[1m:30s]) + rate(a[1m:30s])"#,
    // Rows that are dropped early, and constants.
    r#"topk(2, a)"#,
    r#"bottomk by (code) (1, b) + on (host, code) topk(scalar(count(a)), a)"#,
    r#"topk(2, a * (0 / 0))"#,
    r#"a * (2 ^ 3 - -1) > bool scalar(vector(1 + 1)) * min_of(1, 2)"#,
    r#"quantile(1 / 2, a) + vector(3 > bool 2)"#,
];

/// Value, warnings and infos; errors as text.
fn answer(source: &MemorySource, query: &str, time: QueryTime, rules: Rules) -> String {
    let engine = Engine::new(EngineOptions {
        rules,
        ..EngineOptions::default()
    });
    let request = Request {
        query: query.to_string(),
        time,
        lookback_ms: None,
        limit: None,
        timeout: None,
        counts_touched: false,
        max_source_resolution: None,
        rollup_strict: false,
    };
    let never = AtomicBool::new(false);
    match block_on(engine.execute(source, &request, &never)) {
        Ok(answer) => format!(
            "{:?} {:?} {:?}",
            answer.value, answer.warnings, answer.infos
        ),
        Err(error) => error.to_string(),
    }
}

fn each_rule_alone() -> [Rules; 5] {
    let only = |change: fn(&mut Rules)| {
        let mut rules = Rules::NONE;
        change(&mut rules);
        rules
    };
    [
        only(|rules| rules.fold_constants = true),
        only(|rules| rules.push_matchers = true),
        only(|rules| rules.merge_scans = true),
        only(|rules| rules.fuse_selection = true),
        only(|rules| rules.share_expressions = true),
    ]
}

/// Samples every 15 s, some missing, by metric, host and code.
type Table = BTreeMap<(usize, usize, usize), Vec<Option<i32>>>;

fn tables() -> impl Strategy<Value = Table> {
    let samples = prop::collection::vec(prop::option::weighted(0.8, -3..9i32), 24);
    prop::collection::btree_map((0..3usize, 0..4usize, 0..3usize), samples, 0..20)
}

fn source_of(table: &Table) -> MemorySource {
    let mut source = MemorySource::default();
    for ((metric, host, code), samples) in table {
        let labels = Labels::from_pairs([
            ("__name__", ["a", "b", "c_total"][*metric]),
            ("host", ["x", "y", "1", ""][*host]),
            ("code", ["1", "2", ""][*code]),
        ]);
        for (i, value) in samples.iter().enumerate() {
            if let Some(value) = value {
                let sample = LoadedSample {
                    timestamp_ms: 15_000 * i as i64,
                    value: LoadedValue::Float(f64::from(*value)),
                    start_ms: None,
                };
                source.add(&labels, sample);
            }
        }
    }
    source
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn answers_do_not_depend_on_rules(table in tables()) {
        let source = source_of(&table);
        let times = [
            QueryTime::Instant { time_ms: 120_000 },
            QueryTime::Range { start_ms: 0, end_ms: 360_000, step_ms: 40_000 },
        ];
        for query in QUERIES {
            for time in times {
                let expected = answer(&source, query, time, Rules::NONE);
                // Duplicates that match nothing are only detected when everything is read.
                if expected.contains("duplicate series") || expected.contains("multiple matches") {
                    continue;
                }
                for rules in each_rule_alone().into_iter().chain([Rules::ALL]) {
                    let found = answer(&source, query, time, rules);
                    prop_assert_eq!(&found, &expected, "{} with {:?}", query, rules);
                }
            }
        }
    }
}

#[test]
fn queries_are_valid() {
    let source = MemorySource::default();
    for query in QUERIES {
        let time = QueryTime::Instant { time_ms: 0 };
        let answer = answer(&source, query, time, Rules::ALL);
        assert!(!answer.contains("parse error"), "{query}: {answer}");
    }
}

/// Selectors share a scan, and what is kept for the second one is limited: beyond that it reads by
/// itself.
#[test]
fn little_memory_changes_no_answer() {
    let mut source = MemorySource::default();
    for id in 0..1000 {
        let labels = Labels::from_pairs([("__name__", "m_total"), ("id", &id.to_string())]);
        for i in 0..40 {
            let sample = LoadedSample {
                timestamp_ms: 15_000 * i,
                value: LoadedValue::Float((id * i) as f64),
                start_ms: None,
            };
            source.add(&labels, sample);
        }
    }
    let request = Request {
        query: "sum(rate(m_total[2m])) / sum(rate(m_total[2m] offset 1m))".to_string(),
        time: QueryTime::Range {
            start_ms: 240_000,
            end_ms: 600_000,
            step_ms: 30_000,
        },
        lookback_ms: None,
        limit: None,
        timeout: None,
        counts_touched: false,
        max_source_resolution: None,
        rollup_strict: false,
    };
    let run = |memory_max| {
        let engine = Engine::new(EngineOptions {
            memory_max,
            ..EngineOptions::default()
        });
        let never = AtomicBool::new(false);
        let answer = block_on(engine.execute(&source, &request, &never)).unwrap();
        (format!("{:?}", answer.value), answer.stats)
    };
    let (expected, enough) = run(1 << 30);
    let (found, little) = run(800_000);
    assert_eq!(found, expected);
    assert_eq!(enough.series_read, 1000);
    assert!(little.series_read > 1000, "{little:?}");
    // Besides what is kept, the rows of a batch: 256 with 13 steps.
    assert!(
        little.memory_peak_bytes <= 800_000 / 4 + 256 * 13 * 8 + 10_000,
        "{little:?}"
    );
}

#[test]
fn scripts_pass_without_rules() {
    let engine = Engine::new(EngineOptions {
        rules: Rules::NONE,
        ..script_options()
    });
    if let Some(directory) = given_scripts() {
        run_all(&directory, &engine);
    }
    run_all(&own_scripts(), &engine);
}
