//! Leases: which buckets are being read right now.
//!
//! ```text
//! list of buckets ─ read and leased under one lock ─► reader ─► dropped with its stream
//!                 └ swapped by a commit ─► retired bucket ─ no lease left? ─► drained
//! ```
//!
//! Holds always:
//! - A bucket is leased only while it is listed. Once it has left the list the number of its leases
//!   can only go down: what is not leased then never will be.
//! - A reader asks for its lease once, not per batch.
//!
//! A snapshot of SlateDB does not survive a drain of what it reads, hence this.

use std::collections::BTreeMap;
use std::sync::Arc;

use icecore_records::Bucket;
use parking_lot::Mutex;

/// The leases of all readers of this process.
#[derive(Debug, Default)]
pub(crate) struct Leases(Mutex<BTreeMap<Bucket, usize>>);

/// Keeps buckets from being drained until it is dropped.
#[derive(Debug)]
pub(crate) struct Lease {
    leases: Arc<Leases>,
    buckets: Vec<Bucket>,
}

impl Leases {
    /// Leases buckets. The caller holds the list of buckets, which has all of them, locked.
    pub(crate) fn take(self: &Arc<Self>, buckets: &[Bucket]) -> Lease {
        let mut counts = self.0.lock();
        for bucket in buckets {
            *counts.entry(*bucket).or_default() += 1;
        }
        Lease {
            leases: Arc::clone(self),
            buckets: buckets.to_vec(),
        }
    }

    pub(crate) fn is_leased(&self, bucket: Bucket) -> bool {
        self.0.lock().contains_key(&bucket)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut counts = self.leases.0.lock();
        for bucket in &self.buckets {
            match counts.get_mut(bucket) {
                Some(count) if *count > 1 => *count -= 1,
                _ => {
                    counts.remove(bucket);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use icecore_model::BucketStart;

    use super::*;

    #[test]
    fn a_bucket_is_leased_until_its_last_lease_is_dropped() {
        let leases = Arc::new(Leases::default());
        let [a, b, c] = [0, 60, 120].map(|start| Bucket::hour(BucketStart(start)));
        let first = leases.take(&[a, b]);
        let second = leases.take(&[b]);
        assert!(leases.is_leased(a) && leases.is_leased(b) && !leases.is_leased(c));
        drop(first);
        assert!(!leases.is_leased(a) && leases.is_leased(b));
        drop(second);
        assert!(!leases.is_leased(b));
    }
}
