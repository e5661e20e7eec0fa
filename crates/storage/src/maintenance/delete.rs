//! The deletion of series, or of a range of their samples.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use icecore_model::rollup::Resolution;
use icecore_model::{BucketSize, BucketStart, HOUR_MS, Matcher};
use icecore_records::Bucket;
use icecore_records::bucket_meta::{self, BucketMeta};
use icecore_records::key;
use icecore_records::tombstones::Tombstones;
use roaring::RoaringBitmap;
use slatedb::WriteBatch;
use tracing::info;

use super::Maintenance;
use super::build::stored_job;
use crate::buckets::contents::{self, DeletionEffect};
use crate::buckets::tombstones::put;
use crate::buckets::{LeasedBuckets, list, read_meta};
use crate::error::{Error, Result};
use crate::failpoint;
use crate::ingest::flush::{FrozenHours, Retry, flush_hours, time_of};
use crate::read::{BucketView, bucket_meta_of, resolve, views_of};
use crate::slate::fetch::join_bounded;

/// Selectors of one request.
const SELECTORS_MAX: usize = 256;

/// Buckets that are looked through at once.
const CONCURRENT_BUCKETS: usize = 8;

/// Series whose samples are decoded at once, where a range ends inside a bucket.
const BATCH_SERIES: usize = 1024;

/// What the tombstones of all buckets may take in memory.
const BYTES_MAX: usize = 64 << 20;

/// Different ranges of one bucket: each is looked at for each sample of a series that lost it.
const RANGES_MAX: usize = 256;

/// What to delete: samples, histograms and exemplars from `start_ms` to `end_ms`, both included, of
/// the series that match any of the selectors.
#[derive(Clone, Debug)]
pub struct Deletion {
    pub selectors: Vec<Vec<Matcher>>,
    pub start_ms: i64,
    pub end_ms: i64,
}

impl Deletion {
    fn check(&self) -> Result<()> {
        let selectors = self.selectors.len();
        if selectors == 0 {
            return Err(Error::Invalid("no selector says what to delete".into()));
        }
        if selectors > SELECTORS_MAX {
            return Err(Error::Invalid(
                format!(
                    "{selectors} selectors in one request, more than {SELECTORS_MAX}: split it"
                )
                .into(),
            ));
        }
        if self.start_ms > self.end_ms {
            return Err(Error::Invalid("the end is before the start".into()));
        }
        Ok(())
    }

    /// The same for windows of a width: those that it touches go as a whole. 0: samples.
    fn by_windows(&self, width_ms: i64) -> Self {
        let mut deletion = self.clone();
        if width_ms > 0 {
            let floor = |ms: i64| ms.saturating_sub(ms.rem_euclid(width_ms));
            deletion.start_ms = floor(self.start_ms);
            deletion.end_ms = floor(self.end_ms).saturating_add(width_ms - 1);
        }
        deletion
    }

    /// The time before and behind it that the windows of a bucket at its ends reach into, where
    /// `widened` is the same by windows.
    fn cut_windows(&self, widened: &Self, bucket: Bucket) -> [Option<Range<i64>>; 2] {
        let is_here = |ms: i64| (bucket.start_ms()..bucket.end_ms()).contains(&ms);
        let before = widened.start_ms..self.start_ms;
        let behind = self.end_ms.saturating_add(1)..widened.end_ms.saturating_add(1);
        let (is_before, is_behind) = (is_here(widened.start_ms), is_here(widened.end_ms));
        [
            (is_before && !before.is_empty()).then_some(before),
            (is_behind && !behind.is_empty()).then_some(behind),
        ]
    }

    fn covers(&self, bucket: Bucket) -> bool {
        self.start_ms <= bucket.start_ms() && self.end_ms >= bucket.end_ms() - 1
    }

    fn touches(&self, bucket: Bucket) -> bool {
        self.start_ms < bucket.end_ms() && self.end_ms >= bucket.start_ms()
    }
}

/// What a deletion took beside what it was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeletionReport {
    /// Finest level first, in time order: at most one range before and one behind the request for
    /// each level.
    pub beyond: Vec<DeletedBeyond>,
}

/// Time outside of a deletion of which it took something. A window whose samples are gone cannot
/// lose some of them: it goes whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeletedBeyond {
    pub resolution: Resolution,
    pub start_ms: i64,
    /// The first millisecond after it.
    pub end_ms: i64,
}

