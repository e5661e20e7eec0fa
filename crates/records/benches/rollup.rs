//! Encoding and decoding rolled-up series. Bytes per series and hour go to standard error, beside
//! those of the hours' streams: counters, gauges with two digits, floats in full precision and
//! constants, sampled every 10, 15 and 60 s with a jitter of 3 ms, as windows of 5 m (in a bucket
//! of 32 h) and 1 h (128 h and 1024 h), with all fields and without squares and changes.
//!
//! Each iteration works through several series, because a single one would be learned by the branch
//! predictor and look faster than it is.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use icecore_model::rollup::{Resolution, Window, WindowFields, roll_up};
use icecore_model::{BucketSize, BucketStart, HOUR_MS};
use icecore_records::rollup_series::{Decoder, Encoder, RollupRecord};
use icecore_records::{Bucket, gorilla};

const SERIES: usize = 8;
const EXPONENTS: [(Resolution, u8); 3] = [
    (Resolution::FIVE_MINUTES, 6),
    (Resolution::HOUR, 8),
    (Resolution::HOUR, 11),
];

/// A small deterministic generator (xorshift), so that runs compare.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Roughly normal, mean 0, deviation 1.
    fn normal(&mut self) -> f64 {
        (self.unit() + self.unit() + self.unit() + self.unit() - 2.0) * 1.732
    }
}

/// The load of a series, which drifts, and the seconds from one sample to the next.
type Step = fn(&mut Random, f64, load: f64, seconds: f64) -> f64;

const KINDS: [(&str, Step, &[i64]); 4] = [
    (
        "counter",
        |random, value, load, seconds| {
            let mean = 5.0 * load * seconds;
            value + (mean + mean.sqrt() * random.normal()).round().max(0.0)
        },
        &[10, 15, 60],
    ),
    (
        "gauge",
        |random, value, load, _| {
            let next = value + 0.1 * (100.0 * load + 10.0 * random.normal() - value);
            (next * 100.0).round() / 100.0
        },
        &[10, 60],
    ),
    (
        "noisy",
        |random, _, load, _| 100.0 * load + 10.0 * random.normal(),
        &[10],
    ),
    ("constant", |_, _, _, _| 1.0, &[10]),
];

fn samples(bucket: Bucket, step: Step, seconds: i64, seed: u64) -> Vec<(i64, f64)> {
    let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ seed << 20);
    let mut load = 0.2 + 0.6 * random.unit();
    let mut value = (random.next() % 100_000) as f64;
    let phase = (random.next() % (seconds as u64 * 1000 - 10)) as i64 + 3;
    let next = |time_ms| {
        load = (load + 0.01 * random.normal()).clamp(0.03, 0.97);
        value = step(&mut random, value, load, seconds as f64);
        let jitter = (random.next() % 7) as i64 - 3;
        (time_ms + phase + jitter, value)
    };
    let times = (bucket.start_ms()..bucket.end_ms()).step_by(seconds as usize * 1000);
    times.map(next).collect()
}

struct Case {
    name: String,
    bucket: Bucket,
    resolution: Resolution,
    hours: usize,
    windows: Vec<Vec<Window>>,
}

fn cases() -> Vec<Case> {
    let mut cases = vec![];
    for (resolution, exponent) in EXPONENTS {
        let size = BucketSize::from_exponent(exponent).expect("between 1 and 15");
        let bucket = Bucket {
            size,
            start: BucketStart(28 * (60 << 10)),
        };
        let hours = (size.duration_ms() / HOUR_MS) as usize;
        for (name, step, intervals) in KINDS {
            for seconds in intervals {
                let name = format!("{name}/{seconds}s/{resolution}/{hours}h");
                let series = |seed| samples(bucket, step, *seconds, seed);
                let series: Vec<_> = (0..SERIES as u64).map(series).collect();
                report(&name, "stream", hours, series.iter().map(|s| stream_len(s)));
                let windows = |samples: &Vec<_>| roll_up(resolution, samples.iter().copied());
                let windows = series.iter().map(windows).collect();
                cases.push(Case {
                    name,
                    bucket,
                    resolution,
                    hours,
                    windows,
                });
            }
        }
    }
    cases
}

fn stream_len(samples: &[(i64, f64)]) -> usize {
    let hours = samples.chunk_by(|a, b| a.0 / HOUR_MS == b.0 / HOUR_MS);
    let stream = |hour: &[(i64, f64)]| {
        let (timestamps, values): (Vec<i64>, Vec<f64>) = hour.iter().copied().unzip();
        gorilla::encode(&timestamps, &values).len()
    };
    hours.map(stream).sum()
}

fn report(name: &str, what: &str, hours: usize, lengths: impl Iterator<Item = usize>) {
    let bytes: usize = lengths.sum();
    let per_hour = bytes as f64 / (SERIES * hours) as f64;
    eprintln!("{name} {what}: {per_hour:.1} bytes per series and hour");
}

fn rollup(c: &mut Criterion) {
    let lost = WindowFields::M2 | WindowFields::CHANGES;
    let lean = WindowFields::ALL.without(lost);
    let counter = lean;
    let gauge = lean.without(WindowFields::CORRECTION | WindowFields::RESETS);
    for case in cases() {
        let typed = if case.name.starts_with("counter") {
            counter
        } else {
            gauge
        };
        let mut encoder = Encoder::default();
        let mut encode = |fields| -> Vec<Vec<u8>> {
            let windows = case.windows.iter();
            windows
                .map(|windows| encoder.encode(case.bucket, case.resolution, fields, windows))
                .collect()
        };
        let records = encode(WindowFields::ALL);
        for (what, fields) in [("full", WindowFields::ALL), ("lean", typed)] {
            report(
                &case.name,
                what,
                case.hours,
                encode(fields).iter().map(Vec::len),
            );
        }
        let count: usize = case.windows.iter().map(Vec::len).sum();
        let mut group = c.benchmark_group(format!("rollup/{}", case.name));
        group.throughput(Throughput::Elements(count as u64));
        group.bench_function("encode", |b| {
            b.iter(|| black_box(encode_all(&mut Encoder::default(), &case)));
        });
        let all = i64::MIN..i64::MAX;
        for (what, fields) in [
            ("counts, sum", WindowFields::COUNTS | WindowFields::SUM),
            ("all", WindowFields::ALL),
        ] {
            group.bench_function(BenchmarkId::new("decode", what), |b| {
                let mut decoder = Decoder::default();
                b.iter(|| {
                    for record in &records {
                        let record = RollupRecord::parse(case.bucket, record).expect("own record");
                        let columns = decoder.columns(&record, fields, all.clone());
                        black_box(columns.expect("own record"));
                    }
                });
            });
        }
        group.finish();
    }
}

fn encode_all(encoder: &mut Encoder, case: &Case) -> usize {
    let windows = case.windows.iter();
    windows
        .map(|windows| {
            encoder
                .encode(case.bucket, case.resolution, WindowFields::ALL, windows)
                .len()
        })
        .sum()
}

criterion_group!(benches, rollup);
criterion_main!(benches);
