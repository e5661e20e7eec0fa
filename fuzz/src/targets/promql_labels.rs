//! Queries that make labels: nested calls of label functions, joins that copy labels, counted
//! values, and what names labels in annotations and errors; and queries of many patterns.
//!
//! The input is two numbers: a seed of the query, and one of its time. Each query must end within
//! its memory and a fixed allowance for batches in flight and text, or for compiled patterns.

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

/// Memory of a query that may have many patterns: they have a limit of their own.
const PATTERNS_ALLOWANCE: usize = 64 << 20;

/// Ends a query on the slowest machine only: memory ends those that make too much.
const QUERY_TIMEOUT: Duration = Duration::from_secs(60);

/// Most bytes of a query to which more is added. Operators that repeat their input double it, and
/// so the work; a run of many queries must end.
const TEXT_MAX: usize = 16 << 10;

/// Most patterns of a selector.
const PATTERNS_MAX: usize = 24;

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
    let labels = Target {
        name: "promql_labels",
        seeds,
        run: |input| answer(&Generator::new(number(input, 0)).query(), number(input, 1)),
        memory_base: QUERY_BYTES + ALLOWANCE,
    };
    let patterns = Target {
        name: "promql_patterns",
        run: |input| {
            let query = Generator::new(number(input, 0)).query_of_patterns();
            answer(&query, number(input, 1));
        },
        memory_base: QUERY_BYTES + PATTERNS_ALLOWANCE,
        ..labels
    };
    vec![labels, patterns]
}

fn seeds() -> Vec<Vec<u8>> {
    LazyLock::force(&DATA);
    (0..64u64).map(|seed| numbers(seed, seed)).collect()
}

/// The number at a place of the input; 0 where the input is too short.
fn number(input: &[u8], place: usize) -> u64 {
    let bytes = input.get(8 * place..8 * place + 8);
    let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
    u64::from_le_bytes(bytes.unwrap_or_default())
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

fn answer(query: &str, time_seed: u64) {
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
        query: query.to_owned(),
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
        timeout: QUERY_TIMEOUT,
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
            if query.len() > TEXT_MAX {
                break;
            }
            query = self.around(&query);
        }
        query
    }

    /// Selectors of many patterns, few of which are large when compiled: those take long.
    fn query_of_patterns(&mut self) -> String {
        let is_large = self.random.one_in(64);
        let selectors = 1 + self.random.below(3);
        let selectors: Vec<String> = (0..selectors).map(|_| self.patterns(is_large)).collect();
        let query = selectors.join(" or ");
        match self.random.below(4) {
            0 => self.around(&query),
            _ => query,
        }
    }

    fn patterns(&mut self, is_large: bool) -> String {
        let count = 1 + self.random.below(PATTERNS_MAX);
        let patterns: Vec<String> = (0..count)
            .map(|_| {
                let label = self.label();
                let op = self.random.pick(&["=~", "!~"]);
                format!("{label}{op}`{}`", self.pattern(is_large))
            })
            .collect();
        format!("{{job=\"api\", {}}}", patterns.join(", "))
    }

    fn pattern(&mut self, is_large: bool) -> String {
        let number = self.random.below(1000);
        let times = 1 + self.random.below(if is_large { 150 } else { 8 });
        match self.random.below(8) {
            0..6 if is_large => format!(r"\pL{{{times}}}{number}"),
            0 => format!("[a-z]*{number}.{{{times}}}"),
            1 => format!("(v{{{times}}}){{{times}}}[ab]{number}"),
            2 => format!("(a|b{number}).*"),
            3 => format!("(?i)host-{number}|.*"),
            4 => format!("host-[0-9]+|[^x]{{0,{times}}}{number}"),
            5 => format!(".*{number}.*"),
            _ => "host-1.*|v+|.?".to_owned(),
        }
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
