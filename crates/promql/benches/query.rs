//! The cost of queries above the source, by operator and by rule.
//!
//! ```text
//! cargo bench -p icecore-promql
//! ```
//!
//! CPU time of one thread, so that other load matters little. Six hours of samples every 15 s; the
//! thirty series of a target share their timestamps. For `operators` the samples are prepared
//! outside of the measurement; divide by the elements for the cost of a value. For `rules` the
//! source copies what is read, which costs about as much as decoding, because that is what rules
//! save. For `windows` an element is a window of rolled-up samples.

use std::hint::black_box;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use criterion::measurement::{Measurement, ValueFormatter, WallTime};
use criterion::{BatchSize, BenchmarkId, Criterion, Throughput};
use futures::executor::block_on;
use icecore_model::rollup::{
    Aggregate, Edge, Resolution, Segment, Window, WindowColumns, WindowFields,
};
use icecore_model::{
    BoxFuture, FloatColumns, Labels, Levels, METRIC_NAME, RolledSamples, Selection, SeriesSamples,
    SeriesSource, SeriesStream, SourceError, TimeColumn,
};
use icecore_promql::{Answer, Engine, EngineOptions, QueryTime, Request, Rules};

const SCRAPE_MS: i64 = 15_000;
const STEP_MS: i64 = 60_000;
const STEPS: usize = 361;
const END_MS: i64 = 1_700_000_000_000;
const START_MS: i64 = END_MS - STEP_MS * (STEPS as i64 - 1);
/// Including ten minutes before the first step.
const SAMPLES: usize = 1440 + 40;
const SERIES_OF_TARGET: usize = 30;
const BATCH_SERIES: usize = 256;
const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 24 * HOUR_MS;
const YEAR_WINDOWS: usize = 8760;
const YEAR_MS: i64 = YEAR_WINDOWS as i64 * HOUR_MS;
const YEAR_START_MS: i64 = 19_000 * DAY_MS;

/// Counters with the labels of a web service: `instance`, `service`, `code`, `le`.
fn counters(name: &str, count: usize, samples: usize) -> Vec<SeriesSamples> {
    let mut all = Vec::with_capacity(count);
    let mut times = TimeColumn::default();
    for id in 0..count {
        let target = id / SERIES_OF_TARGET;
        if id % SERIES_OF_TARGET == 0 {
            let first =
                END_MS - SCRAPE_MS * (samples as i64 - 1) - (target as i64 * 37) % SCRAPE_MS;
            times = (0..samples as i64).map(|i| first + i * SCRAPE_MS).collect();
        }
        let labels = Labels::from_pairs([
            (METRIC_NAME, name.to_string()),
            ("code", format!("{}00", 2 + id % 4)),
            ("datacenter", format!("eu-{}", target % 3)),
            ("handler", format!("/api/{}", id % SERIES_OF_TARGET)),
            ("instance", format!("host-{target:05}:9100")),
            ("job", format!("job-{}", target % 5)),
            ("le", format!("{}", id % 10)),
            ("service", format!("service-{}", target % 20)),
        ]);
        let slope = 1.0 + (id % 7) as f64;
        let values = (0..samples).map(|i| 1000.0 + slope * i as f64);
        all.push(SeriesSamples {
            labels,
            floats: FloatColumns {
                timestamps: times.clone(),
                values: values.collect(),
            },
            histograms: Vec::new(),
            start_timestamps: Vec::new(),
            forms: Default::default(),
            rolled: None,
        });
    }
    all.sort_by(|a, b| a.labels.cmp(&b.labels));
    all
}

/// One series per target with an additional label.
fn infos(targets: usize) -> Vec<SeriesSamples> {
    let mut all = counters("node_uname_info", targets * SERIES_OF_TARGET, SAMPLES);
    all.retain(|series| series.labels.get("handler") == Some("/api/0"));
    for (id, series) in all.iter_mut().enumerate() {
        series.labels = Labels::from_pairs([
            (METRIC_NAME, "node_uname_info".to_string()),
            ("instance", format!("host-{id:05}:9100")),
            ("release", format!("6.{}", id % 7)),
        ]);
    }
    all
}

/// Copies matching series, in place of decoding.
struct CopyingSource(Vec<SeriesSamples>);

