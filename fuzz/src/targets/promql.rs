//! Targets for the query language: any text into the parser, any query over hostile data into the
//! engine.
//!
//! The engine's input is no text but three numbers: a seed of the query generator, a choice of data
//! and a seed of the query's times. Mutated text hardly ever is a query; a mutated seed always is.

use std::sync::LazyLock;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use futures::executor::block_on;
use icecore_promql::parse::{ast_json, parse, parse_selector, pretty};
use icecore_promql::testing::{Language, MetricKind, Options, QueryGenerator, Random, Vocabulary};
use icecore_promql::{Engine, EngineOptions, MemorySource, QueryTime, Request};

use super::hostile_series::{self, DATA_MS};
use crate::{MEMORY_BASE, Target};

/// What a query of the fuzzed engine may hold by its own account.
const QUERY_BYTES: usize = 1 << 20;

/// What it may hold by the allocator's account: batches in flight and text are not in its own.
const ENGINE_MEMORY: usize = 8 << 20;

/// A query is cancelled after this long…
const QUERY_TIMEOUT: Duration = Duration::from_millis(500);

/// …and must have stopped after this much work, however busy the machine is.
const QUERY_WORK: Duration = Duration::from_secs(20);

pub fn targets() -> Vec<Target> {
    vec![
        Target {
            name: "promql_parse",
            seeds: queries,
            run: |input| {
                let text = String::from_utf8_lossy(input);
                let _ = parse(&text);
                let _ = parse_selector(&text);
            },
            memory_base: MEMORY_BASE,
        },
        Target {
            name: "promql_format",
            seeds: queries,
            run: |input| format_is_a_fixed_point(&String::from_utf8_lossy(input)),
            memory_base: MEMORY_BASE,
        },
        Target {
            name: "promql_engine",
            seeds: || {
                LazyLock::force(&DATA);
                (0..64u64).map(|seed| numbers(seed, seed, seed)).collect()
            },
            run: |input| {
                let number = |place: usize| {
                    let bytes = input.get(8 * place..8 * place + 8);
                    let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
                    u64::from_le_bytes(bytes.unwrap_or_default())
                };
                answer(number(0), number(1), number(2));
            },
            memory_base: ENGINE_MEMORY,
        },
    ]
}

fn numbers(query: u64, data: u64, time: u64) -> Vec<u8> {
    [query, data, time]
        .iter()
        .flat_map(|number| number.to_le_bytes())
        .collect()
}

fn format_is_a_fixed_point(text: &str) {
    let Ok(expr) = parse(text) else {
        return;
    };
    let printed = expr.to_string();
    let again = parse(&printed).unwrap_or_else(|error| panic!("{text}\n{printed}\n{error}"));
    if again.to_string() != printed && printed.contains("ms") {
        // A duration goes by way of seconds as a float, as in Prometheus: beyond a hundred days the
        // last millisecond may be lost each time.
        return;
    }
    assert_eq!(again.to_string(), printed, "printed from {text}");
    let prettied = pretty(&expr);
    let again = parse(&prettied).unwrap_or_else(|error| panic!("{text}\n{prettied}\n{error}"));
    assert_eq!(again.to_string(), printed, "prettied from {text}");
    assert_eq!(pretty(&again), prettied, "prettied from {text}");
    // Printing sorts matchers, so that the trees need not be the same; both can be shown.
    drop((ast_json(&again), ast_json(&expr)));
}

static DATA: LazyLock<Vec<MemorySource>> =
    LazyLock::new(|| (0..16).map(hostile_series::source).collect());

/// A query may fail; it may not panic, take long or hold much.
fn answer(query_seed: u64, data: u64, time_seed: u64) {
    let hostile = !query_seed.is_multiple_of(3);
    let query = generator(query_seed, hostile).query();
    let random = &mut Random::new(time_seed);
    let request = Request {
        query,
        time: query_time(random),
        lookback_ms: random
            .one_in(4)
            .then(|| random.pick(&[1, i64::MAX, -5, 60_000])),
        limit: random.one_in(8).then_some(3),
        timeout: None,
        counts_touched: random.one_in(2),
        max_source_resolution: None,
        rollup_strict: false,
    };
    let engine = Engine::new(EngineOptions {
        timeout: QUERY_TIMEOUT,
        memory_max: QUERY_BYTES,
        samples_max: 1 << 16,
        ..EngineOptions::default()
    });
    let source = &DATA[(data % DATA.len() as u64) as usize];
    if std::env::var_os("FUZZ_INPUT").is_some() {
        // The input of a finding is numbers; print the query, too.
        eprintln!("{request:?}");
    }
    let started = Instant::now();
    let worked = thread_time();
    let _ = engine.explain(&request);
    let _ = block_on(engine.execute(source, &request, &AtomicBool::new(false)));
    let took = match (worked, thread_time()) {
        (Some(before), Some(after)) => after.saturating_sub(before),
        _ => started.elapsed(),
    };
    assert!(took < QUERY_WORK, "took {took:?}: {request:?}");
}

/// Returns the processor time of this thread, where the system counts it: some write zeros.
fn thread_time() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let nanoseconds = text.split_whitespace().next()?.parse().ok()?;
    (nanoseconds > 0).then(|| Duration::from_nanos(nanoseconds))
}

fn query_time(random: &mut Random) -> QueryTime {
    let usual = DATA_MS + random.within(-60_000..900_000);
    let edges = [
        0,
        i64::MAX,
        i64::MIN,
        i64::MAX - 1000,
        usual,
        usual,
        usual,
        usual,
        -1,
    ];
    if random.one_in(2) {
        return QueryTime::Instant {
            time_ms: random.pick(&edges),
        };
    }
    let start_ms = random.pick(&edges);
    let step_ms = random.pick(&[1, 15_000, 60_000, i64::MAX, 1000, 0, -1]);
    let end_ms = if random.one_in(4) {
        random.pick(&edges)
    } else {
        start_ms.saturating_add(step_ms.saturating_mul(random.within(0..60)))
    };
    QueryTime::Range {
        start_ms,
        end_ms,
        step_ms,
    }
}

/// Texts of the whole language, some with numbers and durations at the edge.
fn queries() -> Vec<Vec<u8>> {
    let texts = (0..400).map(|seed| {
        let mut generator = generator(seed, seed % 2 == 0);
        match seed % 10 {
            0 => generator.range_query(),
            _ => generator.query(),
        }
    });
    texts.map(String::into_bytes).collect()
}

fn generator(seed: u64, hostile: bool) -> QueryGenerator {
    let texts = |texts: &[&str]| texts.iter().map(|text| text.to_string()).collect();
    let metric = |name: &str, kind| (name.to_string(), kind);
    let vocabulary = Vocabulary {
        metrics: vec![
            metric("requests_total", MetricKind::Counter),
            metric("wild", MetricKind::Gauge),
            metric("mixed", MetricKind::Gauge),
            metric("latency_bucket", MetricKind::Buckets),
            metric("latency", MetricKind::NativeHistogram),
            metric("target_info", MetricKind::Gauge),
        ],
        labels: vec![
            ("job".to_string(), texts(&["api", "web"])),
            ("instance".to_string(), texts(&["a", "b", "ü"])),
            ("le".to_string(), texts(&["0.5", "+Inf", "no number"])),
        ],
        times: texts(&["1700000300.5", "0", "-1"]),
    };
    let options = Options {
        language: Language::Everything,
        depth: (seed % 5) as usize,
        hostile,
    };
    QueryGenerator::new(seed, vocabulary, options)
}
