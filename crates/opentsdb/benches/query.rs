//! The cost of `/api/query` above the source: 1 000 series with a point every 10 s for a day.
//!
//! ```text
//! cargo bench -p icecore-opentsdb
//! ```
//!
//! CPU time of all threads, so that other load matters little: a query on idle cores takes about
//! that divided by the cores. Thirty series share their times. The samples are prepared outside of
//! the measurement; an element is a point.

use std::sync::Arc;

use criterion::measurement::{Measurement, ValueFormatter, WallTime};
use criterion::{BatchSize, BenchmarkId, Criterion, Throughput};
use futures::executor::block_on;
use http::{HeaderMap, Method};
use icecore_model::{
    BoxFuture, FloatColumns, Labels, METRIC_NAME, ManualClock, NumberForm, NumberForms, Selection,
    SeriesSamples, SeriesSource, SeriesStream, SourceError, TimeColumn,
};
use icecore_opentsdb::api::{Request, handle};
use icecore_opentsdb::testing::MemoryStore;
use icecore_opentsdb::{Config, Stores, Tsd};
use parking_lot::Mutex;

const SERIES: usize = 1000;
const SERIES_WITH_SAME_TIMES: usize = 30;
const POINTS: i64 = 8640;
const START_S: i64 = 1_700_006_400;
const BATCH_SERIES: usize = 256;

/// Counters of hosts in four data centers.
fn counters() -> Vec<SeriesSamples> {
    let mut times = TimeColumn::default();
    let series = |i: usize| {
        if i.is_multiple_of(SERIES_WITH_SAME_TIMES) {
            let first_ms = START_S * 1000 + (i as i64 * 37) % 10_000;
            times = (0..POINTS).map(|n| first_ms + n * 10_000).collect();
        }
        let integer = NumberForm::of_integer(1).1;
        SeriesSamples {
            labels: Labels::from_pairs([
                (METRIC_NAME, "requests".to_owned()),
                ("dc", format!("dc{}", i % 4)),
                ("host", format!("web{i:04}")),
            ]),
            floats: FloatColumns {
                timestamps: times.clone(),
                values: (0..POINTS)
                    .map(|n| (n * (i as i64 % 7 + 1)) as f64)
                    .collect(),
            },
            histograms: Vec::new(),
            start_timestamps: Vec::new(),
            forms: NumberForms::of(times.iter().map(|time| (*time, integer))),
            rolled: None,
        }
    };
    (0..SERIES).map(series).collect()
}

/// Hands out what was put into it.
#[derive(Default)]
struct PreparedSource(Mutex<Vec<Vec<SeriesSamples>>>);

impl PreparedSource {
    fn prepare(&self, series: &[SeriesSamples]) {
        let mut batches: Vec<_> = series.chunks(BATCH_SERIES).map(<[_]>::to_vec).collect();
        batches.reverse();
        *self.0.lock() = batches;
    }
}

impl SeriesSource for PreparedSource {
    fn select(&self, _: Selection) -> BoxFuture<'_, Result<Box<dyn SeriesStream>, SourceError>> {
        let batches = std::mem::take(&mut *self.0.lock());
        let stream: Box<dyn SeriesStream> = Box::new(PreparedStream(batches));
        Box::pin(async move { Ok(stream) })
    }
}

struct PreparedStream(Vec<Vec<SeriesSamples>>);

impl SeriesStream for PreparedStream {
    fn next_batch(&mut self) -> BoxFuture<'_, Result<Option<Vec<SeriesSamples>>, SourceError>> {
        let batch = self.0.pop();
        Box::pin(async move { Ok(batch) })
    }
}

/// Nanoseconds that all threads of the process have run.
struct CpuTime;

impl CpuTime {
    fn now() -> u64 {
        // The system updates the count on context switches, so yield.
        std::thread::yield_now();
        let threads = std::fs::read_dir("/proc/self/task").expect("the system has /proc");
        let ran = threads.flatten().filter_map(|thread| {
            let text = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
            text.split(' ').next()?.parse::<u64>().ok()
        });
        ran.sum()
    }
}

impl Measurement for CpuTime {
    type Intermediate = u64;
    type Value = u64;

    fn start(&self) -> u64 {
        Self::now()
    }

    fn end(&self, start: u64) -> u64 {
        Self::now() - start
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

fn queries(criterion: &mut Criterion<CpuTime>) {
    let source = Arc::new(PreparedSource::default());
    let stores = Stores {
        series: source.clone(),
        ..MemoryStore::stores()
    };
    let clock = Arc::new(ManualClock::at((START_S + 86_400) * 1000));
    let tsd = block_on(Tsd::open(Config::default(), stores, clock));
    let tsd = tsd.expect("the store is empty");
    let request = |method, target: &str, body: &str| {
        let body = body.to_owned().into();
        let request = Request::new(method, target, HeaderMap::new(), body);
        let response = block_on(handle(&tsd, &request));
        assert_eq!(
            response.status,
            200,
            "{}",
            String::from_utf8_lossy(&response.body)
        );
        response.body.len()
    };
    let names = r#"{"metric":["requests"],"tagk":["host","dc"]}"#;
    request(Method::POST, "/api/uid/assign", names);
    let series = counters();
    let mut group = criterion.benchmark_group("query");
    group.sample_size(20);
    group.throughput(Throughput::Elements(SERIES as u64 * POINTS as u64));
    for m in [
        "sum:1m-avg:rate:requests",
        "sum:1m-avg:rate:requests{dc=*}",
        "p99:1m-max:requests",
        "sum:requests",
        "none:1h-sum:requests",
    ] {
        let encoded: String = form_urlencoded::byte_serialize(m.as_bytes()).collect();
        let end_s = START_S + 86_399;
        let target = format!("/api/query?start={START_S}&end={end_s}&m={encoded}");
        group.bench_function(BenchmarkId::from_parameter(m), |bencher| {
            let run = |()| request(Method::GET, &target, "");
            bencher.iter_batched(|| source.prepare(&series), run, BatchSize::PerIteration);
        });
    }
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default()
        .with_measurement(CpuTime)
        .configure_from_args();
    queries(&mut criterion);
    criterion.final_summary();
}
