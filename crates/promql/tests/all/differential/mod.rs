//! Our answers against those of a real Prometheus, for random queries over random data.
//!
//! ```text
//!               ┌─► Prometheus 3.15, names removed at once ─┐
//! seed ─► data ─┼─► Prometheus 3.15, names removed late ────┤ same answer, warnings and infos?
//!               └─► our engine, in either mode ─────────────┴─ known difference? ─► report
//! ```
//!
//! The binary is the newest in `PATH` and `~/go/bin`, or the one in `ICECORE_PROMETHEUS`. An older
//! one has a smaller language and one mode, and more differences are excused; without a binary
//! nothing is compared. The test prints which it was.
//!
//! `DIFFERENTIAL_QUERIES`, `DIFFERENTIAL_DEPTH` and `DIFFERENTIAL_SEED` change the run;
//! `DIFFERENTIAL_ADDRESS` is that of a running `icecore serve` with an empty storage, which is then
//! tested instead of the engine (in its default mode). `DIFFERENTIAL_QUERY` with
//! `DIFFERENTIAL_TIME` (milliseconds: a time, or start, end and step with commas between) shows
//! both answers to one query.

mod data;
mod known;
mod outcome;
mod prometheus;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use futures::executor::block_on;
use icecore_model::Histogram;
use icecore_promql::script::{Backend, LoadedSample, LoadedSeries, LoadedValue, hints_as_stored};
use icecore_promql::testing::{Language, MetricKind, Options, QueryGenerator, Random, Vocabulary};
use icecore_promql::{Engine, EngineOptions, MemorySource, QueryTime, Request, Rules};

use known::{Case, KNOWN, KNOWN_OLD, KnownDifference, UNREAD_ROWS, in_old_syntax};
use outcome::Outcome;
use prometheus::{Api, Binary, Prometheus};

/// Takes some seconds.
const QUERIES: u64 = 2000;
const SEED: u64 = 42;
const DEPTH: u64 = 3;

/// Excused if both agree once the end is a step, see `as_of_last_step`.
const BEYOND: &str = "subqueries of old versions go on to the end asked for, behind the last step, and \
                      may fail where no step looks";

/// Most differences that are printed.
const PRINTED_MAX: usize = 40;

#[test]
fn answers_are_those_of_prometheus() {
    let Some(binary) = Binary::find() else {
        skipped_tests::skip(
            "answers compared with Prometheus",
            "install it, or set ICECORE_PROMETHEUS to its binary",
        );
        return;
    };
    if !binary.is_current() {
        println!(
            "FALLBACK: comparing with Prometheus {}, not 3.15: smaller language, more differences excused",
            binary.version
        );
    }
    let served = std::env::var("DIFFERENTIAL_ADDRESS").is_ok();
    let modes: &[bool] = if binary.is_current() && !served {
        &[false, true]
    } else {
        &[false]
    };
    let failed: usize = modes.iter().map(|delayed| compare(&binary, *delayed)).sum();
    assert_eq!(failed, 0, "answers differ");
}