/// Hides what is to be deleted. Durable when it returns.
pub(crate) async fn delete_series(
    maintenance: &Arc<Maintenance>,
    deletion: Deletion,
) -> Result<DeletionReport> {
    deletion.check()?;
    let maintenance = Arc::clone(maintenance);
    // To its end, also when whoever asked for it goes away.
    let work = tokio::spawn(async move { delete(&maintenance, Arc::new(deletion)).await });
    let ended = work.await;
    ended.map_err(Error::ended_abnormally("a deletion"))?
}

async fn delete(maintenance: &Arc<Maintenance>, deletion: Arc<Deletion>) -> Result<DeletionReport> {
    let started = std::time::Instant::now();
    let mut turn = None;
    loop {
        if flush_matching(maintenance, &deletion).await? {
            maintenance.context.pauses.pass("delete.flushed").await;
            let frozen = maintenance.ingest.lock_flushes().await;
            let window = maintenance.ingest.hold().window();
            if !window.is_some_and(|window| deletion.touches(window)) {
                refuse_quarantined(maintenance, &deletion).await?;
                let (buckets, beyond) = erase(maintenance, &deletion, &frozen).await?;
                drop(frozen);
                let seconds = started.elapsed().as_secs_f64();
                let (start_ms, end_ms) = (deletion.start_ms, deletion.end_ms);
                let selectors = deletion.selectors.len();
                info!(
                    selectors,
                    start_ms,
                    end_ms,
                    buckets,
                    seconds,
                    ?beyond,
                    "series deleted"
                );
                maintenance.context.metrics.deletions.add(1);
                // What can be cleaned now is found at once.
                maintenance.jobs.wake.notify_one();
                return Ok(DeletionReport { beyond });
            }
        }
        // A job copies records that would be deleted. It is told that somebody waits, and hurries;
        // with the turn nothing is held back, and the next job comes behind this deletion.
        drop(turn.take());
        turn = Some(maintenance.ingest.hold().turn().await);
    }
}

/// Moves the hours in which the head has something to be deleted into buckets. False when a job
/// holds back some of them.
async fn flush_matching(maintenance: &Arc<Maintenance>, deletion: &Arc<Deletion>) -> Result<bool> {
    let (head, cache) = (
        Arc::clone(maintenance.ingest.head()),
        Arc::clone(maintenance.buckets.cache()),
    );
    let wanted = Arc::clone(deletion);
    let found = move || {
        let range_ms = (wanted.start_ms, wanted.end_ms);
        wanted.selectors.iter().any(|matchers| {
            let found = head.select(matchers, range_ms, true, &cache);
            !found.series.is_empty()
        })
    };
    if !maintenance.context.pool.run(found).await? {
        return Ok(true);
    }
    let mut hours = maintenance.ingest.head().open_hours();
    hours.retain(|hour| deletion.touches(Bucket::hour(*hour)));
    // Also without any: what an earlier flush failed to write comes first.
    let held_back = flush_hours(&maintenance.ingest, hours, Retry::All).await?;
    Ok(held_back.is_empty())
}

/// What lies in an hour that cannot be flushed cannot be deleted: tombstones speak of buckets.
async fn refuse_quarantined(
    maintenance: &Arc<Maintenance>,
    deletion: &Arc<Deletion>,
) -> Result<()> {
    for hour in maintenance.ingest.quarantine().list() {
        let last_ms = hour.start_ms + HOUR_MS - 1;
        let range_ms = (
            deletion.start_ms.max(hour.start_ms),
            deletion.end_ms.min(last_ms),
        );
        if range_ms.0 > range_ms.1 {
            continue;
        }
        let (head, cache) = (
            Arc::clone(maintenance.ingest.head()),
            Arc::clone(maintenance.buckets.cache()),
        );
        let wanted = Arc::clone(deletion);
        let found = move || {
            let mut selectors = wanted.selectors.iter();
            selectors.any(|matchers| {
                let found = head.select(matchers, range_ms, true, &cache);
                !found.series.is_empty()
            })
        };
        if maintenance.context.pool.run(found).await? {
            let start = BucketSize::HOUR
                .bucket_of(hour.start_ms)
                .map_or_else(String::new, time_of);
            let cause = hour.cause;
            return Err(Error::Corrupt(format!(
                "nothing was deleted: the hour {start} has matching samples and cannot be flushed ({cause}); \
                 delete what lies before and behind it, or repair its bucket"
            ).into()));
        }
    }
    Ok(())
}

