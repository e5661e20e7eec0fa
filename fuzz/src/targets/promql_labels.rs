//! Queries that make labels: nested calls of label functions, joins that copy labels, counted
//! values, and what names labels in annotations and errors.
//!
//! The input is two numbers: a seed of the query, and one of its time. Each query must end within
//! its memory and a fixed allowance for batches in flight and text.

use std::sync::LazyLock;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use futures::executor::block_on;
use icecore_model::Labels;
use icecore_promql::script::{LoadedSample, LoadedValue};
use icecore_promql::testing::Random;
use icecore_promql::{Engine, EngineOptions, MemorySource, QueryTime, Request};

use super::hostile_series::DATA_MS;
use crate::Target;

/// Most memory of a query by its own account: few enough bytes that many queries run into it.
const QUERY_BYTES: usize = 4 << 20;

/// Memory of a query besides: batches in flight and text.
const ALLOWANCE: usize = 16 << 20;

/// Label functions around one vector.
const NESTED_MAX: usize = 24;

/// Targets in the data, each with the series of [`METRICS`].
const INSTANCES: usize = 40;

const METRICS: [&str; 4] = [
    "requests_total",
    "temperature",
    "latency_bucket",
    "target_info",
];

/// Labels that queries set, and those of the data.
const LABELS: [&str; 12] = [
    "a", "b", "c", "d", "e", "f", "g", "__name__", "le", "version", "instance", "job",
];

pub fn targets() -> Vec<Target> {
    vec![Target {
        name: "promql_labels",
        seeds: || {
            LazyLock::force(&DATA);
            (0..64u64).map(|seed| numbers(seed, seed)).collect()
        },
        run: |input| {
            let number = |place: usize| {
                let bytes = input.get(8 * place..8 * place + 8);
                let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
                u64::from_le_bytes(bytes.unwrap_or_default())
            };
            answer(number(0), number(1));
        },
        memory_base: QUERY_BYTES + ALLOWANCE,
    }]
}

fn numbers(query: u64, time: u64) -> Vec<u8> {
    let numbers = [query, time];
    numbers.iter().flat_map(|n| n.to_le_bytes()).collect()
}

static DATA: LazyLock<MemorySource> = LazyLock::new(|| {
    let mut source = MemorySource::default();
    let text = "v".repeat(200);
    for number in 0..INSTANCES {
        for metric in METRICS {
            let (instance, bound) = (format!("host-{number}"), format!("{}", number / 8));
            let bound = if metric == "latency_bucket" {
                bound
            } else {
                String::new()
            };
            let job = ["api", "web"][number % 2];
            let labels = Labels::from_pairs([
                ("__name__", metric),
                ("instance", &instance),
                ("job", job),
                ("le", &bound),
                ("version", &text),
            ]);
            for minute in 0..10 {
                let sample = LoadedSample {
                    timestamp_ms: DATA_MS + 60_000 * minute,
                    value: LoadedValue::Float((number as i64 * minute) as f64),
                    start_ms: None,
                };
                source.add(&labels, sample);
            }
        }
    }
    source
});

fn answer(query_seed: u64, time_seed: u64) {
    let query = Generator::new(query_seed).query();
    let random = &mut Random::new(time_seed);
    let end_ms = DATA_MS + random.within(0..900_000);
    let time = if random.one_in(2) {
        QueryTime::Instant { time_ms: end_ms }
    } else {
        QueryTime::Range {
            start_ms: DATA_MS,
            end_ms,
            step_ms: random.pick(&[15_000, 60_000, 300_000]),
        }
    };
    let request = Request {
        query,
        time,
        lookback_ms: None,
        limit: None,
        timeout: None,
        counts_touched: false,
        max_source_resolution: None,
        rollup_strict: false,
    };
    if std::env::var_os("FUZZ_INPUT").is_some() {
        // The input of a finding is numbers; print the query, too.
        eprintln!("{request:?}");
    }
    let engine = Engine::new(EngineOptions {
        timeout: Duration::from_millis(500),
        memory_max: QUERY_BYTES,
        delayed_name_removal: random.one_in(2),
        ..EngineOptions::default()
    });
    let _ = block_on(engine.execute(&*DATA, &request, &AtomicBool::new(false)));
}

