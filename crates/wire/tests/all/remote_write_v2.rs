//! Remote write 2.0, through the public function.

use icecore_model::{Metadata, MetricType};
use icecore_wire::WireError;
use icecore_wire::prometheus::{decode_v1, decode_v2};
use proptest::prelude::*;

use crate::encode::{
    Message, SymbolTable, assemble_v2, encode_v1, encode_v2, fields_v2, raw_labels,
};
use crate::generate::requests;
use crate::request::{Request, Series, metadata, pairs, sample};
use crate::sink::{Event, Recorder};

fn decode(body: &[u8], mut sink: Recorder) -> (Vec<Event>, usize) {
    decode_v2(body, &mut sink).expect("the request is valid");
    (sink.events, sink.guesses)
}

fn events(body: &[u8]) -> Vec<Event> {
    decode(body, Recorder::default()).0
}

proptest! {
    #[test]
    fn what_was_sent_is_told(request in requests()) {
        prop_assert_eq!(events(&encode_v2(&request)), request.events_v2());
    }

    #[test]
    fn guessing_changes_nothing(request in requests(), known in requests(), share: bool) {
        let known = if share { &request } else { &known };
        let known = known.series.iter().map(raw_labels).collect();
        let (events, guesses) = decode(&encode_v2(&request), Recorder::knowing(known));
        prop_assert_eq!(events, request.events_v2());
        if share {
            prop_assert!(guesses >= usize::from(!request.series.is_empty()));
        }
    }

    #[test]
    fn both_versions_tell_the_same(request in requests()) {
        let mut request = request;
        request.metadata.clear();
        for series in &mut request.series {
            series.metadata = Metadata::default();
            series.created_timestamp_ms = 0;
            series.samples.iter_mut().for_each(|sample| sample.start_timestamp_ms = 0);
            series.histograms.iter_mut().for_each(|histogram| histogram.start_timestamp_ms = 0);
        }
        let mut v1 = Recorder::default();
        decode_v1(&encode_v1(&request), &mut v1).unwrap();
        prop_assert_eq!(events(&encode_v2(&request)), v1.events);
    }

    #[test]
    fn fields_may_come_in_reverse(request in requests()) {
        let mut table = SymbolTable::default();
        let series: Vec<Vec<u8>> = request
            .series
            .iter()
            .map(|series| {
                let mut fields = fields_v2(series, &mut table);
                fields.reverse();
                fields.concat()
            })
            .collect();
        // Symbols behind the series that refer to them.
        let nothing: [&str; 0] = [];
        let body = [assemble_v2(&nothing, &series), assemble_v2(&table.symbols, &[])].concat();
        let mut expected = request.clone();
        for series in &mut expected.series {
            series.samples.reverse();
            series.exemplars.reverse();
            series.histograms.reverse();
        }
        prop_assert_eq!(by_series(events(&body)), by_series(expected.events_v2()));
    }
}

/// Events without the order of kinds inside a series.
fn by_series(events: Vec<Event>) -> Vec<String> {
    let mut series = 0;
    let mut lines: Vec<String> = events
        .into_iter()
        .map(|event| {
            series += usize::from(matches!(event, Event::Series(_)));
            format!("{series:04} {event:?}")
        })
        .collect();
    lines.sort();
    lines
}

/// A series of one sample with these references.
fn series_with_refs(refs: &[u64]) -> Vec<u8> {
    let mut series = Message::default();
    series.packed(1, refs.iter().copied()).bytes(2, &[0x10, 7]);
    series.0
}

const SYMBOLS: [&str; 3] = ["", "__name__", "up"];

#[test]
fn references_that_point_nowhere_refuse_their_series_alone() {
    let body = assemble_v2(
        &SYMBOLS,
        &[
            series_with_refs(&[1, 3]),
            series_with_refs(&[u64::MAX, 2]),
            series_with_refs(&[1, 2, 1]),
            series_with_refs(&[1, 2]),
        ],
    );
    assert_eq!(
        events(&body),
        [
            Event::reject("labelRefs 1 (name) = 3 (value) outside of symbols table (size 3)"),
            Event::reject(
                "labelRefs 4294967295 (name) = 2 (value) outside of symbols table (size 3)"
            ),
            Event::reject("invalid labelRefs length 3"),
            Event::Series(pairs(&[("__name__", "up")])),
            Event::sample(7, 0, 0.0),
        ]
    );
}

