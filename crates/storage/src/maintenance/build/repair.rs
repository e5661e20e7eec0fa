//! Repairing: a bucket that is listed inside a larger one joins it, and is retired.
//!
//! ```text
//! hold back ─► series map of both ─► batches of series: unite, encode, compare ─► one write each
//!    ─► commit: the inner bucket retired
//! ```
//!
//! No job leaves such buckets behind, but a database may have them from a version whose jobs did
//! not compare all of their window. The larger one has no copy of what the other holds, and every
//! later write to its hours went to the larger one: at a time that both have a sample of, the
//! larger one's is the newer and stays.
//!
//! Holds always:
//! - Readers unite both in the same way, so an answer is the same before, meanwhile and afterwards.
//! - A batch is one write: series with their index, samples and BucketMeta. A repeat finds what is
//!   there and adds nothing, so it may be cut anywhere.
//! - Flushes and deletions of the window wait, as for coarsening.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use icecore_records::bucket_meta::{self, BucketMeta};
use icecore_records::{SeriesId, forward_index, inverted_index, key};
use rayon::prelude::*;
use roaring::RoaringBitmap;
use slatedb::WriteBatch;
use tracing::info;

use super::super::pace::Watch;
use super::batches::{Batch, Batches, SeriesRecords};
use super::clean_bucket;
use super::commit::committed;
use super::series::{EncodedSeries, MergedSeries, SampleCounts, encode_series, unite};
use super::series_map::{Merge, SeriesMap, UnsortedRun};
use super::sources::{Source, read_meta, read_sources};
use super::write_limit::WriteLimit;
use crate::buckets::list::Overlap;
use crate::buckets::time_columns::TimesPlacement;
use crate::buckets::{put_list, stored_list};
use crate::error::{Error, Result};
use crate::maintenance::Maintenance;
use crate::slate::fetch::{fetch, join_bounded};
use crate::slate::read_view::{ScanKind, View};

/// Pages of series that are read at once.
const CONCURRENT_PAGES: usize = 8;

/// The places of the two buckets among the sources: older writes first.
const INSIDE: usize = 0;
const AROUND: usize = 1;

/// Stands for "no series of the larger bucket".
const NO_SERIES: u32 = u32::MAX;

/// What a series of the inner bucket adds to the larger one.
struct Addition {
    encoded: EncodedSeries,
    /// Its id in the inner bucket, if the larger one does not have it.
    new_from: Option<SeriesId>,
    added: SampleCounts,
}

/// Lets the inner bucket join the larger one. Returns how many series it added something to.
pub(crate) async fn repair(
    maintenance: &Arc<Maintenance>,
    overlap: Overlap,
    watch: &Watch,
) -> Result<u64> {
    repair_until(maintenance, overlap, watch, None).await
}

/// The same; with `writes_max` it is interrupted when it wants to write more often than that.
pub(crate) async fn repair_until(
    maintenance: &Arc<Maintenance>,
    overlap: Overlap,
    watch: &Watch,
    writes_max: Option<u64>,
) -> Result<u64> {
    let started = Instant::now();
    let Overlap { inside, around } = overlap;
    clean_bucket(maintenance, inside, watch).await?;
    clean_bucket(maintenance, around, watch).await?;
    let _held = {
        let turn = maintenance.ingest.hold().turn().await;
        let frozen = maintenance.ingest.lock_flushes().await;
        check(maintenance, overlap).map_err(|reason| watch.stale(reason))?;
        turn.begin(around, &frozen)?
    };
    let view = maintenance.context.engine.live_view();
    let mut sources = read_sources(&view, &[inside, around]).await?;
    refuse_unfinished(&view, &sources[AROUND]).await?;
    let map = map_series(maintenance, watch, &mut sources).await?;
    let mut repairing = Repair {
        maintenance,
        watch,
        overlap,
        ids: Arc::new(ids_of(&map, &sources[AROUND])),
        meta: sources[AROUND].meta.clone(),
        gave_ids: false,
        series: 0,
        limit: WriteLimit::new(writes_max),
    };
    repairing.run(&view, &sources, &map).await?;
    repairing.commit(&view, &sources).await?;
    let (series, seconds) = (repairing.series, started.elapsed().as_secs_f64());
    info!(%inside, %around, series, seconds, "bucket merged into the larger one around it");
    Ok(series)
}

