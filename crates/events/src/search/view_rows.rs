//! A state of the engine as the source of a search.

use std::ops::Range;
use std::sync::Arc;

use icecore_model::BoxFuture;
use icecore_model::event::{EventId, Week};

use super::source::{EventRows, RowFile, SeenValue, TailPart};
use crate::{EventsView, FileFormat, Problem, Registry, StoredEvent};

impl EventRows for EventsView {
    fn registry(&self) -> &Arc<Registry> {
        Self::registry(self)
    }

    fn now_ms(&self) -> i64 {
        Self::now_ms(self)
    }

    fn guarded_ms(&self) -> i64 {
        Self::guarded_ms(self)
    }

    fn tail_parts(&self, service: Option<&str>, event_type: Option<&str>) -> Vec<TailPart> {
        let blocks = self.tail().iter().enumerate();
        let parts = blocks.filter_map(|(at, block)| {
            let summary = block.summary();
            let may_have = service.is_none_or(|service| summary.has_type(service, event_type));
            may_have.then_some(TailPart {
                at,
                min_started_ns: summary.min_started_ns,
                max_started_ns: summary.max_started_ns,
            })
        });
        parts.collect()
    }

    fn tail_events(&self, part: &TailPart) -> Result<Vec<StoredEvent<'_>>, Problem> {
        match self.tail().get(part.at) {
            Some(block) => block.events().map_err(super::collect::unreadable),
            None => Ok(Vec::new()),
        }
    }

    fn files(
        &self,
        service: u32,
        weeks: Range<Week>,
        event_type: Option<u32>,
    ) -> BoxFuture<'_, Result<Vec<RowFile>, Problem>> {
        Box::pin(async move {
            let files = Self::files(self, service, weeks, event_type).await?;
            let rows = files.into_iter().map(|file| RowFile {
                week: file.week,
                event_type: file.event_type,
                first_seq: file.first_seq,
                last_seq: file.last_seq,
                events: file.events,
                min_started_ns: file.min_started_ns,
                max_started_ns: file.max_started_ns,
                bytes: self.file_bytes(&file),
            });
            Ok(rows.collect())
        })
    }

    fn format(&self) -> &Arc<dyn FileFormat> {
        Self::format(self)
    }

    fn blocks_of<'a>(
        &'a self,
        service: u32,
        weeks: &'a [Week],
        event: EventId,
    ) -> BoxFuture<'a, Result<Vec<Option<u64>>, Problem>> {
        Box::pin(Self::blocks_of(self, service, weeks, event))
    }

    fn values_of<'a>(
        &'a self,
        service: u32,
        attribute: &'a str,
    ) -> BoxFuture<'a, Result<Vec<SeenValue>, Problem>> {
        Box::pin(async move {
            let values = self.attribute_values(service, attribute).await?;
            let seen = values.into_iter().map(|value| SeenValue {
                value: value.value,
                events: value.events,
                first_ns: value.first_ns,
                last_ns: value.last_ns,
            });
            Ok(seen.collect())
        })
    }
}