/// Finds out what is deleted from which bucket and writes it down. The caller holds the flush lock.
/// Returns how many buckets have lost something, and what went beside what was asked for.
async fn erase(
    maintenance: &Arc<Maintenance>,
    deletion: &Arc<Deletion>,
    frozen: &FrozenHours,
) -> Result<(usize, Vec<DeletedBeyond>)> {
    let (leased, remade) = lease(maintenance, deletion);
    let views = views_of(&maintenance.reader, &leased)?;
    let mut changed: Vec<(Bucket, Tombstones)> = Vec::new();
    let mut outdated: Vec<OutdatedWindows> = Vec::new();
    let mut beyond: BTreeSet<DeletedBeyond> = BTreeSet::new();
    let is_kept = |view: &BucketView| !remade.contains(&view.bucket);
    let (views, remade): (Vec<_>, Vec<_>) = views.into_iter().partition(is_kept);
    for view in &remade {
        if !matching_in(maintenance, view, deletion).await?.is_empty() {
            outdated.push(outdate(view, deletion).await?);
        }
    }
    let mut bytes = maintenance.buckets.tombstones().bytes();
    for some in views.chunks(CONCURRENT_BUCKETS) {
        let mut searches = Vec::with_capacity(some.len());
        for view in some {
            searches.push(erase_in(maintenance, view, deletion));
        }
        let found = join_bounded(searches, CONCURRENT_BUCKETS).await?;
        for found in found.into_iter().flatten() {
            bytes += found.tombstones.size();
            changed.push((found.bucket, found.tombstones));
            beyond.extend(found.beyond);
        }
        if bytes > BYTES_MAX {
            return Err(Error::LimitReached(format!(
                "tombstones would take more than {BYTES_MAX} bytes: clean them, or delete less at once"
            )));
        }
    }
    if changed.is_empty() && outdated.is_empty() {
        return Ok((0, Vec::new()));
    }
    hold_from_here(maintenance, &mut changed, frozen).await?;
    failpoint::pass("delete.before");
    write(maintenance, &changed, &outdated).await?;
    Ok((changed.len(), beyond.into_iter().collect()))
}

/// A bucket of windows some hours of which are to be read from what they were made of.
struct OutdatedWindows {
    bucket: Bucket,
    meta: BucketMeta,
}

/// The buckets in which something may be deleted, and which of them are made again from those that
/// they were made of.
fn lease(maintenance: &Maintenance, deletion: &Deletion) -> (LeasedBuckets, BTreeSet<Bucket>) {
    let (start_ms, end_ms) = (deletion.start_ms, deletion.end_ms);
    maintenance.buckets.lease_chosen(|listed| {
        let mut all = list::in_range(listed.raw(), start_ms, end_ms);
        all.extend(list::in_range(listed.overlays(), start_ms, end_ms));
        all.extend(listed.remnants_in(start_ms, end_ms));
        let mut remade = BTreeSet::new();
        for level in listed.rolled().values() {
            for bucket in list::in_range(level, start_ms, end_ms) {
                all.push(bucket);
                if listed
                    .facts(bucket)
                    .is_some_and(|facts| !facts.sources_gone)
                {
                    remade.insert(bucket);
                }
            }
        }
        (all, remade)
    })
}

/// The meta of a bucket of windows that says that hours of a deletion are out of date.
async fn outdate(from: &BucketView, deletion: &Deletion) -> Result<OutdatedWindows> {
    let bucket = from.bucket;
    // From the store: what is cached may be older.
    let mut meta = read_meta(&from.view, bucket).await?;
    let touched = |hour: &BucketStart| deletion.touches(Bucket::hour(*hour));
    let hours = bucket.each_hour().filter(touched).map(BucketStart::minutes);
    let all: BTreeSet<u32> = meta.dirty_hours.iter().copied().chain(hours).collect();
    meta.dirty_hours = all.into_iter().collect();
    Ok(OutdatedWindows { bucket, meta })
}

