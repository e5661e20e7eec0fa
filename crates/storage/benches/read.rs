//! What selections cost: 10 000 series over 16 hours at 15 s, as 50 hosts would send them, read
//! from the head, and after a restart each from hours, from 4 h buckets and from a 16 h bucket.
//!
//! `cargo bench -p icecore-storage --bench read` prints wall and CPU milliseconds per selection,
//! for the first time (cold) and the least of the following ones (warm). `-- --hours 4` makes it
//! shorter, `--only "head 1 500"` chooses cases, `--runs 500` repeats them for a profile.

#![allow(clippy::unwrap_used, reason = "in a bench a panic is the report")]

use std::sync::Arc;
use std::time::Instant;

use icecore_model::{
    BucketStart, MatchOp, Matcher, RawLabels, Sample, SampleSink, SelectHints, Selection,
    SeriesStream, push_raw_label,
};
use icecore_storage::testing::Hooks;
use icecore_storage::{Database, Environment, ManualClock, Options};

const HOUR_MS: i64 = 3_600_000;
/// The start of a 16 h bucket.
const START_MS: i64 = 1_700_000_000_000 / (16 * HOUR_MS) * (16 * HOUR_MS);
const STEP_MS: i64 = 15_000;
const HOSTS: u64 = 50;
const SERIES_PER_HOST: u64 = 200;
const WARM_RUNS: usize = 20;

/// A small deterministic generator (xorshift), so that runs compare.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// One host: label bytes of its series and their current values.
struct Host {
    number: u64,
    random: Random,
    labels: Vec<Vec<u8>>,
    values: Vec<f64>,
}

impl Host {
    fn new(number: u64) -> Self {
        let labels = (0..SERIES_PER_HOST).map(|s| labels_of(number, s)).collect();
        let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ (number + 1));
        let values = (0..SERIES_PER_HOST)
            .map(|_| random.below(1_000_000) as f64)
            .collect();
        Self {
            number,
            random,
            labels,
            values,
        }
    }

    fn step(&mut self) {
        for (series, value) in self.values.iter_mut().enumerate() {
            let random = &mut self.random;
            match series {
                // Counters of requests, of hundredths of seconds, of bytes.
                0..90 => *value += random.below(400) as f64,
                90..122 => *value = (*value * 100.0 + random.below(1500) as f64).round() / 100.0,
                122..160 => *value += (random.below(2000) * 4096) as f64,
                // Gauges that move, constants, and a few values without end.
                160..180 => *value = (random.below(100_000)) as f64 / 1000.0,
                180..194 => {}
                _ => *value = (random.below(1 << 40) as f64).sqrt(),
            }
        }
    }
}

fn labels_of(host: u64, series: u64) -> Vec<u8> {
    let instance = format!("host-{host:05}:8080");
    let region = format!("region-{}", host % 5);
    let (metric, job, extra) = match series {
        0..30 => (
            "http_requests_total".to_string(),
            "api",
            vec![
                (
                    "code",
                    ["200", "404", "500"][series as usize % 3].to_string(),
                ),
                ("handler", format!("/api/v1/h{}", series / 6)),
                (
                    "method",
                    ["GET", "POST"][series as usize / 3 % 2].to_string(),
                ),
            ],
        ),
        30..90 => (
            "http_request_duration_seconds_bucket".to_string(),
            "api",
            vec![
                ("handler", format!("/api/v1/h{}", (series - 30) / 12)),
                ("le", format!("0.{:02}", (series - 30) % 12)),
            ],
        ),
        90..122 => (
            "node_cpu_seconds_total".to_string(),
            "node",
            vec![
                ("cpu", ((series - 90) / 8).to_string()),
                ("mode", format!("mode{}", series % 8)),
            ],
        ),
        _ => (format!("node_metric_{series}"), "node", Vec::new()),
    };
    let mut pairs = vec![
        ("__name__", metric),
        (
            "env",
            ["production", "staging"][host as usize % 2].to_string(),
        ),
        ("instance", instance),
        ("job", job.to_string()),
        ("region", region),
    ];
    pairs.extend(extra);
    pairs.sort();
    let mut bytes = Vec::new();
    for (name, value) in &pairs {
        push_raw_label(&mut bytes, name, value);
    }
    bytes
}

