//! What is read is what was written.

use icecore_event_files::Parquet;
use icecore_events::{
    Attributes, EventKind, FileFormat, FileScan, Leaf, Scalar, StoredEvent, Value,
};
use icecore_model::event::{DimensionHash, EventId};
use proptest::prelude::*;

use crate::events::{everything, in_memory, indexed, read};

fn scalar() -> impl Strategy<Value = Scalar<'static>> {
    prop_oneof![
        ".{0,12}".prop_map(|text| Scalar::Text(text.into())),
        any::<i64>().prop_map(Scalar::Integer),
        (-5_i64..5).prop_map(Scalar::Integer),
        any::<f64>()
            .prop_filter("JSON has no such number", |number| number.is_finite())
            .prop_map(Scalar::Number),
        (-5_i32..5).prop_map(|number| Scalar::Number(number.into())),
        any::<bool>().prop_map(Scalar::Boolean),
        Just(Scalar::Text("2026-11-09T10:00:01.25+01:00".into())),
        Just(Scalar::Text("x".repeat(5_000).into())),
    ]
}

fn value() -> impl Strategy<Value = Value<'static>> {
    prop_oneof![
        1 => Just(Value::Null),
        6 => scalar().prop_map(Value::Scalar),
        2 => prop::collection::vec(scalar(), 0..4).prop_map(Value::List),
        1 => prop::sample::select(vec![r#"[{"a": 1}, null]"#, "[[1,2],[]]", r#"[null,"x"]"#])
            .prop_map(|json| Value::Json(json.into())),
    ]
}

fn leaf() -> impl Strategy<Value = Leaf<'static>> {
    let declared: Vec<String> = indexed().into_iter().map(|field| field.path).collect();
    let path = prop_oneof![
        prop::sample::select(declared),
        "[a-c]{1,2}(\\.[a-c]{1,2}){0,2}".prop_map(|path| path),
        Just("ünïcode \"quoted\"\n.x".to_owned()),
        Just(".".to_owned()),
    ];
    (path, value()).prop_map(|(path, value)| (path.into(), value))
}

fn attributes() -> impl Strategy<Value = Attributes<'static>> {
    let leaves = prop::collection::vec(leaf(), 0..8);
    leaves.prop_filter_map("a value that is also an object", |leaves| {
        Attributes::from_leaves(leaves).ok()
    })
}

fn stored_event() -> impl Strategy<Value = StoredEvent<'static>> {
    let times = (
        0_i64..50,
        any::<Option<i64>>(),
        any::<i64>(),
        any::<Option<i64>>(),
    );
    let ids = (
        any::<[u8; 16]>(),
        any::<Option<[u8; 16]>>(),
        any::<Option<[u8; 16]>>(),
        any::<Option<[u8; 8]>>(),
        any::<Option<[u8; 8]>>(),
        any::<[u8; 16]>(),
    );
    let texts = (
        ".{0,5}",
        prop::option::of(".{0,5}"),
        prop::option::of(".{0,5}"),
    );
    let rest = prop_oneof![Just(""), Just(r#"{"resource":{"a":1}}"#)];
    let kind = (0_u8..6).prop_map(EventKind::from_number);
    (times, ids, texts, kind, any::<bool>(), attributes(), rest).prop_map(
        |(times, ids, texts, kind, synthetic, attributes, rest)| StoredEvent {
            service: "shop".into(),
            event_type: "order.placed".into(),
            name: texts.0.clone().into(),
            id: EventId(ids.0),
            parent: ids.1.map(EventId),
            started_ns: times.0,
            ended_ns: times.1,
            received_ns: times.2,
            duration_ns: times.3,
            kind,
            outcome: texts.0.into(),
            error_code: texts.1.clone().map(Into::into),
            error_message: texts.2.map(Into::into),
            trace_id: ids.2,
            span_id: ids.3,
            parent_span_id: ids.4,
            correlation_id: texts.1.map(Into::into),
            dimensions: DimensionHash(ids.5),
            synthetic,
            attributes,
            rest: rest.into(),
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn events_survive(events in prop::collection::vec(stored_event(), 0..40)) {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let file = in_memory(Parquet.encode(&indexed(), &events).unwrap()).file;
        let mut sorted = events;
        sorted.sort_by_key(|event| (event.started_ns, event.id));
        let found = runtime.block_on(read(file.clone(), everything())).unwrap();
        prop_assert_eq!(&found, &sorted);
        // The signs of zeros, too, which are equal otherwise.
        prop_assert_eq!(format!("{found:?}"), format!("{sorted:?}"));
        let newest_first = FileScan { newest_first: true, started_ns: 10..40, ..everything() };
        let found = runtime.block_on(read(file, newest_first)).unwrap();
        sorted.retain(|event| (10..40).contains(&event.started_ns));
        sorted.reverse();
        prop_assert_eq!(found, sorted);
    }
}
