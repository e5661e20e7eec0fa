//! What writing a matrix costs per point: 1000 series with 240 steps each.
//!
//! ```text
//! cargo bench -p icecore-wire --bench query_json
//! ```

use std::convert::Infallible;
use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use icecore_model::Labels;
use icecore_wire::prometheus::query_json::{
    Bucket, HistogramPoint, TimeTexts, write_matrix_series,
};

const SERIES: usize = 1000;
const STEPS: usize = 240;
const START_MS: i64 = 1_700_000_000_000;
const STEP_MS: i64 = 15_000;

fn write(out: &mut Vec<u8>, labels: &Labels, values: &[f64]) {
    out.clear();
    let times = TimeTexts::new((0..STEPS as i64).map(|step| START_MS + step * STEP_MS));
    for row in values.chunks(STEPS) {
        let points = row.iter().enumerate();
        let floats = points.map(|(step, value)| (START_MS + step as i64 * STEP_MS, *value));
        let histograms = std::iter::empty::<(i64, HistogramPoint<std::iter::Empty<Bucket>>)>();
        let flow = |_: &mut Vec<u8>| Ok::<_, Infallible>(());
        let Ok(()) = write_matrix_series(out, &times, labels, floats, histograms, flow);
    }
}

fn matrix(criterion: &mut Criterion) {
    let labels = Labels::from_pairs([("__name__", "http_requests_total"), ("job", "api")]);
    let mut group = criterion.benchmark_group("matrix");
    group.throughput(Throughput::Elements((SERIES * STEPS) as u64));
    let count = SERIES * STEPS;
    for (name, values) in [
        ("whole", (0..count).map(|i| (i * 37) as f64).collect()),
        ("rates", (0..count).map(|i| i as f64 / 299.0).collect()),
        (
            "short",
            (0..count).map(|i| i as f64 / 8.0).collect::<Vec<f64>>(),
        ),
    ] {
        let mut out = Vec::new();
        group.bench_function(BenchmarkId::from_parameter(name), |bench| {
            bench.iter(|| write(&mut out, &labels, black_box(&values)));
        });
    }
    group.finish();
}

criterion_group!(benches, matrix);
criterion_main!(benches);
