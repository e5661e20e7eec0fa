//! A request after the CPU work on it: a block of the journal, and what it adds.
//!
//! Made as if nothing in it had been stored before, which is nearly always so; where it was not,
//! the block is made again of what remains.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use icecore_model::StoreError;
use icecore_model::event::{IdentityKey, Week};

use super::Engine;
use super::accept::{Groups, Judgement, unavailable};
use super::fold::fold;
use super::fold_plan::FoldPlan;
use super::memory::FoldedBlock;
use super::publish::Quarantined;
use super::tail::BlockSummary;
use crate::{Problem, StoredEvent, decode_events, encode_events};

const DAY_MS: i64 = 86_400_000;

/// Returns the day of a time in milliseconds.
pub(super) fn day_of(ms: i64) -> i64 {
    ms.div_euclid(DAY_MS)
}

/// What events are prepared with.
#[derive(Clone)]
pub(super) struct Preparing {
    pub(super) registry_version: u64,
    pub(super) plan: Arc<FoldPlan>,
    pub(super) max_future_ns: i64,
    /// The day on which the events come, by the guarded clock.
    pub(super) day: i64,
}

pub(super) struct PreparedBlock {
    pub(super) events: Groups,
    pub(super) block: FoldedBlock,
}

impl Preparing {
    /// Prepares events in groups: of each envelope the event itself, then those nested in it. All
    /// have a registered type.
    pub(super) fn prepare(
        &self,
        events: &[StoredEvent<'_>],
        groups: Vec<Range<usize>>,
    ) -> PreparedBlock {
        let block = Bytes::from(encode_events(self.registry_version, events.iter()));
        let block = self.fold(block, events, Vec::new());
        let events = Groups {
            identities: block.identities.clone(),
            groups,
        };
        PreparedBlock { events, block }
    }

    /// What a block adds with those of its events that count.
    pub(super) fn fold(
        &self,
        block: Bytes,
        events: &[StoredEvent<'_>],
        void: Vec<u32>,
    ) -> FoldedBlock {
        let identities = events.iter().map(|event| self.identity(event));
        FoldedBlock {
            block,
            identities: identities.collect(),
            void,
            summary: BlockSummary::of(events),
            folded: fold(&self.plan, events, self.max_future_ns),
            day: self.day,
        }
    }

    pub(super) fn identity(&self, event: &StoredEvent<'_>) -> IdentityKey {
        let plan = self.plan.of(&event.service, &event.event_type);
        IdentityKey {
            week: Week::of(event.started_ns.div_euclid(1_000_000_000)),
            service: plan.map_or(0, |plan| plan.service),
            event: event.id,
        }
    }

    /// The same block with new events only.
    fn without_repeats(
        &self,
        block: &FoldedBlock,
        is_new: &[bool],
    ) -> Result<FoldedBlock, StoreError> {
        let (_, mut events) = decode_events(&block.block).map_err(StoreError::from_block)?;
        let mut is_new = is_new.iter();
        events.retain(|_| is_new.next().is_some_and(|is_new| *is_new));
        let block = Bytes::from(encode_events(self.registry_version, events.iter()));
        Ok(self.fold(block, &events, Vec::new()))
    }
}

/// What a block that cannot be read is to those who asked for it.
pub(super) trait FromBlockError {
    fn from_block(error: crate::BlockError) -> Self;
}

impl FromBlockError for StoreError {
    fn from_block(error: crate::BlockError) -> Self {
        Self(error.to_string())
    }
}

impl Engine {
    /// Stores what is new of a prepared request, and lists what was nested in it and is not known.
    /// Returns for each envelope whether it was stored before: such a one changes nothing.
    pub(super) async fn store_prepared(
        self: &Arc<Self>,
        preparing: Preparing,
        prepared: PreparedBlock,
        mut quarantine: Vec<Quarantined>,
    ) -> Result<Vec<bool>, Problem> {
        let PreparedBlock { events, block } = prepared;
        let (judgement, reservation) = self.reserve(&events).await?;
        let Judgement {
            is_new,
            is_duplicate,
        } = judgement;
        let is_repeat = |group: usize| is_duplicate.get(group) == Some(&true);
        quarantine.retain(|quarantined| !quarantined.group.is_some_and(is_repeat));
        // Before the block: an envelope that is stored is a repeat from then on, and what could not
        // be listed would be lost.
        self.add_to_quarantine(quarantine).await?;
        if is_new.iter().any(|is_new| *is_new) {
            let block = if is_new.iter().all(|is_new| *is_new) {
                block
            } else {
                let remaining = on_cpu(move || preparing.without_repeats(&block, &is_new)).await;
                remaining.and_then(|block| block).map_err(unavailable)?
            };
            self.store_block(block).await?;
        }
        drop(reservation);
        Ok(is_duplicate)
    }
}

/// Runs CPU work on a thread of its own.
pub(super) async fn on_cpu<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, StoreError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| StoreError(format!("a task has failed: {error}")))
}
