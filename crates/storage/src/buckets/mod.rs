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
pub(crate) mod kept_since;
pub(crate) mod ladder;
pub(crate) mod lease;
pub(crate) mod left_out;
pub(crate) mod levels;
pub(crate) mod list;
pub(crate) mod ranges;
mod recent;
pub(crate) mod record_kind;
pub(crate) mod strip;
pub(crate) mod time_columns;
pub(crate) mod tombstones;
pub(crate) mod united;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use icecore_model::BucketStart;
use icecore_model::retention::RetentionPolicy;
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
use crate::slate::fetch::join_bounded;
use crate::slate::read_view::{ScanKind, View};
use kept_since::KeptClasses;
use lease::{Lease, Leases};
use left_out::Groups;
use levels::{Listed, RolledBucket};
use tombstones::AllTombstones;

/// Metas that are read at once when the list is loaded.
const CONCURRENT_METAS: usize = 16;

/// Retired buckets and when they were retired, in ms.
pub(crate) type Retired = BTreeMap<Bucket, i64>;

pub(crate) struct Buckets {
    context: Arc<Context>,
    cache: Arc<ReadCache>,
    listed: RwLock<Listed>,
    kept_since: RwLock<Arc<KeptClasses>>,
    /// No longer listed and not yet dropped.
    retired: RwLock<Retired>,
    leases: Arc<Leases>,
    /// How often overlays have begun to be merged into windows.
    merges: AtomicU64,
    /// What was deleted from buckets and still lies in them.
    tombstones: AllTombstones,
    recent: RecentWrites,
}

