//! Jobs on buckets: repairing, coarsening, folding late samples in, cleaning, dropping what was
//! replaced.
//!
//! Holds always:
//! - One job at a time. Jobs never delay flushes of hours that they do not copy, and end when the
//!   head needs the others.
//! - A job that fails is logged and tried again.

pub(crate) mod build;
mod delete;
mod duty;
pub(crate) mod garbage;
mod jobs;
pub(crate) mod pace;
pub(crate) mod plan;
mod retention;
pub(crate) mod retire;

mod skipped;
mod snapshots;
mod status;
pub(crate) mod sweep;
mod task;
mod throughput;

use std::ops::Range;
use std::sync::Arc;

pub(crate) use delete::delete_series;
pub use delete::{DeletedBeyond, Deletion, DeletionReport};
#[cfg(feature = "testing")]
pub(crate) use retention::RetentionSnapshot;
pub(crate) use snapshots::create as create_snapshot;
pub(crate) use status::status;
pub use status::{
    JobStatus, KeptBackBucket, LevelStatus, MaintenanceReport, MaintenanceStatus, RunProgress,
};
pub use status::{SizeCount, SkippedJob};
pub(crate) use task::run;

use crate::buckets::Buckets;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::ingest::Ingest;
use crate::read::Reader;
use crate::retention::Retention;
use build::clean_all;
use icecore_model::retention::RetentionPolicy;
use icecore_model::rollup::Resolution;
use jobs::Jobs;
use pace::Watch;
use parking_lot::Mutex;
use retention::{FamilyHolders, tell_what_is_too_old};
use skipped::SkippedJobs;
use throughput::Throughput;

pub(crate) struct Maintenance {
    context: Arc<Context>,
    buckets: Arc<Buckets>,
    ingest: Arc<Ingest>,
    reader: Arc<Reader>,
    retention: Arc<Retention>,
    /// The job that is under way, and the run that somebody asked for.
    jobs: Jobs,
    /// Jobs that failed and are left alone for a while.
    skipped: SkippedJobs,
    /// How long jobs took.
    throughput: Throughput,
    /// Where metrics with old metadata were found.
    family_holders: Mutex<FamilyHolders>,
    /// Held by the one cleaning of all buckets that somebody asked for.
    cleaning: tokio::sync::Mutex<()>,
    /// Held by the one snapshot that is being made: names are looked at before.
    snapshotting: tokio::sync::Mutex<()>,
    /// Held while others are told what is too old, so that the later time is the one that stays.
    telling: Mutex<()>,
}

impl Maintenance {
    pub(crate) fn new(
        context: &Arc<Context>,
        buckets: &Arc<Buckets>,
        ingest: &Arc<Ingest>,
        reader: &Arc<Reader>,
        retention: &Arc<Retention>,
    ) -> Self {
        Self {
            context: Arc::clone(context),
            buckets: Arc::clone(buckets),
            ingest: Arc::clone(ingest),
            reader: Arc::clone(reader),
            retention: Arc::clone(retention),
            jobs: Jobs::default(),
            skipped: SkippedJobs::default(),
            throughput: Throughput::default(),
            family_holders: Mutex::default(),
            cleaning: tokio::sync::Mutex::default(),
            snapshotting: tokio::sync::Mutex::default(),
            telling: Mutex::default(),
        }
    }

    /// From now on this policy holds; without one nothing is rolled up or culled.
    pub(crate) fn set_retention(&self, policy: Option<RetentionPolicy>) {
        self.retention.set_policy(policy);
        tell_what_is_too_old(self);
        self.jobs.wake.notify_one();
    }

    /// The levels of which something was culled, and since when they are whole.
    pub(crate) fn kept_since(&self) -> Vec<(Resolution, i64)> {
        self.retention.watermarks_ms().into_iter().collect()
    }

    /// The time of the bucket that a job is at.
    pub(crate) fn under_way(&self) -> Option<Range<i64>> {
        let job = self.jobs.running()?;
        Some(job.start_ms..job.end_ms)
    }

    /// Runs everything that can be done now, and waits for it.
    pub(crate) async fn run_all(&self) -> Result<MaintenanceReport> {
        self.jobs.ask().await
    }

    /// Removes what was deleted from the records it lies in, now. To its end, also when whoever
    /// asked for it goes away.
    pub(crate) async fn clean_tombstones(self: &Arc<Self>) -> Result<()> {
        let maintenance = Arc::clone(self);
        let work = tokio::spawn(async move {
            let _one_at_a_time = maintenance.cleaning.lock().await;
            clean_all(&maintenance, &Watch::unpaced(&maintenance)).await
        });
        let ended = work.await;
        ended.map_err(Error::ended_abnormally("cleaning"))?
    }
}
