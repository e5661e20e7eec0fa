//! The task that does the jobs: repairing, coarsening, folding, dropping what was replaced,
//! sweeping.
//!
//! ```text
//! requested run  flush ─► repair, coarsen until nothing is left ─► fold, clean ─► drop ─► garbage
//! by itself      drop retired ─► repair or coarsen a window, else fold or clean a bucket ─► repeat
//! ```
//!
//! Holds always:
//! - One job at a time, beside the flushes and never in their way: what a job holds back is due
//!   again when it ends, and a job ends when the head needs the room.
//! - A job that fails is logged, shown in the status and tried again later; the others go on. A run
//!   tries each once and reports those that failed.
//! - Jobs end at their next yield point when the database closes.
//! - Planning is done on the pool, on a copy that was taken under the flush lock.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use icecore_model::BucketStart;
use icecore_records::Bucket;
use tokio::time::Instant;
use tracing::{info, warn};

use super::build::{
    Outcome, build_remnant, clean_bucket, coarsen, coarsen_windows, fold, load_dirty, merge_late,
    repair, roll_up, stored_job,
};
use super::garbage::collect_garbage;
use super::pace::Watch;
use super::plan::{self, CoarsenPlan, PlanInput};
use super::retention::RetentionSnapshot;
use super::retention::{CullPlan, LargerPlan, MergePlan, RemnantPlan, RollUpPlan};
use super::retention::{cull, cull_metadata, retire_outdated, tell_what_is_too_old};
use super::retire::drop_retired;
use super::skipped::{Kind, is_of_the_job};
use super::snapshots;
use super::status::{JobStatus, MaintenanceReport, RunProgress, SkippedJob};
use super::sweep::sweep;
use super::throughput::Workload;
use crate::buckets::Recent;
use crate::buckets::ladder;
use crate::buckets::list::{self, Overlap};
use crate::error::{Error, Result};
use crate::ingest;
use crate::maintenance::Maintenance;
use crate::metrics::JobMetrics;

/// How often it is looked for work.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// How long after a failure it is tried again.
const TRY_AGAIN: Duration = Duration::from_secs(15);

/// How long after a plan turned out to be old a new one is made: a flush or deletion is under way.
const PLAN_AGAIN: Duration = Duration::from_millis(100);

/// How often orphans, and metadata of metrics that are gone, are looked for beside at start-up.
const SWEEP_EVERY: Duration = Duration::from_secs(24 * 3600);

/// How long a run waits for the store to come to rest. What is left then follows by itself.
const GARBAGE_PATIENCE: Duration = Duration::from_secs(300);

/// Bytes of manifests and of the log that a run waits for. What is less goes with the next
/// collection.
const LOG_BYTES: u64 = 4 << 20;

/// How often a run starts jobs again that had to give way to the head, or that were planned from
/// what has changed since.
const AGAIN_MAX: usize = 64;

/// A job that can be done now.
#[derive(Clone, Debug)]
enum Job {
    Repair(Overlap),
    Coarsen(CoarsenPlan),
    RollUp(RollUpPlan),
    /// Late samples, to be merged into windows.
    Merge(MergePlan),
    CoarsenWindows(LargerPlan),
    /// Windows that are out of date, to be made again.
    Outdated(Bucket),
    /// Raw samples of some series, and the cull of the others.
    Remnant(RemnantPlan),
    Cull(CullPlan),
    Fold(Bucket),
    Clean(Bucket),
}

/// How a job ended.
enum JobOutcome {
    Done,
    /// The head needed what it held back, or it has to be planned again.
    Retry(RetryWhen, Error),
    /// It failed and is left alone for a while.
    Skipped(SkippedJob),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RetryWhen {
    Later,
    AtOnce,
}

impl Job {
    fn kind(&self) -> Kind {
        match self {
            Self::Repair(_) => Kind::Repair,
            Self::Coarsen(_) | Self::CoarsenWindows(_) => Kind::Coarsen,
            Self::RollUp(_) => Kind::RollUp,
            Self::Merge(_) => Kind::Merge,
            Self::Outdated(_) => Kind::Outdated,
            Self::Remnant(_) => Kind::Remnant,
            Self::Cull(_) => Kind::Cull,
            Self::Fold(_) => Kind::Fold,
            Self::Clean(_) => Kind::Clean,
        }
    }

