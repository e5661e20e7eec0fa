//! What maintenance is doing and what is left to do, for people and metrics.

use icecore_model::BucketStart;
use std::collections::{BTreeMap, BTreeSet};

use super::task::PlanSnapshot;
use crate::buckets::list;
use crate::ingest::flush::QuarantinedHour;
use crate::maintenance::Maintenance;

/// The state of maintenance now, from memory alone.
pub(crate) fn status(maintenance: &Maintenance) -> MaintenanceStatus {
    // While a flush is under way its hours are not known here; they are left out a moment later.
    let frozen = maintenance.ingest.try_lock_flushes();
    let frozen = frozen.map(|frozen| frozen.keys().copied().collect());
    let frozen: BTreeSet<BucketStart> = frozen.unwrap_or_default();
    let prospect = PlanSnapshot::of(maintenance, frozen, false);
    let waiting = prospect.map_or_else(Vec::new, |prospect| prospect.pieces());
    let oldest_ms = waiting.iter().map(|piece| piece.target.end_ms()).min();
    let lag_ms = oldest_ms.map_or(0, |end_ms| maintenance.context.clock.now_ms() - end_ms);
    // One after the other: others lock the retired ones before the list.
    let retired = maintenance.buckets.retired().len();
    let listed = maintenance.buckets.listed();
    let mut sizes: BTreeMap<u32, usize> = BTreeMap::new();
    for bucket in listed.iter() {
        *sizes.entry(1 << (bucket.size.exponent() - 1)).or_default() += 1;
    }
    let dirty = maintenance.buckets.recent().dirty(&listed);
    let overlapping = list::overlaps(&listed).len();
    drop(listed);
    MaintenanceStatus {
        enabled: maintenance.context.options.maintenance.enabled,
        paused: maintenance.jobs.paused(),
        running: maintenance.jobs.running(),
        waiting: waiting.len(),
        lag_seconds: lag_ms.max(0) as f64 / 1e3,
        buckets: sizes
            .into_iter()
            .map(|(hours, count)| SizeCount { hours, count })
            .collect(),
        retired,
        dirty,
        tombstones: maintenance.buckets.tombstones().len(),
        quarantined: maintenance.ingest.quarantine().list(),
        overlapping,
        skipped: maintenance.skipped.list(),
        last_error: maintenance.jobs.last_error(),
    }
}

/// The state of maintenance at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MaintenanceStatus {
    /// Whether this process coarsens by itself (`maintenance.enabled`).
    pub enabled: bool,
    /// Why work is waiting although there is some, for example because ingest needs the machine.
    pub paused: Option<String>,
    pub running: Option<JobStatus>,
    /// Targets that are closed and not yet built.
    pub waiting: usize,
    /// How long the oldest of them has been closed.
    pub lag_seconds: f64,
    /// Buckets that are listed, by size.
    pub buckets: Vec<SizeCount>,
    /// Buckets that are retired and whose records are still to be dropped.
    pub retired: usize,
    /// Buckets with late samples that are not folded in yet.
    pub dirty: usize,
    /// Buckets that still hold something that was deleted.
    pub tombstones: usize,
    /// Hours that cannot be flushed, and why.
    pub quarantined: Vec<QuarantinedHour>,
    /// Buckets that lie inside another one and still have to join it.
    pub overlapping: usize,
    /// Jobs that failed and are left alone for a while, those that are tried next first.
    pub skipped: Vec<SkippedJob>,
    /// The last failure, if nothing has succeeded since.
    pub last_error: Option<String>,
}

/// A job that failed and is left alone for a while.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SkippedJob {
    /// `mend`, `coarsen`, `fold` or `clean`.
    pub kind: &'static str,
    /// Of the bucket that is written, or that joins a larger one.
    pub start_ms: i64,
    pub end_ms: i64,
    pub cause: String,
    /// How often it has failed in a row.
    pub failures: u32,
    pub next_try_ms: i64,
}

/// The job that is under way.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobStatus {
    /// `mend`, `coarsen`, `fold` or `clean`.
    pub kind: &'static str,
    pub start_ms: i64,
    pub end_ms: i64,
    pub sources: usize,
    /// `series`, `index`, `samples`, `commit`, `fold`, or `mend`.
    pub phase: &'static str,
    pub series_done: u64,
    pub series_total: u64,
    /// Bytes of values read and written so far.
    pub bytes_read: u64,
    pub bytes_written: u64,
    pub started_ms: i64,
}

/// How many buckets of a size are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeCount {
    pub hours: u32,
    pub count: usize,
}

/// What a run of maintenance did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MaintenanceReport {
    /// Buckets built.
    pub coarsened: usize,
    /// Buckets that they took the place of.
    pub retired: usize,
    /// Buckets whose late samples were folded in.
    pub folded: usize,
    /// Hours that cannot be flushed, and so were left as they are.
    pub quarantined: Vec<QuarantinedHour>,
    /// Buckets that joined a larger one around them.
    pub mended: usize,
    /// Buckets of windows built.
    pub rolled_up: usize,
    /// Buckets that were older than the policy keeps them.
    pub culled: usize,
    /// What failed and was left as it is.
    pub skipped: Vec<SkippedJob>,
    /// Bytes of values read and written.
    pub bytes_read: u64,
    pub bytes_written: u64,
    pub seconds: f64,
}
