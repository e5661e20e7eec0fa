//! Events for tests, and files in memory that count what is read of them.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use icecore_event_files::Parquet;
use icecore_events::{
    Attributes, EventKind, Field, FieldType, FileBytes, FileFormat, FileScan, Scalar, StoredEvent,
    Value,
};
use icecore_model::event::{DimensionHash, EventId};
use icecore_model::{BoxFuture, StoreError};

/// 2026-11-09T10:00:00Z.
pub(crate) const START_NS: i64 = 1_794_218_400_000_000_000;

pub(crate) fn field(path: &str, kind: FieldType) -> Field {
    Field {
        path: path.into(),
        kind,
        required: false,
        indexed: true,
    }
}

pub(crate) fn indexed() -> Vec<Field> {
    vec![
        field("customer.id", FieldType::String),
        field("done", FieldType::Boolean),
        field("order.channel", FieldType::String),
        field("order.items", FieldType::Integer),
        field("order.total", FieldType::Number),
        field("seen_at", FieldType::Timestamp),
        field("tags", FieldType::ArrayOfString),
    ]
}

/// The n-th event: one each millisecond.
pub(crate) fn event(n: u64) -> StoredEvent<'static> {
    let text = |text: String| Value::Scalar(Scalar::Text(text.into()));
    let channel = ["web", "app", "phone"][(n % 3) as usize];
    let leaves = vec![
        ("customer.id".into(), text(format!("c-{}", n % 1000))),
        (
            "done".into(),
            Value::Scalar(Scalar::Boolean(n.is_multiple_of(7))),
        ),
        ("order.channel".into(), text(channel.into())),
        (
            "order.items".into(),
            Value::Scalar(Scalar::Integer((n % 50) as i64)),
        ),
        (
            "order.total".into(),
            Value::Scalar(Scalar::Number(n as f64 / 4.0)),
        ),
        ("note".into(), text(format!("event number {n}"))),
    ];
    let started_ns = START_NS + n as i64 * 1_000_000;
    // As identities are: without any order.
    let mut id = [0; 16];
    id[..8].copy_from_slice(&n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    id[8..].copy_from_slice(&n.wrapping_mul(0xc2b2_ae3d_27d4_eb4f).to_be_bytes());
    StoredEvent {
        service: "shop".into(),
        event_type: "order.placed".into(),
        name: "order.placed".into(),
        id: EventId(id),
        parent: None,
        started_ns,
        ended_ns: Some(started_ns + 60_000_000),
        received_ns: started_ns + 100_000_000,
        duration_ns: Some(60_000_000),
        kind: Some(EventKind::Server),
        outcome: if n % 100 == 99 { "FAILURE" } else { "SUCCESS" }.into(),
        error_code: None,
        error_message: None,
        trace_id: Some(id),
        span_id: Some([n as u8; 8]),
        parent_span_id: None,
        correlation_id: None,
        dimensions: DimensionHash([(n % 3) as u8; 16]),
        synthetic: false,
        attributes: Attributes::from_leaves(leaves).unwrap(),
        rest: r#"{"resource":{"host":{"name":"node-7"}}}"#.into(),
    }
}

pub(crate) fn file_of(events: &[StoredEvent<'_>]) -> Vec<u8> {
    Parquet.encode(&indexed(), events).unwrap()
}

/// A file in memory.
pub(crate) struct MemoryFile {
    pub(crate) file: FileBytes,
    pub(crate) bytes_read: Arc<AtomicU64>,
}

pub(crate) fn in_memory(content: impl Into<Bytes>) -> MemoryFile {
    let content: Bytes = content.into();
    let bytes_read = Arc::new(AtomicU64::new(0));
    let counted = bytes_read.clone();
    let size = content.len() as u64;
    let read = move |range: Range<u64>| -> BoxFuture<'static, Result<Bytes, StoreError>> {
        counted.fetch_add(range.end - range.start, Ordering::Relaxed);
        let part = content.slice(range.start as usize..range.end as usize);
        Box::pin(async move { Ok(part) })
    };
    MemoryFile {
        file: FileBytes {
            size,
            read: Arc::new(read),
        },
        bytes_read,
    }
}

pub(crate) fn everything() -> FileScan {
    FileScan {
        started_ns: i64::MIN..i64::MAX,
        newest_first: false,
        event: None,
        condition: None,
    }
}

/// All events of a scan.
pub(crate) async fn read(
    file: FileBytes,
    scan: FileScan,
) -> Result<Vec<StoredEvent<'static>>, StoreError> {
    let mut rows = Parquet.open(file, scan).await?;
    let mut events = Vec::new();
    while let Some(batch) = rows.next_batch().await? {
        assert!(!batch.is_empty());
        events.extend(batch);
    }
    Ok(events)
}