/// Compares in one mode and returns how many answers differ.
fn compare(binary: &Binary, delayed_names: bool) -> usize {
    let queries = number("DIFFERENTIAL_QUERIES").unwrap_or(QUERIES);
    let seed = number("DIFFERENTIAL_SEED").unwrap_or(SEED);
    let prometheus = Prometheus::start(binary, delayed_names);
    let (vocabulary, data, histograms) = if binary.is_current() {
        everything(seed)
    } else {
        let none = data::Histograms::new();
        (data::vocabulary(), data::series(seed), none)
    };
    prometheus.api.write(&data, &histograms);
    let subject = Subject::new(&data, &histograms, delayed_names);
    let (language, excuses) = if binary.is_current() {
        (Language::Everything, KNOWN)
    } else {
        (Language::Prometheus2, KNOWN_OLD)
    };
    let ask = |query: &str, time| {
        let answer = if binary.is_current() {
            prometheus.api.query(query, time)
        } else {
            prometheus.api.query(&in_old_syntax(query), time)
        };
        Outcome::of_json(&answer)
    };
    if let Ok(query) = std::env::var("DIFFERENTIAL_QUERY") {
        let time = requested_time();
        println!("names removed {}", mode(delayed_names));
        println!("ours: {:#?}", subject.answer(&query, time));
        println!("theirs: {:#?}", ask(&query, time));
        return 0;
    }
    let options = Options {
        language,
        depth: number("DIFFERENTIAL_DEPTH").unwrap_or(DEPTH) as usize,
        hostile: false,
    };
    let mut generator = QueryGenerator::new(seed, vocabulary, options);
    let mut times = Random::new(seed ^ 1);
    let mut tally = Tally::new(excuses, binary.is_current());
    for _ in 0..queries {
        let time = query_time(&mut times);
        let query = match (time, times.one_in(30)) {
            (QueryTime::Instant { .. }, true) => generator.range_query(),
            _ => generator.query(),
        };
        let ours = subject.answer(&query, time);
        let theirs = ask(&query, time);
        let as_written = subject.answer_as_written(&query, time);
        let ends_between = as_of_last_step(time) != time;
        if !binary.is_current() && theirs.is_failure() && !ours.is_failure() && ends_between {
            let time = as_of_last_step(time);
            let (ours, theirs) = (subject.answer(&query, time), ask(&query, time));
            if ours.difference(&theirs, false).is_none() {
                *tally.excused.entry(BEYOND).or_default() += 1;
                continue;
            }
        }
        let case = Case {
            query: &query,
            delayed_names,
            ours: &ours,
            theirs: &theirs,
            again: &|| ask(&query, time),
        };
        tally.add(&case, time, &as_written);
    }
    println!(
        "Prometheus {}, names removed {}:",
        binary.version,
        mode(delayed_names)
    );
    tally.print(seed);
    assert!(
        tally.with_values * 2 > tally.compared,
        "most queries should have an answer"
    );
    tally.different
}

/// Vocabulary and data for the newest Prometheus.
fn everything(seed: u64) -> (Vocabulary, data::Series, data::Histograms) {
    let mut vocabulary = data::vocabulary();
    let native = ("duration".to_string(), MetricKind::NativeHistogram);
    let typed = ("speed".to_string(), MetricKind::Gauge);
    vocabulary.metrics.extend([native, typed]);
    let mut series = data::series(seed);
    series.extend(data::infos(seed));
    series.extend(data::typed(seed));
    (vocabulary, series, data::native_histograms(seed))
}

fn mode(delayed_names: bool) -> &'static str {
    if delayed_names { "late" } else { "at once" }
}

/// The whole language: whatever a query means, rewriting its plan does not change it.
#[test]
fn rewriting_changes_no_answer() {
    let seed = number("DIFFERENTIAL_SEED").unwrap_or(SEED);
    let (vocabulary, series, histograms) = everything(seed);
    for delayed_names in [false, true] {
        let options = Options {
            language: Language::Everything,
            depth: number("DIFFERENTIAL_DEPTH").unwrap_or(DEPTH) as usize,
            hostile: false,
        };
        let mut generator = QueryGenerator::new(seed, vocabulary.clone(), options);
        let mut times = Random::new(seed ^ 2);
        let source = memory_source(&series, &histograms);
        let subject = Subject::of_engine(source, delayed_names);
        let mut tally = Tally::new(&[UNREAD_ROWS], false);
        for _ in 0..number("DIFFERENTIAL_QUERIES").unwrap_or(QUERIES) {
            let (query, time) = (generator.query(), query_time(&mut times));
            let rewritten = subject.answer(&query, time);
            let as_written = subject.answer_as_written(&query, time);
            let case = Case {
                query: &query,
                delayed_names,
                ours: &rewritten,
                theirs: &as_written,
                again: &|| subject.answer_as_written(&query, time),
            };
            tally.add(&case, time, &as_written);
        }
        tally.print(seed);
        assert_eq!(tally.different, 0, "rewriting changes answers");
        assert!(tally.with_values * 2 > tally.compared);
    }
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap())
}

fn requested_time() -> QueryTime {
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
    Engine {
        source: Box<MemorySource>,
        engine: Engine,
        as_written: Engine,
    },
    Served(Api),
}

impl Subject {
    fn new(data: &data::Series, histograms: &data::Histograms, delayed_names: bool) -> Self {
        if let Ok(address) = std::env::var("DIFFERENTIAL_ADDRESS") {
            let api = Api {
                address: address.parse().unwrap(),
            };
            api.write(data, histograms);
            return Self::Served(api);
        }
        Self::of_engine(memory_source(data, histograms), delayed_names)
    }

