//! Segments that are rewritten into one sorted run, beside what size-tiered compaction does.
//!
//! Size-tiered compaction begins at four files. What a job has written once may be three, which
//! then stay as the memtables left them: quickly compressed, and each with rows that a later one
//! replaces.
//!
//! Holds always:
//! - A join takes neighbouring sources and keeps their order, as every compaction must.
//! - A coarse segment that is still being written is left alone: it would be rewritten again.
//! - A few late rows do not make a large run be rewritten; a tiny file alone stays as it is.

use std::time::{Duration, SystemTime};

use slatedb::compactor::{CompactionSpec, SourceId};
use slatedb::manifest::Segment;

/// Sources of one job: each has read-ahead buffers of 2 MiB.
const SOURCES_MAX: usize = 16;

/// How long a coarse segment has no new file before it is taken to be complete. A job writes a file
/// each few seconds.
const QUIET: Duration = Duration::from_secs(60);

/// Fresh files are joined with their run once they are this part of it: it bounds how often the
/// same bytes are rewritten.
const FRESH_PART: u64 = 4;

/// Below this a file that is the only one of its segment is left as it is: a job, and two manifests
/// for it, would cost more than a better codec saves. A wide backfill of few series makes thousands
/// of them.
const ALONE_BYTES: u64 = 16 << 10;

/// All that a segment consists of, newest first.
pub(super) fn sources_of(segment: &Segment) -> Vec<SourceId> {
    let fresh = segment.l0().iter().map(|view| SourceId::SstView(view.id));
    let runs = segment.compacted().iter();
    fresh
        .chain(runs.map(|run| SourceId::SortedRun(run.id)))
        .collect()
}

/// Whether there is nothing to gain from a join.
pub(super) fn is_joined(segment: &Segment) -> bool {
    match (
        segment.l0().front(),
        segment.l0().len(),
        segment.compacted().len(),
    ) {
        (None, _, runs) => runs <= 1,
        (Some(only), 1, 0) => only.estimate_size() < ALONE_BYTES,
        _ => false,
    }
}

/// The next step towards one run. `fresh_run` is a number that no run has; it is used when no run
/// is among the sources.
pub(super) fn join_of(segment: &Segment, fresh_run: u32) -> Option<CompactionSpec> {
    if is_joined(segment) {
        return None;
    }
    let all = sources_of(segment);
    let fresh = segment.l0().len();
    let sources = if all.len() <= SOURCES_MAX {
        &all[..]
    } else if fresh > 1 {
        &all[fresh.saturating_sub(SOURCES_MAX)..fresh]
    } else {
        &all[all.len() - SOURCES_MAX..]
    };
    let oldest_run = match sources.last() {
        Some(SourceId::SortedRun(run)) => *run,
        _ => fresh_run,
    };
    let prefix = segment.prefix().clone();
    Some(CompactionSpec::for_segment(
        prefix,
        sources.to_vec(),
        oldest_run,
    ))
}

/// Whether a segment belongs to a bucket that a job makes, not a flush.
pub(super) fn is_coarse(prefix: &[u8]) -> bool {
    prefix
        .get(1)
        .is_some_and(|tag| (0x2..=0x9).contains(&(tag >> 4)) && tag & 0xF > 1)
}

/// Whether a coarse segment is being written to, as it seems.
pub(super) fn is_growing(segment: &Segment, now: SystemTime) -> bool {
    // One that another writer has made a moment ago may be a little ahead.
    let age = |made: SystemTime| now.duration_since(made).unwrap_or_default();
    segment.l0().len() < SOURCES_MAX
        && segment
            .l0()
            .iter()
            .any(|view| age(view.id.datetime()) < QUIET)
}

/// Whether a coarse segment has enough fresh files to be worth a join.
pub(super) fn is_worth_joining(segment: &Segment) -> bool {
    let fresh: u64 = segment.l0().iter().map(|view| view.estimate_size()).sum();
    let runs = segment.compacted().iter();
    let runs: u64 = runs.map(|run| run.estimate_size()).sum();
    !is_joined(segment) && fresh.saturating_mul(FRESH_PART) >= runs
}
