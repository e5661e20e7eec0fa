//! Remote write 1.0, through the public function.

use icecore_wire::WireError;
use icecore_wire::prometheus::decode_v1;
use proptest::prelude::*;

use crate::encode::{Message, encode_histogram, encode_v1, encode_v1_with, fields_v1, raw_labels};
use crate::generate::requests;
use crate::request::{
    Request, SentHistogram, Series, float_histogram, integer_histogram, pairs, sample,
};
use crate::sink::{Event, Recorder};

fn events(body: &[u8]) -> Vec<Event> {
    decode(body, Recorder::default()).0
}

fn decode(body: &[u8], mut sink: Recorder) -> (Vec<Event>, usize) {
    decode_v1(body, &mut sink).expect("the request is valid");
    (sink.events, sink.guesses)
}

fn series_of(labels: &[(&str, &str)]) -> Series {
    Series {
        labels: pairs(labels),
        samples: vec![sample(1_700_000_000_000, 1.5)],
        ..Series::default()
    }
}

fn request_of(series: Vec<Series>) -> Request {
    Request {
        series,
        ..Request::default()
    }
}

proptest! {
    #[test]
    fn what_was_sent_is_told(request in requests()) {
        prop_assert_eq!(events(&encode_v1(&request)), request.events_v1());
    }

    #[test]
    fn guessing_changes_nothing(request in requests(), known in requests(), share: bool) {
        // Sometimes all series are known, in order; sometimes some are the beginning of others.
        let known = if share { &request } else { &known };
        let known = known.series.iter().map(raw_labels).collect();
        let (events, guesses) = decode(&encode_v1(&request), Recorder::knowing(known));
        prop_assert_eq!(events, request.events_v1());
        if share {
            prop_assert!(guesses >= usize::from(!request.series.is_empty()));
        }
    }

    #[test]
    fn the_order_of_fields_does_not_matter(request in requests(), seed: u64) {
        let interleaved = encode_v1_with(&request, |series| interleave(fields_v1(series), seed));
        let plain = events(&encode_v1(&request));
        prop_assert_eq!(sorted(events(&interleaved)), sorted(plain.clone()));
        let known = request.series.iter().map(raw_labels).collect();
        let (guessed, _) = decode(&interleaved, Recorder::knowing(known));
        prop_assert_eq!(sorted(guessed), sorted(plain));
    }

    #[test]
    fn unknown_fields_are_skipped(request in requests()) {
        let mut unknown = Message::default();
        unknown.varint(900, 7).double(901, 1.0).bytes(902, b"new");
        let body = encode_v1_with(&request, |series| {
            let fields = fields_v1(series);
            fields.iter().flat_map(|field| [field.clone(), unknown.0.clone()]).flatten().collect()
        });
        let body = [unknown.0.clone(), body, unknown.0.clone()].concat();
        prop_assert_eq!(events(&body), request.events_v1());
    }
}

/// Mixes the fields of a series, labels among samples, in an order that a seed decides. Fields of
/// one kind stay in their order.
fn interleave(fields: Vec<Vec<u8>>, mut seed: u64) -> Vec<u8> {
    let mut kinds: Vec<Vec<Vec<u8>>> = vec![Vec::new(); 5];
    for field in fields.into_iter().rev() {
        kinds[usize::from(field[0] >> 3)].push(field);
    }
    let mut mixed = Vec::new();
    while kinds.iter().any(|kind| !kind.is_empty()) {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let kind = (seed >> 33) as usize % kinds.len();
        mixed.extend(kinds[kind].pop().unwrap_or_default());
    }
    mixed
}

