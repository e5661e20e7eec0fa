//! When buckets were last written to, and which coarse ones hold late samples.
//!
//! Holds always:
//! - It is memory only: after a restart nothing counts as recent, and what is dirty is read back
//!   from BucketMeta.

use std::collections::{BTreeMap, BTreeSet};

use icecore_model::BucketSize;
use icecore_records::Bucket;
use parking_lot::Mutex;

#[derive(Default)]
pub(crate) struct RecentWrites(Mutex<Recent>);

/// What is known at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recent {
    /// When a flush into the bucket ended last, in this process.
    pub(crate) written_ms: BTreeMap<Bucket, i64>,
    /// Coarse buckets with late samples.
    pub(crate) dirty: BTreeSet<Bucket>,
}

impl RecentWrites {
    /// A flush into a bucket has ended.
    pub(crate) fn note(&self, bucket: Bucket, now_ms: i64) {
        let mut known = self.0.lock();
        known.written_ms.insert(bucket, now_ms);
        if bucket.size > BucketSize::HOUR {
            known.dirty.insert(bucket);
        }
    }

    /// A bucket was found to hold late samples.
    pub(crate) fn note_dirty(&self, bucket: Bucket) {
        self.0.lock().dirty.insert(bucket);
    }

    /// The late samples of a bucket are folded in.
    pub(crate) fn folded(&self, bucket: Bucket) {
        self.0.lock().dirty.remove(&bucket);
    }

    /// What is known of the buckets that are listed, of writes only those behind `since_ms`; the
    /// rest is forgotten, so that it does not grow with all that was ever written.
    pub(crate) fn of(&self, listed: &BTreeSet<Bucket>, since_ms: i64) -> Recent {
        let mut known = self.0.lock();
        known
            .written_ms
            .retain(|bucket, at_ms| *at_ms > since_ms && listed.contains(bucket));
        known.dirty.retain(|bucket| listed.contains(bucket));
        known.clone()
    }

    /// How many of the listed buckets hold late samples.
    pub(crate) fn dirty(&self, listed: &BTreeSet<Bucket>) -> usize {
        let known = self.0.lock();
        let is_listed = |bucket: &&Bucket| listed.contains(bucket);
        known.dirty.iter().filter(is_listed).count()
    }
}
