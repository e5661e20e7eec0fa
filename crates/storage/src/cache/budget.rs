//! How many bytes the cache holds and may hold.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Shared by everything that caches. Whoever stores something adds it, whoever drops it takes it
/// away.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    bytes: AtomicUsize,
    max: usize,
}

impl Budget {
    pub(crate) fn new(max: usize) -> Self {
        Self {
            bytes: AtomicUsize::new(0),
            max,
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }

    pub(crate) fn max(&self) -> usize {
        self.max
    }

    pub(crate) fn exceeded(&self) -> bool {
        self.bytes() > self.max
    }

    /// Whether a quarter of it is free.
    pub(crate) fn is_roomy(&self) -> bool {
        self.bytes() < self.max / 4 * 3
    }

    pub(super) fn add(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Relaxed);
    }

    pub(super) fn take(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Relaxed);
    }
}
