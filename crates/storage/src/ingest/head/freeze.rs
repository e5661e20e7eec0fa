//! The freeze: what some hours hold up to one sequence number, and nothing later, is marked as
//! being flushed.
//!
//! ```text
//! begin, under the sequencer: the cursor is the last number given out
//!    ├─ walk: page by page
//!    └─ an append that comes to a page before the walk does freezes the page first
//! end: whoever had something in the hours
//! ```
//!
//! Holds always:
//! - Appends hold the sequencer. So at the begin none is under way, every number up to the cursor
//!   is in the slots, and every later append knows of the freeze.
//! - A page is frozen once per freeze, by whoever locks it first, and before anything newer is in
//!   it. So a bucket holds exactly what its cursor says: a replay repeats nothing that was flushed,
//!   and a deletion of what lies in the bucket leaves nothing to be repeated.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use icecore_model::BucketStart;
use parking_lot::Mutex;

use super::Head;
use super::registry::{PAGE_SERIES, SeriesRef};
use super::slot::Slot;

/// Neighbouring series, and the last freeze that has been here.
pub(crate) struct PageSlots {
    slots: Box<[Slot]>,
    frozen_by: u64,
}

impl Default for PageSlots {
    fn default() -> Self {
        Self {
            slots: (0..PAGE_SERIES).map(|_| Slot::default()).collect(),
            frozen_by: 0,
        }
    }
}

impl Deref for PageSlots {
    type Target = [Slot];

    fn deref(&self) -> &[Slot] {
        &self.slots
    }
}

impl DerefMut for PageSlots {
    fn deref_mut(&mut self) -> &mut [Slot] {
        &mut self.slots
    }
}

/// A freeze that is under way.
pub(crate) struct Freeze {
    /// Counts from one.
    number: u64,
    hours: BTreeSet<BucketStart>,
    /// How many samples the hours got since they were frozen last.
    samples: BTreeMap<BucketStart, u64>,
    found: Mutex<BTreeMap<BucketStart, Vec<SeriesRef>>>,
}

impl Freeze {
    /// How many samples an hour got since it was frozen last.
    pub(crate) fn samples(&self, hour: BucketStart) -> u64 {
        self.samples.get(&hour).copied().unwrap_or(0)
    }
}

impl Head {
    /// Begins to freeze these hours; they are no longer open. Returns the last sequence number
    /// whose samples are frozen. One freeze at a time: the caller holds the flush lock.
    pub(crate) fn begin_freeze(&self, hours: &BTreeSet<BucketStart>) -> (u64, Arc<Freeze>) {
        let mut sequencer = self.sequencer.lock();
        let mut samples = BTreeMap::new();
        for hour in hours {
            let open = sequencer.open_hours.remove(hour);
            samples.extend(open.map(|open| (*hour, open.samples)));
        }
        sequencer.frozen_hours.extend(hours);
        sequencer.freezes += 1;
        let freeze = Arc::new(Freeze {
            number: sequencer.freezes,
            hours: hours.clone(),
            samples,
            found: Mutex::default(),
        });
        sequencer.freeze = Some(Arc::clone(&freeze));
        (sequencer.next_seq - 1, freeze)
    }

    /// Freezes what no append has frozen yet. Returns who has something in each of the hours.
    pub(crate) fn freeze(&self, freeze: &Freeze) -> BTreeMap<BucketStart, Vec<SeriesRef>> {
        for (first, page) in self.pages() {
            self.freeze_page(freeze, first, &mut page.lock());
        }
        self.sequencer.lock().freeze = None;
        let mut found = std::mem::take(&mut *freeze.found.lock());
        // Appends came to some pages first.
        found.values_mut().for_each(|series| series.sort());
        found
    }

    /// Freezes one page, whose first series is `first`, unless that has been done.
    pub(super) fn freeze_page(&self, freeze: &Freeze, first: u32, page: &mut PageSlots) {
        if page.frozen_by >= freeze.number {
            return;
        }
        page.frozen_by = freeze.number;
        let (mut change, mut frozen) = (0, Vec::new());
        let mut found: Vec<(BucketStart, SeriesRef)> = Vec::new();
        for (i, slot) in page.slots.iter_mut().enumerate() {
            change += slot.freeze(&freeze.hours, &mut frozen);
            let series = SeriesRef(first + i as u32);
            found.extend(frozen.drain(..).map(|hour| (hour, series)));
        }
        self.sample_bytes.fetch_add(change, Relaxed);
        if found.is_empty() {
            return;
        }
        let mut all = freeze.found.lock();
        for (hour, series) in found {
            all.entry(hour).or_default().push(series);
        }
    }
}
