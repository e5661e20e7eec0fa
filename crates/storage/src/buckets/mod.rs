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
pub(crate) mod list;
mod recent;
pub(crate) mod record_kind;
pub(crate) mod strip;
pub(crate) mod tombstones;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use icecore_records::bucket_meta::{self, BucketMeta};
use icecore_records::{Bucket, ParsedKey, bucket_list, key, retired_bucket};
use parking_lot::{RwLock, RwLockReadGuard};
use slatedb::WriteBatch;
use tracing::warn;

pub(crate) use recent::{Recent, RecentWrites};

use crate::cache::ReadCache;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::slate::read_view::{ScanKind, View};
use lease::{Lease, Leases};
use tombstones::AllTombstones;

/// Retired buckets and when they were retired, in ms.
pub(crate) type Retired = BTreeMap<Bucket, i64>;

pub(crate) struct Buckets {
    context: Arc<Context>,
    cache: Arc<ReadCache>,
    listed: RwLock<BTreeSet<Bucket>>,
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
            listed: RwLock::new(stored_list(&view).await?),
            retired: RwLock::new(stored_retired(&view).await?),
            leases: Arc::default(),
            tombstones: AllTombstones::load(&view).await?,
            recent: RecentWrites::default(),
        })
    }

    pub(crate) fn listed(&self) -> RwLockReadGuard<'_, BTreeSet<Bucket>> {
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

    /// Leases the buckets that have something of a time range, of whatever sizes.
    pub(crate) fn lease(&self, start_ms: i64, end_ms: i64) -> LeasedBuckets {
        let listed = self.listed.read();
        let buckets = list::in_range(&listed, start_ms, end_ms);
        // While the list is locked: a commit in between could retire and drop what was found.
        let lease = Arc::new(self.leases.take(&buckets));
        LeasedBuckets { buckets, lease }
    }

    /// A flush has listed a bucket.
    pub(crate) fn insert(&self, bucket: Bucket) {
        self.listed.write().insert(bucket);
    }

    /// A commit has listed `target` and retired the buckets it was made from. Their records are
    /// dropped after the next file of SlateDB is written, which has the commit.
    fn replace(&self, target: Bucket, sources: &[Bucket], now_ms: i64) {
        // Before they leave the list: a bucket that is neither listed nor retired is an orphan.
        let mut retired = self.retired.write();
        retired.extend(sources.iter().map(|source| (*source, now_ms)));
        let mut listed = self.listed.write();
        for source in sources {
            listed.remove(source);
        }
        listed.insert(target);
        drop((listed, retired));
        for source in sources {
            self.forget_cached(*source);
        }
    }

    /// Takes what the store says for what is listed and retired.
    fn follow_store(&self, listed: BTreeSet<Bucket>, retired: Retired) {
        let mut known_retired = self.retired.write();
        let before = std::mem::replace(&mut *self.listed.write(), listed.clone());
        *known_retired = retired;
        drop(known_retired);
        for gone in before.difference(&listed) {
            self.forget_cached(*gone);
        }
    }

    /// Follows a commit that lists `target` in place of `sources`. When the write failed it is not
    /// known whether SlateDB has it, so it is asked. If it does not answer, `fail` is called:
    /// flushes would go to buckets that may be retired.
    pub(crate) async fn committed(
        &self,
        written: Result<()>,
        target: Bucket,
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
            let listed = stored_list(&view).await?;
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
        *self.listed.write() = listed;
    }
}

/// The list of buckets as the store has it.
pub(crate) async fn stored_list(view: &View) -> Result<BTreeSet<Bucket>> {
    let list = view.get(&key::bucket_list()).await?;
    bucket_list::decode(&list.unwrap_or_default()).map_err(Error::corrupt("list of buckets"))
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
