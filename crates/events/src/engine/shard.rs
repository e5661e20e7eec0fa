//! The shard of another instance: what it has flushed, as a view.
//!
//! ```text
//! snapshot of its database ─┬ cells up to its flush mark
//!                           ├ files, and blocks of its journal from the last file to that mark
//!                           └ registry, read again when its version has changed
//! ```
//!
//! Holds always:
//! - Cells and events of a view are those that the shard's flush mark covers: each event once.
//! - Blocks are read from the journal once, and kept until they are in a file. They take no more
//!   memory than events on their way into this process may.

use std::sync::Arc;

use bytes::Bytes;
use icecore_model::event::{EventShard, EventSnapshot, EventStore};
use icecore_model::{Clock, StoreError};
use tokio::sync::Mutex;

use super::file_list::all_records;
use super::prepared::FromBlockError;
use super::recover::read_void;
use super::tail::{BlockSummary, TailBlock, retain_effective};
use super::view::{EventsView, ViewState};
use super::void_events::{VoidBlock, VoidEvents};
use crate::{FileFormat, Problem, Registry, decode_events, registry_keys};

/// The events of another instance.
pub(crate) struct Shard {
    shard: Arc<dyn EventShard>,
    format: Arc<dyn FileFormat>,
    clock: Arc<dyn Clock>,
    /// Of the own instance, for its guarded time.
    own: Arc<dyn EventStore>,
    tail_bytes_max: usize,
    kept: Mutex<Kept>,
}

/// What is not read again for each view.
#[derive(Default)]
struct Kept {
    registry: Option<Arc<Registry>>,
    tail: KeptTail,
}

/// Blocks after one that is in a file, up to one that is in cells.
#[derive(Default)]
struct KeptTail {
    after: u64,
    up_to: u64,
    blocks: Vec<Arc<TailBlock>>,
}

impl Shard {
    pub(crate) fn new(
        shard: Arc<dyn EventShard>,
        format: Arc<dyn FileFormat>,
        clock: Arc<dyn Clock>,
        own: Arc<dyn EventStore>,
        tail_bytes_max: usize,
    ) -> Self {
        Self {
            shard,
            format,
            clock,
            own,
            tail_bytes_max,
            kept: Mutex::default(),
        }
    }

    pub(crate) fn name(&self) -> &str {
        self.shard.name()
    }

    /// What the shard has now, with events that are in no file yet or without them.
    pub(crate) async fn view(&self, with_tail: bool) -> Result<EventsView, Problem> {
        let view = self.try_view(with_tail).await;
        view.map_err(|cause| unavailable(self.name(), &cause.0))
    }

    #[cfg(test)]
    pub(crate) async fn kept_blocks(&self) -> usize {
        self.kept.lock().await.tail.blocks.len()
    }

    async fn try_view(&self, with_tail: bool) -> Result<EventsView, StoreError> {
        let snapshot = self.shard.snapshot().await?;
        let mut kept = self.kept.lock().await;
        let registry = kept.registry(&*snapshot).await?;
        let tail = if with_tail {
            kept.tail.follow(&*snapshot, self.tail_bytes_max).await?;
            kept.tail.blocks.clone()
        } else {
            Vec::new()
        };
        let shard = Arc::clone(&self.shard);
        Ok(EventsView::new(ViewState {
            registry,
            now_ms: self.clock.now_ms(),
            // What either instance takes for too old: the other one may have dropped it. A clock of
            // the other one that is ahead of this machine's hides nothing.
            guarded_ms: {
                let theirs = snapshot.guarded_ms().min(self.clock.now_ms());
                self.own.guarded_ms().max(theirs)
            },
            read_file: Arc::new(move |path, range| {
                let shard = Arc::clone(&shard);
                Box::pin(async move {
                    let read = shard.read_file(&path, range).await;
                    read.map_err(|cause| StoreError(format!("{}: {cause}", shard.name())))
                })
            }),
            format: Arc::clone(&self.format),
            snapshot,
            generations: Vec::new(),
            tail,
        }))
    }
}

/// A shard that cannot be read.
pub(crate) fn unavailable(name: &str, detail: &str) -> Problem {
    let detail = format!("the shard {name} cannot be read: {detail}");
    Problem::new(503, "query.shard-unavailable", detail)
}

impl Kept {
    async fn registry(
        &mut self,
        snapshot: &dyn EventSnapshot,
    ) -> Result<Arc<Registry>, StoreError> {
        let version = snapshot.mark().registry_version;
        if let Some(known) = self.registry.as_ref().filter(|r| r.version == version) {
            return Ok(Arc::clone(known));
        }
        let records = all_records(snapshot, registry_keys()).await?;
        let registry = Arc::new(Registry::from_records(records)?);
        self.registry = Some(Arc::clone(&registry));
        Ok(registry)
    }
}

impl KeptTail {
    /// Makes this the tail of a snapshot.
    async fn follow(
        &mut self,
        snapshot: &dyn EventSnapshot,
        bytes_max: usize,
    ) -> Result<(), StoreError> {
        let (sealed, flushed) = (snapshot.sealed(), snapshot.mark().seq);
        if sealed < self.after || flushed < self.up_to {
            // An older state, or another database in its place.
            *self = Self::default();
        }
        self.blocks.retain(|block| block.seq() > sealed);
        self.after = sealed;
        self.up_to = self.up_to.max(sealed);
        if flushed <= self.up_to {
            return Ok(());
        }
        let held: usize = self.blocks.iter().map(|block| block.bytes()).sum();
        let room = bytes_max.saturating_sub(held);
        let blocks = snapshot.blocks(self.up_to, flushed, room).await?;
        let void = read_void(snapshot).await?.unwrap_or_default();
        let read = tokio::task::spawn_blocking(move || tail_blocks(blocks, &void));
        let read = read.await;
        let read = read.map_err(|error| StoreError(format!("reading blocks: {error}")))??;
        self.blocks.extend(read);
        self.up_to = flushed;
        Ok(())
    }
}

/// Blocks without what is void in them. CPU work.
fn tail_blocks(
    blocks: Vec<(u64, Bytes)>,
    void: &VoidEvents,
) -> Result<Vec<Arc<TailBlock>>, StoreError> {
    let mut found = Vec::with_capacity(blocks.len());
    for (seq, block) in blocks {
        let positions = match void.of(seq) {
            Some(VoidBlock::All) => continue,
            Some(VoidBlock::Some(positions)) => positions.clone(),
            None => Vec::new(),
        };
        let (_, mut events) = decode_events(&block).map_err(StoreError::from_block)?;
        retain_effective(&mut events, &positions);
        let summary = BlockSummary::of(&events);
        drop(events);
        found.push(Arc::new(TailBlock::new(seq, block, positions, summary)));
    }
    Ok(found)
}
