//! The buckets: which there are, who reads them, what was deleted from them and when they were
//! written.
//!
//! ```text
//! flush, job ─ commit ─► listed ─ lease ─► reader
//!                 └────► retired ─ no lease left ─► dropped
//! ```
//!
//! Holds always:
//! - A bucket is listed, retired, or an orphan whose records are dropped. Listed is what the
//!   store's list says: memory follows a commit, and asks the store when it does not know whether
//!   there was one.
//! - `retired` is locked before `listed`, `listed` before leases.
//! - What the cache knows of a bucket is given up before the first write to it.
//!
//! Elsewhere: who writes buckets (`crate::ingest::flush`, `crate::maintenance::build`).

pub(crate) mod contents;
pub(crate) mod encode;
pub(crate) mod ladder;
pub(crate) mod lease;
pub(crate) mod levels;
pub(crate) mod list;
mod recent;
pub(crate) mod record_kind;
pub(crate) mod strip;
pub(crate) mod time_columns;
pub(crate) mod tombstones;
pub(crate) mod united;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use icecore_model::BucketStart;
use icecore_model::rollup::Resolution;
use icecore_records::bucket_meta::{self, BucketMeta};
use icecore_records::{Bucket, ParsedKey, bucket_list, key, retired_bucket};
use parking_lot::{MappedRwLockReadGuard, RwLock, RwLockReadGuard};
use slatedb::WriteBatch;
use tracing::warn;

pub(crate) use recent::{Recent, RecentWrites};

use crate::cache::ReadCache;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::slate::read_view::{ScanKind, View};
use lease::{Lease, Leases};
use levels::{LevelSizes, Listed};
use tombstones::AllTombstones;

/// Retired buckets and when they were retired, in ms.
pub(crate) type Retired = BTreeMap<Bucket, i64>;

pub(crate) struct Buckets {
    context: Arc<Context>,
    cache: Arc<ReadCache>,
    listed: RwLock<Listed>,
    /// No longer listed and not yet dropped.
    retired: RwLock<Retired>,
    leases: Arc<Leases>,
    /// What was deleted from buckets and still lies in them.
    tombstones: AllTombstones,
    recent: RecentWrites,
}

/// Buckets to read, with the lease that keeps them.
pub(crate) struct LeasedBuckets {
    /// Oldest first, of one start the smallest first.
    pub(crate) buckets: Vec<Bucket>,
    pub(crate) lease: Arc<Lease>,
}

impl Buckets {
    /// The buckets of a store.
    pub(crate) async fn load(context: &Arc<Context>, cache: ReadCache) -> Result<Self> {
        let view = context.engine.live_view();
        Ok(Self {
            context: Arc::clone(context),
            cache: Arc::new(cache),
            listed: RwLock::new(stored_levels(&view).await?),
            retired: RwLock::new(stored_retired(&view).await?),
            leases: Arc::default(),
            tombstones: AllTombstones::load(&view).await?,
            recent: RecentWrites::default(),
        })
    }