/// Notes from which journal sequence on tombstones hold. The caller holds the flush lock: what is
/// in the head then was written meanwhile, or could not be flushed, and is not deleted.
async fn hold_from_here(
    maintenance: &Maintenance,
    changed: &mut [(Bucket, Tombstones)],
    frozen: &FrozenHours,
) -> Result<()> {
    let ranges: Vec<_> = changed.iter().map(|(bucket, _)| bucket.hours()).collect();
    let (closed_through, last_seq) = maintenance.ingest.head().closed_through(&ranges);
    for (((_, tombstones), hours), through) in changed.iter_mut().zip(ranges).zip(closed_through) {
        if frozen.range(hours).next().is_none() {
            tombstones.through_seq = tombstones.through_seq.max(through);
        }
    }
    // Numbers that a crash would give out again must not be spoken of.
    maintenance.ingest.journal().wait_durable(last_seq).await
}

async fn write(
    maintenance: &Arc<Maintenance>,
    changed: &[(Bucket, Tombstones)],
    outdated: &[OutdatedWindows],
) -> Result<()> {
    let mut batch = WriteBatch::new();
    for OutdatedWindows { bucket, meta } in outdated {
        let value = bucket_meta::encode(meta);
        batch.put(key::bucket_meta(*bucket), value);
    }
    for (bucket, tombstones) in changed {
        put(&mut batch, *bucket, tombstones);
    }
    // A job that was interrupted must not go on: its sources are not what they were.
    if let Some(job) = stored_job(maintenance).await? {
        let is_source = |bucket| job.sources.iter().any(|source| source.bucket == bucket);
        if changed.iter().any(|(bucket, _)| is_source(*bucket)) {
            batch.delete(key::maintenance_job());
        }
    }
    let failed = || Error::store("writing tombstones");
    for (bucket, _) in changed {
        maintenance.buckets.cache().begin_change(*bucket);
    }
    let handle = maintenance
        .context
        .engine
        .db()
        .write(batch)
        .await
        .map_err(failed());
    if handle.is_ok() {
        for OutdatedWindows { bucket, meta } in outdated {
            let hours = meta.dirty_hours.iter().copied().map(BucketStart);
            maintenance.buckets.set_dirty(*bucket, &hours.collect());
        }
        for (bucket, tombstones) in changed {
            maintenance
                .buckets
                .tombstones()
                .set(*bucket, tombstones.clone());
        }
    }
    for (bucket, _) in changed {
        maintenance.buckets.cache().end_change(*bucket);
    }
    let handle = handle?;
    maintenance
        .context
        .engine
        .db()
        .flush()
        .await
        .map_err(failed())?;
    handle.await_durable().await.map_err(failed())?;
    failpoint::pass("delete.written");
    Ok(())
}

/// The series of a bucket that match and are not erased.
async fn matching_in(
    maintenance: &Arc<Maintenance>,
    from: &BucketView,
    deletion: &Deletion,
) -> Result<RoaringBitmap> {
    let meta = bucket_meta_of(from).await?;
    let mut matching = RoaringBitmap::new();
    for matchers in &deletion.selectors {
        matching |= resolve(&maintenance.reader, from, matchers, meta.next_series_id).await?;
    }
    // Ids beyond are of a flush that did not reach its commit; what it wrote is still in the head.
    matching.remove_range(meta.next_series_id..);
    if let Some(tombstones) = &from.tombstones {
        matching -= &tombstones.erased;
    }
    Ok(matching)
}

/// A bucket that loses something.
struct ErasedIn {
    bucket: Bucket,
    /// Those that it has afterwards.
    tombstones: Tombstones,
    beyond: Vec<DeletedBeyond>,
}

