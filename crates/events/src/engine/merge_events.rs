//! The events of several files in the order of their starts, a part at a time.
//!
//! Of each file only the rows that were read last are in memory, so that files are merged that are
//! much larger than memory should be.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use icecore_model::StoreError;
use icecore_model::event::EventId;

use crate::{FileRows, StoredEvent};

/// Events that are handed over at once.
const PART: usize = 8_192;

/// A file that is being read.
struct Source {
    rows: Box<dyn FileRows>,
    batch: std::vec::IntoIter<StoredEvent<'static>>,
    /// Read so far.
    events: u64,
}

/// The start and the id of a source's next event, and the source.
type Next = Reverse<(i64, EventId, usize)>;

pub(super) struct MergedEvents {
    sources: Vec<Source>,
    next: BinaryHeap<Next>,
}

impl MergedEvents {
    /// Of files that are read from their beginning.
    pub(super) async fn new(files: Vec<Box<dyn FileRows>>) -> Result<Self, StoreError> {
        let sources = files.into_iter().map(|rows| Source {
            rows,
            batch: Vec::new().into_iter(),
            events: 0,
        });
        let mut merged = Self {
            sources: sources.collect(),
            next: BinaryHeap::new(),
        };
        for at in 0..merged.sources.len() {
            merged.advance(at).await?;
        }
        Ok(merged)
    }

    /// Some more events; none at the end.
    pub(super) async fn next_part(&mut self) -> Result<Vec<StoredEvent<'static>>, StoreError> {
        let mut part = Vec::with_capacity(PART);
        while part.len() < PART
            && let Some(Reverse((_, _, at))) = self.next.pop()
        {
            part.extend(self.sources[at].batch.next());
            self.advance(at).await?;
        }
        Ok(part)
    }

    /// How many events of each file were read.
    pub(super) fn events_read(&self) -> impl Iterator<Item = u64> {
        self.sources.iter().map(|source| source.events)
    }

    /// Takes note of the next event of a source.
    async fn advance(&mut self, at: usize) -> Result<(), StoreError> {
        let source = &mut self.sources[at];
        while source.batch.as_slice().is_empty() {
            let Some(batch) = source.rows.next_batch().await? else {
                return Ok(());
            };
            source.events += batch.len() as u64;
            source.batch = batch.into_iter();
        }
        let next = &source.batch.as_slice()[0];
        self.next.push(Reverse((next.started_ns, next.id, at)));
        Ok(())
    }
}
