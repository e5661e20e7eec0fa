//! Decides what SlateDB compacts: size-tiered as usual, but never the journal; segments that are no
//! longer wanted are drained, and some are joined into one run.
//!
//! ```text
//! propose ─► drains of the drain set (metadata only, done within the same poll)
//!        ├─► joins: segments of the join set, and coarse ones that are complete
//!        └─► size-tiered proposals of all other segments
//!                  at most LARGE_MAX large and SMALL_MAX small ones at once
//! ```
//!
//! Holds always:
//! - Journal segments are written once, read once after a crash and then drained: compacting them
//!   would only rewrite bytes.
//! - A segment stays in the set of drains after its drain, because rows that were still in a
//!   memtable are flushed later; the next poll drains those too.
//! - No drain or join is proposed while another job of the segment is active: the coordinator would
//!   refuse it and log an error at every poll.
//! - Small jobs do not wait for large ones. A job takes some polls (3 s) whatever its size, so that
//!   few at once would take minutes for the many small files that short-lived processes leave.
//!
//! The compactor asks for proposals only while fewer jobs run than `max_concurrent_compactions`.
//! Drains must not wait behind long compactions, so that limit is set well above the others, and
//! those are kept here.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use slatedb::Error;
use slatedb::compactor::{
    Compaction, CompactionRequest, CompactionScheduler, CompactionSchedulerSupplier,
    CompactionSpec, CompactionStatus, CompactorStateView, SizeTieredCompactionSchedulerSupplier,
    SourceId,
};
use slatedb::config::CompactorOptions;
use slatedb::manifest::Segment;

use super::joins::{is_coarse, is_growing, is_worth_joining, join_of, sources_of};
use super::segment_set::SegmentSet;
use super::tick_clock::TickClock;

/// Rewriting jobs at once: no more, because each holds several buffers of 2 MiB.
const LARGE_MAX: usize = 2;

/// Small rewriting jobs beside them, and what is small.
const SMALL_MAX: usize = 4;
const SMALL_BYTES: u64 = 4 << 20;

/// Rewriting jobs of any size.
pub(crate) const REWRITES_MAX: usize = LARGE_MAX + SMALL_MAX;

/// Jobs of any kind at once: room for drains beside the rewriting ones. All drains of a poll are
/// one change of the manifest, and a bucket has five segments: fewer would let replaced hours pile
/// up.
pub(crate) const JOBS_MAX: usize = 1024;

/// First byte after the version: record type in the high nibble.
const JOURNAL_TYPE: u8 = 0x0A;

/// Gives SlateDB our scheduler.
#[derive(Debug)]
pub(crate) struct SchedulerSupplier {
    /// Segments that are to disappear.
    pub(crate) drains: SegmentSet,
    /// Segments that somebody wants as one run.
    pub(crate) joins: SegmentSet,
    /// By which files are named.
    pub(crate) clock: Arc<TickClock>,
}

impl CompactionSchedulerSupplier for SchedulerSupplier {
    fn compaction_scheduler(
        &self,
        options: &CompactorOptions,
    ) -> Box<dyn CompactionScheduler + Send + Sync> {
        // The inner scheduler stops at its own limit, and journal segments with their many L0 files
        // come first in its order. With a small limit it would propose nothing but jobs that are
        // dropped here, so it may propose one for every segment and the limit is applied
        // afterwards.
        let unlimited = CompactorOptions {
            max_concurrent_compactions: usize::MAX,
            ..options.clone()
        };
        Box::new(Scheduler {
            tiered: SizeTieredCompactionSchedulerSupplier.compaction_scheduler(&unlimited),
            drains: self.drains.clone(),
            joins: self.joins.clone(),
            clock: Arc::clone(&self.clock),
        })
    }
}

struct Scheduler {
    tiered: Box<dyn CompactionScheduler + Send + Sync>,
    drains: SegmentSet,
    joins: SegmentSet,
    clock: Arc<TickClock>,
}