/// Hands out each metric once, without copying.
struct TakeOnceSource(Mutex<Vec<(String, Vec<SeriesSamples>)>>);

struct BatchStream(std::vec::IntoIter<SeriesSamples>);

impl SeriesSource for CopyingSource {
    fn select(
        &self,
        selection: Selection,
    ) -> BoxFuture<'_, Result<Box<dyn SeriesStream>, SourceError>> {
        let matches = |series: &&SeriesSamples| {
            let value = |name| series.labels.get(name).unwrap_or_default();
            selection
                .matchers
                .iter()
                .all(|m| m.matches(value(m.name())))
        };
        let selected: Vec<_> = self.0.iter().filter(matches).cloned().collect();
        Box::pin(
            async move { Ok(Box::new(BatchStream(selected.into_iter())) as Box<dyn SeriesStream>) },
        )
    }
}

impl SeriesSource for TakeOnceSource {
    fn select(
        &self,
        selection: Selection,
    ) -> BoxFuture<'_, Result<Box<dyn SeriesStream>, SourceError>> {
        let name = selection.matchers.iter().find(|m| m.name() == METRIC_NAME);
        let name = name.map_or("", |m| m.value());
        let mut metrics = self
            .0
            .lock()
            .expect("no bench panics while it holds the lock");
        let place = metrics.iter().position(|(metric, _)| metric == name);
        let series = metrics.swap_remove(place.expect("a metric is read once")).1;
        Box::pin(
            async move { Ok(Box::new(BatchStream(series.into_iter())) as Box<dyn SeriesStream>) },
        )
    }
}

impl SeriesStream for BatchStream {
    fn next_batch(&mut self) -> BoxFuture<'_, Result<Option<Vec<SeriesSamples>>, SourceError>> {
        let batch: Vec<_> = self.0.by_ref().take(BATCH_SERIES).collect();
        Box::pin(async move { Ok(Some(batch).filter(|batch| !batch.is_empty())) })
    }
}

/// Six hours by the minute.
fn range(query: &str) -> Request {
    request(
        query,
        QueryTime::Range {
            start_ms: START_MS,
            end_ms: END_MS,
            step_ms: STEP_MS,
        },
    )
}

fn instant(query: &str) -> Request {
    request(query, QueryTime::Instant { time_ms: END_MS })
}

fn request(query: &str, time: QueryTime) -> Request {
    Request {
        query: query.to_string(),
        time,
        lookback_ms: None,
        limit: None,
        timeout: None,
        counts_touched: false,
        max_source_resolution: None,
        rollup_strict: false,
    }
}

fn execute(engine: &Engine, source: &dyn SeriesSource, request: &Request) -> Answer {
    let never = AtomicBool::new(false);
    block_on(engine.execute(source, request, &never)).expect("the queries of benches are right")
}

/// CPU time of the thread in nanoseconds; wall time if the system does not report it.
struct CpuTime {
    started: Instant,
}

impl CpuTime {
    fn now(&self) -> u64 {
        // The system updates the count on context switches, so yield.
        std::thread::yield_now();
        let schedstat = std::fs::read_to_string("/proc/thread-self/schedstat");
        let ran = schedstat
            .ok()
            .and_then(|text| text.split(' ').next()?.parse().ok());
        ran.unwrap_or_else(|| self.started.elapsed().as_nanos() as u64)
    }
}

impl Measurement for CpuTime {
    type Intermediate = u64;
    type Value = u64;

    fn start(&self) -> u64 {
        self.now()
    }

    fn end(&self, start: u64) -> u64 {
        self.now() - start
    }

    fn add(&self, a: &u64, b: &u64) -> u64 {
        a + b
    }

    fn zero(&self) -> u64 {
        0
    }

    fn to_f64(&self, nanoseconds: &u64) -> f64 {
        *nanoseconds as f64
    }

    fn formatter(&self) -> &dyn ValueFormatter {
        WallTime.formatter()
    }
}