/// Whether both are as the plan has them. Says why not.
fn check(maintenance: &Maintenance, Overlap { inside, around }: Overlap) -> Result<(), String> {
    let listed = maintenance.buckets.listed();
    for bucket in [inside, around] {
        if !listed.contains(&bucket) {
            return Err(format!("{bucket} is no longer listed"));
        }
        if maintenance.buckets.tombstones().of(bucket).is_some() {
            return Err(format!("something was deleted from {bucket} just now"));
        }
    }
    Ok(())
}

/// Refuses a bucket with series of a flush that did not reach its commit: their ids would become
/// valid without their index. That flush is repeated first.
async fn refuse_unfinished(view: &View, source: &Source) -> Result<()> {
    let bucket = source.bucket;
    let next = SeriesId(source.meta.next_series_id);
    let range = (
        Bound::Included(key::forward_index(bucket, next)),
        Bound::Included(key::forward_index(bucket, SeriesId(u32::MAX))),
    );
    let mut records = view.scan(range, ScanKind::Once).await?;
    let found = records.next().await;
    match found.map_err(Error::store("reading series"))? {
        Some(_) => Err(Error::Unavailable(
            format!("an interrupted flush into {bucket} has to be repeated first").into(),
        )),
        None => Ok(()),
    }
}

/// Which series of one bucket is which of the other. A run that is not in label order is cut.
pub(super) async fn map_series(
    maintenance: &Maintenance,
    watch: &Watch,
    sources: &mut [Source],
) -> Result<SeriesMap> {
    loop {
        match merge_all(maintenance, watch, sources).await? {
            Ok(map) => return Ok(map),
            Err(UnsortedRun { source, id }) => sources[source].break_run(id),
        }
    }
}

async fn merge_all(
    maintenance: &Maintenance,
    watch: &Watch,
    sources: &[Source],
) -> Result<Result<SeriesMap, UnsortedRun>> {
    let view = maintenance.context.engine.live_view();
    let mut merge = Merge::new(sources);
    while !merge.is_done() {
        let reads = merge.wanted().into_iter().map(|page| page.read(&view));
        let pages = join_bounded(reads.collect(), CONCURRENT_PAGES).await?;
        watch
            .read(pages.iter().map(|page| page.bytes).sum())
            .await?;
        let work = move || {
            merge.accept(pages)?;
            let advanced = merge.advance().map(drop);
            Ok::<_, Error>(advanced.map(|()| merge))
        };
        merge = match maintenance.context.job_pool.run(work).await?? {
            Ok(merge) => merge,
            Err(unsorted) => return Ok(Err(unsorted)),
        };
    }
    Ok(Ok(merge.map))
}

/// The ids of the larger bucket by those of the map.
fn ids_of(map: &SeriesMap, around: &Source) -> Vec<u32> {
    let mut ids = vec![NO_SERIES; map.len() as usize];
    for id in 0..around.meta.next_series_id {
        if let Some(new) = map.new_id(AROUND, id) {
            ids[new as usize] = id;
        }
    }
    ids
}

struct Repair<'m> {
    maintenance: &'m Arc<Maintenance>,
    watch: &'m Watch,
    overlap: Overlap,
    /// The ids of the larger bucket by those of the map.
    ids: Arc<Vec<u32>>,
    /// BucketMeta of the larger one, as it was last written.
    meta: BucketMeta,
    /// Whether it has got new series.
    gave_ids: bool,
    /// Series that something was added to.
    series: u64,
    limit: WriteLimit,
}

