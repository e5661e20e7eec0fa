//! Memory use of large queries, over a source that generates its series as they are read.
//!
//! ```text
//! cargo test --release -p icecore-promql --test all memory -- \
//!     --ignored --nocapture --test-threads 1
//! ```

use std::fs;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use futures::executor::block_on;
use icecore_model::{
    BoxFuture, FloatColumns, Labels, Selection, SeriesSamples, SeriesSource, SeriesStream,
    SourceError, TimeColumn,
};
use icecore_promql::{Engine, EngineOptions, QueryTime, QueryValue, Request};

const SCRAPE_MS: i64 = 15_000;
const END_MS: i64 = 1_700_000_000_000;
const HOUR_MS: i64 = 3_600_000;
const BATCH_SERIES: usize = 1000;
const GIB: u64 = 1 << 30;

/// Series of targets with twenty series each, a sample every 15 s.
struct EndlessSource {
    series: usize,
}

struct Stream {
    next: usize,
    series: usize,
    times: TimeColumn,
}

impl SeriesSource for EndlessSource {
    fn select(
        &self,
        selection: Selection,
    ) -> BoxFuture<'_, Result<Box<dyn SeriesStream>, SourceError>> {
        let first = selection.start_ms.div_euclid(SCRAPE_MS) + 1;
        let last = selection.end_ms.div_euclid(SCRAPE_MS);
        let stream = Stream {
            next: 0,
            series: self.series,
            times: (first..=last).map(|i| i * SCRAPE_MS).collect(),
        };
        Box::pin(async move { Ok(Box::new(stream) as Box<dyn SeriesStream>) })
    }
}

impl SeriesStream for Stream {
    fn next_batch(&mut self) -> BoxFuture<'_, Result<Option<Vec<SeriesSamples>>, SourceError>> {
        let end = (self.next + BATCH_SERIES).min(self.series);
        let batch: Vec<_> = (self.next..end).map(|id| self.one(id)).collect();
        self.next = end;
        Box::pin(async move { Ok(Some(batch).filter(|batch| !batch.is_empty())) })
    }
}

impl Stream {
    fn one(&self, id: usize) -> SeriesSamples {
        let target = id / 20;
        let labels = Labels::from_pairs([
            ("__name__", "requests_total"),
            ("handler", &format!("/api/v1/{}", id % 20)),
            ("instance", &format!("host-{target:06}.example.net:9100")),
            ("job", &format!("job-{}", target % 50)),
            ("region", &format!("eu-central-{}", target % 3)),
        ]);
        let values = (0..self.times.len()).map(|i| (id % 7 * i) as f64);
        SeriesSamples {
            labels,
            floats: FloatColumns {
                timestamps: self.times.clone(),
                values: values.collect(),
            },
            histograms: Vec::new(),
            start_timestamps: Vec::new(),
            forms: Default::default(),
            rolled: None,
        }
    }
}

/// The peak resident size since it was last reset.
fn peak_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kib = line
        .and_then(|line| line.split_whitespace().nth(1))
        .unwrap();
    kib.parse::<u64>().unwrap() * 1024
}

fn measure(series: usize, query: &str, time: QueryTime, expected_series: usize) {
    fs::write("/proc/self/clear_refs", "5").unwrap();
    let engine = Engine::new(EngineOptions {
        memory_max: 2 << 30,
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
    let (source, never) = (EndlessSource { series }, AtomicBool::new(false));
    let started = Instant::now();
    let answer = block_on(engine.execute(&source, &request, &never)).unwrap();
    let seconds = started.elapsed().as_secs_f64();
    let found = match &answer.value {
        QueryValue::Vector(samples) => samples.len(),
        QueryValue::Matrix(series) => series.len(),
        _ => 0,
    };
    let mib = |bytes: u64| bytes >> 20;
    println!(
        "{query} over {series} series: {} MiB resident at most, {} MiB counted, {seconds:.1} s",
        mib(peak_bytes()),
        mib(answer.stats.memory_peak_bytes)
    );
    assert_eq!(found, expected_series);
    assert!(peak_bytes() <= 2 * GIB, "{query}");
}

#[test]
#[ignore = "takes a minute without optimisation, and measures the whole process"]
fn large_queries_fit() {
    let instant = QueryTime::Instant { time_ms: END_MS };
    let range = QueryTime::Range {
        start_ms: END_MS - HOUR_MS,
        end_ms: END_MS,
        step_ms: 60_000,
    };
    let million = 1_000_000;
    measure(million, "sum by (job) (requests_total)", instant, 50);
    measure(
        million,
        "sum by (instance) (requests_total)",
        instant,
        50_000,
    );
    measure(
        million,
        "sum by (instance, handler) (requests_total)",
        instant,
        million,
    );
    measure(million, "requests_total", instant, million);
    measure(
        100_000,
        "sum by (job) (rate(requests_total[5m]))",
        range,
        50,
    );
    measure(100_000, "rate(requests_total[5m])", range, 100_000);
    let ratio = "sum(rate(requests_total[5m])) / sum(rate(requests_total[5m] offset 10m))";
    measure(100_000, ratio, range, 1);
    let ratio = "rate(requests_total[5m]) / rate(requests_total[5m] offset 10m)";
    measure(100_000, ratio, range, 100_000);
}