#[test]
fn references_need_not_be_packed_or_together() {
    let mut series = Message::default();
    series.varint(1, 1).bytes(2, &[0x10, 7]).packed(1, [2]);
    let body = assemble_v2(&SYMBOLS, &[series.0]);
    let expected = [
        Event::Series(pairs(&[("__name__", "up")])),
        Event::sample(7, 0, 0.0),
    ];
    assert_eq!(events(&body), expected);
}

#[test]
fn the_first_symbol_is_the_empty_string() {
    let body = assemble_v2(&["x", "__name__", "up"], &[series_with_refs(&[1, 2])]);
    assert_eq!(
        decode_v2(&body, &mut Recorder::default()),
        Err(WireError::FirstSymbol)
    );
    assert_eq!(events(&[]), []);
}

#[test]
fn a_version_1_body_is_refused() {
    let series = Series {
        samples: vec![sample(1, 1.0)],
        ..Series::default()
    };
    let body = encode_v1(&Request {
        series: vec![series],
        ..Request::default()
    });
    assert_eq!(
        decode_v2(&body, &mut Recorder::default()),
        Err(WireError::VersionMismatch {
            declared: "2.0",
            found: "1.0"
        })
    );
}

#[test]
fn a_series_needs_a_sample_or_a_histogram() {
    let mut series = Message::default();
    series.packed(1, [1, 2]).bytes(4, &[]);
    let body = assemble_v2(&SYMBOLS, &[series.0]);
    let reason = "TimeSeries must contain at least one sample or histogram for series \"up\"";
    assert_eq!(events(&body), [Event::reject(reason)]);
}

#[test]
fn bad_references_of_exemplars_refuse_them_alone() {
    let mut odd = Message::default();
    odd.packed(1, [1]);
    let mut outside = Message::default();
    outside.packed(1, [1, 9]);
    let mut series = Message(series_with_refs(&[1, 2]));
    series.bytes(4, &odd.0).bytes(4, &outside.0);
    let body = assemble_v2(&SYMBOLS, &[series.0]);
    assert_eq!(
        events(&body)[2..],
        [
            Event::reject("exemplar has an odd number of label references"),
            Event::reject("label reference of an exemplar is outside the symbol table"),
        ]
    );
}

#[test]
fn a_family_has_its_metadata_told_once() {
    let series = |name: &str, metadata: Metadata| Series {
        labels: pairs(&[("__name__", name)]),
        samples: vec![sample(7, 1.0)],
        metadata,
        ..Series::default()
    };
    let seconds = metadata(MetricType::Histogram, "How long.", "seconds");
    let request = Request {
        series: vec![
            series("a_bucket", seconds.clone()),
            series("a_bucket", seconds.clone()),
            series("a_sum", seconds.clone()),
            series("a_count", seconds.clone()),
            series("b", metadata(MetricType::Counter, "", "")),
            series("c", Metadata::default()),
            series("b", metadata(MetricType::Counter, "Later.", "")),
        ],
        ..Request::default()
    };
    let told: Vec<Event> = events(&encode_v2(&request))
        .into_iter()
        .filter(|event| matches!(event, Event::Metadata(..)))
        .collect();
    assert_eq!(
        told,
        [
            Event::Metadata("a".into(), seconds),
            Event::Metadata("b".into(), metadata(MetricType::Counter, "", "")),
            Event::Metadata("b".into(), metadata(MetricType::Counter, "Later.", "")),
        ]
    );
}

#[test]
fn metadata_that_refers_to_nothing_is_refused_alone() {
    let mut series = Message(series_with_refs(&[1, 2]));
    series.bytes(5, &[0x08, 1, 0x18, 9]);
    let body = assemble_v2(&SYMBOLS, &[series.0]);
    let reason = "metadata of \"up\" refers to a symbol that does not exist or is not valid UTF-8";
    assert_eq!(events(&body)[2..], [Event::reject(reason)]);
}

#[test]
fn symbols_that_are_not_utf8_spoil_only_what_uses_them() {
    let symbols: [&[u8]; 4] = [b"", b"__name__", b"up", &[0xff]];
    let body = assemble_v2(
        &symbols,
        &[series_with_refs(&[1, 3]), series_with_refs(&[1, 2])],
    );
    let events = events(&body);
    assert_eq!(
        events[0],
        Event::reject("label name or value is not valid UTF-8")
    );
    assert_eq!(events[2], Event::Series(pairs(&[("__name__", "up")])));
}