fn operators(criterion: &mut Criterion<CpuTime>) {
    let mut group = criterion.benchmark_group("operators");
    let engine = Engine::default();
    let mut bench = |name: &str, metrics: &[&[SeriesSamples]], request: Request| {
        let series: usize = metrics.iter().map(|series| series.len()).sum();
        let steps = match request.time {
            QueryTime::Instant { .. } => 1,
            QueryTime::Range { .. } => STEPS,
        };
        let prepare = || {
            let named = |series: &&[SeriesSamples]| {
                (series[0].labels.metric_name().to_string(), series.to_vec())
            };
            TakeOnceSource(Mutex::new(metrics.iter().map(named).collect()))
        };
        group.throughput(Throughput::Elements((series * steps) as u64));
        group.bench_function(name, |bencher| {
            let run = |source: TakeOnceSource| execute(&engine, &source, &request);
            bencher.iter_batched(prepare, run, BatchSize::PerIteration);
        });
    };
    let requests = counters("requests_total", 1500, SAMPLES);
    let errors = counters("errors_total", 1500, SAMPLES);
    let buckets = counters("latency_bucket", 3000, SAMPLES);
    let uname = infos(50);
    let many = counters("up", 10_000, 20);
    bench("count_by_instant", &[&many], instant("count by (job) (up)"));
    bench("select_instant", &[&many], instant("up"));
    bench("select", &[&requests], range("requests_total"));
    bench("rate", &[&requests], range("rate(requests_total[5m])"));
    bench(
        "sum_by",
        &[&requests],
        range("sum by (service) (requests_total)"),
    );
    let query = "sum by (service) (rate(requests_total[5m]))";
    bench("sum_by_rate", &[&requests], range(query));
    let query = "sum without (le, handler) (rate(requests_total[5m]))";
    bench("sum_without_rate", &[&requests], range(query));
    bench("topk", &[&requests], range("topk(5, requests_total)"));
    bench(
        "join_one_to_one",
        &[&requests, &errors],
        range("errors_total / requests_total"),
    );
    let query = "requests_total * on (instance) group_left (release) node_uname_info";
    bench("join_group_left", &[&requests, &uname], range(query));
    let query = "histogram_quantile(0.95, sum by (le, job) (rate(latency_bucket[5m])))";
    bench("histogram_quantile", &[&buckets], range(query));
    let query = "max_over_time(rate(requests_total[2m])[10m:1m])";
    bench("subquery", &[&requests], range(query));
    let query = r#"label_replace(requests_total, "host", "$1", "instance", "([^:]+):.*")"#;
    bench("label_replace", &[&requests], range(query));
    group.finish();
}

/// Counters whose samples of a year were rolled up to windows of an hour.
fn rolled_counters(count: usize, fields: WindowFields) -> Vec<SeriesSamples> {
    let levels = Arc::new(Levels {
        segments: vec![Segment {
            start_ms: YEAR_START_MS,
            end_ms: YEAR_START_MS + YEAR_MS,
            resolution: Resolution::HOUR,
        }],
        excluded: None,
    });
    let starts: TimeColumn = (0..YEAR_WINDOWS as i64)
        .map(|i| YEAR_START_MS + i * HOUR_MS)
        .collect();
    let windows = |slope: f64| {
        let window = |start_ms: &i64| {
            let at = |seconds: i64| {
                let timestamp_ms = start_ms + 1000 * seconds;
                let value = slope * (timestamp_ms - YEAR_START_MS) as f64;
                Aggregate::of(timestamp_ms, value)
            };
            let (mut interior, last) = (at(3), at(3588));
            interior.merge(&last);
            interior.numbers = 240;
            Window {
                start_ms: *start_ms,
                edge: Edge::None,
                interior: Some(interior),
                ends_stale: false,
                has_late: false,
            }
        };
        let windows: Vec<Window> = starts.iter().map(window).collect();
        let mut columns = WindowColumns::from_windows(&windows, fields);
        columns.starts = starts.clone();
        columns
    };
    let mut all = counters("old_total", count, 0);
    for (id, series) in all.iter_mut().enumerate() {
        series.rolled = Some(RolledSamples {
            levels: Arc::clone(&levels),
            windows: vec![windows(1.0 + (id % 7) as f64)],
            histograms: Vec::new(),
            room: Default::default(),
        });
    }
    all
}

