//! Walking over series page by page, and over samples hour by hour.

use std::sync::Arc;

use icecore_model::{BucketSize, HOUR_MS};
use parking_lot::MutexGuard;

use super::Head;
use super::freeze::{Freeze, PageSlots};
use super::registry::PAGE_SERIES;
use super::slot::Slot;

/// Keeps the lock of the page it is on, so that neighbours cost one lock. Never holds two.
pub(super) struct PageCursor<'h> {
    head: &'h Head,
    number: usize,
    slots: Option<MutexGuard<'h, PageSlots>>,
    /// A freeze that is under way: its pages are frozen before they change.
    freeze: Option<Arc<Freeze>>,
}

impl<'h> PageCursor<'h> {
    pub(super) fn new(head: &'h Head, freeze: Option<Arc<Freeze>>) -> Self {
        Self {
            head,
            number: usize::MAX,
            slots: None,
            freeze,
        }
    }

    #[inline]
    pub(super) fn slot(&mut self, series: u32) -> &mut Slot {
        let number = series as usize / PAGE_SERIES;
        if number != self.number {
            self.slots = None;
            let mut page = self.head.page(number).lock();
            if let Some(freeze) = &self.freeze {
                let first = (number * PAGE_SERIES) as u32;
                self.head.freeze_page(freeze, first, &mut page);
            }
            self.slots = Some(page);
            self.number = number;
        }
        let slots = self.slots.as_mut().expect("the page was locked above");
        &mut slots[series as usize % PAGE_SERIES]
    }
}

/// Samples per hour of one request.
#[derive(Default)]
pub(super) struct HourCounts {
    pub(super) counts: Vec<(u32, u64)>,
}

impl HourCounts {
    pub(super) fn add(&mut self, hour: u32, samples: u64) {
        match self.counts.iter_mut().find(|(h, _)| *h == hour) {
            _ if samples == 0 => {}
            Some((_, count)) => *count += samples,
            None => self.counts.push((hour, samples)),
        }
    }
}

/// An hour with its bounds, so that most samples need a comparison and no division.
#[derive(Clone, Copy, Default)]
pub(super) struct HourRange {
    start_ms: i64,
    end_ms: i64,
    pub(super) minutes: u32,
}

impl HourRange {
    /// `None` for a timestamp that no bucket can hold.
    pub(super) fn of(timestamp_ms: i64) -> Option<Self> {
        let hour = BucketSize::HOUR.bucket_of(timestamp_ms)?;
        Some(Self {
            start_ms: hour.start_ms(),
            end_ms: hour.start_ms() + HOUR_MS,
            minutes: hour.minutes(),
        })
    }

    #[inline]
    pub(super) fn contains(&self, timestamp_ms: i64) -> bool {
        (self.start_ms..self.end_ms).contains(&timestamp_ms)
    }
}