impl CompactionScheduler for Scheduler {
    fn propose(&self, state: &CompactorStateView) -> Vec<CompactionSpec> {
        let active = ActiveJobs::of(state);
        let idle = |segment: &&Segment| !active.segments.contains(segment.prefix());
        let segments = state.manifest().segments();
        let (drained, kept): (Vec<&Segment>, Vec<&Segment>) = segments
            .iter()
            .partition(|segment| self.drains.contains(segment.prefix()));
        let drained = drained.into_iter().filter(idle);
        let mut specs: Vec<CompactionSpec> = drained.filter_map(drain_of).collect();

        let tiered = self.tiered.propose(state);
        let mut fresh_run = fresh_run(state, &tiered);
        let now = self.clock.system_time();
        let mut joins = Vec::new();
        let wanted = |segment: &&Segment| self.joins.contains(segment.prefix());
        let complete = |segment: &&Segment| {
            is_coarse(segment.prefix()) && !is_growing(segment, now) && is_worth_joining(segment)
        };
        // First what somebody waits for.
        let (wanted, others): (Vec<&Segment>, Vec<&Segment>) =
            kept.iter().copied().filter(idle).partition(wanted);
        let complete = others.into_iter().filter(complete);
        for segment in wanted.into_iter().chain(complete) {
            if let Some(join) = join_of(segment, fresh_run) {
                fresh_run = fresh_run.saturating_add(1);
                joins.push(join);
            }
        }
        let joined: HashSet<&Bytes> = joins.iter().map(CompactionSpec::segment).collect();
        let growing: HashSet<&Bytes> = kept
            .iter()
            .filter(|segment| is_coarse(segment.prefix()) && is_growing(segment, now))
            .map(|segment| segment.prefix())
            .collect();
        let tiered: Vec<CompactionSpec> = tiered
            .into_iter()
            .filter(|spec| !is_journal(spec.segment()))
            .filter(|spec| !self.drains.contains(spec.segment()))
            .filter(|spec| !joined.contains(spec.segment()) && !growing.contains(spec.segment()))
            .collect();
        let mut room = active.room;
        specs.extend(
            joins
                .into_iter()
                .chain(tiered)
                .filter(|spec| room.take(bytes_of(state, spec))),
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
    room: Room,
}

impl ActiveJobs {
    fn of(state: &CompactorStateView) -> Self {
        let mut jobs = Self {
            segments: HashSet::new(),
            room: Room {
                large: LARGE_MAX,
                small: SMALL_MAX,
            },
        };
        for compaction in active(state) {
            jobs.segments.insert(compaction.spec().segment().clone());
            // One that is only waiting for its commit occupies no worker any more.
            let occupies_worker = compaction.status() != CompactionStatus::Compacted;
            if occupies_worker && !compaction.spec().is_drain() {
                jobs.room.take(bytes_of(state, compaction.spec()));
            }
        }
        jobs
    }
}

/// How many more rewriting jobs there may be.
struct Room {
    large: usize,
    small: usize,
}

impl Room {
    /// Takes the place of a job that reads so many bytes; false when there is none.
    fn take(&mut self, bytes: u64) -> bool {
        let places = if bytes <= SMALL_BYTES {
            &mut self.small
        } else {
            &mut self.large
        };
        let free = *places > 0;
        *places = places.saturating_sub(1);
        free
    }
}

fn active(state: &CompactorStateView) -> impl Iterator<Item = &Compaction> {
    let compactions = state.compactions().into_iter();
    compactions
        .flat_map(|compactions| compactions.recent_compactions())
        .filter(|compaction| compaction.active())
}

/// Bytes that a job reads.
fn bytes_of(state: &CompactorStateView, spec: &CompactionSpec) -> u64 {
    let Some(segment) = state.manifest().segment(spec.segment()) else {
        return 0;
    };
    let fresh = segment.l0().iter();
    let fresh = fresh.map(|view| (SourceId::SstView(view.id), view.estimate_size()));
    let runs = segment.compacted().iter();
    let runs = runs.map(|run| (SourceId::SortedRun(run.id), run.estimate_size()));
    let read = fresh
        .chain(runs)
        .filter(|(source, _)| spec.sources().contains(source));
    read.map(|(_, bytes)| bytes).sum()
}

/// A number for a run that nothing has: not in any segment, not in a job, not in a proposal.
fn fresh_run(state: &CompactorStateView, proposed: &[CompactionSpec]) -> u32 {
    let manifest = state.manifest();
    let segments = manifest.segments().iter().flat_map(Segment::compacted);
    let stored = manifest
        .compacted()
        .iter()
        .chain(segments)
        .map(|run| run.id);
    let under_way = active(state).filter_map(|compaction| compaction.spec().destination());
    let proposed = proposed.iter().filter_map(CompactionSpec::destination);
    let highest = stored.chain(under_way).chain(proposed).max();
    highest.map_or(0, |run| run.saturating_add(1))
}

/// A drain of everything the segment holds now; `None` when it is empty already.
fn drain_of(segment: &Segment) -> Option<CompactionSpec> {
    let sources = sources_of(segment);
    (!sources.is_empty()).then(|| CompactionSpec::drain_segment(segment.prefix().clone(), sources))
}

pub(super) fn is_journal(segment: &[u8]) -> bool {
    segment.get(1).is_some_and(|tag| tag >> 4 == JOURNAL_TYPE)
}
