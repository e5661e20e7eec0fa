//! The task that does the jobs: coarsening, folding, dropping what was replaced, sweeping.
//!
//! ```text
//! asked for a run?  flush ─► coarsen until nothing is left ─► fold, clean ─► drop ─► settle ─► answer
//! by itself         drop what is retired ─► coarsen one window, else fold or clean one bucket ─► look again
//! ```
//!
//! Holds always:
//! - One job at a time, beside the flushes and never in their way: what a job holds back is due again
//!   when it ends, and a job ends when the head needs the room.
//! - A job that fails is logged, shown in the status and tried again.
//! - Jobs end at their next yield point when the database closes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use icecore_model::BucketSize;
use icecore_records::Bucket;
use tokio::time::Instant;
use tracing::{info, warn};

use super::coarsen::{coarsen, stored_job};
use super::flushes::{flush_all, flush_and_drain, flush_due};
use super::fold::{fold, load_dirty};
use super::pace::Watch;
use super::plan::{self, Piece, Situation};
use super::recent::Known;
use super::retire::drop_retired;
use super::settle::settle;
use super::status::{JobStatus, MaintenanceReport};
use super::sweep::sweep;
use crate::error::{Error, Result};
use crate::head::CATALOG_HOUR;
use crate::inner::Inner;
use crate::tombstones::{clean_all, clean_bucket};

/// How often it is looked for work.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// How long after a failure it is tried again.
const TRY_AGAIN: Duration = Duration::from_secs(15);

/// How often orphans are looked for, beside at start-up.
const SWEEP_EVERY: Duration = Duration::from_secs(24 * 3600);

/// How long a run waits for the store to come to rest. What is left then follows by itself.
const SETTLE_PATIENCE: Duration = Duration::from_secs(300);

/// How often a run starts a job again that had to give way to the head.
const GIVE_WAY_MAX: usize = 8;

/// The size that buckets end up with.
const LARGEST: u8 = 5;

/// Runs until it is told to stop.
pub(crate) async fn run(inner: Arc<Inner>) {
    let mut next_sweep = Instant::now();
    let mut known_dirty = false;
    let mut failing = false;
    while !inner.jobs.is_stopped() && inner.journal.failed().is_none() {
        let asked = inner.jobs.begin_run();
        let done = match known_dirty {
            true => Ok(()),
            false => load_dirty(&inner).await,
        };
        known_dirty = known_dirty || done.is_ok();
        if let Some(run) = asked {
            let ran = match done {
                Ok(()) => everything(&inner).await,
                Err(cause) => Err(cause),
            };
            note(&inner, ran.as_ref().map(|_| true));
            run.answer(ran);
            continue;
        }
        let mut worked = done.map(|()| false);
        if worked.is_ok() && inner.options.maintenance.enabled {
            worked = by_itself(&inner, &mut next_sweep).await;
        }
        // That there is nothing to do says that what failed before did not fail again.
        note(&inner, worked.as_ref().map(|worked| *worked || failing));
        failing = worked.is_err();
        let wait = match worked {
            Ok(true) => continue,
            Ok(false) => LOOK_EVERY,
            Err(_) => TRY_AGAIN,
        };
        tokio::select! {
            () = inner.jobs.stopped() => {}
            () = inner.jobs.wake.notified() => {}
            () = tokio::time::sleep(wait) => {}
        }
    }
    inner.jobs.over();
}

/// Shows a failure until something succeeds.
fn note(inner: &Inner, succeeded: Result<bool, &Error>) {
    match succeeded {
        Ok(true) => inner.jobs.set_error(None),
        Ok(false) => {}
        Err(_) if inner.jobs.is_stopped() => {}
        Err(cause) => {
            warn!(%cause, "maintenance failed; trying again");
            inner.jobs.set_error(Some(cause.to_string()));
        }
    }
}

