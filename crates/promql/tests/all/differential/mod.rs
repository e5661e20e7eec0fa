//! Our answers against those of a real Prometheus, for random queries over random data.
//!
//! ```text
//! seed ─► data ─┬─► Prometheus 2.42 ─┐
//!               └─► our engine ──────┴─ same answer? ─ known difference? ─► report
//! ```
//!
//! `DIFFERENTIAL_QUERIES`, `DIFFERENTIAL_DEPTH` and `DIFFERENTIAL_SEED` make a run longer or another one;
//! `DIFFERENTIAL_ADDRESS` names a running `icecore serve` with an empty storage, which is then asked
//! instead of the engine. `DIFFERENTIAL_QUERY` with `DIFFERENTIAL_TIME` (milliseconds: a time, or start,
//! end and step with commas between) shows both answers to one query. Without a `prometheus` binary nothing is compared, and the test says so.

mod data;
mod known;
mod outcome;
mod prometheus;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use futures::executor::block_on;
use icecore_promql::script::{LoadedSample, LoadedValue};
use icecore_promql::testing::{Language, MetricKind, Options, QueryGenerator, Random};
use icecore_promql::{Engine, EngineOptions, MemorySource, QueryTime, Request, Rules};

use known::{KNOWN, in_old_words};
use outcome::Outcome;
use prometheus::{Api, Prometheus};

/// Takes about two seconds.
const QUERIES: u64 = 2000;
const SEED: u64 = 42;
const DEPTH: u64 = 3;

/// The one difference that rewriting makes, on purpose (rfcs/0002).
const UNSAID: &str =
    "we read only what can match, and do not see what is wrong about rows that match nothing";

/// Excused where both agree once the end is a step, see `as_of_last_step`.
const BEYOND: &str = "subqueries of Prometheus go on to the end asked for, behind the last step, and \
                      may fail where no step looks";

/// Differences that are printed in full.
const SHOWN: usize = 40;

#[test]
fn answers_are_those_of_prometheus() {
    let queries = number("DIFFERENTIAL_QUERIES").unwrap_or(QUERIES);
    let seed = number("DIFFERENTIAL_SEED").unwrap_or(SEED);
    let Some(prometheus) = Prometheus::start() else {
        println!("SKIPPED: there is no prometheus binary to compare with");
        return;
    };
    let data = data::series(seed);
    prometheus.api.write(&data);
    let subject = Subject::new(&data);
    if let Ok(query) = std::env::var("DIFFERENTIAL_QUERY") {
        let time = asked_time();
        println!("ours: {:#?}", subject.answer(&query, time));
        let theirs = Outcome::of_json(&prometheus.api.query(&in_old_words(&query), time));
        println!("theirs: {theirs:#?}");
        return;
    }
    let mut generator = QueryGenerator::new(
        seed,
        data::vocabulary(),
        Options {
            language: Language::Prometheus2,
            depth: number("DIFFERENTIAL_DEPTH").unwrap_or(DEPTH) as usize,
            hostile: false,
        },
    );
    let mut times = Random::new(seed ^ 1);
    let mut tally = Tally::default();
    for _ in 0..queries {
        let time = query_time(&mut times);
        let query = match (time, times.one_in(30)) {
            (QueryTime::Instant { .. }, true) => generator.range_query(),
            _ => generator.query(),
        };
        let ours = subject.answer(&query, time);
        let theirs = Outcome::of_json(&prometheus.api.query(&in_old_words(&query), time));
        let as_written = subject.answer_as_written(&query, time);
        if theirs.is_failure() && !ours.is_failure() && as_of_last_step(time) != time {
            let time = as_of_last_step(time);
            let ours = subject.answer(&query, time);
            let theirs = Outcome::of_json(&prometheus.api.query(&in_old_words(&query), time));
            if ours.difference(&theirs, false).is_none() {
                *tally.excused.entry(BEYOND).or_default() += 1;
                continue;
            }
        }
        tally.add(&query, time, &ours, &theirs, &as_written);
    }
    tally.print(seed);
    assert_eq!(tally.different, 0, "answers differ");
    assert!(
        tally.with_values * 2 > tally.compared,
        "most queries should have an answer"
    );
}

