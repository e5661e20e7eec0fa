//! Encoding and decoding one hour of a series: 240 samples, 15 s apart with 0..2 ms of jitter.
//!
//! Each iteration works through 64 different streams, because a single one would be learned by the
//! branch predictor and look faster than it is.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use icecore_records::gorilla;

const STREAMS: usize = 64;
const SAMPLES: usize = 240;

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
}

type Series = (Vec<i64>, Vec<f64>);

fn series(next_value: impl Fn(&mut Random, f64) -> f64) -> Vec<Series> {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    (0..STREAMS)
        .map(|_| {
            let mut value = random.below(10_000) as f64;
            let samples = (0..SAMPLES as i64).map(|i| {
                value = next_value(&mut random, value);
                (
                    1_700_000_000_000 + 15_000 * i + random.below(3) as i64,
                    value,
                )
            });
            samples.unzip()
        })
        .collect()
}

fn workloads() -> [(&'static str, Vec<Series>); 4] {
    [
        ("constant", series(|_, value| value)),
        (
            "counter",
            series(|random, value| value + random.below(200) as f64),
        ),
        (
            "gauge",
            series(|random, value| {
                ((value * 100.0).round() + random.below(201) as f64 - 100.0) / 100.0
            }),
        ),
        ("random", series(|random, _| f64::from_bits(random.next()))),
    ]
}

fn gorilla_streams(c: &mut Criterion) {
    for (name, series) in workloads() {
        let streams: Vec<Vec<u8>> = series.iter().map(|(t, v)| gorilla::encode(t, v)).collect();
        let mut group = c.benchmark_group(name);
        group.throughput(Throughput::Elements((STREAMS * SAMPLES) as u64));
        group.bench_function("encode", |b| {
            b.iter(|| {
                for (timestamps, values) in &series {
                    black_box(gorilla::encode(timestamps, values));
                }
            });
        });
        group.bench_function("decode", |b| {
            let (mut timestamps, mut values) = (Vec::new(), Vec::new());
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

criterion_group!(benches, gorilla_streams);
criterion_main!(benches);
