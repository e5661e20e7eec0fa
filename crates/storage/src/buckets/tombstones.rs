//! Deletion: what is deleted is hidden at once, and leaves the records when they are written anew.
//!
//! ```text
//! delete  flush ─► per bucket: matchers → ids ─► one write: tombstones of all buckets ─► hidden
//! read    ids − erased │ samples, histograms, exemplars − ranges of their series
//! clean   records of a bucket without what was deleted ─► its index ─► its tombstones go
//! ```
//!
//! Holds always:
//! - What was deleted lies in buckets: everything acknowledged is flushed first. Tombstones speak
//!   of ids of one bucket, so that what is written later is never hidden by them: a flush gives a
//!   series that is erased a new id, and takes the deleted samples out of the records of one that
//!   lost a range before it adds to them.
//! - Tombstones keep the journal sequence up to which their bucket had everything of its hours. A
//!   replay applies nothing of these hours up to there, so that what was deleted does not come back
//!   from the journal.
//! - Tombstones change under the flush lock only. A bucket that has some is not coarsened: it is
//!   cleaned first. A deletion waits for a job that copies a bucket of its range.
//! - Readers take the tombstones before their snapshot: records that were cleaned are never read
//!   without them unless the snapshot shows them clean.
//! - Everything here may be cut anywhere and repeated.
//!
//! Here is what is known of them in memory. Elsewhere: deleting (`crate::maintenance`), cleaning
//! (`crate::maintenance::build`), what a flush does to them (`super::strip`).

use std::collections::BTreeMap;
use std::sync::Arc;

use icecore_model::BucketStart;
use icecore_records::tombstones::{self, Tombstones};
use icecore_records::{Bucket, DecodeError, ParsedKey, key};
use parking_lot::RwLock;

use crate::error::{Error, Result};
use crate::slate::read_view::{ScanKind, View};

/// The tombstones of all buckets that have some.
#[derive(Default)]
pub(crate) struct AllTombstones(RwLock<BTreeMap<Bucket, Arc<Tombstones>>>);

impl AllTombstones {
    /// Reads what the store holds.
    pub(crate) async fn load(view: &View) -> Result<Self> {
        let mut found = BTreeMap::new();
        let prefix = key::tombstones_prefix();
        let mut records = view.scan_prefix(&prefix, ScanKind::Once).await?;
        let reading = || Error::store("reading tombstones");
        while let Some(record) = records.next().await.map_err(reading())? {
            // Not knowing what was deleted is no state to answer queries in.
            let corrupt = || Error::corrupt::<DecodeError>("tombstones");
            if let ParsedKey::Tombstones { bucket } =
                ParsedKey::parse(&record.key).map_err(corrupt())?
            {
                let value = tombstones::decode(&record.value).map_err(corrupt())?;
                found.insert(bucket, Arc::new(value));
            }
        }
        Ok(Self(RwLock::new(found)))
    }

    pub(crate) fn of(&self, bucket: Bucket) -> Option<Arc<Tombstones>> {
        self.0.read().get(&bucket).cloned()
    }

    /// The hours of buckets that have some, each with the journal sequence up to which its bucket
    /// had everything of it.
    pub(crate) fn flushed_hours(&self) -> Vec<(BucketStart, u64)> {
        let mut hours = Vec::new();
        for (bucket, tombstones) in self.0.read().iter() {
            let through = tombstones.through_seq;
            hours.extend(bucket.each_hour().map(|hour| (hour, through)));
        }
        hours
    }

    /// The buckets that have some.
    pub(crate) fn buckets(&self) -> Vec<Bucket> {
        self.0.read().keys().copied().collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.read().len()
    }

    /// Bytes that all of them take, about.
    pub(crate) fn bytes(&self) -> usize {
        self.0.read().values().map(|t| t.size()).sum()
    }

    /// The caller holds the flush lock, and the store has them or will before anything else
    /// changes.
    pub(crate) fn set(&self, bucket: Bucket, tombstones: Tombstones) {
        let mut all = self.0.write();
        if tombstones.is_empty() {
            drop(all.remove(&bucket))
        } else {
            drop(all.insert(bucket, Arc::new(tombstones)))
        }
    }
}

/// Writes the tombstones of a bucket as they shall be from now on.
pub(crate) fn put(batch: &mut slatedb::WriteBatch, bucket: Bucket, tombstones: &Tombstones) {
    if tombstones.is_empty() {
        batch.delete(key::tombstones(bucket))
    } else {
        batch.put_bytes(key::tombstones(bucket), tombstones::encode(tombstones))
    }
}