/// Events in an order that does not depend on how samples, exemplars and histograms were mixed, but
/// does depend on the series they belong to.
fn sorted(events: Vec<Event>) -> Vec<String> {
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

#[test]
fn known_series_are_found_without_parsing() {
    let series = [("a", 1), ("b", 2), ("c", 3)]
        .map(|(job, value)| Series {
            samples: vec![sample(1_700_000_000_000, f64::from(value))],
            ..series_of(&[("__name__", "up"), ("job", job)])
        })
        .to_vec();
    let known = series.iter().map(raw_labels).collect();
    let request = request_of(series);
    let (events, guesses) = decode(&encode_v1(&request), Recorder::knowing(known));
    assert_eq!((events, guesses), (request.events_v1(), 3));
}

#[test]
fn a_known_series_may_be_the_beginning_of_another() {
    let short = series_of(&[("__name__", "up")]);
    let request = request_of(vec![series_of(&[("__name__", "up"), ("job", "a")])]);
    let body = encode_v1(&request);
    let (events, guesses) = decode(&body, Recorder::knowing(vec![raw_labels(&short)]));
    assert_eq!((events, guesses), (request.events_v1(), 1));
}

#[test]
fn a_label_behind_the_sample_belongs_to_the_series() {
    let short = series_of(&[("__name__", "up")]);
    let whole = series_of(&[("__name__", "up"), ("job", "a")]);
    let fields = fields_v1(&whole);
    let scattered = [&fields[0][..], &fields[2], &fields[1]].concat();
    let request = request_of(vec![whole]);
    let body = encode_v1_with(&request, |_| scattered.clone());
    assert_eq!(events(&body), request.events_v1());
    let (guessed, guesses) = decode(&body, Recorder::knowing(vec![raw_labels(&short)]));
    assert_eq!((guessed, guesses), (request.events_v1(), 1));
}

#[test]
fn a_label_with_a_padded_tag_and_length_is_a_label() {
    let series = series_of(&[("__name__", "up")]);
    let fields = fields_v1(&series);
    // Tag 0x0a in two bytes, the length in ten.
    let label = &fields[0][2..];
    let mut padded = vec![0x8a, 0x00, label.len() as u8 | 0x80];
    padded.extend([0x80; 8]);
    padded.push(0);
    padded.extend(label);
    let message = [padded, fields[1].clone()].concat();
    let request = request_of(vec![series]);
    assert_eq!(
        events(&encode_v1_with(&request, |_| message.clone())),
        request.events_v1()
    );
}

#[test]
fn series_without_labels_or_samples_are_announced() {
    let request = request_of(vec![Series::default(), series_of(&[])]);
    assert_eq!(events(&encode_v1(&request)), request.events_v1());
    assert_eq!(events(&[]), []);
}

#[test]
fn histograms_that_contradict_themselves_are_refused_alone() {
    let sent = |histogram| SentHistogram {
        timestamp_ms: 5,
        start_timestamp_ms: 0,
        histogram,
    };
    let good = encode_histogram(&sent(float_histogram()));
    let good_event = Event::histogram(5, 0, &float_histogram());
    let check = |bad: Vec<u8>, reason: &str| {
        let labels = raw_labels(&series_of(&[("__name__", "h")]));
        let mut series = Message(labels);
        series.bytes(4, &bad).bytes(4, &good);
        let mut request = Message::default();
        request.bytes(1, &series.0);
        let expected = [
            Event::Series(pairs(&[("__name__", "h")])),
            Event::reject(reason),
            good_event.clone(),
        ];
        assert_eq!(events(&request.0), expected);
    };

    let mut schema = integer_histogram();
    schema.schema = 9;
    check(
        encode_histogram(&sent(schema)),
        "histogram has an invalid schema 9, which must be between -4 and 8, or -53",
    );
    let mut huge_schema = Message::default();
    huge_schema.varint(4, 100_000);
    check(
        huge_schema.0,
        "histogram has an invalid schema 50000, which must be between -4 and 8, or -53",
    );
    let mut count = integer_histogram();
    if let icecore_model::HistogramCounts::Integer { count, .. } = &mut count.counts {
        *count = 11;
    }
    check(
        encode_histogram(&sent(count)),
        "12 observations found in buckets, but the count field is 11",
    );
    let mut integer_and_float = Message(encode_histogram(&sent(integer_histogram())));
    integer_and_float.packed_doubles(13, &[1.0]);
    check(
        integer_and_float.0,
        "histogram with integer counts has float counts, too",
    );
    let mut float_and_integer = Message(encode_histogram(&sent(float_histogram())));
    float_and_integer.packed(12, [2]);
    check(
        float_and_integer.0,
        "histogram with float counts has integer counts, too",
    );
}

#[test]
fn histogram_numbers_need_not_be_packed() {
    let mut message = Message::default();
    message.present_varint(1, 3);
    message.bytes(11, &[0x10, 2]).zigzag(12, 1).zigzag(12, 1);
    message.varint(15, 5).varint(14, 77);
    let mut series = Message(raw_labels(&series_of(&[("__name__", "h")])));
    series.bytes(4, &message.0);
    let mut request = Message::default();
    request.bytes(1, &series.0);
    let histogram = icecore_model::Histogram {
        schema: 0,
        reset_hint: icecore_model::CounterResetHint::Unknown,
        zero_threshold: 0.0,
        sum: 0.0,
        counts: icecore_model::HistogramCounts::Integer {
            count: 3,
            zero_count: 0,
            positive_deltas: vec![1, 1],
            negative_deltas: vec![],
        },
        positive_spans: vec![icecore_model::Span {
            offset: 0,
            length: 2,
        }],
        negative_spans: vec![],
        custom_bounds: [].into(),
    };
    assert_eq!(events(&request.0)[1], Event::histogram(5, 0, &histogram));
}

#[test]
fn metadata_without_a_name_or_with_bad_text_is_refused_alone() {
    let mut nameless = Message::default();
    nameless.varint(1, 1).text(4, "help");
    let mut bad_text = Message::default();
    bad_text.text(2, "a").bytes(4, &[0xff]);
    let mut future_type = Message::default();
    future_type.varint(1, 99).text(2, "a");
    let mut request = Message::default();
    request
        .bytes(3, &nameless.0)
        .bytes(3, &bad_text.0)
        .bytes(3, &future_type.0);
    assert_eq!(
        events(&request.0),
        [
            Event::reject("metadata has no metric family name"),
            Event::reject("metadata is not valid UTF-8"),
            Event::Metadata("a".into(), icecore_model::Metadata::default()),
        ]
    );
}

#[test]
fn exemplars_with_too_many_labels_are_refused_alone() {
    let mut label = Message::default();
    label.text(1, "trace_id").text(2, &"x".repeat(121));
    let mut exemplar = Message::default();
    exemplar.bytes(1, &label.0).double(2, 1.0);
    let mut series = Message(raw_labels(&series_of(&[("__name__", "h")])));
    series.bytes(3, &exemplar.0).bytes(2, &[0x10, 7]);
    let mut request = Message::default();
    request.bytes(1, &series.0);
    assert_eq!(
        events(&request.0)[1..],
        [
            Event::reject("labels of an exemplar have more than 128 characters"),
            Event::sample(7, 0, 0.0)
        ]
    );
}

#[test]
fn a_version_2_body_is_not_an_empty_version_1_body() {
    let request = request_of(vec![series_of(&[("__name__", "up")])]);
    let body = crate::encode::encode_v2(&request);
    assert_eq!(
        decode_v1(&body, &mut Recorder::default()),
        Err(WireError::VersionMismatch {
            declared: "1.0",
            found: "2.0"
        })
    );
}
