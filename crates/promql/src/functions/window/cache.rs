//! Bounds of windows, computed once for each column of timestamps.
//!
//! The series of a scrape target share a column, so what follows from times alone is shared, too
//! (measured 4 instead of 20 ns per window of `rate`). The cache turns itself off if columns are
//! not shared.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use icecore_model::{TimeColumn, TimeColumnIdentity};
use parking_lot::{Mutex, RwLock};

use super::windows::{Bounds, Slot};
use crate::exec::SampleCounts;

/// Most windows kept, 24 bytes each at most: 2900 columns of a query with 361 steps.
const CACHED_WINDOWS_MAX: usize = 1 << 20;
/// Most columns kept, which stay in memory with their times until the query ends.
const CACHED_COLUMNS_MAX: usize = 1 << 14;

#[derive(Debug)]
pub(super) struct BoundsCache {
    entries: RwLock<HashMap<TimeColumnIdentity, Arc<ColumnBounds>>>,
    entries_max: usize,
    hits: AtomicU64,
    misses: AtomicU64,
    /// Samples by step of windows without an entry.
    others: Mutex<SampleCounts>,
}

/// The windows on one column.
#[derive(Debug)]
pub(super) struct ColumnBounds {
    /// Keeps the identity of the column from being reused.
    _column: TimeColumn,
    pub(super) bounds: Bounds,
    /// How many series were evaluated with these bounds.
    uses: AtomicU64,
}

impl BoundsCache {
    pub(super) fn new(steps: usize) -> Self {
        Self {
            entries: RwLock::default(),
            entries_max: (CACHED_WINDOWS_MAX / steps.max(1)).min(CACHED_COLUMNS_MAX),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            others: Mutex::new(SampleCounts::new(steps)),
        }
    }

    /// The bounds on a column; counts one more series that uses them.
    pub(super) fn bounds(
        &self,
        column: &TimeColumn,
        make: impl FnOnce(&[i64]) -> Bounds,
    ) -> Arc<ColumnBounds> {
        let worthwhile = self.is_worthwhile();
        if worthwhile {
            let found = self.entries.read().get(&column.identity()).cloned();
            if let Some(found) = found {
                found.uses.fetch_add(1, Ordering::Relaxed);
                self.hits.fetch_add(1, Ordering::Relaxed);
                return found;
            }
        }
        self.misses.fetch_add(1, Ordering::Relaxed);
        let made = Arc::new(ColumnBounds {
            _column: column.clone(),
            bounds: make(column),
            uses: AtomicU64::new(1),
        });
        if worthwhile {
            let mut entries = self.entries.write();
            if entries.len() < self.entries_max && !entries.contains_key(&column.identity()) {
                entries.insert(column.identity(), Arc::clone(&made));
                return made;
            }
        }
        self.others
            .lock()
            .add(counts_of(&made.bounds.slots, u64::from), 1);
        made
    }

    /// Counts samples of windows that have no entry; `before` says how many there are before a
    /// place.
    pub(super) fn touch(&self, slots: &[Slot], before: impl Fn(u32) -> u64) {
        self.others.lock().add(counts_of(slots, before), 1);
    }

    /// Samples of windows, by step.
    pub(super) fn sample_counts(&self) -> SampleCounts {
        let mut counts = self.others.lock().clone();
        for entry in self.entries.read().values() {
            let uses = entry.uses.load(Ordering::Relaxed);
            counts.add(counts_of(&entry.bounds.slots, u64::from), uses);
        }
        counts
    }

    /// Series come in the order of their labels, so thousands of targets may pass before a column
    /// comes again: the hit rate means nothing until the cache is full.
    fn is_worthwhile(&self) -> bool {
        let misses = self.misses.load(Ordering::Relaxed);
        misses < self.entries_max as u64 || self.hits.load(Ordering::Relaxed) >= misses / 4
    }
}

/// The samples of each window, and how many of them the window before did not have.
fn counts_of(slots: &[Slot], before: impl Fn(u32) -> u64) -> impl Iterator<Item = (u64, u64)> {
    let mut end = 0;
    slots.iter().map(move |slot| {
        let first_new = slot.lo.max(end).min(slot.hi);
        end = end.max(slot.hi);
        (
            before(slot.hi) - before(slot.lo.min(slot.hi)),
            before(slot.hi) - before(first_new),
        )
    })
}
