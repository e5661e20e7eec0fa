//! What maintenance is doing and what is left to do, for people and metrics.

use icecore_model::BucketStart;
use std::collections::{BTreeMap, BTreeSet};

use icecore_model::rollup::Resolution;
use icecore_records::Bucket;

use super::plan::CoarsenPlan;
use super::retention::{KeptBack, LargerPlan, RemnantPlan, RetentionSnapshot, RollUpPlan};
use super::skipped::Kind;
use super::task::PlanSnapshot;
use super::throughput::Workload;
use crate::buckets::list;
use crate::ingest::flush::QuarantinedHour;
use crate::maintenance::Maintenance;

/// The state of maintenance now, from memory alone.
pub(crate) fn status(maintenance: &Maintenance) -> MaintenanceStatus {
    // While a flush is under way its hours are not known here; they are left out a moment later.
    let frozen = maintenance.ingest.try_lock_flushes();
    let frozen = frozen.map(|frozen| frozen.keys().copied().collect());
    let frozen: BTreeSet<BucketStart> = frozen.unwrap_or_default();
    let retention = RetentionSnapshot::of(maintenance, frozen.clone(), false);
    let prospect = PlanSnapshot::of(maintenance, frozen, false);
    let waiting = prospect.map_or_else(Vec::new, |prospect| prospect.pieces());
    let roll_ups = retention.as_ref().map_or_else(Vec::new, |r| r.roll_ups());
    let merges = retention.as_ref().map_or(0, |r| r.merges().len());
    let larger = retention
        .as_ref()
        .map_or_else(Vec::new, |r| r.larger_buckets());
    let (remnants, mut kept_back) = retention.as_ref().map(|r| r.remnants()).unwrap_or_default();
    kept_back.extend(retention.map_or_else(Vec::new, |r| r.culls().1));
    let kept_back_count = kept_back.len();
    kept_back.truncate(KEPT_BACK_SHOWN);
    let now_ms = maintenance.context.clock.now_ms();
    let coarsened = waiting.iter().map(|piece| piece.target);
    let rolled_up = roll_ups.iter().map(|plan| plan.target);
    let lag_seconds = lag_seconds(coarsened.chain(rolled_up), now_ms);
    let levels = levels(maintenance, &roll_ups, now_ms);
    let mut running = maintenance.jobs.running();
    let waiting_seconds = waiting_seconds(
        maintenance,
        running.as_ref(),
        (&waiting, &larger),
        (&roll_ups, &remnants),
    );
    if let Some(job) = &mut running {
        job.remaining_seconds = maintenance.throughput.remaining(job);
    }
    // One after the other: others lock the retired ones before the list.
    let retired = maintenance.buckets.retired().len();
    let levels_now = maintenance.buckets.levels();
    let listed = levels_now.raw();
    let mut sizes: BTreeMap<u32, usize> = BTreeMap::new();
    for bucket in listed.iter().copied().chain(levels_now.remnants()) {
        *sizes.entry(1 << (bucket.size.exponent() - 1)).or_default() += 1;
    }
    let dirty = maintenance.buckets.recent().dirty(listed);
    let overlapping = list::overlaps(listed).len();
    drop(levels_now);
    MaintenanceStatus {
        enabled: maintenance.context.options.maintenance.enabled,
        paused: maintenance.jobs.paused(),
        running,
        run: maintenance.jobs.run(),
        waiting: waiting.len() + roll_ups.len() + larger.len() + remnants.len() + merges,
        waiting_seconds,
        lag_seconds,
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
        levels,
        kept_back: kept_back.into_iter().map(KeptBackBucket::from).collect(),
        kept_back_count,
        last_error: maintenance.jobs.last_error(),
    }
}

/// How long it will take to build what is planned, beside what is being built.
fn waiting_seconds(
    maintenance: &Maintenance,
    running: Option<&JobStatus>,
    (coarsen, larger): (&[CoarsenPlan], &[LargerPlan]),
    (roll_ups, remnants): (&[RollUpPlan], &[RemnantPlan]),
) -> Option<f64> {
    let levels = maintenance.buckets.levels();
    let coarsen = coarsen
        .iter()
        .map(|p| (Kind::Coarsen, p.target, &p.sources));
    let roll_ups = roll_ups
        .iter()
        .map(|p| (Kind::RollUp, p.target, &p.sources));
    let is_running = |kind: Kind, target: Bucket| {
        running.is_some_and(|job| {
            let span = (job.kind, job.start_ms, job.end_ms);
            span == (kind.name(), target.start_ms(), target.end_ms())
        })
    };
    let larger = larger.iter().map(|p| (Kind::Coarsen, p.target, &p.sources));
    let remnants = remnants
        .iter()
        .map(|p| (Kind::Remnant, p.target, &p.sources));
    let planned = coarsen.chain(larger).chain(roll_ups).chain(remnants);
    let planned = planned.filter(|(kind, target, _)| !is_running(*kind, *target));
    let workloads = planned.map(|(kind, _, sources)| Workload::new(kind, sources, levels.sizes()));
    let workloads: Vec<Workload> = workloads.collect();
    if workloads.is_empty() {
        return None;
    }
    maintenance.throughput.seconds(workloads)
}

/// Buckets that are shown one by one with why they are kept.
const KEPT_BACK_SHOWN: usize = 32;

/// How long the first of these windows to end has been closed.
fn lag_seconds(windows: impl Iterator<Item = Bucket>, now_ms: i64) -> f64 {
    let oldest_ms = windows.map(Bucket::end_ms).min();
    oldest_ms.map_or(0.0, |end_ms| (now_ms - end_ms).max(0) as f64 / 1e3)
}