    /// What it is known by when it fails.
    fn bucket(&self) -> Bucket {
        match self {
            Self::Repair(Overlap { inside, .. }) => *inside,
            Self::Coarsen(piece) => piece.target,
            Self::RollUp(plan) => plan.target,
            Self::Merge(plan) => plan.around,
            Self::CoarsenWindows(plan) => plan.target,
            Self::Remnant(plan) => plan.target,
            Self::Cull(plan) => plan.buckets[0],
            Self::Outdated(bucket) | Self::Fold(bucket) | Self::Clean(bucket) => *bucket,
        }
    }
}

/// Runs until it is told to stop.
pub(crate) async fn run(maintenance: Arc<Maintenance>) {
    let mut next_sweep = Instant::now();
    let mut known_dirty = false;
    let mut failing = false;
    while !maintenance.context.stop.is_stopped() && maintenance.ingest.journal().failed().is_none()
    {
        tell_what_is_too_old(&maintenance);
        if let Err(cause) = maintenance.retention.remember_clock().await {
            warn!(%cause, "cannot remember the clock of retention");
        }
        if let Err(cause) = snapshots::delete_expired(&maintenance).await {
            warn!(%cause, "cannot delete snapshots that have expired");
        }
        let asked = maintenance.jobs.begin_run();
        let done = if known_dirty {
            Ok(())
        } else {
            load_dirty(&maintenance).await
        };
        known_dirty = known_dirty || done.is_ok();
        if let Some(run) = asked {
            let ran = match done {
                Ok(()) => everything(&maintenance).await,
                Err(cause) => Err(cause),
            };
            maintenance.jobs.set_run(None);
            match &ran {
                Ok(report) => match report.skipped.last() {
                    Some(skipped) => maintenance.jobs.set_error(Some(skipped.cause.clone())),
                    None => maintenance.jobs.set_error(None),
                },
                Err(cause) => note_failure(&maintenance, cause),
            }
            run.answer(ran);
            continue;
        }
        let mut worked = done.map(|()| false);
        if worked.is_ok() && maintenance.context.options.maintenance.enabled {
            worked = by_itself(&maintenance, &mut next_sweep).await;
        }
        match &worked {
            // That there is nothing to do says that what failed before did not fail again.
            Ok(false) if failing && maintenance.skipped.list().is_empty() => {
                maintenance.jobs.set_error(None)
            }
            Ok(_) => {}
            Err(cause) => note_failure(&maintenance, cause),
        }
        failing = worked.is_err();
        let wait = match worked {
            Ok(true) => continue,
            Ok(false) => LOOK_EVERY,
            Err(_) => TRY_AGAIN,
        };
        tokio::select! {
            () = maintenance.context.stop.stopped() => {}
            () = maintenance.jobs.wake.notified() => {}
            () = tokio::time::sleep(wait) => {}
        }
    }
    maintenance.jobs.over();
    // A database that is lost to another process, or to its store, takes no more writes.
    if maintenance.context.stop.is_stopped()
        && let Err(cause) = maintenance.retention.remember_clock_at_end().await
    {
        warn!(%cause, "cannot remember the clock of retention");
    }
}

/// Shows a failure until something succeeds.
fn note_failure(maintenance: &Maintenance, cause: &Error) {
    if !maintenance.context.stop.is_stopped() {
        warn!(%cause, "maintenance failed: trying again");
        maintenance.jobs.set_error(Some(cause.to_string()));
    }
}

/// One step of what goes on without being asked for; whether there was something to do.
async fn by_itself(maintenance: &Arc<Maintenance>, next_sweep: &mut Instant) -> Result<bool> {
    if Instant::now() >= *next_sweep {
        sweep(maintenance).await?;
        cull_metadata(maintenance, &Watch::paced(maintenance)).await?;
        *next_sweep = Instant::now() + SWEEP_EVERY;
    }
    let grace = maintenance.context.options.maintenance.grace;
    unless_stopped(maintenance, drop_retired(maintenance, grace)).await?;
    maintenance
        .skipped
        .forget_gone(&maintenance.buckets.levels());
    let now_ms = maintenance.context.clock.now_ms();
    let may_run = |kind, bucket| maintenance.skipped.may_run(kind, bucket, now_ms);
    let Some(job) = next_job(maintenance, false, may_run).await? else {
        return Ok(false);
    };
    let watch = Watch::paced(maintenance);
    match run_job(maintenance, &job, false, &watch).await? {
        // What was held back is flushed by the next tick, and the window is quiet later.
        JobOutcome::Retry(RetryWhen::Later, _) => Ok(false),
        JobOutcome::Retry(RetryWhen::AtOnce, _) => {
            tokio::time::sleep(PLAN_AGAIN).await;
            Ok(true)
        }
        // A job that failed leaves the others to be done.
        JobOutcome::Done | JobOutcome::Skipped(_) => Ok(true),
    }
}

/// What to do next, among what `may_run`.
async fn next_job(
    maintenance: &Arc<Maintenance>,
    everything: bool,
    may_run: impl Fn(Kind, Bucket) -> bool,
) -> Result<Option<Job>> {
    let overlaps = list::overlaps(&maintenance.buckets.listed());
    let overlap = overlaps
        .into_iter()
        .find(|o| may_run(Kind::Repair, o.inside));
    if let Some(overlap) = overlap {
        return Ok(Some(Job::Repair(overlap)));
    }
    let wanted = |target| may_run(Kind::Coarsen, target);
    if let Some(piece) = next_piece(maintenance, everything, wanted).await? {
        return Ok(Some(Job::Coarsen(piece)));
    }
    if let Some(job) = next_of_retention(maintenance, everything, &may_run).await? {
        return Ok(Some(job));
    }
    let wanted = |bucket: &Bucket| may_run(Kind::Fold, *bucket);
    if let Some(bucket) = to_fold(maintenance, everything).into_iter().find(wanted) {
        return Ok(Some(Job::Fold(bucket)));
    }
    let wanted = |bucket: &Bucket| may_run(Kind::Clean, *bucket);
    let bucket = to_clean(maintenance, everything).into_iter().find(wanted);
    Ok(bucket.map(Job::Clean))
}

/// What the policy wants next: windows are made before anything goes.
async fn next_of_retention(
    maintenance: &Arc<Maintenance>,
    everything: bool,
    may_run: impl Fn(Kind, Bucket) -> bool,
) -> Result<Option<Job>> {
    let snapshot = {
        let frozen = maintenance.ingest.lock_flushes().await;
        let frozen: BTreeSet<BucketStart> = frozen.keys().copied().collect();
        RetentionSnapshot::of(maintenance, frozen, everything)
    };
    let Some(snapshot) = snapshot else {
        return Ok(None);
    };
    let plan = move || {
        let made = (snapshot.outdated(), snapshot.roll_ups());
        let larger = snapshot.larger_buckets();
        let going = (snapshot.remnants().0, snapshot.culls().0);
        (snapshot.merges(), made, going, larger)
    };
    let planned = maintenance.context.job_pool.run(plan).await?;
    let (merges, (outdated, mut roll_ups), (mut remnants, culls), larger) = planned;
    let may_merge = |plan: &MergePlan| may_run(Kind::Merge, plan.around);
    if let Some(plan) = merges.into_iter().find(may_merge) {
        return Ok(Some(Job::Merge(plan)));
    }
    let may_retire = |bucket: &Bucket| may_run(Kind::Outdated, *bucket);
    if let Some(bucket) = outdated.into_iter().find(may_retire) {
        return Ok(Some(Job::Outdated(bucket)));
    }
    roll_ups.retain(|plan| may_run(Kind::RollUp, plan.target));
    remnants.retain(|plan| may_run(Kind::Remnant, plan.target));
    if !roll_ups.is_empty() || !remnants.is_empty() {
        // One that was interrupted is gone on with before its kind; windows come first.
        let unfinished = stored_job(maintenance).await?.map(|job| job.target);
        if let Some(plan) = unfinished_or_first(roll_ups, unfinished, |plan| plan.target) {
            return Ok(Some(Job::RollUp(plan)));
        }
        let plan = unfinished_or_first(remnants, unfinished, |plan| plan.target);
        return Ok(plan.map(Job::Remnant));
    }
    let may_cull = |plan: &CullPlan| may_run(Kind::Cull, plan.buckets[0]);
    if let Some(plan) = culls.into_iter().find(may_cull) {
        return Ok(Some(Job::Cull(plan)));
    }
    let may_coarsen = |plan: &LargerPlan| may_run(Kind::Coarsen, plan.target);
    let plan = larger.into_iter().find(may_coarsen);
    Ok(plan.map(Job::CoarsenWindows))
}

/// How many jobs a run could do now, among what `may_run`.
async fn count_jobs(
    maintenance: &Arc<Maintenance>,
    may_run: impl Fn(Kind, Bucket) -> bool,
) -> Result<usize> {
    let (prospect, retention) = {
        let frozen = maintenance.ingest.lock_flushes().await;
        let frozen: BTreeSet<BucketStart> = frozen.keys().copied().collect();
        let retention = RetentionSnapshot::of(maintenance, frozen.clone(), true);
        (PlanSnapshot::of(maintenance, frozen, true), retention)
    };
    let plan = move || {
        let mut jobs: Vec<(Kind, Bucket)> = Vec::new();
        let pieces = prospect.map_or_else(Vec::new, |prospect| prospect.pieces());
        jobs.extend(pieces.iter().map(|plan| (Kind::Coarsen, plan.target)));
        if let Some(retention) = retention {
            let merges = retention.merges();
            jobs.extend(merges.iter().map(|plan| (Kind::Merge, plan.around)));
            let outdated = retention.outdated();
            jobs.extend(outdated.iter().map(|bucket| (Kind::Outdated, *bucket)));
            let roll_ups = retention.roll_ups();
            jobs.extend(roll_ups.iter().map(|plan| (Kind::RollUp, plan.target)));
            let (remnants, culls) = (retention.remnants().0, retention.culls().0);
            jobs.extend(remnants.iter().map(|plan| (Kind::Remnant, plan.target)));
            jobs.extend(culls.iter().map(|plan| (Kind::Cull, plan.buckets[0])));
            let larger = retention.larger_buckets();
            jobs.extend(larger.iter().map(|plan| (Kind::Coarsen, plan.target)));
        }
        jobs
    };
    let mut jobs = maintenance.context.job_pool.run(plan).await?;
    let overlaps = list::overlaps(&maintenance.buckets.listed());
    jobs.extend(
        overlaps
            .iter()
            .map(|overlap| (Kind::Repair, overlap.inside)),
    );
    let dirty = to_fold(maintenance, true);
    jobs.extend(dirty.into_iter().map(|bucket| (Kind::Fold, bucket)));
    let deleted = to_clean(maintenance, true);
    jobs.extend(deleted.into_iter().map(|bucket| (Kind::Clean, bucket)));
    let jobs = jobs
        .into_iter()
        .filter(|(kind, bucket)| may_run(*kind, *bucket));
    Ok(jobs.count())
}

/// Of plans the one of a job that was interrupted, else the first.
fn unfinished_or_first<P>(
    mut plans: Vec<P>,
    unfinished: Option<Bucket>,
    target: impl Fn(&P) -> Bucket,
) -> Option<P> {
    let resumed = plans.iter().position(|p| Some(target(p)) == unfinished);
    (!plans.is_empty()).then(|| plans.swap_remove(resumed.unwrap_or(0)))
}

/// Buckets with tombstones that nobody will rewrite for another reason, or all of them.
fn to_clean(maintenance: &Maintenance, everything: bool) -> Vec<Bucket> {
    let mut buckets = maintenance.buckets.tombstones().buckets();
    buckets.retain(|bucket| everything || bucket.size >= ladder::lasting());
    buckets
}

/// Does a job. Fails when others would fail in the same way.
async fn run_job(
    maintenance: &Arc<Maintenance>,
    job: &Job,
    everything: bool,
    watch: &Watch,
) -> Result<JobOutcome> {
    let (kind, bucket) = (job.kind(), job.bucket());
    let ended = match job {
        Job::Repair(overlap) => join_larger(maintenance, *overlap, watch).await,
        Job::Coarsen(piece) => build(maintenance, piece, watch).await,
        Job::RollUp(plan) => roll_up_bucket(maintenance, plan, watch).await,
        Job::Merge(plan) => {
            let _shown = RunningGuard::new(maintenance, kind, bucket, plan.overlays.len());
            merge_late(maintenance, plan, watch).await.map(drop)
        }
        Job::CoarsenWindows(plan) => build_larger(maintenance, plan, watch).await,
        Job::Outdated(bucket) => {
            let _shown = RunningGuard::new(maintenance, kind, *bucket, 1);
            retire_outdated(maintenance, *bucket, everything, watch).await
        }
        Job::Remnant(plan) => keep_longer(maintenance, plan, everything, watch).await,
        Job::Cull(plan) => {
            let _shown = RunningGuard::new(maintenance, kind, bucket, plan.buckets.len());
            let culled = cull(maintenance, plan, everything, watch).await;
            let metrics = &maintenance.context.metrics;
            culled.map(|buckets| metrics.culled_buckets.add(buckets as u64))
        }
        Job::Fold(bucket) => refresh(maintenance, *bucket, watch).await,
        Job::Clean(bucket) => {
            let _shown = RunningGuard::new(maintenance, kind, *bucket, 1);
            clean_bucket(maintenance, *bucket, watch).await
        }
    };
    match ended {
        Ok(()) => {
            maintenance.skipped.succeeded(kind, bucket);
            maintenance.jobs.set_error(None);
            Ok(JobOutcome::Done)
        }
        Err(cause) if watch.gave_way() => Ok(JobOutcome::Retry(RetryWhen::Later, cause)),
        Err(cause) if watch.is_stale() => Ok(JobOutcome::Retry(RetryWhen::AtOnce, cause)),
        Err(cause) if maintenance.context.stop.is_stopped() || !is_of_the_job(&cause) => Err(cause),
        Err(cause) => Ok(JobOutcome::Skipped(skip(maintenance, kind, bucket, &cause))),
    }
}

/// Leaves a job alone for a while.
fn skip(maintenance: &Maintenance, kind: Kind, bucket: Bucket, cause: &Error) -> SkippedJob {
    let now_ms = maintenance.context.clock.now_ms();
    let skipped = maintenance.skipped.failed(kind, bucket, cause, now_ms);
    let (kind, failures) = (kind.name(), skipped.failures);
    let seconds = (skipped.next_try_ms - now_ms) / 1000;
    warn!(
        kind, %bucket, %cause, failures, seconds,
        "maintenance job failed: skipping it for a while"
    );
    maintenance.jobs.set_error(Some(skipped.cause.clone()));
    skipped
}

/// Brings everything that is closed into its final form.
async fn everything(maintenance: &Arc<Maintenance>) -> Result<MaintenanceReport> {
    let started = std::time::Instant::now();
    let mut report = MaintenanceReport::default();
    ingest::flush_all(&maintenance.ingest).await?;
    maintenance
        .skipped
        .forget_gone(&maintenance.buckets.levels());
    // What failed, and what is done once: a bucket may be dirty again after a fold.
    let mut over: BTreeSet<(Kind, Bucket)> = BTreeSet::new();
    let mut again = 0;
    let mut done = 0;
    let mut drops_before_more = false;
    loop {
        let may_run = |kind: Kind, bucket: Bucket| !over.contains(&(kind, bucket));
        let waiting = count_jobs(maintenance, may_run).await?;
        maintenance
            .jobs
            .set_run(Some(RunProgress { done, waiting }));
        let job = next_job(maintenance, true, may_run).await?;
        let Some(job) = job else {
            // Windows that were out of date are made again once the old ones are gone.
            if std::mem::take(&mut drops_before_more) {
                let grace = grace_of_run(maintenance).await?;
                unless_stopped(maintenance, drop_retired(maintenance, grace)).await?;
                continue;
            }
            break;
        };
        let watch = Watch::unpaced(maintenance);
        let ended = run_job(maintenance, &job, true, &watch).await;
        report.add(&watch);
        let (kind, bucket) = (job.kind(), job.bucket());
        let ended = ended?;
        done += usize::from(!matches!(ended, JobOutcome::Retry(..)));
        match ended {
            JobOutcome::Done => {
                report.count(&job);
                if matches!(kind, Kind::Fold | Kind::Clean | Kind::Outdated) {
                    over.insert((kind, bucket));
                }
                drops_before_more |= kind == Kind::Outdated;
            }
            JobOutcome::Retry(when, _) if again < AGAIN_MAX => {
                again += 1;
                if when == RetryWhen::Later {
                    ingest::flush_due(&maintenance.ingest).await?;
                }
            }
            JobOutcome::Retry(_, cause) => {
                report.skipped.push(skip(maintenance, kind, bucket, &cause));
                over.insert((kind, bucket));
            }
            JobOutcome::Skipped(skipped) => {
                report.skipped.push(skipped);
                over.insert((kind, bucket));
            }
        }
    }
    sweep(maintenance).await?;
    report.metadata_culled = cull_metadata(maintenance, &Watch::unpaced(maintenance)).await?;
    unless_stopped(maintenance, rest(maintenance)).await?;
    report.quarantined = maintenance.ingest.quarantine().list();
    report.seconds = started.elapsed().as_secs_f64();
    info!(
        coarsened = report.coarsened,
        retired = report.retired,
        folded = report.folded,
        repaired = report.repaired,
        rolled_up = report.rolled_up,
        merged = report.merged,
        remnants = report.remnants,
        culled = report.culled,
        metadata_culled = report.metadata_culled,
        skipped = report.skipped.len(),
        bytes_read = report.bytes_read,
        bytes_written = report.bytes_written,
        seconds = report.seconds,
        "maintenance has run"
    );
    Ok(report)
}

/// How long retired buckets stay when somebody asks for everything: the grace time is for readers
/// in other programs.
async fn grace_of_run(maintenance: &Maintenance) -> Result<Duration> {
    if maintenance.context.engine.is_read_elsewhere().await? {
        Ok(maintenance.context.options.maintenance.grace)
    } else {
        Ok(Duration::ZERO)
    }
}

/// Waits until the store has let go of what was replaced.
async fn rest(maintenance: &Arc<Maintenance>) -> Result<()> {
    let grace = grace_of_run(maintenance).await?;
    while drop_retired(maintenance, grace).await? > 0 {}
    // What follows takes as long as SlateDB's compactor does.
    info!("compacting and collecting garbage");
    ingest::flush_and_drain(&maintenance.ingest).await?;
    let deadline = Instant::now() + GARBAGE_PATIENCE;
    collect_garbage(maintenance, deadline, LOG_BYTES)
        .await
        .map(drop)
}

/// Waiting for the compactor ends when the database closes. Only for what may be cut anywhere.
async fn unless_stopped<T>(
    maintenance: &Maintenance,
    work: impl Future<Output = Result<T>>,
) -> Result<T> {
    tokio::select! {
        () = maintenance.context.stop.stopped() => Err(Error::Closed("the database is closing".into())),
        done = work => done,
    }
}

/// What to coarsen next, among what is wanted. A job that was interrupted comes first, if it still
/// makes sense.
async fn next_piece(
    maintenance: &Arc<Maintenance>,
    everything: bool,
    wanted: impl Fn(Bucket) -> bool,
) -> Result<Option<CoarsenPlan>> {
    let prospect = {
        // Under the flush lock, so that no flush is half done.
        let frozen = maintenance.ingest.lock_flushes().await;
        let frozen: BTreeSet<BucketStart> = frozen.keys().copied().collect();
        PlanSnapshot::of(maintenance, frozen, everything)
    };
    let Some(prospect) = prospect else {
        return Ok(None);
    };
    let mut pieces = maintenance
        .context
        .job_pool
        .run(move || prospect.pieces())
        .await?;
    pieces.retain(|piece| wanted(piece.target));
    if pieces.is_empty() {
        return Ok(None);
    }
    let unfinished = stored_job(maintenance).await?.map(|job| job.target);
    Ok(unfinished_or_first(pieces, unfinished, |p| p.target))
}

/// What a plan is made from, copied.
pub(super) struct PlanSnapshot {
    buckets: BTreeSet<Bucket>,
    gone: Vec<Bucket>,
    known: Recent,
    busy_hours: BTreeSet<BucketStart>,
    now_ms: i64,
    elapsed_ms: i64,
    delay_ms: i64,
    everything: bool,
}

impl PlanSnapshot {
    /// `frozen` are hours that a flush has not finished with. `None`: it is too early for any plan.
    pub(super) fn of(
        maintenance: &Maintenance,
        frozen: BTreeSet<BucketStart>,
        everything: bool,
    ) -> Option<Self> {
        let mut busy_hours = frozen;
        let clock = &maintenance.context.clock;
        let (now_ms, elapsed_ms) = (clock.now_ms(), clock.elapsed_ms());
        let delay_ms = maintenance.context.options.maintenance.delay_ms();
        if !everything {
            // When buckets were written before this process began is not known to it.
            if maintenance.context.open_for_ms() < delay_ms {
                return None;
            }
            busy_hours.extend(maintenance.ingest.head().open_hours());
        }
        let listed = maintenance.buckets.levels();
        let known = maintenance
            .buckets
            .recent()
            .of(&listed, elapsed_ms.saturating_sub(delay_ms));
        Some(Self {
            buckets: listed.raw().clone(),
            gone: listed.gone().collect(),
            known,
            busy_hours,
            now_ms,
            elapsed_ms,
            delay_ms,
            everything,
        })
    }

