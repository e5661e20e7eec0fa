//! What decoding OTLP costs per data point, without storage: one request of 10 000 points with five
//! attributes each.
//!
//! ```text
//! cargo bench -p icecore-wire --bench otlp
//! ```

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use icecore_model::{Exemplar, Histogram, Metadata, RawLabels, Sample, SampleSink};
use icecore_wire::otlp::{Translation, decode_metrics};

const POINTS: usize = 10_000;
const TIME_NS: u64 = 1_700_000_000_000_000_000;

/// Adds up what it is told. With known series it compares label bytes, as a head does.
#[derive(Default)]
struct Sum {
    known: Vec<Vec<u8>>,
    learn: bool,
    next: usize,
    total: f64,
}

impl SampleSink for Sum {
    fn guess_series(&mut self, bytes: &[u8]) -> Option<usize> {
        let known = self.known.get(self.next)?;
        if self.learn || !bytes.starts_with(known) {
            return None;
        }
        self.next += 1;
        Some(known.len())
    }

    fn series(&mut self, labels: RawLabels<'_>) {
        if self.learn {
            self.known.push(labels.0.to_vec());
        }
        self.total += labels.0.len() as f64;
    }

    fn sample(&mut self, sample: Sample) {
        self.total += sample.value + sample.timestamp_ms as f64;
    }

    fn histogram(&mut self, _: i64, _: i64, histogram: Histogram) {
        self.total += histogram.sum;
    }

    fn exemplar(&mut self, _: Exemplar) {}
    fn metadata(&mut self, _: &str, _: Metadata) {}
    fn reject(&mut self, reason: String) {
        panic!("{reason}");
    }
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn field(out: &mut Vec<u8>, number: u8, content: &[u8]) {
    out.push(number << 3 | 2);
    varint(out, content.len() as u64);
    out.extend_from_slice(content);
}

fn fixed(out: &mut Vec<u8>, number: u8, value: u64) {
    out.push(number << 3 | 1);
    out.extend_from_slice(&value.to_le_bytes());
}

fn attributes(out: &mut Vec<u8>, number: u8, point: usize) {
    for (key, value) in [
        ("http.request.method", "GET".to_owned()),
        ("http.response.status_code", format!("{}", 200 + point % 7)),
        ("http.route", format!("/api/v1/things/{}", point % 50)),
        ("server.address", format!("host-{}.example.com", point)),
        ("url.scheme", "https".to_owned()),
    ] {
        let mut any = Vec::new();
        field(&mut any, 1, value.as_bytes());
        let mut pair = Vec::new();
        field(&mut pair, 1, key.as_bytes());
        field(&mut pair, 2, &any);
        field(out, number, &pair);
    }
}

fn number_point(i: usize) -> Vec<u8> {
    let mut point = Vec::new();
    attributes(&mut point, 7, i);
    fixed(&mut point, 2, TIME_NS - 1_000_000_000);
    fixed(&mut point, 3, TIME_NS);
    fixed(&mut point, 4, (i as f64).to_bits());
    point
}

fn histogram_point(i: usize) -> Vec<u8> {
    let mut point = Vec::new();
    attributes(&mut point, 9, i);
    fixed(&mut point, 2, TIME_NS - 1_000_000_000);
    fixed(&mut point, 3, TIME_NS);
    fixed(&mut point, 4, 15);
    fixed(&mut point, 5, 1.5f64.to_bits());
    let packed = |values: Vec<u64>| {
        values
            .iter()
            .flat_map(|v| v.to_le_bytes())
            .collect::<Vec<_>>()
    };
    field(&mut point, 6, &packed(vec![1; 15]));
    let bounds = [
        0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
    ];
    field(
        &mut point,
        7,
        &packed(bounds.iter().map(|b: &f64| b.to_bits()).collect()),
    );
    point
}

fn exponential_point(i: usize) -> Vec<u8> {
    let mut point = Vec::new();
    attributes(&mut point, 1, i);
    fixed(&mut point, 2, TIME_NS - 1_000_000_000);
    fixed(&mut point, 3, TIME_NS);
    fixed(&mut point, 4, 20);
    fixed(&mut point, 5, 1.5f64.to_bits());
    point.extend_from_slice(&[0x30, 6]);
    let mut buckets = vec![0x08, 7];
    field(&mut buckets, 2, &[1; 20]);
    field(&mut point, 8, &buckets);
    point
}

/// A request whose points are spread over this many metrics of one kind.
fn request(metrics: usize, kind: u8, point: fn(usize) -> Vec<u8>) -> Vec<u8> {
    let mut scope = Vec::new();
    for metric in 0..metrics {
        let mut data = Vec::new();
        for i in 0..POINTS / metrics {
            field(&mut data, 1, &point(metric * POINTS / metrics + i));
        }
        data.extend_from_slice(&[0x10, 2, 0x18, 1]);
        let mut message = Vec::new();
        field(
            &mut message,
            1,
            format!("http.server.request.{metric}").as_bytes(),
        );
        field(&mut message, 2, b"What it is.");
        field(&mut message, 3, b"ms");
        field(&mut message, kind, &data);
        field(&mut scope, 2, &message);
    }
    let mut attributes = Vec::new();
    let mut pair = Vec::new();
    field(&mut pair, 1, b"service.name");
    field(&mut pair, 2, b"\x0a\x04shop");
    field(&mut attributes, 1, &pair);
    let mut resource = Vec::new();
    field(&mut resource, 1, &attributes);
    field(&mut resource, 2, &scope);
    let mut body = Vec::new();
    field(&mut body, 1, &resource);
    body
}

fn otlp(criterion: &mut Criterion) {
    let translation = Translation::default();
    let mut group = criterion.benchmark_group("otlp");
    group.throughput(Throughput::Elements(POINTS as u64));
    for (name, body) in [
        ("sum", request(100, 7, number_point)),
        (
            "sum, one point per metric",
            request(POINTS, 7, number_point),
        ),
        ("histogram of 15 buckets", request(100, 9, histogram_point)),
        (
            "exponential of 20 buckets",
            request(100, 10, exponential_point),
        ),
    ] {
        let mut sink = Sum {
            learn: true,
            ..Sum::default()
        };
        decode_metrics(&body, &translation, &mut sink).expect("the body is valid");
        for known in [true, false] {
            sink.learn = false;
            if !known {
                sink.known.clear();
            }
            let series = if known { "known" } else { "new" };
            group.bench_function(BenchmarkId::new(name, series), |bencher| {
                bencher.iter(|| {
                    sink.next = 0;
                    decode_metrics(black_box(&body), &translation, &mut sink)
                        .expect("the body is valid")
                });
            });
        }
        black_box(sink.total);
    }
    group.finish();
}

criterion_group!(benches, otlp);
criterion_main!(benches);