/// One step of what goes on without being asked for; whether there was something to do.
async fn by_itself(inner: &Arc<Inner>, next_sweep: &mut Instant) -> Result<bool> {
    if Instant::now() >= *next_sweep {
        sweep(inner).await?;
        *next_sweep = Instant::now() + SWEEP_EVERY;
    }
    let grace = inner.options.maintenance.grace;
    unless_stopped(inner, drop_retired(inner, grace)).await?;
    if let Some(piece) = next_piece(inner, false).await? {
        let watch = Watch::paced(inner);
        return match build(inner, &piece, &watch).await {
            Ok(()) => Ok(true),
            // The hours it held back are flushed by the next tick, and the window is quiet later.
            Err(_) if watch.gave_way() => Ok(false),
            Err(cause) => Err(cause),
        };
    }
    if let Some(bucket) = next_fold(inner, false) {
        let watch = Watch::paced(inner);
        return refresh(inner, bucket, &watch).await.map(|()| true);
    }
    let Some(bucket) = next_clean(inner) else {
        return Ok(false);
    };
    let _shown = Shown::new(inner, "clean", bucket, 1);
    let watch = Watch::paced(inner);
    clean_bucket(inner, bucket, &watch).await.map(|()| true)
}

/// A bucket with tombstones that nobody will rewrite for another reason.
fn next_clean(inner: &Inner) -> Option<Bucket> {
    let largest = BucketSize::from_exponent(LARGEST);
    let mut buckets = inner.tombstones.buckets().into_iter();
    buckets.find(|bucket| Some(bucket.size) >= largest)
}

/// Brings everything that is closed into its final form.
async fn everything(inner: &Arc<Inner>) -> Result<MaintenanceReport> {
    let started = std::time::Instant::now();
    let mut report = MaintenanceReport::default();
    let watch = Watch::unpaced(inner);
    flush_all(inner).await?;
    let mut gave_way = 0;
    while let Some(piece) = next_piece(inner, true).await? {
        let watch = Watch::unpaced(inner);
        let built = build(inner, &piece, &watch).await;
        report.add(&watch);
        match built {
            Ok(()) => {
                report.coarsened += 1;
                report.retired += piece.sources.len();
            }
            Err(_) if watch.gave_way() && gave_way < GIVE_WAY_MAX => {
                gave_way += 1;
                flush_due(inner).await?;
            }
            Err(cause) => return Err(cause),
        }
    }
    let mut tried = BTreeSet::new();
    while let Some(bucket) = next_fold(inner, true).filter(|bucket| tried.insert(*bucket)) {
        refresh(inner, bucket, &watch).await?;
        report.folded += 1;
    }
    clean_all(inner, &watch).await?;
    report.add(&watch);
    sweep(inner).await?;
    unless_stopped(inner, rest(inner)).await?;
    report.quarantined = inner.quarantine.list();
    report.seconds = started.elapsed().as_secs_f64();
    info!(
        coarsened = report.coarsened,
        retired = report.retired,
        folded = report.folded,
        bytes_read = report.bytes_read,
        bytes_written = report.bytes_written,
        seconds = report.seconds,
        "maintenance has run"
    );
    Ok(report)
}

/// Waits until the store has let go of what was replaced.
async fn rest(inner: &Arc<Inner>) -> Result<()> {
    // The grace time is for readers in other programs.
    let grace = match inner.engine.is_read_elsewhere().await? {
        true => inner.options.maintenance.grace,
        false => Duration::ZERO,
    };
    while drop_retired(inner, grace).await? > 0 {}
    // What follows takes as long as SlateDB's compactor does.
    info!("bringing the store to rest");
    flush_and_drain(inner).await?;
    let deadline = Instant::now() + SETTLE_PATIENCE;
    settle(inner, deadline).await.map(drop)
}

/// Waiting for the compactor ends when the database closes. Only for what may be cut anywhere.
async fn unless_stopped<T>(inner: &Inner, work: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::select! {
        () = inner.jobs.stopped() => Err(Error::Closed("the database is closing".into())),
        done = work => done,
    }
}

/// What to coarsen next. A job that was interrupted comes first, if it still makes sense.
async fn next_piece(inner: &Arc<Inner>, everything: bool) -> Result<Option<Piece>> {
    let pieces = {
        // Under the flush lock, so that no flush is half done.
        let frozen = inner.flushing.lock().await;
        let frozen: BTreeSet<u32> = frozen.keys().copied().collect();
        waiting(inner, frozen, everything)
    };
    let Some(first) = pieces.first() else {
        return Ok(None);
    };
    let unfinished = stored_job(inner).await?.map(|job| job.target);
    let resumed = pieces.iter().find(|piece| Some(piece.target) == unfinished);
    Ok(Some(resumed.unwrap_or(first).clone()))
}

