//! Merging late samples: what overlays hold joins windows whose own samples are gone, in place.
//!
//! ```text
//! hold back ─► series map of all ─► batches of series, one write each:
//!     windows of every level merged and put, remnants completed, the samples deleted
//!     ─► commit: overlays retired
//! ```
//!
//! Holds always:
//! - A batch is one write: new series with their index, windows, BucketMetas, and the deletion of
//!   the samples. So a sample is in an overlay or in its windows, never in both, and not in the
//!   windows of one level only. A repeat finds less to do; it may be cut anywhere.
//! - A remnant gets what came late of the series that it has, in the same write, so that it still
//!   has all of them. Other series are in windows alone: a remnant that has some samples of a
//!   series has to have all.
//! - What only finer levels keep, which are gone, gets into windows nevertheless. Those say in the
//!   same write that they stand in for the finer levels, and are kept for as long.
//! - What comes late gets into the windows of all levels of its time, also of those that leave its
//!   series out: none has a sample that another lacks without saying so, and another policy may
//!   look for it where this one does not.
//! - Readers merge what is left of overlays in the same way: an answer is the same before,
//!   meanwhile and afterwards.
//! - Flushes and deletions of the window wait, and the head has nothing of the hours of the
//!   overlays that might be in them, too.

mod read;
mod series;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Instant;

use icecore_model::retention::RetentionPolicy;
use icecore_records::{Bucket, bucket_meta, inverted_index, key};
use slatedb::WriteBatch;
use tracing::info;

use super::super::pace::Watch;
use super::super::retention::{MergePlan, remnants_of, targets_of};
use super::hold;
use super::repair::map_series;
use super::series_map::SeriesMap;
use super::sources::{Source, check_tombstones, read_meta, read_sources};
use super::write_limit::WriteLimit;
use crate::buckets::{put_list, stored_list};
use crate::error::{Error, Result};
use crate::failpoint;
use crate::maintenance::Maintenance;
use crate::slate::read_view::View;
use read::{ChunkReader, OverlaySeries};
use series::{MergeTargets, RemnantTarget, Target, Writes};

/// Series that are merged by one write, at most.
const BATCH_SERIES: usize = 256;

/// What is said of a store that fails meanwhile.
const MERGING: &str = "merging late samples";

/// Merges overlays into windows. Returns how many series had something.
pub(crate) async fn merge_late(
    maintenance: &Arc<Maintenance>,
    plan: &MergePlan,
    watch: &Watch,
) -> Result<u64> {
    merge_late_until(maintenance, plan, watch, None).await
}

/// The same; with `writes_max` it is interrupted when it wants to write more often than that.
pub(crate) async fn merge_late_until(
    maintenance: &Arc<Maintenance>,
    plan: &MergePlan,
    watch: &Watch,
    writes_max: Option<u64>,
) -> Result<u64> {
    let started = Instant::now();
    let all: Vec<Bucket> = plan.all().collect();
    hold::clean(maintenance, &all, watch).await?;
    maintenance.context.pauses.pass("merge.planned").await;
    let _held = {
        let turn = maintenance.ingest.hold().turn().await;
        let frozen = maintenance.ingest.lock_flushes().await;
        check(maintenance, plan).map_err(|reason| watch.stale(reason))?;
        let held = turn.begin(plan.outermost(), &frozen)?;
        maintenance.buckets.begin_merge();
        held
    };
    maintenance.context.pauses.pass("merge.held").await;
    let view = maintenance.context.engine.live_view();
    let mut sources = read_sources(&view, &all).await?;
    let map = map_series(maintenance, watch, &mut sources).await?;
    let policy = maintenance.retention.policy();
    let policy = policy.ok_or_else(|| watch.stale("there is no policy any more".into()))?;
    let mut merging = Merging {
        maintenance,
        watch,
        plan,
        targets: targets(plan, &sources)?,
        remnants: remnants(plan, &sources),
        policy,
        sources: &sources,
        buckets: all.into(),
        series: 0,
        limit: WriteLimit::new(writes_max),
    };
    merging.run(&view, &map).await?;
    merging.commit(&view).await?;
    let (series, seconds) = (merging.series, started.elapsed().as_secs_f64());
    let (around, overlays) = (plan.around, plan.overlays.len());
    info!(%around, overlays, series, seconds, "late samples merged into windows");
    Ok(series)
}

