//! The tail: events that are durable in the journal and not in a file yet.
//!
//! Blocks are kept as they were stored, and read when somebody asks for them: most of them are
//! sealed before anybody does.

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::sync::Arc;

use bytes::Bytes;
use icecore_model::StoreError;

use super::prepared::FromBlockError;
use crate::{StoredEvent, decode_events};

/// The events of one request.
#[derive(Debug)]
pub struct TailBlock {
    seq: u64,
    block: Bytes,
    /// Positions of events that do not count, because they were stored before.
    void: Vec<u32>,
    summary: BlockSummary,
}

/// What a block has, to pass over it without reading it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockSummary {
    pub events: usize,
    /// When the first and the last of them began.
    pub min_started_ns: i64,
    pub max_started_ns: i64,
    /// Service and type, each pair once.
    pub types: Vec<(Arc<str>, Arc<str>)>,
}

impl BlockSummary {
    pub(crate) fn of(events: &[StoredEvent<'_>]) -> Self {
        let starts = || events.iter().map(|event| event.started_ns);
        let mut types: Vec<(Arc<str>, Arc<str>)> = Vec::new();
        for event in events {
            let is_known = types.iter().rev().any(|(service, event_type)| {
                **service == *event.service && **event_type == *event.event_type
            });
            if !is_known {
                types.push((Arc::from(&*event.service), Arc::from(&*event.event_type)));
            }
        }
        Self {
            events: events.len(),
            min_started_ns: starts().min().unwrap_or(i64::MAX),
            max_started_ns: starts().max().unwrap_or(i64::MIN),
            types,
        }
    }

    pub fn has_type(&self, service: &str, event_type: Option<&str>) -> bool {
        self.types.iter().any(|(of, named)| {
            **of == *service && event_type.is_none_or(|event_type| **named == *event_type)
        })
    }

    pub fn started_ns(&self) -> RangeInclusive<i64> {
        self.min_started_ns..=self.max_started_ns
    }
}

impl TailBlock {
    pub(crate) fn new(seq: u64, block: Bytes, void: Vec<u32>, summary: BlockSummary) -> Self {
        Self {
            seq,
            block,
            void,
            summary,
        }
    }

    pub fn seq(&self) -> u64 {
        self.seq
    }

    pub fn summary(&self) -> &BlockSummary {
        &self.summary
    }

    /// Its events, in the order in which they were published. CPU work.
    pub fn events(&self) -> Result<Vec<StoredEvent<'_>>, StoreError> {
        let (_, mut events) = decode_events(&self.block).map_err(StoreError::from_block)?;
        retain_effective(&mut events, &self.void);
        Ok(events)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.block.len() + BLOCK_BYTES
    }
}

/// About what a block takes besides its content.
const BLOCK_BYTES: usize = 256;

/// Removes events at positions that are void.
pub(crate) fn retain_effective<T>(events: &mut Vec<T>, void: &[u32]) {
    if void.is_empty() {
        return;
    }
    let mut position = 0;
    events.retain(|_| {
        let is_void = void.binary_search(&position).is_ok();
        position += 1;
        !is_void
    });
}

/// Blocks in the order of their sequence numbers.
#[derive(Debug, Default)]
pub(crate) struct Tail {
    blocks: VecDeque<Arc<TailBlock>>,
    bytes: usize,
    events: usize,
}

impl Tail {
    pub(crate) fn push(&mut self, block: TailBlock) {
        self.bytes += block.bytes();
        self.events += block.summary.events;
        self.blocks.push_back(Arc::new(block));
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn events(&self) -> usize {
        self.events
    }

    pub(crate) fn all(&self) -> Vec<Arc<TailBlock>> {
        self.blocks.iter().cloned().collect()
    }

    /// The oldest blocks up to a sequence number, no more than have this many bytes, but at least
    /// one.
    pub(crate) fn oldest(&self, up_to: u64, max_bytes: usize) -> Vec<Arc<TailBlock>> {
        let mut bytes = 0;
        let blocks = self.blocks.iter().take_while(|block| block.seq <= up_to);
        let blocks = blocks.take_while(|block| {
            let is_first = bytes == 0;
            bytes += block.bytes();
            is_first || bytes <= max_bytes
        });
        blocks.cloned().collect()
    }

    /// Forgets blocks that are in files.
    pub(crate) fn forget(&mut self, sealed: u64) {
        while self.blocks.front().is_some_and(|block| block.seq <= sealed) {
            if let Some(block) = self.blocks.pop_front() {
                self.bytes -= block.bytes();
                self.events -= block.summary.events;
            }
        }
    }
}