    /// The listed buckets of raw samples.
    pub(crate) fn listed(&self) -> MappedRwLockReadGuard<'_, BTreeSet<Bucket>> {
        RwLockReadGuard::map(self.listed.read(), Listed::raw)
    }

    /// The listed buckets of all levels.
    pub(crate) fn levels(&self) -> RwLockReadGuard<'_, Listed> {
        self.listed.read()
    }

    pub(crate) fn retired(&self) -> RwLockReadGuard<'_, Retired> {
        self.retired.read()
    }

    pub(crate) fn leases(&self) -> &Leases {
        &self.leases
    }

    pub(crate) fn tombstones(&self) -> &AllTombstones {
        &self.tombstones
    }

    pub(crate) fn recent(&self) -> &RecentWrites {
        &self.recent
    }

    pub(crate) fn cache(&self) -> &Arc<ReadCache> {
        &self.cache
    }

    /// Leases the raw buckets that have something of a time range, of whatever sizes.
    pub(crate) fn lease(&self, start_ms: i64, end_ms: i64) -> LeasedBuckets {
        self.lease_chosen(|listed| (list::in_range(listed.raw(), start_ms, end_ms), ()))
            .0
    }

    /// Leases the buckets that are chosen, of any levels.
    pub(crate) fn lease_chosen<T>(
        &self,
        choose: impl FnOnce(&Listed) -> (Vec<Bucket>, T),
    ) -> (LeasedBuckets, T) {
        let listed = self.listed.read();
        let (buckets, chosen) = choose(&listed);
        // While the list is locked: a commit in between could retire and drop what was found.
        let lease = Arc::new(self.leases.take(&buckets));
        (LeasedBuckets { buckets, lease }, chosen)
    }

    /// A bucket that is about to be listed holds windows of a resolution, lean ones or full ones.
    pub(crate) fn learn(&self, bucket: Bucket, resolution: Resolution, lean: bool) {
        self.listed.write().learn(bucket, resolution, lean);
    }

    /// A flush has listed a bucket, and made hours of others out of date.
    pub(crate) fn insert(&self, bucket: Bucket, outdated: &[(Bucket, BTreeSet<BucketStart>)]) {
        let mut listed = self.listed.write();
        listed.insert(bucket);
        for (rolled, hours) in outdated {
            listed.set_dirty(*rolled, hours.clone());
        }
    }

    /// Hours of a bucket of windows are out of date.
    pub(crate) fn set_dirty(&self, bucket: Bucket, hours: BTreeSet<BucketStart>) {
        self.listed.write().set_dirty(bucket, hours);
    }

    /// A commit has listed `target` and retired the buckets in whose place it is. Their records are
    /// dropped after the next file of SlateDB is written, which has the commit.
    fn replace(&self, target: Option<Bucket>, sources: &[Bucket], now_ms: i64) {
        // Before they leave the list: a bucket that is neither listed nor retired is an orphan.
        let mut retired = self.retired.write();
        retired.extend(sources.iter().map(|source| (*source, now_ms)));
        let mut listed = self.listed.write();
        for source in sources {
            listed.remove(*source);
        }
        if let Some(target) = target {
            listed.insert(target);
        }
        drop((listed, retired));
        for source in sources {
            self.forget_cached(*source);
        }
    }

    /// Takes what the store says for what is listed and retired.
    fn follow_store(&self, listed: Listed, retired: Retired) {
        let mut known_retired = self.retired.write();
        let now: BTreeSet<Bucket> = listed.all().collect();
        let before = std::mem::replace(&mut *self.listed.write(), listed);
        *known_retired = retired;
        drop(known_retired);
        for gone in before.all().filter(|bucket| !now.contains(bucket)) {
            self.forget_cached(gone);
        }
    }

    /// Follows a commit that lists `target` in place of `sources`. When the write failed it is not
    /// known whether SlateDB has it, so it is asked. If it does not answer, `fail` is called:
    /// flushes would go to buckets that may be retired.
    pub(crate) async fn committed(
        &self,
        written: Result<()>,
        target: Option<Bucket>,
        sources: &[Bucket],
        now_ms: i64,
        fail: impl FnOnce(&str),
    ) -> Result<()> {
        let Err(cause) = written else {
            self.replace(target, sources, now_ms);
            return Ok(());
        };
        let view = self.context.engine.live_view();
        let stored = async {
            let listed = stored_levels(&view).await?;
            Ok::<_, Error>((listed, stored_retired(&view).await?))
        };
        match stored.await {
            Ok((listed, retired)) => {
                warn!(%cause, "writing the list of buckets failed: continuing with the stored list");
                self.follow_store(listed, retired);
            }
            Err(unknown) => fail(&format!(
                "the list of buckets could not be written ({cause}) nor read again ({unknown}): \
                 which buckets are listed is not known"
            )),
        }
        Err(cause)
    }

    /// Deletes the records that say that buckets are retired, and forgets the buckets.
    pub(crate) async fn forget_retired(&self, buckets: &[Bucket]) -> Result<()> {
        if buckets.is_empty() {
            return Ok(());
        }
        let mut batch = WriteBatch::new();
        for bucket in buckets {
            batch.delete(key::retired_bucket(*bucket));
        }
        let failed = || Error::store("forgetting retired buckets");
        let written = self.context.engine.db().write(batch).await;
        let durable = written.map_err(failed())?.await_durable().await;
        durable.map_err(failed())?;
        let mut retired = self.retired.write();
        for bucket in buckets {
            retired.remove(bucket);
            self.forget_cached(*bucket);
        }
        Ok(())
    }

    fn forget_cached(&self, bucket: Bucket) {
        self.cache.begin_change(bucket);
        self.cache.end_change(bucket);
    }

    #[cfg(test)]
    pub(crate) fn retire(&self, bucket: Bucket, now_ms: i64) {
        self.retired.write().insert(bucket, now_ms);
    }

    #[cfg(feature = "testing")]
    pub(crate) fn set_listed(&self, listed: BTreeSet<Bucket>) {
        let mut known = self.listed.write();
        *known = Listed::new(listed, known.sizes().clone(), known.dirty().clone());
    }
}

