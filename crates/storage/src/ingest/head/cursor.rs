//! Walking over series page by page, and over samples hour by hour.

use std::collections::HashMap;
use std::sync::Arc;

use icecore_model::{BucketSize, BucketStart, HOUR_MS};
use icecore_records::epoch_summary::FlushUnit;
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

/// What a request has to do with, unit by unit.
#[derive(Default)]
pub(crate) struct Touched {
    /// Samples.
    pub(super) hours: HourCounts,
    /// Metadata of so many families, and so many totals of deltas.
    pub(super) catalog: u64,
    pub(super) totals: u64,
    /// Whether it has events.
    pub(super) events: bool,
}

impl Touched {
    /// The units that are touched, each with a count.
    pub(super) fn units(&self) -> impl Iterator<Item = (FlushUnit, u64)> {
        let hours = self.hours.counts.iter();
        let hours = hours.map(|(hour, samples)| (FlushUnit::Hour(*hour), *samples));
        let others = [
            (FlushUnit::Events, u64::from(self.events)),
            (FlushUnit::Totals, self.totals),
            (FlushUnit::Catalog, self.catalog),
        ];
        hours.chain(others.into_iter().filter(|(_, count)| *count > 0))
    }

    #[cfg(test)]
    pub(crate) fn hour(hour: BucketStart) -> Self {
        let mut touched = Self::default();
        touched.hours.add(hour, 1);
        touched
    }
}

/// Samples per hour of one request. Nearly all requests have one or two hours, for which a look
/// through the list is the quickest; a backfill has a thousand, which it may go through series by
/// series.
#[derive(Default)]
pub(super) struct HourCounts {
    counts: Vec<(BucketStart, u64)>,
    /// Where each hour is in the list, once there are more than [`FEW_HOURS`].
    places: HashMap<BucketStart, usize>,
}

/// Hours up to which a list is looked through.
const FEW_HOURS: usize = 8;

impl HourCounts {
    pub(super) fn add(&mut self, hour: BucketStart, samples: u64) {
        if samples == 0 {
            return;
        }
        match self.place(hour) {
            Some(at) => self.counts[at].1 += samples,
            None => self.push(hour, samples),
        }
    }

    /// All samples.
    pub(super) fn samples(&self) -> u64 {
        self.counts.iter().map(|(_, samples)| samples).sum()
    }

    /// Notes an hour without counting.
    pub(super) fn touch(&mut self, hour: BucketStart) {
        if self.place(hour).is_none() {
            self.push(hour, 0);
        }
    }

    pub(super) fn clear(&mut self) {
        self.counts.clear();
        self.places.clear();
    }

    /// The hours, each once, in the order in which they came.
    pub(super) fn hours(&self) -> impl ExactSizeIterator<Item = BucketStart> {
        self.counts.iter().map(|(hour, _)| *hour)
    }

    fn place(&self, hour: BucketStart) -> Option<usize> {
        if self.counts.len() <= FEW_HOURS {
            self.counts.iter().position(|(known, _)| *known == hour)
        } else {
            self.places.get(&hour).copied()
        }
    }

    fn push(&mut self, hour: BucketStart, samples: u64) {
        let at = self.counts.len();
        self.counts.push((hour, samples));
        if at == FEW_HOURS {
            self.places = self.hours().zip(0..).collect();
        } else if at > FEW_HOURS {
            self.places.insert(hour, at);
        }
    }
}

/// An hour with its bounds, so that most samples need a comparison and no division.
#[derive(Clone, Copy, Default)]
pub(super) struct HourRange {
    start_ms: i64,
    end_ms: i64,
    pub(super) hour: BucketStart,
}

impl HourRange {
    /// `None` for a timestamp that no bucket can hold.
    pub(super) fn of(timestamp_ms: i64) -> Option<Self> {
        let hour = BucketSize::HOUR.bucket_of(timestamp_ms)?;
        Some(Self {
            start_ms: hour.start_ms(),
            end_ms: hour.start_ms() + HOUR_MS,
            hour,
        })
    }

    #[inline]
    pub(super) fn contains(&self, timestamp_ms: i64) -> bool {
        (self.start_ms..self.end_ms).contains(&timestamp_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn hours_are_counted_however_many_there_are() {
        for hours in [1, FEW_HOURS, FEW_HOURS + 1, 1000] {
            let (mut counts, mut expected) = (HourCounts::default(), BTreeMap::new());
            for round in 0..3 {
                for i in 0..hours as u32 {
                    let hour = BucketStart(i * 7919 % 1009 * 60);
                    counts.add(hour, u64::from(i + round));
                    counts.touch(hour);
                    *expected.entry(hour).or_insert(0) += u64::from(i + round);
                }
            }
            let found: BTreeMap<BucketStart, u64> = counts.counts.iter().copied().collect();
            assert_eq!(found, expected);
            assert_eq!(counts.hours().len(), hours, "each once");
            counts.clear();
            assert_eq!(counts.hours().len(), 0);
            counts.add(BucketStart(60), 5);
            assert_eq!(counts.counts, [(BucketStart(60), 5)]);
        }
    }
}
