//! A source of searches whose files and tail are lists in memory.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use icecore_model::event::{EventId, Week};
use icecore_model::{BoxFuture, StoreError};

use crate::search::{EventRows, RowFile, SeenValue, TailPart};
use crate::{FileBytes, FileFormat, Problem, Registry, StoredEvent};

pub struct MemoryRows {
    pub registry: Arc<Registry>,
    pub now_ms: i64,
    pub format: Arc<dyn FileFormat>,
    /// Service and file.
    files: Vec<(u32, RowFile)>,
    tail: Vec<Vec<StoredEvent<'static>>>,
    blocks: Vec<(u32, Week, EventId, u64)>,
    pub values: Vec<SeenValue>,
}

impl MemoryRows {
    pub fn new(registry: Arc<Registry>, now_ms: i64, format: Arc<dyn FileFormat>) -> Self {
        Self {
            registry,
            now_ms,
            format,
            files: Vec::new(),
            tail: Vec::new(),
            blocks: Vec::new(),
            values: Vec::new(),
        }
    }

    pub fn push_tail(&mut self, events: Vec<StoredEvent<'static>>) {
        self.tail.push(events);
    }

    /// Adds a file with events of one type and week. Numbers of what is not registered are 0.
    pub fn push_file(&mut self, mut events: Vec<StoredEvent<'static>>) {
        events.sort_by_key(|event| (event.started_ns, event.id));
        let (first, last) = (&events[0], &events[events.len() - 1]);
        let service = self.registry.service(&first.service);
        let service = service.map_or(0, |service| service.number);
        let event_type = self.registry.event_type(&first.service, &first.event_type);
        let indexed = event_type.map_or_else(Vec::new, |known| known.indexed_fields());
        let event_type = event_type.map_or(0, |known| known.number);
        let content = self.format.encode(&indexed, &events);
        let content = Bytes::from(content.expect("events can be encoded"));
        let size = content.len() as u64;
        let read = move |range: Range<u64>| -> BoxFuture<'static, Result<Bytes, StoreError>> {
            let part = content.slice(range.start as usize..range.end as usize);
            Box::pin(async move { Ok(part) })
        };
        let seq = self.files.len() as u64 + 1;
        let week = Week::of(first.started_ns.div_euclid(1_000_000_000));
        let file = RowFile {
            week,
            event_type,
            first_seq: seq,
            last_seq: seq,
            events: events.len() as u64,
            min_started_ns: first.started_ns,
            max_started_ns: last.started_ns,
            bytes: FileBytes {
                size,
                read: Arc::new(read),
            },
        };
        let identities = events.iter().map(|event| (service, week, event.id, seq));
        self.blocks.extend(identities);
        self.files.push((service, file));
    }
}

impl EventRows for MemoryRows {
    fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    fn now_ms(&self) -> i64 {
        self.now_ms
    }

    fn guarded_ms(&self) -> i64 {
        self.now_ms
    }

    fn tail_parts(&self, service: Option<&str>, event_type: Option<&str>) -> Vec<TailPart> {
        let part = |(at, events): (usize, &Vec<StoredEvent<'static>>)| {
            let mut wanted = events.iter().filter(|event| {
                service.is_none_or(|service| *event.service == *service)
                    && event_type.is_none_or(|wanted| *event.event_type == *wanted)
            });
            wanted.next()?;
            let starts = || events.iter().map(|event| event.started_ns);
            Some(TailPart {
                at,
                min_started_ns: starts().min()?,
                max_started_ns: starts().max()?,
            })
        };
        self.tail.iter().enumerate().filter_map(part).collect()
    }

    fn tail_events(&self, part: &TailPart) -> Result<Vec<StoredEvent<'_>>, Problem> {
        Ok(self.tail[part.at].clone())
    }

    fn files(
        &self,
        service: u32,
        weeks: Range<Week>,
        event_type: Option<u32>,
    ) -> BoxFuture<'_, Result<Vec<RowFile>, Problem>> {
        let files = self.files.iter().filter(move |(of, file)| {
            *of == service
                && weeks.contains(&file.week)
                && event_type.is_none_or(|number| file.event_type == number)
        });
        let files: Vec<RowFile> = files.map(|(_, file)| file.clone()).collect();
        Box::pin(async move { Ok(files) })
    }

    fn format(&self) -> &Arc<dyn FileFormat> {
        &self.format
    }

    fn blocks_of<'a>(
        &'a self,
        service: u32,
        weeks: &'a [Week],
        event: EventId,
    ) -> BoxFuture<'a, Result<Vec<Option<u64>>, Problem>> {
        let block = move |wanted: &Week| {
            let mut blocks = self.blocks.iter();
            let found =
                blocks.find(|(of, week, id, _)| (*of, week, *id) == (service, wanted, event));
            found.map(|(_, _, _, seq)| *seq)
        };
        let blocks: Vec<Option<u64>> = weeks.iter().map(block).collect();
        Box::pin(async move { Ok(blocks) })
    }

    fn values_of<'a>(
        &'a self,
        _: u32,
        _: &'a str,
    ) -> BoxFuture<'a, Result<Vec<SeenValue>, Problem>> {
        let values = self.values.clone();
        Box::pin(async move { Ok(values) })
    }
}
