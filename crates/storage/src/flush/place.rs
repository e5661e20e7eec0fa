//! Where an hour is written, and in which form.
//!
//! Holds always:
//! - The list decides: the listed bucket that covers the hour, else the bucket of the hour itself.
//!   A coarser bucket leaves the list only together with the coming of one that covers it, so an hour
//!   never goes back to a bucket that was retired.
//! - A coarse bucket gets late samples: streams behind its columns, and a note which hours they are of.

use std::collections::BTreeSet;

use bytes::Bytes;
use icecore_model::{BucketSize, BucketStart};
use icecore_records::bucket_meta::BucketMeta;
use icecore_records::{Bucket, HistogramEntry, coarse_samples, histogram_series};

/// The largest exponent of a bucket size.
const EXPONENT_MAX: u8 = 15;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The hour as a bucket: cursors are kept by hour.
    pub(super) hour: Bucket,
    /// Where its records go.
    pub(super) bucket: Bucket,
    /// Whether that bucket is listed: then records join what is there.
    pub(super) listed: bool,
}

impl Place {
    pub(super) fn of(hour: u32, listed: &BTreeSet<Bucket>) -> Self {
        let hour = Bucket::hour(BucketStart(hour));
        // The largest first: buckets never overlap, and if they did, the coarser one is the newer.
        let covering = (1..=EXPONENT_MAX).rev().find_map(|exponent| {
            let size = BucketSize::from_exponent(exponent)?;
            let start = size.bucket_of(hour.start_ms())?;
            let bucket = Bucket { size, start };
            listed.contains(&bucket).then_some(bucket)
        });
        Self {
            hour,
            bucket: covering.unwrap_or(hour),
            listed: covering.is_some(),
        }
    }

    fn is_coarse(self) -> bool {
        self.bucket.size > BucketSize::HOUR
    }

    /// The value for a Gorilla stream.
    pub(super) fn samples_value(self, stream: Bytes) -> Bytes {
        match self.is_coarse() {
            true => coarse_samples::late_stream(&stream),
            false => stream,
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
            let place = Place::of(hour, &listed);
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
            Place::of(hour, &listed).note_late(&mut meta);
        }
        assert_eq!(meta.dirty_hours, [960, 1080]);
        Place::of(0, &listed).note_late(&mut meta);
        assert_eq!(
            meta.dirty_hours,
            [960, 1080],
            "an hour bucket is never dirty"
        );
    }
}
