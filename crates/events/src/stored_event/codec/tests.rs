//! Events come back as they were written, and damage is reported.

use proptest::prelude::*;

use icecore_model::event::{DimensionHash, EventId};

use super::*;
use crate::{Attributes, EventKind, Leaf, Scalar, StoredEvent, Value};

fn small() -> StoredEvent<'static> {
    StoredEvent {
        service: "shop".into(),
        event_type: "order.placed".into(),
        name: "order.placed".into(),
        id: EventId([1; 16]),
        parent: None,
        started_ns: 1_000,
        ended_ns: None,
        received_ns: 2_000,
        duration_ns: None,
        kind: None,
        outcome: "UNKNOWN".into(),
        error_code: None,
        error_message: None,
        trace_id: None,
        span_id: None,
        parent_span_id: None,
        correlation_id: None,
        dimensions: DimensionHash([2; 16]),
        synthetic: false,
        attributes: Attributes::default(),
        rest: "".into(),
    }
}

fn full() -> StoredEvent<'static> {
    let leaves = vec![
        ("a.integer".into(), Value::Scalar(Scalar::Integer(-3))),
        ("a.number".into(), Value::Scalar(Scalar::Number(41.5))),
        ("a.text".into(), Value::Scalar(Scalar::Text("é".into()))),
        ("b".into(), Value::Null),
        (
            "c".into(),
            Value::List(vec![Scalar::Boolean(true), Scalar::Boolean(false)]),
        ),
        ("d".into(), Value::Json("[{}]".into())),
    ];
    StoredEvent {
        parent: Some(EventId([3; 16])),
        ended_ns: Some(1_060),
        duration_ns: Some(60),
        kind: Some(EventKind::Server),
        error_code: Some("E1".into()),
        error_message: Some("no".into()),
        trace_id: Some([4; 16]),
        span_id: Some([5; 8]),
        parent_span_id: Some([6; 8]),
        correlation_id: Some("cart".into()),
        synthetic: true,
        attributes: Attributes::from_leaves(leaves).unwrap(),
        rest: "{\"resource\":{}}".into(),
        ..small()
    }
}

#[test]
fn the_bytes_of_blocks_do_not_change() {
    let events = [small(), full()];
    let bytes = encode_events(300, events.iter());
    let mut expected = vec![1, 0xac, 2, 2];
    // The small one: nothing but names, times, id and dimensions.
    expected.push(0);
    expected.extend([1; 16]);
    expected.extend(b"\x00\x04shop\x00\x0corder.placed\x02\x00\x07UNKNOWN");
    expected.extend([0xd0, 0x0f, 0xa0, 0x1f]);
    expected.extend([2; 16]);
    expected.push(0);
    // The full one.
    expected.extend([0xff, 0x1f]);
    expected.extend([1; 16]);
    expected.extend([3; 16]);
    expected.extend([1, 2, 2, 3, 0, 0, 120, 0, 2]);
    expected.extend(b"\x02E1\x02no");
    expected.extend([4; 16]);
    expected.extend([5; 8]);
    expected.extend([6; 8]);
    expected.extend(b"\x04cart");
    expected.extend([2; 16]);
    expected.push(6);
    expected.extend(b"\x00\x09a.integer\x02\x05");
    expected.extend(b"\x00\x08a.number\x03\x00\x00\x00\x00\x00\xc0\x44\x40");
    expected.extend("\x00\x06a.text\x01\x02é".as_bytes());
    expected.extend(b"\x00\x01b\x00");
    expected.extend(b"\x00\x01c\x06\x02\x05\x04");
    expected.extend(b"\x00\x01d\x07\x04[{}]");
    expected.extend(b"\x00\x0f{\"resource\":{}}");
    assert_eq!(bytes, expected);
    assert_eq!(decode_events(&bytes), Ok((300, events.to_vec())));
}

