//! Encoding and decoding the samples of one request in the journal: 5000 series, one sample each.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use icecore_records::journal::{BlockEncoder, decode_block};

const SAMPLES: u32 = 5000;

fn float_block(c: &mut Criterion) {
    let refs: Vec<u32> = (0..SAMPLES).collect();
    let timestamps: Vec<i64> = refs
        .iter()
        .map(|i| 1_700_000_000_000 + i64::from(i / 500))
        .collect();
    let counters: Vec<f64> = refs
        .iter()
        .map(|i| f64::from(i.wrapping_mul(2_654_435_761) >> 12))
        .collect();
    let gauges: Vec<f64> = counters.iter().map(|v| v / 100.0).collect();

    for (name, values) in [("whole", counters), ("fractions", gauges)] {
        let mut encoder = BlockEncoder::new();
        encoder.floats(&refs, &timestamps, &values);
        let block = encoder.finish();
        let mut group = c.benchmark_group(format!("journal/{name}"));
        group.throughput(Throughput::Elements(SAMPLES.into()));
        group.bench_function("encode", |b| {
            b.iter(|| {
                encoder.floats(&refs, &timestamps, &values);
                black_box(encoder.finish())
            });
        });
        group.bench_function("decode", |b| {
            b.iter(|| black_box(decode_block(&block).expect("own block")));
        });
        group.finish();
    }
}

criterion_group!(benches, float_block);
criterion_main!(benches);
