//! Golden bytes of running totals and of what OpenTelemetry says about metrics.

use icecore_model::{Metadata, MetricType, Temporality};
use icecore_records::delta_totals::{DeltaTotal, SeriesKey, TotalValue};
use icecore_records::{MetricMeta, StoredType, delta_totals, journal, key, metadata};

use crate::samples::*;

const T: i64 = 1_700_000_000_000;

pub(crate) fn totals() -> Vec<DeltaTotal> {
    let series = SeriesKey::of(http_requests().iter(), &mut Vec::new());
    let first = DeltaTotal {
        series,
        end_ms: T,
        start_ms: T - 10_000_000,
        written_s: 1_700_000_001,
        value: TotalValue::Float(12.5),
    };
    let mut other = first.clone();
    other.series.check ^= 1 << 63;
    other.start_ms = 0;
    other.end_ms = T + 1;
    other.value = TotalValue::Histogram(Box::new(integer_histogram(12, 18.5)));
    vec![first, other]
}

fn block() -> Vec<u8> {
    let mut encoder = journal::BlockEncoder::new();
    encoder.floats(&[3, 4], &[T, T], &[12.0, 0.5]);
    encoder.start_timestamp(4, T, T - 10_000_000);
    encoder.metadata("http_requests_total", &said());
    encoder.totals(1, 0);
    encoder.finish()
}

fn said() -> Metadata {
    Metadata {
        metric_type: MetricType::Counter,
        unit: "1".into(),
        help: "Requests.".into(),
        temporality: Temporality::Delta,
        monotonic: true,
    }
}

pub(crate) fn table() -> Vec<(&'static str, Vec<u8>, &'static str)> {
    let falls = Metadata {
        metric_type: MetricType::Gauge,
        temporality: Temporality::Cumulative,
        ..Metadata::default()
    };
    vec![
        (
            "key cursor of running totals",
            key::delta_totals_cursor().into(),
            "01b006",
        ),
        (
            "key running totals, part 1572",
            key::delta_totals(1572).into(),
            "01b0060624",
        ),
        (
            "value running totals",
            delta_totals::encode(&mut totals(), 1_700_000_061).into(),
            "01bde2cfaa060262403b2d822ef214f0856adc2378e7abe993e7393e76515d013c82a0abfef9620a03009d978ccf08ba5b2502030206010000030003403280180204020662403b2d822ef214f0856adc2378e7abe993e7393e7651dd023c0180dac4090000000000002940",
        ),
        (
            "value metric metadata, OpenTelemetry counter of deltas",
            metadata::encode(&said()),
            "016101310952657175657374732e",
        ),
        (
            "value metric metadata, OpenTelemetry sum that may fall",
            metadata::encode(&falls),
            "01120000",
        ),
        (
            "block with a running total",
            block(),
            "0200141402060080a0abfef962001900000000000000e03f0500212113687474705f72657175657374735f746f74616c6101310952657175657374732e06000b0b0480a0abfef962ffd9c409090002020100",
        ),
    ]
}

#[test]
fn old_and_new_metadata_are_read() {
    for said in [said(), crate::samples::metadata()] {
        assert_eq!(metadata::decode(&metadata::encode(&said)), Ok(said));
    }
    let mut value = metadata::encode(&said());
    for byte in [0b0011_0001, 0b1000_0001, 0b0000_1000] {
        value[1] = byte;
        assert!(metadata::decode(&value).is_err(), "{byte:#b}");
    }
}

#[test]
fn the_forward_index_says_what_is_stored() {
    use icecore_records::Temporality as Stored;
    let said = |metric_type, temporality, monotonic| Metadata {
        metric_type,
        temporality,
        monotonic,
        ..Metadata::default()
    };
    let (none, cumulative, delta) = (
        Temporality::Unspecified,
        Temporality::Cumulative,
        Temporality::Delta,
    );
    use MetricType::{Counter, Gauge, GaugeHistogram, Histogram, Summary};
    for (said, exponential, expected) in [
        (
            said(Counter, none, false),
            false,
            (StoredType::Sum, Stored::Cumulative, true),
        ),
        (
            said(Counter, delta, true),
            false,
            (StoredType::Sum, Stored::Cumulative, true),
        ),
        (
            said(Gauge, none, false),
            false,
            (StoredType::Gauge, Stored::Unspecified, false),
        ),
        (
            said(Gauge, cumulative, false),
            false,
            (StoredType::Sum, Stored::Cumulative, false),
        ),
        (
            said(Gauge, delta, false),
            false,
            (StoredType::Sum, Stored::Cumulative, false),
        ),
        (
            said(Histogram, delta, false),
            false,
            (StoredType::Histogram, Stored::Cumulative, false),
        ),
        (
            said(Histogram, cumulative, false),
            true,
            (StoredType::ExponentialHistogram, Stored::Cumulative, false),
        ),
        (
            said(GaugeHistogram, none, false),
            false,
            (StoredType::Histogram, Stored::Unspecified, false),
        ),
        (
            said(Summary, none, false),
            false,
            (StoredType::Summary, Stored::Unspecified, false),
        ),
    ] {
        let meta = MetricMeta::of(&said, exponential);
        let found = (meta.metric_type, meta.temporality, meta.monotonic);
        assert_eq!(found, expected, "{said:?}");
    }
}
