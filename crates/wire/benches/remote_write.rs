//! What decoding costs per sample, without storage: one request of 5000 series with eleven labels
//! and one sample each, as a Prometheus that scrapes servers sends it.
//!
//! ```text
//! cargo bench -p icecore-wire
//! ```

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use icecore_model::{Exemplar, Histogram, Metadata, RawLabels, Sample, SampleSink, push_raw_label};
use icecore_wire::prometheus::{decode_v1, decode_v2, snappy};

const SERIES: usize = 5000;
const TIMESTAMP_MS: u64 = 1_700_000_000_000;

/// Adds up what it is told. With known series it compares label bytes, as a head does.
#[derive(Default)]
struct Sum {
    known: Vec<Vec<u8>>,
    next: usize,
    guesses: usize,
    label_bytes: usize,
    total: f64,
}

impl SampleSink for Sum {
    fn guess_series(&mut self, bytes: &[u8]) -> Option<usize> {
        let known = self.known.get(self.next)?;
        if !bytes.starts_with(known) {
            return None;
        }
        self.next += 1;
        self.guesses += 1;
        Some(known.len())
    }

    fn series(&mut self, labels: RawLabels<'_>) {
        self.label_bytes += labels.0.len();
    }

    fn sample(&mut self, sample: Sample) {
        self.total += sample.value + sample.timestamp_ms as f64;
    }

    fn histogram(&mut self, _: i64, _: i64, _: Histogram) {}
    fn exemplar(&mut self, _: Exemplar) {}
    fn metadata(&mut self, _: &str, _: Metadata) {}
    fn reject(&mut self, _: String) {}
}

fn labels_of(series: usize) -> Vec<(&'static str, String)> {
    vec![
        ("__name__", format!("node_metric_{}_total", series / 100)),
        ("arch", "x64".into()),
        ("datacenter", "eu-central-1b".into()),
        ("hostname", format!("host_{}", series % 100)),
        ("instance", format!("10.0.3.{}:9100", series % 100)),
        ("job", "node".into()),
        ("os", "Ubuntu16.04LTS".into()),
        ("rack", format!("{}", series % 17)),
        ("region", "eu-central-1".into()),
        ("service", format!("{}", series % 7)),
        ("team", "infrastructure".into()),
    ]
}

fn push_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn push_field(out: &mut Vec<u8>, tag: u8, content: &[u8]) {
    out.push(tag);
    push_varint(out, content.len() as u64);
    out.extend(content);
}

fn sample_bytes(series: usize) -> Vec<u8> {
    let mut sample = vec![0x09];
    sample.extend((series as f64 * 1.25).to_le_bytes());
    sample.push(0x10);
    push_varint(&mut sample, TIMESTAMP_MS + series as u64);
    sample
}

fn raw_labels() -> Vec<Vec<u8>> {
    let encode = |series| {
        let mut raw = Vec::new();
        for (name, value) in labels_of(series) {
            push_raw_label(&mut raw, name, &value);
        }
        raw
    };
    (0..SERIES).map(encode).collect()
}

fn body_v1(labels: &[Vec<u8>]) -> Vec<u8> {
    let mut body = Vec::new();
    for (series, labels) in labels.iter().enumerate() {
        let mut message = labels.clone();
        push_field(&mut message, 0x12, &sample_bytes(series));
        push_field(&mut body, 0x0a, &message);
    }
    body
}

fn body_v2() -> Vec<u8> {
    let mut symbols = vec![String::new()];
    let mut series_bytes = Vec::new();
    for series in 0..SERIES {
        let mut refs = Vec::new();
        for text in labels_of(series)
            .into_iter()
            .flat_map(|(n, v)| [n.to_string(), v])
        {
            let position = symbols.iter().position(|symbol| *symbol == text);
            let reference = position.unwrap_or_else(|| {
                symbols.push(text);
                symbols.len() - 1
            });
            push_varint(&mut refs, reference as u64);
        }
        let mut message = Vec::new();
        push_field(&mut message, 0x0a, &refs);
        push_field(&mut message, 0x12, &sample_bytes(series));
        push_field(&mut message, 0x2a, &[0x08, 1]);
        push_field(&mut series_bytes, 0x2a, &message);
    }
    let mut body = Vec::new();
    for symbol in &symbols {
        push_field(&mut body, 0x22, symbol.as_bytes());
    }
    body.extend(series_bytes);
    body
}

fn remote_write(criterion: &mut Criterion) {
    let labels = raw_labels();
    let (v1, v2) = (body_v1(&labels), body_v2());
    let mut group = criterion.benchmark_group("remote_write");
    group.throughput(Throughput::Elements(SERIES as u64));
    for known in [true, false] {
        let name = if known { "known" } else { "new" };
        let mut sink = Sum::default();
        if known {
            sink.known = labels.clone();
        }
        group.bench_function(BenchmarkId::new("v1", name), |bencher| {
            bencher.iter(|| {
                sink.next = 0;
                decode_v1(black_box(&v1), &mut sink).expect("the body is valid");
            });
        });
        group.bench_function(BenchmarkId::new("v2", name), |bencher| {
            bencher.iter(|| {
                sink.next = 0;
                decode_v2(black_box(&v2), &mut sink).expect("the body is valid");
            });
        });
        assert!(
            sink.guesses == 0 || known,
            "a sink that knows nothing cannot guess"
        );
        black_box(sink.total);
    }
    let compressed = snap::raw::Encoder::new()
        .compress_vec(&v1)
        .expect("it compresses");
    let mut buffer = Vec::new();
    group.bench_function("snappy", |bencher| {
        bencher.iter(|| {
            let body = snappy::decompress(black_box(&compressed), &mut buffer, 64 << 20);
            black_box(body.expect("the body is valid").len());
        });
    });
    group.finish();
}

criterion_group!(benches, remote_write);
criterion_main!(benches);
