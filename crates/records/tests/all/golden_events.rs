//! Golden bytes of events; `golden` checks them together with the others.

use bytes::Bytes;
use icecore_model::BucketStart;
use icecore_model::event::{
    Cell, CellExemplar, CellKey, CounterCell, DimensionHash, EventId, EventWindow, FlushMark,
    GaugeCell, HistogramCell, IdentityKey, Reducer, SketchCounts, Week,
};
use icecore_records::epoch_summary::{self, EpochSummary, FlushUnit};
use icecore_records::{event_cell, event_identity, flush_cursor, flush_mark, journal, key, merge};

/// 2026-11-11T10:00:00Z, a Wednesday.
pub(crate) const AT_S: i64 = 1_794_391_200;

const EVENT: EventId = EventId([
    0x01, 0x9a, 0x70, 0x2c, 0x33, 0xa0, 0x7b, 0x11, 0x8a, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07,
]);

pub(crate) fn cell_key(window: EventWindow) -> CellKey {
    CellKey {
        window,
        metric: 713,
        start_s: window.start_of(AT_S),
        dimensions: DimensionHash(*b"0123456789abcdef"),
    }
}

pub(crate) fn identity() -> IdentityKey {
    IdentityKey {
        week: Week::of(AT_S),
        service: 3,
        event: EVENT,
    }
}

pub(crate) fn mark() -> FlushMark {
    FlushMark {
        generation: 300,
        seq: 70_000,
        registry_version: 2,
    }
}

fn histogram() -> HistogramCell {
    let exemplar = |bucket, value, trace_id| CellExemplar {
        bucket,
        value,
        at_ns: AT_S * 1_000_000_000 + 5,
        event: EVENT,
        trace_id,
    };
    HistogramCell {
        first_s: AT_S,
        counts: vec![2, 0, 300],
        samples: 302,
        sum: 755.5,
        min: 0.25,
        max: 9.0,
        sketch: Some(SketchCounts {
            relative_accuracy: 0.01,
            zero: 1,
            positive: vec![(-69, 2), (46, 300)],
            negative: vec![(3, 1)],
        }),
        exemplars: vec![
            exemplar(0, 0.25, None),
            exemplar(2, 9.0, Some(*b"fedcba9876543210")),
        ],
    }
}

/// One of each kind and form.
pub(crate) fn cells() -> [Cell; 4] {
    let counter = CounterCell {
        first_s: AT_S,
        count: -7,
        sum: 12.5,
    };
    let plain = HistogramCell {
        sketch: None,
        exemplars: Vec::new(),
        ..histogram()
    };
    let gauge = GaugeCell {
        first_s: AT_S,
        reducer: Reducer::Max,
        value: 4.5,
        observed_ns: AT_S * 1_000_000_000 + 5,
        event: EVENT,
    };
    [
        Cell::Counter(counter),
        Cell::Histogram(plain),
        Cell::Histogram(histogram()),
        Cell::Gauge(gauge),
    ]
}

/// Small enough to be stored raw.
fn journal_events() -> Vec<u8> {
    let mut encoder = journal::BlockEncoder::new();
    encoder.events(b"\x01events");
    journal::encode_record(&[encoder.finish()])
}

fn summary() -> EpochSummary {
    EpochSummary {
        first_seq: 258,
        last_seq: 700,
        units: [
            (FlushUnit::Hour(BucketStart(28_333_320)), 700),
            (FlushUnit::Events, 690),
            (FlushUnit::Catalog, 300),
        ]
        .into(),
    }
}

/// A counter beside a gauge, which are none of one metric.
fn mismatched() -> Bytes {
    let [counter, _, _, gauge] = cells().map(|cell| event_cell::encode(&cell));
    let key = key::event_cell(&cell_key(EventWindow::Hour)).unwrap();
    merge(&key, None, &[gauge, counter.clone(), counter]).unwrap()
}

pub(crate) fn table() -> Vec<(&'static str, Vec<u8>, &'static str)> {
    let [counter, plain, histogram, gauge] = cells().map(|cell| event_cell::encode(&cell));
    let cell = |window| key::event_cell(&cell_key(window)).unwrap();
    vec![
        (
            "key EventCell, 5 s",
            cell(EventWindow::FiveSeconds).into(),
            "01e101c848c0000002c900032fa030313233343536373839616263646566",
        ),
        (
            "key EventCell, 7 d",
            cell(EventWindow::Week).into(),
            "01e501c848c0000002c90000000030313233343536373839616263646566",
        ),
        (
            "key EventIdentity",
            key::event_identity(&identity()).into(),
            "01f001c848c000000003019a702c33a07b118a01020304050607",
        ),
        (
            "key flush mark of events",
            key::event_mark().into(),
            "01b00b",
        ),
        (
            "key sealed cursor of events",
            key::events_sealed().into(),
            "01b00c",
        ),
        (
            "value EventCell, counter",
            counter.into(),
            "0101c0f2a1af0d0d0000000000002940",
        ),
        (
            "value EventCell, histogram",
            plain.into(),
            "0102c0f2a1af0d030200ac02ae0200000000009c8740000000000000d03f0000000000002240\
             0000",
        ),
        (
            "value EventCell, histogram with a sketch and exemplars",
            histogram.into(),
            "0102c0f2a1af0d030200ac02ae0200000000009c8740000000000000d03f0000000000002240\
             017b14ae47e17a843f010289010273ac020106010200000000000000d03f8a80b281c2d2fae6\
             31019a702c33a07b118a01020304050607000200000000000022408a80b281c2d2fae631019a\
             702c33a07b118a010203040506070166656463626139383736353433323130",
        ),
        (
            "value EventCell, gauge",
            gauge.into(),
            "0103c0f2a1af0d0300000000000012408a80b281c2d2fae631019a702c33a07b118a01020304\
             050607",
        ),
        (
            "value EventCell, unmerged",
            mismatched().into(),
            "ffffffffffffffff100101c0f2a1af0d1b0000000000003940290103c0f2a1af0d0300000000\
             000012408a80b281c2d2fae631019a702c33a07b118a01020304050607",
        ),
        (
            "value EventIdentity",
            event_identity::encode(70_000).into(),
            "01f0a204",
        ),
        (
            "value flush mark of events",
            flush_mark::encode(mark()).into(),
            "01ac02f0a20402",
        ),
        (
            "value sealed cursor of events",
            flush_cursor::encode(70_000).into(),
            "7011010000000000",
        ),
        (
            "value Journal with events",
            journal_events(),
            "0106d606e2b4096519010b08000707016576656e7473",
        ),
        (
            "value epoch summary with events",
            epoch_summary::encode(&summary()).into(),
            "0154caa623c6edd9608202ba030388aac10d00f5d5bef20f0a029003",
        ),
    ]
}
