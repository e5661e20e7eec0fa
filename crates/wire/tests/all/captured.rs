//! Payloads that others encoded, see `testdata/wire/README.md`.

use icecore_model::{Exemplar, Labels, MetricType, STALE_NAN_BITS};
use icecore_wire::prometheus::{decode_v1, decode_v2, snappy};

use crate::request::{float_histogram, integer_histogram, metadata, pairs};
use crate::sink::{Event, Recorder};

fn body(compressed: &[u8]) -> Vec<u8> {
    let mut buffer = Vec::new();
    snappy::decompress(compressed, &mut buffer, 1 << 20)
        .expect("the payload is valid")
        .to_vec()
}

fn events_v1(compressed: &[u8]) -> Vec<Event> {
    let mut sink = Recorder::default();
    decode_v1(&body(compressed), &mut sink).expect("the payload is valid");
    sink.events
}

macro_rules! testdata {
    ($name:literal) => {
        include_bytes!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../testdata/wire/",
            $name
        ))
    };
}

#[test]
fn a_scrape_of_prometheus() {
    let (mut series, mut labels, mut label_bytes) = (0, 0, 0);
    let (mut samples, mut timestamps, mut values) = (0, 0, 0);
    for event in events_v1(testdata!("prometheus-2.42-samples.snappy")) {
        match event {
            Event::Series(pairs) => {
                series += 1;
                labels += pairs.len();
                label_bytes += pairs.iter().map(|(n, v)| n.len() + v.len()).sum::<usize>();
            }
            Event::Sample {
                timestamp_ms,
                start_timestamp_ms: 0,
                value_bits,
            } => {
                samples += 1;
                timestamps += timestamp_ms;
                values ^= value_bits;
            }
            other => panic!("unexpected {other:?}"),
        }
    }
    assert_eq!((series, labels, label_bytes), (788, 3084, 78_240));
    assert_eq!(
        (samples, timestamps, values),
        (788, 1_414_240_164_310_024, 0x7f77_19f0_d6c6_02b4)
    );
}

#[test]
fn metadata_of_prometheus() {
    let events = events_v1(testdata!("prometheus-2.42-metadata.snappy"));
    let (mut types, mut help_bytes) = (0, 0);
    for event in &events {
        let Event::Metadata(_, metadata) = event else {
            panic!("unexpected {event:?}")
        };
        types += u32::from(metadata.metric_type.number());
        help_bytes += metadata.help.len();
    }
    assert_eq!((events.len(), types, help_bytes), (201, 337, 12_579));
}

#[test]
fn every_field_of_version_1() {
    let stale = f64::from_bits(STALE_NAN_BITS);
    assert_eq!(
        events_v1(testdata!("remote-write-v1.snappy")),
        [
            Event::Series(pairs(&[
                ("__name__", "up"),
                ("instance", "größe:9090"),
                ("job", "a")
            ])),
            Event::sample(1_700_000_000_000, 0, 1.0),
            Event::sample(1_700_000_015_000, 0, 0.0),
            Event::sample(1_700_000_030_000, 0, stale),
            Event::sample(-1, 0, -2.5),
            Event::Series(pairs(&[("__name__", "http_seconds")])),
            Event::Exemplar(trace_exemplar()),
            Event::histogram(1_700_000_015_000, 0, &integer_histogram()),
            Event::histogram(1_700_000_030_000, 0, &float_histogram()),
            Event::Metadata(
                "http_seconds".into(),
                metadata(MetricType::Histogram, "How long.", "seconds")
            ),
        ]
    );
}

#[test]
fn every_field_of_version_2() {
    let mut sink = Recorder::default();
    decode_v2(&body(testdata!("remote-write-v2.snappy")), &mut sink).unwrap();
    assert_eq!(
        sink.events,
        [
            Event::Series(pairs(&[("__name__", "up"), ("job", "größe")])),
            Event::sample(1_700_000_000_000, 1_600_000_000_000, 1.0),
            Event::sample(1_700_000_015_000, 1_500_000_000_000, 0.0),
            Event::Metadata("up".into(), metadata(MetricType::Gauge, "Is it up?", "")),
            Event::Series(pairs(&[("__name__", "up")])),
            Event::sample(1_700_000_000_000, 0, f64::from_bits(STALE_NAN_BITS)),
            Event::Series(pairs(&[("__name__", "http_seconds")])),
            Event::histogram(1_700_000_015_000, 1_600_000_000_000, &integer_histogram()),
            Event::histogram(1_700_000_030_000, 0, &float_histogram()),
            Event::Exemplar(trace_exemplar()),
            Event::Metadata(
                "http_seconds".into(),
                metadata(MetricType::Histogram, "How long.", "seconds")
            ),
        ]
    );
}

fn trace_exemplar() -> Exemplar {
    Exemplar {
        labels: Labels::from_pairs([("trace_id", "abc")]),
        timestamp_ms: 1_700_000_014_999,
        value: 0.25,
    }
}