/// The cost of a window; that of decoding is not in it.
fn windows(criterion: &mut Criterion<CpuTime>) {
    let mut group = criterion.benchmark_group("windows");
    let engine = Engine::default();
    let (sums, maxima) = (WindowFields::SUM, WindowFields::MAX);
    let growth = WindowFields::FIRST | WindowFields::LAST | WindowFields::CORRECTION;
    for (name, function, fields, step_ms) in [
        ("avg_by_day", "avg_over_time(old_total[1d])", sums, DAY_MS),
        ("sum_by_day", "sum_over_time(old_total[1d])", sums, DAY_MS),
        ("max_by_day", "max_over_time(old_total[1d])", maxima, DAY_MS),
        ("rate_by_day", "rate(old_total[1d])", growth, DAY_MS),
        ("avg_by_hour", "avg_over_time(old_total[1d])", sums, HOUR_MS),
        (
            "max_by_hour",
            "max_over_time(old_total[1d])",
            maxima,
            HOUR_MS,
        ),
        ("rate_by_hour", "rate(old_total[1d])", growth, HOUR_MS),
        ("select_by_hour", "old_total", WindowFields::LAST, HOUR_MS),
    ] {
        let table = rolled_counters(100, WindowFields::COUNTS | fields);
        group.throughput(Throughput::Elements((table.len() * YEAR_WINDOWS) as u64));
        let query = format!("sum({function})");
        let time = QueryTime::Range {
            start_ms: YEAR_START_MS,
            end_ms: YEAR_START_MS + YEAR_MS - HOUR_MS,
            step_ms,
        };
        let request = request(&query, time);
        let prepare = || TakeOnceSource(Mutex::new(vec![("old_total".to_string(), table.clone())]));
        group.bench_function(name, |bencher| {
            let run = |source: TakeOnceSource| execute(&engine, &source, &request);
            bencher.iter_batched(prepare, run, BatchSize::PerIteration);
        });
    }
    group.finish();
}

fn rules(criterion: &mut Criterion<CpuTime>) {
    let mut group = criterion.benchmark_group("rules");
    let mut table = counters("requests_total", 1500, SAMPLES);
    table.extend(counters("up", 10, 20));
    table.extend(counters("many", 10_000, 20));
    table.sort_by(|a, b| a.labels.cmp(&b.labels));
    let source = CopyingSource(table);
    let sum_of_constants = ["1"; 60].join(" + ");
    let without = |change: fn(&mut Rules)| {
        let mut rules = Rules::ALL;
        change(&mut rules);
        rules
    };
    let cases = [
        (
            "fold_constants",
            without(|rules| rules.fold_constants = false),
            format!("up + ({sum_of_constants})"),
        ),
        (
            "push_matchers",
            without(|rules| rules.push_matchers = false),
            r#"rate(requests_total{instance="host-00007:9100"}[5m]) / rate(requests_total[10m])"#
                .to_string(),
        ),
        (
            "merge_scans",
            without(|rules| rules.merge_scans = false),
            r#"sum(rate(requests_total{code="500"}[5m])) / sum(rate(requests_total[5m]))"#
                .to_string(),
        ),
        (
            "fuse_selection",
            without(|rules| rules.fuse_selection = false),
            "topk(5, many)".to_string(),
        ),
        (
            "share_expressions",
            without(|rules| rules.share_expressions = false),
            "sum(rate(requests_total[5m])) / (1 + sum(rate(requests_total[5m])))".to_string(),
        ),
    ];
    for (name, off, query) in cases {
        let request = range(&query);
        for (state, rules) in [("on", Rules::ALL), ("off", off)] {
            let options = EngineOptions {
                rules,
                ..EngineOptions::default()
            };
            let engine = Engine::new(options);
            group.bench_function(BenchmarkId::new(name, state), |bencher| {
                bencher.iter(|| black_box(execute(&engine, &source, &request)));
            });
        }
    }
    group.finish();
}

fn main() {
    // Within a pool of one thread everything runs on that thread.
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build();
    pool.expect("a thread can be started").install(|| {
        let cpu_time = CpuTime {
            started: Instant::now(),
        };
        let mut criterion = Criterion::default()
            .with_measurement(cpu_time)
            .sample_size(10)
            .warm_up_time(Duration::from_millis(200))
            .measurement_time(Duration::from_secs(1))
            .configure_from_args();
        operators(&mut criterion);
        rules(&mut criterion);
        windows(&mut criterion);
        criterion.final_summary();
    });
}