async fn load(db: &Database, hours: i64) {
    let hosts: Vec<Host> = (0..HOSTS).map(Host::new).collect();
    let mut hosts = Some(hosts);
    let steps = hours * HOUR_MS / STEP_MS;
    for first in (0..steps).step_by(10) {
        let mut sending = hosts.take().unwrap();
        let (back, sent) = tokio::sync::oneshot::channel();
        let outcome = db.write(move |batch| {
            for step in first..(first + 10).min(steps) {
                for host in &mut sending {
                    host.step();
                    let jitter = host.random.below(3) as i64;
                    let time = START_MS + step * STEP_MS + (host.number * 280) as i64 + jitter;
                    for (labels, value) in host.labels.iter().zip(&host.values) {
                        batch.series(RawLabels(labels));
                        batch.sample(Sample {
                            timestamp_ms: time,
                            value: *value,
                            start_timestamp_ms: 0,
                        });
                    }
                }
            }
            back.send(sending).map_err(drop)
        });
        assert!(outcome.await.unwrap().rejected.is_empty());
        hosts = Some(sent.await.unwrap());
    }
}

/// Nanoseconds that all threads of this process have run.
fn cpu_ns() -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let ran = |path: std::path::PathBuf| {
        let text = std::fs::read_to_string(path.join("schedstat")).unwrap_or_default();
        text.split(' ').next().and_then(|n| n.parse::<u64>().ok())
    };
    tasks.filter_map(|task| ran(task.ok()?.path())).sum()
}

struct Run {
    samples: usize,
    series: usize,
    columns: usize,
    wall_ms: f64,
    cpu_ms: f64,
}

async fn select(db: &Database, selection: &Selection) -> Run {
    // Looking at the clocks of all threads takes a while itself.
    let before = cpu_ns();
    let (cpu, began) = (cpu_ns(), Instant::now());
    let reading = cpu - before;
    let (mut samples, mut series) = (0, 0);
    let mut columns = std::collections::HashSet::new();
    let mut stream = db.select(selection.clone()).await.unwrap();
    while let Some(batch) = stream.next_batch().await.unwrap() {
        series += batch.len();
        for found in &batch {
            samples += found.floats.values.len();
            columns.insert(found.floats.timestamps.identity());
        }
    }
    Run {
        samples,
        series,
        columns: columns.len(),
        wall_ms: began.elapsed().as_secs_f64() * 1e3,
        cpu_ms: (cpu_ns() - cpu).saturating_sub(reading) as f64 / 1e6,
    }
}