/// The levels of the policy, and others of which there are buckets.
fn levels(maintenance: &Maintenance, roll_ups: &[RollUpPlan], now_ms: i64) -> Vec<LevelStatus> {
    let policy = maintenance.retention.policy();
    let watermarks_ms = maintenance.retention.watermarks_ms();
    let listed = maintenance.buckets.levels();
    let named = policy.iter().flat_map(|policy| policy.levels());
    let named = named.map(|level| level.resolution);
    let all: BTreeSet<Resolution> = named.chain(listed.resolutions()).collect();
    let status = all.into_iter().map(|resolution| {
        let level = listed.level(resolution).into_iter().flatten();
        let of_level = |plan: &&RollUpPlan| plan.resolution == resolution;
        let waiting: Vec<Bucket> = roll_ups.iter().filter(of_level).map(|p| p.target).collect();
        LevelStatus {
            resolution: resolution.name(),
            buckets: level.clone().count(),
            remnants: if resolution.is_raw() {
                listed.remnants().count()
            } else {
                0
            },
            out_of_date: level
                .clone()
                .filter(|bucket| listed.is_dirty(**bucket))
                .count(),
            out_of_date_hours: level
                .filter_map(|bucket| listed.facts(*bucket))
                .map(|facts| facts.dirty.len())
                .sum(),
            culled_before_ms: watermarks_ms.get(&resolution).copied(),
            waiting: waiting.len(),
            lag_seconds: lag_seconds(waiting.into_iter(), now_ms),
        }
    });
    status.collect()
}

/// The state of maintenance at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MaintenanceStatus {
    /// Whether this process coarsens by itself (`maintenance.enabled`).
    pub enabled: bool,
    /// Why work is waiting although there is some, for example because ingest needs the machine.
    pub paused: Option<String>,
    pub running: Option<JobStatus>,
    /// How far the run is that somebody asked for; `None` when there is none.
    pub run: Option<RunProgress>,
    /// Targets that are closed and not yet built.
    pub waiting: usize,
    /// How long building them will take, without the one that is under way; `None` if there is
    /// none, or nothing to base it on.
    pub waiting_seconds: Option<f64>,
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
    /// Finest first.
    pub levels: Vec<LevelStatus>,
    /// The first buckets that are kept for longer than the policy says, and how many there are.
    pub kept_back: Vec<KeptBackBucket>,
    pub kept_back_count: usize,
    /// The last failure, if nothing has succeeded since.
    pub last_error: Option<String>,
}

/// Raw samples, or the windows of one width.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LevelStatus {
    /// `raw`, `5m`, …
    pub resolution: &'static str,
    /// Buckets that are listed.
    pub buckets: usize,
    /// Beside them, buckets of series that are kept for longer than the others; only of raw ones.
    pub remnants: usize,
    /// Those of them that have to be made again.
    pub out_of_date: usize,
    /// Their hours that late samples or deletions have changed.
    pub out_of_date_hours: usize,
    /// Nothing older is left; `None` if nothing was culled.
    pub culled_before_ms: Option<i64>,
    /// Buckets that could be made now.
    pub waiting: usize,
    /// How long the oldest of them has been closed.
    pub lag_seconds: f64,
}

/// A bucket that is older than its level is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeptBackBucket {
    pub resolution: &'static str,
    pub start_ms: i64,
    pub end_ms: i64,
    pub reason: &'static str,
}

impl From<KeptBack> for KeptBackBucket {
    fn from(kept: KeptBack) -> Self {
        Self {
            resolution: kept.resolution.name(),
            start_ms: kept.bucket.start_ms(),
            end_ms: kept.bucket.end_ms(),
            reason: kept.reason,
        }
    }
}

/// A job that failed and is left alone for a while.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SkippedJob {
    /// `repair`, `coarsen`, `roll_up`, `merge_late`, `retire_outdated`, `remnant`, `cull`, `fold`
    /// or `clean`.
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
    /// `repair`, `coarsen`, `roll_up`, `merge_late`, `retire_outdated`, `remnant`, `cull`, `fold`
    /// or `clean`.
    pub kind: &'static str,
    pub start_ms: i64,
    pub end_ms: i64,
    pub sources: usize,
    /// `series`, `index`, `samples`, `commit`, `fold`, or `repair`.
    pub phase: &'static str,
    pub series_done: u64,
    pub series_total: u64,
    /// Bytes of values read and written so far.
    pub bytes_read: u64,
    pub bytes_written: u64,
    pub started_ms: i64,
    /// How long it will still take; `None` if there is nothing to base that on.
    pub remaining_seconds: Option<f64>,
}

/// How far a run is, in jobs. Some can only be planned when others are done: windows before the
/// culling of what they are made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunProgress {
    /// Jobs that have ended, failed ones included.
    pub done: usize,
    /// Jobs that can be done now, the one under way included. 0: the store is waited for.
    pub waiting: usize,
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
    pub repaired: usize,
    /// Buckets of windows built.
    pub rolled_up: usize,
    /// Buckets of late samples that were merged into windows.
    pub merged: usize,
    /// Buckets of series that are kept for longer than the others.
    pub remnants: usize,
    /// Buckets that were older than the policy keeps them.
    pub culled: usize,
    /// Metric families whose metadata went because they have no series any more.
    pub metadata_culled: usize,
    /// What failed and was left as it is.
    pub skipped: Vec<SkippedJob>,
    /// Bytes of values read and written.
    pub bytes_read: u64,
    pub bytes_written: u64,
    pub seconds: f64,
}
