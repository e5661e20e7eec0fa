//! Where an hour is written, and in which form.
//!
//! Holds always:
//! - The list decides: the listed bucket that covers the hour, else the bucket of the hour itself.
//!   A coarser bucket leaves the list only together with the coming of one that covers it, so an
//!   hour never goes back to a bucket that was retired.
//! - A coarse bucket gets late samples: streams behind its columns, and a note which hours they are
//!   of.
//! - Of a wide backfill a window that is long over, and of which nothing is listed, becomes one
//!   bucket of the largest size at once. Each bucket is several files and entries of the manifest,
//!   however small, so a bucket per hour of years would be more than the store can carry. All of
//!   its samples are late ones, which a fold turns into columns.

use std::collections::BTreeSet;

use bytes::Bytes;
use icecore_model::{BucketSize, BucketStart, HOUR_MS};
use icecore_records::bucket_meta::BucketMeta;
use icecore_records::{Bucket, HistogramEntry, coarse_samples, histogram_series};

use crate::buckets::{ladder, list};

/// How long a window must have been over before a backfill makes one bucket of it. What comes late
/// in the usual way is later by hours at most.
const OVER_MS: i64 = 24 * HOUR_MS;

/// Hours that are flushed together before they count as a wide backfill.
const WIDE_HOURS: usize = 32;

/// Hours that are flushed together, as far as that decides where they go.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Backfill {
    /// Windows that ended before this become one bucket; `None`: no window does.
    before_ms: Option<i64>,
}

impl Backfill {
    pub(super) fn of(hours: impl Iterator<Item = BucketStart>, now_ms: i64) -> Self {
        let before_ms = now_ms.saturating_sub(OVER_MS);
        let old = hours.filter(|hour| hour.end_ms(BucketSize::HOUR) <= before_ms);
        Self {
            before_ms: (old.count() >= WIDE_HOURS).then_some(before_ms),
        }
    }

    /// The window of an hour, if it is to become one bucket.
    fn window(self, hour: Bucket, listed: &BTreeSet<Bucket>) -> Option<Bucket> {
        let size = ladder::largest();
        let start = size.bucket_of(hour.start_ms())?;
        let window = Bucket { size, start };
        let over = self.before_ms.is_some_and(|ms| window.end_ms() <= ms);
        (over && list::inside(listed, window).is_empty()).then_some(window)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FlushTarget {
    /// The hour as a bucket: cursors are kept by hour.
    pub(super) hour: Bucket,
    /// Where its records go.
    pub(super) bucket: Bucket,
    /// Whether that bucket is listed: then records join what is there.
    pub(super) listed: bool,
}

impl FlushTarget {
    pub(super) fn of(hour: BucketStart, listed: &BTreeSet<Bucket>, backfill: Backfill) -> Self {
        let hour = Bucket::hour(hour);
        let covering = list::largest_covering(listed, hour);
        let made = || backfill.window(hour, listed).unwrap_or(hour);
        Self {
            hour,
            bucket: covering.unwrap_or_else(made),
            listed: covering.is_some(),
        }
    }

    fn is_coarse(self) -> bool {
        self.bucket.size > BucketSize::HOUR
    }

    /// The value for a Gorilla stream.
    pub(super) fn samples_value(self, stream: Bytes) -> Bytes {
        if self.is_coarse() {
            coarse_samples::late_stream(&stream)
        } else {
            stream
        }
    }

    /// The histograms that a stored value holds. What cannot be read holds none: the merge operator
    /// keeps it, and `icecore check` reports it.
    pub(super) fn stored_histograms(self, stored: &Bytes) -> Vec<HistogramEntry> {
        if !self.is_coarse() {
            return histogram_series::decode(stored).unwrap_or_default();
        }
        histogram_series::decode_coarse(stored).unwrap_or_default()
    }

    /// Notes that the hour got samples after its bucket was built.
    pub(super) fn note_late(self, meta: &mut BucketMeta) {
        let hour = self.hour.start.minutes();
        if let (true, Err(at)) = (self.is_coarse(), meta.dirty_hours.binary_search(&hour)) {
            meta.dirty_hours.insert(at, hour);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use icecore_model::MINUTE_MS;

    fn bucket(exponent: u8, start: u32) -> Bucket {
        Bucket {
            size: BucketSize::from_exponent(exponent).unwrap(),
            start: BucketStart(start),
        }
    }

    #[test]
    fn the_list_decides() {
        let listed = BTreeSet::from([bucket(1, 0), bucket(3, 240), bucket(5, 960)]);
        let check = |hour: u32, expected: Bucket, is_listed: bool| {
            let place = FlushTarget::of(BucketStart(hour), &listed, Backfill::default());
            assert_eq!((place.bucket, place.listed), (expected, is_listed));
            assert_eq!(place.hour, bucket(1, hour));
        };
        check(0, bucket(1, 0), true);
        check(60, bucket(1, 60), false);
        check(240, bucket(3, 240), true);
        check(420, bucket(3, 240), true);
        check(480, bucket(1, 480), false);
        check(960, bucket(5, 960), true);
        check(1860, bucket(5, 960), true);
        check(1920, bucket(1, 1920), false);
    }

    #[test]
    fn late_hours_are_noted_once_and_in_order() {
        let listed = BTreeSet::from([bucket(5, 960)]);
        let mut meta = BucketMeta::default();
        for hour in [1080, 960, 1080] {
            FlushTarget::of(BucketStart(hour), &listed, Backfill::default()).note_late(&mut meta);
        }
        assert_eq!(meta.dirty_hours, [960, 1080]);
        FlushTarget::of(BucketStart(0), &listed, Backfill::default()).note_late(&mut meta);
        assert_eq!(
            meta.dirty_hours,
            [960, 1080],
            "an hour bucket is never dirty"
        );
    }

    #[test]
    fn a_wide_backfill_makes_windows_of_what_nothing_is_listed_of() {
        let hours = |from: u32, count: u32| (0..count).map(move |i| BucketStart(from + i * 60));
        let now_ms = 960 * 1000 * MINUTE_MS;
        let wide = Backfill::of(hours(960, 64), now_ms);
        let listed = BTreeSet::from([bucket(1, 960 * 2 + 60), bucket(3, 960 * 3 + 240)]);
        let check = |backfill: Backfill, hour: u32, expected: Bucket| {
            let place = FlushTarget::of(BucketStart(hour), &listed, backfill);
            assert_eq!((place.bucket, place.listed), (expected, false));
        };
        check(wide, 960, bucket(5, 960));
        check(wide, 1860, bucket(5, 960));
        // Something of the window is a bucket already, of an hour or of four.
        check(wide, 960 * 2, bucket(1, 960 * 2));
        check(wide, 960 * 3, bucket(1, 960 * 3));
        check(wide, 960 * 4, bucket(5, 960 * 4));
        // The window is not long over.
        let day_ago = ((now_ms - OVER_MS) / MINUTE_MS) as u32 / 60 * 60;
        check(wide, day_ago, bucket(1, day_ago));
        let narrow = Backfill::of(hours(960, 31), now_ms);
        check(narrow, 960, bucket(1, 960));
        let recent = Backfill::of(hours(day_ago, 64), now_ms);
        check(recent, 960, bucket(1, 960));
    }
}