/// A bucket that is to be listed; with what is known of it, if it has windows.
pub(crate) type NewBucket = (Bucket, Option<RolledBucket>);

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
            kept_since: RwLock::default(),
            retired: RwLock::new(stored_retired(&view).await?),
            leases: Arc::default(),
            merges: AtomicU64::new(0),
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

    pub(crate) fn kept_since(&self) -> Arc<KeptClasses> {
        Arc::clone(&self.kept_since.read())
    }

    /// What a policy keeps, and since when. Levels are told first what they leave out: whoever
    /// reads by the new times must not miss series in windows that were made by older ones.
    pub(crate) fn set_kept_since(&self, policy: Option<&RetentionPolicy>, kept: KeptClasses) {
        let mut left_out = self.listed.read().left_out().clone();
        left_out.set_policy(policy);
        if left_out != *self.listed.read().left_out() {
            self.listed.write().set_policy(policy);
        }
        *self.kept_since.write() = Arc::new(kept);
    }

    pub(crate) fn retired(&self) -> RwLockReadGuard<'_, Retired> {
        self.retired.read()
    }

    /// Changes when overlays begin to be merged into windows. A reader that has copied the head
    /// before, and reads buckets afterwards, may see a sample in both, and begins again.
    pub(crate) fn merges(&self) -> u64 {
        self.merges.load(SeqCst)
    }

    /// Overlays are about to be merged, and the head has nothing that is in them.
    pub(crate) fn begin_merge(&self) {
        self.merges.fetch_add(1, SeqCst);
    }

    pub(crate) fn leases(&self) -> &Leases {
        &self.leases
    }

    /// Leases no bucket: for whoever reads other records, so that their files are kept.
    pub(crate) fn lease_files(&self) -> Lease {
        self.leases.take(&[])
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

    /// Leases the buckets of samples that have something of a time range, of whatever sizes.
    pub(crate) fn lease(&self, start_ms: i64, end_ms: i64) -> LeasedBuckets {
        let choose = |listed: &Listed| {
            let mut found = list::in_range(listed.raw(), start_ms, end_ms);
            found.extend(list::in_range(listed.overlays(), start_ms, end_ms));
            found.extend(listed.remnants_in(start_ms, end_ms));
            found.sort_by_key(|bucket| (bucket.start, bucket.size));
            (found, ())
        };
        self.lease_chosen(choose).0
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

    /// A flush has listed a bucket, and made hours of others out of date.
    pub(crate) fn insert(
        &self,
        bucket: Bucket,
        is_overlay: bool,
        outdated: &[(Bucket, BTreeSet<BucketStart>)],
    ) {
        let mut listed = self.listed.write();
        if is_overlay {
            listed.insert_overlay(bucket);
        } else {
            listed.insert(bucket);
        }
        for (rolled, hours) in outdated {
            set_dirty(&mut listed, *rolled, hours);
        }
    }

    /// Hours of a bucket of windows are out of date.
    pub(crate) fn set_dirty(&self, bucket: Bucket, hours: &BTreeSet<BucketStart>) {
        set_dirty(&mut self.listed.write(), bucket, hours);
    }

    /// Buckets of windows as their metas say now.
    pub(crate) fn set_facts(&self, changed: impl IntoIterator<Item = (Bucket, RolledBucket)>) {
        let mut listed = self.listed.write();
        for (bucket, facts) in changed {
            if let Some(known) = listed.facts_mut(bucket) {
                *known = facts;
            }
        }
    }

    /// Windows get late samples that only finer levels keep. Known before it is written: a write
    /// that fails may have taken place.
    pub(crate) fn set_stands_in(&self, bucket: Bucket) {
        if let Some(facts) = self.listed.write().facts_mut(bucket) {
            facts.stands_in = true;
        }
    }

    /// What the meta of a remnant says of it.
    pub(crate) fn set_remnant(&self, bucket: Bucket, meta: &BucketMeta) {
        self.listed.write().set_alone(bucket, alone_of(meta));
    }

    /// A commit has listed `target` and retired the buckets in whose place it is. Their records are
    /// dropped after the next file of SlateDB is written, which has the commit.
    fn replace(&self, target: Option<NewBucket>, sources: &[Bucket], now_ms: i64) {
        // Before they leave the list: a bucket that is neither listed nor retired is an orphan.
        let mut retired = self.retired.write();
        retired.extend(sources.iter().map(|source| (*source, now_ms)));
        let mut listed = self.listed.write();
        for source in sources {
            listed.remove(*source);
        }
        match target {
            Some((target, Some(facts))) => listed.insert_rolled(target, facts),
            Some((target, None)) => listed.insert(target),
            None => {}
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
        let before = {
            let mut known = self.listed.write();
            let listed = listed.under_policy_of(&known);
            std::mem::replace(&mut *known, listed)
        };
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
        target: Option<NewBucket>,
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
        *known = known.with_raw(raw_of(&listed));
    }
}

fn set_dirty(listed: &mut Listed, bucket: Bucket, hours: &BTreeSet<BucketStart>) {
    if let Some(facts) = listed.facts_mut(bucket) {
        facts.dirty.clone_from(hours);
    }
}

/// The buckets of all levels as the store has them.
async fn stored_levels(view: &View) -> Result<Listed> {
    let all = stored_list(view).await?;
    let rolled = all.iter().filter(|bucket| !ladder::is_raw(bucket.size));
    let read = rolled.map(|bucket| async move { Ok((*bucket, read_meta(view, *bucket).await)) });
    let read = join_bounded(read.collect(), CONCURRENT_METAS).await?;
    let mut listed = Listed::new(raw_of(&all), []);
    let mut damaged = Vec::new();
    for (bucket, meta) in read {
        match meta.map(|meta| RolledBucket::of(&meta)) {
            Ok(Some(facts)) => {
                let known = listed.sizes().resolution(bucket.size);
                if let Some(known) = known.filter(|known| *known != facts.resolution) {
                    let resolution = facts.resolution;
                    warn!(%bucket, %resolution, %known, "a bucket of windows among others");
                }
                listed.insert_rolled(bucket, facts);
            }
            Ok(None) => damaged.push((bucket, "it has no windows".to_owned())),
            Err(cause @ Error::Corrupt(_)) => damaged.push((bucket, cause.to_string())),
            Err(cause) => return Err(cause),
        }
    }
    for (bucket, cause) in damaged {
        // Listed as what its size says, so that queries of its time fail rather than miss it, and
        // nothing is written in its place.
        warn!(%bucket, cause, "cannot read what is known of a bucket of windows");
        let known = listed.sizes().resolution(bucket.size);
        let facts = RolledBucket {
            resolution: known.unwrap_or(Resolution::HOUR),
            source: Resolution::RAW,
            sources_gone: true,
            is_lean: false,
            dirty: BTreeSet::new(),
            left_out: Some(Groups::new()),
            stands_in: false,
        };
        listed.insert_rolled(bucket, facts);
    }
    for overlay in stored_overlays(view, &listed).await? {
        listed.insert_overlay(overlay);
    }
    for remnant in all.iter().filter(|b| ladder::is_remnant(b.size)) {
        listed.insert(*remnant);
        match read_meta(view, *remnant).await {
            Ok(meta) => listed.set_alone(*remnant, alone_of(&meta)),
            // As if none of it were in windows: it is kept for longer then.
            Err(cause @ Error::Corrupt(_)) => {
                warn!(bucket = %remnant, %cause, "cannot read a bucket's meta")
            }
            Err(cause) => return Err(cause),
        }
    }
    Ok(listed)
}

fn alone_of(meta: &BucketMeta) -> BTreeSet<BucketStart> {
    meta.dirty_hours.iter().copied().map(BucketStart).collect()
}

/// The raw buckets that are overlays: their metas say so.
async fn stored_overlays(view: &View, listed: &Listed) -> Result<Vec<Bucket>> {
    let in_gone_time = listed.gone().flat_map(|gone| {
        let (start_ms, last_ms) = (gone.start_ms(), gone.end_ms() - 1);
        list::in_range(listed.raw(), start_ms, last_ms)
    });
    let found: BTreeSet<Bucket> = in_gone_time.collect();
    let read = found
        .into_iter()
        .map(|bucket| async move { Ok((bucket, read_meta(view, bucket).await)) });
    let mut overlays = Vec::new();
    for (bucket, meta) in join_bounded(read.collect(), CONCURRENT_METAS).await? {
        match meta {
            Ok(meta) if meta.is_overlay => overlays.push(bucket),
            Ok(_) => {}
            // Whoever reads it says so; as one of many raw buckets it is kept.
            Err(cause @ Error::Corrupt(_)) => warn!(%bucket, %cause, "cannot read a bucket's meta"),
            Err(cause) => return Err(cause),
        }
    }
    Ok(overlays)
}

/// The list of buckets as the store has it, of all levels.
pub(crate) async fn stored_list(view: &View) -> Result<BTreeSet<Bucket>> {
    let list = view.get(&key::bucket_list()).await?;
    bucket_list::decode(&list.unwrap_or_default()).map_err(Error::corrupt("list of buckets"))
}

/// The raw ones of a list, without remnants.
pub(crate) fn raw_of(listed: &BTreeSet<Bucket>) -> BTreeSet<Bucket> {
    let is_raw = |bucket: &&Bucket| ladder::is_raw(bucket.size) && !ladder::is_remnant(bucket.size);
    listed.iter().filter(is_raw).copied().collect()
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