impl Repair<'_> {
    async fn run(&mut self, view: &View, sources: &[Source], map: &SeriesMap) -> Result<()> {
        let mut batches = Batches::new(sources, map, 0);
        let (mut done, total) = (0, u64::from(map.len()));
        while let Some(batch) = batches.read(view).await? {
            self.watch.read(batch.bytes).await?;
            done += batch.series.len() as u64;
            let (overlap, ids) = (self.overlap, Arc::clone(&self.ids));
            let next_id = self.meta.next_series_id;
            let work = move || additions(overlap, batch, &ids, next_id);
            let additions = self.maintenance.context.job_pool.run(work).await??;
            let bytes = self.write(view, additions).await?;
            self.watch.phase("repair", done, total);
            self.watch.wrote(bytes).await?;
        }
        Ok(())
    }

    /// Writes what a batch adds. Returns how many bytes that are.
    async fn write(&mut self, view: &View, additions: Vec<Addition>) -> Result<usize> {
        if additions.is_empty() {
            return Ok(0);
        }
        let around = self.overlap.around;
        let (mut batch, mut bytes) = (WriteBatch::new(), 0);
        let (series, postings) = self.new_series(view, &additions).await?;
        for (key, value) in series {
            bytes += key.len() + value.len();
            batch.put_bytes(key, value);
        }
        for (key, mut ids) in postings {
            let value = inverted_index::encode(&mut ids);
            bytes += key.len() + value.len();
            batch.merge(key, value);
        }
        for addition in additions {
            self.series += 1;
            self.count(&addition);
            for (key, value) in addition.encoded.records {
                bytes += key.len() + value.len();
                batch.put_bytes(key, value);
            }
        }
        let meta = bucket_meta::encode(&self.meta).into();
        batch.put_bytes(key::bucket_meta(around), meta);
        self.limit.take()?;
        let maintenance = self.maintenance;
        maintenance.buckets.cache().begin_change(around);
        let written = maintenance.context.engine.db().write(batch).await;
        written.map_err(Error::store("repairing buckets that overlap"))?;
        maintenance.buckets.cache().end_change(around);
        Ok(bytes)
    }

    /// Forward records and postings of the series that the larger bucket does not have yet.
    async fn new_series(
        &self,
        view: &View,
        additions: &[Addition],
    ) -> Result<(Vec<(Bytes, Bytes)>, BTreeMap<Bytes, RoaringBitmap>)> {
        let Overlap { inside, around } = self.overlap;
        let ids = additions.iter().filter_map(|addition| {
            let old = addition.new_from?;
            Some((old.0, addition.encoded.id))
        });
        let ids: BTreeMap<u32, u32> = ids.collect();
        let old_ids: Vec<u32> = ids.keys().copied().collect();
        let gets = self.maintenance.context.options.read.concurrent_gets;
        let key_of = |id| key::forward_index(inside, id);
        let found = fetch(view, &old_ids, key_of, false, gets).await?;
        let mut records = Vec::with_capacity(found.len());
        let mut postings: BTreeMap<Bytes, RoaringBitmap> = BTreeMap::new();
        for record in found {
            let Some(id) = ids.get(&record.id.0) else {
                continue;
            };
            let decoded = forward_index::decode(&record.value).map_err(Error::corrupt(format!(
                "series {} in bucket {inside}",
                record.id
            )))?;
            for (name, value) in decoded.labels.iter() {
                let key = key::inverted_index(around, name, value);
                postings.entry(key).or_default().insert(*id);
            }
            let key = key::forward_index(around, SeriesId(*id));
            records.push((key, Bytes::copy_from_slice(&record.value)));
        }
        Ok((records, postings))
    }

    fn count(&mut self, addition: &Addition) {
        let (meta, added) = (&mut self.meta, addition.added);
        meta.float_samples += added.floats;
        meta.histogram_samples += added.histograms;
        meta.exemplars += added.exemplars;
        meta.has_histograms |= added.histograms > 0;
        meta.has_start_timestamps |= addition.encoded.has_starts;
        if let Some((first, last)) = addition.encoded.range_ms {
            meta.min_timestamp_ms = meta.min_timestamp_ms.min(first);
            meta.max_timestamp_ms = meta.max_timestamp_ms.max(last);
        }
        if addition.new_from.is_some() {
            let id = addition.encoded.id;
            // New ids of all batches are in label order: one run.
            if !self.gave_ids {
                meta.run_starts.push(SeriesId(id));
                self.gave_ids = true;
            }
            meta.next_series_id = id + 1;
        }
    }

    /// From here on the inner bucket is not listed any more.
    async fn commit(&mut self, view: &View, sources: &[Source]) -> Result<()> {
        let maintenance = self.maintenance;
        let Overlap { inside, around } = self.overlap;
        let _no_flush = maintenance.ingest.lock_flushes().await;
        let (_, hash) = read_meta(view, inside).await?;
        let (meta, _) = read_meta(view, around).await?;
        if hash != sources[INSIDE].job_source().meta_hash || meta != self.meta {
            let reason = format!("{inside} or {around} was written to while they were repaired");
            return Err(self.watch.stale(reason));
        }
        let mut listed = stored_list(view).await?;
        if !listed.contains(&around) || !listed.remove(&inside) {
            let reason = format!("{inside} or {around} is no longer listed");
            return Err(self.watch.stale(reason));
        }
        self.limit.take()?;
        let now_ms = maintenance.context.clock.now_ms();
        let mut batch = WriteBatch::new();
        put_list(&mut batch, &listed, &[inside], now_ms);
        let failed = || Error::store("repairing buckets that overlap");
        let written = maintenance.context.engine.db().write(batch).await;
        let written = written.map(drop).map_err(failed());
        committed(maintenance, written, (around, None), &[inside], now_ms).await?;
        maintenance
            .context
            .engine
            .db()
            .flush()
            .await
            .map_err(failed())
    }
}