/// The buckets of all levels as the store has them.
async fn stored_levels(view: &View) -> Result<Listed> {
    let all = stored_list(view).await?;
    let mut sizes = LevelSizes::default();
    let mut dirty = BTreeMap::new();
    let mut lean = Vec::new();
    // There are few rolled buckets: each holds days.
    for bucket in all.iter().filter(|bucket| !ladder::is_raw(bucket.size)) {
        let meta = read_meta(view, *bucket).await?;
        let resolution = Resolution::from_ms(meta.resolution_ms.into());
        let resolution = resolution.filter(|resolution| !resolution.is_raw());
        let resolution = resolution.ok_or_else(|| {
            Error::Corrupt(format!("bucket {bucket} has windows of an unknown width").into())
        })?;
        match sizes.resolution(bucket.size) {
            Some(known) if known != resolution => {
                let reason = format!("{bucket} holds {resolution} windows, others {known}");
                return Err(Error::Corrupt(reason.into()));
            }
            _ => sizes.learn(bucket.size, resolution),
        }
        lean.extend(meta.rollup.is_lean.then_some((*bucket, resolution)));
        if !meta.dirty_hours.is_empty() {
            let hours = meta.dirty_hours.into_iter().map(BucketStart);
            dirty.insert(*bucket, hours.collect());
        }
    }
    let mut listed = Listed::new(all, sizes, dirty);
    for (bucket, resolution) in lean {
        listed.learn(bucket, resolution, true);
    }
    Ok(listed)
}

/// The list of buckets as the store has it, of all levels.
pub(crate) async fn stored_list(view: &View) -> Result<BTreeSet<Bucket>> {
    let list = view.get(&key::bucket_list()).await?;
    bucket_list::decode(&list.unwrap_or_default()).map_err(Error::corrupt("list of buckets"))
}

/// The raw ones of a list.
pub(crate) fn raw_of(listed: &BTreeSet<Bucket>) -> BTreeSet<Bucket> {
    let raw = listed.iter().filter(|bucket| ladder::is_raw(bucket.size));
    raw.copied().collect()
}

/// Adds to a batch that these buckets are listed and those retired.
pub(crate) fn put_list(
    batch: &mut WriteBatch,
    listed: &BTreeSet<Bucket>,
    retired: &[Bucket],
    now_ms: i64,
) {
    batch.put_bytes(key::bucket_list(), bucket_list::encode(listed));
    for bucket in retired {
        let value = retired_bucket::encode(now_ms);
        batch.put_bytes(key::retired_bucket(*bucket), value);
    }
}

/// The retired buckets as the store has them.
pub(crate) async fn stored_retired(view: &View) -> Result<Retired> {
    let prefix = key::retired_bucket_prefix();
    let mut records = view.scan_prefix(&prefix, ScanKind::Once).await?;
    let mut retired = Retired::new();
    while let Some(record) = records
        .next()
        .await
        .map_err(Error::store("reading retired buckets"))?
    {
        let value = retired_bucket::decode(&record.value);
        match (ParsedKey::parse(&record.key), value) {
            (Ok(ParsedKey::RetiredBucket { bucket }), Ok(at_ms)) => {
                retired.insert(bucket, at_ms);
            }
            // Left alone: what a newer version wrote is that version's business.
            (_, Err(cause)) | (Err(cause), _) => warn!(%cause, "cannot read a retired bucket"),
            _ => warn!("cannot read a retired bucket"),
        }
    }
    Ok(retired)
}

/// The BucketMeta of a listed bucket, as it is stored.
pub(crate) async fn stored_meta(view: &View, bucket: Bucket) -> Result<bytes::Bytes> {
    let value = view.get(&key::bucket_meta(bucket)).await?;
    value.ok_or_else(|| Error::Corrupt(format!("bucket {bucket} is listed and has no meta").into()))
}

/// The BucketMeta of a listed bucket.
pub(crate) async fn read_meta(view: &View, bucket: Bucket) -> Result<BucketMeta> {
    decode_meta(bucket, &stored_meta(view, bucket).await?)
}

pub(crate) fn decode_meta(bucket: Bucket, value: &[u8]) -> Result<BucketMeta> {
    bucket_meta::decode(value).map_err(Error::corrupt(format!("bucket {bucket}")))
}