/// Whether everything is as the plan has it. Says why not.
fn check(maintenance: &Maintenance, plan: &MergePlan) -> Result<(), String> {
    let listed = maintenance.buckets.levels();
    let gone: Vec<Bucket> = listed.gone().collect();
    if targets_of(&gone, &plan.overlays) != plan.targets || !gone.contains(&plan.around) {
        return Err(format!("windows in {} are not as they were", plan.around));
    }
    if remnants_of(&listed, &plan.overlays) != plan.remnants {
        return Err(format!("remnants in {} are not as they were", plan.around));
    }
    let is_unknown = |overlay: &&Bucket| !listed.overlays().contains(overlay);
    if let Some(overlay) = plan.overlays.iter().find(is_unknown) {
        return Err(format!("{overlay} is no longer listed"));
    }
    let all: Vec<Bucket> = plan.all().collect();
    check_tombstones(maintenance.buckets.tombstones(), &all)?;
    // A flush that was cut off may have left some of it in an overlay.
    let open = maintenance.ingest.head().open_hours();
    let in_overlays = |time_ms: i64| plan.overlays.iter().any(|o| o.contains(time_ms));
    match open.iter().find(|hour| in_overlays(hour.start_ms())) {
        Some(hour) => Err(format!("late samples of hour {hour} are not flushed yet")),
        None => Ok(()),
    }
}

fn targets(plan: &MergePlan, sources: &[Source]) -> Result<Vec<Target>> {
    let of_windows = sources.iter().enumerate().skip(plan.overlays.len());
    let of_windows = of_windows.take(plan.targets.len());
    let target = |(at, source): (usize, &Source)| {
        let resolution = source.meta.resolution().filter(|of| !of.is_raw());
        let resolution = resolution.ok_or_else(|| {
            Error::Corrupt(format!("bucket {} has no windows", source.bucket).into())
        })?;
        let meta = source.meta.clone();
        Ok(Target::new(at, source.bucket, resolution, meta))
    };
    of_windows.map(target).collect()
}

fn remnants(plan: &MergePlan, sources: &[Source]) -> Vec<RemnantTarget> {
    let first = plan.overlays.len() + plan.targets.len();
    let of_remnants = sources.iter().enumerate().skip(first);
    let target = |(at, source): (usize, &Source)| RemnantTarget {
        at,
        bucket: source.bucket,
        meta: source.meta.clone(),
    };
    of_remnants.map(target).collect()
}

struct Merging<'m> {
    maintenance: &'m Arc<Maintenance>,
    watch: &'m Watch,
    plan: &'m MergePlan,
    /// The overlays, and then the buckets of windows, and then remnants.
    sources: &'m [Source],
    buckets: Arc<[Bucket]>,
    targets: Vec<Target>,
    remnants: Vec<RemnantTarget>,
    policy: Arc<RetentionPolicy>,
    /// Series that had something.
    series: u64,
    limit: WriteLimit,
}

