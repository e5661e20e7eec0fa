//! When buckets were last written to, which coarse ones hold late samples, and how many samples
//! their series have.
//!
//! Holds always:
//! - It is memory only: after a restart nothing counts as recent, and the rest is read back from
//!   BucketMeta.

use std::collections::{BTreeMap, BTreeSet};

use icecore_records::Bucket;
use parking_lot::Mutex;

use super::ladder;
use super::levels::Listed;

#[derive(Default)]
pub(crate) struct RecentWrites {
    known: Mutex<Recent>,
    /// Buckets that were written to since somebody began to count.
    counted: Mutex<Option<BTreeSet<Bucket>>>,
}

/// What is known at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recent {
    /// When a flush into the bucket ended last, in this process, by monotonic time.
    pub(crate) written_ms: BTreeMap<Bucket, i64>,
    /// Coarse buckets with late samples.
    pub(crate) dirty: BTreeSet<Bucket>,
    /// Samples per series of coarse buckets, as far as that is known.
    pub(crate) samples: BTreeMap<Bucket, u64>,
}

/// Counts the buckets that are written to until it is dropped, by whoever gives up, too.
pub(crate) struct WriteCount<'r>(&'r RecentWrites);

impl WriteCount<'_> {
    /// The buckets that were written to since it began.
    pub(crate) fn end(self) -> BTreeSet<Bucket> {
        self.0.counted.lock().take().unwrap_or_default()
    }
}

impl Drop for WriteCount<'_> {
    fn drop(&mut self) {
        self.0.counted.lock().take();
    }
}

impl RecentWrites {
    /// A flush into a bucket has ended; `late` where it came after the bucket was built.
    pub(crate) fn note(&self, bucket: Bucket, elapsed_ms: i64, late: bool) {
        if let Some(counted) = &mut *self.counted.lock() {
            counted.insert(bucket);
        }
        let mut known = self.known.lock();
        known.written_ms.insert(bucket, elapsed_ms);
        if late {
            known.dirty.insert(bucket);
        }
    }

    /// From now on buckets that are written to are counted, for one who asks.
    pub(crate) fn begin_count(&self) -> WriteCount<'_> {
        *self.counted.lock() = Some(BTreeSet::new());
        WriteCount(self)
    }

    /// How many samples the series of a bucket have. Of small buckets nobody asks.
    pub(crate) fn note_samples(&self, bucket: Bucket, samples_per_series: u64) {
        if bucket.size >= ladder::lasting() {
            let mut known = self.known.lock();
            known.samples.insert(bucket, samples_per_series);
        }
    }

    /// A bucket was found to hold late samples.
    pub(crate) fn note_dirty(&self, bucket: Bucket) {
        self.known.lock().dirty.insert(bucket);
    }

    /// The late samples of a bucket are folded in.
    pub(crate) fn folded(&self, bucket: Bucket) {
        self.known.lock().dirty.remove(&bucket);
    }

    /// What is known of the buckets that are listed, of writes only those behind `since_ms`; the
    /// rest is forgotten, so that it does not grow with all that was ever written.
    pub(crate) fn of(&self, listed: &Listed, since_ms: i64) -> Recent {
        let mut known = self.known.lock();
        known
            .written_ms
            .retain(|bucket, at_ms| *at_ms > since_ms && listed.holds_samples(*bucket));
        known.dirty.retain(|bucket| listed.raw().contains(bucket));
        known
            .samples
            .retain(|bucket, _| listed.holds_samples(*bucket));
        known.clone()
    }

    /// How many of the listed buckets hold late samples.
    pub(crate) fn dirty(&self, listed: &BTreeSet<Bucket>) -> usize {
        let known = self.known.lock();
        let is_listed = |bucket: &&Bucket| listed.contains(bucket);
        known.dirty.iter().filter(is_listed).count()
    }
}

#[cfg(test)]
mod tests {
    use icecore_model::BucketStart;

    use super::*;

    #[test]
    fn writes_are_counted_until_somebody_knows_them_or_gives_up() {
        let recent = RecentWrites::default();
        let [first, second] = [0, 60].map(|start| Bucket::hour(BucketStart(start)));
        recent.note(first, 1, false);
        let count = recent.begin_count();
        recent.note(second, 2, false);
        assert_eq!(count.end(), BTreeSet::from([second]));
        assert_eq!(*recent.counted.lock(), None);
        // As when an index cannot be read.
        drop(recent.begin_count());
        recent.note(first, 3, false);
        assert_eq!(*recent.counted.lock(), None);
    }
}