/// The whole language: whatever a query means, rewriting its plan does not change it.
#[test]
fn rewriting_changes_no_answer() {
    let seed = number("DIFFERENTIAL_SEED").unwrap_or(SEED);
    let mut source = memory_source(&data::series(seed));
    for (labels, samples) in data::native_histograms(seed) {
        for (timestamp_ms, histogram) in samples {
            let sample = LoadedSample {
                timestamp_ms,
                value: LoadedValue::Histogram(histogram.into()),
                start_ms: None,
            };
            source.add(&labels, sample);
        }
    }
    let mut vocabulary = data::vocabulary();
    let native = ("duration".to_string(), MetricKind::NativeHistogram);
    vocabulary.metrics.push(native);
    let options = Options {
        language: Language::Everything,
        depth: number("DIFFERENTIAL_DEPTH").unwrap_or(DEPTH) as usize,
        hostile: false,
    };
    let mut generator = QueryGenerator::new(seed, vocabulary, options);
    let mut times = Random::new(seed ^ 2);
    let subject = Subject::Engine(Box::new((Engine::default(), source)));
    let mut tally = Tally::default();
    for _ in 0..number("DIFFERENTIAL_QUERIES").unwrap_or(QUERIES) {
        let (query, time) = (generator.query(), query_time(&mut times));
        let rewritten = subject.answer(&query, time);
        let as_written = subject.answer_as_written(&query, time);
        tally.add(&query, time, &rewritten, &as_written, &as_written);
    }
    tally.print(seed);
    assert_eq!(tally.different, 0, "rewriting changes answers");
    assert!(tally.with_values * 2 > tally.compared);
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap())
}

fn asked_time() -> QueryTime {
    let text = std::env::var("DIFFERENTIAL_TIME").unwrap();
    let numbers: Vec<i64> = text.split(',').map(|ms| ms.parse().unwrap()).collect();
    match numbers[..] {
        [time_ms] => QueryTime::Instant { time_ms },
        [start_ms, end_ms, step_ms] => QueryTime::Range {
            start_ms,
            end_ms,
            step_ms,
        },
        _ => panic!("one time, or three"),
    }
}

/// What is tested.
enum Subject {
    Engine(Box<(Engine, MemorySource)>),
    Served(Api),
}

impl Subject {
    fn new(data: &data::Series) -> Self {
        if let Ok(address) = std::env::var("DIFFERENTIAL_ADDRESS") {
            let api = Api {
                address: address.parse().unwrap(),
            };
            api.write(data);
            return Self::Served(api);
        }
        let source = memory_source(data);
        Self::Engine(Box::new((Engine::default(), source)))
    }

    fn answer(&self, query: &str, time: QueryTime) -> Outcome {
        match self {
            Self::Served(api) => Outcome::of_json(&api.query(query, time)),
            Self::Engine(parts) => answer_of(&parts.0, &parts.1, query, time),
        }
    }

    /// The answer without any rewriting of the plan.
    fn answer_as_written(&self, query: &str, time: QueryTime) -> Outcome {
        match self {
            Self::Served(_) => self.answer(query, time),
            Self::Engine(parts) => {
                let options = EngineOptions {
                    rules: Rules::NONE,
                    ..EngineOptions::default()
                };
                answer_of(&Engine::new(options), &parts.1, query, time)
            }
        }
    }
}

fn memory_source(data: &data::Series) -> MemorySource {
    let mut source = MemorySource::default();
    for (labels, samples) in data {
        for (timestamp_ms, value) in samples.iter().copied() {
            let sample = LoadedSample {
                timestamp_ms,
                value: LoadedValue::Float(value),
                start_ms: None,
            };
            source.add(labels, sample);
        }
    }
    source
}

