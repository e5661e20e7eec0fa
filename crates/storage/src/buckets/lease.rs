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

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use icecore_records::Bucket;
use parking_lot::Mutex;

/// The leases of all readers of this process.
#[derive(Debug, Default)]
pub(crate) struct Leases(Mutex<LeaseTable>);

#[derive(Debug, Default)]
struct LeaseTable {
    /// How many leases a bucket has.
    buckets: BTreeMap<Bucket, usize>,
    /// The leases that there are, by number.
    numbers: BTreeSet<u64>,
    next: u64,
}

/// Keeps buckets from being drained until it is dropped.
#[derive(Debug)]
pub(crate) struct Lease {
    leases: Arc<Leases>,
    number: u64,
    buckets: Vec<Bucket>,
}

impl Leases {
    /// Leases buckets. The caller holds the list of buckets, which has all of them, locked.
    pub(crate) fn take(self: &Arc<Self>, buckets: &[Bucket]) -> Lease {
        let mut held = self.0.lock();
        for bucket in buckets {
            *held.buckets.entry(*bucket).or_default() += 1;
        }
        let number = held.next;
        held.next += 1;
        held.numbers.insert(number);
        Lease {
            leases: Arc::clone(self),
            number,
            buckets: buckets.to_vec(),
        }
    }

    pub(crate) fn is_leased(&self, bucket: Bucket) -> bool {
        self.0.lock().buckets.contains_key(&bucket)
    }

    /// The number that the next lease will have.
    pub(crate) fn next(&self) -> u64 {
        self.0.lock().next
    }

    /// The number of the oldest lease that somebody holds. Leases are also taken by readers to whom
    /// no bucket is listed, so that this speaks of all readers.
    pub(crate) fn oldest(&self) -> Option<u64> {
        self.0.lock().numbers.first().copied()
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut held = self.leases.0.lock();
        held.numbers.remove(&self.number);
        for bucket in &self.buckets {
            match held.buckets.get_mut(bucket) {
                Some(count) if *count > 1 => *count -= 1,
                _ => {
                    held.buckets.remove(bucket);
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
        assert_eq!((leases.oldest(), leases.next()), (Some(0), 2));
        drop(first);
        assert!(!leases.is_leased(a) && leases.is_leased(b));
        assert_eq!(leases.oldest(), Some(1));
        drop(second);
        assert!(!leases.is_leased(b));
        assert_eq!((leases.oldest(), leases.next()), (None, 2));
    }
}