/// Writes queries that favour nested label functions.
struct Generator {
    random: Random,
    /// Labels that the vector may have: most of those that are read are among them.
    known: Vec<&'static str>,
}

impl Generator {
    fn new(seed: u64) -> Self {
        Self {
            random: Random::new(seed),
            known: vec!["instance", "job", "version"],
        }
    }

    fn query(&mut self) -> String {
        let nested = 1 + self.random.below(NESTED_MAX);
        let mut query = self.selector().to_owned();
        for _ in 0..nested {
            query = self.around(&query);
        }
        query
    }

    fn selector(&mut self) -> &'static str {
        self.random.pick(&[
            "requests_total",
            "temperature",
            "latency_bucket",
            "{job=\"api\"}",
            "vector(1)",
            "rate(requests_total[5m])",
        ])
    }

    fn label(&mut self) -> &'static str {
        self.random.pick(&LABELS)
    }

    /// A label to read.
    fn known_label(&mut self) -> &'static str {
        if self.random.one_in(8) {
            return self.label();
        }
        // The last ones are the longest.
        let place = self.random.below(self.known.len().min(4));
        self.known[self.known.len() - 1 - place]
    }

    /// A label to set.
    fn new_label(&mut self) -> &'static str {
        let label = self.label();
        self.known.retain(|known| *known != label);
        self.known.push(label);
        label
    }

    fn labels(&mut self, count_max: usize) -> String {
        let count = self.random.below(count_max + 1);
        let labels: Vec<&str> = (0..count).map(|_| self.label()).collect();
        labels.join(", ")
    }

    /// A vector with a call or operator around it.
    fn around(&mut self, vector: &str) -> String {
        match self.random.below(32) {
            0..14 => self.label_join(vector),
            14..20 => self.label_replace(vector),
            20 => {
                let by = self.labels(4);
                let label = self.label();
                format!("count_values by ({by}) (\"{label}\", {vector})")
            }
            21 => format!("info({vector})"),
            22 | 23 => {
                let (labels, other) = (self.labels(4).replace("job", "a"), self.selector());
                let other = self.label_join(&format!("max by (job) ({other})"));
                format!("{vector} * on (job) group_left ({labels}) {other}")
            }
            24 => {
                let word = self.random.pick(&["by", "without"]);
                let op = self.random.pick(&["sum", "max", "count", "group"]);
                format!("{op} {word} ({}) ({vector})", self.labels(6))
            }
            25 => {
                let op = self
                    .random
                    .pick(&["topk(20, ", "limitk(20, ", "quantile(0.5, "]);
                format!("{op}{vector})")
            }
            26 => {
                let label = self.label();
                format!("histogram_quantiles({vector}, \"{label}\", 0.1, 0.5, 0.9)")
            }
            27 => format!("histogram_quantile(0.9, {vector})"),
            28 => format!("({vector}) or {}", self.selector()),
            29 => format!("({vector}) + ({vector})"),
            30 => format!("abs({vector})"),
            _ => format!("sort_by_label({vector}, \"{}\")", self.label()),
        }
    }

    /// A label that repeats others.
    fn label_join(&mut self, vector: &str) -> String {
        let from = self.known_label();
        let other = self.known_label();
        let to = self.new_label();
        let separator = self.random.pick(&["", "-", "0123456789abcdef"]);
        let repeated = 1 + self.random.below(8);
        let mut sources = vec![format!("\"{from}\""); repeated];
        sources.push(format!("\"{other}\""));
        format!(
            "label_join({vector}, \"{to}\", \"{separator}\", {})",
            sources.join(", ")
        )
    }

    fn label_replace(&mut self, vector: &str) -> String {
        let from = self.known_label();
        let to = self.new_label();
        let pattern = self.random.pick(&["(.*)", "(.+)", "(.)(.*)", ""]);
        let template = match self.random.below(4) {
            0 => "x".repeat(1 + self.random.below(2000)),
            _ => self
                .random
                .pick(&["$1", "$1-", "$0", "${2}"])
                .repeat(1 + self.random.below(40)),
        };
        format!("label_replace({vector}, \"{to}\", \"{template}\", \"{from}\", \"{pattern}\")")
    }
}