fn answer_of(engine: &Engine, source: &MemorySource, query: &str, time: QueryTime) -> Outcome {
    let request = Request {
        query: query.to_string(),
        time,
        lookback_ms: None,
        limit: None,
        timeout: None,
        counts_touched: false,
    };
    let never = AtomicBool::new(false);
    let answer = block_on(engine.execute(source, &request, &never));
    Outcome::of_engine(answer.map(|answer| answer.value))
}

/// Times end in half a second, where no sample is; now and then they are beside the data.
fn query_time(random: &mut Random) -> QueryTime {
    let seconds = (data::END_MS - data::START_MS) / 1000;
    let at = |seconds: i64| data::START_MS + seconds * 1000 + 500;
    match random.below(2) {
        0 => QueryTime::Instant {
            time_ms: at(random.within(-100..seconds + 400)),
        },
        _ => {
            let step = random.pick(&[15, 30, 60, 37, 300]);
            let start = random.within(-100..seconds);
            let steps = random.within(0..25);
            QueryTime::Range {
                start_ms: at(start),
                end_ms: at(start + steps * step + random.within(0..step)),
                step_ms: step * 1000,
            }
        }
    }
}

/// The same steps with an end that is one of them.
fn as_of_last_step(time: QueryTime) -> QueryTime {
    match time {
        QueryTime::Instant { .. } => time,
        QueryTime::Range {
            start_ms,
            end_ms,
            step_ms,
        } => QueryTime::Range {
            start_ms,
            end_ms: end_ms - (end_ms - start_ms) % step_ms,
            step_ms,
        },
    }
}

#[derive(Default)]
struct Tally {
    /// Without those excused before they were compared.
    compared: usize,
    /// Queries that both answered with something.
    with_values: usize,
    failed: usize,
    different: usize,
    excused: BTreeMap<&'static str, usize>,
}

impl Tally {
    fn add(
        &mut self,
        query: &str,
        time: QueryTime,
        ours: &Outcome,
        theirs: &Outcome,
        as_written: &Outcome,
    ) {
        self.compared += 1;
        self.failed += usize::from(theirs.is_failure());
        self.with_values += usize::from(!theirs.is_failure() && !theirs.is_empty());
        let is_ordered = ["sort(", "sort_desc("]
            .iter()
            .any(|start| query.starts_with(start));
        let unsaid = (as_written.failed_with("found duplicate series")
            || as_written.failed_with("multiple matches for labels"))
            && !ours.is_failure();
        let rewriting = match unsaid {
            true => None,
            false => ours.difference(as_written, is_ordered),
        };
        if let Some(difference) = rewriting {
            self.show(&format!("by rewriting: {query}"), time, &difference);
        }
        let Some(difference) = ours.difference(theirs, is_ordered) else {
            return;
        };
        if unsaid {
            *self.excused.entry(UNSAID).or_default() += 1;
            return;
        }
        if let Some(known) = KNOWN
            .iter()
            .find(|known| (known.excuses)(query, ours, theirs))
        {
            *self.excused.entry(known.reason).or_default() += 1;
            return;
        }
        self.show(query, time, &difference);
    }

    fn show(&mut self, query: &str, time: QueryTime, difference: &str) {
        self.different += 1;
        if self.different <= SHOWN {
            println!("DIFFERENT {query}\n  {time:?}\n  {difference}");
        }
    }

    fn print(&self, seed: u64) {
        println!(
            "seed {seed}: {} queries compared ({} with values, {} failed), {} excused, {} different",
            self.compared,
            self.with_values,
            self.failed,
            self.excused.values().sum::<usize>(),
            self.different
        );
        for (reason, count) in &self.excused {
            println!("  excused {count}: {reason}");
        }
    }
}