async fn measure(db: &Database, place: &str, hours: i64) {
    let argument = |name: &str| {
        let at = std::env::args().position(|a| a == name)?;
        std::env::args().nth(at + 1)
    };
    let only = argument("--only").unwrap_or_default();
    let runs = argument("--runs").map_or(WARM_RUNS, |runs| runs.parse().unwrap());
    let end_ms = START_MS + hours * HOUR_MS - 1;
    let is = |value: &str| Matcher::equal("__name__", value);
    let like = |name: &str, value: &str| Matcher::new(MatchOp::Regex, name, value).unwrap();
    let one = vec![
        is("http_requests_total"),
        Matcher::equal("instance", "host-00007:8080"),
        Matcher::equal("handler", "/api/v1/h0"),
        Matcher::equal("code", "200"),
        Matcher::equal("method", "GET"),
    ];
    let minutes = |n: i64| end_ms - n * 60_000;
    let cases = [
        ("one series, all hours", one.clone(), START_MS, false),
        ("one series, 5 min", one, minutes(5), false),
        (
            "1 500 series, all hours",
            vec![is("http_requests_total")],
            START_MS,
            false,
        ),
        (
            "1 500 series, 1 h",
            vec![is("http_requests_total")],
            minutes(60),
            false,
        ),
        (
            "10 000 series, 5 min",
            vec![like("job", ".+")],
            minutes(5),
            false,
        ),
        (
            "10 000 series, labels",
            vec![like("job", ".+")],
            START_MS,
            true,
        ),
        (
            "10 000 series, all hours",
            vec![like("job", ".+")],
            START_MS,
            false,
        ),
        (
            "regex on instance, 1 h",
            vec![like("instance", "host-0001[0-4].*")],
            minutes(60),
            false,
        ),
    ];
    for (name, matchers, start_ms, labels_only) in cases {
        let selection = Selection {
            matchers,
            start_ms,
            end_ms,
            hints: SelectHints {
                labels_only,
                ..SelectHints::default()
            },
        };
        if !format!("{place} {name}").contains(&only) {
            continue;
        }
        let cold = select(db, &selection).await;
        let mut warm: Option<Run> = None;
        for _ in 0..runs {
            let run = select(db, &selection).await;
            if warm.as_ref().is_none_or(|least| run.cpu_ms < least.cpu_ms) {
                warm = Some(run);
            }
        }
        let warm = warm.unwrap();
        let per_sample = warm.cpu_ms * 1e6 / warm.samples.max(1) as f64;
        eprintln!(
            "{place:8} {name:26} {:6} series {:9} samples {:5} columns | cold {:8.2} ms {:8.2} cpu | warm {:7.3} ms {:7.3} cpu {:6.2} ns/sample",
            warm.series,
            warm.samples,
            warm.columns,
            cold.wall_ms,
            cold.cpu_ms,
            warm.wall_ms,
            warm.cpu_ms,
            per_sample,
        );
    }
}

fn resident() -> String {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("VmRSS"));
    line.unwrap_or_default().to_string()
}

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let hours = arguments
        .iter()
        .position(|a| a == "--hours")
        .map_or(16, |at| arguments[at + 1].parse().unwrap());
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::at(START_MS + hours * HOUR_MS));
    let open = async || {
        let mut options = Options::default();
        options.store.location = dir.path().to_string_lossy().into();
        options.store.fsync = false;
        let environment = Environment {
            clock: Some(clock.clone()),
            object_store: None,
        };
        Database::open(options, environment).await.unwrap()
    };
    let db = open().await;
    let (cpu, began) = (cpu_ns(), Instant::now());
    load(&db, hours).await;
    let seconds = (cpu_ns() - cpu) as f64 / 1e9;
    eprintln!(
        "loaded in {:?}, {seconds:.2} CPU s; {}",
        began.elapsed(),
        resident()
    );
    measure(&db, "head", hours).await;
    let cached = |db: &Database| db.gauges().chunk_cache_bytes >> 10;
    eprintln!("{}, cache {} kB", resident(), cached(&db));
    db.flush().await.unwrap();
    db.close().await.unwrap();
    drop(db);
    for (place, exponent) in [("hours", 1), ("4 h", 3), ("16 h", 5)] {
        let db = open().await;
        coarsen(&db, exponent, hours).await;
        db.close().await.unwrap();
        drop(db);
        let db = open().await;
        measure(&db, place, hours).await;
        eprintln!("{}, cache {} kB", resident(), cached(&db));
        db.close().await.unwrap();
    }
}

/// Makes buckets of 2^(exponent − 1) hours.
async fn coarsen(db: &Database, exponent: u8, hours: i64) {
    let size_hours = 1 << (exponent - 1);
    for hour in (0..hours).step_by(size_hours) {
        if exponent > 1 {
            let start = BucketStart(((START_MS + hour * HOUR_MS) / 60_000) as u32);
            db.coarsen_now(exponent, start, None).await.unwrap();
        }
    }
}
