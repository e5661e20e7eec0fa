//! What reading a scrape of 50 000 series costs, like those of node exporters: MB/s, and per
//! series.
//!
//! ```text
//! cargo bench -p icecore-wire --bench exposition
//! ```

use std::borrow::Cow;
use std::fmt::Write;
use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use icecore_model::{Labels, MetricType};
use icecore_wire::exposition::{Entry, Format, Parser, ParserOptions, SeriesValue};
use icecore_wire::prometheus::federate::{FederateFormat, FederateWriter, FederatedValue};

const SERIES: usize = 50_000;

/// Name, labels and value of one series.
fn series(i: usize) -> (String, Vec<(&'static str, String)>, f64) {
    let family = i / 250;
    let name = format!("node_subsystem_{family}_operations_total");
    let labels = vec![
        ("device", format!("sd{}", i % 25)),
        ("cpu", format!("{}", i / 25 % 10)),
        ("mode", ["user", "system", "iowait", "idle"][i % 4].into()),
    ];
    let value = match i % 4 {
        0 => (i * 7919) as f64,
        1 => i as f64 / 8.0,
        2 => i as f64 * 1.37e-4,
        _ => 0.0,
    };
    (name, labels, value)
}

fn lines(openmetrics: bool, created: bool) -> Vec<u8> {
    let mut body = String::new();
    for i in 0..SERIES {
        let (name, labels, value) = series(i);
        let family = if openmetrics {
            name.trim_end_matches("_total")
        } else {
            &name
        };
        if i % 250 == 0 {
            let _ = write!(
                body,
                "# HELP {family} Operations of a subsystem.\n# TYPE {family} counter\n"
            );
        }
        let labels: Vec<String> = labels.iter().map(|(n, v)| format!("{n}=\"{v}\"")).collect();
        let labels = labels.join(",");
        let _ = writeln!(body, "{name}{{{labels}}} {value}");
        if created {
            let _ = writeln!(body, "{family}_created{{{labels}}} 1700000000.123");
        }
    }
    if openmetrics {
        body += "# EOF\n";
    }
    body.into_bytes()
}

fn protobuf() -> Vec<u8> {
    let accept = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited";
    let mut writer = FederateWriter::new(FederateFormat::negotiate(Some(accept)));
    for i in 0..SERIES {
        let (name, labels, value) = series(i);
        let pairs = labels.iter().map(|(n, v)| (*n, v.as_str()));
        let labels = Labels::from_pairs(pairs.chain([("__name__", name.as_str())]));
        writer.sample(
            &labels,
            1_700_000_000_000,
            FederatedValue::Float(value),
            MetricType::Counter,
        );
    }
    writer.finish()
}

/// Reads a body as a scrape does whose series are all known (their texts only), or all new.
fn read(body: &[u8], format: Format, options: ParserOptions, with_labels: bool) -> f64 {
    let mut parser = Parser::with_options(body, format, options);
    let (mut count, mut sum) = (0, 0.0);
    while let Some(entry) = parser.next().expect("the body is valid") {
        let Entry::Series(series) = entry else {
            continue;
        };
        count += 1;
        black_box(series.text);
        if with_labels {
            let mut pairs: Vec<(Cow<'_, str>, Cow<'_, str>)> = Vec::with_capacity(8);
            series.labels(&mut pairs).expect("the labels are valid");
            black_box(&pairs);
        }
        if let SeriesValue::Float(value) = series.value {
            sum += value;
        }
    }
    assert_eq!(count, SERIES);
    sum
}

fn expositions(criterion: &mut Criterion) {
    let created = ParserOptions {
        created_timestamps: true,
        ..ParserOptions::default()
    };
    let plain = ParserOptions::default();
    let bodies = [
        ("text", Format::Text004, lines(false, false), plain),
        (
            "openmetrics",
            Format::OpenMetrics,
            lines(true, false),
            plain,
        ),
        (
            "openmetrics_looking_for_created",
            Format::OpenMetrics,
            lines(true, false),
            created,
        ),
        (
            "openmetrics_with_created",
            Format::OpenMetrics,
            lines(true, true),
            created,
        ),
        ("protobuf", Format::Protobuf, protobuf(), plain),
    ];
    let mut group = criterion.benchmark_group("exposition");
    for (name, format, body, options) in &bodies {
        for (series, with_labels) in [("known", false), ("new", true)] {
            group.throughput(Throughput::Bytes(body.len() as u64));
            group.bench_function(BenchmarkId::new(*name, series), |bench| {
                bench.iter(|| read(black_box(body), *format, *options, with_labels));
            });
        }
    }
    group.finish();
}

criterion_group!(benches, expositions);
criterion_main!(benches);