/// What the series of a batch add to the larger bucket; those that it does not have get the ids
/// from `next_id` on.
fn additions(overlap: Overlap, batch: Batch, ids: &[u32], next_id: u32) -> Result<Vec<Addition>> {
    let buckets = [overlap.inside, overlap.around];
    let united = batch.series.into_par_iter().map(|series| {
        let new = series.id;
        let (older, newer): (Vec<_>, Vec<_>) = series
            .records
            .into_iter()
            .partition(|record| record.source == INSIDE);
        let Some(old_id) = older.first().map(|record| record.id) else {
            return Ok(None);
        };
        let of = |records| {
            unite(
                &buckets,
                &batch.columns,
                &SeriesRecords { id: new, records },
            )
        };
        let (older, newer) = (of(older)?, of(newer)?);
        let before = newer.counted();
        let united = older.under(newer);
        let added = united.counted().since(before);
        Ok((added != SampleCounts::default()).then_some((old_id, united, added)))
    });
    let united: Vec<_> = united.collect::<Result<_>>()?;
    let mut next_id = next_id;
    let mut numbered: Vec<(Option<SeriesId>, MergedSeries, SampleCounts)> = Vec::new();
    for (old_id, mut series, added) in united.into_iter().flatten() {
        let known = ids.get(series.id as usize).copied();
        let known = known.filter(|id| *id != NO_SERIES);
        series.id = match known {
            Some(id) => id,
            None => next_id,
        };
        if known.is_none() {
            next_id = next_id.checked_add(1).ok_or_else(|| {
                Error::LimitReached(format!("bucket {} has 2^32 series", overlap.around))
            })?;
        }
        numbered.push((known.is_none().then_some(old_id), series, added));
    }
    let encoded = numbered.into_par_iter().map(|(new_from, series, added)| {
        Ok(Addition {
            encoded: encode_series(overlap.around, &series, &TimesPlacement::Own)?,
            new_from,
            added,
        })
    });
    encoded.collect()
}
