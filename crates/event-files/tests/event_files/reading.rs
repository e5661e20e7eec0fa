//! What is asked for is found, and little else is read.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow_array::cast::AsArray as _;
use bytes::Bytes;
use icecore_event_files::{ColumnBatches, Parquet, TEXT_LIMIT, event_schema};
use icecore_events::query::{Clause, Condition, Operand, Operator, Subject};
use icecore_events::{Attributes, FieldType, FileFormat, FileScan, Scalar, StoredEvent, Value};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use proptest::prelude::*;

use crate::events::{START_NS, event, everything, field, file_of, in_memory, indexed, read};

fn clause(subject: Subject, operator: Operator, operand: Operand) -> Condition {
    Condition::Clause(Clause {
        subject,
        operator,
        operand,
    })
}

fn attribute(path: &str) -> Subject {
    Subject::Attribute(path.into())
}

fn condition() -> impl Strategy<Value = Condition> {
    let value = prop_oneof![
        (-1_i64..60).prop_map(Scalar::Integer),
        (-4_i32..260).prop_map(|n| Scalar::Number(f64::from(n) / 4.0)),
        prop::sample::select(vec![
            "web", "app", "c-7", "c-1%", "%e%", "_eb", "FAILURE", "3", "true"
        ])
        .prop_map(|text| Scalar::Text(text.into())),
        any::<bool>().prop_map(Scalar::Boolean),
    ];
    let subject = prop::sample::select(vec![
        attribute("customer.id"),
        attribute("done"),
        attribute("order.channel"),
        attribute("order.items"),
        attribute("order.total"),
        attribute("tags"),
        attribute("note"),
        Subject::Column("outcome".into()),
        Subject::Column("duration_nanos".into()),
    ]);
    let operator = prop::sample::select(vec![
        Operator::Equal,
        Operator::NotEqual,
        Operator::Like,
        Operator::LikeAnyCase,
        Operator::Greater,
        Operator::GreaterOrEqual,
        Operator::Less,
        Operator::LessOrEqual,
        Operator::In,
        Operator::Exists,
    ]);
    let values = prop::collection::vec(value, 1..3);
    let one = (subject, operator, values).prop_map(|(subject, operator, mut values)| {
        let operand = match operator {
            Operator::In => Operand::Several(values),
            Operator::Exists => Operand::None,
            _ => Operand::One(values.remove(0)),
        };
        clause(subject, operator, operand)
    });
    one.prop_recursive(2, 8, 3, |inner| {
        let parts = prop::collection::vec(inner, 1..3);
        prop_oneof![
            parts.clone().prop_map(Condition::All),
            parts.prop_map(Condition::Any)
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn nothing_that_satisfies_a_condition_is_left_out(condition in condition()) {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let events: Vec<StoredEvent<'static>> = (0..300).map(event).collect();
        let file = in_memory(file_of(&events)).file;
        let scan = FileScan { condition: Some(Arc::new(condition.clone())), ..everything() };
        let mut found = runtime.block_on(read(file, scan)).unwrap();
        found.retain(|event| condition.holds(event));
        let mut expected = events;
        expected.retain(|event| condition.holds(event));
        prop_assert_eq!(found, expected);
    }
}

#[tokio::test]
async fn the_newest_events_are_read_with_little() {
    let events: Vec<StoredEvent<'static>> = (0..250_000).map(event).collect();
    let content = file_of(&events);
    let size = content.len() as u64;
    let file = in_memory(content);
    let scan = FileScan {
        newest_first: true,
        started_ns: START_NS..START_NS + 200_000 * 1_000_000,
        ..everything()
    };
    let mut rows = Parquet.open(file.file.clone(), scan).await.unwrap();
    let newest = rows.next_batch().await.unwrap().unwrap();
    assert_eq!(newest.len(), 64);
    assert_eq!(newest[0], events[199_999]);
    assert_eq!(newest[63], events[199_936]);
    let read = file.bytes_read.load(Ordering::Relaxed);
    assert!(read < size / 20, "{read} of {size} bytes");
}

#[tokio::test]
async fn an_event_is_found_by_its_id() {
    let events: Vec<StoredEvent<'static>> = (0..220_000).map(event).collect();
    let content = file_of(&events);
    let size = content.len() as u64;
    let file = in_memory(content);
    let scan = FileScan {
        event: Some(events[123_456].id),
        ..everything()
    };
    let found = read(file.file.clone(), scan).await.unwrap();
    assert_eq!(found, [events[123_456].clone()]);
    let used = file.bytes_read.swap(0, Ordering::Relaxed);
    assert!(used < size / 3, "{used} of {size} bytes");
    let scan = FileScan {
        event: Some(event(5_000_000).id),
        ..everything()
    };
    assert_eq!(read(file.file, scan).await.unwrap(), []);
    let used = file.bytes_read.load(Ordering::Relaxed);
    assert!(used < size / 10, "{used} of {size} bytes");
}

#[tokio::test]
async fn groups_without_a_value_are_not_read() {
    let events: Vec<StoredEvent<'static>> = (0..250_000).map(event).collect();
    let content = file_of(&events);
    let size = content.len() as u64;
    let file = in_memory(content);
    let total = clause(
        attribute("order.total"),
        Operator::GreaterOrEqual,
        Operand::One(Scalar::Integer(62_499)),
    );
    let scan = FileScan {
        condition: Some(Arc::new(total)),
        ..everything()
    };
    let found = read(file.file.clone(), scan).await.unwrap();
    assert_eq!(found, events[249_996..]);
    let used = file.bytes_read.load(Ordering::Relaxed);
    assert!(used < size / 8, "{used} of {size} bytes");
}

#[tokio::test]
async fn columns_of_a_file() {
    let events: Vec<StoredEvent<'static>> = (0..20_000).map(event).collect();
    // The file has no column of the note, and another type for the items.
    let mut fields = indexed();
    fields.retain(|field| field.path != "order.items");
    let content = Parquet.encode(&fields, &events).unwrap();
    let all = event_schema(&[
        field("note", FieldType::String),
        field("order.items", FieldType::Integer),
        field("order.total", FieldType::Number),
    ]);
    let wanted = [
        "attr.note",
        "attr.order.items",
        "attr.order.total",
        "started_at",
    ];
    let positions: Vec<usize> = wanted
        .iter()
        .map(|name| all.index_of(name).unwrap())
        .collect();
    let schema = Arc::new(all.project(&positions).unwrap());
    let file = in_memory(content).file;
    let scan = FileScan {
        started_ns: START_NS + 5_000_000_000..i64::MAX,
        ..everything()
    };
    let opened = ColumnBatches::open(file.clone(), scan.clone(), schema.clone()).await;
    let mut batches = opened.unwrap();
    let mut row = 5_000;
    while let Some(batch) = batches.next_batch().await.unwrap() {
        assert_eq!(batch.schema(), schema);
        let rows: Vec<&StoredEvent<'static>> = events[row..row + batch.num_rows()].iter().collect();
        let expected = icecore_event_files::events_to_batch(&schema, &rows).unwrap();
        assert_eq!(batch, expected);
        row += batch.num_rows();
    }
    assert_eq!(row, events.len());
    let none = Arc::new(all.project(&[]).unwrap());
    let mut batches = ColumnBatches::open(file, scan, none).await.unwrap();
    let mut rows = 0;
    while let Some(batch) = batches.next_batch().await.unwrap() {
        rows += batch.num_rows();
    }
    assert_eq!(rows, 15_000);
}

/// In files long text is cut, which is what other programs see; whoever asks us finds all of it.
#[tokio::test]
async fn long_texts_are_cut_in_files_and_whole_in_answers() {
    let long = |end: &str| format!("{}{end}", "ü".repeat(TEXT_LIMIT));
    let with_text = |n: u64, text: String| {
        let mut event = event(n);
        let leaves = vec![
            (
                "customer.id".into(),
                Value::Scalar(Scalar::Text(text.clone().into())),
            ),
            ("tags".into(), Value::List(vec![Scalar::Text(text.into())])),
        ];
        event.attributes = Attributes::from_leaves(leaves).unwrap();
        event
    };
    let events = [
        with_text(0, long("")),
        with_text(1, long("a")),
        with_text(2, long("b")),
    ];
    let content = file_of(&events);
    let shown = {
        let reader = ParquetRecordBatchReaderBuilder::try_new(Bytes::from(content.clone()));
        let batch = reader.unwrap().build().unwrap().next().unwrap().unwrap();
        let texts = batch.column_by_name("attr.customer.id").unwrap();
        let texts = texts.as_string::<i32>().iter();
        texts
            .map(|text| text.unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(shown, [long(""), long(""), long("")]);
    let file = in_memory(content).file;
    for (text, expected) in [(long("b"), 2..3), (long(""), 0..1), ("none".into(), 0..0)] {
        for path in ["customer.id", "tags"] {
            let operand = Operand::One(Scalar::Text(text.clone().into()));
            let condition = clause(attribute(path), Operator::Equal, operand);
            let scan = FileScan {
                condition: Some(Arc::new(condition.clone())),
                ..everything()
            };
            let mut found = read(file.clone(), scan).await.unwrap();
            found.retain(|event| condition.holds(event));
            assert_eq!(found, events[expected.clone()], "{path}");
        }
    }
    let schema = event_schema(&indexed());
    let wanted = ["attr.customer.id", "attr.tags", "started_at"];
    let positions: Vec<usize> = wanted
        .iter()
        .map(|name| schema.index_of(name).unwrap())
        .collect();
    let schema = Arc::new(schema.project(&positions).unwrap());
    let opened = ColumnBatches::open(file, everything(), schema.clone()).await;
    let batch = opened.unwrap().next_batch().await.unwrap().unwrap();
    let rows: Vec<&StoredEvent<'static>> = events.iter().collect();
    assert_eq!(
        batch,
        icecore_event_files::events_to_batch(&schema, &rows).unwrap()
    );
    let texts = batch.column(0).as_string::<i32>();
    assert_eq!(texts.value(2), long("b"));
}