    fn of_engine(source: MemorySource, delayed_name_removal: bool) -> Self {
        let engine = |rules| {
            Engine::new(EngineOptions {
                rules,
                delayed_name_removal,
                ..EngineOptions::default()
            })
        };
        Self::Engine {
            source: Box::new(source),
            engine: engine(Rules::ALL),
            as_written: engine(Rules::NONE),
        }
    }

    fn answer(&self, query: &str, time: QueryTime) -> Outcome {
        match self {
            Self::Served(api) => Outcome::of_json(&api.query(query, time)),
            Self::Engine { source, engine, .. } => answer_of(engine, source, query, time),
        }
    }

    /// The answer without any rewriting of the plan.
    fn answer_as_written(&self, query: &str, time: QueryTime) -> Outcome {
        match self {
            Self::Served(_) => self.answer(query, time),
            Self::Engine {
                source, as_written, ..
            } => answer_of(as_written, source, query, time),
        }
    }
}

fn memory_source(data: &data::Series, histograms: &data::Histograms) -> MemorySource {
    let sample = |timestamp_ms, value| LoadedSample {
        timestamp_ms,
        value,
        start_ms: None,
    };
    let mut batch = Vec::new();
    for (labels, samples) in data {
        let samples = samples.iter();
        let samples = samples.map(|(time, value)| sample(*time, LoadedValue::Float(*value)));
        batch.push(LoadedSeries {
            labels: labels.clone(),
            samples: samples.collect(),
        });
    }
    for (labels, samples) in histograms {
        let value = |histogram: &Histogram| LoadedValue::Histogram(histogram.clone().into());
        let samples = samples.iter();
        let samples = samples.map(|(time, histogram)| sample(*time, value(histogram)));
        batch.push(LoadedSeries {
            labels: labels.clone(),
            samples: samples.collect(),
        });
    }
    // Reset hints are set by storage.
    hints_as_stored(&mut batch);
    let mut source = MemorySource::default();
    source.load(&batch).unwrap();
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
        max_source_resolution: None,
        rollup_strict: false,
    };
    let never = AtomicBool::new(false);
    Outcome::of_engine(block_on(engine.execute(source, &request, &never)))
}

/// Times end in half a second, where no sample is; some lie outside of the data.
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

struct Tally {
    excuses: &'static [KnownDifference],
    /// Whether warnings and infos are compared. Rewriting may drop those of rows that match
    /// nothing, so those of the plan without rules are compared.
    compares_annotations: bool,
    /// Without those excused before the comparison.
    compared: usize,
    /// Queries with a non-empty answer.
    with_values: usize,
    failed: usize,
    different: usize,
    excused: BTreeMap<&'static str, usize>,
}

impl Tally {
    fn new(excuses: &'static [KnownDifference], compares_annotations: bool) -> Self {
        Self {
            excuses,
            compares_annotations,
            compared: 0,
            with_values: 0,
            failed: 0,
            different: 0,
            excused: BTreeMap::new(),
        }
    }

    fn add(&mut self, case: &Case<'_>, time: QueryTime, as_written: &Outcome) {
        let (query, ours, theirs) = (case.query, case.ours, case.theirs);
        self.compared += 1;
        self.failed += usize::from(theirs.is_failure());
        self.with_values += usize::from(!theirs.is_failure() && !theirs.is_empty());
        let is_ordered = ["sort(", "sort_desc("]
            .iter()
            .any(|start| query.starts_with(start));
        let rewritten = Case {
            theirs: as_written,
            ..*case
        };
        if let Some(difference) = ours.difference(as_written, is_ordered)
            && !(UNREAD_ROWS.excuses)(&rewritten)
        {
            self.show(&format!("by rewriting: {query}"), time, &difference);
        }
        let difference = ours.difference(theirs, is_ordered);
        let difference = difference.or_else(|| {
            if self.compares_annotations {
                as_written.annotations_differ(theirs)
            } else {
                None
            }
        });
        let Some(difference) = difference else {
            return;
        };
        let mut excuses = self.excuses.iter();
        if let Some(known) = excuses.find(|known| (known.excuses)(case)) {
            *self.excused.entry(known.reason).or_default() += 1;
            return;
        }
        self.show(query, time, &difference);
    }

    fn show(&mut self, query: &str, time: QueryTime, difference: &str) {
        self.different += 1;
        if self.different <= PRINTED_MAX {
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