    /// What could be coarsened now.
    pub(super) fn pieces(&self) -> Vec<CoarsenPlan> {
        plan::waiting(&PlanInput {
            buckets: &self.buckets,
            gone: &self.gone,
            written_ms: &self.known.written_ms,
            samples: &self.known.samples,
            busy_hours: &self.busy_hours,
            now_ms: self.now_ms,
            elapsed_ms: self.elapsed_ms,
            delay_ms: self.delay_ms,
            everything: self.everything,
        })
    }
}

/// Buckets whose late samples should be folded in. Those that do not last are on their way into a
/// larger one, which folds them anyway, unless somebody asks for everything.
fn to_fold(maintenance: &Maintenance, everything: bool) -> BTreeSet<Bucket> {
    let elapsed_ms = maintenance.context.clock.elapsed_ms();
    let delay_ms = maintenance.context.options.maintenance.delay_ms();
    let quiet_since_ms = elapsed_ms.saturating_sub(delay_ms);
    let Recent {
        written_ms, dirty, ..
    } = maintenance
        .buckets
        .recent()
        .of(&maintenance.buckets.levels(), quiet_since_ms);
    let due = dirty.into_iter().filter(|bucket| {
        let quiet = !written_ms.contains_key(bucket);
        everything || (quiet && bucket.size >= ladder::lasting())
    });
    due.collect()
}

/// Lets a bucket join the larger one around it.
async fn join_larger(
    maintenance: &Arc<Maintenance>,
    overlap: Overlap,
    watch: &Watch,
) -> Result<()> {
    let _shown = RunningGuard::new(maintenance, Kind::Repair, overlap.inside, 1);
    repair(maintenance, overlap, watch).await?;
    maintenance.context.metrics.repaired_buckets.add(1);
    Ok(())
}

/// Builds one bucket.
async fn build(maintenance: &Arc<Maintenance>, piece: &CoarsenPlan, watch: &Watch) -> Result<()> {
    let _shown = RunningGuard::new(
        maintenance,
        Kind::Coarsen,
        piece.target,
        piece.sources.len(),
    );
    let metrics = &maintenance.context.metrics;
    let built = coarsen(maintenance, piece.target, &piece.sources, watch);
    let built = timed(maintenance, Kind::Coarsen, &piece.sources, built);
    let built = measured(maintenance, &metrics.coarsen, watch, built).await;
    built.map(|outcome| {
        metrics.coarsened_samples.add(outcome.samples);
        metrics.coarsened_series.add(outcome.series);
    })
}

/// Builds one larger bucket of windows.
async fn build_larger(
    maintenance: &Arc<Maintenance>,
    plan: &LargerPlan,
    watch: &Watch,
) -> Result<()> {
    let sources = plan.sources.len();
    let _shown = RunningGuard::new(maintenance, Kind::Coarsen, plan.target, sources);
    let metrics = &maintenance.context.metrics;
    let built = coarsen_windows(maintenance, plan, watch);
    let built = timed(maintenance, Kind::Coarsen, &plan.sources, built);
    let built = measured(maintenance, &metrics.coarsen, watch, built).await;
    built.map(|outcome| metrics.coarsened_series.add(outcome.series))
}

/// Builds one bucket of windows.
async fn roll_up_bucket(
    maintenance: &Arc<Maintenance>,
    plan: &RollUpPlan,
    watch: &Watch,
) -> Result<()> {
    let sources = plan.sources.len();
    let _shown = RunningGuard::new(maintenance, Kind::RollUp, plan.target, sources);
    let metrics = &maintenance.context.metrics;
    let built = roll_up(maintenance, plan, watch);
    let built = timed(maintenance, Kind::RollUp, &plan.sources, built);
    let built = measured(maintenance, &metrics.roll_up, watch, built).await;
    built.map(|outcome| metrics.rolled_up_samples.add(outcome.samples))
}

/// Builds one remnant, and culls the rest of what it is made of.
async fn keep_longer(
    maintenance: &Arc<Maintenance>,
    plan: &RemnantPlan,
    everything: bool,
    watch: &Watch,
) -> Result<()> {
    let sources = plan.sources.len();
    let _shown = RunningGuard::new(maintenance, Kind::Remnant, plan.target, sources);
    let metrics = &maintenance.context.metrics;
    let built = build_remnant(maintenance, plan, everything, watch);
    let built = timed(maintenance, Kind::Remnant, &plan.sources, built);
    let built = measured(maintenance, &metrics.coarsen, watch, built).await;
    built.map(|outcome| {
        metrics.coarsened_samples.add(outcome.samples);
        metrics.coarsened_series.add(outcome.series);
        metrics.culled_buckets.add(sources as u64);
    })
}

/// Folds the late samples of one bucket in.
async fn refresh(maintenance: &Arc<Maintenance>, bucket: Bucket, watch: &Watch) -> Result<()> {
    let _shown = RunningGuard::new(maintenance, Kind::Fold, bucket, 1);
    let metrics = &maintenance.context.metrics;
    let folded = fold(maintenance, bucket, watch);
    measured(maintenance, &metrics.fold, watch, folded)
        .await
        .map(drop)
}

/// Builds a bucket, and remembers how long it took.
async fn timed(
    maintenance: &Maintenance,
    kind: Kind,
    sources: &[Bucket],
    build: impl Future<Output = Result<Outcome>>,
) -> Result<Outcome> {
    let workload = Workload::new(kind, sources, maintenance.buckets.levels().sizes());
    maintenance.throughput.begin(workload);
    let built = build.await;
    let is_whole = built.as_ref().is_ok_and(|outcome| !outcome.resumed);
    maintenance.throughput.end(is_whole);
    built
}

/// Does a job and counts what becomes of it.
async fn measured<T>(
    maintenance: &Maintenance,
    metrics: &JobMetrics,
    watch: &Watch,
    job: impl Future<Output = Result<T>>,
) -> Result<T> {
    let started = std::time::Instant::now();
    let ended = job.await;
    metrics.seconds.observe(started.elapsed().as_secs_f64());
    let gave_up = || watch.gave_way() || watch.is_stale() || maintenance.context.stop.is_stopped();
    match &ended {
        Ok(_) => metrics.done.add(1),
        Err(_) if gave_up() => metrics.given_up.add(1),
        Err(_) => metrics.failed.add(1),
    }
    ended
}

/// A job that the status shows until this is dropped.
struct RunningGuard<'i>(&'i Maintenance);

