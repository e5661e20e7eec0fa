//! Merging late samples: what overlays hold joins windows whose own samples are gone, in place.
//!
//! ```text
//! hold back ─► series map of all ─► batches of series, one write each:
//!     windows of every level merged and put, the samples deleted ─► commit: overlays retired
//! ```
//!
//! Holds always:
//! - A batch is one write: new series with their index, windows, BucketMetas, and the deletion of
//!   the samples. So a sample is in an overlay or in its windows, never in both, and not in the
//!   windows of one level only. A repeat finds less to do; it may be cut anywhere.
//! - Readers merge what is left of overlays in the same way: an answer is the same before,
//!   meanwhile and afterwards.
//! - Flushes and deletions of the window wait, and the head has nothing of the hours of the
//!   overlays that might be in them, too.

mod read;
mod series;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Instant;

use icecore_records::{Bucket, bucket_meta, inverted_index, key};
use slatedb::WriteBatch;
use tracing::info;

use super::super::pace::Watch;
use super::super::retention::{MergePlan, targets_of};
use super::clean_bucket;
use super::mend::map_series;
use super::series_map::SeriesMap;
use super::sources::{Source, read_meta, read_sources};
use super::windows::SeriesFilter;
use crate::buckets::{put_list, stored_list};
use crate::error::{Error, Result};
use crate::maintenance::Maintenance;
use crate::slate::read_view::View;
use read::{ChunkReader, OverlaySeries};
use series::{Target, Writes};

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
    for bucket in plan.overlays.iter().chain(&plan.targets) {
        clean_bucket(maintenance, *bucket, watch).await?;
    }
    maintenance.context.pauses.pass("merge.planned").await;
    let _held = {
        let turn = maintenance.ingest.hold().turn().await;
        let frozen = maintenance.ingest.lock_flushes().await;
        check(maintenance, plan).map_err(|reason| watch.stale(reason))?;
        let held = turn.begin(plan.around, &frozen)?;
        maintenance.buckets.begin_merge();
        held
    };
    let view = maintenance.context.engine.live_view();
    let all: Vec<Bucket> = plan.overlays.iter().chain(&plan.targets).copied().collect();
    let mut sources = read_sources(&view, &all).await?;
    let map = map_series(maintenance, watch, &mut sources).await?;
    let mut merging = Merging {
        maintenance,
        watch,
        plan,
        targets: targets(maintenance, plan, &sources)?,
        sources: &sources,
        buckets: all.into(),
        series: 0,
        writes_left: writes_max,
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
    let is_unknown = |overlay: &&Bucket| !listed.overlays().contains(overlay);
    if let Some(overlay) = plan.overlays.iter().find(is_unknown) {
        return Err(format!("{overlay} is no longer listed"));
    }
    let mut all = plan.overlays.iter().chain(&plan.targets);
    if let Some(bucket) = all.find(|b| maintenance.buckets.tombstones().of(**b).is_some()) {
        return Err(format!("something was deleted from {bucket} just now"));
    }
    // A flush that was cut off may have left some of it in an overlay.
    let open = maintenance.ingest.head().open_hours();
    let in_overlays = |time_ms: i64| plan.overlays.iter().any(|o| o.contains(time_ms));
    match open.iter().find(|hour| in_overlays(hour.start_ms())) {
        Some(hour) => Err(format!("late samples of hour {hour} are not flushed yet")),
        None => Ok(()),
    }
}

fn targets(maintenance: &Maintenance, plan: &MergePlan, sources: &[Source]) -> Result<Vec<Target>> {
    let policy = maintenance.retention.policy();
    let of_windows = sources.iter().enumerate().skip(plan.overlays.len());
    let target = |(at, source): (usize, &Source)| {
        let resolution = source.meta.resolution().filter(|of| !of.is_raw());
        let resolution = resolution.ok_or_else(|| {
            Error::Corrupt(format!("bucket {} has no windows", source.bucket).into())
        })?;
        let filter = SeriesFilter::new(policy.clone(), resolution).map(Arc::new);
        let meta = source.meta.clone();
        Ok(Target::new(at, source.bucket, resolution, meta, filter))
    };
    of_windows.map(target).collect()
}

struct Merging<'m> {
    maintenance: &'m Arc<Maintenance>,
    watch: &'m Watch,
    plan: &'m MergePlan,
    /// The overlays, and then the buckets of windows.
    sources: &'m [Source],
    buckets: Arc<[Bucket]>,
    targets: Vec<Target>,
    /// Series that had something.
    series: u64,
    /// How many writes are let through before it is interrupted, for tests.
    writes_left: Option<u64>,
}

impl Merging<'_> {
    async fn run(&mut self, view: &View, map: &SeriesMap) -> Result<()> {
        let series = self.series_of_overlays(map);
        let ids: Vec<HashMap<u32, u32>> = self.ids_in_targets(map, &series);
        let (mut done, total) = (0, series.len() as u64);
        let series: Vec<OverlaySeries> = series.into_iter().collect();
        let batch_max = self.maintenance.context.options.head.flush_batch_records;
        for some in series.chunks(batch_max.clamp(1, BATCH_SERIES)) {
            let reader = ChunkReader {
                view,
                sources: self.sources,
                overlays: self.plan.overlays.len(),
                concurrent_gets: self.maintenance.context.options.read.concurrent_gets,
            };
            let (chunk, bytes) = reader.read(some, &self.targets, &ids).await?;
            self.watch.read(bytes).await?;
            let (buckets, targets) = (Arc::clone(&self.buckets), self.targets.clone());
            let overlays = self.plan.overlays.len();
            let work = move || chunk.merge(&buckets, overlays, targets);
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

    /// For each target the ids that it has for these series.
    fn ids_in_targets(
        &self,
        map: &SeriesMap,
        series: &BTreeMap<u32, Vec<(usize, u32)>>,
    ) -> Vec<HashMap<u32, u32>> {
        let of_target = |target: &Target| {
            let ids = 0..target.meta.next_series_id;
            let ids = ids.filter_map(|id| Some((map.new_id(target.at, id)?, id)));
            ids.filter(|(new, _)| series.contains_key(new)).collect()
        };
        self.targets.iter().map(of_target).collect()
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
        for target in &self.targets {
            let meta = bucket_meta::encode(&target.meta).into();
            batch.put_bytes(key::bucket_meta(target.bucket()), meta);
        }
        self.may_write()?;
        let cache = self.maintenance.buckets.cache();
        for bucket in self.buckets.iter() {
            cache.begin_change(*bucket);
        }
        let written = self.maintenance.context.engine.db().write(batch).await;
        written.map_err(Error::store(MERGING))?;
        for bucket in self.buckets.iter() {
            cache.end_change(*bucket);
        }
        Ok(bytes)
    }

    fn may_write(&mut self) -> Result<()> {
        match &mut self.writes_left {
            Some(0) => Err(Error::Unavailable("the job was interrupted".into())),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
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
        self.may_write()?;
        let now_ms = maintenance.context.clock.now_ms();
        let mut batch = WriteBatch::new();
        put_list(&mut batch, &listed, overlays, now_ms);
        let failed = || Error::store(MERGING);
        let written = maintenance.context.engine.db().write(batch).await;
        let written = written.map(drop).map_err(failed());
        let fail = |reason: &str| maintenance.ingest.journal().fail(reason);
        maintenance
            .buckets
            .committed(written, None, overlays, now_ms, fail)
            .await?;
        maintenance
            .context
            .engine
            .db()
            .flush()
            .await
            .map_err(failed())
    }
}
