//! What OpenTelemetry says about a metric comes to lie in catalog and forward index.

use icecore_model::{
    Labels, Metadata, MetricType, RawLabels, Sample, SampleSink, Temporality, push_raw_label,
};
use icecore_records::{ForwardRecord, ParsedKey, StoredType, forward_index};
use icecore_storage::testing::Hooks;

use super::*;
use crate::process::World;
use crate::requests::histogram;

fn metadata(metric_type: MetricType, temporality: Temporality, monotonic: bool) -> Metadata {
    Metadata {
        metric_type,
        unit: "By".into(),
        help: "Helps.".into(),
        temporality,
        monotonic,
    }
}

fn named(name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    push_raw_label(&mut bytes, "__name__", name);
    bytes
}

fn forward_record(process: &Process, name: &str) -> ForwardRecord {
    let wanted = Labels::from_pairs([("__name__", name)]);
    let records = process.run(process.db.records(&[])).unwrap();
    let mut forward = records.iter().filter_map(|(key, value)| {
        let is_forward = matches!(ParsedKey::parse(key), Ok(ParsedKey::ForwardIndex { .. }));
        is_forward.then(|| forward_index::decode(value).unwrap())
    });
    forward.find(|record| record.labels == wanted).unwrap()
}

#[test]
fn kinds_reach_the_forward_index_and_the_catalog() {
    let world = World::new();
    let process = world.start();
    let said = [
        (
            "sent_bytes_total",
            metadata(MetricType::Counter, Temporality::Delta, true),
        ),
        (
            "queue_bytes",
            metadata(MetricType::Gauge, Temporality::Cumulative, false),
        ),
        (
            "size_bytes",
            metadata(MetricType::Histogram, Temporality::Delta, false),
        ),
        (
            "native_bytes",
            metadata(MetricType::Histogram, Temporality::Delta, false),
        ),
    ];
    let sent = said.clone();
    let write = process.db.write(move |batch| {
        for (family, metadata) in sent {
            batch.metadata(family, metadata);
        }
        for name in ["sent_bytes_total", "queue_bytes", "size_bytes_sum"] {
            batch.series(RawLabels(&named(name)));
            batch.delta(Sample {
                timestamp_ms: T0 + 10,
                value: 1.0,
                start_timestamp_ms: T0,
            });
        }
        batch.series(RawLabels(&named("native_bytes")));
        batch.delta_histogram(T0 + 10, T0, histogram(2));
        Ok::<(), ()>(())
    });
    process.run(write).unwrap();
    process.crash();
    // The journal knows it all.
    let process = world.start();
    for (family, metadata) in &said {
        let found = process.db.metadata(Some(family));
        assert_eq!(found, [(family.to_string(), metadata.clone())]);
    }
    process.run(process.db.flush()).unwrap();
    for (name, stored, monotonic) in [
        ("sent_bytes_total", StoredType::Sum, true),
        ("queue_bytes", StoredType::Sum, false),
        ("size_bytes_sum", StoredType::Histogram, false),
        ("native_bytes", StoredType::ExponentialHistogram, false),
    ] {
        let record = forward_record(&process, name);
        assert_eq!(record.unit, "By", "{name}");
        assert_eq!(record.meta.metric_type, stored, "{name}");
        assert_eq!(record.meta.monotonic, monotonic, "{name}");
        let temporality = icecore_records::Temporality::Cumulative;
        assert_eq!(record.meta.temporality, temporality, "{name}");
    }
    process.crash();
    // And so does the catalog.
    let process = world.start();
    assert_eq!(process.db.metrics().replayed_samples.get(), 0);
    for (family, metadata) in &said {
        let found = process.db.metadata(Some(family));
        assert_eq!(found, [(family.to_string(), metadata.clone())]);
    }
}
