//! Damaged and hostile requests: an answer or an error, never a panic.

use icecore_model::{Exemplar, Labels, MetricType};
use icecore_wire::WireError;
use icecore_wire::prometheus::protobuf::ProtobufError;
use icecore_wire::prometheus::{decode_v1, decode_v2};
use proptest::prelude::*;

use crate::encode::{Message, encode_v1, encode_v2, raw_labels};
use crate::generate::requests;
use crate::request::{
    Request, SentExemplar, SentHistogram, Series, float_histogram, integer_histogram, metadata,
    pairs, sample,
};
use crate::sink::{Event, Recorder};

fn whole_request() -> Request {
    let sent = |timestamp_ms, histogram| SentHistogram {
        timestamp_ms,
        start_timestamp_ms: 3,
        histogram,
    };
    let series = Series {
        labels: pairs(&[("__name__", "up"), ("job", "a")]),
        samples: vec![sample(1_700_000_000_000, 1.0), sample(5, 0.0)],
        exemplars: vec![SentExemplar {
            labels: pairs(&[("trace_id", "abc")]),
            timestamp_ms: 9,
            value: 0.5,
        }],
        histograms: vec![sent(7, integer_histogram()), sent(8, float_histogram())],
        metadata: metadata(MetricType::Gauge, "help", "unit"),
        created_timestamp_ms: 2,
    };
    let short = Series {
        labels: pairs(&[("__name__", "up")]),
        samples: vec![sample(1_700_000_000_000, 1.0)],
        ..Series::default()
    };
    Request {
        series: vec![short, series],
        metadata: vec![("up".into(), metadata(MetricType::Gauge, "help", "unit"))],
    }
}

/// Every prefix gives an error, except where it ends between top-level fields.
fn check_truncation(body: &[u8], ends: &[usize], decode: impl Fn(&[u8]) -> Result<(), WireError>) {
    for end in 0..body.len() {
        let result = decode(&body[..end]);
        if ends.contains(&end) {
            assert_eq!(result, Ok(()), "cut at {end}");
        } else {
            assert!(
                matches!(result, Err(WireError::Protobuf { .. })),
                "cut at {end}: {result:?}"
            );
        }
    }
}

/// Where top-level fields end.
fn field_ends(body: &[u8]) -> Vec<usize> {
    let mut ends = vec![0];
    let mut position = 0;
    while position < body.len() {
        let mut length = 0;
        let mut shift = 0;
        position += 1;
        loop {
            length |= usize::from(body[position] & 0x7f) << shift;
            shift += 7;
            position += 1;
            if body[position - 1] < 0x80 {
                break;
            }
        }
        position += length;
        ends.push(position);
    }
    ends
}

#[test]
fn truncation_anywhere_is_an_error() {
    let request = whole_request();
    let v1 = encode_v1(&request);
    check_truncation(&v1, &field_ends(&v1), |body| {
        decode_v1(body, &mut Recorder::default())
    });
    let known: Vec<_> = request.series.iter().map(raw_labels).collect();
    check_truncation(&v1, &field_ends(&v1), |body| {
        decode_v1(body, &mut Recorder::knowing(known.clone()))
    });
    let v2 = encode_v2(&request);
    check_truncation(&v2, &field_ends(&v2), |body| {
        decode_v2(body, &mut Recorder::default())
    });
}

#[test]
fn every_byte_may_be_any_other() {
    let request = whole_request();
    let known: Vec<_> = request.series.iter().map(raw_labels).collect();
    for original in [encode_v1(&request), encode_v2(&request)] {
        let mut body = original.clone();
        for position in 0..body.len() {
            for value in 0..=255 {
                body[position] = value;
                let _ = decode_v1(&body, &mut Recorder::default());
                let _ = decode_v1(&body, &mut Recorder::knowing(known.clone()));
                let _ = decode_v2(&body, &mut Recorder::default());
            }
            body[position] = original[position];
        }
    }
}

proptest! {
    #[test]
    fn any_bytes_are_answered(bytes: Vec<u8>) {
        let _ = decode_v1(&bytes, &mut Recorder::default());
        let _ = decode_v2(&bytes, &mut Recorder::default());
    }

    #[test]
    fn damaged_requests_are_answered(
        request in requests(),
        damage in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let known: Vec<_> = request.series.iter().map(raw_labels).collect();
        for mut body in [encode_v1(&request), encode_v2(&request)] {
            if body.is_empty() {
                continue;
            }
            for (index, value) in &damage {
                let position = index.index(body.len());
                body[position] = *value;
            }
            let _ = decode_v1(&body, &mut Recorder::knowing(known.clone()));
            let _ = decode_v2(&body, &mut Recorder::knowing(known.clone()));
        }
    }
}

#[test]
fn errors_name_the_field_by_its_offset() {
    let mut body = encode_v1(&whole_request());
    let offset = body.len();
    body.extend([0x0a, 2, 0x12, 5]);
    assert_eq!(
        decode_v1(&body, &mut Recorder::default()),
        Err(WireError::Protobuf {
            offset,
            error: ProtobufError::Truncated
        })
    );
    assert_eq!(
        decode_v1(&[0x0b], &mut Recorder::default())
            .unwrap_err()
            .to_string(),
        "protobuf: field 1 has the wrong wire type (in the field at byte 0)"
    );
    assert_eq!(
        decode_v1(&[0x3b], &mut Recorder::default())
            .unwrap_err()
            .to_string(),
        "protobuf: groups are not supported (in the field at byte 0)"
    );
}

#[test]
fn an_exemplar_with_a_hundred_thousand_labels_costs_little() {
    let mut exemplar = Message::default();
    for _ in 0..100_000 {
        exemplar.bytes(1, &[]);
    }
    let mut series = Message(raw_labels(&whole_request().series[0]));
    series.bytes(3, &exemplar.0);
    let mut request = Message::default();
    request.bytes(1, &series.0);
    let mut sink = Recorder::default();
    decode_v1(&request.0, &mut sink).unwrap();
    let empty = Exemplar {
        labels: Labels::empty(),
        timestamp_ms: 0,
        value: 0.0,
    };
    assert_eq!(sink.events[1], Event::Exemplar(empty));
}
