//! Decides what SlateDB compacts: size-tiered as usual, but never the journal, and segments that
//! are no longer wanted are drained.
//!
//! ```text
//! propose ─► drains of DrainSet (metadata only, done within the same poll)
//!        └─► size-tiered proposals of all other segments, at most TIERED_MAX at once
//! ```
//!
//! Holds always:
//! - Journal segments are written once, read once after a crash and then drained: compacting them
//!   would only rewrite bytes.
//! - A segment stays in the set after its drain, because rows that were still in a memtable are
//!   flushed later; the next poll drains those too.
//! - No drain is proposed while another job of the segment is active: the coordinator would refuse
//!   it and log an error at every poll.
//!
//! The compactor asks for proposals only while fewer jobs run than `max_concurrent_compactions`.
//! Drains must not wait behind long compactions, so that limit is set well above `TIERED_MAX` and
//! the limit on rewriting jobs is kept here.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use slatedb::Error;
use slatedb::compactor::{
    CompactionRequest, CompactionScheduler, CompactionSchedulerSupplier, CompactionSpec,
    CompactionStatus, CompactorStateView, SizeTieredCompactionSchedulerSupplier, SourceId,
};
use slatedb::config::CompactorOptions;
use slatedb::manifest::Segment;

/// Rewriting jobs at once. Two, so that one large job cannot hold back the small ones that keep the
/// number of L0 files down, and no more, because each holds several buffers of 2 MiB.
pub(crate) const TIERED_MAX: usize = 2;

/// Jobs of any kind at once: room for drains beside the rewriting ones.
pub(crate) const JOBS_MAX: usize = 64;

/// First byte after the version: record type in the high nibble.
const JOURNAL_TYPE: u8 = 0x0A;

/// Segments that are to disappear, shared between the engine and the compactor.
#[derive(Clone, Debug, Default)]
pub(crate) struct DrainSet(Arc<Mutex<BTreeSet<Bytes>>>);

impl DrainSet {
    pub(crate) fn insert(&self, prefix: Bytes) {
        self.0.lock().insert(prefix);
    }

    pub(crate) fn remove(&self, prefix: &[u8]) {
        self.0.lock().remove(prefix);
    }

    pub(crate) fn contains(&self, prefix: &[u8]) -> bool {
        self.0.lock().contains(prefix)
    }

    /// Forgets segments of which nothing is left.
    pub(crate) fn retain(&self, keep: impl Fn(&Bytes) -> bool) {
        self.0.lock().retain(|prefix| keep(prefix));
    }
}

/// Gives SlateDB our scheduler.
#[derive(Debug)]
pub(crate) struct SchedulerSupplier {
    pub(crate) drains: DrainSet,
}

impl CompactionSchedulerSupplier for SchedulerSupplier {
    fn compaction_scheduler(
        &self,
        options: &CompactorOptions,
    ) -> Box<dyn CompactionScheduler + Send + Sync> {
        // The inner scheduler stops at its own limit, and journal segments with their many L0 files
        // come first in its order. With a small limit it would propose nothing but jobs that are
        // dropped here, so it may propose one for every segment and the limit is applied afterwards.
        let unlimited = CompactorOptions {
            max_concurrent_compactions: usize::MAX,
            ..options.clone()
        };
        Box::new(Scheduler {
            tiered: SizeTieredCompactionSchedulerSupplier.compaction_scheduler(&unlimited),
            drains: self.drains.clone(),
        })
    }
}

struct Scheduler {
    tiered: Box<dyn CompactionScheduler + Send + Sync>,
    drains: DrainSet,
}

impl CompactionScheduler for Scheduler {
    fn propose(&self, state: &CompactorStateView) -> Vec<CompactionSpec> {
        let active = ActiveJobs::of(state);
        let mut specs: Vec<CompactionSpec> = state
            .manifest()
            .segments()
            .iter()
            .filter(|segment| self.drains.contains(segment.prefix()))
            .filter(|segment| !active.segments.contains(segment.prefix()))
            .filter_map(drain_of)
            .collect();
        let room = TIERED_MAX.saturating_sub(active.tiered);
        specs.extend(
            self.tiered
                .propose(state)
                .into_iter()
                .filter(|spec| !is_journal(spec.segment()))
                .filter(|spec| !self.drains.contains(spec.segment()))
                .take(room),
        );
        specs
    }

    fn validate(&self, state: &CompactorStateView, spec: &CompactionSpec) -> Result<(), Error> {
        self.tiered.validate(state, spec)
    }

    fn generate(
        &self,
        state: &CompactorStateView,
        request: &CompactionRequest,
    ) -> Result<Vec<CompactionSpec>, Error> {
        self.tiered.generate(state, request)
    }
}

/// What the compactor has under way.
struct ActiveJobs {
    segments: HashSet<Bytes>,
    /// Rewriting jobs that still occupy a worker; one that is only waiting for its commit does not.
    tiered: usize,
}

impl ActiveJobs {
    fn of(state: &CompactorStateView) -> Self {
        let mut jobs = Self {
            segments: HashSet::new(),
            tiered: 0,
        };
        let recent = state
            .compactions()
            .into_iter()
            .flat_map(|compactions| compactions.recent_compactions());
        for compaction in recent.filter(|compaction| compaction.active()) {
            jobs.segments.insert(compaction.spec().segment().clone());
            let occupies_worker = compaction.status() != CompactionStatus::Compacted;
            if occupies_worker && !compaction.spec().is_drain() {
                jobs.tiered += 1;
            }
        }
        jobs
    }
}

/// A drain of everything the segment holds now; `None` when it is empty already.
fn drain_of(segment: &Segment) -> Option<CompactionSpec> {
    let sources: Vec<SourceId> = segment
        .l0()
        .iter()
        .map(|view| SourceId::SstView(view.id))
        .chain(
            segment
                .compacted()
                .iter()
                .map(|run| SourceId::SortedRun(run.id)),
        )
        .collect();
    (!sources.is_empty()).then(|| CompactionSpec::drain_segment(segment.prefix().clone(), sources))
}

fn is_journal(segment: &[u8]) -> bool {
    segment.get(1).is_some_and(|tag| tag >> 4 == JOURNAL_TYPE)
}
