//! What tests may do to an open database beside its public surface.
//!
//! Only with the feature `testing`: the product cannot be driven this way.

mod content;
mod jobs;

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use icecore_model::rollup::Resolution;
use icecore_model::{BucketSize, BucketStart};
use icecore_records::{Bucket, bucket_list, key};
use slatedb::WriteBatch;

pub use crate::maintenance::build::Outcome as CoarsenOutcome;
pub use crate::pause::Pause;
pub use crate::slate::faults::*;
pub use content::{SeriesContent, StoredContent};
pub use jobs::{HeldBack, JobHooks};

use crate::buckets::list::Overlap;
use crate::database::Database;
use crate::error::{Error, Result};
use crate::ingest;
use crate::ingest::journal::drain_epochs;
use crate::maintenance::RetentionSnapshot;
use crate::maintenance::build::{
    build_remnant_until, coarsen_until, coarsen_windows_until, merge_late_until, repair_until,
    roll_up_until,
};
use crate::maintenance::pace::Watch;
use crate::slate::read_view::ScanKind;

/// Hooks on [`Database`].
pub trait Hooks {
    /// One round of maintenance now, forgetting idle series included. Draining, which waits for
    /// the compactor, is left to the background and to [`Database::flush`].
    fn tick(&self) -> impl Future<Output = Result<()>> + Send;

    /// [`Database::flush`] without draining.
    fn flush_buckets(&self) -> impl Future<Output = Result<()>> + Send;

    /// Writes all memtables out as files, which is what compaction waits for.
    fn write_memtables(&self) -> impl Future<Output = Result<()>> + Send;

    /// Every record whose key begins with `prefix`.
    fn records(&self, prefix: &[u8]) -> impl Future<Output = Result<Vec<(Bytes, Bytes)>>> + Send;

    /// Replaces records behind the back of the database, durably; `None` deletes.
    fn replace_records(
        &self,
        records: Vec<(Bytes, Option<Bytes>)>,
    ) -> impl Future<Output = Result<()>> + Send;

    /// Makes one bucket of 2^(exponent−1) hours, beginning at `start`, out of all that are listed
    /// in its window. With `writes_max` the job is interrupted before it writes once more.
    fn coarsen_now(
        &self,
        exponent: u8,
        start: BucketStart,
        writes_max: Option<u64>,
    ) -> impl Future<Output = Result<CoarsenOutcome>> + Send;

    /// Rolls up what the policy says is due, the first of it, without waiting for delays. With
    /// `writes_max` the job is interrupted before it writes once more.
    fn roll_up_now(
        &self,
        writes_max: Option<u64>,
    ) -> impl Future<Output = Result<CoarsenOutcome>> + Send;

    /// Merges the overlays that could be merged, the first of them, without waiting for delays.
    /// With `writes_max` the job is interrupted before it writes once more. Returns how many series
    /// had something.
    fn merge_late_now(&self, writes_max: Option<u64>) -> impl Future<Output = Result<u64>> + Send;

    /// Builds the remnant that could be built, the first of them, and culls what it is made of.
    /// With `writes_max` the job is interrupted before it writes once more.
    fn build_remnant_now(
        &self,
        writes_max: Option<u64>,
    ) -> impl Future<Output = Result<CoarsenOutcome>> + Send;

    /// The listed remnants.
    fn remnants(&self) -> Vec<Bucket>;

    /// The listed buckets of late samples that wait to be merged into windows.
    fn overlays(&self) -> Vec<Bucket>;

    /// Makes one larger bucket of windows, the first that could be made. With `writes_max` the job
    /// is interrupted before it writes once more.
    fn coarsen_windows_now(
        &self,
        writes_max: Option<u64>,
    ) -> impl Future<Output = Result<CoarsenOutcome>> + Send;

    /// The listed buckets of windows.
    fn rolled(&self) -> Vec<Bucket>;

    /// The same by level.
    fn rolled_levels(&self) -> Vec<(Resolution, Bucket)>;

    /// How many files of records the manifest names.
    fn referenced_files(&self) -> usize;

