//! Encoding and decoding chunks of values, by kind of series and length, beside the hour's stream.
//!
//! The kinds follow what exporters show: CPU counters in hundredths, counters of bytes, gauges in
//! pages, gauges with two digits, buckets of histograms, sums in full precision, counters that
//! seldom move, constants. Each iteration works through 64 different series, because a single one
//! would be learned by the branch predictor and look faster than it is. Bytes per sample go to
//! standard error.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use icecore_records::columns::values;
use icecore_records::gorilla;

const SERIES: usize = 64;
const LENGTHS: [usize; 3] = [240, 960, 3840];

/// A small deterministic generator (xorshift), so that runs compare.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Roughly normal, mean 0, deviation 1.
    fn normal(&mut self) -> f64 {
        (self.unit() + self.unit() + self.unit() + self.unit() - 2.0) * 1.732
    }

    /// Roughly what a Poisson process of this mean does.
    fn events(&mut self, mean: f64) -> f64 {
        (mean + mean.sqrt() * self.normal()).round().max(0.0)
    }
}

/// What a series is at: its load, which drifts, and its value.
struct State {
    load: f64,
    value: f64,
}

type Step = fn(&mut Random, &mut State) -> f64;

const KINDS: [(&str, Step); 8] = [
    ("cpu", |random, at| {
        at.value += (300.0 * at.load * (0.8 + 0.4 * random.unit())).floor();
        at.value / 100.0
    }),
    ("bytes", |random, at| {
        at.value += random.events(4000.0 * at.load) * (500 + random.below(400)) as f64;
        at.value
    }),
    ("pages", |random, at| {
        at.value = (at.value + 3000.0 * random.normal()).abs();
        at.value.floor() * 4096.0
    }),
    ("load", |random, at| {
        at.value += 0.1 * (400.0 * at.load + 30.0 * random.normal() - at.value);
        at.value.round() / 100.0
    }),
    ("bucket", |random, at| {
        at.value += random.events(120.0 * at.load);
        at.value
    }),
    ("sum", |random, at| {
        at.value += 20.0 * at.load * (0.8 + 0.4 * random.unit());
        at.value
    }),
    ("seldom", |random, at| {
        at.value += if random.below(20) == 0 { 1.0 } else { 0.0 };
        at.value
    }),
    ("constant", |_, at| at.value),
];

fn series(step: Step, len: usize) -> Vec<Vec<f64>> {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let one = |_| {
        let mut at = State {
            load: 0.2 + 0.6 * random.unit(),
            value: random.below(100_000) as f64,
        };
        let next = |_| {
            at.load = (at.load + 0.02 * random.normal()).clamp(0.03, 0.97);
            step(&mut random, &mut at)
        };
        (0..len).map(next).collect()
    };
    (0..SERIES).map(one).collect()
}

fn chunks(c: &mut Criterion) {
    for (name, step) in KINDS {
        let mut group = c.benchmark_group(format!("columns/{name}"));
        for len in LENGTHS {
            let series = series(step, len);
            let mut encoder = values::Encoder::default();
            let mut encode = |values: &Vec<f64>| {
                let mut chunk = vec![];
                encoder.encode(values, &mut chunk);
                chunk
            };
            let chunks: Vec<Vec<u8>> = series.iter().map(&mut encode).collect();
            report(name, len, "columns", &chunks);
            group.throughput(Throughput::Elements((SERIES * len) as u64));
            group.bench_function(BenchmarkId::new("encode", len), |b| {
                let mut chunk = vec![];
                b.iter(|| {
                    for values in &series {
                        chunk.clear();
                        encoder.encode(values, &mut chunk);
                        black_box(&chunk);
                    }
                });
            });
            group.bench_function(BenchmarkId::new("decode", len), |b| {
                let mut values = vec![];
                b.iter(|| {
                    for chunk in &chunks {
                        values.clear();
                        values::decode_into(chunk, len, &mut values).expect("own chunk");
                        black_box(&values);
                    }
                });
            });
        }
        group.finish();
    }
}

/// The same values as an hour has them, with timestamps 15 s apart.
fn hour_streams(c: &mut Criterion) {
    let len = LENGTHS[0];
    let timestamps: Vec<i64> = (0..len as i64)
        .map(|i| 1_700_000_000_000 + 15_000 * i)
        .collect();
    for (name, step) in KINDS {
        let series = series(step, len);
        let streams: Vec<Vec<u8>> = series
            .iter()
            .map(|values| gorilla::encode(&timestamps, values))
            .collect();
        report(name, len, "stream", &streams);
        let mut group = c.benchmark_group(format!("stream/{name}"));
        group.throughput(Throughput::Elements((SERIES * len) as u64));
        group.bench_function("decode", |b| {
            let (mut timestamps, mut values) = (vec![], vec![]);
            b.iter(|| {
                for stream in &streams {
                    timestamps.clear();
                    values.clear();
                    gorilla::decode_into(stream, &mut timestamps, &mut values).expect("own stream");
                    black_box((&timestamps, &values));
                }
            });
        });
        group.finish();
    }
}

fn report(name: &str, len: usize, codec: &str, encoded: &[Vec<u8>]) {
    let bytes: usize = encoded.iter().map(Vec::len).sum();
    let per_sample = bytes as f64 / (SERIES * len) as f64;
    eprintln!("{codec}/{name}/{len}: {per_sample:.3} bytes per sample");
}

criterion_group!(benches, chunks, hour_streams);
criterion_main!(benches);
