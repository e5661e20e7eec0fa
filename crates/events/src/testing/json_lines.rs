//! Files with a line of JSON for each event: its id for people, and its bytes.

use std::fmt::Write as _;

use icecore_model::event::EventId;
use icecore_model::{BoxFuture, StoreError};

use crate::{
    Field, FileBytes, FileFormat, FileRows, FileScan, FileSize, FileWriter, StoredEvent,
    decode_events, encode_events, event_id_text,
};

#[derive(Clone, Copy, Debug, Default)]
pub struct JsonLines;

impl FileFormat for JsonLines {
    fn extension(&self) -> &'static str {
        "jsonl"
    }

    fn begin(&self, _: &[Field], _: FileSize) -> Result<Box<dyn FileWriter>, StoreError> {
        Ok(Box::new(Lines::default()))
    }

    fn open<'a>(
        &'a self,
        file: FileBytes,
        scan: FileScan,
    ) -> BoxFuture<'a, Result<Box<dyn FileRows>, StoreError>> {
        Box::pin(async move {
            let content = (file.read)(0..file.size).await?;
            let text = std::str::from_utf8(&content).map_err(|error| damaged(&error))?;
            let mut events = Vec::new();
            for line in text.lines() {
                events.push(read_line(line)?);
            }
            events.retain(|event| {
                scan.started_ns.contains(&event.started_ns)
                    && scan.event.is_none_or(|id| id == event.id)
            });
            if scan.newest_first {
                events.reverse();
            }
            Ok(Box::new(Rows(events.into_iter())) as Box<dyn FileRows>)
        })
    }
}

/// A file in the making.
#[derive(Default)]
struct Lines {
    text: String,
    last: Option<(i64, EventId)>,
}

impl FileWriter for Lines {
    fn push(&mut self, events: &[&StoredEvent<'_>]) -> Result<(), StoreError> {
        for event in events {
            let place = (event.started_ns, event.id);
            assert!(self.last <= Some(place), "events of a file are sorted");
            self.last = Some(place);
            let id = event_id_text(event.id);
            let block = encode_events(0, [*event].into_iter());
            let hex: String = block.iter().map(|byte| format!("{byte:02x}")).collect();
            let _ = writeln!(self.text, r#"{{"id":"{id}","event":"{hex}"}}"#);
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Vec<u8>, StoreError> {
        Ok(self.text.into_bytes())
    }
}

fn read_line(line: &str) -> Result<StoredEvent<'static>, StoreError> {
    let value: serde_json::Value = serde_json::from_str(line).map_err(|error| damaged(&error))?;
    let hex = value["event"].as_str().unwrap_or_default();
    let digits = (0..hex.len() / 2).map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16));
    let block: Result<Vec<u8>, _> = digits.collect();
    let block = block.map_err(|error| damaged(&error))?;
    let (_, events) = decode_events(&block).map_err(|error| damaged(&error))?;
    let event = events.into_iter().next();
    event
        .map(StoredEvent::into_owned)
        .ok_or_else(|| StoreError("a line has no event".into()))
}

fn damaged(error: &dyn std::error::Error) -> StoreError {
    StoreError(format!("a file of events is damaged: {error}"))
}

/// A few at a time, as those of large files come.
struct Rows(std::vec::IntoIter<StoredEvent<'static>>);

impl FileRows for Rows {
    fn next_batch(
        &mut self,
    ) -> BoxFuture<'_, Result<Option<Vec<StoredEvent<'static>>>, StoreError>> {
        let events: Vec<_> = self.0.by_ref().take(3).collect();
        Box::pin(async move { Ok((!events.is_empty()).then_some(events)) })
    }
}