impl<'i> RunningGuard<'i> {
    fn new(maintenance: &'i Maintenance, kind: Kind, bucket: Bucket, sources: usize) -> Self {
        maintenance.jobs.set_running(Some(JobStatus {
            kind: kind.name(),
            start_ms: bucket.start_ms(),
            end_ms: bucket.end_ms(),
            sources,
            started_ms: maintenance.context.clock.now_ms(),
            ..JobStatus::default()
        }));
        Self(maintenance)
    }
}

impl Drop for RunningGuard<'_> {
    fn drop(&mut self) {
        self.0.jobs.set_running(None);
        self.0.jobs.set_paused(None);
    }
}

impl MaintenanceReport {
    fn count(&mut self, job: &Job) {
        match job {
            Job::Repair(_) => self.repaired += 1,
            Job::Coarsen(piece) => {
                self.coarsened += 1;
                self.retired += piece.sources.len();
            }
            Job::CoarsenWindows(plan) => {
                self.coarsened += 1;
                self.retired += plan.sources.len();
            }
            Job::RollUp(_) => self.rolled_up += 1,
            Job::Merge(plan) => self.merged += plan.overlays.len(),
            Job::Remnant(plan) => {
                self.remnants += 1;
                self.culled += plan.sources.len();
            }
            Job::Cull(plan) => self.culled += plan.buckets.len(),
            Job::Outdated(_) => {}
            Job::Fold(_) => self.folded += 1,
            Job::Clean(_) => {}
        }
    }

    fn add(&mut self, watch: &Watch) {
        let (read, written) = watch.bytes();
        self.bytes_read += read;
        self.bytes_written += written;
    }
}