/// What could be coarsened now. `frozen` are hours that a flush has not finished with.
pub(super) fn waiting(inner: &Inner, frozen: BTreeSet<u32>, everything: bool) -> Vec<Piece> {
    let mut busy_hours = frozen;
    let now_ms = inner.clock.now_ms();
    let delay_ms = inner.options.maintenance.delay_ms();
    if !everything {
        // When buckets were written before this process began is not known to it.
        if now_ms - inner.started_ms < delay_ms {
            return Vec::new();
        }
        let sequencer = inner.head.sequencer.lock();
        busy_hours.extend(sequencer.open_hours.keys());
    }
    busy_hours.remove(&CATALOG_HOUR);
    let (buckets, Known { written_ms, .. }) = known(inner);
    plan::waiting(&Situation {
        buckets: &buckets,
        written_ms: &written_ms,
        busy_hours: &busy_hours,
        now_ms,
        delay_ms,
        everything,
    })
}

fn known(inner: &Inner) -> (BTreeSet<Bucket>, Known) {
    let listed = inner.buckets.read();
    let known = inner.recent.of(&listed);
    (listed.clone(), known)
}

/// A bucket whose late samples should be folded in. Smaller ones than the largest are on their way into
/// one, which folds them anyway, unless somebody asks for everything.
fn next_fold(inner: &Inner, everything: bool) -> Option<Bucket> {
    let (_, Known { written_ms, dirty }) = known(inner);
    let now_ms = inner.clock.now_ms();
    let quiet_since_ms = now_ms.saturating_sub(inner.options.maintenance.delay_ms());
    let largest = BucketSize::from_exponent(LARGEST);
    let mut due = dirty.into_iter().filter(|bucket| {
        let quiet = written_ms
            .get(bucket)
            .is_none_or(|at| *at <= quiet_since_ms);
        everything || (quiet && Some(bucket.size) >= largest)
    });
    due.next()
}

/// Builds one bucket.
async fn build(inner: &Arc<Inner>, piece: &Piece, watch: &Watch) -> Result<()> {
    let _shown = Shown::new(inner, "coarsen", piece.target, piece.sources.len());
    let started = std::time::Instant::now();
    let built = coarsen(inner, piece.target, &piece.sources, watch).await;
    let metrics = &inner.metrics;
    metrics
        .coarsen_seconds
        .observe(started.elapsed().as_secs_f64());
    match &built {
        Ok(outcome) => {
            metrics.coarsen_done.add(1);
            metrics.coarsened_samples.add(outcome.samples);
            metrics.coarsened_series.add(outcome.series);
        }
        Err(_) if watch.gave_way() || inner.jobs.is_stopped() => metrics.coarsen_given_up.add(1),
        Err(_) => metrics.coarsen_failed.add(1),
    }
    built.map(drop)
}

/// Folds the late samples of one bucket in.
async fn refresh(inner: &Arc<Inner>, bucket: Bucket, watch: &Watch) -> Result<()> {
    let _shown = Shown::new(inner, "fold", bucket, 1);
    let started = std::time::Instant::now();
    let folded = fold(inner, bucket, watch).await;
    let metrics = &inner.metrics;
    metrics
        .fold_seconds
        .observe(started.elapsed().as_secs_f64());
    match &folded {
        Ok(_) => metrics.fold_done.add(1),
        Err(_) if inner.jobs.is_stopped() => metrics.fold_given_up.add(1),
        Err(_) => metrics.fold_failed.add(1),
    }
    folded.map(drop)
}

/// A job that the status shows until this is dropped.
struct Shown<'i>(&'i Inner);

impl<'i> Shown<'i> {
    fn new(inner: &'i Inner, kind: &'static str, bucket: Bucket, sources: usize) -> Self {
        inner.jobs.set_running(Some(JobStatus {
            kind,
            start_ms: bucket.start_ms(),
            end_ms: bucket.end_ms(),
            sources,
            started_ms: inner.clock.now_ms(),
            ..JobStatus::default()
        }));
        Self(inner)
    }
}

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        self.0.jobs.set_running(None);
        self.0.jobs.set_paused(None);
    }
}

impl MaintenanceReport {
    fn add(&mut self, watch: &Watch) {
        let (read, written) = watch.bytes();
        self.bytes_read += read;
        self.bytes_written += written;
    }
}