/// What a bucket loses, if that is something.
async fn erase_in(
    maintenance: &Arc<Maintenance>,
    from: &BucketView,
    deletion: &Arc<Deletion>,
) -> Result<Option<ErasedIn>> {
    let bucket = from.bucket;
    let meta = bucket_meta_of(from).await?;
    let widened = Arc::new(deletion.by_windows(i64::from(meta.resolution_ms)));
    let matching = matching_in(maintenance, from, &widened).await?;
    if matching.is_empty() {
        return Ok(None);
    }
    let before = from.tombstones.clone().unwrap_or_default();
    let mut after = (*before).clone();
    let cut = deletion.cut_windows(&widened, bucket);
    let is_covered = widened.covers(bucket);
    let (mut erased, mut shortened) = (RoaringBitmap::new(), RoaringBitmap::new());
    let mut reached = [false; 2];
    // What goes whole is not read, so that what is damaged can go, too.
    let ids: Vec<u32> = if is_covered && cut == [None, None] {
        Vec::new()
    } else {
        matching.iter().collect()
    };
    for ids in ids.chunks(BATCH_SERIES) {
        let mut contents =
            contents::read(&maintenance.buckets, &from.view, bucket, &meta, ids).await?;
        contents.read_columns(&from.view).await?;
        let (known, request) = (Arc::clone(&before), Arc::clone(deletion));
        let wanted = Arc::clone(&widened);
        let work = move || {
            let range_ms = (wanted.start_ms, wanted.end_ms);
            let request_ms = (request.start_ms, request.end_ms);
            let lost = |id| known.ranges_of(id);
            let reached = contents.reach_beyond(request_ms, range_ms, lost);
            let fates = if is_covered {
                Vec::new()
            } else {
                contents.fates(range_ms, lost)?
            };
            Ok::<_, Error>((fates, reached))
        };
        let (fates, reached_by_these) = maintenance.context.pool.run(work).await??;
        for (id, fate) in fates {
            match fate {
                DeletionEffect::Untouched => {}
                DeletionEffect::Shortened => drop(shortened.insert(id)),
                DeletionEffect::Erased => drop(erased.insert(id)),
            }
        }
        for (reached, by_these) in reached.iter_mut().zip(reached_by_these) {
            *reached |= by_these;
        }
    }
    if is_covered {
        erased = matching;
    }
    if erased.is_empty() && shortened.is_empty() {
        return Ok(None);
    }
    after.erase(&erased);
    let first_ms = widened.start_ms.max(bucket.start_ms());
    let last_ms = widened.end_ms.min(bucket.end_ms() - 1);
    after.erase_range(first_ms, last_ms, &shortened);
    if after.ranges.len() > RANGES_MAX {
        return Err(Error::LimitReached(format!(
            "bucket {bucket} has lost more than {RANGES_MAX} different ranges: clean tombstones first"
        )));
    }
    let resolution = meta.resolution().unwrap_or(Resolution::RAW);
    let beyond = cut.into_iter().zip(reached);
    let beyond = beyond.filter_map(|(range, is_reached)| range.filter(|_| is_reached));
    let beyond = beyond.map(|range| DeletedBeyond {
        resolution,
        start_ms: range.start,
        end_ms: range.end,
    });
    Ok(Some(ErasedIn {
        bucket,
        tombstones: after,
        beyond: beyond.collect(),
    }))
}

#[cfg(test)]
mod tests {
    use icecore_model::{BucketSize, BucketStart};

    use super::*;

    #[test]
    fn a_range_covers_or_touches_a_bucket() {
        let bucket = Bucket {
            size: BucketSize::HOUR,
            start: BucketStart(60),
        };
        let deletion = |start_ms, end_ms| Deletion {
            selectors: Vec::new(),
            start_ms,
            end_ms,
        };
        let (first, last) = (HOUR_MS, 2 * HOUR_MS - 1);
        assert!(deletion(first, last).covers(bucket));
        assert!(!deletion(first + 1, last).covers(bucket));
        assert!(!deletion(first, last - 1).covers(bucket));
        assert!(deletion(last, last + 5).touches(bucket));
        assert!(!deletion(last + 1, last + 5).touches(bucket));
        assert!(deletion(0, first).touches(bucket));
        assert!(!deletion(0, first - 1).touches(bucket));
        assert!(deletion(0, 0).check().is_err());
    }

    #[test]
    fn windows_at_both_ends_are_cut() {
        let bucket = Bucket {
            size: BucketSize::HOUR,
            start: BucketStart(60),
        };
        let cut = |start_ms, end_ms| {
            let deletion = Deletion {
                selectors: Vec::new(),
                start_ms,
                end_ms,
            };
            let widened = deletion.by_windows(300_000);
            deletion.cut_windows(&widened, bucket)
        };
        let (first, last) = (HOUR_MS, 2 * HOUR_MS - 1);
        assert_eq!(cut(first, last), [None, None]);
        assert_eq!(cut(i64::MIN, i64::MAX), [None, None]);
        assert_eq!(cut(first + 1, last), [Some(first..first + 1), None]);
        let inside = [
            Some(first + 300_000..first + 300_007),
            Some(first + 300_010..first + 600_000),
        ];
        assert_eq!(cut(first + 300_007, first + 300_009), inside);
        // Windows of other buckets.
        assert_eq!(cut(first - 7, last + 7), [None, None]);
    }
}