#[test]
fn an_empty_block_is_one() {
    let none: [StoredEvent<'_>; 0] = [];
    let bytes = encode_events(0, none.iter());
    assert_eq!(bytes, [1, 0, 0]);
    assert_eq!(decode_events(&bytes), Ok((0, vec![])));
}

#[test]
fn damage_is_reported() {
    let bytes = encode_events(7, [full(), full()].iter());
    for length in 0..bytes.len() {
        assert!(decode_events(&bytes[..length]).is_err(), "{length}");
    }
    let longer = [&bytes[..], &[0]].concat();
    assert_eq!(
        decode_events(&longer).unwrap_err().reason,
        "bytes after the last event"
    );
    let mut newer = bytes.clone();
    newer[0] = 2;
    assert!(decode_events(&newer).is_err());
    // A count that no memory is taken for.
    assert!(decode_events(&[1, 0, 0xff, 0xff, 0xff, 0xff, 0x0f]).is_err());
    let mut block = EventBlock::new(&bytes[..bytes.len() - 1]).unwrap();
    assert_eq!((block.registry_version(), block.len()), (7, 2));
    assert!(block.next().unwrap().is_ok());
    assert!(block.next().unwrap().is_err());
    assert!(block.next().is_none());
}

#[test]
fn repeated_texts_are_written_once() {
    let one = encode_events(0, [full()].iter()).len();
    let two = encode_events(0, [full(), full()].iter()).len();
    assert!(two - one < one - 60, "{one} and {two}");
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-c.]{0,4}", ".{0,12}"]
}

fn scalar() -> impl Strategy<Value = Scalar<'static>> {
    prop_oneof![
        text().prop_map(|text| Scalar::Text(text.into())),
        any::<i64>().prop_map(Scalar::Integer),
        (-1e9..1e9).prop_map(Scalar::Number),
        any::<bool>().prop_map(Scalar::Boolean),
    ]
}

fn leaf() -> impl Strategy<Value = Leaf<'static>> {
    let value = prop_oneof![
        Just(Value::Null),
        scalar().prop_map(Value::Scalar),
        prop::collection::vec(scalar(), 0..4).prop_map(Value::List),
        Just(Value::Json("[[1]]".into())),
    ];
    (text().prop_map(Into::into), value)
}

prop_compose! {
    fn event()(
        names in prop::array::uniform4(text()),
        ids in any::<([u8; 16], [u8; 16], [u8; 16])>(),
        times in any::<(i64, i64, Option<i64>, Option<i64>)>(),
        texts in prop::array::uniform4(prop::option::of(text())),
        trace in any::<(Option<[u8; 16]>, Option<[u8; 8]>, Option<[u8; 8]>)>(),
        kind in 0..6u8,
        marks in any::<(bool, bool)>(),
        leaves in prop::collection::vec(leaf(), 0..6),
    ) -> StoredEvent<'static> {
        let [service, event_type, name, outcome] = names.map(Into::into);
        let [error_code, error_message, correlation_id, rest] = texts.map(|text| text.map(Into::into));
        StoredEvent {
            service,
            event_type,
            name,
            outcome,
            id: EventId(ids.0),
            parent: marks.0.then_some(EventId(ids.1)),
            started_ns: times.0,
            ended_ns: times.2,
            received_ns: times.1,
            duration_ns: times.3,
            kind: EventKind::from_number(kind),
            error_code,
            error_message,
            trace_id: trace.0,
            span_id: trace.1,
            parent_span_id: trace.2,
            correlation_id,
            dimensions: DimensionHash(ids.2),
            synthetic: marks.1,
            attributes: Attributes::from_leaves(leaves).unwrap_or_default(),
            rest: rest.unwrap_or_default(),
        }
    }
}

proptest! {
    #[test]
    fn any_events_come_back(
        version in any::<u64>(),
        events in prop::collection::vec(event(), 0..6),
    ) {
        let bytes = encode_events(version, events.iter());
        prop_assert_eq!(&bytes, &encode_events(version, events.iter()));
        let (read_version, read) = decode_events(&bytes).unwrap();
        prop_assert_eq!((read_version, &read), (version, &events));
        let owned: Vec<_> = read.into_iter().map(StoredEvent::into_owned).collect();
        prop_assert_eq!(owned, events);
    }

    #[test]
    fn any_bytes_are_an_answer(mut bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = decode_events(&bytes);
        if let Some(first) = bytes.first_mut() {
            *first = VERSION;
        }
        let _ = decode_events(&bytes);
    }

    #[test]
    fn damaged_bytes_are_an_answer(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut bytes = encode_events(7, [small(), full(), full()].iter());
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let _ = decode_events(&bytes);
    }
}
