//! Encoding and decoding 16 hours of a native histogram, 15 s apart: one by one (as hours hold
//! them) and as columns. Prints the bytes per histogram of both.

#![allow(clippy::print_stdout, reason = "sizes belong beside the times")]

use std::hint::black_box;
use std::sync::Arc;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use icecore_model::{CounterResetHint, Histogram, HistogramCounts, Span};
use icecore_records::{HistogramEntry, histogram_series};

const ENTRIES: usize = 3840;
const BUCKETS: usize = 24;

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

fn series(observations: u64) -> Vec<HistogramEntry> {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut counts = [0i64; BUCKETS];
    let mut sum = 0.0;
    let mut entry = |i: usize| {
        for _ in 0..observations {
            let bucket = (0..4).map(|_| random.below(7)).sum::<u64>() as usize;
            counts[bucket.min(BUCKETS - 1)] += 1;
            sum += bucket as f64 + random.below(1 << 20) as f64 / 1e6;
        }
        let below = [0].into_iter().chain(counts);
        let deltas = counts.iter().zip(below).map(|(count, below)| count - below);
        let histogram = Histogram {
            schema: 3,
            reset_hint: CounterResetHint::NotReset,
            zero_threshold: 1e-128,
            sum,
            counts: HistogramCounts::Integer {
                count: counts.iter().sum::<i64>() as u64,
                zero_count: 0,
                positive_deltas: deltas.collect(),
                negative_deltas: vec![],
            },
            positive_spans: vec![Span {
                offset: -10,
                length: BUCKETS as u32,
            }],
            negative_spans: vec![],
            custom_bounds: Arc::from([]),
        };
        HistogramEntry {
            timestamp_ms: 1_699_948_800_000 + 15_000 * i as i64,
            value: Some(Arc::new(histogram)),
        }
    };
    (0..ENTRIES).map(&mut entry).collect()
}

fn histograms(c: &mut Criterion) {
    for (name, observations) in [("busy", 300), ("calm", 3), ("idle", 0)] {
        let entries = series(observations);
        let mut group = c.benchmark_group(format!("histograms/{name}"));
        group.throughput(Throughput::Elements(ENTRIES as u64));
        type Encode = fn(&[HistogramEntry]) -> Vec<u8>;
        let forms: [(&str, Encode); 2] = [
            ("rows", histogram_series::encode),
            ("columns", histogram_series::encode_columns),
        ];
        for (form, encode) in forms {
            let value = encode(&entries);
            let each = value.len() as f64 / ENTRIES as f64;
            println!("histograms/{name}/{form}: {each:.2} bytes per histogram");
            group.bench_function(format!("{form}/encode"), |b| {
                b.iter(|| black_box(encode(&entries)));
            });
            group.bench_function(format!("{form}/decode"), |b| {
                b.iter(|| black_box(histogram_series::decode(&value).expect("own value")));
            });
        }
        group.finish();
    }
}

criterion_group!(benches, histograms);
criterion_main!(benches);
