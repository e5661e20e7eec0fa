//! A set of segments, by prefix, shared between the engine and the compactor.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

/// Clones share the set.
#[derive(Clone, Debug, Default)]
pub(crate) struct SegmentSet(Arc<Mutex<BTreeSet<Bytes>>>);

impl SegmentSet {
    pub(crate) fn insert(&self, prefix: Bytes) {
        self.0.lock().insert(prefix);
    }

    pub(crate) fn remove(&self, prefix: &[u8]) {
        self.0.lock().remove(prefix);
    }

    pub(crate) fn contains(&self, prefix: &[u8]) -> bool {
        self.0.lock().contains(prefix)
    }

    pub(crate) fn retain(&self, keep: impl Fn(&Bytes) -> bool) {
        self.0.lock().retain(|prefix| keep(prefix));
    }
}