    /// Whoever comes to this place next waits there until the result is dropped.
    fn pause_at(&self, place: &'static str) -> Pause;

    /// Drains what can be drained, without a flush before.
    fn drain(&self) -> impl Future<Output = Result<()>> + Send;

    /// Begins a new epoch.
    fn roll_epoch(&self);

    /// The same out of the given buckets, as a plan may have them that is no longer true.
    fn coarsen_these(
        &self,
        target: Bucket,
        sources: &[Bucket],
    ) -> impl Future<Output = Result<CoarsenOutcome>> + Send;

    /// Lets a bucket join the larger one around it. With `writes_max` the job is interrupted before
    /// it writes once more. Returns how many series it added something to.
    fn repair_now(
        &self,
        inside: Bucket,
        around: Bucket,
        writes_max: Option<u64>,
    ) -> impl Future<Output = Result<u64>> + Send;

    /// The buckets that are listed.
    fn listed(&self) -> Vec<Bucket>;

    /// Makes these the buckets that are listed, durably, whatever lies in the store.
    fn set_listed(&self, buckets: Vec<Bucket>) -> impl Future<Output = Result<()>> + Send;

    /// What all listed buckets hold, decoded without the help of the read path.
    fn stored_content(&self) -> impl Future<Output = Result<StoredContent>> + Send;
}

impl Hooks for Database {
    async fn tick(&self) -> Result<()> {
        while ingest::flush_due(&self.ingest).await? {}
        ingest::forget_idle(&self.ingest).await
    }

    async fn flush_buckets(&self) -> Result<()> {
        ingest::flush_all(&self.ingest).await
    }

    async fn write_memtables(&self) -> Result<()> {
        self.context.engine.flush_memtable().await
    }

    async fn records(&self, prefix: &[u8]) -> Result<Vec<(Bytes, Bytes)>> {
        let view = self.context.engine.live_view();
        let mut found = Vec::new();
        let mut records = view.scan_prefix(prefix, ScanKind::Once).await?;
        while let Some(record) = records
            .next()
            .await
            .map_err(Error::store("reading records"))?
        {
            found.push((record.key, record.value));
        }
        Ok(found)
    }

    async fn replace_records(&self, records: Vec<(Bytes, Option<Bytes>)>) -> Result<()> {
        let mut batch = WriteBatch::new();
        for (key, value) in records {
            match value {
                Some(value) => batch.put_bytes(key, value),
                None => batch.delete(key),
            }
        }
        let handle = self.context.engine.db().write(batch).await;
        let handle = handle.map_err(Error::store("replacing records"))?;
        handle
            .await_durable()
            .await
            .map_err(Error::store("replacing records"))
    }

    async fn coarsen_now(
        &self,
        exponent: u8,
        start: BucketStart,
        writes_max: Option<u64>,
    ) -> Result<CoarsenOutcome> {
        let size = BucketSize::from_exponent(exponent)
            .ok_or_else(|| Error::Invalid(format!("no bucket has size {exponent}").into()))?;
        let target = Bucket { size, start };
        let inside = |bucket: &Bucket| {
            bucket.start_ms() >= target.start_ms() && bucket.end_ms() <= target.end_ms()
        };
        let sources: Vec<Bucket> = self.listed().into_iter().filter(inside).collect();
        let watch = Watch::unpaced(&self.maintenance);
        coarsen_until(&self.maintenance, target, &sources, &watch, writes_max).await
    }

    async fn roll_up_now(&self, writes_max: Option<u64>) -> Result<CoarsenOutcome> {
        let planned = RetentionSnapshot::of(&self.maintenance, BTreeSet::new(), true);
        let plan = planned.and_then(|planned| planned.roll_ups().into_iter().next());
        let plan = plan.ok_or_else(|| Error::Invalid("nothing is to be rolled up".into()))?;
        let watch = Watch::unpaced(&self.maintenance);
        roll_up_until(&self.maintenance, &plan, &watch, writes_max).await
    }

