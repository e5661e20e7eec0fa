//! What tests may do to the jobs of an open database.

use std::time::Duration;

use icecore_records::Bucket;

use crate::database::Database;
use crate::error::Result;
use crate::ingest::flush::HoldGuard;
use crate::maintenance::build::{FoldOutcome, fold};
use crate::maintenance::garbage::collect_garbage;
use crate::maintenance::pace::Watch;

/// How long a test waits for the compactor.
const GARBAGE_PATIENCE: Duration = Duration::from_secs(120);

/// Hooks on [`Database`] that stand in for a job.
pub trait JobHooks {
    /// Holds back the flushes of a window, as a job does that copies its buckets.
    fn hold_back(&self, window: Bucket) -> impl Future<Output = Result<HeldBack<'_>>> + Send;

    /// Whether a flush waits for the end of a hold.
    fn flush_waits(&self) -> bool;

    /// Passes a yield point of a job; says whether the job had to give way to the head.
    fn pass_yield_point(&self) -> impl Future<Output = (Result<()>, bool)> + Send;

    /// Joins all segments and deletes every file that nothing refers to. False when a reader keeps
    /// some.
    fn collect_garbage_now(&self) -> impl Future<Output = Result<bool>> + Send;

    /// Folds the late samples of a bucket in. Returns how many records had some, and whether the
    /// bucket is without any now.
    fn fold_now(&self, bucket: Bucket) -> impl Future<Output = Result<(u64, bool)>> + Send;
}

/// Flushes are held back until this is dropped.
pub struct HeldBack<'h> {
    _held: HoldGuard<'h>,
}

impl JobHooks for Database {
    async fn hold_back(&self, window: Bucket) -> Result<HeldBack<'_>> {
        let turn = self.ingest.hold().turn().await;
        let frozen = self.ingest.lock_flushes().await;
        let held = turn.begin(window, &frozen)?;
        Ok(HeldBack { _held: held })
    }

    fn flush_waits(&self) -> bool {
        self.ingest.hold().is_waited_for()
    }

    async fn pass_yield_point(&self) -> (Result<()>, bool) {
        let watch = Watch::unpaced(&self.maintenance);
        let passed = watch.read(0).await;
        (passed, watch.gave_way())
    }

    async fn collect_garbage_now(&self) -> Result<bool> {
        let deadline = tokio::time::Instant::now() + GARBAGE_PATIENCE;
        collect_garbage(&self.maintenance, deadline, 0).await
    }

    async fn fold_now(&self, bucket: Bucket) -> Result<(u64, bool)> {
        let watch = Watch::unpaced(&self.maintenance);
        let FoldOutcome { records, clean } = fold(&self.maintenance, bucket, &watch).await?;
        Ok((records, clean))
    }
}