impl Merging<'_> {
    async fn run(&mut self, view: &View, map: &SeriesMap) -> Result<()> {
        let series = self.series_of_overlays(map);
        let ids = self.ids_in_targets(map, &series);
        let (mut done, total) = (0, series.len() as u64);
        let series: Vec<OverlaySeries> = series.into_iter().collect();
        let batch_max = self.maintenance.context.options.head.flush_batch_records;
        for some in series.chunks(batch_max.clamp(1, BATCH_SERIES)) {
            let reader = ChunkReader {
                view,
                sources: self.sources,
                windows: self.plan.overlays.len()..self.plan.overlays.len() + self.targets.len(),
                with_labels: !self.policy.overrides().is_empty(),
                concurrent_gets: self.maintenance.context.options.read.concurrent_gets,
            };
            let (chunk, bytes) = reader.read(some, &ids).await?;
            self.watch.read(bytes).await?;
            let buckets = Arc::clone(&self.buckets);
            let into = MergeTargets {
                windows: self.targets.clone(),
                remnants: self.remnants.clone(),
                policy: Arc::clone(&self.policy),
            };
            let overlays = self.plan.overlays.len();
            let work = move || chunk.merge(&buckets, overlays, into);
            let writes = self.maintenance.context.job_pool.run(work).await??;
            done += some.len() as u64;
            let bytes = self.write(writes).await?;
            self.watch.phase("merge", done, total);
            self.watch.wrote(bytes).await?;
        }
        Ok(())
    }

    /// The series that overlays have, in label order, each with its places there.
    fn series_of_overlays(&self, map: &SeriesMap) -> BTreeMap<u32, Vec<(usize, u32)>> {
        let mut found: BTreeMap<u32, Vec<(usize, u32)>> = BTreeMap::new();
        for (at, source) in self
            .sources
            .iter()
            .enumerate()
            .take(self.plan.overlays.len())
        {
            for id in 0..source.meta.next_series_id {
                if let Some(new) = map.new_id(at, id) {
                    found.entry(new).or_default().push((at, id));
                }
            }
        }
        found
    }

    /// For each bucket that is merged into, its place among the sources and the ids that it has for
    /// these series: those of windows first.
    fn ids_in_targets(
        &self,
        map: &SeriesMap,
        series: &BTreeMap<u32, Vec<(usize, u32)>>,
    ) -> Vec<(usize, HashMap<u32, u32>)> {
        let sources = self.sources.iter().enumerate();
        let of_target = |(at, source): (usize, &Source)| {
            let ids = 0..source.meta.next_series_id;
            let ids = ids.filter_map(|id| Some((map.new_id(at, id)?, id)));
            let ids = ids.filter(|(new, _)| series.contains_key(new)).collect();
            (at, ids)
        };
        let targets = sources.skip(self.plan.overlays.len());
        targets.map(of_target).collect()
    }

    /// Writes what became of a batch. Returns how many bytes that are.
    async fn write(&mut self, writes: Writes) -> Result<usize> {
        if writes.deletes.is_empty() {
            return Ok(0);
        }
        self.series += writes.series;
        let (mut batch, mut bytes) = (WriteBatch::new(), 0);
        for (key, value) in writes.puts {
            bytes += key.len() + value.len();
            batch.put_bytes(key, value);
        }
        for (key, mut ids) in writes.postings {
            let value = inverted_index::encode(&mut ids);
            bytes += key.len() + value.len();
            batch.merge(key, value);
        }
        for key in writes.deletes {
            bytes += key.len();
            batch.delete(key);
        }
        self.targets = writes.targets;
        self.remnants = writes.remnants;
        let targets = self.targets.iter().map(|t| (t.bucket(), &t.meta));
        let remnants = self.remnants.iter().map(|r| (r.bucket, &r.meta));
        for (bucket, meta) in targets.chain(remnants) {
            if meta.rollup.stands_in {
                self.maintenance.buckets.set_stands_in(bucket);
            }
            let meta = bucket_meta::encode(meta).into();
            batch.put_bytes(key::bucket_meta(bucket), meta);
        }
        // What stands in for finer levels was found out under this policy.
        let policy = self.maintenance.retention.policy();
        if !policy.is_some_and(|policy| Arc::ptr_eq(&policy, &self.policy)) {
            return Err(self.watch.stale("the policy has changed".into()));
        }
        self.limit.take()?;
        failpoint::pass("merge.write");
        let write = self.maintenance.context.engine.db().write(batch);
        let cache = self.maintenance.buckets.cache();
        let written = cache.during_write(&self.buckets, write).await;
        written.map_err(Error::store(MERGING))?;
        failpoint::pass("merge.written");
        Ok(bytes)
    }

    /// Nothing is left in the overlays: from here on they are not listed any more.
    async fn commit(&mut self, view: &View) -> Result<()> {
        let (maintenance, overlays) = (self.maintenance, &self.plan.overlays);
        let _no_flush = maintenance.ingest.lock_flushes().await;
        for source in &self.sources[..overlays.len()] {
            let (_, hash) = read_meta(view, source.bucket).await?;
            if hash != source.job_source().meta_hash {
                let reason = format!("{} was written to while it was merged", source.bucket);
                return Err(self.watch.stale(reason));
            }
        }
        let mut listed = stored_list(view).await?;
        for overlay in overlays {
            if !listed.remove(overlay) {
                return Err(self.watch.stale(format!("{overlay} is no longer listed")));
            }
        }
        self.limit.take()?;
        let now_ms = maintenance.context.clock.now_ms();
        let mut batch = WriteBatch::new();
        put_list(&mut batch, &listed, overlays, now_ms);
        let failed = || Error::store(MERGING);
        failpoint::pass("merge.write");
        let written = maintenance.context.engine.db().write(batch).await;
        let written = written.map(drop).map_err(failed());
        let fail = |reason: &str| maintenance.ingest.journal().fail(reason);
        maintenance
            .buckets
            .committed(written, None, overlays, now_ms, fail)
            .await?;
        failpoint::pass("merge.committed");
        maintenance
            .context
            .engine
            .db()
            .flush()
            .await
            .map_err(failed())
    }
}