    async fn merge_late_now(&self, writes_max: Option<u64>) -> Result<u64> {
        let planned = RetentionSnapshot::of(&self.maintenance, BTreeSet::new(), true);
        let plan = planned.and_then(|planned| planned.merges().into_iter().next());
        let plan = plan.ok_or_else(|| Error::Invalid("nothing is to be merged".into()))?;
        let watch = Watch::unpaced(&self.maintenance);
        merge_late_until(&self.maintenance, &plan, &watch, writes_max).await
    }

    async fn build_remnant_now(&self, writes_max: Option<u64>) -> Result<CoarsenOutcome> {
        let planned = RetentionSnapshot::of(&self.maintenance, BTreeSet::new(), true);
        let plan = planned.and_then(|planned| planned.remnants().0.into_iter().next());
        let plan = plan.ok_or_else(|| Error::Invalid("no remnant is to be built".into()))?;
        let watch = Watch::unpaced(&self.maintenance);
        build_remnant_until(&self.maintenance, &plan, true, &watch, writes_max).await
    }

    fn remnants(&self) -> Vec<Bucket> {
        self.buckets.levels().remnants().collect()
    }

    fn overlays(&self) -> Vec<Bucket> {
        self.buckets.levels().overlays().iter().copied().collect()
    }

    async fn coarsen_windows_now(&self, writes_max: Option<u64>) -> Result<CoarsenOutcome> {
        let planned = RetentionSnapshot::of(&self.maintenance, BTreeSet::new(), true);
        let plan = planned.and_then(|planned| planned.larger_buckets().into_iter().next());
        let plan = plan.ok_or_else(|| Error::Invalid("nothing is to be coarsened".into()))?;
        let watch = Watch::unpaced(&self.maintenance);
        coarsen_windows_until(&self.maintenance, &plan, &watch, writes_max).await
    }

    fn rolled(&self) -> Vec<Bucket> {
        let levels = self.buckets.levels();
        levels.rolled().values().flatten().copied().collect()
    }

    fn rolled_levels(&self) -> Vec<(Resolution, Bucket)> {
        let levels = self.buckets.levels();
        let all = levels.all_rolled();
        all.map(|(bucket, facts)| (facts.resolution, bucket))
            .collect()
    }

    fn referenced_files(&self) -> usize {
        let manifest = self.context.engine.db().manifest();
        manifest.all_sst_views().count()
    }

    fn pause_at(&self, place: &'static str) -> Pause {
        self.context.pauses.arm(place)
    }

    async fn drain(&self) -> Result<()> {
        drain_epochs(&self.ingest, Duration::from_secs(60))
            .await
            .map(drop)
    }

    fn roll_epoch(&self) {
        let now_ms = self.context.clock.now_ms();
        self.ingest.head().roll_epoch(now_ms, |_| true);
    }

    async fn coarsen_these(&self, target: Bucket, sources: &[Bucket]) -> Result<CoarsenOutcome> {
        let watch = Watch::unpaced(&self.maintenance);
        coarsen_until(&self.maintenance, target, sources, &watch, None).await
    }

    async fn repair_now(
        &self,
        inside: Bucket,
        around: Bucket,
        writes_max: Option<u64>,
    ) -> Result<u64> {
        let watch = Watch::unpaced(&self.maintenance);
        let overlap = Overlap { inside, around };
        repair_until(&self.maintenance, overlap, &watch, writes_max).await
    }

    async fn set_listed(&self, buckets: Vec<Bucket>) -> Result<()> {
        let listed: BTreeSet<Bucket> = buckets.into_iter().collect();
        let list = bucket_list::encode(&listed);
        self.replace_records(vec![(key::bucket_list(), Some(list))])
            .await?;
        self.buckets.set_listed(listed);
        Ok(())
    }

    fn listed(&self) -> Vec<Bucket> {
        self.buckets.listed().iter().copied().collect()
    }

    async fn stored_content(&self) -> Result<StoredContent> {
        content::content(&self.context.engine.live_view(), &self.listed()).await
    }
}
